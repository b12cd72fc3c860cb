"""A run against `tests/servers/faulty.py`, small but whole: a turn, a completion, a turn."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable

from tests.faults.fault import Fault
from tests.integration.desk import REPOSITORY, Desk, Done

SCENARIO = """\
title: Two turns and a completion
variants:
  V: {flags: {threads: 1}}
sessions:
  A: {system: {tokens: 100, seed: 1}}
steps:
  - turn: {session: A, user: {tokens: 20, seed: 11}, max_tokens: 8}
  - complete: {id: R, prompt: {tokens: 40, seed: 3}, max_tokens: 8}
  - turn: {session: A, user: {tokens: 20, seed: 12}, max_tokens: 8}
gates:
  - {metric: 'cached_tokens{session="A",turn="2"}', min: 100}
  - {metric: 'output_tokens{request="R"}', equals: 8}
"""


def struck(strike: str, *options: str, scenario: str = SCENARIO) -> Callable[[Desk], Done]:
    """Makes a fault: a run of a small scenario whose server is struck.

    Args:
        strike: Its name in `tests/servers/strikes`.
        options: Of `benchsuite run`.
        scenario: Its text.
    """

    def make(desk: Desk) -> Done:
        server = desk.folder / "llama-server"
        program = REPOSITORY / "tests" / "servers" / "faulty.py"
        server.write_text(
            f"#!{sys.executable}\n"
            "import os, sys\n"
            f"os.execv({sys.executable!r}, "
            f"[{sys.executable!r}, {str(program)!r}, {strike!r}, *sys.argv[1:]])\n"
        )
        server.chmod(server.stat().st_mode | stat.S_IXUSR)
        (desk.folder / "small.yaml").write_text(scenario)
        return desk.run("run", "small.yaml", "--server", "./llama-server", *options)

    return make


MEASURED = ("record", "journal", "reply", "log")
"""What is kept of a run whose first turn was answered."""

BEGUN = ("record", "journal")
"""What is kept of a run whose server never answered."""


def fault(
    group: str,
    strike: str,
    happens: str,
    says: str | tuple[str, ...],
    *options: str,
    code: int = 4,
    keeps: tuple[str, ...] = MEASURED,
    scenario: str = SCENARIO,
    slow: bool = False,
) -> Fault:
    """A fault of that name, made by the strike of that name."""
    sentences = (says,) if isinstance(says, str) else says
    make = struck(strike, *options, scenario=scenario)
    return Fault(strike, group, happens, make, (code,), sentences, keeps, slow=slow)
