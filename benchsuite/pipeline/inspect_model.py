"""`benchsuite inspect model` from its arguments to what the model's cache must weigh."""

from __future__ import annotations

from pathlib import Path

from benchsuite.errors import UsageError
from benchsuite.metrics.kv_formula import CACHE_TYPES, CacheSettings, expected_memory
from benchsuite.model.shape import UnknownMemory
from benchsuite.pipeline.analytic import as_measurements
from benchsuite.report.inspect_model import ModelInspection
from benchsuite.scenario.words import remedy
from benchsuite.server.gguf_facts import hash_parts, read_model_facts
from benchsuite.server.gguf_shape import read_model_shape


def inspect_model(path: str, settings: CacheSettings, *, whole: bool = False) -> ModelInspection:
    """What a model file's cache must weigh with these settings.

    Args:
        path: A GGUF file; of a split model, its first part.
        settings: As llama-server's flags would make them.
        whole: Whether every byte is read for a hash of each file.

    Raises:
        UsageError: A cache type that llama-server does not have.
        ConfigError: The file is missing, unreadable, no GGUF, cut short or hostile.
    """
    for option, kind in (("k", settings.type_k), ("v", settings.type_v)):
        if kind not in CACHE_TYPES:
            hint = remedy(kind, CACHE_TYPES, "types")
            raise UsageError(f"--cache-type-{option} '{kind}' is no cache type{hint}")
    facts = read_model_facts(Path(path))
    shape = read_model_shape(Path(path))
    hashes = hash_parts(Path(path)) if whole else ()
    if isinstance(shape, UnknownMemory):
        return ModelInspection(facts, settings, shape, shape, hashes=hashes)
    expected = expected_memory(shape, settings)
    if isinstance(expected, UnknownMemory):
        return ModelInspection(facts, settings, shape, expected, hashes=hashes)
    told = tuple(as_measurements(expected))
    return ModelInspection(facts, settings, shape, expected, told, hashes)
