"""The exceptions of benchsuite, their exit codes, and the exit codes themselves.

BenchsuiteError                  5
├── UsageError                   2   nothing ran
│   ├── ScenarioError            2   one or more problems in a scenario file, each at file:line
│   ├── ConfigError              2   benchsuite.toml, deployments, baselines on disk
│   └── FlagError                2   a flag that conflicts, or that this build lacks
├── ServerError                  4
│   ├── ServerStartError         4   did not start, or died while loading
│   ├── ServerCrashError         4   died after it was healthy
│   ├── ServerHangError          4   a wait reached its limit
│   ├── ServerLiedError          4   answers contradict the request, the log or each other
│   ├── ConnectionLostError      4   the connection broke while the server lives
│   └── RequestRefusedError      4   the server answered a request with an error
└── MachineError                 5   lock, disk, device, port: the only one worth a blind retry

Whatever an error says is redacted as it is made. Must not import anything else of the package.
"""

from __future__ import annotations

from enum import IntEnum

from benchsuite.redact import redact


class ExitCode(IntEnum):
    """What `benchsuite` exits with; the numbers are a published interface."""

    PASS = 0
    GATE_FAILED = 1
    USAGE = 2
    INCONCLUSIVE = 3
    SERVER_FAILED = 4
    MACHINE_FAILED = 5
    INTERRUPTED = 130


class BenchsuiteError(Exception):
    """An error that a user sees as one sentence and, below it, what to do next.

    Args:
        message: What was found and what was expected; lower case, no final stop.
        where: `file:line` or another place that the user can open; None where there is none.
        hint: What to type or change next; None where the message says it.
    """

    exit_code: ExitCode = ExitCode.MACHINE_FAILED

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.message = redact(message)
        self.where = None if where is None else redact(where)
        self.hint = None if hint is None else redact(hint)
        whole = self.message if where is None else f"{self.where}: {self.message}"
        super().__init__(whole)


class UsageError(BenchsuiteError):
    """A command, scenario or configuration that cannot be run as written."""

    exit_code = ExitCode.USAGE


class ScenarioError(UsageError):
    """A scenario file with one or more problems.

    Args:
        problems: Each a whole sentence that begins with `file:line: `.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(map(redact, problems))
        super().__init__("\n".join(problems))


class ConfigError(UsageError):
    """A configuration file, deployment or baseline that cannot be used."""


class FlagError(UsageError):
    """A server flag that conflicts with another or that the chosen build does not have.

    Args:
        unknown_to_build: True where the build lacks the flag (`git bisect` skips such builds).
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        unknown_to_build: bool = False,
    ) -> None:
        self.unknown_to_build = unknown_to_build
        super().__init__(message, where=where, hint=hint)


class ServerError(BenchsuiteError):
    """The server failed: it did not start, crashed, hung, lied or lost the connection."""

    exit_code = ExitCode.SERVER_FAILED


class ServerStartError(ServerError):
    """The server did not become healthy."""


class ServerCrashError(ServerError):
    """The server died after it was healthy."""


class ServerHangError(ServerError):
    """A wait for the server reached its limit; the message names the limit."""


class ServerLiedError(ServerError):
    """The server's answers contradict what was asked, its log, or each other."""


class ConnectionLostError(ServerError):
    """A connection broke, or brought what is no llama-server reply, while the server lives."""


class RequestRefusedError(ServerError):
    """The server answered a request with an error of its own.

    Args:
        status: HTTP status.
        kind: The server's word for it (`exceed_context_size_error`, ...); empty if it gave none.
    """

    def __init__(
        self, message: str, *, status: int, kind: str = "", hint: str | None = None
    ) -> None:
        self.status = status
        self.kind = kind
        super().__init__(message, hint=hint)


class MachineError(BenchsuiteError):
    """We or the machine failed: a lock, a disk, a device, a port."""

    exit_code = ExitCode.MACHINE_FAILED
