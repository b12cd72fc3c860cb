"""When the guard may forget what ends a server that is no process of ours."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from benchsuite.server.behind import Behind, ServerBehind
from benchsuite.server.guard import Guard

_GONE = "echo 'Error: No such container: x' >&2; exit 1"
_DEAF = "echo 'Cannot connect to the Docker daemon' >&2; exit 1"
_RUNS = """echo '[{"State": {"Running": true, "Pid": 0}}]'"""
_ENDED = """echo '[{"State": {"Running": false, "Pid": 0}}]'"""


class _Guard:
    """Keeps what a guard is told of commands."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.add_command = self.commands.append
        self.drop_command = self.commands.remove


def _behind(folder: Path, guard: _Guard, how: Behind) -> ServerBehind:
    return ServerBehind(how, folder / "log", cast("Guard", guard))


@pytest.mark.parametrize(
    ("inspect", "remove", "left"),
    [
        (_GONE, "exit 1", ""),
        (_ENDED, "exit 1", ""),
        (_DEAF, "exit 0", ""),
        (_DEAF, "exit 1", "container x may still run: "),
        (_RUNS, "exit 1", "container x still runs"),
        (_RUNS, "exit 0", "container x still runs"),
    ],
)
def test_a_container_is_forgotten_only_once_it_is_gone(
    tmp_path: Path, inspect: str, remove: str, left: str
) -> None:
    """An engine that does not answer has told of no end; the guard tries again, and it is said."""
    engine = tmp_path / "docker"
    engine.write_text(f'#!/bin/sh\nif [ "$1" = rm ]; then {remove}; fi\n{inspect}\n')
    engine.chmod(0o755)
    kill = (str(engine), "rm", "x")
    guard = _Guard()
    how = Behind((), "x", "box", kill=kill, engine=(str(engine),), container="x")
    behind = _behind(tmp_path, guard, how)
    behind.end(0, asked=True)
    assert behind.left.startswith(left)
    assert bool(behind.left) is bool(left)
    assert guard.commands == ([kill] if left else [])


@pytest.mark.parametrize(
    ("stop", "kills", "kept"),
    [
        ("true", 1, False),  # it was asked, and ended: there is nothing to kill any more
        ("false", 1, True),
        ("true", 2, True),  # it was asked, and had to be killed, which failed
    ],
)
def test_a_server_elsewhere_is_forgotten_only_where_a_command_ended_it(
    tmp_path: Path, stop: str, kills: int, kept: bool
) -> None:
    """Behind ssh it cannot be looked for, so what its commands say of themselves is believed."""
    guard = _Guard()
    behind = _behind(tmp_path, guard, Behind((), "x", "far", stop=(stop,), kill=("false",)))
    behind.ask_to_stop(lambda limit: True, 5)
    for _ in range(kills - 1):
        behind.kill()
    behind.end(0, asked=True)
    assert guard.commands == ([("false",)] if kept else [])


def test_a_kill_that_worked_is_not_undone_by_a_second_one(tmp_path: Path) -> None:
    """The second finds nothing and fails."""
    flag = tmp_path / "server"
    flag.touch()
    guard = _Guard()
    behind = _behind(tmp_path, guard, Behind((), "x", "far", kill=("rm", str(flag))))
    behind.kill()
    behind.end(-9, asked=True)
    assert guard.commands == []
