"""A failed gate on cached tokens names its cause."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.gate.causes import with_cause
from benchsuite.gate.rules import Finding, Subject
from benchsuite.gate.seen import Seen
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Reevaluation
from benchsuite.model.scenario import GateSpec
from tests.unit.gate.gate_example import record as run_of

LABELS = {"session": "A", "turn": "2"}
SERIES = 'cached_tokens{session="A",turn="2"}'
TOLD = Reevaluation(LABELS, 0, 1215, "another slot was chosen", "another slot was chosen (…)")
FAILED = Finding("fail", "changed from 1215 to 0; if meant: accept", SERIES, "1215", "0 tokens")


def reason(finding: Finding, *told: Reevaluation, metric: str = SERIES) -> str:
    """The reason of a finding of variant B, where these were found out."""
    record = run_of()
    launches = tuple(
        msgspec.structs.replace(launch, reevaluations=told) for launch in record.launches
    )
    seen = Seen(msgspec.structs.replace(record, launches=launches))
    selector = parse_selector(metric)
    series = tuple(seen.select("B", selector))
    subject = Subject(GateSpec(metric), selector, CATALOGUE[selector.name], "B", series, "x:1")
    return with_cause(finding, subject, seen).reason


def test_the_cause_stands_between_what_was_seen_and_the_remedy() -> None:
    """What happened, why, what to do."""
    assert reason(FAILED, TOLD) == (
        "changed from 1215 to 0: another slot was chosen (…); if meant: accept"
    )


@pytest.mark.parametrize(
    ("finding", "told"),
    [
        (msgspec.structs.replace(FAILED, outcome="pass"), TOLD),
        (msgspec.structs.replace(FAILED, expected="0", observed="900 tokens"), TOLD),
        (FAILED, msgspec.structs.replace(TOLD, labels={"session": "B", "turn": "2"})),
        (msgspec.structs.replace(FAILED, series=""), TOLD),
    ],
)
def test_a_cause_that_explains_nothing_is_left_out(finding: Finding, told: Reevaluation) -> None:
    """A pass, a change towards more reuse, another request, a gate without a series."""
    assert reason(finding, told) == finding.reason


def test_other_metrics_have_no_such_cause() -> None:
    """Only the counts that a re-evaluation explains."""
    metric = 'prompt_tokens{session="A",turn="2"}'
    assert reason(msgspec.structs.replace(FAILED, series=metric), TOLD, metric=metric) == (
        FAILED.reason
    )
    more = 'evaluated_tokens{session="A",turn="2"}'
    found = Finding("fail", "changed from 40 to 1255; accept", more, "40", "1255 tokens")
    assert "another slot" in reason(found, TOLD, metric=more)
    assert "another slot" not in reason(
        msgspec.structs.replace(found, expected="1255", observed="40"), TOLD, metric=more
    )
