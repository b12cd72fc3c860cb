"""Ports that servers listen on."""

from __future__ import annotations

import socket

import pytest

from benchsuite.errors import MachineError, UsageError
from benchsuite.server.ports import check_port, free_port, is_free

HOST = "127.0.0.1"


def test_a_free_port_can_be_listened_on() -> None:
    """At once, by another socket."""
    port = free_port(HOST)
    assert check_port(HOST, port) == port
    with socket.create_server((HOST, port)):
        assert not is_free(HOST, port)
    assert is_free(HOST, port)


def test_a_port_in_use_is_the_machines_error() -> None:
    """Exit code 5, with the port and what to do."""
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {port} of {HOST}") as caught:
            check_port(HOST, port)
    assert caught.value.exit_code == 5
    assert "leave the port out" in (caught.value.hint or "")


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_a_usage_error(port: int) -> None:
    """Before any socket is made."""
    with pytest.raises(UsageError, match="not between 1 and 65535"):
        check_port(HOST, port)


def test_an_address_of_another_machine_is_an_error() -> None:
    """192.0.2.0/24 belongs to documentation."""
    with pytest.raises(MachineError, match=r"192\.0\.2\.1"):
        free_port("192.0.2.1")
