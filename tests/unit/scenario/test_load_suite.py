"""Suite files are read to frozen types, or refused at their line with the way out."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from benchsuite.errors import ScenarioError
from benchsuite.model.suite import Output, Suite
from benchsuite.scenario.suite import is_suite, load_suite, schema

TODAY = dt.date(2026, 12, 2)
HEAD = "title: t\nscenarios: [scenarioB]\n"
HELD = "{scenario: s, variant: B, gate: kv_mib, issue: bug-1, expires: DATE, reason: r}"


def suite(tmp_path: Path, text: str) -> Suite:
    """What a file of this text says."""
    path = tmp_path / "pr.yaml"
    path.write_text(text)
    return load_suite(path, "ci/suites/pr.yaml", today=TODAY)


def problems(tmp_path: Path, text: str) -> list[str]:
    """What is wrong in a file of this text."""
    with pytest.raises(ScenarioError) as caught:
        suite(tmp_path, text)
    return list(caught.value.problems)


def test_what_is_left_out_has_a_strict_default(tmp_path: Path) -> None:
    """A scenario by name blocks, on tiny, once, and counts what is not applicable."""
    read = suite(tmp_path, HEAD)
    (entry,) = read.entries
    assert (read.name, read.budget_s, read.outputs) == ("pr", None, ())
    assert (entry.word, entry.deployments, entry.line) == ("scenarioB", ("tiny",), 2)
    assert (entry.policy, entry.require_all, entry.allow_new) == ("block", True, False)
    assert (entry.trials, entry.seed, entry.variants, entry.sets) == (1, 0, (), ())


def test_an_entry_decides_before_the_suite(tmp_path: Path) -> None:
    """What the suite says holds for the entries that do not say otherwise."""
    text = (
        "title: t\ndeployments: [a, b]\ntrials: 3\npolicy: advise\nrequire_all: false\n"
        "budget: 10 min\nscenarios:\n- tag:m0\n"
        "- {scenario: x, deployments: [c], trials: 1, policy: block, require_all: true, seed: 4,\n"
        "   variants: [B], set: {cache-type-k: q8_0, jinja: null}, allow_new: true}\n"
        "outputs: {junit: j.xml, summary: out/s.md}\n"
    )
    read = suite(tmp_path, text)
    first, second = read.entries
    assert read.budget_s == 600
    assert (first.deployments, first.trials, first.policy) == (("a", "b"), 3, "advise")
    assert not first.require_all
    assert (second.deployments, second.trials, second.policy) == (("c",), 1, "block")
    assert (second.require_all, second.seed, second.variants) == (True, 4, ("B",))
    assert second.sets == ("cache-type-k=q8_0", "jinja=null")
    assert read.outputs == (Output("junit", "j.xml", 11), Output("summary", "out/s.md", 11))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title: t\n", "1: the suite: 'scenarios' is missing"),
        ("title: t\nscenarios: []\n", "2: 'scenarios' of the suite: needs at least 1 entry"),
        (
            HEAD + "polcy: advise\n",
            "3: unknown key 'polcy' in the suite; did you mean 'policy'?",
        ),
        (
            HEAD + "policy: ignore\n",
            "3: 'policy' of the suite: 'ignore' is unknown; valid words are: block, advise",
        ),
        (
            HEAD + "outputs: {junit: ../j.xml}\n",
            "3: output 'junit': '../j.xml' leaves the folder of results; expected a name such as j",
        ),
        (
            HEAD + "outputs: {junit: a, summary: a}\n",
            "3: output 'summary': 'a' is the file of 'junit' already",
        ),
        (
            HEAD + "outputs: {junit: suite.json}\n",
            "3: output 'junit': 'suite.json' is the file of the suite's own result already",
        ),
        (
            "title: t\nscenarios:\n- {scenario: x, set: {a: [1, 2]}}\n",
            "3: flag 'a' of 'set': expected one value or null",
        ),
        (
            HEAD + f"quarantine:\n- {HELD.replace('DATE', '2026-12-02')}\n",
            "4: the quarantine for bug-1 expired on 2026-12-02; see whether the gate is steady now",
        ),
        (
            HEAD + f"quarantine:\n- {HELD.replace('expires: DATE, ', '')}\n",
            "4: entry 1 of 'quarantine' of the suite: 'expires' is missing",
        ),
        (
            HEAD + f"quarantine:\n- {HELD.replace('DATE', 'soon')}\n",
            "4: 'expires': 'soon' is no date (it has another form); expected such as 2027-03-01",
        ),
    ],
)
def test_problems_have_line_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    """Each is one sentence at the line where it can be mended."""
    assert problems(tmp_path, text)[0].startswith(f"ci/suites/pr.yaml:{said}")


def test_an_entry_of_the_quarantine_is_read_whole(tmp_path: Path) -> None:
    """With its place, which reports name."""
    (held,) = suite(
        tmp_path, HEAD + f"quarantine:\n- {HELD.replace('DATE', '2026-12-03')}\n"
    ).quarantine
    assert (held.scenario, held.variant, held.gate, held.issue) == ("s", "B", "kv_mib", "bug-1")
    assert (held.expires, held.reason, held.rule) == ("2026-12-03", "r", None)
    assert held.place == "ci/suites/pr.yaml:4"


def test_the_schema_is_one_and_takes_a_suite() -> None:
    """Editors can check a suite by it."""
    Draft202012Validator.check_schema(schema())
    checker = Draft202012Validator(schema())
    assert checker.is_valid({"title": "t", "scenarios": ["a", {"scenario": "tag:m0"}]})
    assert not checker.is_valid({"title": "t", "scenarios": [{"policy": "block"}]})


def test_a_suite_is_told_from_a_scenario(tmp_path: Path) -> None:
    """By its keys, wherever the file lies."""
    for text, told in ((HEAD, True), ("title: t\nsteps: []\n", False), ("[", False)):
        (tmp_path / "x.yaml").write_text(text)
        assert is_suite(tmp_path / "x.yaml") is told
