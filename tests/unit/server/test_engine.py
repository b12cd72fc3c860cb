"""What an engine's `inspect` tells, and whose process ids it means."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchsuite.server.engine import (
    Container,
    NoContainer,
    image_digest,
    inspect_container,
    parse_image,
    parse_inspect,
    pid_here,
)

# as docker 28.2 and podman 5.2 print it, without what is not read
STATE: dict[str, Any] = {
    "Status": "running",
    "Running": True,
    "Paused": False,
    "OOMKilled": False,
    "Dead": False,
    "Pid": 4242,
    "ExitCode": 0,
    "Error": "",
    "StartedAt": "2026-11-02T10:11:12.123456789Z",
    "FinishedAt": "0001-01-01T00:00:00Z",
}


def _shown(**changed: object) -> str:
    return json.dumps([{"Id": "abc" * 20, "State": {**STATE, **changed}}])


def test_a_running_container_is_read() -> None:
    """Its time has nanoseconds, which Python's own reader refuses."""
    found = parse_inspect(_shown())
    assert isinstance(found, Container)
    assert (found.running, found.pid, found.identity) == (True, 4242, "abc" * 20)
    assert found.started_at == dt.datetime(2026, 11, 2, 10, 11, 12, tzinfo=dt.UTC).timestamp()


def test_podman_s_local_time_is_the_same_moment() -> None:
    """It prints an offset."""
    found = parse_inspect(_shown(StartedAt="2026-11-02T12:11:12.12+02:00"))
    assert isinstance(found, Container)
    assert found.started_at == dt.datetime(2026, 11, 2, 10, 11, 12, tzinfo=dt.UTC).timestamp()


def test_one_that_was_never_started_has_no_time() -> None:
    """Docker prints the year 1."""
    found = parse_inspect(_shown(Running=False, Pid=0, StartedAt="0001-01-01T00:00:00Z"))
    assert isinstance(found, Container)
    assert found.started_at is None


def test_a_container_over_its_limit_says_so() -> None:
    """Beside the exit code of the signal."""
    found = parse_inspect(_shown(Running=False, ExitCode=137, OOMKilled=True))
    assert isinstance(found, Container)
    assert (found.exit_code, found.oom_killed) == (137, True)


@pytest.mark.parametrize("text", ["", "[]", "null", "[1]", '[{"State": {}}]', "{"])
def test_what_is_not_understood_is_no_container(text: str) -> None:
    """It is not taken for one that has ended."""
    found = parse_inspect(text)
    assert isinstance(found, NoContainer)
    assert not found.is_absent


def _container(pid: int, started_at: float | None, identity: str = "") -> Container:
    return Container(identity, True, pid, 0, False, started_at)


def test_a_process_that_started_with_the_container_is_taken() -> None:
    """Ours stands in for it."""
    started = psutil.Process().create_time()
    assert pid_here(_container(os.getpid(), started + 1)) == os.getpid()


def test_a_process_of_the_same_number_that_is_older_is_not_taken() -> None:
    """The engine's host has another process under this number."""
    started = psutil.Process().create_time()
    assert pid_here(_container(os.getpid(), started + 3600)) is None
    assert pid_here(_container(os.getpid(), None)) is None
    assert pid_here(_container(0, started)) is None
    assert pid_here(_container(2**22 + 1, started)) is None


def test_a_process_in_the_container_s_cgroup_is_taken_whatever_the_clocks_say(
    tmp_path: Path,
) -> None:
    """The engine names cgroups by the container's id."""
    folder = tmp_path / str(os.getpid())
    folder.mkdir()
    (folder / "cgroup").write_text("0::/system.slice/docker-abcabc.scope\n")
    assert pid_here(_container(os.getpid(), None, "abcabc"), tmp_path) == os.getpid()
    assert pid_here(_container(os.getpid(), None, "def"), tmp_path) is None


@pytest.mark.parametrize(
    ("script", "absent", "said"),
    [
        ('echo "Error response from daemon: No such container: x" >&2; exit 1', True, "No such"),
        ('echo "Error: no such container x" >&2; exit 125', True, "no such container"),
        ('echo "Cannot connect to the Docker daemon" >&2; exit 1', False, "Cannot connect"),
        ("exit 3", False, "exit code 3"),
        ("echo hello", False, "not understood"),
    ],
)
def test_what_the_client_says_instead_is_kept_apart(
    tmp_path: Path, script: str, absent: bool, said: str
) -> None:
    """A container that is gone is something else than an engine that does not answer."""
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    found = inspect_container([str(program)], "x")
    assert isinstance(found, NoContainer)
    assert found.is_absent is absent
    assert said in found.reason


def test_an_engine_that_is_not_there_is_said(tmp_path: Path) -> None:
    """Not a traceback."""
    found = inspect_container([str(tmp_path / "docker")], "x")
    assert isinstance(found, NoContainer)
    assert "could not be asked" in found.reason


SHA = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("shown", "digest"),
    [
        ({"Id": f"sha256:{SHA}", "RepoDigests": [f"b/x@sha256:{SHA}", f"a/x@sha256:{SHA}"]}, "a/x"),
        ({"Id": f"sha256:{SHA}", "RepoDigests": []}, ""),
        ({"Id": SHA, "RepoDigests": None}, ""),  # podman, of an image that was built
    ],
)
def test_an_image_is_named_by_its_digest_else_by_its_id(shown: dict[str, Any], digest: str) -> None:
    """A digest is the same on every host; of several registries' the first by name is taken."""
    assert parse_image(json.dumps([shown])) == (digest + "@" if digest else "") + f"sha256:{SHA}"


def test_an_image_of_which_nothing_is_told_has_no_name() -> None:
    """Neither an answer that is not understood nor no answer makes one up."""
    assert [parse_image(text) for text in ("", "[]", "[3]", '[{"Id": "x"}]')] == [""] * 4
    assert image_digest(["/no/such/engine"], "") == ""
    assert image_digest(["/no/such/engine"], f"sha256:{SHA}") == f"sha256:{SHA}"
