"""A server that ignored a flag is found by what it says of itself."""

from __future__ import annotations

import pytest

from benchsuite.collect.requirements import other_model, unmet_requirements
from benchsuite.model.record import ModelFacts, ServerFacts
from benchsuite.model.scenario import FlagNeed


def _facts(slots: int, n_ctx_slot: int, unified: bool | None) -> ServerFacts:
    return ServerFacts("binary", slots=slots, n_ctx_slot=n_ctx_slot, kv_unified=unified)


@pytest.mark.parametrize(
    ("flags", "kv_types", "words"),
    [
        ({"cache-type-k": "q8_0"}, {"cache-type-k": "q8_0", "cache-type-v": "f16"}, None),
        ({"cache-type-k": "Q8_0"}, {"cache-type-k": "q8_0"}, None),
        ({"cache-type-k": "q8_0"}, {}, None),
        ({"cache-type-k": "q8_0"}, {"cache-type-k": "f16"}, "asked for q8_0, the log says f16"),
        ({"cache-type-v": "f16"}, {"cache-type-v": "f16, q8_0"}, "the log says f16, q8_0"),
        ({"spec-draft-type-k": "q8_0"}, {"cache-type-k-draft": "f16"}, "cache-type-k-draft: asked"),
    ],
)
def test_the_types_of_every_kv_cache_are_checked(
    flags: dict[str, str], kv_types: dict[str, str], words: str | None
) -> None:
    """Of the draft model too, whose types were once ignored (#11200)."""
    found = unmet_requirements(flags, {}, ServerFacts("binary", kv_types=kv_types))
    assert len(found) == (words is not None)
    assert all(words is not None and words in sentence for sentence in found)


@pytest.mark.parametrize(
    ("device", "devices", "words"),
    [
        ("RPC", ("CPU", "RPC0[127.0.0.1:50052]"), None),
        ("cuda", ("CUDA0", "CUDA_Host"), None),
        (None, ("CPU",), None),
        ("CUDA", (), None),  # the log told none
        ("CUDA", ("CPU",), "device: asked for one of kind CUDA, in use: CPU"),
    ],
)
def test_a_required_device_must_be_in_use(
    device: str | None, devices: tuple[str, ...], words: str | None
) -> None:
    """A variant that needs a device and ran without it has measured something else."""
    found = unmet_requirements({}, {}, ServerFacts("binary", devices=devices), device)
    assert found == ([] if words is None else [words])


@pytest.mark.parametrize(
    ("flags", "facts", "words"),
    [
        ({"parallel": "2", "ctx-size": "8192"}, _facts(2, 4096, False), None),
        ({"parallel": "2", "ctx-size": "8192"}, _facts(1, 8192, False), "asked for 2 slots"),
        ({"parallel": "3", "ctx-size": "1000"}, _facts(3, 512, False), None),
        ({"parallel": "2", "ctx-size": "8192"}, _facts(2, 2048, False), "makes 4096 tokens"),
        ({"parallel": "2", "ctx-size": "8192", "kv-unified": "true"}, _facts(2, 8192, True), None),
        ({"parallel": "2", "kv-unified": "true"}, _facts(2, 4096, False), "runs per-slot KV"),
        ({"kv-unified": "false"}, _facts(2, 4096, True), "asked for per-slot KV"),
        ({"parallel": "2"}, _facts(2, 4096, None), None),
    ],
)
def test_slots_context_and_unified_are_checked(
    flags: dict[str, str], facts: ServerFacts, words: str | None
) -> None:
    """Contexts are padded to 256 cells, which is no fault; fewer slots are one."""
    found = unmet_requirements(flags, {}, facts)
    if words is None:
        assert found == []
    else:
        assert len(found) == 1
        assert words in found[0]


def test_a_slot_is_capped_at_the_trained_context() -> None:
    """llama-server does so and says it; that is no ignored flag, but less than that is one."""
    model = ModelFacts(n_ctx_train=2048)
    flags = {"parallel": "2", "ctx-size": "8192"}
    capped = ServerFacts("binary", slots=2, n_ctx_slot=2048, kv_unified=False, model=model)
    assert unmet_requirements(flags, {}, capped) == []
    less = ServerFacts("binary", slots=2, n_ctx_slot=1024, kv_unified=False, model=model)
    assert "makes 2048 tokens a slot" in unmet_requirements(flags, {}, less)[0]


def test_a_minimum_a_slot_holds_for_servers_that_we_did_not_start() -> None:
    """An attached server has no flags of ours, only what it says of itself."""
    needs = {"ctx-size": FlagNeed(kind="min", min=4096, per="slot")}
    assert unmet_requirements({}, needs, _facts(4, 2048, None)) == [
        "ctx-size: the scenario needs 4096 tokens a slot, the server has 2048"
    ]


def test_a_server_may_have_more_slots_than_a_scenario_needs() -> None:
    """And no fewer; what a flag says exactly is held against the flag."""
    needs = {"parallel": FlagNeed(kind="min", min=2)}
    assert unmet_requirements({}, needs, _facts(4, 4096, None)) == []
    assert unmet_requirements({}, needs, _facts(1, 4096, None)) == [
        "parallel: the scenario needs 2 slots, the server has 1 (/props total_slots)"
    ]
    assert len(unmet_requirements({"parallel": "2"}, needs, _facts(4, 4096, None))) == 1


@pytest.mark.parametrize(
    ("flags", "told", "words"),
    [
        ({"batch-size": "256"}, {"batch-size": "256", "ubatch-size": "64"}, None),
        (
            {"batch-size": "256", "ubatch-size": "64"},
            {"batch-size": "2048", "ubatch-size": "512"},
            "batch-size: asked for 256, the log says 2048",
        ),
        (
            {"ubatch-size": "96"},
            {"batch-size": "2048", "ubatch-size": "512"},
            "ubatch-size: asked for 96, the log says 512",
        ),
        # capped: by the context, and by the batch
        (
            {"batch-size": "4096", "ctx-size": "1024"},
            {"batch-size": "1024", "ubatch-size": "512"},
            None,
        ),
        (
            {"batch-size": "256", "ubatch-size": "512"},
            {"batch-size": "256", "ubatch-size": "256"},
            None,
        ),
        # made equal for embeddings
        ({"batch-size": "2048"}, {"batch-size": "512", "ubatch-size": "512"}, None),
        ({"flash-attn": "off"}, {"flash-attn": "off"}, None),
        ({"flash-attn": "auto"}, {"flash-attn": "on"}, None),
        (
            {"flash-attn": "off"},
            {"flash-attn": "auto"},
            "flash-attn: asked for off, the log says auto",
        ),
        ({"flash-attn": "on", "batch-size": "64"}, {}, None),
    ],
)
def test_batches_and_flash_attention_are_those_asked_for(
    flags: dict[str, str], told: dict[str, str], words: str | None
) -> None:
    """As the log prints them of the target context; caps are no disobedience."""
    found = unmet_requirements(flags, {}, ServerFacts("binary", context_flags=told))
    assert found[:1] == ([] if words is None else [words])


@pytest.mark.parametrize(
    ("asked", "told", "words"),
    [
        ("/models/a.gguf", "/models/a.gguf", None),
        ("/models/a.gguf", "a.gguf", None),
        ("C:\\models\\a.gguf", "C:/models/a.gguf", None),
        ("/models/a.gguf", None, None),
        ("", "/models/b.gguf", None),
        ("/models/a.gguf", "/models/b.gguf", "model: asked for a.gguf, the server has b.gguf"),
    ],
)
def test_the_model_is_the_one_that_was_asked_for(
    asked: str, told: str | None, words: str | None
) -> None:
    """By the file's name; what is not known on one side is not held against the other."""
    found = other_model(asked, told)
    assert found is None if words is None else found is not None and found.startswith(words)
