"""Prompts that were evaluated again, as lines of a run's report.

A run that passes gets one line at most; a gate on cached tokens that does not pass names the
cause itself, so only cause and counts are listed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Launch, Reevaluation, RunRecord
from benchsuite.report.layout import Style, safe, wrap

_GATED = ("cached_tokens", "evaluated_tokens")
_MOST_LINES = 12


def reevaluation_lines(record: RunRecord, look: Style, *, verbose: bool = False) -> list[str]:
    """Why prompts were evaluated again; empty where nothing fell short.

    Args:
        record: With its gates.
        look: Width and colours.
        verbose: Every request, with sentence and evidence.
    """
    found = list(_all(record))
    if verbose:
        return _everything(found, record, look)
    gated = [row for row in found if _is_gated(*row, record)]
    short = [told for _, told in found if told.short]
    lines = [
        line
        for launch, told in gated[:_MOST_LINES]
        for line in wrap(safe(f"{_head(launch, told, record)}: {told.cause}"), look.width, "  ")
    ]
    if lines:
        left_out = len(short) - sum(told.short for _, told in gated[:_MOST_LINES])
        more = [f"  and {left_out} more, in the run's record"] if left_out else []
        return [look.paint("prompts evaluated again:", "dim"), *lines, *more]
    if not short:
        return []
    causes = Counter(told.cause for told in short)
    words = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
    count = f"{len(short)} request{'' if len(short) == 1 else 's'}"
    return wrap(
        f"{count} reused less than an earlier one had left ({words}), as the record tells",
        look.width,
    )


def _all(record: RunRecord) -> Iterator[tuple[Launch, Reevaluation]]:
    for launch in record.launches:
        for told in launch.reevaluations:
            yield launch, told


def reevaluation_rows(record: RunRecord) -> Iterator[tuple[Launch, str, Reevaluation]]:
    """Every request whose prompt was evaluated again: its launch, its name, and why."""
    for launch, told in _all(record):
        yield launch, _request_words(told.labels), told


def _everything(
    found: list[tuple[Launch, Reevaluation]], record: RunRecord, look: Style
) -> list[str]:
    lines = []
    for launch, told in found:
        lines += wrap(safe(f"{_head(launch, told, record)}: {told.sentence}"), look.width, "  ")
        for evidence in told.evidence:
            lines += wrap(safe(evidence), look.width, "    | ")
    return [look.paint("prompts evaluated again:", "dim"), *lines] if lines else []


def _head(launch: Launch, told: Reevaluation, record: RunRecord) -> str:
    words = _request_words(told.labels)
    place = launch.variant if record.trials == 1 else f"{launch.variant}, trial {launch.trial},"
    if told.common_prefix is None:
        return f"{place} {words}: {told.cached} tokens cached"
    return f"{place} {words}: {told.cached} of {told.common_prefix} common tokens cached"


def _request_words(labels: dict[str, str]) -> str:
    if "session" in labels:
        return f"{labels['session']} turn {labels.get('turn', '?')}"
    return labels.get("request", "request")


def _is_gated(launch: Launch, told: Reevaluation, record: RunRecord) -> bool:
    """Whether a gate on cached tokens that selects the request did not pass."""
    for gate in record.gates:
        if gate.variant != launch.variant or gate.outcome not in ("fail", "inconclusive"):
            continue
        selector = parse_selector(gate.metric)
        if selector.name in _GATED and selector.accepts(selector.name, told.labels):
            return True
    return False
