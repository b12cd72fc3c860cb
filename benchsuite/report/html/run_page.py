"""A run as a page: verdict, gates, what was measured, how it failed, how to do it again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec

from benchsuite.model.ab import AbRecord
from benchsuite.model.record import RunRecord
from benchsuite.report.html.blocks import (
    TONES,
    Block,
    Cell,
    Fold,
    Listing,
    Page,
    Section,
    Table,
    Tone,
    Words,
)
from benchsuite.report.html.evidence import Evidence, read_evidence
from benchsuite.report.html.latency import latency_blocks
from benchsuite.report.html.launches import launches_blocks
from benchsuite.report.html.limits import Limits
from benchsuite.report.html.page import fitting
from benchsuite.report.html.run_failures import (
    ab_command,
    command_blocks,
    failure_blocks,
    run_command,
)
from benchsuite.report.html.run_tables import (
    again_blocks,
    gate_blocks,
    load_blocks,
    matrix_blocks,
    measured_blocks,
)
from benchsuite.report.html.series import LATENCIES, Dots, against_baselines, against_run
from benchsuite.report.report_input import Entry, ReportInput
from benchsuite.store.baselines import Baselines

_OF_VARIANT = re.compile(r"variant ([^:]+): (.*)", re.DOTALL)
_MOST_ITEMS = 12
_OPEN = ("verdict", "failures")  # of several runs on a page


class Shown(msgspec.Struct, frozen=True):
    """One run as the page shows it; of two sides the candidate, judged against the baseline."""

    record: RunRecord
    evidence: Evidence
    command: str  # that does it again
    dots: dict[str, list[Dots]]  # latency -> its values by variant and side
    baselines: Baselines | None = None  # shown beside the measurements
    stored: str = ""  # where the run lies
    baseline_side: RunRecord | None = None  # of a run of two sides
    differs: tuple[str, ...] = ()  # between two sides, in words


def render_html(given: ReportInput) -> str:
    """Runs as one HTML file of at most 2 MiB."""
    runs = [_shown(entry) for entry in given.entries]
    return fitting(partial(_page, runs))


def _shown(entry: Entry) -> Shown:
    record, folder = entry.record, entry.folder
    stored = "" if folder is None else str(folder)
    if isinstance(record, AbRecord):
        own = msgspec.structs.replace(
            record.candidate,
            id=record.id,
            gates=record.gates,
            verdict=record.verdict,
            warnings=(*record.candidate.warnings, *record.warnings),
        )
        return Shown(
            own,
            Evidence() if folder is None else read_evidence(folder / "candidate"),
            ab_command(record),
            {name: against_run(own, record.baseline, name) for name in LATENCIES},
            None,
            stored,
            record.baseline,
            record.differs,
        )
    missing = "the record came alone, without its journal: no plots over time"
    return Shown(
        record,
        Evidence(notes=(missing,)) if folder is None else read_evidence(folder),
        run_command(record),
        {name: against_baselines(record, entry.baselines, name) for name in LATENCIES},
        entry.baselines,
        stored,
    )


def _page(runs: Sequence[Shown], limits: Limits) -> Page:
    if len(runs) == 1:
        return run_page(runs[0], limits)
    sections = [Section("runs", "Runs", (_overview(runs),))]
    each = msgspec.structs.replace(limits, launches=max(1, limits.launches // len(runs)))
    for number, run in enumerate(runs):
        parts = _sections(run, f"r{number}-", each)
        folds = tuple(Fold(part.title, part.blocks, part.name in _OPEN) for part in parts)
        sections.append(Section(f"run-{number}", _title(run.record), folds))
    worst = max(runs, key=_badness)
    good = sum(_outcome(run.record) == "pass" for run in runs)
    return Page(
        title=f"{len(runs)} runs",
        kicker="benchsuite report",
        verdict=Cell(
            _outcome(worst.record),
            tone=TONES.get(_outcome(worst.record), "doubt"),
            aside=f"the worst of {len(runs)} runs, {good} of them passed",
        ),
        facts=(),
        sections=tuple(sections),
    )


_RANK = (0, 3, 1, 4, 130, 5)  # exit codes, better first


def _badness(run: Shown) -> int:
    verdict = run.record.verdict
    if verdict is None or verdict.exit_code not in _RANK:
        return _RANK.index(3)
    return _RANK.index(verdict.exit_code)


def _overview(runs: Sequence[Shown]) -> Table:
    rows = []
    for run in runs:
        record = run.record
        cell = _verdict_cell(record)
        rows.append(
            (
                Cell(record.id, code=True),
                Cell(record.scenario),
                Cell(record.fingerprint.deployment),
                Cell(cell.text, tone=cell.tone),
                Cell(cell.aside),
                Cell(record.info.build or "not known"),
            )
        )
    heads = ("run", "scenario", "deployment", "verdict", "gates", "build")
    return Table("Runs of this report", heads, tuple(rows))


def run_page(run: Shown, limits: Limits) -> Page:
    """One run as a page."""
    record = run.record
    return Page(
        title=_title(record),
        kicker=f"benchsuite {'run' if run.baseline_side is None else 'ab'} {record.id}, "
        f"{record.started_at[:19].replace('T', ' ')} UTC",
        verdict=_verdict_cell(record),
        facts=_facts(run),
        sections=tuple(_sections(run, "", limits)),
    )


def _title(record: RunRecord) -> str:
    return f"{record.scenario}: {record.title}" if record.title else record.scenario


def _sections(run: Shown, prefix: str, limits: Limits) -> list[Section]:
    record, evidence, other = run.record, run.evidence, run.baseline_side
    failures = [*failure_blocks(record, limits)]
    if other is not None:
        failures += failure_blocks(other, limits, "Baseline side, ")
    made: list[tuple[str, str, Iterable[Block]]] = [
        ("verdict", "Verdict", _verdict_blocks(run)),
        ("failures", "Failures", failures),
        ("gates", "Gates", gate_blocks(record, limits)),
        ("matrix", "Variants side by side", matrix_blocks(record, limits)),
        (
            "launches",
            "Turns, slots and memory",
            launches_blocks(record, evidence, prefix, limits),
        ),
        ("latency", "Latency", latency_blocks(run.dots, prefix, limits)),
        ("measured", "Key measurements", measured_blocks(record, run.baselines, limits)),
        ("load", "Load", load_blocks(record, prefix, limits)),
        ("again", "Prompts evaluated again", again_blocks(record, limits)),
        ("reproduce", "Do it again", command_blocks(run.command, record, other, run.stored)),
    ]
    sections = [Section(name, title, tuple(blocks)) for name, title, blocks in made]
    return [section for section in sections if section.blocks]


def _outcome(record: RunRecord) -> str:
    return "not judged" if record.verdict is None else record.verdict.outcome


def _verdict_cell(record: RunRecord) -> Cell:
    verdict = record.verdict
    if verdict is None:
        return Cell("not judged", tone="doubt", aside="the run ended before its gates were judged")
    counts = ", ".join(f"{n} {word}" for word, n in verdict.counts.items() if n) or "no gates"
    return Cell(
        verdict.outcome,
        tone=TONES.get(verdict.outcome, "bad"),
        aside=f"gates: {counts}; exit code {verdict.exit_code}",
    )


def _facts(run: Shown) -> tuple[tuple[str, str], ...]:
    record = run.record
    info, keys = record.info, record.fingerprint
    pairs = [
        ("deployment", keys.deployment),
        ("server", info.server),
        ("build", info.build or "not known"),
        ("model", info.model),
        ("machine", keys.machine or "not known"),
        ("kernel", info.kernel),
        ("commit", info.commit or ""),
        ("seed, trials", f"{keys.seed}, {record.trials}"),
        ("took", f"{record.wall_seconds:.1f} s"),
        ("baseline", record.baseline or "none"),
    ]
    if run.baseline_side is not None:
        other = run.baseline_side.info
        pairs[-1] = ("baseline side", f"{other.build or 'an unknown build'}, {other.server}")
    return tuple((name, value) for name, value in pairs if value)


def _verdict_blocks(run: Shown) -> Iterator[Block]:
    record, verdict = run.record, run.record.verdict
    reasons = verdict.reasons if verdict is not None else ()
    if reasons:
        tone: Tone = "bad" if verdict is not None and verdict.exit_code not in (0, 3) else "doubt"
        yield from _long(alike(reasons), "reasons", tone)
    elif verdict is not None:
        yield Words("Every gate that applies and blocks has passed.")
    differs = tuple(
        dict.fromkeys([*run.differs, *(d for gate in record.gates for d in gate.differs)])
    )
    if differs:
        yield Words("Differs from the baseline:")
        yield Listing(differs)
    known = [
        f"{issue.issue} (variant {issue.variant}): {issue.outcome}: {issue.reason}"
        for issue in record.known_issues
        if issue.outcome != "not considered"
    ]
    if known:
        yield Words("Known issues:")
        yield Listing(tuple(known))
    warnings = [
        *record.warnings,
        *(issue.expiry for issue in record.known_issues if issue.expiry),
        *(
            f"variant {launch.variant}, trial {launch.trial}: {warning}"
            for launch in record.launches
            for warning in launch.warnings
        ),
        *run.evidence.notes,
    ]
    if record.machine_state is not None:
        warnings += [f"{one.fact}: {one.sentence}" for one in record.machine_state.warnings]
    if warnings:
        yield Words("Warnings:", "doubt")
        yield from _long(tuple(dict.fromkeys(warnings)), "warnings")


def _long(items: tuple[str, ...], name: str, tone: Tone = "") -> Iterator[Block]:
    """A list whose end is folded away."""
    yield Listing(items[:_MOST_ITEMS], tone)
    if len(items) > _MOST_ITEMS:
        more = items[_MOST_ITEMS:]
        yield Fold(f"{len(more)} more {name}", (Listing(more, tone),))


def alike(reasons: Sequence[str]) -> tuple[str, ...]:
    """Reasons that differ in their variant alone, as one each: `variants B, S: ...`."""
    found: dict[str, list[str]] = {}
    for reason in reasons:
        match = _OF_VARIANT.fullmatch(reason)
        name, rest = (match[1], match[2]) if match is not None else ("", reason)
        found.setdefault(rest, []).append(name)
    return tuple(
        rest
        if names == [""]
        else f"variant{'' if len(names) == 1 else 's'} {', '.join(names)}: {rest}"
        for rest, names in found.items()
    )
