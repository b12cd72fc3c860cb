"""From what a load step came to, to its measurements, each of the step as a whole; pure."""

from __future__ import annotations

from typing import Literal

from benchsuite.collect.requests import CLIENT_CLOCK, HELD_UP
from benchsuite.drive.served import Load
from benchsuite.drive.tally import COUNTS, Tally
from benchsuite.metrics.catalogue import CATALOGUE, FROM_DUE, LOAD_SPANS, OF_TOKENS
from benchsuite.metrics.percentiles import ranks_of
from benchsuite.model.load import LoadSummary
from benchsuite.model.record import Measurement, Unmeasured, Value
from benchsuite.units import format_number

_NS_PER_MS = 1_000_000
_NS_PER_SECOND = 1_000_000_000
_HELD_MS = 10.0
"""From so long a wait for the cap of the rate on, on average, it matters. No median: a cap counts
requests in windows of a second, so that the last of each window alone may have waited for all of
them."""

NOTHING_SENT = "no request was sent"
"""Why nothing of a load step is measured that had nothing to do."""

_NO_TOKENS = {
    "cached_tokens": "a reply of /v1/embeddings does not tell its cached tokens",
    "evaluated_tokens": "a reply of /v1/embeddings does not tell its evaluated tokens",
    "output_tokens": "an embedding generates no tokens",
    "output_tokens_per_second": "an embedding generates no tokens",
}
_UNTOLD = {
    "ttft_ms": "no token arrived as an event of its own",
    "ttft_from_due_ms": "no token arrived as an event of its own",
    "tpot_ms": "no reply has two tokens or more that came apart",
    "itl_ms": "no reply has two token events or more",
}


def measure_load(
    load: Load, variant: str, trial: int
) -> tuple[list[Measurement], list[Unmeasured]]:
    """The measurements of one load step, labelled `step`.

    Sums are over the requests that were served, medians and rates over those that came after the
    warm-up; requests without a reply are counted in `requests_failed` and `requests_timed_out`, and
    make the `error_share`. To a median they count as later than any that was served.

    Args:
        load: What it brought.
        variant: Name of the variant.
        trial: From 1.

    Returns:
        Of a load that sent nothing no measurement: that none of no requests failed says nothing.
    """
    labels = load.labels
    measured: list[Measurement] = []
    unmeasured: list[Unmeasured] = []
    tally = load.tally

    def add(name: str, value: Value | None, source: str, why: str) -> None:
        if load.embeds and name in OF_TOKENS:
            why = _NO_TOKENS.get(name, "an embedding comes as a whole, without a first token")
            unmeasured.append(
                Unmeasured(name, variant, why, "not_applicable", trial=trial, labels=labels)
            )
            return
        if tally.is_empty:  # whatever was counted, was counted of nothing
            unmeasured.append(nothing_sent(name, variant, trial, labels))
            return
        if value is None:
            # whether tokens come apart is a matter of moments: nothing is missing where they do not
            apart = name in ("tpot_ms", "itl_ms") and tally.served_after > tally.tokenless_after
            outcome: Literal["missing", "inconclusive"] = "inconclusive" if apart else "missing"
            unmeasured.append(Unmeasured(name, variant, why, outcome, trial=trial, labels=labels))
            return
        unit = CATALOGUE[name].unit
        measured.append(Measurement(name, value, unit, variant, trial, labels, source=source))

    none = "no request of it was served"
    add("requests_failed", tally.refused, "replies", "")
    add("requests_timed_out", tally.timed_out, CLIENT_CLOCK, "")
    if load.sample is not None:
        add("requests_skipped", load.skipped, "prompt tokens against a slot's context", "")
    for name in COUNTS if not load.stage else ():
        why = f"not every reply tells its {name.replace('_', ' ')}" if tally.served else none
        add(name, tally.sum_of(name), "sum of replies", why)
    if tally.warm_ups:
        none = "no request of it was served after its warm-up"
    served = tally.served_after
    ended = served + tally.failed_after
    share = tally.failed_after / ended if ended else None
    add("error_share", share, f"{tally.failed_after} of {ended} requests", none)
    seconds = load.counted_ns / _NS_PER_SECOND
    add("requests_per_second", served / seconds if served else None, CLIENT_CLOCK, none)
    output = tally.output_after
    per_second = None if output is None else output / seconds
    add("output_tokens_per_second", per_second, CLIENT_CLOCK, none)
    for name in LOAD_SPANS:
        if name in FROM_DUE and not load.is_open:
            continue
        doubt = _median_doubt(load, name)
        if doubt:
            unmeasured.append(
                Unmeasured(name, variant, doubt, "inconclusive", trial=trial, labels=labels)
            )
            continue
        value, source = _median(tally, name)
        add(name, value, source, _UNTOLD.get(name, none) if served else none)
    late = tally.lateness.median
    if late is not None:
        add("send_lateness_ms", late / _NS_PER_MS, CLIENT_CLOCK, "")
        sent = len(tally.lateness)
        limit = format_number(tally.late_ns / _NS_PER_MS)
        words = f"{tally.late_after} of {sent} requests more than {limit} ms"
        add("client_late_share", tally.late_after / sent, words, "")
    elif tally.is_empty:
        add("send_lateness_ms", None, "", NOTHING_SENT)
        add("client_late_share", None, "", NOTHING_SENT)
    return measured, unmeasured


def _median(tally: Tally, name: str) -> tuple[float | None, str]:
    """A median in milliseconds, None where there is none, and where it comes from."""
    spans, lacking = tally.spans[name], tally.lacking(name)
    median = spans.median_of(len(spans) + lacking)
    source = f"{CLIENT_CLOCK}, median of {_of(name)}"
    if tally.warm_ups:
        source += f", {tally.warm_ups} of warm-up left out"
    if lacking:
        source += f", {lacking} without a {tally.lacking_words(name)} taken for later"
    if not spans.is_exact:
        source += f", {spans.method}"
    return None if median is None else median / _NS_PER_MS, source


def _median_doubt(load: Load, name: str) -> str:
    """Why a median cannot be told; empty where it can.

    Because the client fell behind or tokens came at one moment, or for requests that brought
    nothing: as of the quantile 0.5, where the interval's upper end lies among them.
    """
    tally = load.tally
    if tally.fell_behind and not (load.embeds and name in OF_TOKENS):
        return f"{HELD_UP} (so it was for {tally.fell_behind} of {tally.served_after} replies)"
    spans, lacking = tally.spans[name], tally.lacking(name)
    if load.embeds and name in OF_TOKENS:
        return ""
    if tally.pace_doubt(name) and len(spans):
        return f"{tally.pace_doubt(name)}, and nobody knows their pace"
    if not lacking or not len(spans):
        return ""
    count = len(spans) + lacking
    high = ranks_of(0.5, count).high
    if high is not None and high <= len(spans):
        return ""
    words = "is" if count // 2 + 1 > len(spans) else "may be"
    what = tally.lacking_words(name)
    return f"{lacking} of {count} requests brought no {what}, and the median {words} one of them"


def nothing_sent(name: str, variant: str, trial: int, labels: dict[str, str]) -> Unmeasured:
    """A metric of a load step that sent nothing; a gate on it is inconclusive."""
    return Unmeasured(name, variant, NOTHING_SENT, "inconclusive", trial=trial, labels=labels)


def summarise_load(load: Load, *, capped: bool) -> LoadSummary:
    """The counts of a load step, and what is to be said of it.

    Args:
        load: What it brought.
        capped: Whether a cap of the request rate may have held requests back.
    """
    tally, warnings = load.tally, []
    name = load.words
    failed = tally.refused + tally.timed_out
    if tally.is_empty:
        warnings.append(
            f"{name}: {NOTHING_SENT}, so nothing of it is measured; none was due: let it last "
            "longer, or more come in that time"
        )
    if failed:
        words = "was" if failed == 1 else "were"
        many = "" if failed == 1 else "s"
        kinds = f"{tally.refused - tally.lost} answered with an error, {tally.timed_out} given up"
        if tally.lost:
            kinds += f", {tally.lost} by a lost connection"
        warnings.append(
            f"{name}: {failed} request{many} {words} not served ({kinds}), the first "
            f"{tally.first_failure}; its counts were not checked against /metrics"
        )
    if tally.tokenless and not load.embeds:
        warnings.append(
            f"{name}: {tally.tokenless} of {tally.served} replies brought no "
            "token (none, or one without text); their time to it counts as later than any other"
        )
    sample = load.sample
    if load.skipped and sample is not None:
        were = "was" if load.skipped == 1 else "were"
        warnings.append(
            f"{name}: {load.skipped} of {load.skipped + len(sample.rows)} requests of "
            f"{sample.spec.file} {were} skipped, the first for this: {load.why_skipped}"
        )
    if sample is not None and sample.lacking:
        warnings.append(f"{name}: {sample.lacking}")
    if sample is not None and sample.bad:
        what = "element" if sample.spec.format == "sharegpt" else "line"
        were = f"{what} was" if sample.bad == 1 else f"{what}s were"
        warnings.append(
            f"{name}: {sample.bad} unusable {were} left out of {sample.spec.file}, "
            f"the first for this: {sample.first_bad}"
        )
    held_ms = held_back_ms(load) if capped else None
    if held_ms is not None:
        shown = format_number(held_ms)
        warnings.append(
            f"{name}: the cap of the request rate held requests back, {shown} ms on "
            "average; that is no time of the server's, and only what counts from the schedule has "
            "it (requests_per_second of the deployment sets the cap)"
        )
    return LoadSummary(
        name=load.name,
        sent=tally.sent,
        measured=tally.served_after + tally.failed_after,
        failed=tally.refused_after,
        timed_out=tally.timed_out_after,
        distinct_prompts=load.distinct_prompts,
        seconds=load.wall_ns / _NS_PER_SECOND,
        most_in_flight=load.most_in_flight,
        warnings=tuple(warnings),
        source="" if sample is None else f"{sample.counts} (sha256 {sample.sha256[:12]})",
        source_sha256="" if sample is None else sample.sha256,
        skipped=load.skipped,
        stage=load.stage,
        asked_per_second=load.asked_per_second,
    )


def held_back_ms(load: Load) -> float | None:
    """How long a cap of the rate held requests, on average; None where it did not matter."""
    mean_ns = load.tally.held.mean
    return None if mean_ns is None or mean_ns / _NS_PER_MS < _HELD_MS else mean_ns / _NS_PER_MS


def _of(name: str) -> str:
    if name == "itl_ms":
        return "pauses between token events"
    return "requests" if name == "wait_ms" else "replies"
