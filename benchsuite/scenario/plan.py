"""Scenario, deployment and variants expanded into a Plan: what will be started and sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from benchsuite.errors import ConfigError, UsageError
from benchsuite.model.deployment import Deployment
from benchsuite.model.limits import Limits
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.scenario import (
    OWNED_STEPS,
    CompleteStep,
    ConcurrentlyStep,
    DamageStep,
    EmbeddingStep,
    FlagValue,
    GateSpec,
    LoadStep,
    LogprobsStep,
    PromptSpec,
    Scenario,
    SessionSpec,
    Step,
    SweepStep,
    TurnStep,
    VariantSpec,
)
from benchsuite.scenario.digest import digest_of
from benchsuite.scenario.flags import FlagTable
from benchsuite.scenario.reach import Reach
from benchsuite.scenario.resolve import Resolver, attached_flags, canonical_needs
from benchsuite.scenario.words import remedy

_SEED_STEP = 1_000_003
"""How far apart the prompts of neighbouring run seeds lie; a prime, so that they rarely meet."""


_SLOT_PATH = "slot-save-path"


def parse_set(text: str) -> tuple[str, FlagValue]:
    """A flag and its value from `--set FLAG=VALUE`; `FLAG=null` removes, `FLAG` alone is true.

    Raises:
        UsageError: There is no flag before the `=`.
    """
    name, equals, value = text.partition("=")
    if not name.strip().strip("-"):
        raise UsageError(f"--set '{text}': expected FLAG=VALUE, such as cache-type-k=q8_0")
    if not equals:
        return name.strip(), "true"
    return name.strip(), None if value in ("null", "~") else value


def make_plan(
    scenario: Scenario,
    deployment: Deployment,
    table: FlagTable | None,
    *,
    variants: Sequence[str] = (),
    sets: Sequence[tuple[str, FlagValue]] = (),
    trials: int = 1,
    seed: int = 0,
    limits: Limits | None = None,
    devices: Collection[str] | None = None,
    no_rpc: str | None = None,
    names: FlagTable | None = None,
    reach: Reach | None = None,
) -> Plan:
    """What one run of a scenario will do.

    Args:
        scenario: What to do.
        deployment: Against which server.
        table: The flags of the server that will be launched; None for an attached one.
        variants: Only these, and those that their gates compare with; all if empty.
        sets: `--set` flags; several of one flag repeat it.
        trials: Launches of each variant, at least 1.
        seed: Shifts every made prompt; 0 leaves them as written.
        limits: Of the waits; the defaults if None.
        devices: Kinds of device that the server can use (`CPU`, `CUDA`); None where nobody
            asked, and then `require: {device}` is left to be seen.
        names: Knows how flags may be spelled, for an attached server, whose own help is not seen.
        no_rpc: Why no RPC server can be started; None where one can.
        reach: What the scenario's flags may name; beside it and in the working directory if None.

    Raises:
        UsageError: A file outside, or a variant, seed or number of trials that cannot be.
        FlagError: A flag that the build lacks, or that contradicts what the scenario needs.
        ConfigError: An overlay for a variant that the scenario has not.
    """
    if trials < 1:
        raise UsageError(f"--trials {trials}: expected at least 1")
    if seed < 0:
        raise UsageError(f"--seed {seed}: expected at least 0")
    if deployment.attached and sets:
        raise UsageError(
            f"--set {sets[0][0]}: the flags of a running server cannot be set",
            hint="leave out --set, or let benchsuite start the server",
        )
    overlays = overlays_of(scenario, deployment)
    chosen = _choose(scenario, variants)
    resolver = None
    if not deployment.attached and scenario.needs_server:
        if table is None:
            raise UsageError("the flags of a server that is to be started must be known")
        resolver = Resolver(scenario, deployment, table, sets, reach)
        # a flag under test in one variant is not set for all
        for name in chosen:
            resolver.refuse_sets(scenario.variants[name], overlays.get(name, {}))
    steps = tuple(_shift_step(step, seed) for step in scenario.steps)
    planned = []
    for name in chosen:
        variant = scenario.variants[name]
        sessions = overlay_sessions(scenario.sessions, variant)
        overlay = overlays.get(name)
        reason = _not_applicable(scenario, variant, deployment, table, devices, no_rpc)
        flags: dict[str, FlagValue] = {}
        notes: tuple[str, ...] = ()
        if resolver is not None and reason is None:
            flags, notes = resolver.resolve(variant, overlay or {})
        elif deployment.attached and scenario.needs_server:
            flags, notes, cannot = attached_flags(scenario, variant, names)
            reason = reason or cannot
        planned.append(
            VariantPlan(
                name=name,
                flags=flags,
                sessions={key: _shift_session(session, seed) for key, session in sessions.items()},
                steps=steps,
                digest=digest_of(
                    scenario.server, variant.flags, sessions, scenario.steps, scenario.reference
                ),
                device=None if deployment.attached else variant.require.device,
                rpc=resolver is not None and is_rpc(variant) and "rpc" not in flags,
                notes=notes,
                not_applicable=reason,
            )
        )
    return Plan(
        scenario=scenario,
        deployment=deployment,
        variants=tuple(planned),
        gates=tuple(gate for gate in scenario.gates if _concerns(gate, chosen)),
        needs=canonical_needs(scenario, table or names),
        trials=trials,
        seed=seed,
        limits=Limits() if limits is None else limits,
    )


def applies_to(gate: GateSpec, variant: str) -> bool:
    """Whether a gate judges a variant: named or not excepted, and not its own reference."""
    if gate.variants is not None and variant not in gate.variants:
        return False
    same = gate.same_as
    return same is None or same.label is not None or same.variant != variant


def is_rpc(variant: VariantSpec) -> bool:
    """Whether a variant needs the device of an RPC server."""
    device = variant.require.device
    return device is not None and device.casefold() == "rpc"


def overlay_sessions(
    sessions: dict[str, SessionSpec], variant: VariantSpec
) -> dict[str, SessionSpec]:
    """The sessions as a variant has them."""
    found = dict(sessions)
    for name, overlay in variant.sessions.items():
        session = found[name]
        found[name] = msgspec.structs.replace(
            session,
            slot=session.slot if overlay.slot is None else overlay.slot,
            request=session.request if overlay.request is None else overlay.request,
        )
    return found


def _choose(scenario: Scenario, variants: Sequence[str]) -> list[str]:
    """The variants to run, with those compared with, in the scenario's order.

    The reference of vectors comes first, since the others go along its tokens.
    """
    known = scenario.variants
    for name in variants:
        if name not in known:
            raise UsageError(
                f"no variant '{name}' in scenario '{scenario.name}'"
                f"{remedy(name, known, 'variants')}"
            )
    wanted = set(variants) or set(known)
    if scenario.reference:
        wanted.add(scenario.reference)
    pending = list(wanted)
    while pending:
        name = pending.pop()
        for gate in scenario.gates:
            same = gate.same_as
            if same is None or same.variant is None or not applies_to(gate, name):
                continue
            if same.variant not in wanted:
                wanted.add(same.variant)
                pending.append(same.variant)
    chosen = [name for name in known if name in wanted]
    return sorted(chosen, key=lambda name: name != scenario.reference)  # keeps the order otherwise


def _concerns(gate: GateSpec, chosen: list[str]) -> bool:
    return any(applies_to(gate, name) for name in chosen)


def overlays_of(scenario: Scenario, deployment: Deployment) -> dict[str, dict[str, FlagValue]]:
    """A deployment's overlays of a scenario, by variant.

    Raises:
        ConfigError: One is for a variant that the scenario has not.
    """
    found = deployment.overlays.get(scenario.name, {})
    for name in found:
        if name not in scenario.variants:
            raise ConfigError(
                f"overlay of deployment '{deployment.name}' for an unknown variant '{name}' of "
                f"scenario '{scenario.name}'{remedy(name, scenario.variants, 'variants')}",
                where=deployment.source,
            )
    return found


def _not_applicable(
    scenario: Scenario,
    variant: VariantSpec,
    deployment: Deployment,
    table: FlagTable | None,
    devices: Collection[str] | None,
    no_rpc: str | None,
) -> str | None:
    """Why a variant cannot run here, or None."""
    require = variant.require
    if deployment.attached:
        owned = {
            str(type(step).__struct_config__.tag): None
            for step in scenario.steps
            if isinstance(step, OWNED_STEPS)
        }
        if owned:
            return f"its steps ({', '.join(owned)}) are only for a server that benchsuite starts"
    if (unshared := _unshared(scenario, variant, deployment)) is not None:
        return unshared
    if require.overlay and variant.name not in deployment.overlays.get(scenario.name, {}):
        return (
            f"deployment '{deployment.name}' has no overlay for it "
            f"([deployments.{deployment.name}.overlays.{scenario.name}.{variant.name}])"
        )
    if require.flag is not None and table is not None and require.flag not in table:
        return f"{table.build} has no flag '{require.flag}'"
    if is_rpc(variant) and not deployment.attached:
        given = "rpc" in {**deployment.flags, **variant.flags}  # a server that runs already
        return None if given or no_rpc is None else f"no device of kind RPC: {no_rpc}"
    if require.device is not None and devices is not None:
        kinds = {kind.casefold() for kind in devices}
        if require.device.casefold() not in kinds:
            return f"no device of kind {require.device}; there is {', '.join(devices) or 'none'}"
    return None


def _unshared(scenario: Scenario, variant: VariantSpec, deployment: Deployment) -> str | None:
    """Why steps cannot be taken whose files the server must share with us, or None."""
    command = deployment.command
    if command is None or command.shares_files or not scenario.saves_slots:
        return None
    if _SLOT_PATH in {**deployment.flags, **variant.flags} and not any(
        isinstance(step, DamageStep) for step in scenario.steps
    ):
        return None
    return (
        f"its steps save slots, and the server of deployment '{deployment.name}' does not share "
        f"our folders (where no file is spoilt, flag {_SLOT_PATH} may name one of its own)"
    )


def _shift_prompt(prompt: PromptSpec, seed: int) -> PromptSpec:
    if prompt.tokens is None or seed == 0:
        return prompt
    return msgspec.structs.replace(prompt, seed=prompt.seed + seed * _SEED_STEP)


def _shift_session(session: SessionSpec, seed: int) -> SessionSpec:
    if session.system is None:
        return session
    return msgspec.structs.replace(session, system=_shift_prompt(session.system, seed))


def _shift_request(step: TurnStep | CompleteStep, seed: int) -> TurnStep | CompleteStep:
    if isinstance(step, TurnStep):
        return msgspec.structs.replace(step, user=_shift_prompt(step.user, seed))
    return msgspec.structs.replace(step, prompt=_shift_prompt(step.prompt, seed))


def _shift_step(step: Step, seed: int) -> Step:
    if isinstance(step, TurnStep | CompleteStep):
        return _shift_request(step, seed)
    if isinstance(step, SweepStep):
        load = _shift_step(step.load, seed)
        return msgspec.structs.replace(step, load=load)
    if isinstance(step, LoadStep):
        return msgspec.structs.replace(
            step,
            prompt=_shift_prompt(step.prompt, seed),
            seed=step.seed + seed * _SEED_STEP,
            prefix=None if step.prefix is None else _shift_prompt(step.prefix, seed),
        )
    if isinstance(step, LogprobsStep | EmbeddingStep):
        return msgspec.structs.replace(step, prompt=_shift_prompt(step.prompt, seed))
    if isinstance(step, ConcurrentlyStep):
        branches = tuple(
            tuple(_shift_request(member, seed) for member in branch) for branch in step.branches
        )
        return msgspec.structs.replace(step, branches=branches)
    return step
