"""m5-stack: it passes, sees what only the stack breaks, and lets a harmless change pass."""

from __future__ import annotations

import pytest

from tests.integration.conditional import conditional
from tests.integration.desk import Desk, lying

pytestmark = pytest.mark.server

ONE_THREAD = ("--set", "threads=1")  # where other programs compute too, more wait for each other
STACKED = ["--kv-unified", "--cache-reuse"]


def test_it_passes_and_shows_the_matrix(desk: Desk) -> None:
    """Every configuration has its column, and nothing differs from the baseline's."""
    done = desk.run("run", "m5-stack", *ONE_THREAD)
    assert done.code == 0, done.text
    matrix = done.out[done.out.index("\nmatrix ") :].splitlines()[1:]
    assert matrix[0].split() == ["matrix", "B", "A0", "A1", "A2", "A3", "S"]
    assert matrix[1].split() == ["gates", *["pass"] * 6]
    other = [line for line in matrix[:10] if " *" in line]
    assert [line.split()[:2] for line in other] == [["cached_tokens", "without"]]


@pytest.mark.parametrize(
    ("extra", "metric"),
    [
        (["--cache-type-k", "f32"], "kv_mib"),
        (["--no-cache-prompt"], "cached_tokens"),
        (["--rope-freq-base", "3000"], "text"),
    ],
)
def test_what_only_the_stack_breaks_is_found(desk: Desk, extra: list[str], metric: str) -> None:
    """Each feature alone is right; both together cost memory, lose the prefix, or change text."""
    server = conditional(desk.folder / "llama-server", STACKED, extra)
    done = desk.run(
        "run", "m5-stack", "--variant", "A0", "--variant", "S", "--server", str(server), *ONE_THREAD
    )
    assert done.code == 1, done.text
    failed = {
        (gate["variant"], gate["metric"].partition("{")[0])
        for gate in desk.last_record()["gates"]
        if gate["outcome"] == "fail" and gate["level"] == "block"
    }
    assert {variant for variant, _ in failed} == {"S"}
    assert ("S", metric) in failed
    assert " *" in done.out[done.out.index("\nmatrix ") :]


def test_a_harmless_change_passes(desk: Desk) -> None:
    """Another number of threads and another similarity threshold are nobody's regression."""
    extra = ["--threads", "2", "--slot-prompt-similarity", "0.3"]
    server = conditional(desk.folder / "llama-server", STACKED, extra)
    done = desk.run("run", "m5-stack", "--variant", "S", "--server", str(server), *ONE_THREAD)
    assert done.code == 0, done.text


def test_a_death_by_two_requests_at_once_is_found(desk: Desk) -> None:
    """Turns one by one would not see it."""
    server = lying(desk.folder / "llama-server", "dies")
    done = desk.run("run", "m5-stack", "--variant", "S", "--server", str(server), *ONE_THREAD)
    assert done.code == 4, done.text
    assert "GGML_ASSERT(n_seqs == 1)" in done.text
    assert "request pair-0" in done.text
