"""Which RPC server is started, and which devices a llama-server says that it can use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchsuite.errors import ConfigError
from benchsuite.server.locate import ServerBinary, list_devices
from benchsuite.server.rpc import find_rpc_server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are scripts")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerBinary:
    """A llama-server in a folder of its own, on a machine without wheels."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    return ServerBinary((str(program(tmp_path / "llama-server")),), "binary", "", "a test")


def program(path: Path, body: str = "") -> Path:
    path.write_text(f"#!/bin/sh\n{body}")
    path.chmod(0o755)
    return path


def at(path: Path) -> ServerBinary:
    return ServerBinary((str(path),), "binary", str(path), "a test", env={"A": "1"})


def test_auto_takes_the_program_beside_the_server(server: ServerBinary, tmp_path: Path) -> None:
    """With the server's own environment; of two names the current one; None where none is."""
    binary = at(tmp_path / "llama-server")
    assert find_rpc_server("auto", binary, os.environ) is None
    program(tmp_path / "rpc-server")
    found = find_rpc_server("auto", binary, os.environ)
    assert found is not None
    assert found.path == str(tmp_path / "rpc-server")
    program(tmp_path / "ggml-rpc-server")
    found = find_rpc_server("auto", binary, os.environ)
    assert found is not None
    assert (found.path, found.env) == (str(tmp_path / "ggml-rpc-server"), {"A": "1"})


def test_none_is_looked_for_where_none_is_asked(server: ServerBinary, tmp_path: Path) -> None:
    """A deployment without `rpc` gets none, whatever lies beside its server."""
    program(tmp_path / "ggml-rpc-server")
    assert find_rpc_server(None, at(tmp_path / "llama-server"), os.environ) is None


def test_a_named_program_is_taken_or_an_error(server: ServerBinary, tmp_path: Path) -> None:
    """By path or by a word on PATH; what is not there is said, with what to write."""
    named = program(tmp_path / "my-rpc")
    found = find_rpc_server(str(named), server, {})
    assert found is not None
    assert found.argv == (str(named),)
    found = find_rpc_server("my-rpc", server, {"PATH": str(tmp_path)})
    assert found is not None
    with pytest.raises(ConfigError, match="names no program: /nowhere/rpc"):
        find_rpc_server("/nowhere/rpc", server, {})


@pytest.mark.parametrize(
    ("body", "devices"),
    [
        (
            "echo 'Available devices:'\necho '  CUDA0: GPU A'\necho '  CUDA1: GPU B (1 MiB)'\n",
            ("CUDA0", "CUDA1"),
        ),
        ("echo 'Available devices:'\necho '  (none)'\n", ()),
        ("echo 'error: invalid argument: --list-devices'\nexit 1\n", None),
        ("kill -4 $$\n", None),
    ],
    ids=["two GPUs", "none", "a build that cannot tell", "dies"],
)
def test_devices_are_asked_of_the_server(
    tmp_path: Path, body: str, devices: tuple[str, ...] | None
) -> None:
    """No device is another answer than no answer."""
    binary = at(program(tmp_path / "llama-server", body))
    assert list_devices(binary, os.environ) == devices
