"""What a launch's model file and flags make of its memory; pure.

Flags are taken as asked, never as the server answers: a server that ignores one must not agree
with itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchsuite.errors import FlagError
from benchsuite.metrics.kv_formula import (
    CacheSettings,
    ExpectedMemory,
    expected_memory,
)
from benchsuite.model.record import Measurement
from benchsuite.model.scenario import FlagValue
from benchsuite.model.shape import ModelShape, UnknownMemory
from benchsuite.scenario.flags import OFF, ON, FlagTable

_CHANGES_METADATA = "override-kv"
_OLDEST_BUILD = 10092
"""Oldest build on which the formulas were held against real servers."""
_LEAST_NUMBER = 1000
"""Smaller build numbers are those of a build that does not know its own (`b1-7e4c0a9`)."""

_SPECULATION = ("spec-", "draft", "model-draft")
"""How flags of speculative decoding begin: with some, recurrent state keeps more rows."""


class _UnreadableFlagError(Exception):
    """A flag whose effect on memory is not known; the sentence says which."""


def analytic_measurements(
    shape: ModelShape | UnknownMemory,
    flags: Mapping[str, FlagValue],
    env: Mapping[str, str],
    table: FlagTable,
    build: str | None,
    variant: str,
    trial: int = 1,
) -> tuple[tuple[Measurement, ...], str]:
    """`kv_mib`, `kv_cells` and `rs_mib` as they must be, or why they cannot be told.

    Args:
        shape: Of the model file.
        flags: What the server is given, by canonical name.
        env: What the deployment sets for it; its `LLAMA_ARG_*` count where no flag is given.
        table: The flags of the build.
        build: As the server tells it.
        variant: For the measurements.
        trial: Likewise, from 1.

    Returns:
        The measurements, exact: without print quantum; KV by cache too where there are several.
        And the reason, empty where they are told.
    """
    if isinstance(shape, UnknownMemory):
        return (), shape.reason
    try:
        settings = cache_settings(with_environment(flags, env, table), table, shape)
    except _UnreadableFlagError as error:
        return (), str(error)
    expected = expected_memory(shape, settings)
    if isinstance(expected, UnknownMemory):
        return (), expected.reason
    untested = _untested(shape, settings, build)
    if untested is not None:
        return (), untested
    return tuple(as_measurements(expected, variant, trial)), ""


def as_measurements(
    expected: ExpectedMemory, variant: str = "", trial: int = 1
) -> list[Measurement]:
    """Expected memory under the names and labels of what a log tells."""

    def make(name: str, value: float, unit: str, labels: dict[str, str]) -> Measurement:
        return Measurement(name, value, unit, variant, trial, labels)

    found = []
    if expected.caches:
        found.append(make("kv_mib", expected.kv_mib, "MiB", {}))
        found.append(make("kv_cells", expected.kv_cells, "cells", {}))
    if len(expected.caches) > 1:
        for cache in expected.caches:
            labels = {"cache": cache.cache}
            found.append(make("kv_mib", cache.mib, "MiB", labels))
            found.append(make("kv_cells", cache.cells * cache.streams, "cells", labels))
    if expected.state is not None:
        found.append(make("rs_mib", expected.state.mib, "MiB", {}))
    return found


def with_environment(
    flags: Mapping[str, FlagValue], env: Mapping[str, str], table: FlagTable
) -> dict[str, FlagValue]:
    """The flags, and below them those that the environment sets (`LLAMA_ARG_*`)."""
    found: dict[str, FlagValue] = {}
    for name, value in env.items():
        if not name.startswith("LLAMA_ARG_") or name not in table:
            continue  # the server does not read it
        try:
            flag, normal = table.normalise(name, value)
        except FlagError as error:
            raise _UnreadableFlagError(f"{name} is set to '{value}': {error.message}") from error
        found[flag] = normal
    found.update({name: value for name, value in flags.items() if value is not None})
    return found


def cache_settings(
    flags: Mapping[str, FlagValue], table: FlagTable, shape: ModelShape
) -> CacheSettings:
    """The settings that flags make, llama-server's defaults where they are not given."""
    default = CacheSettings()
    if _CHANGES_METADATA in flags:
        raise _UnreadableFlagError("--override-kv changes what the model file says")
    if flags.get("split-mode") == "tensor":
        raise _UnreadableFlagError("how --split-mode tensor splits KV was not verified")
    if shape.recurrent_layers:
        named = next((name for name in flags if name.startswith(_SPECULATION)), None)
        if named is not None:
            raise _UnreadableFlagError(
                f"with --{named}, recurrent state may keep rows for drafts, which was not verified"
            )
    settings = CacheSettings(
        n_ctx=_whole(flags, "ctx-size", default.n_ctx),
        n_parallel=_whole(flags, "parallel", default.n_parallel),
        unified=_switch(flags, "kv-unified"),
        type_k=_word(flags, "cache-type-k", default.type_k),
        type_v=_word(flags, "cache-type-v", default.type_v),
        swa_full=_switch(flags, "swa-full"),
        n_batch=_whole(flags, "batch-size", default.n_batch),
        n_ubatch=_whole(flags, "ubatch-size", default.n_ubatch),
        flash_attention=_word(flags, "flash-attn", "auto") != OFF,
        causal={"causal": True, "non-causal": False}.get(_word(flags, "attention", "")),
        n_ctx_slot=_whole(flags, "kv-unified-per-slot", default.n_ctx_slot),
    )
    chosen = settings.n_ctx or settings.n_ctx_slot
    if not chosen and "fit" in table and _word(flags, "fit", ON) != OFF:
        raise _UnreadableFlagError(
            "without --ctx-size, llama-server chooses the context by free memory (--fit)"
        )
    return settings


def _untested(shape: ModelShape, settings: CacheSettings, build: str | None) -> str | None:
    """Why the formulas may not hold for a build; None where they do."""
    told = re.match(r"b?(\d+)", build or "")
    number = int(told[1]) if told else 0
    known = number >= _LEAST_NUMBER
    if shape.nextn_build and (not known or number < shape.nextn_build):
        return (
            f"its {shape.nextn_layers} layers that only predict further tokens (nextn) get no "
            f"memory in builds from {shape.nextn_build} on, and some in older ones; this is "
            f"{build or 'an unknown build'}"
        )
    if not known or number >= _OLDEST_BUILD:
        return None
    # whatever the padding of the time: all layers have all of the context, which needs none
    plain = shape.window is None and not shape.recurrent_layers and not shape.mla
    plain = plain and len({layer.v_width for layer in shape.layers}) == 1
    share = 256 * settings.n_parallel
    if plain and settings.n_parallel > 0 and settings.n_ctx and settings.n_ctx % share == 0:
        return None
    return f"the formulas were checked on builds from {_OLDEST_BUILD} on; this is {build}"


def _word(flags: Mapping[str, FlagValue], name: str, default: str) -> str:
    value = flags.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise _UnreadableFlagError(f"--{name} is given {len(value)} times")
    return value


def _whole(flags: Mapping[str, FlagValue], name: str, default: int) -> int:
    word = _word(flags, name, str(default))
    try:
        return int(word)
    except ValueError as error:
        raise _UnreadableFlagError(f"--{name} is '{word}', which is no whole number") from error


def _switch(flags: Mapping[str, FlagValue], name: str) -> bool:
    return _word(flags, name, OFF) == ON
