"""Baselines on disk: their format, and which of them a run may be compared with.

`<deployment>/<scenario>/` holds `config.json`, `text.<numerics>.json` with its texts beside it,
and `machine.<machine>.<numerics>.json`. Written only by `store.accept`. Knows no tolerances: those
live in scenarios.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE, CLIENT_HEALTH
from benchsuite.metrics.metric import Scope
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Fingerprint, Info, Measurement, RunRecord, Unmeasured, Value
from benchsuite.store.decode import decode_baseline_file
from benchsuite.store.files import safe_name
from benchsuite.store.trees import FolderTree, Tree

SCOPES: tuple[Scope, ...] = ("config", "numerics", "machine")
_PREFIX: dict[Scope, str] = {"config": "config", "numerics": "text", "machine": "machine"}


class Sample(msgspec.Struct, frozen=True):
    """One value of a series, from one trial."""

    value: Value
    quantum: float = 0.0  # print quantum of a quantised value, in the metric's unit
    terms: int = 1  # printed terms summed into it
    # 95% interval of a value that is itself an estimate, in the metric's unit; None for others
    interval: tuple[float, float] | None = None


SeriesValues = dict[str, tuple[Sample, ...]]
"""Series as text (`kv_mib{device="CPU"}`) -> its values, one a trial."""


class AcceptedInfo(msgspec.Struct, frozen=True):
    """What was the case when values were accepted; never a match key. One flat object on disk."""

    seen: Info = Info()
    date: str = ""  # UTC, ISO 8601, of the run
    reason: str = ""  # as given to `accept`
    run: str = ""  # id


class Refreshed(msgspec.Struct, frozen=True):
    """Values that were accepted at another time than the rest, and what was the case then."""

    info: AcceptedInfo
    series: dict[str, tuple[str, ...]]  # variant -> series


class BaselineFile(msgspec.Struct, frozen=True):
    """One baseline file, read and checked."""

    scope: Scope
    where: str  # its place, for messages
    match: dict[str, str | int]  # deployment, scenario, seed; by scope numerics and machine
    scenario_digest: dict[str, str]  # variant -> digest
    info: AcceptedInfo  # of all values that are not among `refreshed`
    metrics: dict[str, SeriesValues]  # variant -> values
    refreshed: tuple[Refreshed, ...] = ()

    def info_for(self, variant: str, series: str) -> AcceptedInfo:
        """What was the case when this value was accepted."""
        for part in self.refreshed:
            if series in part.series.get(variant, ()):
                return part.info
        return self.info


class ScopeBaseline(msgspec.Struct, frozen=True):
    """What there is to compare one scope with."""

    scope: Scope
    # matching: `file` may be compared with; other key: there are baselines, but none whose keys
    # match; none: this deployment and scenario have none of this scope
    state: Literal["matching", "other key", "none"]
    file: BaselineFile | None = None  # the matching one
    mismatches: tuple[str, ...] = ()  # in words, for `other key`: the nearest file's
    where: str = ""  # of the nearest file, for `other key`


class Baselines(msgspec.Struct, frozen=True):
    """Everything that one run may be compared with."""

    deployment: str  # whose baselines these are
    scenario: str
    scopes: dict[Scope, ScopeBaseline]
    source: str = ""  # in words: the folders looked into

    def of(self, scope: Scope) -> ScopeBaseline:
        """What there is for one scope."""
        return self.scopes[scope]


def scenario_folder(deployment: str, scenario: str) -> str:
    """Where the baselines of a deployment and scenario lie below a baseline folder."""
    return f"{safe_name(deployment)}/{safe_name(scenario)}"


def is_baseline_path(path: str) -> bool:
    """Whether a path below a baseline folder is that of a baseline file, or of a text of one."""
    parts = path.split("/")
    if len(parts) == 3:
        return parts[2].endswith(".json")
    return len(parts) == 5 and parts[2] == "text" and parts[4].endswith(".txt")


def file_name(scope: Scope, fingerprint: Fingerprint) -> str | None:
    """The file that holds a scope's baseline; None where the fingerprint lacks the scope's key."""
    if scope == "config":
        return "config.json"
    keys = [fingerprint.numerics]
    if scope == "machine":
        keys.insert(0, fingerprint.machine)
    return _name_of(scope, keys)


def former_name(scope: Scope, fingerprint: Fingerprint) -> str | None:
    """The name under which earlier versions kept a scope's baseline, of any numerics; else None."""
    return _name_of(scope, [fingerprint.machine]) if scope == "machine" else None


def lasting_name(file: BaselineFile, name: str) -> str:
    """The name that a file has by its keys, whatever it was called; `name` where they lack."""
    if file.scope == "config":
        return name
    found = {key: file.match.get(key) for key in ("numerics", "machine")}
    keys = [found["machine"], found["numerics"]] if file.scope == "machine" else [found["numerics"]]
    return _name_of(file.scope, [None if key is None else str(key) for key in keys]) or name


def _name_of(scope: Scope, keys: Sequence[str | None]) -> str | None:
    known = [safe_name(key, fold_case=True) for key in keys if key is not None]
    return ".".join([_PREFIX[scope], *known, "json"]) if len(known) == len(keys) else None


def match_keys(
    scope: Scope, deployment: str, scenario: str, fingerprint: Fingerprint
) -> dict[str, str | int | None]:
    """What must be equal for a comparison of this scope; None is an unknown key."""
    keys: dict[str, str | int | None] = {
        "deployment": deployment,
        "scenario": scenario,
        "seed": fingerprint.seed,
    }
    if scope != "config":
        keys["numerics"] = fingerprint.numerics
    if scope == "machine":
        keys["machine"] = fingerprint.machine
    return keys


def scope_of(name: str, label_names: tuple[str, ...]) -> Scope | None:
    """The scope of a series; None for a metric that this version does not know."""
    metric = CATALOGUE.get(name)
    return None if metric is None else metric.scope_of(tuple(sorted(label_names)))


def series_of(measurement: Measurement | Unmeasured) -> str:
    """A measurement's series as text."""
    return format_series(measurement.name, measurement.labels)


def unit_of(series: str) -> str:
    """The unit of a series' or selector's metric; empty for a metric that is not known."""
    metric = CATALOGUE.get(series.split("{", 1)[0].strip())
    return "" if metric is None else metric.unit


def samples_by_variant(
    measurements: Sequence[Measurement], scope: Scope | None = None
) -> dict[str, SeriesValues]:
    """Measurements as baselines hold them: variant -> series -> one sample a trial.

    Args:
        measurements: Of one run; in any order.
        scope: Only what a baseline of this scope holds; None is all known metrics.
    """
    ordered = sorted(measurements, key=lambda m: m.trial)
    found: dict[str, dict[str, list[Sample]]] = {}
    for m in ordered:
        own = scope_of(m.name, tuple(m.labels))
        if own is None or (scope is not None and own != scope):
            continue
        if scope is not None and m.name in CLIENT_HEALTH:
            continue  # tells of ourselves, not of the server
        sample = Sample(m.value, m.quantum, m.terms, m.interval)
        found.setdefault(m.variant, {}).setdefault(series_of(m), []).append(sample)
    return {v: {s: tuple(values) for s, values in rows.items()} for v, rows in found.items()}


def load_baselines(
    folders: Sequence[Path | Tree], deployment: str, scenario: str, fingerprint: Fingerprint
) -> Baselines:
    """The baselines that a run may be compared with.

    For each scope, the first folder that has the file wins; where none has it, any file of the
    scope under another key, in any folder, counts as `other key`.

    Args:
        folders: Baseline folders or trees, the user's own first.
        deployment: Whose baselines; usually the run's own deployment.
        scenario: The scenario's name.
        fingerprint: Of the run.

    Raises:
        ConfigError: A file cannot be read or is not well formed; at file:line.
    """
    below = scenario_folder(deployment, scenario)
    trees: list[Tree] = [
        (FolderTree(f) if isinstance(f, Path) else f).snapshot(is_baseline_path, below)
        for f in folders
    ]
    scopes = {s: _load_scope(trees, s, deployment, scenario, fingerprint) for s in SCOPES}
    source = ", ".join(tree.name for tree in trees)
    return Baselines(deployment, scenario, scopes, source)


def baselines_of_record(record: RunRecord, fingerprint: Fingerprint) -> Baselines:
    """Another run's measurements as the baselines of a run with this fingerprint.

    What launches measured that failed means nothing, and is no one's reference.
    """
    deployment = record.fingerprint.deployment
    failed = {(one.variant, one.trial) for one in record.launches if one.failure is not None}
    measured = [m for m in record.measurements if (m.variant, m.trial) not in failed]
    scopes: dict[Scope, ScopeBaseline] = {}
    for scope in SCOPES:
        metrics = samples_by_variant(measured, scope)
        theirs = match_keys(scope, deployment, record.scenario, record.fingerprint)
        file = BaselineFile(
            scope=scope,
            where=f"run {record.id}",
            match={k: v for k, v in theirs.items() if v is not None},
            scenario_digest=record.digests,
            info=accepted_info(record, ""),
            metrics=metrics,
        )
        wanted = match_keys(scope, deployment, fingerprint.scenario, fingerprint)
        scopes[scope] = _judge_keys(file, wanted) if metrics else ScopeBaseline(scope, "none")
    return Baselines(deployment, record.scenario, scopes, f"run {record.id}")


def accepted_info(record: RunRecord, reason: str) -> AcceptedInfo:
    """A record's info as a baseline keeps it: nothing that names a place on one machine."""
    seen = msgspec.structs.replace(
        record.info,
        server=server_name(record.info.server),
        flags={v: lasting_flags(f) for v, f in record.info.flags.items()},
    )
    return AcceptedInfo(seen, date=record.started_at, reason=reason, run=record.id)


PASSING_FLAGS = frozenset(
    {
        "api-key",
        "api-key-file",
        "host",
        "log-file",
        "model",
        "port",
        "slot-save-path",
    }
)
"""Flags that differ from run to run or place to place without meaning anything."""


def lasting_flags(flags: dict[str, str]) -> dict[str, str]:
    """The flags that are worth comparing between runs."""
    return {k: v for k, v in flags.items() if k not in PASSING_FLAGS}


def server_name(server: str) -> str:
    """A server's name without its folder: `llama-server`; URLs and words stay as they are."""
    return server if "://" in server else server.replace("\\", "/").rsplit("/", 1)[-1]


def read_baseline_file(tree: Tree, folder: str, name: str) -> BaselineFile | None:
    """One baseline file with the texts that belong to it; None where there is no such file.

    Raises:
        ConfigError: It is not well formed; at file:line.
    """
    path = f"{folder}/{name}"
    raw = tree.read(path)
    if raw is None:
        return None
    matching: list[Scope] = [s for s in SCOPES if name.startswith(f"{_PREFIX[s]}.")]
    scope: Scope = matching[0] if matching else "config"
    decoded = decode_baseline_file(
        raw,
        where=tree.where(path),
        read_text=lambda relative: tree.read(f"{folder}/{relative}"),
    )
    return BaselineFile(
        scope=scope,
        where=tree.where(path),
        match=decoded.match,
        scenario_digest=decoded.scenario_digest,
        info=_flat_info(decoded.info),
        metrics={
            variant: {s: tuple(Sample(*v) for v in values) for s, values in rows.items()}
            for variant, rows in decoded.metrics.items()
        },
        refreshed=tuple(
            Refreshed(_flat_info(part["info"]), {v: tuple(s) for v, s in part["series"].items()})
            for part in decoded.refreshed
        ),
    )


def _flat_info(flat: dict[str, Any]) -> AcceptedInfo:
    """An info object as it lies on disk; keys that this version does not know are passed over."""
    seen = msgspec.convert({k: v for k, v in flat.items() if v is not None}, Info)
    return AcceptedInfo(seen, *(flat.get(key) or "" for key in ("date", "reason", "run")))


def _load_scope(
    trees: Sequence[Tree],
    scope: Scope,
    deployment: str,
    scenario: str,
    fingerprint: Fingerprint,
) -> ScopeBaseline:
    folder = scenario_folder(deployment, scenario)
    wanted = match_keys(scope, deployment, scenario, fingerprint)
    name, former = file_name(scope, fingerprint), former_name(scope, fingerprint)
    if name is not None:
        for tree in trees:
            file = read_baseline_file(tree, folder, name)
            if file is not None:
                return _judge_keys(file, wanted)
            file = None if former is None else read_baseline_file(tree, folder, former)
            if file is not None and _judge_keys(file, wanted).state == "matching":
                return ScopeBaseline(scope, "matching", file)
    nearest: ScopeBaseline | None = None
    for tree in trees:
        for other in tree.names(folder):
            if not (other.startswith(f"{_PREFIX[scope]}.") and other.endswith(".json")):
                continue
            file = read_baseline_file(tree, folder, other)
            if file is None:
                continue
            found = _judge_keys(file, wanted)
            if found.state == "matching":
                return found  # the same key under a name that someone gave it
            if nearest is None or len(found.mismatches) < len(nearest.mismatches):
                nearest = found
    return nearest or ScopeBaseline(scope, "none")


def _judge_keys(file: BaselineFile, wanted: dict[str, str | int | None]) -> ScopeBaseline:
    mismatches = [
        _mismatch(key, file.match.get(key), value)
        for key, value in wanted.items()
        if value is None or file.match.get(key) != value
    ]
    if mismatches:
        return ScopeBaseline(file.scope, "other key", None, tuple(mismatches), file.where)
    return ScopeBaseline(file.scope, "matching", file)


def _mismatch(key: str, theirs: str | int | None, ours: str | int | None) -> str:
    """One key that differs, in words; of two long lists only the parts that differ."""
    if isinstance(theirs, str) and isinstance(ours, str) and len(theirs) + len(ours) > 60:
        their_parts, our_parts = _LIST.split(theirs), _LIST.split(ours)
        theirs = ", ".join(p for p in their_parts if p not in our_parts) or "nothing more"
        ours = ", ".join(p for p in our_parts if p not in their_parts) or "nothing more"
    return f"{key}: {_key_words(theirs)} in the baseline, {_key_words(ours)} here"


_LIST = re.compile(r"\s*[|,;+]\s*")


def _key_words(value: str | int | None) -> str:
    return "unknown" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
