"""Files of vectors: those of a run, and reference vectors beside the baselines.

A run's folder has `vectors.jsonl`: a line `{"schema_version"}`, then one `VectorLine` a line.
Beside the baselines lies `vectors/<numerics>/<variant>.jsonl`: one line with match keys, digest
and what was the case, then the variant's lines of the first trial. Numbers are base64 of 32-bit
little-endian floats. Knows nothing of how vectors are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from benchsuite.errors import ConfigError, MachineError
from benchsuite.model.record import Fingerprint, RunRecord
from benchsuite.model.vectors import VECTORS_SCHEMA, VectorLine, VectorSet
from benchsuite.redact import redact_json
from benchsuite.store.baselines import accepted_info, match_keys, scenario_folder
from benchsuite.store.files import safe_name
from benchsuite.store.floats import decode_json
from benchsuite.store.migrations import STORED_VECTORS, VECTORS, check_version
from benchsuite.store.records import read_beside
from benchsuite.store.trees import Tree

VECTORS_FILE = "vectors.jsonl"
_FOLDER = "vectors"
_LASTING = ("reference", "own")
"""Which role is stored, the first that there is: a reference is taken one request at a time."""


class StoredVectors(msgspec.Struct, frozen=True):
    """Reference vectors of one variant, or why there are none to compare with."""

    # matching: `sets` may be compared with; other key: there are vectors, but under other keys or
    # of another state of the scenario; none: this deployment and scenario have none
    state: Literal["matching", "other key", "none"]
    sets: Mapping[str, VectorSet] = {}  # by id of the step
    reason: str = ""  # in words, unless matching
    source: str = ""  # file or run, where matching


class _First(msgspec.Struct, frozen=True):
    """First line of a run's file."""

    schema_version: Any = None


class _Version(msgspec.Struct, frozen=True):
    """What tells whether the rest can be read."""

    schema: Any = None


class _Head(msgspec.Struct, frozen=True):
    """First line of a stored file."""

    schema: int
    match: dict[str, str | int]
    scenario_digest: str
    info: dict[str, Any] = {}


class VectorJournal:
    """A run's `vectors.jsonl`; made with the first line, so that most runs have none."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / VECTORS_FILE
        self._stream: IO[bytes] | None = None

    def write(self, line: VectorLine) -> None:
        """Append one line, handed to the OS at once.

        Raises:
            MachineError: The disk refuses; lost vectors fail the run.
        """
        try:
            if self._stream is None:
                self._stream = self._path.open("ab", buffering=0)
                self._stream.write(b'{"schema_version":%d}\n' % VECTORS_SCHEMA)
            self._stream.write(redact_json(msgspec.json.encode(line)) + b"\n")
        except OSError as error:
            raise MachineError(
                f"cannot write it: {error.strerror or error}", where=str(self._path)
            ) from error

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._stream is not None:
            self._stream.close()


def read_run_vectors(run: Path) -> list[VectorLine]:
    """The vectors of a run, in its folder or archive; none for a run without.

    Raises:
        ConfigError: The file is not well formed; at file:line.
    """
    found = read_beside(run, VECTORS_FILE)
    if found is None:
        return []
    raw, where = found
    lines = raw.splitlines()
    if len(lines) > 1:  # else the run was killed before it wrote any
        try:
            version = decode_json(lines[0], _First).schema_version
        except msgspec.DecodeError as error:
            raise ConfigError(f"is no file of vectors: {error}", where=f"{where}:1") from error
        check_version(VECTORS, version, where=f"{where}:1")
    return _decode_lines(lines[1:], where, 2)


def lasting_sets(lines: Sequence[VectorLine], variant: str) -> dict[str, VectorLine]:
    """Of each step the line that is stored for later builds: of the first trial."""
    found: dict[str, VectorLine] = {}
    for role in _LASTING:
        for line in lines:
            if line.variant == variant and line.role == role and line.trial == 1:
                found.setdefault(line.set.request, line)
    return found


def run_vectors(
    lines: Sequence[VectorLine], record: RunRecord, variant: str, digest: str
) -> StoredVectors:
    """Another run's vectors as stored ones."""
    where = f"run {record.id}"
    sets = {name: line.set for name, line in lasting_sets(lines, variant).items()}
    if not sets:
        return StoredVectors("none", reason=f"{where} has no vectors of variant {variant}")
    if record.digests.get(variant) != digest:
        return StoredVectors("other key", reason=f"{where} is of another state of the scenario")
    return StoredVectors("matching", sets, source=where)


def stored_vectors(record: RunRecord, lines: Sequence[VectorLine], reason: str) -> dict[str, bytes]:
    """A run's vectors as they are stored beside the baselines of its numerics.

    Returns:
        Path below the baseline folder -> the file's bytes; nothing where the run does not know
        its numerics.
    """
    numerics = record.fingerprint.numerics
    if numerics is None:
        return {}
    deployment = record.fingerprint.deployment
    keys = match_keys("numerics", deployment, record.scenario, record.fingerprint)
    info = accepted_info(record, reason)
    files: dict[str, bytes] = {}
    for variant, digest in record.digests.items():
        kept = lasting_sets(lines, variant)
        if not kept:
            continue
        head = {
            "schema": VECTORS_SCHEMA,
            "match": keys,
            "scenario_digest": digest,
            "info": {
                "build": info.seen.build,
                "model": info.seen.model,
                "flags": info.seen.flags.get(variant, {}),
                "date": info.date,
                "reason": reason,
                "run": info.run,
            },
        }
        rows = [msgspec.json.encode(head, order="sorted"), *map(msgspec.json.encode, kept.values())]
        path = _path(deployment, record.scenario, numerics, variant)
        files[path] = b"\n".join(rows) + b"\n"
    return files


def read_stored_vectors(
    trees: Sequence[Tree], deployment: str, fingerprint: Fingerprint, variant: str, digest: str
) -> StoredVectors:
    """The stored vectors that a variant may be compared with.

    Args:
        trees: Baseline folders, the user's own first.
        deployment: Whose vectors; usually the run's own deployment.
        fingerprint: Of the run.
        variant: Its name.
        digest: Its digest now.

    Raises:
        ConfigError: A file is not well formed; at file:line.
    """
    scenario, numerics = fingerprint.scenario, fingerprint.numerics
    folder = f"{scenario_folder(deployment, scenario)}/{_FOLDER}/"
    if numerics is not None:
        path = _path(deployment, scenario, numerics, variant)
        wanted = match_keys("numerics", deployment, scenario, fingerprint)
        for tree in trees:
            raw = tree.read(path)
            if raw is not None:
                return _read_stored(raw, tree.where(path), wanted, digest)
    others = [p for tree in trees if tree.exists() for p in tree.paths() if p.startswith(folder)]
    if not others:
        reason = f"no vectors were stored for {deployment}/{scenario}"
        return StoredVectors("none", reason=reason)
    words = "unknown here" if numerics is None else f"'{numerics}' here"
    reason = f"vectors of variant {variant} were stored under other numerics only; {words}"
    return StoredVectors("other key", reason=reason)


def _read_stored(
    raw: bytes, where: str, wanted: Mapping[str, str | int | None], digest: str
) -> StoredVectors:
    lines = raw.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith((b"<<<<<<<", b">>>>>>>")):
            raise ConfigError(
                "holds the markers of a merge conflict",
                where=f"{where}:{number}",
                hint="take one side whole: git checkout --ours or --theirs FILE; then accept the "
                "other side's run again",
            )
    try:
        first = lines[0] if lines else b""
        version = decode_json(first, _Version).schema
        check_version(STORED_VECTORS, version, where=f"{where}:1")
        head = decode_json(first, _Head)
    except msgspec.DecodeError as error:
        raise ConfigError(f"is no file of vectors: {error}", where=f"{where}:1") from error
    for key, value in wanted.items():
        if head.match.get(key) != value:
            reason = f"{key}: {head.match.get(key)!r} in the stored vectors, {value!r} here"
            return StoredVectors("other key", reason=reason)
    if head.scenario_digest != digest:
        reason = "what the scenario does was changed since the vectors were stored"
        return StoredVectors("other key", reason=reason)
    sets = {line.set.request: line.set for line in _decode_lines(lines[1:], where, 2)}
    return StoredVectors("matching", sets, source=where)


def _decode_lines(rows: Sequence[bytes], where: str, first: int) -> list[VectorLine]:
    lines = []
    for number, row in enumerate(rows, first):
        try:
            lines.append(decode_json(row, VectorLine))
        except msgspec.DecodeError as error:
            if number == first + len(rows) - 1 and number > first and not row.endswith(b"}"):
                break  # the run was killed while it wrote this line
            raise ConfigError(
                f"is no line of vectors: {error}", where=f"{where}:{number}"
            ) from error
    return lines


def _path(deployment: str, scenario: str, numerics: str, variant: str) -> str:
    key = safe_name(numerics, fold_case=True)
    place = scenario_folder(deployment, scenario)
    return f"{place}/{_FOLDER}/{key}/{safe_name(variant, fold_case=True)}.jsonl"
