"""Why a server did not start, as the error that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchsuite.errors import MachineError, ServerHangError, ServerStartError
from benchsuite.logform.facts import LogFacts
from benchsuite.model.record import ServerEnd
from benchsuite.server.ending import (
    describe_end,
    engine_lost_the_port,
    error_lines,
    lost_the_port,
    read_tail,
)
from benchsuite.server.ports import is_free, port_in_use

if TYPE_CHECKING:
    from benchsuite.server.launch import LaunchedServer


class PortTakenError(ServerStartError):
    """Someone else took the free port between our choice and the server's bind: launch again."""


def start_error(
    server: LaunchedServer, ended: ServerEnd, evidence: LogFacts
) -> ServerStartError | MachineError:
    """The error for a server that ended before it was healthy.

    Args:
        server: That was launched.
        ended: How it ended.
        evidence: What its log tells.
    """
    if _lost_the_port(server, ended, evidence):
        if server.port_is_ours:
            return PortTakenError(f"port {server.port} was taken before the server could have it")
        return port_in_use(server.host, server.port, "someone else took it")
    told = ended.crash
    if ended.how != "forced" and server.behind is None:
        told = describe_end(ended.exit_code, ended.signal, evidence)
    shown = [line for line in error_lines(evidence) if line not in (told or "")]
    logs = dict.fromkeys((server.log_path, server.client_log_path))
    return ServerStartError(
        f"the server did not start: {told}",
        hint="\n  ".join([*shown, *(f"log: {path}" for path in logs)]),
    )


def start_hang(server: LaunchedServer, limit_s: float, evidence: LogFacts) -> ServerHangError:
    """The error for a server that was not healthy in time; it still runs."""
    last = [line for line in evidence.last_lines if line.strip()][-1:]
    said = f"; its last line: {last[0].strip()}" if last else "; it printed nothing"
    return ServerHangError(
        f"the server was not healthy within {limit_s:g} s of its launch{said}",
        hint=f"allow more with --start-limit SECONDS; log: {server.log_path}",
    )


def _lost_the_port(server: LaunchedServer, ended: ServerEnd, evidence: LogFacts) -> bool:
    if lost_the_port(evidence):
        return True
    if server.behind is not None:
        told = read_tail(server.client_log_path)
        return lost_the_port(told) or engine_lost_the_port(told)
    # build 10434 may lose its last log lines when it exits: then the port itself is asked
    silent = ended.exit_code == 1 and evidence.crash is None and not evidence.error_lines
    return silent and not is_free(server.host, server.port)
