"""What latency says where our own client was the bottleneck: nothing, with the figure.

A slow client makes every server look alike, so neither a pass nor a fail can be believed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.gate.rules import Finding, Subject
from benchsuite.gate.seen import Seen
from benchsuite.metrics.catalogue import CATALOGUE, CLIENT_HEALTH
from benchsuite.model.record import Measurement
from benchsuite.units import format_number, format_value

LAG_SHARE = 0.10
"""Of the figure: a lag of more could be all of a change that tolerances of 10% look for."""

LATENESS_SHARE = 0.10
"""Of a load step's median request: workers that pause longer offer less load than was asked for.
Of a quantile of latency the same quantile of lateness, since few late requests make a tail."""

LATE_REQUESTS = 0.10
"""Of the requests of a load step: so many may have been sent later than the step's own limit,
which depends on no latency. A latency that our slowness makes longer hides it from a share of
itself: 768 ms late stood against a median of 9.5 s."""

LATE_MOMENTS = LATE_REQUESTS
"""Of a load step: so likely an event may be answered more than 100 ms late, whatever a request
takes. A quantile moves once as many events are late as lie above it, so of p99 it is 1%."""

CPU_SHARE = 0.25
"""Of the server's cores: a server that wants all of them is slowed by a third. A healthy client
takes 3 to 6% of two cores beside a model of 5 MB, which answers within 100 ms."""

TOLERATED_LAUNCHES = 0.2
"""Share of a series' launches that may have had a bottleneck: medians and intervals over five or
more stand one bad launch in five, fewer stand none."""

_LAG, _SHARE, _LATENESS = "event_loop_lag_ms", "client_cpu_share", "send_lateness_ms"
_LATE, _LOOP_LATE = "client_late_share", "event_loop_late_share"
_WITHIN = ("tpot_ms", "itl_ms")
_OUTSIDE = CLIENT_HEALTH | {"server_start_ms"}  # measured while nothing is driven


def with_client_health(finding: Finding, subject: Subject, seen: Seen) -> Finding:
    """The finding, inconclusive where the client was the bottleneck in one of its launches."""
    if finding.outcome not in ("pass", "fail"):
        return finding
    series = next((s for s in subject.series if s.text == finding.series), None)
    if series is None:
        return finding
    doubt = client_doubt(seen.record.measurements, series.name, series.labels, subject.variant)
    if doubt is None:
        return finding
    reason = f"{doubt}; measure again with less beside it (without that: {finding.reason})"
    return msgspec.structs.replace(
        finding, outcome="inconclusive", state="inconclusive", reason=reason
    )


def client_doubt(
    measurements: Sequence[Measurement], name: str, labels: dict[str, str], variant: str
) -> str | None:
    """Why a series cannot be believed for our own client's sake; None where it can.

    Args:
        measurements: Of a run, or of the launches that are asked about.
        name: Of the metric; anything but latency is always believed.
        labels: Of the series.
        variant: Whose launches are meant.

    Returns:
        A sentence with the figure, without a final stop.
    """
    metric = CATALOGUE.get(name)
    if metric is None or metric.assume != "latency" or name in _OUTSIDE:
        return None
    own = [m for m in measurements if m.variant == variant]
    health = [m for m in own if m.name in CLIENT_HEALTH]
    timed = {m.trial: m for m in own if m.name == name and m.labels == labels}
    if metric.unit != "ms" or name in _WITHIN:  # spread over the whole request
        timed = {m.trial: m for m in own if m.name == "e2e_ms" and m.labels == labels} or timed
    bad: dict[int, str] = {}
    for one in sorted(health, key=lambda m: m.trial):
        reference = timed.get(one.trial)
        if reference is None or isinstance(one.value, str) or isinstance(reference.value, str):
            continue
        words = _bottleneck(one, reference, by_client=metric.source == "client")
        if words is not None:
            bad.setdefault(one.trial, words)
    if len(bad) <= TOLERATED_LAUNCHES * len(timed):
        return None
    trial, words = next(iter(bad.items()))
    where = f" in {len(bad)} of {len(timed)} launches, first in trial {trial}"
    return f"benchsuite was the bottleneck{where if len(timed) > 1 else ''}: {words}"


def _bottleneck(health: Measurement, reference: Measurement, *, by_client: bool) -> str | None:
    value = float(health.value)
    if health.name == _SHARE:
        if value <= CPU_SHARE:
            return None
        share = f"{format_number(value * 100, 1)}%"
        return f"it took {share} of the server's cores, and {CPU_SHARE:.0%} is the limit"
    if health.name == _LATE:
        if not by_client or value <= LATE_REQUESTS or not _is_of_step(health, reference):
            return None
        share = f"{format_number(value * 100, 1)}%"
        late = f" ({health.source})" if health.source else ""
        return f"it sent {share} of the requests late{late}, and {LATE_REQUESTS:.0%} is the limit"
    if health.name == _LOOP_LATE:
        limit = min(LATE_MOMENTS, 1 - float(reference.labels.get("quantile", 0)))
        if not by_client or value <= limit + 1e-9 or not _is_of_step(health, reference):
            return None
        return (
            f"its event loop answered {value:.1%} of the moments more than 100 ms late, and "
            f"{limit:.0%} is the limit"
        )
    if not by_client or reference.unit != "ms":
        return None  # the server's own clock knows nothing of our delays
    bound = float(reference.value)
    shown, whole = format_value(round(value, 3), "ms"), format_value(round(bound, 3), "ms")
    if health.name == _LAG and value > LAG_SHARE * bound:
        return f"its event loop was {shown} late on average, more than {LAG_SHARE:.0%} of {whole}"
    # the same step, and the same quantile: few late requests make a tail, and no median
    quantile = health.labels.get("quantile")
    which = "median" if quantile is None else f"{quantile} quantile"
    is_same_step = health.labels == reference.labels
    if health.name == _LATENESS and is_same_step and value > LATENESS_SHARE * bound:
        return (
            f"it sent requests {shown} late ({which}), more than {LATENESS_SHARE:.0%} of the "
            f"{whole} that one takes"
        )
    return None


def _is_of_step(health: Measurement, reference: Measurement) -> bool:
    """Whether a figure of our own client is of the load step, or stage, that a latency is of."""
    return all(health.labels.get(k) == reference.labels.get(k) for k in ("step", "stage"))
