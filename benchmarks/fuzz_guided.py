"""Fuzzes the readers of outside data as coverage of their code guides it, by atheris.

    pip install atheris                                   # CPython 3.11 to 3.13 on Linux
    python -m benchmarks.fuzz_guided --seconds 60         # for each target
    python -m benchmarks.fuzz_guided --only sse --seconds 600

Targets, their checks and their first inputs are those of `tests/fuzz`. Each runs in a process of
its own; what it finds is kept in a folder, and goes into `tests/fuzz/corpus/TARGET/` once it is
mended. Exit code 1 where anything was found, 2 where atheris is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

_DONE = re.compile(r"Done (\d+) runs")
_COVERED = re.compile(r"cov: (\d+)")


class Tried(NamedTuple):
    """What one target came to."""

    name: str
    cases: int
    covered: int  # edges of the instrumented code, as libFuzzer counts them
    found: str | None  # the end of what it printed, where anything was found


def main() -> int:
    """Fuzz each target, print a table, and tell by the exit code whether anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", action="append", metavar="TARGET", help="repeatable")
    parser.add_argument("--out", type=Path, default=Path(".benchsuite/fuzz"))
    parser.add_argument("--fuzz", nargs=2, help=argparse.SUPPRESS)  # TARGET, FOLDER of its inputs
    given, rest = parser.parse_known_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    if given.fuzz:
        _fuzz(given.fuzz[0], Path(given.fuzz[1]), rest)
    from tests.fuzz.targets import TARGETS

    names = [one.name for one in TARGETS]
    unknown = set(given.only or ()) - set(names)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    tries = [_try(name, given.seconds, given.out) for name in given.only or names]
    print("| target | cases | edges covered | found |")
    print("|---|---:|---:|---|")
    for tried in tries:
        found = "nothing" if tried.found is None else "see above"
        print(f"| {tried.name} | {tried.cases} | {tried.covered} | {found} |")
    print(f"{sum(tried.cases for tried in tries)} cases")
    return int(any(tried.found for tried in tries))


def _try(name: str, seconds: int, out: Path) -> Tried:
    """Fuzz one target in a process of its own, for what it finds ends it."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as inputs:
        command = [
            *(sys.executable, "-m", "benchmarks.fuzz_guided", "--fuzz", name, inputs),
            *(f"-max_total_time={seconds}", f"-artifact_prefix={out.resolve()}/guided-{name}-"),
            *("-rss_limit_mb=4096", "-timeout=20", "-max_len=20000", "-print_final_stats=0"),
        ]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
        )
    told = done.stdout + done.stderr
    cases = _DONE.search(told)
    covered = _COVERED.findall(told)
    found = None
    if done.returncode != 0 or cases is None:
        found = told[-3000:]
        print(f"{name}: exit {done.returncode}\n{found}", flush=True)
    return Tried(name, int(cases[1]) if cases else 0, int(covered[-1]) if covered else 0, found)


def _fuzz(name: str, inputs: Path, options: list[str]) -> None:
    """Fuzz until the time is over or something is found; the process ends here."""
    import atheris

    with atheris.instrument_imports(include=["benchsuite"]):
        from tests.fuzz.targets import CORPUS, TARGETS
    target = next(one for one in TARGETS if one.name == name)
    for number, seed in enumerate(target.seeds()):
        (inputs / f"seed-{number}").write_bytes(seed)
    for kept in (CORPUS / name).glob("*"):
        (inputs / f"kept-{kept.name}").write_bytes(kept.read_bytes())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def check(data: bytes) -> None:
            target.check(data, folder)

        atheris.Setup([sys.argv[0], *options, str(inputs)], check)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
