"""A run of a small two-session scenario, as a healthy server would give it, to be bent by tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchsuite.model.record import (
    RECORD_SCHEMA,
    Failure,
    Fingerprint,
    Info,
    Launch,
    Measurement,
    ModelFacts,
    RunRecord,
    ServerEnd,
    ServerFacts,
)
from benchsuite.model.scenario import (
    GateSpec,
    Regression,
    SameAs,
    Scenario,
    VariantSpec,
    When,
)

NUMERICS = "cpu avx2"
MACHINE = "cpu avx2, example cpu, 2 cores"
TEXTS = {("A", "1"): "alpha beta", ("A", "2"): "gamma", ("B", "1"): "delta", ("B", "2"): "eps"}
CACHED = {
    "B": {("A", "1"): 0, ("A", "2"): 1216, ("B", "1"): 1204, ("B", "2"): 1216},
    "U": {("A", "1"): 0, ("A", "2"): 1216, ("B", "1"): 1204, ("B", "2"): 1216},
    "P": {("A", "1"): 0, ("A", "2"): 1270, ("B", "1"): 0, ("B", "2"): 1270},
}
PROMPT = {"1": 1260, "2": 1330}
FLAGS = {"parallel": "2", "ctx-size": "8192", "cache-type-k": "f16", "port": "40000"}

GATES = (
    GateSpec('cached_tokens{session="A",turn="2"}', equals_baseline=True, line=20),
    GateSpec('cached_tokens{session="B",turn="2"}', equals_baseline=True, line=21),
    GateSpec(
        'cached_tokens{session="B",turn="1"}',
        min=1190,
        variants=("B", "U"),
        when=When(attention="full"),
        line=22,
        why="the second session starts from the shared prefix",
    ),
    GateSpec("kv_mib", equals_baseline=True, line=23),
    GateSpec("kv_mib", same_as=SameAs(variant="B"), when=When(sliding_window=False), line=24),
    GateSpec('text{session=~".*",turn=~".*"}', same_as=SameAs(variant="B"), line=25),
    GateSpec('anon_mib{at="end"}', regression=Regression(5.0, 16.0), line=26),
    GateSpec('rss_mib{at="end"}', max=400.0, needs="launched", line=27),
    GateSpec('ttft_ms{session="A",turn="2"}', regression=Regression(10.0), line=28),
)


def scenario(*gates: GateSpec) -> Scenario:
    """The scenario, with other gates if any are given."""
    return Scenario(
        name="scenarioB",
        path="scenarios/scenarioB.yaml",
        title="turn-2 reuse of a shared system prefix by two sessions",
        variants={name: VariantSpec(name) for name in ("B", "U", "P")},
        gates=gates or GATES,
    )


def launch(variant: str, trial: int = 1, **changes: Any) -> Launch:
    """A healthy launch."""
    healthy = Launch(
        variant=variant,
        trial=trial,
        started_at="2026-11-03T10:00:00+00:00",
        server=ServerFacts(
            kind="wheel",
            path="/opt/llama/llama-server",
            why="found on PATH",
            build="b10434",
            slots=2,
            n_ctx_slot=4096,
            devices=("CPU",),
            model=ModelFacts(architecture="llama", attention="full"),
        ),
        end=ServerEnd(exit_code=0),
        log=f"server.{variant.lower()}.{trial}.log",
    )
    return msgspec.structs.replace(healthy, **changes)


def measurements(variant: str, trial: int = 1) -> list[Measurement]:
    """What a healthy launch measures."""

    def make(name: str, value: float | str, unit: str, **labels: str) -> Measurement:
        return Measurement(name, value, unit, variant, trial, labels)

    found = [
        Measurement("kv_mib", 16.0, "MiB", variant, trial, {}, 0.01, 1),
        Measurement("kv_mib", 16.0, "MiB", variant, trial, {"device": "CPU"}, 0.01, 1),
    ]
    for (session, turn), cached in CACHED[variant].items():
        place = {"session": session, "turn": turn}
        found += [
            make("cached_tokens", cached, "tokens", **place),
            make("evaluated_tokens", PROMPT[turn] - cached, "tokens", **place),
            make("prompt_tokens", PROMPT[turn], "tokens", **place),
            make("text", TEXTS[session, turn], "", **place),
            make("ttft_ms", 12.5 + trial, "ms", **place),
            make("e2e_ms", 31.25 + trial, "ms", **place),
        ]
    found += [
        make("rss_mib", 61.0, "MiB", at="end"),
        make("anon_mib", 41.5, "MiB", at="end"),
        make("server_start_ms", 43.0, "ms"),
    ]
    return found


def record(variants: Sequence[str] = ("B", "U", "P"), trials: int = 1) -> RunRecord:
    """A healthy run, not yet judged."""
    each = [(v, t) for v in variants for t in range(1, trials + 1)]
    return RunRecord(
        schema_version=RECORD_SCHEMA,
        id="5eed0001",
        started_at="2026-11-03T10:00:00+00:00",
        wall_seconds=2.4,
        scenario="scenarioB",
        scenario_path="scenarios/scenarioB.yaml",
        title="turn-2 reuse of a shared system prefix by two sessions",
        digests={v: f"digest of {v}" for v in variants},
        fingerprint=Fingerprint("tiny", "scenarioB", 0, NUMERICS, MACHINE),
        info=Info(
            build="b10434",
            server="/opt/llama/llama-server",
            model="tiny, 5 MiB, 1234abcd",
            flags=dict.fromkeys(variants, FLAGS),
            benchsuite="0.1.0",
        ),
        trials=trials,
        launches=tuple(launch(v, t) for v, t in each),
        measurements=tuple(m for v, t in each for m in measurements(v, t)),
    )


def with_values(
    run: RunRecord,
    name: str,
    value: float | str,
    *,
    variants: Sequence[str] | None = None,
    trials: Sequence[int] | None = None,
    labels: Mapping[str, str] | None = None,
) -> RunRecord:
    """The run with another value in the measurements that are meant."""
    changed = [
        msgspec.structs.replace(m, value=value)
        if m.name == name
        and (variants is None or m.variant in variants)
        and (trials is None or m.trial in trials)
        and (labels is None or all(m.labels.get(k) == v for k, v in labels.items()))
        else m
        for m in run.measurements
    ]
    return msgspec.structs.replace(run, measurements=tuple(changed))


def without(run: RunRecord, name: str, *, variants: Sequence[str] | None = None) -> RunRecord:
    """The run without a metric's measurements."""
    kept = [
        m
        for m in run.measurements
        if m.name != name or (variants is not None and m.variant not in variants)
    ]
    return msgspec.structs.replace(run, measurements=tuple(kept))


def failed(run: RunRecord, variant: str, failure: Failure) -> RunRecord:
    """The run with a variant whose launch failed and measured nothing."""
    return msgspec.structs.replace(
        run,
        launches=tuple(
            launch(variant, item.trial, failure=failure) if item.variant == variant else item
            for item in run.launches
        ),
        measurements=tuple(m for m in run.measurements if m.variant != variant),
    )
