"""A plan in words names every step, flag origin and gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.model.scenario import GateSpec, Regression, SameAs, When
from benchsuite.report.plan import gate_in_words, render_plan
from benchsuite.scenario.flags import parse_help
from benchsuite.scenario.load import load_scenario
from benchsuite.scenario.plan import make_plan
from benchsuite.scenario.workspace import tiny_deployment

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (GateSpec("kv_mib", equals_baseline=True), "kv_mib equals baseline"),
        (GateSpec("kv_mib", equals=16.0), "kv_mib equals 16 MiB"),
        (GateSpec("text", equals="a b"), "text equals 'a b'"),
        (GateSpec("kv_mib", min=1, max=1.5), "kv_mib at least 1 MiB and at most 1.5 MiB"),
        (
            GateSpec("kv_mib", same_as=SameAs("B", "A"), variants=("U", "P")),
            "kv_mib same as variant B and session A, in variants U, P",
        ),
        (
            GateSpec("anon_mib", regression=Regression(5, 16), level="advise", needs="launched"),
            "anon_mib at most 5% and 16 MiB worse than baseline, needs a launched server (advice)",
        ),
        (
            GateSpec("kv_mib", max=1, when=When("sliding_window", False, True, "CUDA", "d")),
            (
                "kv_mib at most 1 MiB, when attention is sliding window and the model has "
                "no sliding window and the model has a recurrent state and backend CUDA is used "
                "and the deployment is d"
            ),
        ),
    ],
)
def test_gates_in_words(gate: GateSpec, words: str) -> None:
    """Metric, rule, and where it applies."""
    assert gate_in_words(gate) == words


def test_a_whole_plan_in_words() -> None:
    """Every key of the language is told, in lines of at most 80 columns."""
    table = parse_help((FIXTURES / "help" / "b10434.txt").read_text(), "llama-server b10434")
    scenario = load_scenario(FIXTURES / "scenarios" / "everything.yaml", "everything.yaml")
    plan = make_plan(scenario, tiny_deployment(), table, seed=1, trials=2)
    text = render_plan(plan, {"B": ["llama-server", "--alias", "a b"]})
    for words in (
        "everything: every key of the language",
        "2 trials of each variant, seed 1",
        "A: system message of 600 tokens (seed 7), pinned to slot 1 (cache_prompt false, top_k 3",
        "1. session A: user message of 600 tokens (seed 1000010), up to 8 tokens of reply",
        "2. complete one: prompt 'hello', up to 16 tokens of reply, on slot 0 (temperature 0.5)",
        "3. 2 branches at the same time",
        "     - session B: user message of 4 tokens",
        "4. idle for 0.5 s",
        "6. snapshot loaded",
        "U: unified",
        "session A pinned to slot 0",
        "--kv-unified on: variant 'U'",
        "not applicable: deployment 'tiny' has no overlay for it",
        '1. cached_tokens{session="A",turn="2"} equals baseline\n     because',
        "bug-207: variant O crashes with /concat\\.cu:\\d+: GGML_ASSERT/, on builds b10092..b10434",
        "with backend CUDA, on deployment fork; expires on 2027-03-01\n     because",
        "bug-208: variant U fails kv_mib\n     because",
        "Command of variant B:\n  llama-server --alias 'a b'",
    ):
        assert " ".join(words.split()) in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.endswith("\n")
