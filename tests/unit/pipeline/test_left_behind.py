"""What is said of a launch whose processes live on."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from benchsuite.errors import ServerHangError
from benchsuite.pipeline.commanded import left_behind
from benchsuite.pipeline.standing import StandingServer
from benchsuite.server.behind import Behind
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer


class _Stopped:
    """A server that was stopped, as far as is looked at."""

    behind = None

    def __init__(self, *survivors: str) -> None:
        self.survivors = survivors


def test_what_not_even_a_kill_ends_is_a_failure_of_the_machine() -> None:
    """Which is exit 5, and names the process; every later launch would share its device."""
    found = left_behind(cast("LaunchedServer", _Stopped("process 71 (llama-server)")))
    assert found is not None
    assert found.kind == "machine"
    assert found.message == (
        "what was launched was killed, and still runs: process 71 (llama-server)"
    )


def test_nothing_is_said_where_nothing_is_left() -> None:
    """As nearly always."""
    assert left_behind(cast("LaunchedServer", _Stopped())) is None


def test_a_standing_server_that_still_answers_was_not_stopped() -> None:
    """As of a run: whoever stops it hears that it is there, and how to say how it ends."""
    how = Behind(client=("ssh", "gpu1"), name="x", deployment="far")
    server = SimpleNamespace(
        url="http://h:1",
        host="h",
        port=1,
        api_key="",
        command=(),
        log_path=Path(),
        pid=1,
        survivors=(),
        behind=SimpleNamespace(how=how, left="", stop_fault="ssh exited with code 1: no"),
        left_behind=lambda: True,
        stop=lambda limit: None,
    )
    guard = SimpleNamespace(close=lambda: None)
    standing = StandingServer(
        cast("LaunchedServer", server), cast("Guard", guard), 1.0, nullcontext
    )
    with pytest.raises(ServerHangError, match="still answers at h:1 after it was stopped") as told:
        standing.stop()
    assert told.value.hint is not None
    assert "'stop' of deployment 'far'" in told.value.hint


def test_a_container_that_may_still_run_is_a_failure_of_the_machine() -> None:
    """With its name and what to type: it may hold the device of every later launch."""
    kill = ("docker", "rm", "--force", "x")
    how = Behind(client=("docker", "run"), name="x", deployment="box", kill=kill)
    left = "container x may still run: docker did not answer"
    server = SimpleNamespace(survivors=(), behind=SimpleNamespace(how=how, left=left))
    found = left_behind(cast("LaunchedServer", server))
    assert found is not None
    assert found.kind == "machine"
    assert left in found.message
    assert found.hint == "see to it that it is gone: docker rm --force x"
