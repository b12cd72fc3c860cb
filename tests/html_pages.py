"""Pages for tests: a judged run with a journal, hostile texts, and a large run."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from benchsuite.gate.judge import judge
from benchsuite.gate.verdict import verdict
from benchsuite.model.record import Failure, Forensics, Measurement, RunRecord
from benchsuite.report.html.run_page import render_html
from benchsuite.report.report_input import Entry, ReportInput
from benchsuite.store.baselines import baselines_of_record, load_baselines
from tests.unit.gate import gate_example as example

replace = msgspec.structs.replace

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    '"><svg onload=window.hacked=3>',
    "{{ 7 * 7 }}{% raw %}",
    "nul \x00 and \x1b[31mred\x1b[0m and \x1b]0;title\x07",
    "mirror \u202e txet \u2066 and \u200b nothing",
    "$$\\frac{1}{2}$$ \\[x\\] \\(y\\)",
    "<!-- <script> ]]> javascript:window.hacked=4 https://example.com/x.png",
    "lone \ud800 surrogate",
)


def judged(run: RunRecord) -> RunRecord:
    """A record with gates and verdict, without baselines."""
    none = load_baselines([], "tiny", "scenarioB", run.fingerprint)
    gates = judge(example.scenario(), run, none, platform="linux")
    run = replace(run, gates=gates)
    return replace(run, verdict=verdict(run, ()))


def write_journal(folder: Path, run: RunRecord, *, samples: int = 40) -> None:
    """A journal with memory and a reply for each request of the record."""
    lines = []
    for launch in run.launches:
        place = {"variant": launch.variant, "trial": launch.trial}
        for i in range(samples):
            reading = {"at_ns": i * 10**8, "processes": 1, "rss_bytes": 50 * 2**20 + i % 7 * 2**20}
            reading["anon_bytes"] = 20 * 2**20 + i * 2**12
            lines.append({"ns": 0, "kind": "memory", **place, "reading": reading})
        own = [
            m.labels
            for m in run.measurements
            if (m.variant, m.trial, m.name) == (launch.variant, launch.trial, "cached_tokens")
        ]
        for i, labels in enumerate(own):
            sent = (i + 1) * 10**9
            stamps = {"sent_ns": sent, "first_token_ns": sent + 10**8, "end_ns": sent + 5 * 10**8}
            reply = {"slot": i % 2, "stamps": stamps}
            lines.append({"ns": 0, "kind": "reply", **place, "labels": labels, "reply": reply})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "samples.jsonl").write_text(text)


def page(folder: Path, run: RunRecord, *, with_baselines: bool = False) -> str:
    """The page of a run in a folder."""
    stored = baselines_of_record(run, run.fingerprint) if with_baselines else None
    return render_html(ReportInput((Entry(run, folder, stored),), root=folder))


def timed(run: RunRecord) -> RunRecord:
    """The record with server timings of each request."""
    more = [
        Measurement(name, value, "ms", m.variant, m.trial, m.labels)
        for m in run.measurements
        if m.name == "cached_tokens"
        for name, value in (
            ("server_prefill_ms", 40.0),
            ("server_decode_ms", 60.0),
            ("e2e_ms", 110.0),
        )
    ]
    return replace(run, measurements=(*run.measurements, *more))


def plain_run() -> RunRecord:
    """A judged run of three variants."""
    return judged(timed(example.record()))


def crashed_run(lines: tuple[str, ...] = ("GGML_ASSERT(x) failed", "the end")) -> RunRecord:
    """A run of which one variant crashed."""
    left = Forensics(signal=6, crash="GGML_ASSERT(x) failed", backtrace=("frame one",))
    failure = Failure("crash", "the server died", last_lines=lines, forensics=left)
    return judged(example.failed(timed(example.record()), "U", failure))


def hostile_run() -> RunRecord:
    """A run whose every text is an attack."""
    run = crashed_run((*HOSTILE, "x" * 2**20))
    bad = " ".join(HOSTILE)
    measurements = [
        Measurement(
            m.name, bad if m.name == "text" else m.value, m.unit, m.variant, m.trial, m.labels
        )
        for m in run.measurements
    ]
    measurements += [
        Measurement("cached_tokens", 3, "tokens", "B", 1, {"request": text}) for text in HOSTILE
    ]
    gates = tuple(
        replace(gate, observed=bad, expected=bad, reason=bad, why=bad, differs=HOSTILE)
        for gate in run.gates
    )
    launches = tuple(
        replace(one, warnings=HOSTILE, server=replace(one.server, command=HOSTILE))
        for one in run.launches
    )
    assert run.verdict is not None
    return replace(
        run,
        title=bad,
        scenario_path=bad,
        measurements=tuple(measurements),
        gates=gates,
        launches=launches,
        warnings=HOSTILE,
        verdict=replace(run.verdict, reasons=HOSTILE),
    )


def large_run() -> RunRecord:
    """Forty launches of three hundred requests each, and three thousand gates."""
    run = plain_run()
    launch, gate = run.launches[0], run.gates[0]
    launches = tuple(replace(launch, variant=f"V{i}") for i in range(40))
    names = ("cached_tokens", "evaluated_tokens", "ttft_ms", "tpot_ms", "e2e_ms")
    measurements = tuple(
        Measurement(name, i * 7 % 1000 + 0.5, "", one.variant, 1, {"request": f"r{i}"})
        for one in launches
        for i in range(300)
        for name in names
    )
    gates = tuple(
        replace(gate, metric=f"kv_mib{i}", variant=f"V{i % 40}", reason=f"reason {i} " * 20)
        for i in range(3000)
    )
    digests = {one.variant: "" for one in launches}
    return replace(run, launches=launches, measurements=measurements, gates=gates, digests=digests)
