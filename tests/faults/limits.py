"""Servers that keep us waiting, and others that hold what we need: each wait has its limit."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable

import psutil

from tests.faults.fault import Fault
from tests.integration.desk import REPOSITORY, Desk, Done, wait_until

GROUP = "a wait reaches its limit"

TURNS = """title: two turns
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 32}
  - turn: {session: A, user: {tokens: 8, seed: 1}, max_tokens: 32}
gates:
  - {metric: 'output_tokens{session="A",turn="2"}', equals: 32}
"""
_SECOND = "  - turn: {session: A, user: {tokens: 8, seed: 1}"
IDLING = TURNS.replace(_SECOND, f"  - idle: 30\n{_SECOND}")
_LATENCY = 'ttft_ms{session="A",turn="1"}'
NOISY = f"{IDLING}  - {{metric: '{_LATENCY}', regression: {{worse_than: 10%}}}}\n"
EVIDENCE = (r"in flight: turn 1 of session A", r"slots: 0 ", r"last lines of the server's log")


def _slow(way: str, *options: str, config: str = "") -> Callable[[Desk], Done]:
    """Makes a fault: a run against `tests/servers/slow_proxy.py`."""

    def make(desk: Desk) -> Done:
        server = desk.folder / "llama-server"
        proxy = REPOSITORY / "tests" / "servers" / "slow_proxy.py"
        words = f"[{sys.executable!r}, {str(proxy)!r}, {way!r}, *sys.argv[1:]]"
        server.write_text(
            f"#!{sys.executable}\nimport os, sys\nos.execv({sys.executable!r}, {words})\n"
        )
        server.chmod(server.stat().st_mode | stat.S_IXUSR)
        (desk.folder / "turns.yaml").write_text(TURNS)
        if config:
            (desk.folder / "benchsuite.toml").write_text(config)
        return desk.run("run", "turns.yaml", "--server", "./llama-server", *options)

    return make


def _frozen(desk: Desk) -> Done:
    """Freeze the server (SIGSTOP) between two turns; it must be killed all the same."""
    (desk.folder / "turns.yaml").write_text(IDLING.replace("idle: 30", "idle: 3"))
    process = desk.start(
        *("run", "turns.yaml", "--server", "embedded", "--idle-limit", "5", "--stop-limit", "1")
    )
    assert wait_until(lambda: desk.idles() or process.poll() is not None, 60)
    with contextlib.suppress(psutil.NoSuchProcess):  # what it printed tells why
        for one in psutil.Process(process.pid).children(recursive=True):
            if "--port" in one.cmdline():
                one.suspend()
    out, _ = process.communicate(timeout=60)
    return Done(process.returncode, out, "")


def _run_limit(run: Callable[[Desk, str], Done], during: str) -> Callable[[Desk], Done]:
    """Makes a fault: the run's limit strikes `during` what is meant.

    It is doubled where it struck before: how long a start takes is the machine's.
    """

    def make(desk: Desk) -> Done:
        for limit in ("3", "6", "12", "24"):
            shutil.rmtree(desk.folder / ".benchsuite", ignore_errors=True)
            done = run(desk, limit)
            if f"struck during {during}" in done.text:
                break
        return done

    return make


def _idling(desk: Desk, limit: str) -> Done:
    (desk.folder / "turns.yaml").write_text(IDLING)
    return desk.run("run", "turns.yaml", "--server", "embedded", "--run-limit", limit)


def _waiting(desk: Desk, limit: str) -> Done:
    return _slow("silent", "--run-limit", limit)(desk)


def _locked(*options: str, number: int | None = None) -> Callable[[Desk], Done]:
    """Makes a fault: a noisy run holds the machine, and a second one comes."""

    def make(desk: Desk) -> Done:
        (desk.folder / "noisy.yaml").write_text(NOISY)
        first = desk.start("run", "noisy.yaml", "--server", "embedded")
        try:
            assert wait_until(desk.idles, 60)
            second = desk.start("run", "noisy.yaml", "--server", "embedded", *options)
            if number is not None:
                assert second.stdout is not None
                said = second.stdout.readline()
                second.send_signal(number)
            else:
                said = ""
            out, _ = second.communicate(timeout=60)
            return Done(second.returncode, f"{said}{out}", "")
        finally:
            first.send_signal(signal.SIGTERM)
            first.communicate(timeout=60)

    return make


def _nested(desk: Desk) -> Done:
    """A run inside a run's child takes none of the locks that its parent holds."""
    (desk.folder / "noisy.yaml").write_text(NOISY.replace("idle: 30", "idle: 0.1"))
    inner = f"{sys.executable} -m benchsuite run noisy.yaml --server embedded --no-wait"
    script = (
        "import os, subprocess, sys\n"
        "from benchsuite.server.device_locks import device_locks\n"
        "with device_locks((), alone=True, environ=os.environ, say=print):\n"
        f"    sys.exit(subprocess.run({inner!r}, shell=True).returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=desk.folder,
        env={**desk.env, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=90,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _stale(desk: Desk) -> Done:
    """A variable of a run that has ended says that its locks are held, beside a holder of them."""
    (desk.folder / "noisy.yaml").write_text(NOISY.replace("idle: 30", "idle: 0.1"))
    script = (
        "import os, subprocess, sys\n"
        "from benchsuite.server.device_locks import device_locks\n"
        "with device_locks((), alone=True, environ=os.environ, say=print):\n"
        "    os.environ['BENCHSUITE_LOCKS_HELD'] = 'host'\n"
        "    run = [sys.executable, '-m', 'benchsuite', 'run', 'noisy.yaml']\n"
        "    done = subprocess.run([*run, '--server', 'embedded', '--no-wait'])\n"
        "    sys.exit(done.returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=desk.folder,
        env=desk.env,
        capture_output=True,
        text=True,
        timeout=90,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _fault(
    name: str,
    happens: str,
    make: Callable[[Desk], Done],
    says: tuple[str, ...],
    *,
    codes: tuple[int, ...] = (4,),
    keeps: tuple[str, ...] = ("record", "journal", "log"),
) -> Fault:
    return Fault(name, GROUP, happens, make, codes, says, keeps)


_RAISE = r"raise it with --{0}-limit SECONDS, or with '{0}' under \[limits\] of benchsuite.toml"

FAULTS: tuple[Fault, ...] = (
    _fault(
        "frozen-server",
        "The server is frozen (SIGSTOP) between two turns.",
        _frozen,
        (r"no byte for 5 s", r"--idle-limit", r"in flight: turn 2 of session A"),
        keeps=("record", "journal", "reply", "log"),
    ),
    _fault(
        "never-replies",
        "The server takes a request and never answers.",
        _slow("silent", "--idle-limit", "2"),
        (r"no byte for 2 s", r"--idle-limit", EVIDENCE[0], EVIDENCE[2]),
    ),
    _fault(
        "never-replies-nor-leaves",
        "The same, and it does not leave when asked.",
        _slow("deaf", "--idle-limit", "2", "--stop-limit", "0.5"),
        (r"no byte for 2 s", EVIDENCE[0]),
    ),
    _fault(
        "drips-the-head",
        "The answer's head comes a byte at a time, for ever.",
        _slow("head", "--idle-limit", "2", "--request-limit", "4"),
        (r"the request limit of 4 s struck", _RAISE.format("request"), *EVIDENCE[::2]),
    ),
    _fault(
        "drips-the-body",
        "The answer's body comes a byte at a time, for ever.",
        _slow("body", "--idle-limit", "2", "--request-limit", "4"),
        (r"the request limit of 4 s struck", _RAISE.format("request"), *EVIDENCE[::2]),
    ),
    _fault(
        "drips-its-properties",
        "`/props` comes a byte at a time, for ever.",
        _slow("props", "--idle-limit", "2", "--request-limit", "4"),
        (r"/props: the request limit of 4 s struck",),
    ),
    _fault(
        "stalls",
        "The stream stops after two tokens.",
        _slow("stall", "--idle-limit", "2"),
        (r"no byte for 2 s", *EVIDENCE),
    ),
    _fault(
        "stalls-between-tokens",
        "The stream stops after two tokens, and the token limit is the shorter one.",
        _slow("stall", "--token-limit", "1"),
        (r"the token limit of 1 s struck", _RAISE.format("token"), *EVIDENCE),
    ),
    _fault(
        "comments-for-ever",
        "After two tokens nothing but keep-alive comments come.",
        _slow("comments", "--idle-limit", "2", "--token-limit", "2"),
        (r"the token limit of 2 s struck: nothing but silence or comments", *EVIDENCE),
    ),
    _fault(
        "step-limit",
        "A step takes longer than its limit.",
        _slow("silent", "--step-limit", "1"),
        (r"the step limit of 1 s struck during turn 1 of session A", _RAISE.format("step")),
    ),
    _fault(
        "step-limit-of-configuration",
        "The same, and the limit stands in benchsuite.toml.",
        _slow("silent", config="[limits]\nstep = 1\n"),
        (r"the step limit of 1 s struck during turn 1 of session A",),
    ),
    _fault(
        "run-limit",
        "The run reaches its limit while it waits for the server.",
        _run_limit(_waiting, "turn 1"),
        (r"the run limit of \d+ s struck during turn 1 of session A", _RAISE.format("run")),
    ),
    _fault(
        "run-limit-idling",
        "The run reaches its limit while it idles by itself.",
        _run_limit(_idling, "idle"),
        (r"the run limit of \d+ s struck during idle for 30 s", _RAISE.format("run")),
        codes=(5,),
        keeps=("record", "journal", "reply", "log"),
    ),
    _fault(
        "machine-in-use",
        "Another run holds the machine, and --no-wait is given.",
        _locked("--no-wait"),
        (r"device 'host' is in use by another run \(process \d+", r"leave --no-wait out to wait"),
        codes=(5,),
        keeps=("journal",),
    ),
    _fault(
        "lock-limit",
        "Another run holds the machine for longer than we would wait.",
        _locked("--lock-limit", "1"),
        (r"waiting for another run", r"the lock limit of 1 s struck", r"--lock-limit SECONDS"),
        codes=(5,),
        keeps=("journal",),
    ),
    _fault(
        "run-limit-in-the-queue",
        "The run's limit strikes while it waits for another run.",
        _locked("--run-limit", "1"),
        (r"waiting for another run", r"the run limit of 1 s struck"),
        codes=(5,),
        keeps=("journal",),
    ),
    _fault(
        "ctrl-c-in-the-queue",
        "Ctrl-C while it waits for another run.",
        _locked(number=signal.SIGINT),
        (r"waiting for another run", r"interrupted"),
        codes=(130,),
        keeps=("journal",),
    ),
    _fault(
        "terminated-in-the-queue",
        "SIGTERM while it waits for another run.",
        _locked(number=signal.SIGTERM),
        (r"waiting for another run", r"interrupted"),
        codes=(130,),
        keeps=("journal",),
    ),
    _fault(
        "nested-run",
        "A run is started by a process that holds the machine.",
        _nested,
        (r"idling|noisy",),
        codes=(0, 3),
        keeps=("record", "journal", "reply", "log"),
    ),
    _fault(
        "stale-locks-held",
        "`BENCHSUITE_LOCKS_HELD` is left of an earlier run, and another run holds the machine.",
        _stale,
        (r"device 'host' is in use by another run \(process \d+",),
        codes=(5,),
        keeps=(),
    ),
)
