"""The scenario `equivalence`: passes, sees a fault of one layout and of a build, lets noise be."""

from __future__ import annotations

import pytest

from benchsuite.model.vectors import LogprobVectors, unpack_floats
from benchsuite.store.vectors import read_run_vectors
from tests.integration.conditional import conditional
from tests.integration.desk import Desk, lying, wrapper

pytestmark = pytest.mark.server

SMALLEST = 0.1  # logprob between the two likeliest tokens
OTHER_POSITIONS = ["--rope-freq-base", "7000"]
"""What a stale or wrong position does to K; the tokens that follow have no near-tie either."""


def test_it_passes_on_the_tiny_model(desk: Desk) -> None:
    """Every layout is within 0.999 of the plain one, and the prompts have no near-tie."""
    done = desk.run("run", "equivalence", "--server", "embedded")
    assert done.code == 0, done.text
    led = _led(desk)
    assert {vectors.request for vectors in led} == {"alone", "together"}
    for vectors in led:
        assert len(vectors.positions) == len(vectors.tokens) == 12
        assert _narrowest_gap(vectors) >= SMALLEST


def test_a_fault_of_one_layout_fails(desk: Desk) -> None:
    """Where only the unified cache gets other positions, its cosine falls and the gate names it."""
    server = conditional(desk.folder / "llama-server", ["--kv-unified"], OTHER_POSITIONS)
    done = desk.run("run", "equivalence", "--variant", "U", "--server", str(server))
    assert done.code == 1, done.text
    failed = [g for g in desk.last_record()["gates"] if g["outcome"] == "fail"]
    assert {g["variant"] for g in failed} == {"U"}
    assert any(g["metric"].startswith('logprob_cosine{against="B"') for g in failed)


def test_a_slot_that_reads_the_cells_of_another_fails(desk: Desk) -> None:
    """Only where requests are under way at once, and only because their prompts differ."""
    server = lying(desk.folder / "llama-server", "neighbour")
    done = desk.run("run", "equivalence", "--variant", "B", "--server", str(server))
    assert done.code == 1, done.text
    failed = {g["metric"] for g in desk.last_record()["gates"] if g["outcome"] == "fail"}
    assert {metric.partition("{")[0] for metric in failed} == {
        "logprob_cosine",
        "top_token_changes",
    }
    worst = {
        m["labels"]["request"]: m["value"]
        for m in desk.last_record()["measurements"]
        if m["name"] == "logprob_cosine" and m["labels"]["against"] == "B"
    }
    assert set(worst) == {"together"}
    assert worst["together"] < 0.999


def test_another_micro_batch_size_passes(desk: Desk) -> None:
    """Adding in another order moves logprobs by a little, which is no fault."""
    server = wrapper(desk.folder / "llama-server", ["--ubatch-size", "64"])
    done = desk.run("run", "equivalence", "--variant", "U", "--server", str(server))
    assert done.code == 0, done.text


def test_a_build_is_compared_with_the_one_before(desk: Desk) -> None:
    """A fault that strikes all variants alike is seen against the stored vectors, and only there.

    The stored tokens are forced again where the new build would have chosen others.
    """
    first = desk.run("run", "equivalence", "--variant", "U", "--server", "embedded")
    assert first.code == 0, first.text
    assert "advises" in first.text
    kept = desk.run("accept", "last", "--reason", "the build before", "--scope", "numerics")
    assert kept.code == 0, kept.text
    assert kept.out.count("/vectors/") == 2

    again = desk.run("run", "equivalence", "--variant", "U", "--server", "embedded")
    assert again.code == 0, again.text
    cosines = _cosines(desk, "stored")
    assert len(cosines) == 4
    assert min(cosines) > 0.99999

    server = wrapper(desk.folder / "llama-server", OTHER_POSITIONS)
    done = desk.run("run", "equivalence", "--variant", "U", "--server", str(server))
    assert done.code == 1, done.text
    failed = [g for g in desk.last_record()["gates"] if g["outcome"] == "fail"]
    assert {g["variant"] for g in failed} == {"B", "U"}
    assert min(_narrowest_gap(vectors) for vectors in _led(desk)) >= SMALLEST
    assert all('against="stored"' in g["metric"] for g in failed)
    assert min(_cosines(desk, "B")) > 0.999
    assert max(_cosines(desk, "stored")) < 0.999


def _led(desk: Desk) -> list[LogprobVectors]:
    """What the reference variant of the newest run made of each request."""
    run = max((desk.folder / ".benchsuite" / "runs").iterdir(), key=lambda r: r.stat().st_mtime_ns)
    led = [line.set for line in read_run_vectors(run) if line.role == "reference"]
    return [vectors for vectors in led if isinstance(vectors, LogprobVectors)]


def _narrowest_gap(vectors: LogprobVectors) -> float:
    """How far apart the two likeliest tokens are where they are closest."""
    likeliest = (sorted(unpack_floats(p.logprobs))[-2:] for p in vectors.positions)
    return min(first - second for second, first in likeliest)


def _cosines(desk: Desk, against: str) -> list[float]:
    return [
        m["value"]
        for m in desk.last_record()["measurements"]
        if m["name"] == "logprob_cosine" and m["labels"]["against"] == against
    ]
