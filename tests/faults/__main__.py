"""Makes every fault several times, and writes the tables of docs/reliability.md.

    python -m tests.faults [--tries N] [--only PATTERN] [-j N] [--write FILE] [--list]

Exits with 1 where any try is not as it must be.
"""

# ruff: noqa: T201  # a program prints

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.every import every_fault
from tests.faults.fault import Fault, Seen, attempt
from tests.faults.table import Row, insert, render, reported
from tests.integration.desk import Desk


def main(words: Sequence[str]) -> int:
    """Make the faults that were asked for."""
    asked = _arguments(words)
    faults = [fault for fault in every_fault() if re.search(asked.only, fault.name)]
    if asked.list:
        for fault in faults:
            print(f"{fault.name:40} {fault.happens}")
        return 0
    if not faults:
        print(f"no fault matches {asked.only!r}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        home = Path(folder) / "home"
        Desk(Path(folder), home).tiny_model()  # made once
        with ThreadPoolExecutor(asked.jobs) as pool:
            rows = list(
                pool.map(lambda fault: _row(fault, Path(folder), home, asked.tries), faults)
            )
    if asked.write is not None:
        page = asked.write.read_text(encoding="utf-8")
        asked.write.write_text(insert(page, render(rows)), encoding="utf-8")
    wrong = [row for row in rows if row.wrong]
    print(f"{len(rows)} faults, {len(wrong)} not as they must be")
    return 1 if wrong else 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--tries", type=int, default=1, help="how often each fault is made")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="faults at a time")
    parser.add_argument("--write", type=Path, help="the page whose tables are replaced")
    parser.add_argument("--list", action="store_true", help="name the faults and leave")
    return parser.parse_args(words)


def _row(fault: Fault, folder: Path, home: Path, tries: int) -> Row:
    unable = fault.unable()
    if unable is not None:
        print(f"skip  {fault.name}: {unable}", flush=True)
        return Row(fault, (), "", unable=unable)
    seen: list[Seen] = []
    wrong: list[str] = []
    said = ""
    began = time.monotonic()
    for number in range(tries):
        place = folder / f"{fault.name}-{number + 1}" / "desk"
        place.mkdir(parents=True)
        try:
            one = attempt(fault, Desk(place, home))
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            wrong.append(f"try {number + 1}: {str(error)[:300]}")
            continue
        seen.append(one)
        wrong += [f"try {number + 1}: {what}" for what in one.faults(fault)]
        said = said or reported(fault, one, place)
    seconds = (time.monotonic() - began) / tries
    print(f"{'WRONG' if wrong else 'ok   '} {fault.name} ({seconds:.1f} s): {said}", flush=True)
    for what in wrong:
        print(f"      {what}", flush=True)
    if wrong:
        for one in seen[:1]:
            print("      | " + one.done.text[-1500:], flush=True)
    return Row(fault, tuple(seen), said, tuple(wrong), None if seen else "every try was cut short")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
