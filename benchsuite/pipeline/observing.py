"""What a deployment declares observable of an attached server: its log, its process, its container.

What was declared and is not there is an error before anything is sent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.snapshots import Blind
from benchsuite.errors import ConfigError
from benchsuite.model.deployment import Deployment
from benchsuite.server.ending import last_words
from benchsuite.server.engine import NoContainer, inspect_container, pid_here
from benchsuite.server.guard import Guard
from benchsuite.server.log_command import LogCommand
from benchsuite.server.processes import tree_ids

_QUIET_S = 0.3
"""A log command that printed nothing for so long has told what there is."""

_BEGIN_S = 10.0  # at most, for the history of the log
_END_S = 2.0  # at most, for the lines of the last request
_PAUSE_S = 0.05


class Observed:
    """The log and the process of one attached server, as far as they are declared.

    Args:
        deployment: Declares them.
        log_path: Where a log command's output is kept.
        guard: Ends a log command if we die; needed where one is declared.

    Attributes:
        log: Follows the log; None where none is declared.
        blind: Why the process cannot be seen; None where it can, or none is declared.
    """

    def __init__(self, deployment: Deployment, log_path: Path, guard: Guard | None) -> None:
        self._deployment = deployment
        self._guard = guard
        self._command: LogCommand | None = None
        self._log_path = log_path
        self._root: int | None = None
        self.log: LogFollower | None = None
        self.blind: Blind | None = None

    async def open(self) -> None:
        """Begin to follow the log, and find the process.

        Raises:
            ConfigError: Something declared is not there.
        """
        self._find_process()
        observe = self._deployment.observe
        if observe.log_command:
            await self._start_command(observe.log_command)
        elif observe.log is not None:
            path = Path(observe.log)
            if not path.is_file():
                raise self._absent(f"the log that {self._words} declares is not there: {path}")
            self.log = LogFollower(path, self._deployment.model_name or "")
            self.log.poll()

    @property
    def sees_process(self) -> bool:
        """Whether a process of this machine is known to be the server."""
        observe = self._deployment.observe
        return self.blind is None and (observe.pid is not None or observe.container is not None)

    def pid(self) -> int | None:
        """The server's process now: a container that was started again has another."""
        observe = self._deployment.observe
        if observe.container is None:
            return observe.pid
        told = inspect_container(observe.engine, observe.container)
        return None if isinstance(told, NoContainer) else pid_here(told)

    def pids(self) -> Sequence[int]:
        """The server's process and its descendants; empty once it has ended."""
        return () if self._root is None else tree_ids(self._root)

    async def settle(self) -> None:
        """Let the last lines of a log command come through."""
        if self._command is not None:
            await self._wait_until_quiet(_END_S)

    def close(self) -> None:
        """Read the rest of the log and end its command."""
        command, self._command = self._command, None
        if command is not None:
            command.end(0)
        if self.log is not None:
            self.log.close()

    @property
    def _words(self) -> str:
        return f"deployment '{self._deployment.name}'"

    def _absent(self, sentence: str, hint: str | None = None) -> ConfigError:
        return ConfigError(sentence, where=self._deployment.source, hint=hint)

    def _find_process(self) -> None:
        observe = self._deployment.observe
        self._root = observe.pid
        if observe.container is not None:
            self._find_container(observe.engine, observe.container)
        elif observe.pid is not None:
            try:
                os.kill(observe.pid, 0)
            except ProcessLookupError as error:
                raise self._absent(
                    f"the process that {self._words} declares is not there: {observe.pid}"
                ) from error
            except PermissionError:
                pass  # someone else's: its memory can be read all the same

    def _find_container(self, engine: Sequence[str], name: str) -> None:
        told = inspect_container(engine, name)
        if isinstance(told, NoContainer):
            raise self._absent(
                f"the container that {self._words} declares cannot be seen: {told.reason}",
                hint="'container' is its name or id, 'engine' the words that call its engine",
            )
        if not told.running:
            raise self._absent(f"the container that {self._words} declares does not run: {name}")
        self._root = pid_here(told)
        if self._root is None:
            self.blind = Blind(
                f"container {name} has its processes on another host than this one, or outside its "
                "process namespace"
            )

    async def _start_command(self, argv: Sequence[str]) -> None:
        if self._guard is None:
            raise AssertionError("a log command without a guard")
        try:
            self._command = LogCommand(argv, self._log_path, self._guard)
        except OSError as error:
            raise self._absent(
                f"the log command of {self._words} cannot be started: {argv[0]}: {error.strerror}"
            ) from error
        self.log = LogFollower(self._log_path, self._deployment.model_name or "")
        await self._wait_until_quiet(_BEGIN_S)
        code = self._command.poll()
        if code:
            said = last_words(self._log_path.read_text("utf-8", "replace").splitlines()[-20:])
            raise self._absent(
                f"the log command of {self._words} ended with code {code}: "
                f"{said or 'it gave no reason'}"
            )

    async def _wait_until_quiet(self, limit_s: float) -> None:
        """Read until nothing came for a moment, the command has ended, or the time is over."""
        log, command = self.log, self._command
        if log is None or command is None:
            return
        deadline = time.monotonic() + limit_s
        last = time.monotonic()
        while time.monotonic() < min(deadline, last + _QUIET_S):
            ended = command.poll() is not None
            if log.poll() > 0:
                last = time.monotonic()
            elif ended:
                return
            await asyncio.sleep(_PAUSE_S)
