"""What the state of GPUs means for measuring; pure."""

from __future__ import annotations

from benchsuite.model.machine import GpuState, MachineFinding, MachineReading
from benchsuite.units import format_number

SLOWED_WARN, HEAT_VOID = 0.01, 0.05
"""Share of the time below the clocks that were asked for. Many GPUs run at their power limit all
the time, which is steady; heat comes and goes, so only heat voids."""

_HARMLESS = frozenset({"application clocks are set", "display clock setting"})
"""Reasons that hold the clocks steady, which is what is wanted."""


def judge_gpus(begin: MachineReading, end: MachineReading, seconds: float) -> MachineFinding:
    """The clocks of all GPUs, the worst first.

    Args:
        begin: When measuring began.
        end: When it was over; GPUs are in the order of the first reading.
        seconds: Between the two.
    """
    fact = "gpu clocks"
    if end.gpus is None:
        return MachineFinding(fact, "", "unknown", end.gpus_unknown or "no GPU was looked for")
    if not end.gpus:
        return MachineFinding(fact, "no GPU", "ok", "there is none to slow down")
    before = dict(enumerate(begin.gpus or ()))
    found = [_judge(before.get(i), gpu, seconds) for i, gpu in enumerate(end.gpus)]
    order = ("warn", "unknown", "ok")
    return min(found, key=lambda one: (order.index(one.grade), not one.voids))


def _judge(before: GpuState | None, now: GpuState, seconds: float) -> MachineFinding:
    fact = "gpu clocks"
    value = now.name
    if now.clock_mhz is not None and now.top_clock_mhz is not None:
        value += f", {now.clock_mhz} of {now.top_clock_mhz} MHz"
    heat = power = None
    if before is not None and seconds > 0:
        heat = _share(before.thermal_ns, now.thermal_ns, seconds)
        power = _share(before.power_ns, now.power_ns, seconds)
    reasons = [reason for reason in now.slowed_by if reason not in _HARMLESS]
    for why, share in (("heat", heat), ("power", power)):
        if share is not None and share >= SLOWED_WARN:
            return MachineFinding(
                fact,
                value,
                "warn",
                f"slowed for {why} {format_number(share * 100, 1)}% of the time",
                "cool it, or lock its clocks lower: nvidia-smi --lock-gpu-clocks",
                ("latency",),
                ("latency",) if why == "heat" and share > HEAT_VOID else (),
            )
    if reasons:
        return MachineFinding(
            fact,
            value,
            "warn",
            f"held down now: {', '.join(reasons)}",
            "cool it, or raise its power limit",
            ("latency",),
        )
    if now.clock_mhz is None:
        return MachineFinding(fact, value, "unknown", "NVML does not tell its clocks")
    if heat is None and power is None:
        return MachineFinding(
            fact, value, "unknown", "NVML does not count how long it was slowed; not slowed now"
        )
    return MachineFinding(fact, value, "ok", "not slowed for heat or power")


def _share(before_ns: int | None, now_ns: int | None, seconds: float) -> float | None:
    if before_ns is None or now_ns is None:
        return None
    return min(1.0, max(0, now_ns - before_ns) / 1e9 / seconds)
