"""Our side of the guard process: started once a run, told of each launched server.

The guard's own side is `guard_process.py`. What is done on which system:

- Linux: the guard kills each server's process group, whatever carries this run's mark in its
  environment, so that not even a server started in the last microsecond is left, and the processes
  below a server that were seen while it ran, which may have shed both. A server that is
  no descendant of ours (a container) is ended by the command that is told for it.
- macOS and other POSIX systems: process groups only; a server whose start was not yet announced
  (well under a millisecond) would be left.
- Windows: there is no guard; servers are stopped whenever benchsuite ends by itself, also on an
  exception or Ctrl-C, but `taskkill /F` of benchsuite leaves them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from benchsuite.errors import MachineError

MARK = "BENCHSUITE_RUN_MARK"
"""Environment variable of launched servers by which the guard knows them."""

_WAIT_S = 2.0  # for the guard to leave; it needs a few milliseconds
_WAIT_COMMANDS_S = 15.0  # where it has commands to run


class Guard:
    """The guard process of this run; starts without waiting for it.

    Use as a context manager, or call `close`. Not for several threads.
    """

    def __init__(self) -> None:
        self._mark = os.urandom(16).hex()
        self._groups: set[int] = set()
        self._expected = 0  # launches begun and not yet ended
        self._commands: list[tuple[str, ...]] = []
        self._processes: set[tuple[int, str]] = set()
        self._process: subprocess.Popen[bytes] | None = None
        if sys.platform != "win32":
            self._start()

    @property
    def environment(self) -> dict[str, str]:
        """What a launched server's environment must hold."""
        return {MARK: self._mark}

    @property
    def pid(self) -> int | None:
        """The guard's process id; None on Windows and once closed."""
        return None if self._process is None else self._process.pid

    def expect(self) -> None:
        """Say that a server is about to be started; `release` or `cancel` takes it back."""
        self._expected += 1

    def cancel(self) -> None:
        """Say that the expected server could not be started."""
        self._expected -= 1

    def register(self, group: int) -> None:
        """Have the process group killed when we are gone."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """Forget the process group; it has ended."""
        self._groups.discard(group)
        self._expected -= 1
        self._tell(f"-{group}\n")

    def add_process(self, pid: int, started: str) -> None:
        """Have a process killed when we are gone (Linux); `started` as of `started_at`."""
        if sys.platform == "linux" and (pid, started) not in self._processes:
            self._processes.add((pid, started))
            self._tell(f"*{pid} {started}\n")

    def drop_process(self, pid: int, started: str) -> None:
        """Forget the process; it has ended."""
        if (pid, started) in self._processes:
            self._processes.discard((pid, started))
            self._tell(f"/{pid} {started}\n")

    def add_command(self, argv: Sequence[str]) -> None:
        """Have a command run when we are gone: it ends what is no descendant of ours."""
        self._commands.append(tuple(argv))
        self._tell(f"!{_packed(argv)}\n")

    def drop_command(self, argv: Sequence[str]) -> None:
        """Forget the command; what it ends has ended."""
        if tuple(argv) in self._commands:
            self._commands.remove(tuple(argv))
            self._tell(f"~{_packed(argv)}\n")

    def close(self) -> None:
        """Send the guard away and wait until it has gone.

        Where every launch has ended it kills nothing. Else, as after an interrupt in the middle
        of a launch, it does what it does when we die.
        """
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            if self._expected == 0 and not self._commands:
                process.stdin.write(b".\n")
            process.stdin.close()
        except OSError:  # it is gone already
            pass
        try:
            process.wait(_WAIT_COMMANDS_S if self._commands else _WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_WAIT_S)

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> None:
        program = Path(__file__).with_name("guard_process.py")
        mark = f"{MARK}={self._mark}"
        try:
            # nothing of ours is inherited but the pipe: a reader of our output must see its end
            # when we die, and no terminal signal may reach another session
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(program), mark, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(
                f"the guard process could not be started: {error}",
                hint="without it a killed benchsuite would leave servers behind; "
                "check that processes can be started",
            ) from error

    def _tell(self, line: str) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.write(line.encode())
        except OSError:
            # someone killed the guard: another one takes over, with all that is running
            process.stdin.close()
            process.kill()  # it has gone already, or has closed its end and will
            with suppress(subprocess.TimeoutExpired):
                process.wait(_WAIT_S)
            self._start()
            if self._process is not None and self._process.stdin is not None:
                known = [f"+{group}\n" for group in sorted(self._groups)]
                known += [f"!{_packed(argv)}\n" for argv in self._commands]
                known += [f"*{pid} {started}\n" for pid, started in sorted(self._processes)]
                self._process.stdin.write("".join(known).encode())


def _packed(argv: Sequence[str]) -> str:
    """An argument list as one word: its program absolute, since the guard has another folder."""
    program = shutil.which(argv[0])
    words = [argv[0] if program is None else str(Path(program).absolute()), *argv[1:]]
    return b"\0".join(os.fsencode(word) for word in words).hex()
