"""How values of each kind compare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.gate.kinds import KINDS
from benchsuite.gate.kinds.quantised import agree
from benchsuite.gate.kinds.text import first_difference
from benchsuite.model.scenario import Regression
from benchsuite.store.baselines import Sample


def samples(*values: float | str) -> list[Sample]:
    """Exact samples."""
    return [Sample(v) for v in values]


def test_exact_values_differ_in_both_directions() -> None:
    """More cached tokens than the baseline is a change too."""
    for value in (1215, 1217):
        found = KINDS["exact"].compare(samples(1216), samples(value), unit="", better="higher")
        assert (found.state, found.holds) == ("changed", False)
        assert f"changed from 1216 to {value}" in found.sentence


def test_one_deviating_trial_is_counted() -> None:
    """Of three trials one differs, and the sentence says so."""
    found = KINDS["exact"].compare(samples(5, 5, 5), samples(5, 0, 5), unit="", better="equal")
    assert found.state == "changed"
    assert "changed (1 of 3) from 5 to 0" in found.sentence
    assert found.observed == "5, 0, 5"


@pytest.mark.parametrize("kind", ["exact", "quantised", "text"])
def test_a_reference_that_disagrees_with_itself_decides_nothing(kind: str) -> None:
    """Even a candidate equal to one of its trials is inconclusive."""
    values = samples("a", "b") if kind == "text" else samples(1, 2)
    found = KINDS[kind].compare(values, values[:1], unit="", better="equal")  # type: ignore[index]  # parametrised with its keys
    assert (found.state, found.holds) == ("inconclusive", False)


def test_a_printed_sum_agrees_with_its_parts() -> None:
    """12.75 is K 6.38 + V 6.38 = 12.76 as a healthy server prints them."""
    assert agree(Sample(12.75, 0.01, 1), Sample(12.76, 0.01, 2))
    assert agree(Sample(44.62, 0.01, 1), Sample(44.63, 0.01, 2))
    assert not agree(Sample(12.75, 0.01, 1), Sample(12.77, 0.01, 2))
    assert not agree(Sample(12.75, 0.01, 1), Sample(float("inf"), 0.01, 1))
    assert not agree(Sample(float("nan"), 0.01, 1), Sample(float("nan"), 0.01, 1))


@given(
    exact=st.lists(st.integers(0, 10**7), min_size=1, max_size=6),
    quantum=st.sampled_from([0.01, 1.0, 0.5]),
)
def test_rounding_alone_never_counts_as_a_change(exact: list[int], quantum: float) -> None:
    """A total printed once agrees with the sum of its rounded parts."""
    parts = [n / 1000 for n in exact]
    total = Sample(round(sum(parts) / quantum) * quantum, quantum, 1)
    summed = sum(round(p / quantum) * quantum for p in parts)
    assert agree(total, Sample(summed, quantum, len(parts)))


def test_quantised_limits_allow_for_their_print() -> None:
    """A printed 16.00 keeps `max: 15.996`, which it may well be, and not `max: 15.9`."""
    kind = KINDS["quantised"]
    printed = [Sample(16.0, 0.01, 1)]
    assert kind.limits(printed, None, 15.996).outcome == "pass"
    assert kind.limits(printed, None, 15.9).outcome == "fail"
    assert kind.limits(printed, 16.1, None).outcome == "fail"
    assert kind.equals(printed, 16.004)
    assert not kind.equals(printed, 17)


def test_a_text_difference_is_shown_where_it_begins() -> None:
    """Position counted from 1, both sides around it, quoted."""
    left, right = "the quick brown fox jumps over", "the quick brown cat jumps over"
    found = KINDS["text"].compare(samples(left), samples(right), unit="", better="equal")
    assert found.state == "changed"
    assert "at character 17" in found.sentence
    assert "fox" in found.expected
    assert "cat" in found.observed


def test_a_text_that_begins_the_other_differs_where_it_ends() -> None:
    """Nothing after the end counts as a difference; empty texts are fine."""
    assert first_difference("abc", "abcdef") == 3
    assert first_difference("", "") == 0
    found = KINDS["text"].compare(samples(""), samples("x"), unit="", better="equal")
    assert "at character 1: 'x' instead of ''" in found.sentence


def test_text_is_compared_byte_for_byte() -> None:
    """Two forms of one letter, a trailing space and a line end are differences."""
    kind = KINDS["text"]
    for left, right in (("\u00e9", "e\u0301"), ("a", "a "), ("a\n", "a\r\n")):
        assert kind.compare(samples(left), samples(right), unit="", better="equal").state == (
            "changed"
        )


def test_both_tolerances_must_be_exceeded() -> None:
    """20% more but only 8 MiB is the same; 20 MiB more and 50% is worse."""
    kind, tolerance = KINDS["memory"], Regression(5.0, 16.0)

    def state(before: float, after: float) -> str:
        found = kind.compare(
            samples(before), samples(after), unit="MiB", better="lower", tolerance=tolerance
        )
        return found.state

    assert state(40, 48) == "same"
    assert state(40, 60) == "regressed"
    assert state(1000, 1030) == "same"
    assert state(60, 40) == "improved"
    assert state(0, 0) == "same"
