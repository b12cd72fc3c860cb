"""Kill `accept` and see that the baseline is the old or the new one, whole.

    python benchmarks/kill_accept.py                 # 500 kills at random moments
    python benchmarks/kill_accept.py --each          # one before every file operation
    python benchmarks/kill_accept.py --readers 200   # a reader all the while, no kills

A child process accepts run B over the baseline of run A: three baseline files, their texts and a
file of vectors change, texts go and come. It is ended by SIGKILL, which no handler sees. Then a
reader must find A or B, the next writer must leave exactly the files of that one and nothing else,
and a reader must find the same as before. Needs fork and SIGKILL: Linux or macOS.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchsuite.model.record import Fingerprint, Info, Measurement, RunRecord
from benchsuite.model.vectors import LogprobVectors, Position, VectorLine, pack_floats
from benchsuite.model.verdict import Verdict
from benchsuite.store.accept import accept
from benchsuite.store.baselines import SCOPES, load_baselines
from benchsuite.store.commits import finish
from benchsuite.store.locks import LOCK_FILE, locked
from benchsuite.store.trees import FolderTree
from benchsuite.store.vectors import read_stored_vectors

KEY = Fingerprint("tiny", "killed", 0, "cpu avx2", "cpu avx2, 2 cores")
CHANGING = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")
"""Audit events (docs.python.org/3/library/audit_events.html) of what may change a folder."""


def run_record(which: str) -> tuple[RunRecord, list[VectorLine]]:
    """Run `a` or `b`: every value differs, and each has a text that the other has not."""
    number = 1 + (which == "b")
    measurements = []
    for variant in ("B", "U"):
        at = {"session": "A", "turn": "1"}
        measurements += [
            Measurement("kv_mib", 8.0 * number, "MiB", variant, quantum=0.01),
            Measurement("ttft_ms", 10.0 * number, "ms", variant, labels=at),
        ]
        for turn in ("1", "2", "3", which):
            at = {"session": "A", "turn": turn}
            measurements += [
                Measurement("cached_tokens", 100 * number, "tokens", variant, labels=at),
                Measurement("text", f"{which}{turn}\n" * 200, "", variant, labels=at),
            ]
    floats = pack_floats([-1.0 * number] * 5000)
    lines = [
        VectorLine(v, 1, "reference", LogprobVectors("x", (1,), (0,), (Position(0, floats),), 9))
        for v in ("B", "U")
    ]
    record = RunRecord(
        schema_version=1,
        id=which * 8,
        started_at=f"2026-12-0{number}T10:00:00+00:00",
        wall_seconds=1.0,
        scenario="killed",
        scenario_path="killed.yaml",
        title="killed",
        digests={"B": "digest", "U": "digest"},
        fingerprint=KEY,
        info=Info(build=f"b{number}"),
        trials=1,
        measurements=tuple(measurements),
        verdict=Verdict("pass", 0, (), {}),
    )
    return record, lines


def take(which: str, folder: Path) -> None:
    """Accept a run."""
    record, lines = run_record(which)
    accept(
        record,
        folder,
        reason=f"run {which}",
        environ={},
        vectors=lines,
        drop_missing=True,
        wait_s=30,
    )


def read_files(folder: Path) -> bytes:
    """The baseline files that a run would be compared with, texts included."""
    found = load_baselines([folder], "tiny", "killed", KEY)
    files = [found.of(scope).file for scope in SCOPES]
    return msgspec.json.encode(files, order="sorted").replace(str(folder).encode(), b"FOLDER")


def read_vectors(folder: Path, variant: str) -> bytes:
    """The stored vectors that a variant would be compared with."""
    sets = read_stored_vectors([FolderTree(folder)], "tiny", KEY, variant, "digest").sets
    return msgspec.json.encode(sets)


def read(folder: Path) -> bytes:
    """Both, one after the other, which is one moment only where nobody writes."""
    return b"".join([read_files(folder), *(read_vectors(folder, v) for v in ("B", "U"))])


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for the lock that a killed holder leaves."""
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != LOCK_FILE}


class Arena:
    """The two whole states, and the judge of what a kill has left."""

    def __init__(self, place: Path) -> None:
        self.old, self.new = place / "old", place / "new"
        take("a", self.old)
        shutil.copytree(self.old, self.new)
        take("b", self.new)
        self.seen = {read(self.old): "old", read(self.new): "new"}
        self.files = {"old": files_of(self.old), "new": files_of(self.new)}
        self.place = place

    def fresh(self) -> Path:
        """A folder with the old state."""
        folder = self.place / "work"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.old, folder)
        return folder

    def judge(self, folder: Path) -> str:
        """`old` or `new`; raises where it is neither or is not left clean."""
        state = self.seen.get(read(folder))
        assert state is not None, "a reader finds a mixture"
        with locked(folder, wait_s=0):  # the killed one's lock is gone with it
            finish(folder)
        assert files_of(folder) == self.files[state], f"not exactly the files of {state}"
        assert self.seen.get(read(folder)) == state, "the next writer changed what readers find"
        return state


def child(work: Callable[[], Any]) -> int:
    """Fork a process that does this and leaves; returns its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def killed_before(operation: int, folder: Path) -> bool:
    """Accept in a child that is killed before its nth operation; False where it has fewer."""

    def work() -> None:
        left = operation

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal left
            # files are opened from Python by name and with flags; O_RDONLY changes nothing
            if event == "open" and not (isinstance(args[2], int) and args[2] & 3):
                return
            if event in CHANGING:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(hook)
        take("b", folder)

    _, status = os.waitpid(child(work), 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "accept failed by itself"
    return os.WIFSIGNALED(status)


def each(arena: Arena) -> Counter[str]:
    """Kill before every operation, one after the other."""
    found: Counter[str] = Counter()
    operation = 0
    while True:
        folder = arena.fresh()
        if not killed_before(operation, folder):
            break
        found[arena.judge(folder)] += 1
        operation += 1
    assert arena.judge(folder) == "new", "an accept that was not killed did not count"
    return found


def at_random(arena: Arena, kills: int, seed: int) -> Counter[str]:
    """Kill at moments drawn evenly over the time that an accept takes."""
    draw = random.Random(seed)
    took = []
    for _ in range(5):
        folder = arena.fresh()
        start = time.perf_counter()
        os.waitpid(child(lambda folder=folder: take("b", folder)), 0)  # type: ignore[misc]
        took.append(time.perf_counter() - start)
    span = sorted(took)[len(took) // 2]
    print(f"an accept takes {span * 1000:.0f} ms, start of its process included")
    found: Counter[str] = Counter()
    while found.total() - found["over before the kill"] < kills:
        folder = arena.fresh()
        pid = child(lambda folder=folder: take("b", folder))  # type: ignore[misc]
        time.sleep(draw.uniform(0, span))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        journal = (folder / ".accept.journal").exists()
        state = arena.judge(folder)
        if not os.WIFSIGNALED(status):
            found["over before the kill"] += 1
            continue
        found[f"{state}, in the middle of its files" if journal else state] += 1
    return found


def with_reader(arena: Arena, reads: int) -> Counter[str]:
    """Read again and again while another process accepts the two in turn; no kills."""
    folder = arena.fresh()
    whole = {read_files(arena.old): "old", read_files(arena.new): "new"}
    vectors = {read_vectors(arena.old, "B"), read_vectors(arena.new, "B")}

    def work() -> None:
        while True:
            take("b", folder)
            take("a", folder)

    pid = child(work)
    found: Counter[str] = Counter()
    try:
        for _ in range(reads):
            state = whole.get(read_files(folder))
            assert state is not None, "a reader finds a mixture"
            assert read_vectors(folder, "B") in vectors, "a reader finds other vectors"
            found[state] += 1
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return found


def main() -> None:
    """Print how many kills left which state; a mixture is an AssertionError."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--readers", type=int, default=0, metavar="READS")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        arena = Arena(Path(place))
        if chosen.each:
            found, what = each(arena), "kills, one before each operation"
        elif chosen.readers:
            found, what = with_reader(arena, chosen.readers), "reads during accepts"
        else:
            found, what = at_random(arena, chosen.kills, chosen.seed), "accepts"
    for state, count in sorted(found.items()):
        print(f"{count:5} {state}")
    print(f"{found.total():5} {what}: never a mixture")


if __name__ == "__main__":
    main()
