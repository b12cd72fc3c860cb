"""Kill `run` at random moments: no server may be left, and every journal must be readable.

    python benchmarks/kill_run.py                # until 200 runs that had a journal were killed
    python benchmarks/kill_run.py --kills 20 --seed 7

Each try starts `benchsuite run` of the embedded server, and every tenth of a real llama-server, of
a wrapper that does not exec, or of a server with an RPC server. It is ended by SIGKILL, which no
handler sees, at a moment that is uniform over how long such a run takes; every fourth within 50 ms
of the server's start. 2 s later no process may be left of those that were started, which are known
by a variable that all of them inherit, and `benchsuite report` must read the journal and say where
it ends. Exits 1 where anything is left or unreadable. Needs SIGKILL and /proc: Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchsuite.errors import BenchsuiteError, ConfigError  # noqa: E402
from benchsuite.report.formats import FORMATS, Entry, ReportInput  # noqa: E402
from benchsuite.store.journal import KIND_DOING, read_journal  # noqa: E402
from benchsuite.store.records import read_record  # noqa: E402
from tests.integration.desk import Desk, real_servers, wrapper  # noqa: E402

MARK = "BENCHSUITE_KILL_MARK"
LEFT_S = 2.0
"""How long after the kill the last process may live."""
GONE_S = 30.0
"""How long what was left is waited for, to tell a slow end from none."""
BURST_S = 0.05
"""How long after the server's start every fourth kill may come."""

ON_RPC = """title: on an RPC device
server: {parallel: 1, ctx-size: 2048}
sessions: {A: {system: {tokens: 600, seed: 1}}}
steps:
  - turn: {session: A, user: {tokens: 40, seed: 1}, max_tokens: 16}
  - turn: {session: A, user: {tokens: 40, seed: 2}, max_tokens: 16}
variants:
  R: {flags: {n-gpu-layers: 2}, require: {device: RPC}}
gates:
  - {metric: 'output_tokens{session="A",turn="2"}', equals: 16}
"""


class Way(NamedTuple):
    """One way to run."""

    name: str
    words: tuple[str, ...]  # after `benchsuite`


class Tried(NamedTuple):
    """What one kill came to."""

    way: str
    phase: str  # what the run was doing
    journal: bool  # whether there was one
    wrong: tuple[str, ...]  # what is left, and what cannot be read


def ways(desk: Desk) -> tuple[Way, ...]:
    """The embedded server first; the others as far as they can run here."""
    found = [Way("embedded", ("run", "scenarioB", "--variant", "B", "--server", "embedded"))]
    server = wrapper(desk.folder / "llama-server", [], kill_at_request=10_000)
    found.append(Way("wrapper", ("run", "scenarioB", "--variant", "B", "--server", str(server))))
    real = [name for name in real_servers() if name != "embedded"]
    if real:
        (desk.folder / "rpc.yaml").write_text(ON_RPC)
        found.append(Way("real", ("run", "scenarioB", "--variant", "B", "--server", real[0])))
        found.append(Way("rpc", ("run", "rpc.yaml", "--server", real[0])))
    return tuple(found)


def marked(mark: str) -> Iterator[psutil.Process]:
    """The processes that inherited this mark and live."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def take_time(desk: Desk, way: Way) -> float:
    """Seconds that such a run takes."""
    began = time.monotonic()
    done = desk.run(*way.words)
    took = time.monotonic() - began
    if done.code not in (0, 3):
        raise SystemExit(f"{way.name}: a run that nobody kills ends with {done.code}:\n{done.text}")
    return took


def kill_once(desk: Desk, way: Way, after_s: float, *, burst: bool) -> Tried:
    """Start a run, kill it, and look at what is left."""
    runs = desk.folder / ".benchsuite" / "runs"
    before = set(runs.iterdir()) if runs.is_dir() else set()
    mark = uuid.uuid4().hex
    desk.env[MARK] = mark
    process = desk.start(*way.words)
    if burst:
        while process.poll() is None and not _launched(runs, before):
            time.sleep(0.001)
    time.sleep(after_s)
    ended = process.poll() is not None
    process.kill()
    killed = time.monotonic()
    process.communicate()
    while time.monotonic() - killed < LEFT_S and any(marked(mark)):
        time.sleep(0.02)
    wrong: list[str] = []
    for one in marked(mark):
        with contextlib.suppress(psutil.Error):  # it went at last
            wrong.append(f"left: {' '.join(one.cmdline())}")
    if wrong:
        end = _how_long(mark, killed)
        wrong = [f"{words} ({way.name}, {end})" for words in wrong]
    made = (set(runs.iterdir()) if runs.is_dir() else set()) - before
    if not made:
        return Tried(way.name, "before its folder was made", False, tuple(wrong))
    (folder,) = made
    phase = "over" if ended or (folder / "record.json").exists() else _phase(folder)
    wrong += _unreadable(folder, over=(folder / "record.json").exists())
    return Tried(way.name, phase, (folder / "samples.jsonl").exists(), tuple(wrong))


def _how_long(mark: str, killed: float) -> str:
    """Whether what was left went by itself; it is killed where it did not."""
    while time.monotonic() - killed < GONE_S:
        if not any(marked(mark)):
            return f"gone {time.monotonic() - killed:.1f} s after the kill"
        time.sleep(0.02)
    for one in marked(mark):
        with contextlib.suppress(psutil.Error):
            one.kill()
    return f"still there {GONE_S:g} s after the kill"


def _launched(runs: Path, before: set[Path]) -> bool:
    new = (set(runs.iterdir()) if runs.is_dir() else set()) - before
    return any(list(one.glob("server.*.log")) for one in new)


def _phase(folder: Path) -> str:
    """What a killed run was doing, roughly, by its journal."""
    if not (folder / "samples.jsonl").exists():
        return "before its journal"
    words = [event["words"] for event in read_journal(folder / "samples.jsonl")
             if event["kind"] == KIND_DOING]  # fmt: skip
    if not words:
        return "before the first server"
    return "a turn" if words[-1].startswith("turn ") else str(words[-1]).split(" A")[0]


def _unreadable(folder: Path, *, over: bool) -> list[str]:
    """What is wrong with reading a run back; empty where all is well."""
    try:
        record = read_record(folder)
        for name, form in FORMATS.items():
            if name in ("markdown", "json", "junit"):
                form.render(ReportInput((Entry(record, folder, None),), ROOT, "kill", None))
    except ConfigError as error:
        # killed within the first event: it says so, and nothing was measured that could be lost
        return [] if "before it measured anything" in str(error) else [f"{folder}: {error}"]
    except BenchsuiteError as error:
        return [f"{folder}: {error}"]
    if not over and not any("which ends in line" in words for words in record.warnings):
        return [f"{folder}: it is not said where the journal ends"]
    if not over and (not record.interrupted or record.verdict is not None):
        return [f"{folder}: a killed run reads as one that was not"]
    return []


def main() -> None:
    """Print a table of phases, and exit 1 where anything was left or lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=200, help="of runs that have a journal")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    dice = random.Random(chosen.seed)
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    with_journal = tries = 0
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "desk").mkdir()
        desk = Desk(Path(place) / "desk", Path(place) / "home")
        known = ways(desk)
        usual = {way.name: take_time(desk, way) for way in known}
        with contextlib.suppress(KeyboardInterrupt):  # what was tried until then is told
            while with_journal < chosen.kills:
                way = known[0] if tries % 10 else known[tries // 10 % len(known)]
                burst = tries % 4 == 3
                after_s = dice.uniform(0, BURST_S if burst else usual[way.name])
                tried = kill_once(desk, way, after_s, burst=burst)
                tries += 1
                with_journal += tried.journal
                counts[tried.way, tried.phase] += 1
                wrong += tried.wrong
    for (name, phase), count in sorted(counts.items()):
        print(f"{count:5} {name:9} {phase}")
    print(f"{tries:5} kills, {with_journal} of runs with a journal, all of them read")
    print(f"{len(wrong):5} processes left or journals not read")
    for words in wrong:
        print(f"      {words}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
