"""Estimates in words: value, interval, launches and warnings."""

from __future__ import annotations

import pytest

from benchsuite.model.verdict import Estimate, GateResult
from benchsuite.report.estimates import estimate_lines, estimate_words
from benchsuite.report.layout import Style


@pytest.mark.parametrize(
    ("estimate", "limit", "words"),
    [
        (
            Estimate(20.123, "%", 5, 5, 18.2, 22.14, method="Welch's t"),
            False,
            "+20.12% (95%: 18.2 to 22.14%), 5 launches a side, Welch's t",
        ),
        (
            Estimate(-3.0, "MiB", 3, 1, warnings=("1 launch: an interval needs 5",)),
            False,
            "-3 MiB, 1 launch against 3; 1 launch: an interval needs 5",
        ),
        (
            Estimate(1.5, "%", 10, 10, -1, 4, method="paired log ratio, Student's t"),
            False,
            "+1.5% (95%: -1 to 4%), 10 pairs, paired log ratio, Student's t",
        ),
        (Estimate(61.0, "MiB", 0, 1), True, "61 MiB, 1 launch"),
        (Estimate(None, "%", 0, 0, warnings=("nothing",)), False, "no value, 0 launches; nothing"),
    ],
)
def test_an_estimate_in_words(estimate: Estimate, limit: bool, words: str) -> None:
    """What is missing is `no value`, never 0."""
    found = estimate_words(estimate, limit=limit)
    assert found == words


def test_variants_that_came_out_alike_share_a_line() -> None:
    """Exact gates have none; long lines are indented."""
    estimate = Estimate(20.0, "%", 5, 5, 18.0, 22.0, method="Welch's t")
    gates = [
        GateResult(
            "ttft_ms",
            variant,
            "rule",
            "fail",
            "block",
            "",
            "",
            "",
            against="baseline",
            estimate=estimate,
        )
        for variant in ("B", "U")
    ]
    exact = GateResult("kv_mib", "B", "equals baseline", "pass", "block", "16", "16", "")
    lines = estimate_lines([*gates, exact], Style(width=60))
    assert lines == [
        "noisy values (of differences, above 0 is worse):",
        "  B,U ttft_ms: +20% (95%: 18 to 22%), 5 launches a side,",
        "    Welch's t",
    ]
    assert estimate_lines([exact], Style()) == []
