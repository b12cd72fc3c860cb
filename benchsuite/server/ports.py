"""Ports for servers to listen on."""

from __future__ import annotations

import socket
import sys

from benchsuite.errors import MachineError, UsageError


def free_port(host: str) -> int:
    """A port of `host` that is free now; another program may take it before the server does.

    Raises:
        MachineError: The host is not an address of this machine, or no port is free.
    """
    try:
        with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
            port: int = probe.getsockname()[1]
            return port
    except OSError as error:
        raise MachineError(f"no port of {host} can be listened on: {error.strerror}") from error


def check_port(host: str, port: int) -> int:
    """The port of the user's choice, if it can be listened on now.

    Raises:
        UsageError: It is no port number.
        MachineError: It is in use, or may not be listened on.
    """
    if not 0 < port < 65536:
        raise UsageError(f"port {port} is not between 1 and 65535")
    try:
        _bind(host, port)
    except OSError as error:
        raise port_in_use(host, port, error.strerror or str(error)) from error
    return port


def is_free(host: str, port: int) -> bool:
    """Whether the port can be listened on now."""
    try:
        _bind(host, port)
    except OSError:
        return False
    return True


def _bind(host: str, port: int) -> None:
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":  # there it would allow two listeners
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def port_in_use(host: str, port: int, why: str) -> MachineError:
    """The error for a port of the user's choice that cannot be had."""
    return MachineError(
        f"port {port} of {host} cannot be listened on: {why}",
        hint="leave the port out and a free one is chosen, or stop what listens there",
    )


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
