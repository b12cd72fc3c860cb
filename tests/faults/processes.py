"""Ways in which benchsuite itself ends early: no server may outlive it, and its journal is kept."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import entry_points

import psutil

from tests.faults.fault import Fault
from tests.integration.desk import Desk, Done, real_servers, wait_until, wrapper
from tests.integration.engine import EngineDesk, no_namespaces

GROUP = "we end early"

IDLING = """title: idles after a turn
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - idle: 60
  - turn: {session: A, user: {tokens: 8, seed: 1}, max_tokens: 2}
gates:
  - {metric: 'output_tokens{session="A",turn="2"}', equals: 2}
"""
ON_RPC = IDLING + "variants:\n  R: {flags: {n-gpu-layers: 2}, require: {device: RPC}}\n"
FAILING = """title: fails
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 99}
"""

EMBEDDED = ("--server", "embedded")
KEPT = ("journal", "reply", "log")
ENDED = ("record", "journal", "reply", "log")
_LIMIT_S = 60
_STOP_S = 45
_SOON_S = 15
"""Far below the stop limit, far above what leaving takes on a machine that is busy."""

Act = Callable[[subprocess.Popen[str]], None]
"""What is done to a run that has measured a turn and idles."""


def _idling(
    act: Act, *options: str, scenario: str = IDLING, server: Callable[[Desk], str] | None = None
) -> Callable[[Desk], Done]:
    """Makes a fault: a run that has measured one turn, then `act`, then what is printed of it."""

    def make(desk: Desk) -> Done:
        (desk.folder / "idling.yaml").write_text(scenario)
        named = EMBEDDED if server is None else ("--server", server(desk))
        process = desk.start("run", "idling.yaml", *named, *options)
        assert wait_until(desk.idles, _LIMIT_S)
        act(process)
        acted = time.monotonic()
        out, _ = process.communicate(timeout=_LIMIT_S)
        soon = "ended at once" if time.monotonic() - acted < _SOON_S else ""
        return _told(desk, Done(process.returncode, f"{out}\n{soon}", ""))

    return make


def _ended(desk: Desk, process: subprocess.Popen[str]) -> Done:
    """What a run printed, and what a report says of its journal where it left no record."""
    out, _ = process.communicate(timeout=_LIMIT_S)
    return _told(desk, Done(process.returncode, out, ""))


def _told(desk: Desk, done: Done) -> Done:
    runs = list((desk.folder / ".benchsuite" / "runs").glob("*/samples.jsonl"))
    if not runs or (runs[0].parent / "record.json").exists():
        return done
    return Done(done.code, done.out, desk.run("report", "last", "--format", "markdown").text)


def _send(*numbers: int, to: Callable[[int], int] | None = None, pause_s: float = 0.05) -> Act:
    """Send signals, one after the other, to the process or to a process group."""

    def act(process: subprocess.Popen[str]) -> None:
        for count, number in enumerate(numbers):
            if count:
                time.sleep(pause_s)
            with contextlib.suppress(ProcessLookupError):
                if to is None:
                    process.send_signal(number)
                else:
                    os.killpg(to(process.pid), number)

    return act


def _guards(pid: int) -> list[psutil.Process]:
    return [
        one
        for one in psutil.Process(pid).children()
        if any("guard_process" in word for word in one.cmdline())
    ]


def _kill_guard_then_us(process: subprocess.Popen[str]) -> None:
    """The guard first: the kernel's parent-death signal is what is left."""
    (guard,) = _guards(process.pid)
    guard.kill()
    process.kill()


def _kill_guard(process: subprocess.Popen[str]) -> None:
    (guard,) = _guards(process.pid)
    guard.kill()
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)


def _kill_session(process: subprocess.Popen[str]) -> None:
    """As a CI runner ends a job: every process of the session at once."""
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(one.pid) == process.pid:
                one.kill()


def _freeze_then_interrupt(process: subprocess.Popen[str]) -> None:
    for one in psutil.Process(process.pid).children(recursive=True):
        if "--port" in one.cmdline():
            one.suspend()
    _send(signal.SIGINT, signal.SIGINT, pause_s=1)(process)


def _not_execing(desk: Desk) -> str:
    return str(wrapper(desk.folder / "llama-server", [], kill_at_request=10_000))


_LEAVING = f"""#!/bin/sh
case " $* " in
  *" --port "*) ;;
  *) exec {sys.executable} -m benchsuite.server.embedded "$@" ;;
esac
%s {sys.executable} -m benchsuite.server.embedded "$@" & wait
"""
_SHED = 'env -i PATH="$PATH" HOME="$HOME" PYTHONPATH="$PYTHONPATH" setsid'


def _leaving(desk: Desk) -> str:
    """A wrapper that waits for a server in a session of its own."""
    return _script(desk, _LEAVING % "setsid")


def _shedding(desk: Desk) -> str:
    """A wrapper that waits for a server in a session of its own, without our environment."""
    return _script(desk, _LEAVING % _SHED)


def _script(desk: Desk, text: str) -> str:
    path = desk.folder / "llama-server"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def _counted(make: Callable[[Desk], Done]) -> Callable[[Desk], Done]:
    """Counts the servers left, also those without the environment that marks ours."""

    def counted(desk: Desk) -> Done:
        done = make(desk)
        wait_until(lambda: not _servers(desk), 15)
        left = _servers(desk)
        for one in left:
            one.kill()
        return Done(done.code, f"{done.out}\nservers left: {len(left)}", done.err)

    def _servers(desk: Desk) -> list[psutil.Process]:
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if one.cwd() == str(desk.folder.resolve()) and "--port" in one.cmdline():
                    found.append(one)
        return found

    return counted


def _left_running(command: str, server: Callable[[Desk], str]) -> Callable[[Desk], Done]:
    """Makes a fault: a command that comes to its normal end with such a server."""

    def make(desk: Desk) -> Done:
        passing = IDLING.replace("idle: 60", "idle: 0.1")
        (desk.folder / "idling.yaml").write_text(passing)
        trials = ("--trials", "3") if command == "run" else ("--pairs", "1")
        return desk.run(command, "./idling.yaml", "--server", server(desk), *trials)

    return make


def _real(desk: Desk) -> str:
    return next(name for name in real_servers() if name != "embedded")


def _no_real() -> str | None:
    others = [name for name in real_servers() if name != "embedded"]
    return None if others else "no llama-server that starts here, and so no RPC server"


def _at_start(number: int) -> Callable[[Desk], Done]:
    """Makes a fault: the signal comes as soon as the server's log is there, just before the fork,
    or microseconds after. The server never becomes ready: however late the signal, it starts."""

    def make(desk: Desk) -> Done:
        (desk.folder / "idling.yaml").write_text(IDLING)
        server = desk.folder / "llama-server"
        server.write_text(_NEVER_READY)
        server.chmod(0o755)
        process = desk.start("run", "idling.yaml", "--server", str(server))
        runs = desk.folder / ".benchsuite" / "runs"
        while process.poll() is None and not list(runs.glob("*/server.*.log")):
            pass
        process.send_signal(number)
        return _ended(desk, process)

    return make


def _closed_terminal(desk: Desk) -> Done:
    """Run in a terminal of its own, and close it."""
    (desk.folder / "idling.yaml").write_text(IDLING)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(desk.folder)
        command = [sys.executable, "-m", "benchsuite", "run", "idling.yaml", *EMBEDDED]
        os.execve(sys.executable, command, desk.env)
    seen: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):
            while part := os.read(terminal, 65536):
                seen.append(part)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert wait_until(desk.idles, _LIMIT_S)
    # closing the last descriptor of the terminal is its hang-up; a reader would hold it open
    os.close(terminal)
    code: int | None = None
    deadline = time.monotonic() + _LIMIT_S
    while code is None and time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
        time.sleep(0.02)
    if code is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        code = -9
    # nothing can be printed to a terminal that is gone: a report tells of it
    return Done(
        code,
        b"".join(seen).decode("utf-8", "replace"),
        desk.run("report", "last", "--format", "markdown").text,
    )


_NEVER_READY = f"""#!/bin/sh
case " $* " in
  *" --port "*) exec sleep 600 ;;
  *) exec {sys.executable} -m benchsuite.server.embedded "$@" ;;
esac
"""
_DYING = """import os, signal, sys, threading, time
from pathlib import Path
def die():
    while not any('"words":"idle for' in j.read_text() for j in Path().rglob("samples.jsonl")):
        time.sleep(0.02)
    {death}
threading.Thread(target=die, daemon=True).start()
from benchsuite.cli.main import main
main(sys.argv[1:])
"""


def _in_thread(death: str) -> Callable[[Desk], Done]:
    """Makes a fault: a thread of ours does `death` while the main thread idles."""

    def make(desk: Desk) -> Done:
        (desk.folder / "idling.yaml").write_text(IDLING)
        program = ("-c", _DYING.format(death=death))
        return _ended(desk, desk.start("run", "idling.yaml", *EMBEDDED, program=program))

    return make


def _hanging_help(desk: Desk) -> Done:
    """Kill a run while the server that it asks for its flags hangs."""
    server = desk.folder / "llama-server"
    server.write_text("#!/bin/sh\nsleep 300\n")
    server.chmod(0o755)
    (desk.folder / "idling.yaml").write_text(IDLING)
    process = desk.start("run", "idling.yaml", "--server", str(server))
    assert wait_until(lambda: _has_child(process.pid, "sleep"), _LIMIT_S)
    process.kill()
    return _ended(desk, process)


def _other_command(*words: str, number: int = signal.SIGKILL) -> Callable[[Desk], Done]:
    """Makes a fault: another command that launches servers is ended while one of them lives."""

    def make(desk: Desk) -> Done:
        (desk.folder / "idling.yaml").write_text(IDLING)
        suites = desk.folder / "ci" / "suites"
        suites.mkdir(parents=True)
        (suites / "idling.yaml").write_text(
            f"title: idling\nscenarios:\n  - {desk.folder / 'idling.yaml'}\n"
        )
        (desk.folder / "test_idling.py").write_text(
            "import time\n\n\ndef test_it(llama_server):\n"
            '    """Holds a server."""\n    print("held", flush=True)\n    time.sleep(60)\n'
        )
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=desk.folder,
            env=desk.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert wait_until(lambda: _has_child(process.pid, "--port"), _LIMIT_S), process.poll()
        process.send_signal(number)
        out, _ = process.communicate(timeout=_LIMIT_S)
        return Done(process.returncode, out, "")

    return make


def _has_child(pid: int, word: str) -> bool:
    """Whether a process has a child below it with that word in its command: `--port`, a server."""
    with contextlib.suppress(psutil.Error):
        for one in psutil.Process(pid).children(recursive=True):
            if word in one.cmdline():
                return True
    return False


def _container(desk: Desk) -> Done:
    box = EngineDesk(desk)
    (desk.folder / "idling.yaml").write_text(IDLING)
    process = desk.start("run", "idling.yaml", "-d", "box")
    assert wait_until(desk.idles, _LIMIT_S)
    process.kill()
    done = _ended(desk, process)
    wait_until(lambda: box.containers() == [] and box.processes() == [], 15)
    left = [*box.containers(), *(" ".join(one.cmdline()) for one in box.processes())]
    return Done(done.code, f"{done.out}\ncontainers left: {len(left)}", done.err)


def _gate_fails(desk: Desk) -> Done:
    (desk.folder / "failing.yaml").write_text(FAILING)
    return desk.run("run", "failing.yaml", *EMBEDDED)


def _journal_taken(desk: Desk) -> Done:
    """The disk refuses the rest of the journal, which is what an exception inside a run is."""
    (desk.folder / "idling.yaml").write_text(IDLING.replace("idle: 60", "idle: 0.1"))
    command = f"ulimit -f 16; exec {sys.executable} -m benchsuite run idling.yaml --server embedded"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=desk.folder,
        env=desk.env,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def plugin() -> tuple[str, ...]:
    """What names the plugin to pytest where benchsuite is not installed."""
    installed = {one.name for one in entry_points(group="pytest11")}
    return () if "benchsuite" in installed else ("-p", "benchsuite.pytest_plugin")


_CUT = r"the run was killed during idle for 60 s of variant \S+ before its record was written"
_WHERE = r"ends in line \d+ after byte \d+"
_BEFORE = r"interrupted"


def _fault(
    name: str,
    happens: str,
    make: Callable[[Desk], Done],
    code: int | tuple[int, ...],
    says: tuple[str, ...],
    keeps: tuple[str, ...] = KEPT,
    unable: Callable[[], str | None] = lambda: None,
) -> Fault:
    codes = code if isinstance(code, tuple) else (code,)
    return Fault(name, GROUP, happens, make, codes, says, keeps, unable)


FAULTS: tuple[Fault, ...] = (
    _fault("gate-fails", "A gate fails.", _gate_fails, 1, (r"FAIL",), ENDED),
    _fault(
        "ctrl-c",
        "Ctrl-C (SIGINT), once.",
        _idling(_send(signal.SIGINT)),
        130,
        (r"interrupted during idle for 60 s",),
        ENDED,
    ),
    _fault(
        "ctrl-c-twice",
        "Ctrl-C, and again 50 ms later.",
        _idling(_send(signal.SIGINT, signal.SIGINT), server=_not_execing),
        130,
        (_BEFORE,),
    ),
    _fault(
        "ctrl-c-twice-frozen",
        "Ctrl-C twice while the server is frozen (SIGSTOP): the second does not wait for it.",
        _idling(_freeze_then_interrupt, "--stop-limit", str(_STOP_S)),
        130,
        (r"ended at once", _CUT),
    ),
    _fault(
        "terminated",
        "SIGTERM.",
        _idling(_send(signal.SIGTERM)),
        130,
        (r"interrupted during idle for 60 s",),
        ENDED,
    ),
    _fault("killed", "SIGKILL.", _idling(_send(signal.SIGKILL)), -9, (_CUT, _WHERE)),
    _fault(
        "closed-terminal",
        "The terminal that it runs in is closed.",
        _closed_terminal,
        (130, 5),
        (r"idle for 60 s", r"was interrupted"),
        ENDED,
    ),
    _fault(
        "runner-timeout",
        "A CI runner's timeout: SIGTERM to the process group, SIGKILL 1 s later.",
        _idling(_send(signal.SIGTERM, signal.SIGKILL, to=os.getpgid, pause_s=1)),
        (130, -9),
        (r"idle for 60 s",),
    ),
    _fault(
        "session-killed",
        "SIGKILL to every process of our session.",
        _idling(_kill_session),
        -9,
        (_CUT, _WHERE),
    ),
    _fault(
        "guard-killed",
        "The guard process is killed, then the run is ended by SIGTERM.",
        _idling(_kill_guard),
        130,
        (r"interrupted during idle for 60 s",),
        ENDED,
    ),
    _fault(
        "guard-and-us-killed",
        "The guard and the run are killed at once; the parent-death signal ends the server.",
        _idling(_kill_guard_then_us),
        -9,
        (_CUT, _WHERE),
    ),
    _fault(
        "guard-and-us-killed-with-wrapper",
        "The guard and the run are killed at once, and a wrapper that does not exec starts "
        "the server.",
        _idling(_kill_guard_then_us, server=_not_execing),
        -9,
        (_CUT, _WHERE),
    ),
    _fault(
        "killed-at-fork",
        "SIGKILL microseconds around the server's start.",
        _at_start(signal.SIGKILL),
        -9,
        (r"the run was killed during starting of variant", _WHERE),
        ("journal",),
    ),
    _fault(
        "ctrl-c-at-fork",
        "Ctrl-C microseconds around the server's start.",
        _at_start(signal.SIGINT),
        130,
        (r"interrupted",),
        ("journal",),
    ),
    _fault(
        "killed-with-wrapper",
        "SIGKILL while the server runs below a wrapper that does not exec.",
        _idling(_send(signal.SIGKILL), server=_not_execing),
        -9,
        (_CUT, _WHERE),
    ),
    *(
        fault
        for name, where, server in (
            ("session", "in a session of its own", _leaving),
            ("shed", "in a session of its own, without our environment (`env -i`)", _shedding),
        )
        for fault in (
            _fault(
                f"ends-with-{name}-wrapper",
                f"A run ends while a wrapper waits for a server {where}.",
                _counted(_left_running("run", server)),
                0,
                (r"PASS", r"servers left: 0"),
                ENDED,
            ),
            _fault(
                f"terminated-with-{name}-wrapper",
                f"SIGTERM while a wrapper waits for a server {where}.",
                _counted(_idling(_send(signal.SIGTERM), server=server)),
                130,
                (r"interrupted during idle for 60 s", r"servers left: 0"),
                ENDED,
            ),
            _fault(
                f"killed-with-{name}-wrapper",
                f"SIGKILL while a wrapper waits for a server {where}.",
                _counted(_idling(_send(signal.SIGKILL), server=server)),
                -9,
                (_CUT, _WHERE, r"servers left: 0"),
            ),
        )
    ),
    _fault(
        "ab-ends-with-session-wrapper",
        "`benchsuite ab` ends while wrappers wait for servers in sessions of their own.",
        _counted(_left_running("ab", _leaving)),
        (0, 3),
        (r"servers left: 0",),
        (),
    ),
    _fault(
        "killed-with-rpc",
        "SIGKILL while a server uses an RPC server of ours.",
        _idling(_send(signal.SIGKILL), server=_real, scenario=ON_RPC),
        -9,
        (_CUT, _WHERE),
        unable=_no_real,
    ),
    _fault(
        "killed-with-container",
        "SIGKILL while the server runs in a container that is no child of ours.",
        _container,
        -9,
        (_CUT, _WHERE, r"containers left: 0"),
        ("journal", "reply"),
        unable=no_namespaces,
    ),
    _fault(
        "exit-in-thread",
        "os._exit in a thread of ours.",
        _in_thread("os._exit(9)"),
        9,
        (_CUT, _WHERE),
    ),
    _fault(
        "killed-in-thread",
        "A thread of ours kills its process.",
        _in_thread("os.kill(os.getpid(), signal.SIGKILL)"),
        -9,
        (_CUT, _WHERE),
    ),
    _fault(
        "interrupted-by-thread",
        "A thread of ours interrupts the main one.",
        _in_thread("import _thread; _thread.interrupt_main()"),
        130,
        (r"interrupted during idle for 60 s",),
        ENDED,
    ),
    _fault(
        "killed-while-help-hangs",
        "SIGKILL while a server that was asked for its flags hangs.",
        _hanging_help,
        -9,
        (),
        (),
    ),
    _fault(
        "journal-refused",
        "The disk takes no more of the journal in the middle of a run.",
        _journal_taken,
        5,
        (r"cannot write here|took only part",),
        ("journal",),
    ),
    _fault(
        "ab-killed",
        "SIGKILL of `benchsuite ab`.",
        _other_command("benchsuite", "ab", "./idling.yaml", *EMBEDDED),
        -9,
        (),
        (),
    ),
    _fault(
        "ci-killed",
        "SIGKILL of `benchsuite ci`.",
        _other_command("benchsuite", "ci", "idling", *EMBEDDED),
        -9,
        (),
        (),
    ),
    _fault(
        "ci-terminated",
        "SIGTERM of `benchsuite ci`.",
        _other_command("benchsuite", "ci", "idling", *EMBEDDED, number=signal.SIGTERM),
        130,
        (r"interrupted",),
        ("record", "journal"),
    ),
    _fault(
        "doctor-killed",
        "SIGKILL of `benchsuite doctor`.",
        _other_command("benchsuite", "doctor", *EMBEDDED),
        -9,
        (),
        (),
    ),
    _fault(
        "pytest-killed",
        "SIGKILL of pytest while its fixture holds a server.",
        _other_command("pytest", "-q", *plugin(), "-p", "no:cacheprovider", "test_idling.py"),
        -9,
        (),
        (),
    ),
)
