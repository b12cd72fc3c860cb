"""`equals: analytic`: what was logged against what the model file and the flags make of it.

The analytic value is exact; the logged one is equal as far as its print tells (DESIGN 7).
"""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.gate.rules import Finding, Subject
from benchsuite.gate.seen import Seen, Series
from benchsuite.gate.words import number_words, rule_words
from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Launch, Measurement
from benchsuite.units import format_number, format_value

_JUDGE_OTHERWISE = "judge it with 'equals: baseline', or with a value worked out by hand"


def unjudgeable(subject: Subject, seen: Seen) -> Finding | None:
    """Why a gate cannot be held against the model file; None where it can.

    What the model has no memory of is not applicable, unless the server reports some all the same.
    """
    if seen.attached(subject.variant):
        words = "the model file and the flags of an attached server cannot be seen"
        return Finding("not applicable", words)
    for launch in seen.launches(subject.variant):
        if launch.analytic_unknown:
            reason = f"what it must be cannot be told: {launch.analytic_unknown}"
            return _undecided(f"{reason}; {_JUDGE_OTHERWISE}")
        if not launch.analytic:
            reason = "this run's record does not hold what the model file makes of memory"
            return _undecided(f"{reason}; run it again")
    return without_memory(subject, seen)


def without_memory(subject: Subject, seen: Seen) -> Finding | None:
    """That a model is known to have none of what a gate asks for, and none was logged; else None.

    Told by the model file and the flags, for gates of every kind: a model with recurrent state
    alone has no KV cache, so that its being absent is nothing that is missing.
    """
    name = subject.selector.name
    launches = seen.launches(subject.variant)
    told = launches and all(one.analytic and not one.analytic_unknown for one in launches)
    if not told or not subject.metric.analytic or subject.series:
        return None
    if any(m.name == name for one in launches for m in one.analytic):
        return None
    kind = "recurrent state" if name == "rs_mib" else "KV cache"
    return Finding("not applicable", f"this model has no {kind}")


def against_analytic(subject: Subject, seen: Seen) -> list[Finding]:
    """Hold every trial of every series against the value of its own launch."""
    return [_judge(subject, seen, series) for series in subject.series]


def _judge(subject: Subject, seen: Seen, series: Series) -> Finding:
    kind, unit = subject.kind, subject.metric.unit
    wanted = _values(seen, subject.variant, series.name)
    observed = kind.show(series.samples, unit)
    expected = _shown(wanted, unit)
    off = [
        (sample, value)
        for sample, value in zip(series.samples, wanted, strict=True)
        if value is None or not kind.equals([sample], value)
    ]
    if not off:
        rule = rule_words(subject.spec, unit)
        return Finding("pass", rule, series.text, expected, observed, state="same")
    trials = "" if len(off) == len(wanted) else f" in {len(off)} of {len(wanted)} trials"
    reason = (
        f"is {observed}{trials}, but the model file and the flags make {expected}"
        f"{_why(subject, seen)}"
    )
    return Finding("fail", reason, series.text, expected, observed, state="changed")


def _values(seen: Seen, variant: str, name: str) -> list[float | None]:
    """The analytic total of each trial; None where the model has no such memory."""
    return [_total(launch, name) for launch in seen.launches(variant)]


def _total(launch: Launch, name: str) -> float | None:
    found = next((m for m in launch.analytic if m.name == name and not m.labels), None)
    return None if found is None or isinstance(found.value, str) else float(found.value)


def _shown(wanted: Sequence[float | None], unit: str) -> str:
    words = [number_words(0 if value is None else value, unit) for value in wanted]
    return words[0] if len(set(words)) == 1 else ", ".join(words)


def _why(subject: Subject, seen: Seen) -> str:
    """Where to look: at the number of cells, or at what a cell weighs."""
    if subject.selector.name == "rs_mib":
        return "; recurrent state grows with slots: see --parallel in the log"
    logged = seen.select(subject.variant, parse_selector("kv_cells"))
    parts = _parts(seen.launches(subject.variant)[0].analytic)
    if not logged:
        return f"{parts}; see its lines in the log"
    cells = [sample.value for sample in logged[0].samples]
    if cells == _values(seen, subject.variant, "kv_cells"):
        return (
            f"{parts}; the cells are as many as they should be, so one weighs otherwise: see "
            "--cache-type-k and --cache-type-v, and whether this build knows the model"
        )
    shown = format_value(cells[0])
    return (
        f"{parts}; {shown} cells were made: see --ctx-size, --parallel, --kv-unified and --swa-full"
    )


def _parts(analytic: Sequence[Measurement]) -> str:
    """The cells that are expected, in brackets."""
    cells = [m for m in analytic if m.name == "kv_cells"]
    named = [m for m in cells if m.labels] or cells
    words = [f"{m.labels.get('cache', '')} {format_number(float(m.value))}".strip() for m in named]
    return f" (cells: {', '.join(words)})" if words else ""


def _undecided(reason: str) -> Finding:
    return Finding("inconclusive", reason, "", "", "", "inconclusive")
