"""Is this machine fit to measure? Its facts over a second, and A/A launches of the tiny model."""

from __future__ import annotations

import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from benchsuite.collect.fitness import assess, worse_of
from benchsuite.collect.gpu_clocks import NvmlClocks
from benchsuite.collect.machine import machine_name
from benchsuite.collect.machine_state import read_machine
from benchsuite.collect.timer import judge_timer
from benchsuite.errors import BenchsuiteError, ExitCode, UsageError
from benchsuite.gate.client_health import client_doubt
from benchsuite.metrics.catalogue import CATALOGUE, LAUNCH_MEDIANS
from benchsuite.model.machine import Diagnosis, MachineFinding, Noise
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import Prepared, prepare
from benchsuite.pipeline.run import run_scenario
from benchsuite.report.progress import Progress
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.workspace import load_workspace
from benchsuite.stats.power import smallest_found
from benchsuite.stats.ratios import log_ratio
from benchsuite.units import format_number

WATCH_SECONDS = 1.0
DEFAULT_PAIRS = 5
QUICK_PAIRS = 3
PAIRS_TOLD = (5, 10, 20)

NOISE_WARN_PERCENT = 20.0
"""The smallest regression that 10 pairs find, the most that `ab` looks at: twice the tolerance of
10% that gates usually have. A machine that cannot find it mostly answers 'inconclusive'."""

_METRICS = (
    "ttft_ms",
    "e2e_ms",
    "prefill_tokens_per_second",
    "decode_tokens_per_second",
    "output_tokens_per_second",
)
_LOAD = "crowd"
_SCENARIO = """
title: how much do launches of one server differ?
server: {parallel: 2, ctx-size: {min: 512, per: slot}}
steps:
  - complete: {id: warm, warm_up: true, prompt: {tokens: 200, seed: 1}, max_tokens: 8}
  - complete: {id: one, prompt: {tokens: 200, seed: 2}, max_tokens: 48}
  - complete: {id: two, prompt: {tokens: 200, seed: 3}, max_tokens: 48}
  - complete: {id: three, prompt: {tokens: 200, seed: 4}, max_tokens: 48}
  - load: {as: crowd, requests: 8, concurrency: 2, prompt: {tokens: 60, seed: 10}, max_tokens: 16}
gates:
  - {metric: 'requests_failed{step="crowd"}', equals: 0}
"""


def diagnose(
    *,
    pairs: int | None,
    server: str | None,
    model: str | None,
    environ: Mapping[str, str],
    progress: Progress,
    gpus: Callable[[], NvmlClocks] | None = None,
    limits: Mapping[str, float] = MappingProxyType({}),
) -> Diagnosis:
    """The machine's facts and its noise.

    Args:
        pairs: Of launches; None launches no server.
        server: The server to launch; None as `run` would.
        model: The model to serve; None is the tiny one.
        environ: Of this process.
        progress: Told of each launch.
        gpus: Gives NVML; None asks no GPU.
        limits: Of waits, in seconds by the names of `Limits`; the rest has its defaults.

    Raises:
        UsageError: The server or the model cannot be used as named.
        KeyboardInterrupt: It was interrupted while servers were launched.
    """
    begin = read_machine(gpus=gpus)
    time.sleep(WATCH_SECONDS)
    findings = [*assess(begin, read_machine(gpus=gpus)), judge_timer()]
    found = Diagnosis(
        machine_name(environ), f"{platform.system()} {platform.release()}", tuple(findings)
    )
    if pairs is None:
        return msgspec.structs.replace(found, no_noise="no server was launched (--no-server)")
    try:
        record, words = _launch_pairs(pairs, server, model, environ, progress, limits)
    except UsageError:
        raise
    except BenchsuiteError as error:
        return msgspec.structs.replace(found, failed=str(error), hint=error.hint or _AROUND)
    if record.interrupted:
        raise KeyboardInterrupt
    why = _why_failed(record)
    if why is not None:
        return msgspec.structs.replace(found, failed=why, hint=_AROUND, server=words)
    noise = noise_of(record.measurements)
    own = (*judge_noise(noise), judge_client(record.measurements))
    state = record.machine_state
    # throttling and heat show only under load
    facts = worse_of(found.findings, () if state is None else state.findings)
    return msgspec.structs.replace(
        found, findings=(*facts, *own), noise=noise, pairs=pairs, server=words
    )


_AROUND = "benchsuite doctor --no-server tells the machine's facts alone"


def exit_code(found: Diagnosis) -> ExitCode:
    """5 where noise could not be measured, 3 where the machine is not fit, else 0."""
    if found.failed:
        return ExitCode.MACHINE_FAILED
    return ExitCode.INCONCLUSIVE if found.unfit else ExitCode.PASS


def noise_of(measurements: Sequence[Measurement]) -> tuple[Noise, ...]:
    """How much each latency metric differs between launches.

    Args:
        measurements: Of one variant whose trials are fresh launches of one server; of requests
            each launch's own median counts.
    """
    found = []
    for name in _METRICS:
        values = {
            m.trial: float(m.value)
            for m in measurements
            if m.name == name and m.labels in ({}, {"step": _LOAD}) and m.value
            if (name in LAUNCH_MEDIANS) == (not m.labels)
        }
        if values:
            found.append(_noise(name, values))
    return tuple(found)


def _noise(name: str, values: Mapping[int, float]) -> Noise:
    metric, launches = CATALOGUE[name], list(values.values())
    ratios = []
    for number in range(1, max(values) // 2 + 1):
        first, second = values.get(2 * number - 1), values.get(2 * number)
        if first is not None and second is not None:
            # every other pair the other way round, as `ab` measures, so that drift is noise
            before, after = (first, second) if number % 2 else (second, first)
            ratios.append(log_ratio(before, after, metric.better))
    mean = statistics.fmean(launches)
    several = len(launches) > 1 and mean > 0
    found = {pairs: smallest_found(ratios, pairs) for pairs in PAIRS_TOLD}
    return Noise(
        metric=name,
        unit=metric.unit,
        launches=len(launches),
        median=statistics.median(launches),
        cv_percent=statistics.stdev(launches) / mean * 100 if several else None,
        smallest_found={n: value if math.isfinite(value) else None for n, value in found.items()},
    )


def judge_noise(noise: Sequence[Noise]) -> tuple[MachineFinding, ...]:
    """Whether 10 pairs find what gates usually look for; one finding for all metrics."""
    fact, pairs = "noise", PAIRS_TOLD[1]
    told = [(n.smallest_found.get(pairs), n.metric) for n in noise]
    known = [(value, metric) for value, metric in told if value is not None]
    if not known:
        return (MachineFinding(fact, "", "unknown", "too few launches tell how much they differ"),)
    worst, metric = max(known)
    value = f"{pairs} pairs find {format_number(worst, 1)}% ({metric})"
    if worst <= NOISE_WARN_PERCENT:
        sentence = f"every latency metric shows a regression of {NOISE_WARN_PERCENT:g}%"
        return (MachineFinding(fact, value, "ok", sentence),)
    return (
        MachineFinding(
            fact,
            value,
            "warn",
            f"smaller regressions are missed; {NOISE_WARN_PERCENT:g}% should be found",
            "mend what is marked above; else more pairs, more requests in a launch, longer replies",
            ("latency",),
        ),
    )


def judge_client(measurements: Sequence[Measurement]) -> MachineFinding:
    """Whether benchsuite itself kept up with the server in every launch."""
    fact = "client"
    lag = [float(m.value) for m in measurements if m.name == "event_loop_lag_ms"]
    share = [float(m.value) for m in measurements if m.name == "client_cpu_share"]
    if not lag or not share:
        return MachineFinding(fact, "", "unknown", "its lag and CPU share were not measured")
    value = (
        f"{format_number(max(lag), 2)} ms late, {format_number(max(share) * 100, 1)}% of the cores"
    )
    series = {(m.name, tuple(m.labels.items())): m for m in measurements if m.name in _METRICS}
    for m in series.values():
        doubt = client_doubt(measurements, m.name, m.labels, m.variant)
        if doubt is not None:
            remedy = "stop what else runs here, or measure on a machine with more cores"
            return MachineFinding(fact, value, "warn", doubt, remedy, ("latency",))
    return MachineFinding(fact, value, "ok", "benchsuite itself kept up")


def _launch_pairs(
    pairs: int,
    server: str | None,
    model: str | None,
    environ: Mapping[str, str],
    progress: Progress,
    limits: Mapping[str, float],
) -> tuple[RunRecord, str]:
    """The record of two launches a pair, and the server in words; the run is not kept."""
    scenario = parse_scenario(_SCENARIO, "doctor", "benchsuite doctor")
    with tempfile.TemporaryDirectory(prefix="benchsuite-doctor-") as folder:
        options = RunOptions(
            server=server, model=model, trials=2 * pairs, out=folder, limits=dict(limits)
        )
        prepared = prepare(load_workspace(), scenario, options, environ)
        record = run_scenario(prepared, environ, progress).record
    return record, _words(prepared, record)


def _words(prepared: Prepared, record: RunRecord) -> str:
    build = record.info.build or "an unknown build"
    kind = "" if prepared.target is None else f"{prepared.target.binary.kind} "
    return f"{kind}{build}, {record.info.model}"


def _why_failed(record: RunRecord) -> str | None:
    """Why the launches are no measure of noise; None where each went well."""
    for launch in record.launches:
        if launch.failure is not None:
            return f"launch {launch.trial}: {launch.failure.message}"
    return next((g.reason for g in record.gates if g.outcome == "fail"), None)
