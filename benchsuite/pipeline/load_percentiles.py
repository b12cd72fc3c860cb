"""Percentiles of a load step, each with its interval, or why it cannot be told."""

from __future__ import annotations

from typing import NamedTuple

from benchsuite.collect.requests import CLIENT_CLOCK
from benchsuite.drive.served import Load
from benchsuite.drive.spans import Spans
from benchsuite.metrics.catalogue import CATALOGUE, FROM_DUE, LOAD_SPANS, OF_TOKENS
from benchsuite.metrics.percentiles import METHOD, needed, ranks_of
from benchsuite.model.load import QUANTILES
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.units import format_number

_NS_PER_MS = 1_000_000
_LATENESS = "send_lateness_ms"


def measure_percentiles(load: Load, variant: str, trial: int) -> list[Measurement | Unmeasured]:
    """The percentiles of a load step, labelled `quantile` and `step`.

    A request that failed or was given up counts as later than any that was served, in all that is
    timed from a request's beginning to its reply; so does a reply without a token in what is timed
    to the first one. Where a percentile or the upper end of its interval falls among those, or has
    no rank for too few requests, it is inconclusive, and the reason tells what was seen.

    Args:
        load: What the step came to.
        variant: Name of the variant.
        trial: From 1.
    """
    found: list[Measurement | Unmeasured] = []
    tally = load.tally
    for name in LOAD_SPANS if not tally.fell_behind else ():  # the medians say why
        if name in FROM_DUE and not load.is_open:
            continue
        if load.embeds and name in OF_TOKENS:
            continue
        if tally.pace_doubt(name):
            continue  # the median says why
        lacking = _Lacking(tally.lacking(name), tally.lacking_words(name))
        found += _all_of(name, tally.spans[name], lacking, load.labels, variant, trial)
    none = _Lacking(0, "")
    return found + _all_of(_LATENESS, tally.lateness, none, load.labels, variant, trial)


class _Lacking(NamedTuple):
    """Requests that are later than any other."""

    requests: int
    what: str  # that they did not bring


def _all_of(
    name: str, spans: Spans, lacking: _Lacking, of: dict[str, str], variant: str, trial: int
) -> list[Measurement | Unmeasured]:
    if not len(spans):
        return []  # the median says why
    return [_one(name, q, spans, lacking, of, variant, trial) for q in QUANTILES]


def _one(
    name: str,
    quantile: str,
    spans: Spans,
    lacking: _Lacking,
    of: dict[str, str],
    variant: str,
    trial: int,
) -> Measurement | Unmeasured:
    labels = {"quantile": quantile, **of}
    failed, what = lacking
    count = len(spans) + failed
    ranks = ranks_of(float(quantile), count)
    things = "pauses" if name == "itl_ms" else "requests"

    def missing(why: str) -> Unmeasured:
        return Unmeasured(name, variant, why, "inconclusive", trial=trial, labels=labels)

    if ranks.value > len(spans):
        return missing(
            f"{failed} of {count} requests brought no {what}, and the {quantile} quantile is one "
            "of them"
        )
    value = spans.at_rank(ranks.value) / _NS_PER_MS
    seen = f"rank {ranks.value} of {count} {things} is {format_number(value)} ms"
    if ranks.high is None:
        return missing(
            f"{count} {things} are too few to tell how high the {quantile} quantile may be: "
            f"{needed(float(quantile))} are needed ({seen})"
        )
    if ranks.high > len(spans):
        return missing(
            f"{failed} of {count} requests brought no {what}, and the {quantile} quantile may be "
            f"one of them ({seen})"
        )
    # where there are too few for the lower end, time itself has one
    low = 0.0 if ranks.low is None else spans.at_rank(ranks.low) / _NS_PER_MS
    high = spans.at_rank(ranks.high) / _NS_PER_MS
    source = f"{CLIENT_CLOCK}, rank {ranks.value} of {count} {things}, {METHOD}"
    if failed:
        source += f", {failed} without a {what}"
    if not spans.is_exact:
        source += f", {spans.method}"
    unit = CATALOGUE[name].unit
    return Measurement(
        name, value, unit, variant, trial, labels, source=source, interval=(low, high)
    )
