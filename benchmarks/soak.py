"""Does our own memory stay flat in a long soak, and is a leak told from a cache that fills?

    python benchmarks/soak.py [--requests 100000] [--keep DIR]

Three runs of benchsuite, each as a process of its own, against tests/servers/fast_server.py:

flat    so many requests; our own memory is read from /proc at each reading of the journal's length.
        It may grow by less than 10 MiB from request 5,000 to the last, and the HTML report of the
        run may take at most 400 MiB and 60 s.
leak    a server that keeps 64 KiB of each request for ever: the run must fail by its leak gate
cache   a server that keeps 64 MiB over its first requests and nothing more: the run must pass

Exit code 1 when a floor is missed. Linux only.
"""

# a program prints

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SERVER = ROOT / "tests" / "servers" / "fast_server.py"
FIRST = 5_000
GROWTH_MIB = 10.0
REPORT_MIB = 400.0
REPORT_SECONDS = 60.0

SCENARIO = """\
title: soak of {requests} requests
server:
  parallel: {{min: 4}}
steps:
  - load:
      as: soak
      requests: {requests}
      warm_up: {warm_up}
      concurrency: 4
      distinct: 256
      prompt: {{tokens: 16, seed: 1}}
      max_tokens: 4
  - idle: 1 s
  - snapshot: drained
gates:
  - metric: 'late_anon_mib_per_request{{step="soak"}}'
    max: 0.03125 MiB
    why: a server that still grows once its caches are full runs out of memory
  - metric: 'requests_failed{{step="soak"}}'
    equals: 0
    why: every request must be answered
"""


class Held(NamedTuple):
    """Our own memory at one moment."""

    requests: int
    anon_mib: float
    rss_mib: float


class Ran(NamedTuple):
    """One run that is over."""

    code: int
    folder: Path
    held: list[Held]
    seconds: float


def read_status(pid: int) -> tuple[float, float] | None:
    """RssAnon and VmRSS in MiB; None once the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if " kB" in line}
    if "VmRSS" not in found:
        return None
    return int(found["RssAnon"]) / 1024, int(found["VmRSS"]) / 1024


class Replies:
    """Counts the replies in a journal as it grows."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._position = 0
        self.count = 0

    def read(self) -> int:
        """Replies so far."""
        for journal in self._runs.glob("*/samples.jsonl"):
            with journal.open("rb") as stream:
                stream.seek(self._position)
                while chunk := stream.read(1 << 20):
                    chunk += stream.readline()
                    self.count += chunk.count(b'"kind":"reply"')
                self._position = stream.tell()
        return self.count


def run(desk: Path, name: str, requests: int, server: str) -> Ran:
    """One run of benchsuite, with its memory read as it goes."""
    runs = desk / f"{name}-runs"
    scenario = desk / f"{name}.yaml"
    scenario.write_text(SCENARIO.format(requests=requests, warm_up=min(1000, requests // 10)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FAST_SERVER": server, "NO_COLOR": "1"}
    began = time.monotonic()
    command = [sys.executable, "-m", "benchsuite", "run", str(scenario), "--quiet"]
    command += ["--server", str(SERVER), "--out", str(runs)]
    held: list[Held] = []
    with (
        (desk / f"{name}.out").open("w") as printed,
        subprocess.Popen(
            command, cwd=desk, env=environment, stdout=printed, stderr=subprocess.STDOUT
        ) as process,
    ):
        replies = Replies(runs)
        while process.poll() is None:
            time.sleep(0.5)
            count, status = replies.read(), read_status(process.pid)
            if status is not None and count:
                held.append(Held(count, *status))
        code = process.returncode
    return Ran(code, next(runs.glob("*-*")), held, time.monotonic() - began)


def report(folder: Path, desk: Path) -> tuple[float, float, int]:
    """Seconds and most memory in MiB that the HTML report takes, and its size in bytes."""
    page = desk / "report.html"
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "benchsuite", "report", str(folder), "--html", str(page)],
        check=True,
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    seconds = time.monotonic() - began
    most = _most_of_children()
    return seconds, most, page.stat().st_size


def _most_of_children() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def growth(held: list[Held], requests: int) -> tuple[Held, Held] | None:
    """The first look after 5,000 requests, and the one under load that holds most after it."""
    during = [one for one in held if FIRST <= one.requests < requests]
    if len(during) < 2:
        return None
    return during[0], max(during[1:], key=lambda one: one.anon_mib)


def during(held: list[Held]) -> list[Held]:
    """Ten looks, evenly over the run."""
    return held[:: max(1, len(held) // 10)]


def gates_of(folder: Path) -> dict[str, str]:
    """Outcome by gate."""
    record: dict[str, Any] = json.loads((folder / "record.json").read_bytes())
    return {gate["metric"]: gate["outcome"] for gate in record["gates"]}


def main() -> int:
    """Run everything; 1 if a floor was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--verdict-requests", type=int, default=3_000)
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    asked = parser.parse_args()
    desk = asked.keep or Path(tempfile.mkdtemp(prefix="soak-"))
    desk.mkdir(parents=True, exist_ok=True)
    try:
        missed = _flat(desk, asked.requests) + _verdicts(desk, asked.verdict_requests)
    finally:
        if asked.keep is None:
            shutil.rmtree(desk, ignore_errors=True)
    for one in missed:
        print(f"MISSED: {one}")
    return 1 if missed else 0


def _flat(desk: Path, requests: int) -> list[str]:
    missed = []
    ran = run(desk, "flat", requests, "")
    size = (ran.folder / "samples.jsonl").stat().st_size
    print(f"flat: {requests} requests in {ran.seconds:.0f} s, exit code {ran.code}")
    print(f"  journal {size / 2**20:.1f} MiB, {size / requests:.0f} bytes a request")
    if ran.code != 0:
        missed.append(f"the flat run left with {ran.code}, see {desk / 'flat.out'}")
    spread = growth(ran.held, requests)
    if spread is None:
        missed.append(f"too few looks after request {FIRST}: ask for more with --requests")
    else:
        first, most = spread
        for name in ("anon_mib", "rss_mib"):
            before, after = getattr(first, name), getattr(most, name)
            grew = after - before
            print(
                f"  our {name}: {before:.1f} at request {first.requests}, {after:.1f} at "
                f"{most.requests}: {grew:+.1f} (floor: below {GROWTH_MIB:g})"
            )
            if grew >= GROWTH_MIB:
                missed.append(f"our {name} grew by {grew:.1f} MiB")
        most = max(ran.held, key=lambda one: one.anon_mib)
        print(f"  most of all, once it was over and was being judged: {most.anon_mib:.1f} anon_mib")
        for one in during(ran.held):
            print(f"    {one.requests:>7} requests: {one.anon_mib:.2f} anon_mib, {one.rss_mib:.2f}")
    seconds, memory, page = report(ran.folder, desk)
    print(
        f"  report: {seconds:.1f} s (floor {REPORT_SECONDS:g}), at most {memory:.0f} MiB (floor "
        f"{REPORT_MIB:g}), page {page / 2**20:.2f} MiB"
    )
    if seconds > REPORT_SECONDS or memory > REPORT_MIB:
        missed.append("the report took too much")
    return missed


def _verdicts(desk: Path, requests: int) -> list[str]:
    missed = []
    gate = 'late_anon_mib_per_request{step="soak"}'
    fill = requests // 3
    for name, server, wanted in (
        ("leak", "leak_kib=64", "fail"),
        ("cache", f"cache_mib=64 cache_requests={fill}", "pass"),
    ):
        ran = run(desk, name, requests, server)
        found = gates_of(ran.folder).get(gate, "missing")
        code = {"fail": 1, "pass": 0}[wanted]
        print(f"{name} ({server}): leak gate {found}, exit code {ran.code} (wanted {wanted})")
        if found != wanted or ran.code != code:
            missed.append(f"the {name} run's leak gate is {found}, exit code {ran.code}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
