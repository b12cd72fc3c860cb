"""Memory of processes and devices; sources name where a formula or field was read."""

from __future__ import annotations

from benchsuite.metrics.metric import AT, STEP, declare

DECLARED = (
    declare(
        "rss_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        AT,
        "Resident memory of the server's process tree: the sum of VmRSS (proc(5)).",
    ),
    declare(
        "rss_peak_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        AT,
        "The kernel's own high-water mark of resident memory: the sum of VmHWM (proc(5)).",
    ),
    declare(
        "anon_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        AT,
        "Anonymous memory of the server's process tree: the sum of RssAnon + VmSwap (proc(5)); "
        "mapped model pages are left out.",
    ),
    declare(
        "pss_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        AT,
        "Proportional memory of the server's process tree: the sum of Pss of "
        "`/proc/PID/smaps_rollup` (Linux 4.14); a page shared by n processes counts 1/n in each.",
    ),
    declare(
        "cgroup_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        AT,
        "Memory charged to the server's cgroup, page cache included: `memory.current`, in version "
        "1 `memory.usage_in_bytes`. Measured where that cgroup is not benchsuite's own, as in a "
        "container.",
    ),
    declare(
        "cgroup_anon_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        AT,
        "Anonymous memory charged to the server's cgroup: `anon` of `memory.stat`, in version 1 "
        "`total_rss`. Measured where `cgroup_mib` is.",
    ),
    declare(
        "anon_mib_per_request",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        ((), ("step",)),
        "How much anonymous memory of the server's process tree grows with each request: the "
        "Theil-Sen slope of RssAnon + VmSwap over finished requests, with its 95% interval; of a "
        "`load` step, or of the whole launch since its last restart. Measured from 64 requests on, "
        "those of warm-up left out.",
    ),
    declare(
        "late_anon_mib_per_request",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        ((), ("step",)),
        "`anon_mib_per_request` over the last half of the requests alone: a server that fills its "
        "caches and is then full stays near 0, one that leaks does not. Measured from 128 requests "
        "on, those of warm-up left out.",
    ),
    declare(
        "late_anon_mib_per_hour",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        STEP,
        "The same readings as `late_anon_mib_per_request`, their slope over hours.",
    ),
    declare(
        "gpu_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        (("at", "device"),),
        "GPU memory of the server's process tree on an NVIDIA device that its log names, from "
        "NVML; the device's total where NVML does not tell processes apart (containers, WSL), "
        "which the source and a warning say.",
    ),
)
