"""Names for what the numbers depend on: the arithmetic that is used, and the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

MACHINE_VARIABLE = "BENCHSUITE_MACHINE"
"""Names a pool of equal machines, so that they share baselines."""


def numerics_key(devices: Sequence[str], cpu_features: str) -> str | None:
    """A name for the backends in use and the CPU's features, as the server printed them.

    Args:
        devices: Devices that hold model, KV or compute buffers: `CUDA0`, `CPU`, `RPC0[...]`.
        cpu_features: The feature part of the `system_info:` line.

    Returns:
        `cpu-1a2b3c4d`, `cpu+cuda-…`: equal where the same arithmetic is done. None where the
        server did not tell.
    """
    kinds = sorted({backend_kind(device) for device in devices})
    if not kinds or not cpu_features:
        return None
    features = "|".join(sorted(part.strip() for part in cpu_features.split("|") if part.strip()))
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{'+'.join(kinds).lower()}-{digest}"


def backend_kind(device: str) -> str:
    """The backend of a device as the log names it: `CUDA0` and `CUDA_Host` give `CUDA`."""
    match = re.match(r"[A-Za-z]+", device)
    return match[0] if match else device


def machine_name(environ: Mapping[str, str], gpus: Sequence[str] = ()) -> str:
    """The machine's name: `$BENCHSUITE_MACHINE`, else made of CPU model, cores and GPUs.

    Never the hostname: pods and cloud machines change it while nothing else changes.

    Args:
        environ: For the variable.
        gpus: Models of those that are used, one for each: `NVIDIA H200`. In any order.
    """
    named = environ.get(MACHINE_VARIABLE, "").strip()
    if named:
        return named
    counts = sorted(Counter(gpus).items())
    parts = [_cpu_model(), f"{os.cpu_count() or 1} cores"]
    return ", ".join([*parts, *(f"{number} x {model}" for model, number in counts)])


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Hardware", "cpu model"):
                return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown CPU"
