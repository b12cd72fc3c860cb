"""Who answered: a server's facts from its `/props` and its log; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from benchsuite.client.props import SOURCE as PROPS
from benchsuite.client.props import Props
from benchsuite.collect.log_memory import SOURCE as LOG
from benchsuite.collect.requirements import SECRET_FLAGS
from benchsuite.logform.facts import LogFacts
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, ModelFacts, ServerFacts
from benchsuite.model.scenario import FlagValue
from benchsuite.redact import HIDDEN, is_secret_name, redact
from benchsuite.server.locate import ServerBinary

_DEVICE_MASKS = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GGML_VK_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
)
"""Variables that decide which devices a server sees."""


def recorded_env(declared: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """What a record may keep of a launched server's environment.

    Args:
        declared: Set by the deployment; values of variables that are named like secrets are
            hidden.
        inherited: Ours; only the masks of visible devices are taken from it.
    """
    masks = {name: inherited[name] for name in _DEVICE_MASKS if name in inherited}
    shown = {
        name: HIDDEN if is_secret_name(name) else redact(value) for name, value in declared.items()
    }
    return masks | shown


def launched_facts(
    binary: ServerBinary,
    command: Sequence[str],
    flags: Mapping[str, FlagValue],
    env: Mapping[str, str],
    model: ModelFacts,
    props: Props,
    log: LogFacts,
    image: str = "",
) -> ServerFacts:
    """The facts of a server that we started; `image` is its container's."""
    told = _Told()
    return ServerFacts(
        kind=binary.kind,
        path=binary.path,
        why=binary.why,
        build=told.first("build", props.build, log.build),
        command=tuple(command),
        flags={name: value for name, value in flags.items() if name not in SECRET_FLAGS},
        env=dict(env),
        slots=told.first("slots", props.total_slots, log.n_slots),
        n_ctx_slot=told.first("n_ctx_slot", props.n_ctx_slot, log.n_ctx_slot),
        kv_unified=told.first("kv_unified", None, log.kv_unified),
        devices=log.devices,
        kv_types=log.kv_types,
        context_flags=log.context_flags,
        cpu_features=log.cpu_features or "",
        model=model,
        sources=told.sources,
        image=image,
        device_models=_models(log),
    )


def attached_facts(url: str, props: Props, log: LogFacts | None) -> ServerFacts:
    """The facts of a server that is someone else's; what its log would tell is None without."""
    seen = log or LogFacts()
    told = _Told()
    return ServerFacts(
        kind="attached",
        path=url,
        why="attached",
        build=told.first("build", props.build, seen.build),
        slots=told.first("slots", props.total_slots, seen.n_slots),
        n_ctx_slot=told.first("n_ctx_slot", props.n_ctx_slot, seen.n_ctx_slot),
        kv_unified=told.first("kv_unified", None, seen.kv_unified),
        devices=seen.devices,
        kv_types=seen.kv_types,
        context_flags=seen.context_flags,
        cpu_features=seen.cpu_features or "",
        model=ModelFacts(path=props.model_path or "", name=props.model),
        sources=told.sources,
        device_models=_models(seen),
    )


def _models(log: LogFacts) -> dict[str, str]:
    told = log.load.device_models
    return {device: told[device] for device in log.devices if device in told}


def context_measurement(facts: ServerFacts, variant: str, trial: int) -> Measurement | None:
    """The context of one slot; None where nothing told it."""
    if facts.n_ctx_slot is None:
        return None
    return Measurement(
        "n_ctx_slot",
        facts.n_ctx_slot,
        CATALOGUE["n_ctx_slot"].unit,
        variant,
        trial,
        source=facts.sources.get("n_ctx_slot", ""),
    )


_Fact = TypeVar("_Fact", str, int, bool)


class _Told:
    """Takes each fact from the properties, else from the log, and remembers which.

    Attributes:
        sources: Fact -> where it was read.
    """

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}

    def first(self, name: str, in_props: _Fact | None, in_log: _Fact | None) -> _Fact | None:
        """The fact, from the first that tells it."""
        for value, source in ((in_props, PROPS), (in_log, LOG)):
            if value is not None:
                self.sources[name] = source
                return value
        return None
