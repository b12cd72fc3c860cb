"""One launch of a run: its turns, slots and memory, as plots with their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchsuite.model.record import Launch, RunRecord
from benchsuite.report.html import plots
from benchsuite.report.html.blocks import Block, Cell, Chart, Fold, Table, Words
from benchsuite.report.html.evidence import Evidence, MemoryPoint
from benchsuite.report.html.limits import Limits
from benchsuite.report.html.run_tables import gate_rank
from benchsuite.report.html.series import Request, kv_mib, requests_of, thin
from benchsuite.report.html.step_chart import in_step_chart
from benchsuite.units import format_number

_NOTHING = "-"
_WORST_HELD = 4  # outcomes ranked before this deserve a look first
_MOST_IDLE = 16  # of more slots only those that served are shown


def launch_blocks(
    record: RunRecord, launch: Launch, evidence: Evidence, name: str, limits: Limits
) -> list[Block]:
    """What is to be seen of a launch.

    Args:
        record: With the launch's measurements.
        launch: Of it.
        evidence: From the journal.
        name: Unique in the page, for the names of its plots.
        limits: How much is shown.
    """
    requests = requests_of(record, launch, evidence)
    place = (launch.variant, launch.trial)
    alone = [r for r in requests if r.cached is not None or r.evaluated is not None or r.e2e_ms]
    blocks: list[Block] = []
    if alone:
        blocks += [
            _tokens(alone, f"tokens-{name}", limits),
            _times(alone, f"times-{name}", limits),
        ]
    spans = [r for r in requests if r.span is not None]
    if spans:
        blocks.append(_slots(spans, launch.server.slots or 0, f"slots-{name}", limits))
    in_step = evidence.in_step.get(place)
    if in_step is not None and in_step.looks:
        blocks.append(in_step_chart(in_step, f"step-{name}"))
    points = evidence.memory.get(place, ())
    if points:
        blocks.append(_memory(points, kv_mib(record, place), f"memory-{name}", limits))
    if not blocks:
        blocks.append(Words("Nothing was measured that a plot could show.", "dim"))
    return blocks


def _first(requests: Sequence[Request], limits: Limits) -> tuple[Sequence[Request], str]:
    if len(requests) <= limits.bars:
        return requests, ""
    return requests[: limits.bars], f"The first {limits.bars} of {len(requests)} requests."


def _tokens(requests: Sequence[Request], name: str, limits: Limits) -> Chart:
    kept, note = _first(requests, limits)
    parts = {"cached": [r.cached for r in kept], "evaluated": [r.evaluated for r in kept]}
    cached = sum(r.cached or 0 for r in requests)
    total = cached + sum(r.evaluated or 0 for r in requests)
    unknown = sum(r.cached is None or r.evaluated is None for r in requests)
    says = f"Stacked bars: of {total:,} prompt tokens in {len(requests)} requests {cached:,} cached"
    rows = [(Cell(r.name), _count(r.cached), _count(r.evaluated), _count(r.output)) for r in kept]
    return Chart(
        name,
        "Prompt tokens by request: cached and evaluated",
        says + (f"; of {unknown} requests not known" if unknown else ""),
        plots.stacked(name, [r.name for r in kept], parts, (plots.GREEN, plots.ORANGE), "tokens"),
        Table("Tokens by request", ("request", "cached", "evaluated", "output"), tuple(rows), note),
        note,
    )


def _times(requests: Sequence[Request], name: str, limits: Limits) -> Chart:
    kept, note = _first(requests, limits)
    parts = {
        "prefill": [r.prefill_ms for r in kept],
        "decode": [r.decode_ms for r in kept],
        "elsewhere": [_rest_ms(r) for r in kept],
    }
    known = [r.e2e_ms for r in requests if r.e2e_ms is not None]
    span = f", {min(known):,.1f} to {max(known):,.1f} ms end to end" if known else ""
    rows = [
        (Cell(r.name), _ms(r.prefill_ms), _ms(r.decode_ms), _ms(_rest_ms(r)), _ms(r.e2e_ms))
        for r in kept
    ]
    heads = ("request", "prefill ms", "decode ms", "elsewhere ms", "end to end ms")
    colours = (plots.BLUE, plots.PINK, plots.GREY)
    return Chart(
        name,
        "Time by request: prefill and decode by the server's clock, the rest by ours",
        f"Stacked bars of {len(requests)} requests{span}",
        plots.stacked(name, [r.name for r in kept], parts, colours, "ms"),
        Table("Time by request", heads, tuple(rows), note),
        note,
    )


def _rest_ms(request: Request) -> float | None:
    """Time between sending and the last byte that the server's timings do not account for."""
    if request.e2e_ms is None or request.prefill_ms is None or request.decode_ms is None:
        return None
    return max(0.0, request.e2e_ms - request.prefill_ms - request.decode_ms)


def _slots(requests: Sequence[Request], count: int, name: str, limits: Limits) -> Chart:
    kept = requests[: limits.spans]
    note = (
        "" if len(kept) == len(requests) else f"The first {len(kept)} of {len(requests)} requests."
    )
    idle = range(count) if count <= _MOST_IDLE else ()
    slots = sorted({*idle, *(r.slot for r in kept if r.slot is not None)})
    rows = [f"slot {slot}" for slot in slots]
    if any(r.slot is None for r in kept):
        rows.append("slot not known")
    bars: dict[str, dict[str, list[object]]] = {}
    table = []
    for request in kept:
        span = request.span
        assert span is not None
        row = "slot not known" if request.slot is None else f"slot {request.slot}"
        first = span.end_s if span.first_s is None else span.first_s
        _bar(bars, "to the first token", row, span.sent_s, first, request.name)
        _bar(bars, "decode", row, first, span.end_s, request.name)
        starts = "" if span.first_s is None else f"{span.first_s:.3f}"
        times = (f"{span.sent_s:.3f}", starts or "not known", f"{span.end_s:.3f}")
        table.append((Cell(request.name), Cell(row), *(Cell(text) for text in times)))
    colours = {"to the first token": plots.BLUE, "decode": plots.PINK}
    heads = ("request", "slot", "sent s", "first token s", "end s")
    return Chart(
        name,
        "Slots over time",
        f"Bars along time: {len(requests)} requests on {len(slots)} slots",
        plots.spans(name, rows, bars, colours),
        Table("Requests by slot and time", heads, tuple(table[: limits.rows]), note),
        note,
    )


def _bar(
    bars: dict[str, dict[str, list[object]]],
    kind: str,
    row: str,
    left: float,
    right: float,
    told: str,
) -> None:
    columns = bars.setdefault(kind, {"row": [], "left": [], "right": [], "told": []})
    for key, value in (("row", row), ("left", left), ("right", right), ("told", told)):
        columns[key].append(value)


def _memory(points: Sequence[MemoryPoint], kv: float | None, name: str, limits: Limits) -> Chart:
    kept = thin(points, limits.samples)
    note = ""
    if len(kept) < len(points):
        note = (
            f"{len(kept)} of {len(points):,} samples: of each stretch its lowest and its highest."
        )
    fields = {"anonymous": [p.anon_mib for p in kept], "resident": [p.rss_mib for p in kept]}
    curves = {}
    for key, values in fields.items():
        known = [(p.at_s, v) for p, v in zip(kept, values, strict=True) if v is not None]
        if known:
            curves[key] = ([x for x, _ in known], [y for _, y in known])
    says = "; ".join(
        f"{key} memory {min(y):,.1f} to {max(y):,.1f} MiB" for key, (_, y) in curves.items()
    )
    if kv is not None:
        says += f"; KV {format_number(kv)} MiB"
    at = range(0, len(kept), max(1, -(-len(kept) // 40)))
    rows = [
        (Cell(f"{kept[i].at_s:.2f}"), _mib(kept[i].anon_mib), _mib(kept[i].rss_mib)) for i in at
    ]
    table_note = "" if len(rows) == len(kept) else f"{len(rows)} of {len(points):,} samples."
    heads = ("s", "anonymous MiB", "resident MiB")
    level = None if kv is None else ("KV, by the log", kv)
    return Chart(
        name,
        "Memory of the server's processes over time, and what KV weighs",
        says or "No memory was read",
        plots.lines(name, curves, (plots.BLUE, plots.GREY), "MiB", level),
        Table("Memory over time", heads, tuple(rows), table_note),
        note,
    )


def _count(value: int | None) -> Cell:
    return Cell(_NOTHING, sort="") if value is None else Cell(f"{value:,}", sort=value)


def _ms(value: float | None) -> Cell:
    return Cell(_NOTHING, sort="") if value is None else Cell(f"{value:,.2f}", sort=value)


def _mib(value: float | None) -> Cell:
    return Cell(_NOTHING, sort="") if value is None else Cell(f"{value:,.1f}", sort=value)


def launches_blocks(
    record: RunRecord, evidence: Evidence, prefix: str, limits: Limits
) -> Iterator[Block]:
    """The launches, those first whose gates did not pass where there are too many."""
    driven = [one for one in record.launches if one.server.kind != "none"]
    if not driven:
        return
    bad = {g.variant for g in record.gates if gate_rank(g)[1] < _WORST_HELD}
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
        blocks = launch_blocks(record, launch, evidence, f"{prefix}{number}", limits)
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
