"""Known issues are read to frozen types, or refused at their line with the word to write."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from benchsuite.errors import ScenarioError
from benchsuite.model.scenario import BuildRange, KnownIssue
from benchsuite.scenario.load import parse_scenario, schema

HEAD = """title: t
steps:
  - complete: {id: one, prompt: {text: hello}}
variants:
  B: {}
  O: {}
gates:
  - {metric: kv_mib, max: 4}
known_issues:
"""
FIRST = HEAD.count("\n") + 1
CRASH = "variant: O, issue: bug-207, expect: crash, signature: 'concat\\.cu:\\d+', reason: r"


def issues(*entries: str) -> tuple[KnownIssue, ...]:
    """The known issues of a file with these entries."""
    return parse_scenario(HEAD + "".join(f"  - {{{e}}}\n" for e in entries)).known_issues


def problem(entry: str) -> str:
    """The one problem of a file with this entry, which is at its line."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"{HEAD}  - {{{entry}}}\n", display="s.yaml")
    (found,) = caught.value.problems
    assert found.startswith(f"s.yaml:{FIRST}: ")
    return found.removeprefix(f"s.yaml:{FIRST}: ")


def test_an_entry_is_read_whole() -> None:
    """Every key has its field, and the line is kept for the message that says delete it."""
    more = "builds: b10092..b10434, commit: 7e4c0a9, backend: CUDA, deployment: box"
    (found,) = issues(f"{CRASH}, {more}, expires: 2027-03-01")
    assert found == KnownIssue(
        variant="O",
        issue="bug-207",
        expect="crash",
        signature=r"concat\.cu:\d+",
        builds=BuildRange(10092, 10434),
        commit="7e4c0a9",
        backend="CUDA",
        deployment="box",
        expires="2027-03-01",
        reason="r",
        line=FIRST,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("b10092..", (10092, None)), ("..b10434", (None, 10434)), ("b10434", (10434, 10434))],
)
def test_ranges_of_builds(text: str, expected: tuple[int | None, int | None]) -> None:
    """Either end may be open; one build alone is a range of one."""
    (found,) = issues(f"{CRASH}, builds: {text}")
    assert (found.builds.first, found.builds.last) == expected


def test_a_failing_gate_needs_no_signature() -> None:
    """`expect: fail` may name a gate by its selector."""
    (found,) = issues("variant: O, issue: x, expect: fail, gate: kv_mib, reason: r")
    assert (found.gate, found.signature) == ("kv_mib", "")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (CRASH.replace("variant: O", "variant: P"), "unknown variant 'P'; variants are: B, O"),
        (CRASH.replace("crash", "crush"), "'crush' is unknown; did you mean 'crash'?"),
        (CRASH.replace("issue:", "isue:"), "did you mean 'issue'?"),
        (CRASH.replace("concat\\.cu:\\d+", "concat("), "is not a regular expression"),
        (CRASH.replace("concat\\.cu:\\d+", ".*"), "matches what healthy servers print too"),
        (CRASH.replace("concat\\.cu:\\d+", "."), "matches what healthy servers print too"),
        (CRASH.replace("concat\\.cu:\\d+", "load_tensors|llama"), "(mmap = true)"),
        (CRASH.replace("concat\\.cu:\\d+", ""), "needs a 'signature'"),
        (CRASH.replace(", signature: 'concat\\.cu:\\d+'", ""), "needs a 'signature'"),
        (f"{CRASH}, gate: kv_mib", "leave 'gate' out"),
        (f"{CRASH}, builds: new", "'new' is no range of builds"),
        (f"{CRASH}, builds: b10434..b10092", "no build is in this range"),
        (f"{CRASH}, expires: 2027-02-30", "'2027-02-30' is no date"),
        (f"{CRASH}, expires: 1.3.2027", "expected such as 2027-03-01"),
        (
            "variant: O, issue: x, expect: fail, gate: kv_mb, reason: r",
            "no gate has the selector 'kv_mb'; did you mean 'kv_mib'?",
        ),
    ],
)
def test_bad_entries_are_refused_at_their_line(entry: str, words: str) -> None:
    """What could never be considered is an error before anything starts."""
    assert words in problem(entry)


def test_the_schema_knows_them() -> None:
    """Editors accept a right entry and refuse a wrong key."""
    validator = Draft202012Validator(schema())
    file = {"title": "t", "steps": [{"idle": 1}]}
    right = {"variant": "O", "issue": "x", "expect": "crash", "signature": "y", "reason": "r"}
    assert validator.is_valid({**file, "known_issues": [right]})
    assert not validator.is_valid({**file, "known_issues": [{**right, "until": "2027-01-01"}]})
