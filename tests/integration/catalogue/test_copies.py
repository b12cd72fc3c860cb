"""Several completions of one prompt: healthy servers pass, faulty copies are caught."""

from __future__ import annotations

import pytest

from benchsuite.scenario.load import load_scenario
from tests.integration.desk import REPOSITORY, Desk, lying, wrapper
from tests.integration.gaps import gaps_of

pytestmark = pytest.mark.server

SMALLEST = 0.1  # logprob between the two likeliest tokens, at every generated token


def test_a_healthy_server_passes(desk: Desk) -> None:
    """Equal copies, one evaluation, KV as ever, in both KV layouts."""
    done = desk.run("run", "copies", "--server", "embedded")
    assert done.code == 0, done.text


@pytest.mark.parametrize("flags", [["--parallel", "4"], ["--parallel", "4", "--kv-unified"]])
def test_its_prompts_have_no_near_tie(desk: Desk, flags: list[str]) -> None:
    """Every generated token leads by at least 0.1."""
    scenario = load_scenario(REPOSITORY / "scenarios" / "copies.yaml")
    found = gaps_of(scenario, desk.tiny_model(), desk.folder, flags)
    assert set(found) == {f"request/{name}" for name in ("cold", "warm", "full", "single")}
    assert min(found.values()) >= SMALLEST, found


@pytest.mark.parametrize(
    ("lie", "gate", "why"),
    [
        ("copy", "distinct_texts", "is 2, but must be 1"),
        ("evaluates", "prompt_evaluations", "is 3, but must be 1"),
    ],
)
def test_a_faulty_copy_is_caught(desk: Desk, lie: str, gate: str, why: str) -> None:
    """A copy that says something else, and copies that are evaluated one by one."""
    server = lying(desk.folder / "llama-server", lie)
    done = desk.run("run", "copies", "--variant", "B", "--server", str(server))
    assert done.code == 1, done.text
    assert gate in done.text
    assert why in done.text


def test_a_prompt_that_is_lost_after_its_copies_is_caught(desk: Desk) -> None:
    """Where the first slot does not keep the prompt, the next request pays for it again."""
    server = wrapper(desk.folder / "llama-server", ["--no-cache-prompt"])
    done = desk.run("run", "copies", "--variant", "B", "--server", str(server))
    assert done.code == 1, done.text
    assert "cached_tokens" in done.text


def test_smaller_batches_are_let_pass(desk: Desk) -> None:
    """How a prompt is cut into batches changes nothing that the scenario gates."""
    server = wrapper(desk.folder / "llama-server", ["--ubatch-size", "32", "--threads", "1"])
    done = desk.run("run", "copies", "--server", str(server))
    assert done.code == 0, done.text
