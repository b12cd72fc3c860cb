"""Who answered: a server's facts from its `/props` and its log; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchsuite.collect.requirements import SECRET_FLAGS
from benchsuite.logform.facts import LogFacts
from benchsuite.model.record import ModelFacts, ServerFacts
from benchsuite.model.scenario import FlagValue
from benchsuite.server.locate import ServerBinary

_DEVICE_MASKS = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GGML_VK_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
)
"""Variables that decide which devices a server sees."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
HIDDEN = "(hidden)"


def recorded_env(declared: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """What a record may keep of a launched server's environment.

    Args:
        declared: Set by the deployment; values of variables that are named like secrets are
            hidden.
        inherited: Ours; only the masks of visible devices are taken from it.
    """
    masks = {name: inherited[name] for name in _DEVICE_MASKS if name in inherited}
    shown = {
        name: HIDDEN if _SECRET_NAME.search(name) else value for name, value in declared.items()
    }
    return masks | shown


def launched_facts(
    binary: ServerBinary,
    command: Sequence[str],
    flags: Mapping[str, FlagValue],
    env: Mapping[str, str],
    model: ModelFacts,
    props: Mapping[str, Any],
    log: LogFacts,
) -> ServerFacts:
    """The facts of a server that we started."""
    return ServerFacts(
        kind=binary.kind,
        path=binary.path,
        why=binary.why,
        build=_build(props, log),
        command=tuple(command),
        flags={name: value for name, value in flags.items() if name not in SECRET_FLAGS},
        env=dict(env),
        slots=_slots(props, log),
        n_ctx_slot=_context(props, log),
        kv_unified=log.kv_unified,
        devices=log.devices,
        cpu_features=log.cpu_features or "",
        model=model,
    )


def attached_facts(url: str, props: Mapping[str, Any], log: LogFacts | None) -> ServerFacts:
    """The facts of a server that is someone else's; what its log would tell is None without."""
    seen = log or LogFacts()
    name = props.get("model_alias") or props.get("model_path")
    return ServerFacts(
        kind="attached",
        path=url,
        why="attached",
        build=_build(props, seen),
        slots=_slots(props, seen),
        n_ctx_slot=_context(props, seen),
        kv_unified=seen.kv_unified,
        devices=seen.devices,
        cpu_features=seen.cpu_features or "",
        model=ModelFacts(path=str(props.get("model_path") or ""), name=name and str(name)),
    )


def _build(props: Mapping[str, Any], log: LogFacts) -> str | None:
    told = props.get("build_info")
    return told if isinstance(told, str) and told else log.build


def _slots(props: Mapping[str, Any], log: LogFacts) -> int | None:
    told = props.get("total_slots")
    return told if isinstance(told, int) else log.n_slots


def _context(props: Mapping[str, Any], log: LogFacts) -> int | None:
    settings = props.get("default_generation_settings")
    told = settings.get("n_ctx") if isinstance(settings, dict) else None
    return told if isinstance(told, int) else log.n_ctx_slot
