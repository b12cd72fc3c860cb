"""A report as the body of one pull-request comment: what failed and what moved, nothing else.

The first line is a hidden marker by which a workflow finds its comment and updates it. GitHub
takes 65536 characters; rows that do not fit are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from benchsuite.gate.kinds import KINDS
from benchsuite.gate.verdict import failures_of, worst_code
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import parse_selector
from benchsuite.model.ab import SIDES, AbRecord
from benchsuite.model.record import RunRecord
from benchsuite.model.suite import Policy, SuiteRun
from benchsuite.model.verdict import GateResult, Verdict
from benchsuite.report.cases import unjudged
from benchsuite.report.diff import Diff, Row
from benchsuite.report.diff_text import explained
from benchsuite.report.layout import Style
from benchsuite.report.load_markdown import LoadSection, load_sections
from benchsuite.report.markdown import code, escape, row, table_head
from benchsuite.report.report_input import DEFAULT_KEY, ReportInput
from benchsuite.report.terminal import outcome_line

MOST_BYTES = 65_000
"""Of the body in UTF-8; GitHub refuses comments above 65536 characters."""

_KEEP = 400  # bytes left for the sentence on what was left out
_UNSAFE_KEY = re.compile(r"[^A-Za-z0-9._/-]+")
_SIGNS = {"pass": "✅", "fail": "❌", "inconclusive": "⚠️", "interrupted": "⚠️"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_MOVED = ("improved", "regressed", "changed", "missing", "new")


def marker(key: str) -> str:
    """The hidden first line; a comment that begins with it is the one to update."""
    cleaned = re.sub("-+", "-", _UNSAFE_KEY.sub("-", key)).strip("-") or DEFAULT_KEY
    return f"<!-- benchsuite:{cleaned} -->"


class _Section(msgspec.Struct, frozen=True):
    """Lines that stand or fall together, and rows of which some may be left out."""

    head: tuple[str, ...]
    rows: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    what: str = "rows"  # what the rows are, for the sentence on those left out


class _Judged(msgspec.Struct, frozen=True):
    """What a run and a run of two sides have in common."""

    id: str
    place: str  # `scenarioB on tiny`
    verdict: Verdict | None
    gates: tuple[GateResult, ...]
    failed: tuple[str, ...]  # launches, in words
    differs: tuple[str, ...]
    build: str
    loads: tuple[LoadSection, ...] = ()
    advises: bool = False  # what its gates decide does not count, by the policy of its suite

    @property
    def counts(self) -> bool:
        """Whether the verdict of all depends on it."""
        return not (self.advises and (self.verdict is None or self.verdict.exit_code in (1, 3)))


def render_comment(given: ReportInput) -> str:
    """The body of the comment, with a newline at its end."""
    runs = [_judged(entry.record) for entry in given.entries]
    runs += [_unmade(run) for run in given.unmade]
    sections = [_head(given.key, runs)]
    if given.changes is not None and (given.changes.rows or given.changes.notes):
        sections.append(_changes_head(given.changes))
    sections += [*_runs(runs), *_failures(runs), *_gates(runs)]
    if given.changes is not None and given.changes.rows:
        sections += _changes(given.changes)
    sections += [*_advice(runs), *_loads(runs), _foot([run for run in runs if run.id])]
    return _fit(sections, MOST_BYTES)


def _judged(record: RunRecord | AbRecord) -> _Judged:
    if isinstance(record, RunRecord):
        differs = dict.fromkeys(words for gate in record.gates for words in gate.differs)
        return _Judged(
            record.id,
            _place(record.scenario, record.fingerprint.deployment, record.policy),
            record.verdict,
            record.gates,
            (*_failed(record), *((unjudged(record),) if record.verdict is None else ())),
            tuple(differs),
            record.info.build or "",
            tuple(load_sections(record)),
            record.policy == "advise",
        )
    sides = {side: record.side(side) for side in SIDES}
    names = dict.fromkeys(one.fingerprint.deployment for one in sides.values())
    builds = dict.fromkeys(one.info.build or "unknown" for one in sides.values())
    return _Judged(
        record.id,
        f"{record.scenario} on {' and '.join(names)}, two servers",
        record.verdict,
        record.gates,
        tuple(f"{side}: {words}" for side, one in sides.items() for words in _failed(one)),
        record.differs,
        " and ".join(builds),
        tuple(load_sections(record.candidate)),
    )


def _unmade(run: SuiteRun) -> _Judged:
    """A run of a suite without a record: never judged, and why."""
    place = _place(run.scenario, run.deployment, run.policy)
    failed = (f"{run.outcome}: {run.reason}",)
    return _Judged("", place, None, (), failed, (), "", advises=run.counted_code == 0)


def _place(scenario: str, deployment: str, policy: Policy) -> str:
    return f"{scenario} on {deployment}{' (advises)' if policy == 'advise' else ''}"


def _failed(record: RunRecord) -> Iterator[str]:
    for launch, failure in failures_of(record):
        at = f", {failure.step}" if failure.step else ""
        yield f"variant {launch.variant}, trial {launch.trial}{at}: {failure.message}"


def _head(key: str, runs: Sequence[_Judged]) -> _Section:
    """The marker, and the verdict of all runs in one line."""
    verdicts = [run.verdict for run in runs if run.counts] or [run.verdict for run in runs]
    worst = worst_code([one.exit_code for one in verdicts if one is not None])
    named = next((v for v in verdicts if v is not None and v.exit_code == worst), None)
    if named is None or (None in verdicts and not worst):
        words, sign = "NOT JUDGED", "⚠️"
    else:
        words, sign = named.outcome.upper(), _SIGNS.get(named.outcome, "❌")
    good = sum(1 for run in runs if run.verdict is not None and run.verdict.outcome == "pass")
    if named is not None and worst == 0 and all(run.advises for run in runs):
        line = f"INCONCLUSIVE: {good} of {len(runs)} runs pass, but all only advise"
        return _Section((marker(key), f"### ⚠️ benchsuite: {line}"))
    if len(runs) == 1 and named is not None:
        line = outcome_line(named, escape(runs[0].place), Style(width=10_000))
        return _Section((marker(key), f"### {sign} benchsuite: {line}"))
    return _Section(
        (marker(key), f"### {sign} benchsuite: {words}: {good} of {len(runs)} runs pass")
    )


def _changes_head(changes: Diff) -> _Section:
    """How many baselines the branch changes; samples of memory and latency are counted apart."""
    since = escape(changes.baseline)
    exact, noisy = _split(changes.rows)
    parts = [f"**This branch changes {_count(exact)}** since {since}: {_states(exact)}"]
    if noisy and exact:
        parts.append(f"and the samples of {len(noisy)} of memory and latency")
    elif noisy:
        none = f"**This branch changes no baseline but the samples of {len(noisy)}**"
        parts = [f"{none} of memory and latency since {since}"]
    if not changes.rows:
        parts = [escape("; ".join(changes.notes))]
    return _Section(("", f"> {', '.join(parts)}."))


def _count(rows: Sequence[Row]) -> str:
    return "1 baseline" if len(rows) == 1 else f"{len(rows)} baselines"


def _states(rows: Sequence[Row]) -> str:
    states: dict[str, int] = {}
    for one in rows:
        states[one.state] = states.get(one.state, 0) + 1
    return ", ".join(f"{number} {state}" for state, number in states.items())


def _split(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows of values that are to be equal, and rows of memory and latency, which never are."""
    exact: list[Row] = []
    noisy: list[Row] = []
    for one in rows:
        metric = CATALOGUE.get(parse_selector(one.series).name)
        advises = metric is not None and KINDS[metric.assume].advises
        (noisy if advises else exact).append(one)
    return exact, noisy


def _runs(runs: Sequence[_Judged]) -> list[_Section]:
    """One line a run, where there are several."""
    if len(runs) < 2:
        return []
    rows = []
    for run in runs:
        if run.verdict is None:
            rows.append(row((escape(run.place), "not judged", "")))
            continue
        line = outcome_line(run.verdict, "", Style(width=10_000)).split(": ", 1)[-1]
        sign = _SIGNS.get(run.verdict.outcome, "❌")
        rows.append(row((escape(run.place), f"{sign} {run.verdict.outcome}", escape(line))))
    return [_Section(("", *table_head(("run", "verdict", "gates"))), tuple(rows), what="runs")]


def _failures(runs: Sequence[_Judged]) -> list[_Section]:
    rows = [f"- {escape(run.place)}: {escape(words)}" for run in runs for words in run.failed]
    return [_Section(("", "**Failed to run**", ""), tuple(rows), what="launches")] if rows else []


def _gates(runs: Sequence[_Judged]) -> list[_Section]:
    """Blocking gates that did not pass, and what moved within its limits."""
    sections = []
    for run in runs:
        bad = [g for g in run.gates if g.level == "block" and _speaks(g)]
        moved = [g for g in run.gates if g.outcome == "pass" and g.state in _MOVED]
        for title, gates in (("Did not pass", bad), ("Moved, within the limits", moved)):
            if not gates:
                continue
            where = f": {escape(run.place)}" if len(runs) > 1 else ""
            head = ("", f"**{title}{where}**", "", *table_head(_GATE_COLUMNS))
            sections.append(_Section(head, tuple(_gate_rows(gates)), what="gates"))
        if run.differs and (bad or moved):
            words = ", ".join(escape(one) for one in run.differs)
            sections.append(_Section(("", f"What differs from the baseline: {words}")))
    return sections


_GATE_COLUMNS = ("gate", "variant", "expected", "observed", "", "why")


def _speaks(gate: GateResult) -> bool:
    return gate.outcome not in ("pass", "not applicable", "xfail")


def _gate_rows(gates: Sequence[GateResult]) -> list[str]:
    """Rows of the table; a gate that came out alike in several variants is one."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for gate in gates:
        what = gate.state if gate.state in _MOVED else gate.outcome
        arrow = _arrow(gate.expected, gate.observed) if gate.against != "number" else ""
        cells = (
            code(gate.metric),
            code(gate.expected) or escape(gate.rule),
            code(gate.observed) or "-",
            f"{arrow} {what}".strip(),
            escape(gate.reason),
        )
        alike.setdefault(cells, []).append(gate.variant)
    return [
        row((cells[0], escape(", ".join(dict.fromkeys(variants))), *cells[1:]))
        for cells, variants in alike.items()
    ]


def _arrow(before: str, after: str) -> str:
    """Which way a number went; empty for text, and where either side has none."""
    left, right = _NUMBER.match(before), _NUMBER.match(after)
    if left is None or right is None or float(left[0]) == float(right[0]):
        return ""
    return "▲" if float(right[0]) > float(left[0]) else "▼"


def _changes(changes: Diff) -> list[_Section]:
    """What became of the baselines: in words by origin, then all of them in a table.

    Samples of memory and latency change with every accept; their number is said at the top.
    """
    exact, _ = _split(changes.rows)
    lines: list[str] = []
    for heading, sentences in explained(exact):
        lines += [f"- {escape(text)}" for text in sentences]
        lines += [f"  - {escape(text)}" for text in heading]
    names = ("scenario", "variant", "series", "before", "now", "")
    head = ("", f"<details><summary>{_count(exact)}</summary>", "", *table_head(names))
    sections = [
        _Section(("", "**Changed baselines**", ""), tuple(lines), what="lines"),
        _Section(head, tuple(_change_rows(exact)), ("", "</details>"), what="baselines"),
    ]
    notes = tuple(line for note in changes.notes for line in ("", escape(note)))
    return [one for one in sections if one.rows] + ([_Section(notes)] if notes else [])


def _change_rows(rows: Sequence[Row]) -> Iterator[str]:
    for one in rows:
        place = f"{one.deployment}/{one.scenario}" if one.deployment else one.scenario
        arrow = _arrow(one.baseline, one.candidate)
        yield row(
            (
                escape(place),
                escape(one.variant),
                code(one.series),
                code(one.baseline) or "-",
                code(one.candidate) or "-",
                " ".join(filter(None, (arrow, one.state, escape(one.change)))),
            )
        )


def _advice(runs: Sequence[_Judged]) -> list[_Section]:
    sections = []
    for run in runs:
        gates = [g for g in run.gates if g.level == "advise" and _speaks(g)]
        if gates:
            title = f"{len(gates)} advise: {escape(run.place)}"
            sections.append(
                _Section(
                    (
                        "",
                        f"<details><summary>{title}</summary>",
                        "",
                        *table_head(_GATE_COLUMNS),
                    ),
                    tuple(_gate_rows(gates)),
                    ("", "</details>"),
                    what="gates",
                )
            )
    return sections


def _loads(runs: Sequence[_Judged]) -> list[_Section]:
    """What load steps and sweeps came to."""
    sections = []
    for run in runs:
        if run.loads:
            where = f": {escape(run.place)}" if len(runs) > 1 else ""
            sections.append(_Section(("", f"**Load{where}**")))
        sections += [_Section(one.head, one.rows, one.tail, "rows of load") for one in run.loads]
    return sections


def _foot(runs: Sequence[_Judged]) -> _Section:
    ids = ", ".join(
        f"{code(run.id)}{f' (build {escape(run.build)})' if run.build else ''}" for run in runs[:20]
    )
    more = f" and {len(runs) - 20} more" if len(runs) > 20 else ""
    noun = "Run" if len(runs) == 1 else "Runs"
    return _Section(("", f"<sub>{noun} {ids}{more}</sub>"))


def _fit(sections: Sequence[_Section], limit: int) -> str:
    """The sections in order as far as they fit, with a sentence on what was left out."""
    lines: list[str] = []
    left: dict[str, int] = {}
    room = limit - _KEEP
    for section in sections:
        frame = _size((*section.head, *section.tail))
        if frame > room or (section.rows and frame + _size(section.rows[:1]) > room):
            left[section.what] = left.get(section.what, 0) + max(1, len(section.rows))
            continue
        room -= frame
        lines += section.head
        for number, line in enumerate(section.rows):
            if _size((line,)) > room:
                missing = len(section.rows) - number
                left[section.what] = left.get(section.what, 0) + missing
                break
            room -= _size((line,))
            lines.append(line)
        lines += section.tail
    if left:
        words = ", ".join(f"{count} {what}" for what, count in left.items())
        lines += ["", f"**Left out**, as a comment holds 65536 characters: {words}."]
    return "\n".join(lines) + "\n"


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
