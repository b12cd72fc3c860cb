"""Expected memory comes from the model file and the flags as asked; what is unsure is unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchsuite.model.scenario import FlagValue
from benchsuite.model.shape import AttentionLayer, ModelShape, UnknownMemory
from benchsuite.pipeline.analytic import analytic_measurements
from benchsuite.scenario.flags import FlagTable, parse_help

HELP = """\
-c,    --ctx-size N                     size of the prompt context
                                        (env: LLAMA_ARG_CTX_SIZE)
-np,   --parallel N                     number of server slots
                                        (env: LLAMA_ARG_N_PARALLEL)
-kvu,  --kv-unified, -no-kvu, --no-kv-unified
                                        use single unified KV buffer
                                        (env: LLAMA_ARG_KV_UNIFIED)
--kv-unified-per-slot N                 context limit per slot
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
-b,    --batch-size N                   logical maximum batch size
-ub,   --ubatch-size N                  physical maximum batch size
--swa-full                              use full-size SWA cache
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-fit,  --fit [on|off]                   whether to adjust unset arguments
--attention {causal,non-causal}         attention type
--override-kv KEY=TYPE:VALUE,...        override model metadata
-sm,   --split-mode {none,layer,row,tensor}
                                        how to split the model
--spec-type TYPE                        speculative decoding
"""
TABLE = parse_help(HELP, "a test")
WITHOUT_FIT = parse_help("".join(HELP.splitlines(keepends=True)[:3]), "an older build")

LAYER = AttentionLayer(4, 32, 32)
SHAPE = ModelShape("llama", 4, 32768, (LAYER,) * 4, widest_values=128)
SWA = ModelShape(
    "gemma3",
    4,
    32768,
    (LAYER, AttentionLayer(4, 32, 32, sliding=True)) * 2,
    window=64,
    widest_values=128,
)
HYBRID = ModelShape(
    "jamba", 4, 4096, (LAYER,), widest_values=128, recurrent_layers=3, r_width=256, s_width=1024
)


def values(
    shape: ModelShape | UnknownMemory = SHAPE,
    flags: Mapping[str, FlagValue] | None = None,
    *,
    env: dict[str, str] | None = None,
    table: FlagTable = TABLE,
    build: str | None = "b11434-abc",
) -> dict[str, float | str]:
    """The values by name and cache; `unknown` where there are none."""
    asked = {"ctx-size": "8192", "parallel": "2"} if flags is None else flags
    found, unknown = analytic_measurements(shape, asked, env or {}, table, build, "B", 3)
    assert bool(found) != bool(unknown)
    if unknown:
        return {"unknown": unknown}
    assert all((m.variant, m.trial, m.quantum) == ("B", 3, 0.0) for m in found)
    return {" ".join([m.name, *m.labels.values()]): m.value for m in found}


def test_flags_decide_what_a_model_weighs() -> None:
    """4 layers of 4 heads of 32, K and V of F16 in 8192 cells: 16 MiB."""
    assert values() == {"kv_mib": 16.0, "kv_cells": 8192}
    quantised = {"cache-type-k": "q8_0", "cache-type-v": "q4_0"}
    found = values(flags={"ctx-size": "8192", "parallel": "2", **quantised})
    assert found["kv_mib"] == 8 * (34 / 64 + 18 / 64)


def test_every_flag_that_matters_is_heard() -> None:
    """Each changes the sizes of some model; unset ones are llama-server's defaults."""
    assert values(flags={"ctx-size": "8192"}) == values(
        flags={"ctx-size": "8192", "parallel": "-1"}
    )
    assert values(flags={"ctx-size": "1000", "parallel": "3"})["kv_cells"] == 1536
    unified = {"ctx-size": "1000", "parallel": "3", "kv-unified": "on"}
    assert values(flags=unified)["kv_cells"] == 1024
    assert values(flags={"kv-unified-per-slot": "512", "parallel": "2"})["kv_cells"] == 1024
    base: dict[str, FlagValue] = {"ctx-size": "8192", "parallel": "1"}
    assert values(SWA, base)["kv_cells swa"] == 768
    assert values(SWA, {**base, "ubatch-size": "32"})["kv_cells swa"] == 256
    assert values(SWA, {**base, "batch-size": "32"})["kv_cells swa"] == 256
    assert values(SWA, {**base, "swa-full": "on"})["kv_cells swa"] == 8192


def test_parts_are_told_where_there_are_several() -> None:
    """By cache, and recurrent state apart."""
    found = values(SWA)
    assert found["kv_mib"] == float(found["kv_mib full"]) + float(found["kv_mib swa"])
    assert set(values(HYBRID)) == {"kv_mib", "kv_cells", "rs_mib"}


def test_flags_of_the_environment_count_below_those_given() -> None:
    """A deployment may set `LLAMA_ARG_*`; a variable that the build does not read counts not."""
    env = {"LLAMA_ARG_CTX_SIZE": "1024", "LLAMA_ARG_N_PARALLEL": "4", "LLAMA_ARG_NOTHING": "1"}
    assert values(flags={"parallel": "2"}, env=env)["kv_cells"] == 1024
    assert values(flags={"ctx-size": "512", "parallel": "2"}, env=env)["kv_cells"] == 512
    odd = values(env={"LLAMA_ARG_KV_UNIFIED": "perhaps"})["unknown"]
    assert "LLAMA_ARG_KV_UNIFIED is set to 'perhaps'" in str(odd)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"parallel": "2"}, "chooses the context by free memory"),
        ({"parallel": "2", "fit": "on"}, "chooses the context by free memory"),
        ({"ctx-size": "x"}, "--ctx-size is 'x'"),
        ({"ctx-size": ("1", "2")}, "--ctx-size is given 2 times"),
        ({"ctx-size": "512", "override-kv": "llama.block_count=int:3"}, "--override-kv"),
        ({"ctx-size": "512", "split-mode": "tensor"}, "--split-mode tensor"),
        ({"ctx-size": "512", "cache-type-k": "fp8"}, "cache type 'fp8'"),
    ],
)
def test_what_flags_leave_open_is_unknown(flags: dict[str, FlagValue], words: str) -> None:
    """With the flag in the reason."""
    assert words in str(values(flags=flags)["unknown"])


def test_the_models_own_context_holds_where_nothing_is_fitted() -> None:
    """With fitting off, or in a build that has none."""
    assert values(flags={"parallel": "1", "fit": "off"})["kv_cells"] == 32768
    assert values(flags={"parallel": "1"}, table=WITHOUT_FIT)["kv_cells"] == 32768


def test_drafts_may_keep_rows_of_recurrent_state() -> None:
    """KV is not touched by them."""
    flags: dict[str, FlagValue] = {"ctx-size": "512", "spec-type": "ngram"}
    assert "--spec-type" in str(values(HYBRID, flags)["unknown"])
    assert "unknown" not in values(SHAPE, flags)


def test_an_unknown_shape_is_unknown_for_its_own_reason() -> None:
    """The sentence is passed on."""
    assert values(UnknownMemory("no such thing")) == {"unknown": "no such thing"}


NEXTN = ModelShape(
    "glm4moe", 5, 4096, (LAYER,) * 4, widest_values=128, nextn_layers=1, nextn_build=11434
)
SPARE = {"ctx-size": "1000", "parallel": "1"}


@pytest.mark.parametrize(
    ("shape", "build", "flags", "known"),
    [
        (SHAPE, "b10092-1", SPARE, True),
        (SHAPE, "b10091-1", SPARE, False),
        (SHAPE, "b6000-1", {"ctx-size": "1024", "parallel": "2"}, True),
        (SHAPE, "b6000-1", {"ctx-size": "1024", "parallel": "3"}, False),
        (SHAPE, "b6000-1", {"ctx-size": "1024"}, False),
        (SWA, "b6000-1", {"ctx-size": "1024", "parallel": "1"}, False),
        (SHAPE, "b1-7e4c0a9", SPARE, True),
        (SHAPE, "b0-unknown", SPARE, True),
        (SHAPE, None, SPARE, True),
        (NEXTN, "b11434-1", SPARE, True),
        (NEXTN, "11549", SPARE, True),
        (NEXTN, "b10434-1", SPARE, False),
        (NEXTN, "b1-7e4c0a9", SPARE, False),
        (NEXTN, None, SPARE, False),
    ],
)
def test_formulas_are_trusted_for_the_builds_they_were_checked_on(
    shape: ModelShape, build: str | None, flags: dict[str, FlagValue], known: bool
) -> None:
    """Of older builds only what no rule of theirs can change; unnumbered ones count as new, but
    not where builds are known to differ."""
    found = values(shape, flags, build=build)
    assert ("unknown" not in found) is known
    if not known and build is not None:
        assert build in str(found["unknown"])
