"""What a header says of the cache: by architecture, as real servers laid it out, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.metrics.kv_formula import CacheSettings, ExpectedMemory, expected_memory
from benchsuite.model.shape import AttentionLayer, ModelShape, UnknownMemory
from benchsuite.server import gguf_facts
from benchsuite.server.gguf_arch import RULES, UNVERIFIED
from benchsuite.server.gguf_shape import read_model_shape
from benchsuite.server.tiny_model import write_tiny_model
from benchsuite.units import MIB
from tests.unit.server.gguf_example import Header, Value, write_model

SEEN = Path(__file__).parents[2] / "fixtures" / "shapes"

PLAIN: dict[str, Value] = {
    "block_count": 4,
    "context_length": 4096,
    "embedding_length": 256,
    "feed_forward_length": 512,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
}


def shape_of(tmp_path: Path, architecture: str, **keys: Value) -> ModelShape | UnknownMemory:
    """The shape of a header with `PLAIN` keys and these; `__` stands for the dot, None removes."""
    named = {key.replace("__", "."): value for key, value in keys.items()}
    wanted = {key: value for key, value in (PLAIN | named).items() if value != "none"}
    return read_model_shape(write_model(tmp_path / "m.gguf", architecture, wanted))


def known(tmp_path: Path, architecture: str, **keys: Value) -> ModelShape:
    """The shape, which is known."""
    found = shape_of(tmp_path, architecture, **keys)
    assert isinstance(found, ModelShape), found
    return found


def unknown(tmp_path: Path, architecture: str, **keys: Value) -> str:
    """Why there is none."""
    found = shape_of(tmp_path, architecture, **keys)
    assert isinstance(found, UnknownMemory), found
    return found.reason


def _cases() -> list[Any]:
    found = []
    for file in sorted(SEEN.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            model = json.loads(line)
            found.append(pytest.param(model, id=f"{file.stem} {model['architecture']}"))
    return found


def _settings(flags: dict[str, Any]) -> CacheSettings:
    return CacheSettings(**flags)


@pytest.mark.parametrize("model", _cases())
def test_every_architecture_is_laid_out_as_a_real_server_did(
    tmp_path: Path, model: dict[str, Any]
) -> None:
    """Layers, cells, streams, K and V of each cache, and recurrent state, to the printed digit.

    The fixtures hold the metadata of small models without meaning and what llama-server logged
    when it made a context for them: builds 10434 and 11549 on CPU.
    """
    shape = read_model_shape(write_model(tmp_path / "m.gguf", model["architecture"], model["keys"]))
    assert isinstance(shape, ModelShape), shape
    for case in model["cases"]:
        found = expected_memory(shape, _settings(case["settings"]))
        assert isinstance(found, ExpectedMemory), found
        ours = [
            [c.cache, c.layers, c.cells, c.streams, c.k_bytes / MIB, c.v_bytes / MIB]
            for c in found.caches
        ]
        assert [row[:4] for row in ours] == [row[:4] for row in case["kv"]]
        for row, logged in zip(ours, case["kv"], strict=True):
            assert row[4:] == pytest.approx(logged[4:], abs=0.00501)
        state = None if found.state is None else found.state.mib
        assert state == (case["rs_mib"] and pytest.approx(case["rs_mib"], abs=0.00501))


def test_the_fixtures_are_there() -> None:
    """Dozens of architectures were seen; of those that were not, each line of the table is tested
    below."""
    assert len({case.values[0]["architecture"] for case in _cases()}) >= 40


def test_the_tiny_model_has_four_layers_alike(tmp_path: Path) -> None:
    """4 KV heads of 32."""
    write_tiny_model(tmp_path / "tiny.gguf")
    shape = read_model_shape(tmp_path / "tiny.gguf")
    assert isinstance(shape, ModelShape)
    assert shape.layers == (AttentionLayer(4, 32, 32),) * 4
    assert (shape.window, shape.recurrent_layers, shape.n_ctx_train) == (None, 0, 32768)


def test_every_architecture_whose_attention_is_known_is_in_the_table_or_explained() -> None:
    """Facts and shapes are read by two tables; neither may fall behind."""
    kinds = (
        *(gguf_facts._RECURRENT, gguf_facts._HYBRID, gguf_facts._SLIDING_ALWAYS),
        *(gguf_facts._SLIDING_IF_DECLARED, gguf_facts._FULL, gguf_facts._CACHELESS),
    )
    names = frozenset[str]().union(*kinds)
    assert names <= set(RULES) | set(UNVERIFIED)
    assert not set(RULES) & set(UNVERIFIED)
    recurrent = {name for name, rule in RULES.items() if rule.recurrent is not None}
    assert recurrent == (gguf_facts._RECURRENT | gguf_facts._HYBRID) & set(RULES)
    sliding = {name for name, rule in RULES.items() if rule.window is not None} - recurrent
    known_sliding = gguf_facts._SLIDING_ALWAYS | gguf_facts._SLIDING_IF_DECLARED
    assert sliding - {"llama4", "exaone4"} == known_sliding & set(RULES)


@pytest.mark.parametrize("architecture", sorted(UNVERIFIED))
def test_what_was_not_verified_is_said_and_not_guessed(tmp_path: Path, architecture: str) -> None:
    """By name, with the reason."""
    reason = unknown(tmp_path, architecture)
    assert reason == (
        f"the cache of architecture '{architecture}' is not known to benchsuite: "
        f"{UNVERIFIED[architecture]}"
    )


@pytest.mark.parametrize("architecture", ["somebodys-new-one", "LLAMA", "llama2"])
def test_an_architecture_that_is_not_in_the_table_is_unknown(
    tmp_path: Path, architecture: str
) -> None:
    """However much its keys look like those of another."""
    assert "its rules are not in benchsuite's table" in unknown(tmp_path, architecture)


def test_a_file_without_architecture_is_unknown(tmp_path: Path) -> None:
    """An empty header is a GGUF file all the same."""
    (tmp_path / "m.gguf").write_bytes(Header().content())
    found = read_model_shape(tmp_path / "m.gguf")
    assert isinstance(found, UnknownMemory)
    assert "does not name its architecture" in found.reason


def test_a_later_part_of_a_split_model_is_unknown(tmp_path: Path) -> None:
    """Only the first has the metadata."""
    header = Header().text("general.architecture", "llama").number("split.no", 1)
    (tmp_path / "m.gguf").write_bytes(header.content())
    found = read_model_shape(tmp_path / "m.gguf")
    assert isinstance(found, UnknownMemory)
    assert "give its first part" in found.reason


def test_heads_default_to_what_the_file_leaves_out(tmp_path: Path) -> None:
    """KV heads are the heads, and their size is the embedding shared out."""
    shape = known(tmp_path, "llama", attention__head_count_kv="none")
    assert shape.layers == (AttentionLayer(8, 32, 32),) * 4
    shape = known(tmp_path, "llama", attention__key_length=64, attention__value_length=48)
    assert shape.layers == (AttentionLayer(2, 64, 48),) * 4


def test_heads_may_differ_by_layer(tmp_path: Path) -> None:
    """A layer without KV heads weighs nothing but counts, as llama-server counts it."""
    shape = known(tmp_path, "deci", attention__head_count_kv=[1, 0, 8, 2])
    assert [layer.kv_heads for layer in shape.layers] == [1, 0, 8, 2]
    assert shape.widest_values == 256


def test_layers_that_only_predict_further_tokens_keep_nothing(tmp_path: Path) -> None:
    """And the oldest build known to do so is named."""
    shape = known(tmp_path, "glm4moe", nextn_predict_layers=1)
    assert (len(shape.layers), shape.nextn_layers, shape.nextn_build) == (3, 1, 11434)
    assert known(tmp_path, "glm4moe").nextn_build == 0


@pytest.mark.parametrize(
    ("architecture", "keys", "sliding"),
    [
        ("gemma2", {}, "ywyw"),
        ("gemma3", {"attention__sliding_window": 0}, "----"),
        ("gemma3", {"attention__sliding_window_pattern": 2}, "ywyw"),
        ("gemma3", {"attention__sliding_window_pattern": 1}, "wwww!"),
        ("gemma3", {"attention__sliding_window_pattern": 0}, "yyyy"),
        ("gemma3", {"attention__sliding_window_pattern": [True, False, False, True]}, "ywwy"),
        ("gemma3", {"attention__sliding_window_pattern": [0, 1]}, "wyww"),
        ("cohere2moe", {}, "wyyy"),
        ("gpt-oss", {}, "ywyw"),
        ("exaone4", {}, "----"),
        ("phi3", {}, "----"),
        ("qwen2moe", {}, "----"),
        ("llama4", {"attention__sliding_window": "none"}, "yyyw"),
        ("llama4", {"attention__sliding_window": 0}, "----"),
        ("laguna", {}, "wyyy"),
        ("smallthinker", {}, "wyyy"),
    ],
)
def test_windows_lie_where_the_architecture_puts_them(
    tmp_path: Path, architecture: str, keys: dict[str, Value], sliding: str
) -> None:
    """`y` slides, `w` sees the whole; `-` where there is no window; `!` where nothing slides."""
    keys = {"attention__sliding_window": 128, **keys}
    if sliding.endswith("!"):
        assert "no layer slides" in unknown(tmp_path, architecture, **keys)
        return
    shape = known(tmp_path, architecture, **keys)
    assert (shape.window is None) == ("-" in sliding)
    marks = "".join("y" if layer.sliding else "w" for layer in shape.layers)
    assert marks == sliding.replace("-", "w")


def test_some_windows_have_a_size_of_their_own(tmp_path: Path) -> None:
    """Whatever the file says, or where it says nothing."""
    assert known(tmp_path, "gemma2").window == 4096
    assert known(tmp_path, "gemma2", attention__sliding_window=99).window == 99
    assert known(tmp_path, "smallthinker", attention__sliding_window=99).window == 4096
    assert known(tmp_path, "llama4", attention__sliding_window=99).window == 8192


def test_sliding_layers_may_have_heads_of_another_size(tmp_path: Path) -> None:
    """gemma4 gives both, and its last layers use the KV of others."""
    shape = known(
        tmp_path,
        "gemma4",
        block_count=6,
        attention__sliding_window=512,
        attention__sliding_window_pattern=[True, False] * 3,
        attention__key_length=512,
        attention__value_length=512,
        attention__key_length_swa=256,
        attention__value_length_swa=256,
        attention__shared_kv_layers=2,
    )
    assert [layer.key_size for layer in shape.layers] == [256, 512, 256, 512]
    assert shape.widest_values == 1024


def test_latent_attention_keeps_no_values(tmp_path: Path) -> None:
    """With the MLA lengths; without them deepseek2 is laid out as plain attention."""
    lengths: dict[str, Value] = {
        "attention__head_count_kv": 1,
        "attention__key_length": 576,
        "attention__value_length": 512,
    }
    mla: dict[str, Value] = {"attention__key_length_mla": 192, "attention__value_length_mla": 128}
    shape = known(tmp_path, "deepseek2", **lengths, **mla)
    assert (shape.mla, shape.layers[0]) == (True, AttentionLayer(1, 576, 0))
    shape = known(tmp_path, "deepseek2", **lengths)
    assert (shape.mla, shape.layers[0]) == (False, AttentionLayer(1, 576, 512))
    reason = unknown(tmp_path, "deepseek2", **lengths, attention__key_length_mla=192)
    assert "one of key_length_mla and value_length_mla is missing" in reason
    assert "lacks 'kimi-linear.attention.key_length_mla'" in unknown(tmp_path, "kimi-linear")


@pytest.mark.parametrize(
    ("architecture", "keys", "widths"),
    [
        ("rwkv7", {"wkv__head_size": 64}, (512, 16384)),
        ("arwkv7", {"wkv__head_size": 64, "token_shift_count": 1}, (256, 16384)),
        (
            "mamba",
            {"ssm__conv_kernel": 4, "ssm__inner_size": 512, "ssm__state_size": 16},
            (1536, 8192),
        ),
        (
            "mamba2",
            {
                "ssm__conv_kernel": 4,
                "ssm__inner_size": 512,
                "ssm__state_size": 16,
                "ssm__group_count": 2,
            },
            (3 * (512 + 64), 8192),
        ),
    ],
)
def test_recurrent_models_keep_a_state_in_every_layer(
    tmp_path: Path, architecture: str, keys: dict[str, Value], widths: tuple[int, int]
) -> None:
    """And no KV at all."""
    shape = known(tmp_path, architecture, **keys)
    assert shape.layers == ()
    assert (shape.recurrent_layers, shape.r_width, shape.s_width) == (4, *widths)


def test_hybrid_layers_are_told_apart_by_heads_by_list_or_by_interval(tmp_path: Path) -> None:
    """Each architecture in its own way."""
    ssm: dict[str, Value] = {
        "ssm__conv_kernel": 4,
        "ssm__inner_size": 512,
        "ssm__state_size": 16,
        "ssm__group_count": 1,
    }

    def counts(architecture: str, **keys: Value) -> tuple[int, int]:
        shape = known(tmp_path, architecture, **ssm, **keys)
        return len(shape.layers), shape.recurrent_layers

    assert counts("jamba", attention__head_count_kv=[0, 0, 2, 0]) == (1, 3)
    assert counts("falcon-h1") == (4, 4)
    heads: Value = [0, 2, 0, 0]
    feed_forward: Value = [0, 0, 64, 64]
    nemotron = counts(
        "nemotron_h", attention__head_count_kv=heads, feed_forward_length=feed_forward
    )
    assert nemotron == (1, 1)
    assert counts("qwen3next") == (1, 3)
    assert counts("qwen3next", full_attention_interval=2) == (2, 2)
    assert counts("qwen3next", attention__recurrent_layers=[True, False, False, False]) == (3, 1)
    assert counts("qwen35", block_count=5, nextn_predict_layers=1) == (1, 3)
    reason = unknown(tmp_path, "qwen3next", **ssm, full_attention_interval=0)
    assert "'full_attention_interval' is 0" in reason


@pytest.mark.parametrize(
    ("architecture", "keys", "words"),
    [
        ("llama", {"block_count": "none"}, "lacks 'llama.block_count'"),
        ("llama", {"block_count": 0}, "0 layers"),
        ("llama", {"block_count": 513}, "513 layers"),
        ("llama", {"block_count": 2**32 - 1}, "layers, where 1 to 512 can be loaded"),
        ("llama", {"context_length": "none"}, "lacks 'llama.context_length'"),
        ("llama", {"embedding_length": 1.5}, "is no whole number"),
        ("llama", {"embedding_length": "many"}, "is no whole number"),
        ("llama", {"attention.head_count_kv": -2}, "is no whole number"),
        ("llama", {"attention.head_count_kv": [1, 2]}, "has 2 values for 4 layers"),
        ("llama", {"attention.head_count_kv": [1, 2, 3, -4]}, "holds more than whole numbers"),
        ("llama", {"attention.head_count_kv": [1.0, 2.0, 3.0, 4.0]}, "more than whole numbers"),
        ("llama", {"attention.key_length": [32, 32, 32, 32]}, "is no whole number"),
        ("llama", {"nextn_predict_layers": 5}, "5 of 4 layers are said to be nextn layers"),
        ("cohere2", {}, "lacks 'cohere2.attention.sliding_window'"),
        ("step35", {"attention.sliding_window": 9}, "sliding_window_pattern'"),
        ("gemma4", {"attention.shared_kv_layers": 3}, "sliding_window"),
        ("mamba", {}, "lacks 'mamba.ssm."),
        ("lfm2", {"attention.head_count_kv": [0, 1, 0, 0]}, "lacks 'lfm2.shortconv.l_cache'"),
    ],
)
def test_a_key_that_is_missing_or_does_not_suit_makes_it_unknown(
    tmp_path: Path, architecture: str, keys: dict[str, Value], words: str
) -> None:
    """Nothing is filled in; the sentence names the key."""
    merged = {key: value for key, value in (PLAIN | keys).items() if value != "none"}
    found = read_model_shape(write_model(tmp_path / "m.gguf", architecture, merged))
    assert isinstance(found, UnknownMemory), found
    assert found.reason.startswith(f"the cache of architecture '{architecture}': ")
    assert words in found.reason


NUMBERS = st.integers(-5, 2**31 - 1)
VALUES = st.one_of(
    NUMBERS, st.lists(NUMBERS, min_size=1, max_size=6), st.floats(width=32), st.booleans()
)
KEYS = sorted(
    {
        *PLAIN,
        "attention.key_length",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "attention.shared_kv_layers",
        "attention.key_length_mla",
        "full_attention_interval",
        "nextn_predict_layers",
        "ssm.conv_kernel",
        "ssm.inner_size",
        "ssm.state_size",
        "wkv.head_size",
        "num_loops",
    }
)


@given(
    architecture=st.sampled_from(sorted(RULES)),
    keys=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8),
)
def test_a_hostile_header_is_known_or_unknown_and_never_an_exception(
    tmp_path_factory: pytest.TempPathFactory, architecture: str, keys: dict[str, Value]
) -> None:
    """Sizes that come out are whole and not negative."""
    path = tmp_path_factory.getbasetemp() / "hostile.gguf"
    shape = read_model_shape(write_model(path, architecture, PLAIN | keys))
    if isinstance(shape, UnknownMemory):
        assert shape.reason
        return
    found = expected_memory(shape, CacheSettings(1000, 3, n_ubatch=64))
    assert isinstance(found, UnknownMemory) or found.kv_mib >= 0
    assert len(shape.layers) <= 513
