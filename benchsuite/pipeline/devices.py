"""Which devices a run uses, as far as it can be told before, and whether it needs them alone; pure.

GPUs are known by name where a mask says so; whatever else a server may use is locked as the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import parse_selector
from benchsuite.model.plan import Plan
from benchsuite.model.scenario import GateSpec

_MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
_CONTAINER_MASK = "NVIDIA_VISIBLE_DEVICES"
_ENTRY = re.compile(r"\d+|(?:GPU|MIG)-[\w/-]+")


def is_noisy(gates: Sequence[GateSpec]) -> bool:
    """Whether a gate is of what others on the machine disturb.

    That is any of a latency, and of memory what is compared with a baseline.
    """
    for gate in gates:
        metric = CATALOGUE.get(parse_selector(gate.metric).name)
        if metric is None:
            continue
        if metric.assume == "latency" or (
            metric.assume == "memory" and gate.regression is not None
        ):
            return True
    return False


def devices_of(plan: Plan, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the GPUs that a launched server is confined to: `gpu-0`, `gpu-GPU-1a2b`.

    Empty where there is no mask, or one that is not understood: then they are not known.
    Names are those of the mask, so runs on one machine should name GPUs in one way.
    """
    command = plan.deployment.command
    if command is not None and command.container is not None:
        mask = next(_masks_of_engine(command.argv), None)
    else:
        env = {**environ, **plan.deployment.env}
        mask = next((env[name] for name in _MASKS if env.get(name)), None)
    entries = [] if mask is None else [entry.strip() for entry in mask.split(",")]
    if not entries or not all(_ENTRY.fullmatch(entry) for entry in entries):
        return ()
    return tuple(f"gpu-{entry}" for entry in entries)


def _masks_of_engine(argv: Sequence[str]) -> Iterator[str]:
    """What `--gpus '"device=0,1"'`, `--device nvidia.com/gpu=0` or an `-e` gives a container."""
    devices = []
    for i, word in enumerate(argv):
        option, equals, value = word.partition("=")
        value = value if equals else argv[i + 1] if i + 1 < len(argv) else ""
        if option == "--gpus" and (found := re.fullmatch(r'"?device=([^"]+)"?', value)):
            yield found[1]
        elif option in ("-e", "--env") and value.startswith(f"{_CONTAINER_MASK}="):
            yield value.partition("=")[2]
        elif option == "--device" and value.startswith("nvidia.com/gpu="):
            devices.append(value.partition("=")[2])
    if devices:
        yield ",".join(devices)


def locks_of(plan: Plan, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The devices to lock for a run; None where it uses none of this machine."""
    command = plan.deployment.command
    elsewhere = command is not None and command.elsewhere
    if plan.deployment.attached or elsewhere or not plan.scenario.needs_server:
        return None
    return devices_of(plan, environ)


def locks_of_sides(plans: Sequence[Plan], environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The devices to lock alone for servers that are compared; None where all are elsewhere.

    Empty, which is the whole host, where those of one of them are not known.
    """
    found = [names for plan in plans if (names := locks_of(plan, environ)) is not None]
    if not found:
        return None
    return tuple(sorted({name for names in found for name in names})) if all(found) else ()
