"""The scenario `kv-types`: passes, sees a type that is read wrongly or ignored, lets noise be."""

from __future__ import annotations

import pytest

from tests.integration.conditional import conditional
from tests.integration.desk import Desk, wrapper

pytestmark = pytest.mark.server


def test_it_passes_on_the_tiny_model(desk: Desk) -> None:
    """Every type weighs what it should; Q4_0 is seen to cost precision, the others are not."""
    done = desk.run("run", "kv-types", "--server", "embedded")
    assert done.code == 0, done.text
    cosines = {
        m["variant"]: m["value"]
        for m in desk.last_record()["measurements"]
        if m["name"] == "logprob_cosine" and m["labels"]["against"] == "F16"
    }
    assert set(cosines) == {"F32", "BF16", "Q8", "Q4", "K8"}
    assert cosines["Q4"] < 0.99 < cosines["Q8"] < cosines["BF16"] < cosines["F32"]


def test_a_quantised_cache_that_is_read_wrongly_fails(desk: Desk) -> None:
    """Where only Q8_0 caches get other positions, memory is right and the cosine is not."""
    server = conditional(desk.folder / "llama-server", ["q8_0"], ["--rope-freq-base", "9500"])
    done = desk.run("run", "kv-types", "--variant", "Q8", "--server", str(server))
    assert done.code == 1, done.text
    gates = desk.last_record()["gates"]
    assert all(g["outcome"] == "pass" for g in gates if g["metric"] == "kv_mib")
    failed = {g["metric"].partition("{")[0] for g in gates if g["outcome"] == "fail"}
    assert "logprob_cosine" in failed


def test_a_type_that_is_ignored_is_a_server_failure(desk: Desk) -> None:
    """A server that keeps another type than it was asked for is found by its log."""
    server = conditional(desk.folder / "llama-server", ["bf16"], ["--cache-type-k", "f32"])
    done = desk.run("run", "kv-types", "--variant", "BF16", "--server", str(server))
    assert done.code == 4, done.text
    assert "cache-type-k" in done.text


def test_another_number_of_threads_passes(desk: Desk) -> None:
    """Threads share the work of a row differently, which is no fault."""
    server = wrapper(desk.folder / "llama-server", ["--threads", "1"])
    done = desk.run("run", "kv-types", "--variant", "Q8", "--server", str(server))
    assert done.code == 0, done.text
