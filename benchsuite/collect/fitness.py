"""What a machine's state means for measuring: thresholds and sentences; pure.

Each threshold says why it is where it is; `docs/doctor.md` has them in one table.
"""

from __future__ import annotations

from collections.abc import Callable

from benchsuite.collect.gpu_fitness import judge_gpus
from benchsuite.model.machine import MachineFinding, MachineReading
from benchsuite.units import format_number

OTHERS_WARN, OTHERS_VOID = 0.05, 0.10
"""Share of the cores' time that others took. A server on all cores is slowed by 1/(1-share): 10%
of it make 11%, as much as the tolerances that people write."""

STEAL_WARN, STEAL_VOID = 0.01, 0.05
"""Share of the cores' time that the hypervisor gave away; it strikes busy cores, so 5% of all time
can be 10% of a server's that keeps half the cores busy."""

THROTTLED_VOID = 0.05
"""Share of a control group's periods in which it stood still; any makes single requests slow."""

SWAPPED_MIB = 1.0
"""MiB moved into or out of swap; less is the kernel tidying up."""

STALLED_WARN, STALLED_VOID = 0.01, 0.05
"""Share of the time in which some task waited for memory."""

MEMORY_SHARE = 0.10
"""Share of memory that must be free, or the kernel drops pages of the model and reads them anew."""

CLOCK_SHARE = 0.95
"""The policy's highest clock over the hardware's; below it the policy holds the cores back."""

CLOCK_RESOLUTION_NS = 1000.0
"""Of the clock that requests are timed with: a thousandth of a millisecond."""

MIN_SECONDS = 0.2
"""CPU time is counted in hundredths of a second, so a share of less time says little."""

HEAT_VOID_PER_SECOND = 1.0
"""Times a second that heat slowed a core; a few in a long run hardly show in a median."""

_STEADY_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "xen")


def assess(
    begin: MachineReading, end: MachineReading, *, owned: bool = True
) -> tuple[MachineFinding, ...]:
    """What two readings tell, always the same facts in the same order.

    Args:
        begin: When measuring began.
        end: When it was over, every server of ours ended.
        owned: Whether all servers in between were ours.
    """
    seconds = (end.at_ns - begin.at_ns) / 1e9
    rules: tuple[Callable[[], MachineFinding], ...] = (
        lambda: _cores(end),
        lambda: _governor(end),
        lambda: _clock_limit(end),
        lambda: _turbo(end),
        lambda: _others(begin, end, owned=owned),
        lambda: _steal(begin, end),
        lambda: _swap(begin, end),
        lambda: _memory(end),
        lambda: _stalled(begin, end, seconds),
        lambda: _quota(end),
        lambda: _throttled(begin, end),
        lambda: _heat(begin, end, seconds),
        lambda: judge_gpus(begin, end, seconds),
        lambda: _clock(end),
    )
    return tuple(rule() for rule in rules)


def worse_of(
    first: tuple[MachineFinding, ...], second: tuple[MachineFinding, ...]
) -> tuple[MachineFinding, ...]:
    """Of two findings of each fact the one that warns, else the one that is known.

    Args:
        first: Kept where both say the same.
        second: Of the same machine at another time; facts that only one of them has are kept.
    """
    order = ("unknown", "ok", "warn")
    others = {one.fact: one for one in second}
    known = {one.fact for one in first}
    merged = [
        max(one, others.get(one.fact, one), key=lambda f: (order.index(f.grade), bool(f.voids)))
        for one in first
    ]
    return (*merged, *(one for one in second if one.fact not in known))


def _unknown(fact: str, sentence: str, remedy: str = "") -> MachineFinding:
    return MachineFinding(fact, "", "unknown", sentence, remedy)


def _cores(now: MachineReading) -> MachineFinding:
    fact = "cores"
    if now.allowed_cores is None:
        return _unknown(fact, "the system does not tell how many cores there are")
    siblings = {True: ", siblings share them (SMT)", False: ", one thread each", None: ""}[now.smt]
    value = f"{now.allowed_cores}{siblings}"
    if now.cores is not None and now.allowed_cores < now.cores:
        value = f"{now.allowed_cores} of {now.cores}{siblings}"
    if now.allowed_cores == 1:
        return MachineFinding(
            fact,
            value,
            "warn",
            "server and client take turns on the one core, so each slows the other",
            "measure with two cores or more",
            ("latency",),
        )
    sentence = "server and client need not share one"
    if now.smt:
        sentence += "; threads beyond the physical cores slow each other"
    remedy = "give the server no more --threads than physical cores" if now.smt else ""
    return MachineFinding(fact, value, "ok", sentence, remedy)


def _governor(now: MachineReading) -> MachineFinding:
    fact = "cpu governor"
    if not now.governors:
        where = "no cpufreq (usual in virtual machines and containers)"
        sentence = f"{where}: whoever runs the host decides" if now.system == "Linux" else ""
        return _unknown(fact, sentence or f"{now.system or 'this system'} does not tell")
    value = ", ".join(now.governors)
    if now.governors == ("performance",):
        return MachineFinding(fact, value, "ok", "clocks do not follow the load")
    return MachineFinding(
        fact,
        value,
        "warn",
        "clocks follow the load, so the first requests after a pause are slower",
        "sudo cpupower frequency-set -g performance",
        ("latency",),
    )


def _clock_limit(now: MachineReading) -> MachineFinding:
    fact = "cpu clock"
    limit, top, speed = now.clock_limit_mhz, now.top_clock_mhz, now.clock_mhz
    if top is None or limit is None:
        known = "" if speed is None else f" ({speed:.0f} MHz now)"
        return _unknown(fact, f"the limits of the cores' clocks cannot be read{known}")
    value = f"up to {limit:.0f} of {top:.0f} MHz" + ("" if speed is None else f", now {speed:.0f}")
    if limit < CLOCK_SHARE * top:
        return MachineFinding(
            fact,
            value,
            "warn",
            "a policy holds the cores below what they can do, and may change",
            f"sudo cpupower frequency-set -u {top:.0f}MHz, or leave battery saving",
            ("latency",),
        )
    return MachineFinding(fact, value, "ok", "no policy holds the cores back")


def _turbo(now: MachineReading) -> MachineFinding:
    fact = "turbo"
    if now.turbo is None:
        return _unknown(fact, "no driver tells whether cores may exceed their nominal clock")
    if now.turbo:
        return MachineFinding(
            fact,
            "on",
            "ok",
            "clocks depend on temperature and on how many cores are busy",
            "for the steadiest figures turn it off in the firmware",
        )
    return MachineFinding(fact, "off", "ok", "clocks do not depend on temperature")


def _others(begin: MachineReading, end: MachineReading, *, owned: bool) -> MachineFinding:
    fact = "load from others"
    share = _share_of_others(begin, end)
    load = "" if begin.load_average is None else f"load {begin.load_average:.2f} before"
    if share is None or not owned:
        told = f" ({load})" if load else ""
        why = "CPU times cannot be read, or not for long enough"
        if not owned:
            why = "a server that benchsuite did not start is not told from other processes"
        return _unknown(fact, f"{why}{told}")
    value = f"{_percent(share)} of the CPU" + (f", {load}" if load else "")
    if share < OTHERS_WARN:
        return MachineFinding(fact, value, "ok", "next to nothing else ran")
    return MachineFinding(
        fact,
        value,
        "warn",
        _slowed_words(share),
        "stop what else runs here (see top), or measure on a machine of its own",
        ("latency",),
        ("latency",) if share > OTHERS_VOID else (),
    )


def _share_of_others(begin: MachineReading, end: MachineReading) -> float | None:
    """The share of the cores' time that neither we, nor children of ours, nor idling took."""
    if begin.cpu is None or end.cpu is None:
        return None
    total = end.cpu.total_seconds - begin.cpu.total_seconds
    cores = end.allowed_cores or end.cores or 1
    if total < MIN_SECONDS * cores:
        return None
    busy = end.cpu.busy_seconds - begin.cpu.busy_seconds
    own = end.own_cpu_seconds - begin.own_cpu_seconds
    return min(1.0, max(0.0, (busy - own) / total))


def _steal(begin: MachineReading, end: MachineReading) -> MachineFinding:
    fact = "steal time"
    if begin.cpu is None or end.cpu is None or end.cpu.steal_seconds is None:
        return _unknown(fact, "what a hypervisor takes away cannot be read")
    total = end.cpu.total_seconds - begin.cpu.total_seconds
    if total < MIN_SECONDS * (end.allowed_cores or 1):
        return _unknown(fact, "too short to tell")
    share = max(0.0, (end.cpu.steal_seconds - (begin.cpu.steal_seconds or 0.0)) / total)
    value = f"{_percent(share)} of the CPU"
    if share < STEAL_WARN:
        return MachineFinding(fact, value, "ok", "the hypervisor gave what was asked for")
    return MachineFinding(
        fact,
        value,
        "warn",
        "the hypervisor ran other machines on these cores meanwhile",
        "use a machine with dedicated cores",
        ("latency",),
        ("latency",) if share > STEAL_VOID else (),
    )


def _swap(begin: MachineReading, end: MachineReading) -> MachineFinding:
    fact = "swap"
    if end.swap_total_mib == 0:
        return MachineFinding(fact, "none", "ok", "nothing can be moved out")
    if begin.swapped_mib is None or end.swapped_mib is None:
        return _unknown(fact, "what is moved into and out of swap cannot be read")
    moved = max(0.0, end.swapped_mib - begin.swapped_mib)
    used = "" if end.swap_used_mib is None else f", {end.swap_used_mib:.0f} MiB in use"
    value = f"{format_number(moved, 1)} MiB moved{used}"
    if moved <= SWAPPED_MIB:
        return MachineFinding(fact, value, "ok", "what lies there stayed there")
    return MachineFinding(
        fact,
        value,
        "warn",
        "resident memory falls and requests wait while pages move",
        "free memory, or sudo swapoff -a",
        ("latency", "memory"),
        ("latency", "memory"),
    )


def _memory(now: MachineReading) -> MachineFinding:
    fact = "free memory"
    total, free = now.memory_total_mib, now.memory_available_mib
    if not total or free is None:
        return _unknown(fact, "free memory cannot be read")
    group = now.cgroup
    whose = "of the machine"
    if group is not None and group.memory_limit_mib and group.memory_limit_mib < total:
        total, whose = group.memory_limit_mib, "of the control group's limit"
        if group.memory_used_mib is None:
            return _unknown(fact, f"what is left {whose} ({total:.0f} MiB) cannot be read")
        free = min(free, total - group.memory_used_mib)
    value = f"{free:.0f} of {total:.0f} MiB"
    if free >= MEMORY_SHARE * total:
        return MachineFinding(fact, value, "ok", f"enough {whose} is left for the model's pages")
    return MachineFinding(
        fact,
        value,
        "warn",
        f"little {whose} is left: pages of the model may be dropped and read again",
        "free memory, or raise the limit",
        ("latency", "memory"),
    )


def _stalled(begin: MachineReading, end: MachineReading, seconds: float) -> MachineFinding:
    fact = "memory pressure"
    before, after = begin.memory_stalled_seconds, end.memory_stalled_seconds
    if before is None or after is None or seconds <= 0:
        return _unknown(fact, "no /proc/pressure/memory (Linux 4.20, psi=1)")
    share = min(1.0, max(0.0, (after - before) / seconds))
    value = f"{_percent(share)} of the time"
    if share < STALLED_WARN:
        return MachineFinding(fact, value, "ok", "nobody waited for memory")
    return MachineFinding(
        fact,
        value,
        "warn",
        "tasks waited for memory to become free",
        "free memory, or raise the limit",
        ("latency", "memory"),
        ("latency",) if share > STALLED_VOID else (),
    )


def _quota(now: MachineReading) -> MachineFinding:
    fact = "cpu quota"
    if now.system and now.system != "Linux":
        return _unknown(fact, f"{now.system} has no control groups to read")
    if now.cgroup is None or not now.cgroup.cpu_seen:
        return _unknown(fact, "this process' control group cannot be read")
    quota, cores = now.cgroup.quota_cores, now.allowed_cores
    if quota is None:
        return MachineFinding(fact, "none", "ok", "no limit in the control groups seen from here")
    value = f"{format_number(quota, 2)} cores"
    if cores is None or quota >= cores:
        return MachineFinding(fact, value, "ok", "it is no smaller than the cores")
    return MachineFinding(
        fact,
        f"{value} of {cores}",
        "warn",
        "llama-server starts a thread for each core, uses the quota up and then stands still",
        f"give it --threads {max(1, int(quota))}, or raise the quota to the cores",
        ("latency",),
    )


def _throttled(begin: MachineReading, end: MachineReading) -> MachineFinding:
    fact = "cpu throttling"
    if end.cgroup is None or not end.cgroup.cpu_seen:
        return _unknown(fact, "this process' control group cannot be read")
    if end.cgroup.quota_cores is None:
        return MachineFinding(fact, "none", "ok", "there is no quota to use up")
    before = begin.cgroup
    told = (end.cgroup.periods, end.cgroup.throttled_periods)
    since = (None, None) if before is None else (before.periods, before.throttled_periods)
    if None in told or None in since:
        return _unknown(fact, "cpu.stat does not count throttled periods")
    periods = max(0, (told[0] or 0) - (since[0] or 0))
    throttled = max(0, (told[1] or 0) - (since[1] or 0))
    value = f"{throttled} of {periods} periods"
    if not throttled:
        return MachineFinding(fact, value, "ok", "the quota was not used up")
    return MachineFinding(
        fact,
        value,
        "warn",
        "the quota was used up, and everything stood still until its next period",
        "raise the quota, or lower --threads",
        ("latency",),
        ("latency",) if throttled > THROTTLED_VOID * periods else (),
    )


def _heat(begin: MachineReading, end: MachineReading, seconds: float) -> MachineFinding:
    fact = "cpu heat"
    if begin.heat_events is None or end.heat_events is None:
        return _unknown(fact, "no counter of thermal throttling (Intel's driver has one)")
    events = max(0, end.heat_events - begin.heat_events)
    value = "none" if not events else f"{events} times"
    if not events:
        return MachineFinding(fact, value, "ok", "no core was slowed for heat")
    return MachineFinding(
        fact,
        value,
        "warn",
        "cores were slowed for heat",
        "cool the machine, leave pauses, or turn turbo off",
        ("latency",),
        ("latency",) if events > HEAT_VOID_PER_SECOND * seconds else (),
    )


def _clock(now: MachineReading) -> MachineFinding:
    fact = "clock"
    resolution = now.clock_resolution_ns
    if resolution is None:
        return _unknown(fact, "the resolution of the monotonic clock is not told")
    source = f"{now.clock_source}, " if now.clock_source else ""
    value = f"{source}{format_number(resolution, 0)} ns"
    if resolution > CLOCK_RESOLUTION_NS:
        sentence, remedy = "steps of the clock are as long as what is timed", ""
    elif now.clock_source and now.clock_source not in _STEADY_CLOCKS:
        sentence = "this clock source is slow to read"
        remedy = "see whether tsc is among the available clock sources"
    else:
        return MachineFinding(fact, value, "ok", "fine enough for milliseconds")
    return MachineFinding(fact, value, "warn", sentence, remedy, ("latency",))


def _slowed_words(share: float) -> str:
    if share >= 0.5:
        return "other processes left a server on all cores less than half of their time"
    slowed = _percent(1 / (1 - share) - 1)
    return f"other processes can slow a server on all cores by {slowed}"


def _percent(share: float) -> str:
    return f"{format_number(share * 100, 1)}%"
