"""A run as a page: verdict, gates, what was measured, how it failed, how to do it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Launch, RunRecord
from benchsuite.model.verdict import GateResult
from benchsuite.report.estimates import estimate_words
from benchsuite.report.failures import forensic_words
from benchsuite.report.html import plots
from benchsuite.report.html.blocks import (
    Block,
    Cell,
    Chart,
    Facts,
    Fold,
    Lines,
    Listing,
    Page,
    Section,
    Table,
    Tone,
    Words,
)
from benchsuite.report.html.evidence import Evidence
from benchsuite.report.html.launches import launch_blocks
from benchsuite.report.html.limits import STEPS, Limits
from benchsuite.report.html.page import MOST_BYTES, render
from benchsuite.report.html.series import LATENCIES, distributions, quantile
from benchsuite.report.matrix import matrix_rows
from benchsuite.report.measured import key_rows, variants_of
from benchsuite.report.reevaluations import reevaluation_rows
from benchsuite.store.baselines import Baselines

_TONES: dict[str, Tone] = {
    "pass": "good",
    "fail": "bad",
    "error": "bad",
    "xpass": "bad",
    "server failed": "bad",
    "machine failed": "bad",
    "inconclusive": "doubt",
    "interrupted": "doubt",
    "xfail": "dim",
    "not applicable": "dim",
}
_WORST = ("error", "fail", "xpass", "inconclusive", "xfail", "pass", "not applicable")
_OF_VARIANT = re.compile(r"variant ([^:]+): (.*)", re.DOTALL)
_MOST_REASONS = 12
_ERROR_LINE = re.compile(
    r"assert|error|fail|abort|fatal|exception|terminate|signal|out of memory|CUDA", re.IGNORECASE
)


def render_run(
    record: RunRecord,
    evidence: Evidence,
    baselines: Baselines | None = None,
    stored: str | None = None,
) -> str:
    """A run as an HTML file.

    Args:
        record: With its gates and verdict.
        evidence: From its journal.
        baselines: Shown beside the measurements; None shows none.
        stored: Where the run is stored; None leaves it out.
    """
    limits = Limits()
    text = render(run_page(record, evidence, baselines, stored, limits))
    for _ in range(STEPS):
        if len(text.encode()) <= MOST_BYTES:
            break
        limits = limits.halved()
        text = render(run_page(record, evidence, baselines, stored, limits))
    return text


def run_page(
    record: RunRecord,
    evidence: Evidence,
    baselines: Baselines | None,
    stored: str | None,
    limits: Limits,
) -> Page:
    """A run as a page."""
    sections = [
        _section("verdict", "Verdict", _verdict_blocks(record, evidence)),
        _section("failures", "Failures", _failure_blocks(record, limits)),
        _section("gates", "Gates", _gate_blocks(record, limits)),
        _section("matrix", "Variants side by side", _matrix_blocks(record, limits)),
        _section("launches", "Turns, slots and memory", _launch_blocks(record, evidence, limits)),
        _section("latency", "Latency", _latency_blocks(record, baselines, limits)),
        _section("measured", "Key measurements", _measured_blocks(record, baselines, limits)),
        _section("again", "Prompts evaluated again", _again_blocks(record, limits)),
        _section("reproduce", "Do it again", _command_blocks(record, stored)),
    ]
    return Page(
        title=f"{record.scenario}: {record.title}" if record.title else record.scenario,
        kicker=f"benchsuite run {record.id}, {record.started_at[:19].replace('T', ' ')} UTC",
        verdict=_verdict_cell(record),
        facts=_facts(record),
        sections=tuple(section for section in sections if section.blocks),
    )


def _section(name: str, title: str, blocks: Sequence[Block]) -> Section:
    return Section(name, title, tuple(blocks))


def _verdict_cell(record: RunRecord) -> Cell:
    verdict = record.verdict
    if verdict is None:
        return Cell("not judged", tone="doubt", aside="the run ended before its gates were judged")
    counts = ", ".join(f"{n} {word}" for word, n in verdict.counts.items() if n) or "no gates"
    return Cell(
        verdict.outcome,
        tone=_TONES.get(verdict.outcome, "bad"),
        aside=f"gates: {counts}; exit code {verdict.exit_code}",
    )


def _facts(record: RunRecord) -> tuple[tuple[str, str], ...]:
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
    return tuple((name, value) for name, value in pairs if value)


def _verdict_blocks(record: RunRecord, evidence: Evidence) -> Iterator[Block]:
    verdict = record.verdict
    reasons = verdict.reasons if verdict is not None else ()
    if reasons:
        tone: Tone = "bad" if verdict is not None and verdict.exit_code not in (0, 3) else "doubt"
        told = alike(reasons)
        yield Listing(told[:_MOST_REASONS], tone)
        if len(told) > _MOST_REASONS:
            more = told[_MOST_REASONS:]
            yield Fold(f"{len(more)} more reasons", (Listing(more, tone),))
    elif verdict is not None:
        yield Words("Every gate that applies and blocks has passed.")
    differs = tuple(dict.fromkeys(d for gate in record.gates for d in gate.differs))
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
        *evidence.notes,
    ]
    if record.machine_state is not None:
        warnings += [f"{one.fact}: {one.sentence}" for one in record.machine_state.warnings]
    if warnings:
        yield Words("Warnings:", "doubt")
        yield Listing(tuple(dict.fromkeys(warnings)))


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


def _gate_blocks(record: RunRecord, limits: Limits) -> Iterator[Block]:
    gates = sorted(record.gates, key=_rank)
    if not gates:
        return
    own = [gate for gate in gates if gate.outcome != "not applicable"]
    rest = [gate for gate in gates if gate.outcome == "not applicable"]
    if own:
        yield _gate_table("Gates, worst first; a heading sorts", own, limits)
    if rest:
        count = f"{len(rest)} not applicable"
        yield Fold(count, (_gate_table("Gates that do not apply here", rest, limits),))


def _rank(gate: GateResult) -> tuple[bool, int]:
    order = _WORST.index(gate.outcome) if gate.outcome in _WORST else 0
    return gate.outcome == "not applicable", order + (10 if gate.level == "advise" else 0)


def _gate_table(caption: str, gates: Sequence[GateResult], limits: Limits) -> Table:
    """A row for each gate in all variants in which it came out alike."""
    rows: dict[object, tuple[GateResult, list[str]]] = {}
    for gate in gates:
        key = msgspec.structs.replace(gate, variant="")
        rows.setdefault(msgspec.json.encode(key), (gate, []))[1].append(gate.variant)
    made = [_gate_row(gate, variants) for gate, variants in rows.values()]
    left_out = len(made) - limits.rows
    return Table(
        caption,
        ("gate", "variants", "outcome", "expected", "observed", "reason"),
        tuple(made[: limits.rows]),
        f"{left_out:,} more rows are in the run's record." if left_out > 0 else "",
    )


def _gate_row(gate: GateResult, variants: Sequence[str]) -> tuple[Cell, ...]:
    advises = gate.level == "advise" and gate.outcome in ("fail", "inconclusive", "xpass")
    told = f"advises: {gate.outcome}" if advises else gate.outcome
    if gate.state is not None and gate.state not in ("same", gate.outcome):
        told += f" ({gate.state})"
    reason = gate.reason
    if gate.why and gate.outcome in ("fail", "inconclusive", "error"):
        reason += f"; why it matters: {gate.why}"
    estimate = ""
    if gate.estimate is not None:
        estimate = estimate_words(gate.estimate, limit=gate.against == "number")
    return (
        Cell(gate.metric, code=True, aside=gate.rule),
        Cell(", ".join(variants)),
        Cell(told, sort=_rank(gate)[1], tone="doubt" if advises else _TONES[gate.outcome]),
        Cell(gate.expected or "-"),
        Cell(gate.observed or "-"),
        Cell(reason, aside=estimate),
    )


def _failure_blocks(record: RunRecord, limits: Limits) -> Iterator[Block]:
    for launch in record.launches:
        failure = launch.failure
        if failure is None:
            continue
        expected = launch.variant in record.excused
        head = f"Variant {launch.variant}, trial {launch.trial}: {failure.message}"
        yield Words(head + (" (expected)" if expected else ""), "dim" if expected else "bad")
        pairs = [("kind", failure.kind), ("step", failure.step), ("hint", failure.hint or "")]
        left = failure.forensics
        if left is not None:
            how = "" if left.signal is None else f"signal {left.signal}"
            how = f"exit code {left.exit_code}" if left.exit_code is not None else how
            pairs += [("how it ended", how)]
        pairs += [("unknown because of it", ", ".join(failure.unknowable))]
        shown = tuple((name, value) for name, value in pairs if value)
        if shown:
            yield Facts(shown)
        told = tuple(forensic_words(failure))
        if told:
            yield Listing(told)
        if left is not None and left.backtrace:
            frames = left.backtrace[: limits.lines]
            yield Lines("Backtrace, innermost first", frames)
        if failure.last_lines:
            last = failure.last_lines[-limits.lines :]
            marked = frozenset(i for i, line in enumerate(last) if _is_error(line))
            place = f", {launch.log}" if launch.log else ""
            yield Lines(f"Last lines of the server's log{place}", last, marked)
        elif left is not None and left.errors:
            yield Lines("Lines of the log that report an error", left.errors)


def _is_error(line: str) -> bool:
    return _ERROR_LINE.search(line[:4000]) is not None


def _matrix_blocks(record: RunRecord, limits: Limits) -> Iterator[Block]:
    variants, rows = matrix_rows(record)
    if not rows:
        return
    made = []
    for i, (label, values) in enumerate(rows):
        reference = values[0] if values else ""
        row = [Cell(label)]
        for value in values:
            if i == 0:  # the gates' worst outcome
                row.append(Cell(value, tone=_TONES.get(value.lower(), "")))
            else:
                differs = value.endswith(" *")
                text = f"{value.removesuffix(' *')} differs" if differs else value
                row.append(Cell(text, tone="doubt" if differs and reference else ""))
        made.append(tuple(row))
    left_out = len(made) - limits.rows
    note = f"“differs” is seen from variant {variants[0]}."
    if left_out > 0:
        note += f" {left_out:,} more rows are in the run's record."
    yield Table(
        "Exact values that gates look at, by variant",
        ("", *variants),
        tuple(made[: limits.rows]),
        note,
    )


def _launch_blocks(record: RunRecord, evidence: Evidence, limits: Limits) -> Iterator[Block]:
    driven = [one for one in record.launches if one.server.kind != "none"]
    if not driven:
        return
    bad = {g.variant for g in record.gates if _rank(g)[1] < 4}
    chosen = sorted(driven, key=lambda one: one.variant not in bad)[: limits.launches]
    chosen.sort(key=driven.index)
    if len(chosen) < len(driven):
        yield Words(
            f"Plots of {len(chosen)} of {len(driven)} launches, those first whose gates did not "
            "pass; the others are in the run's record.",
            "dim",
        )
    start = next((one for one in chosen if one.variant in bad), chosen[0])
    for number, launch in enumerate(chosen):
        trial = f", trial {launch.trial}" if record.trials > 1 else ""
        head = f"Variant {launch.variant}{trial}{_launch_facts(launch)}"
        blocks = launch_blocks(record, launch, evidence, number, limits)
        yield Fold(head, tuple(blocks), is_open=launch is start)


def _launch_facts(launch: Launch) -> str:
    server = launch.server
    words = []
    if server.slots is not None:
        words.append(f"{server.slots} slot{'' if server.slots == 1 else 's'}")
    if server.n_ctx_slot is not None:
        words.append(f"{server.n_ctx_slot:,} cells each")
    if server.kv_unified is not None:
        words.append("unified KV" if server.kv_unified else "KV by slot")
    if launch.failure is not None:
        words.append(f"failed: {launch.failure.kind}")
    return f": {', '.join(words)}" if words else ""


def _latency_blocks(
    record: RunRecord, baselines: Baselines | None, limits: Limits
) -> Iterator[Block]:
    for name in LATENCIES:
        rows = distributions(record, baselines, name)
        if not rows:
            continue
        unit = CATALOGUE[name].unit
        note = ""
        drawn = []
        for row in rows:
            values = row.values
            if len(values) > limits.dots:
                step = len(values) / limits.dots
                ordered = sorted(values)
                values = tuple(ordered[int(i * step)] for i in range(limits.dots))
                note = f"Of more than {limits.dots} values every n-th by size is drawn."
            drawn.append((plots.label(f"{row.variant} {row.side}"), row.side, values))
        table = tuple(
            (
                Cell(row.variant),
                Cell(row.side),
                Cell(f"{len(row.values):,}", sort=len(row.values)),
                *(
                    Cell(f"{value:,.2f}", sort=value)
                    for share in (0.0, 0.25, 0.5, 0.75, 1.0)
                    for value in (quantile(row.values, share),)
                ),
            )
            for row in rows
        )
        says = "; ".join(
            f"{row.variant} {row.side}: median {quantile(row.values, 0.5):,.2f} {unit}"
            for row in rows[:12]
        )
        if not any(row.side == "baseline" for row in rows):
            note = f"{note} No baseline of this machine to compare with.".strip()
        heads = ("variant", "side", "requests", "lowest", "25%", "median", "75%", "highest")
        yield Chart(
            f"latency-{name.replace('_', '-')}",
            f"{name} of requests, {unit}",
            says,
            plots.dots(f"latency-{name.replace('_', '-')}", drawn, unit),
            Table(f"{name} by variant, {unit}", heads, table),
            note,
        )


def _measured_blocks(
    record: RunRecord, baselines: Baselines | None, limits: Limits
) -> Iterator[Block]:
    rows, left_out = key_rows(record, baselines)
    if not rows:
        return
    note = "“=”: as the baseline; a number in brackets is the baseline's."
    if left_out:
        note += f" {left_out:,} more requests are in the run's record."
    yield Table(
        "What was measured, by variant",
        ("measured", *variants_of(record)),
        tuple(
            (Cell(row.label), *(Cell(text or "-") for text in row.cells))
            for row in rows[: limits.rows]
        ),
        note,
    )


def _again_blocks(record: RunRecord, limits: Limits) -> Iterator[Block]:
    rows = list(reevaluation_rows(record))
    if not rows:
        return
    made = []
    for launch, request, told in rows[: limits.rows]:
        common = "not known" if told.common_prefix is None else f"{told.common_prefix:,}"
        made.append(
            (
                Cell(request),
                Cell(launch.variant if record.trials == 1 else f"{launch.variant} {launch.trial}"),
                Cell(told.cause, tone="doubt" if told.short else ""),
                Cell(f"{told.cached:,}", sort=told.cached),
                Cell(common, sort=told.common_prefix),
                Cell(told.sentence, aside="; ".join(told.evidence[:3])),
            )
        )
    heads = ("request", "variant", "cause", "cached", "common", "why")
    left_out = len(rows) - len(made)
    note = f"{left_out:,} more are in the run's record." if left_out else ""
    short = sum(told.short for _, _, told in rows)
    yield Fold(
        f"{len(rows)} requests, {short} of them reused less than an earlier one had left",
        (Table("Why prompt tokens were evaluated again", heads, tuple(made), note),),
    )


def _command_blocks(record: RunRecord, stored: str | None) -> Iterator[Block]:
    yield Lines("This run", (run_command(record),))
    seen: dict[tuple[str, ...], list[str]] = {}
    for launch in record.launches:
        if launch.server.command:
            words = [f"{k}={v}" for k, v in launch.server.env.items()]
            command = (*words, *launch.server.command)
            names = seen.setdefault(_without_port(command), [])
            if launch.variant not in names:
                names.append(launch.variant)
    for command, variants in seen.items():
        word = "variant" if len(variants) == 1 else "variants"
        yield Lines(f"The server alone, {word} {', '.join(variants)}", (shlex.join(command),))
    pairs = [("scenario file", record.scenario_path), ("run", stored or "")]
    yield Facts(tuple((name, value) for name, value in pairs if value))


def _without_port(command: Sequence[str]) -> tuple[str, ...]:
    """A command with a port that the next one would not have anyway left out."""
    kept = list(command)
    for i, word in enumerate(kept[:-1]):
        if word == "--port":
            kept[i + 1] = "8080"
    return tuple(kept)


def run_command(record: RunRecord) -> str:
    """The command that does the same again."""
    words = ["benchsuite", "run", record.scenario, "-d", record.fingerprint.deployment]
    if record.fingerprint.deployment == "adhoc":
        words = words[:3]
    server = next((one.server for one in record.launches if one.server.path), None)
    if server is not None and server.kind == "binary":
        words += ["--server", server.path]
    elif server is not None and server.kind == "attached":
        words += ["--url", server.path]
    if server is not None and record.fingerprint.deployment == "adhoc" and server.model.path:
        words += ["--model", server.model.path]
    if record.trials != 1:
        words += ["--trials", str(record.trials)]
    if record.fingerprint.seed:
        words += ["--seed", str(record.fingerprint.seed)]
    return shlex.join(words)
