"""What changed between two sides, as rows that say by how much, since when and with what.

Only what changed is a row, the rest is counted. Tolerances belong to scenarios, so a diff has
none; memory and latency of runs, which never repeat exactly, are told apart as noise.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchsuite.gate.differs import differences
from benchsuite.gate.kinds import KINDS
from benchsuite.gate.kinds.comparison import Comparison
from benchsuite.gate.kinds.noisy import median
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.metric import Metric
from benchsuite.metrics.select import parse_selector
from benchsuite.model.verdict import State
from benchsuite.report.sources import Key, Origins, Part, Side, key_words, scope_word
from benchsuite.store.baselines import Sample, SeriesValues
from benchsuite.units import format_value

DIFF_SCHEMA = 1
"""Version of the JSON of a diff. 1: first."""

NOISE_PERCENT = 5.0
"""Smaller changes of a run's memory and latency are counted as the same."""


class Row(msgspec.Struct, frozen=True):
    """One series that changed."""

    deployment: str
    scenario: str
    variant: str
    series: str
    baseline: str  # as printed; empty where it is new
    candidate: str  # as printed; empty where it is missing
    state: State
    change: str = ""  # in words: `-46.9%`, or of a text where it parts
    noisy: bool = False  # memory or latency of a run: not counted as a difference
    sentence: str = ""  # `changed from 16 MiB to 12.25 MiB (-23.4%)`; of a text, both sides
    # where each value comes from, in words: `since commit 1a2b3c4d5 of 2026-10-01 (first), accepted
    # from run ba5e0001 for: first baseline`, `run cafe0002 of build b10440`; empty without a value
    baseline_from: str = ""
    candidate_from: str = ""
    differs: tuple[str, ...] = ()  # between the two, in words: `build b1 -> b2`


class Diff(msgspec.Struct, frozen=True):
    """Two sides compared."""

    baseline: str  # name of the first side
    candidate: str
    rows: tuple[Row, ...]
    same: int  # series that did not change
    differs: tuple[str, ...]  # in words: `build b1 -> b2`
    notes: tuple[str, ...] = ()  # what could not be compared, or only with care
    failed: tuple[str, ...] = ()  # launches of either side that failed, in words
    schema_version: int = DIFF_SCHEMA

    @property
    def is_same(self) -> bool:
        """Whether nothing changed but noise, and no launch failed."""
        return not self.failed and all(row.noisy for row in self.rows)


def diff(baseline: Side, candidate: Side) -> Diff:
    """Compare two sides, series by series.

    Args:
        baseline: The first side; what the words `missing` and `new` are seen from.
        candidate: The second.
    """
    rows: list[Row] = []
    same = 0
    words: dict[str, None] = {}
    notes: dict[str, None] = dict.fromkeys([*baseline.notes, *candidate.notes])
    with_run = baseline.run is not None or candidate.run is not None
    nothing = Part({}, {}, {}, {})
    origins = (Origins(baseline), Origins(candidate))
    for key in dict.fromkeys([*baseline.parts, *candidate.parts]):
        left, right = baseline.parts.get(key), candidate.parts.get(key)
        if with_run and (left is None or right is None):
            if not (baseline.notes or candidate.notes):
                notes[f"{key[2]}: only on one side, so not compared"] = None
            continue
        left, right = left or nothing, right or nothing
        places = key_words(left.match, right.match) if left.match and right.match else []
        words.update(dict.fromkeys(places))
        for variant, series, before, after in _pairs(left, right, with_run=with_run):
            row = _row(key, variant, series, before, after, with_run=with_run)
            if row is None:
                same += 1
                continue
            found = (*places, *_differences(left, right, variant, series))
            froms = [origin.of(key, variant, series) for origin in origins]
            rows.append(
                msgspec.structs.replace(
                    row, baseline_from=froms[0], candidate_from=froms[1], differs=found
                )
            )
        for variant, seen in left.infos.items():
            for series in seen:
                words.update(dict.fromkeys(_differences(left, right, variant, series)))
            theirs, ours = left.digests.get(variant), right.digests.get(variant)
            if theirs and ours and theirs != ours:
                notes[f"variant {variant} of {key[1]} does something else on each side"] = None
    if not with_run:
        notes.update(dict.fromkeys(_other_keys(baseline, candidate)))
    return Diff(
        baseline.name,
        candidate.name,
        tuple(rows),
        same,
        tuple(words),
        tuple(notes),
        (*baseline.failed, *candidate.failed),
    )


def summary(found: Diff) -> str:
    """The one line that says it: `2 changed, 1 new, 40 the same`."""
    counts: dict[str, int] = {}
    for row in found.rows:
        key = "noisy" if row.noisy else row.state
        counts[key] = counts.get(key, 0) + 1
    parts = [f"{count} {state}" for state, count in counts.items()]
    if found.failed:
        parts.append(f"{len(found.failed)} failed to run")
    return ", ".join([*parts, f"{found.same} the same"])


def _differences(left: Part, right: Part, variant: str, series: str) -> tuple[str, ...]:
    """What differed when the two values of a series were measured, or where one has none."""
    before, after = left.infos.get(variant, {}), right.infos.get(variant, {})
    theirs, ours = before.get(series), after.get(series)
    if theirs is None or ours is None:  # what was the case for the rest of the variant
        theirs = theirs or next(iter(before.values()), None)
        ours = ours or next(iter(after.values()), None)
    if theirs is None or ours is None or theirs is ours:
        return ()
    return differences(theirs.seen, ours.seen, variant)


def _other_keys(baseline: Side, candidate: Side) -> list[str]:
    """Notes on scopes of which each side has files, but none under the other's keys."""
    notes = []
    files: dict[tuple[str, str, str], tuple[list[Key], list[Key]]] = {}
    for number, side in enumerate((baseline, candidate)):
        for key in side.parts:
            at = (*key[:2], scope_word(key))
            files.setdefault(at, ([], []))[number].append(key)
    for (deployment, scenario, scope), (left, right) in files.items():
        if left and right and not set(left) & set(right):
            found = key_words(baseline.parts[left[0]].match, candidate.parts[right[0]].match)
            notes.append(
                f"{deployment}/{scenario}: each side has {scope} baselines, but of other keys "
                f"({', '.join(found)}), so they show as missing and new and are not compared"
            )
    return notes


def _pairs(
    left: Part, right: Part, *, with_run: bool
) -> Iterator[tuple[str, str, tuple[Sample, ...] | None, tuple[Sample, ...] | None]]:
    """Each series of both parts with its values; with a run, only of variants that both have."""
    none: SeriesValues = {}
    for variant in dict.fromkeys([*left.metrics, *right.metrics]):
        if with_run and not (variant in left.metrics and variant in right.metrics):
            continue  # `--variant` ran only some
        before, after = left.metrics.get(variant, none), right.metrics.get(variant, none)
        for series in dict.fromkeys([*before, *after]):
            yield variant, series, before.get(series), after.get(series)


def _row(
    key: tuple[str, str, str],
    variant: str,
    series: str,
    before: tuple[Sample, ...] | None,
    after: tuple[Sample, ...] | None,
    *,
    with_run: bool,
) -> Row | None:
    """The row of a series; None where it did not change."""
    metric = CATALOGUE.get(parse_selector(series).name)
    left, right = _show(metric, before), _show(metric, after)
    state: State
    if before is None or after is None:
        state = "new" if before is None else "missing"
        words = f"{state}: {right} now" if before is None else f"{state}: was {left}"
        return Row(*key[:2], variant, series, left, right, state, sentence=words)
    if before == after:
        return None
    if metric is None:
        words = f"changed from {left} to {right}"
        return Row(*key[:2], variant, series, left, right, "changed", sentence=words)
    kind = KINDS[metric.assume]
    found = kind.compare(before, after, unit=metric.unit, better=metric.better)
    state, change = found.state, _change(metric, before, after, found.sentence)
    noisy = kind.advises and with_run
    percent = _percent(before, after)
    if noisy and (state == "same" or (percent is not None and abs(percent) < NOISE_PERCENT)):
        return None
    if kind.advises and state == "same":
        state, change = "changed", "other samples, the same median"
    if state == "inconclusive":  # trials that disagree among themselves
        state = "same" if _values(before) == _values(after) else "changed"
    if state == "same":
        return None
    return Row(
        *key[:2],
        variant,
        series,
        found.expected,
        found.observed,
        state,
        change,
        noisy=noisy,
        sentence=_sentence(metric, state, found, change),
    )


def _sentence(metric: Metric, state: State, found: Comparison, change: str) -> str:
    """What moved and by how much; of a text the first difference and both sides of it."""
    if metric.assume == "text" and found.state == "changed":
        return found.sentence
    aside = f" ({change})" if change else ""
    return f"{state} from {found.expected} to {found.observed}{aside}"


def _values(samples: tuple[Sample, ...]) -> list[str]:
    return sorted(repr(s.value) for s in samples)


def _show(metric: Metric | None, samples: tuple[Sample, ...] | None) -> str:
    if samples is None:
        return ""
    if metric is None:
        return ", ".join(format_value(s.value) for s in samples)
    return KINDS[metric.assume].show(samples, metric.unit)


def _change(
    metric: Metric, before: tuple[Sample, ...], after: tuple[Sample, ...], sentence: str
) -> str:
    if metric.assume == "text":
        return sentence.split(": ", 1)[0].removeprefix("changed ")
    percent = _percent(before, after)
    return "" if percent is None else f"{percent:+.1f}%"


def _percent(before: tuple[Sample, ...], after: tuple[Sample, ...]) -> float | None:
    """The relative change of medians in percent; None from 0 and for text."""
    if isinstance(before[0].value, str) or isinstance(after[0].value, str):
        return None
    start = median(before)
    return None if start == 0 else (median(after) - start) / abs(start) * 100
