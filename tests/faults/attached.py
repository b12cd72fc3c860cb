"""A server that someone else runs is at fault: its log, and what it tells of itself."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.fault import Fault
from tests.faults.faulty import SCENARIO as LAUNCHED
from tests.integration.desk import REPOSITORY, Desk, Done, wait_until

_LOG = "an attached server's log is no log"
_INSPECT = "an inspected server is at fault"
_MEASURED = ("record", "journal", "reply")
_LIMIT_S = 60
_SCENARIO = LAUNCHED.replace("{flags: {threads: 1}}", "{}")


@contextlib.contextmanager
def _serving(desk: Desk, strike: str) -> Iterator[str]:
    """The URL of `tests/servers/faulty.py` as someone else runs it; it prints into server.log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, str(REPOSITORY / "tests" / "servers" / "faulty.py"), strike]
    words += ["--host", "127.0.0.1", "--port", str(port), "--model", str(desk.tiny_model())]
    words += ["--parallel", "4", "--ctx-size", "4096", "--threads", "1", "--metrics", "-lv", "4"]
    with (desk.folder / "server.log").open("ab") as log:
        server = subprocess.Popen(words, env=desk.env, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"

    def listens() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2):
            return True
        return False

    try:
        assert wait_until(listens, _LIMIT_S)
        yield url
    finally:
        server.terminate()
        server.wait(_LIMIT_S)


def _observed(strike: str) -> Callable[[Desk], Done]:
    """Makes a fault: a run against a server whose log is observed."""

    def make(desk: Desk) -> Done:
        (desk.folder / "small.yaml").write_text(_SCENARIO)
        with _serving(desk, strike) as url:
            (desk.folder / "benchsuite.toml").write_text(
                f'[deployments.live]\nurl = "{url}"\n'
                f'[deployments.live.observe]\nlog = "{desk.folder / "server.log"}"\n'
            )
            return desk.run("run", "small.yaml", "-d", "live")

    return make


def _declared(make_log: Callable[[Path], None]) -> Callable[[Desk], Done]:
    """Makes a fault: a run that is to observe a log which is none from the beginning."""

    def make(desk: Desk) -> Done:
        (desk.folder / "small.yaml").write_text(_SCENARIO)
        make_log(desk.folder / "other.log")
        with _serving(desk, "log-in-colours") as url:
            (desk.folder / "benchsuite.toml").write_text(
                f'[deployments.live]\nurl = "{url}"\n'
                f'[deployments.live.observe]\nlog = "{desk.folder / "other.log"}"\n'
            )
            return desk.run("run", "small.yaml", "-d", "live")

    return make


def _inspected(strike: str, *options: str) -> Callable[[Desk], Done]:
    """Makes a fault: `benchsuite inspect server`."""

    def make(desk: Desk) -> Done:
        with _serving(desk, strike) as url:
            return desk.run("inspect", "server", url, *options)

    return make


def _log(
    name: str,
    happens: str,
    make: Callable[[Desk], Done],
    code: int,
    *says: str,
    keeps: tuple[str, ...] = _MEASURED,
) -> Fault:
    return Fault(name, _LOG, happens, make, (code,), says, keeps)


def _inspect(
    name: str, happens: str, strike: str, *says: str, code: int = 4, idle: str = "20"
) -> Fault:
    return Fault(name, _INSPECT, happens, _inspected(strike, "--idle-limit", idle), (code,), says)


FAULTS: tuple[Fault, ...] = (
    _log(
        "observed-log-rotated",
        "the log is moved away during a turn, another is in its place",
        _observed("log-rotated"),
        0,
        r"was replaced while it was followed; lines between may be lost",
    ),
    _log(
        "observed-log-truncated",
        "the log is cut to 0 bytes during a turn",
        _observed("log-truncated"),
        0,
        r"shrank from \d+ to \d+ bytes",
    ),
    _log(
        "observed-log-deleted",
        "the log is deleted during a turn",
        _observed("log-deleted"),
        0,
        r"PASS +small",
    ),
    _log(
        "observed-log-becomes-a-folder",
        "the log is moved away during a turn, and a folder is in its place",
        _observed("log-becomes-a-folder"),
        5,
        r"server's log cannot be read: Is a directory",
    ),
    _log(
        "observed-log-is-a-folder",
        "the log that is to be observed is a folder",
        _declared(Path.mkdir),
        2,
        r"the log that deployment 'live' declares is not there|is a folder",
        keeps=(),
    ),
    _log(
        "observed-log-is-a-pipe",
        "the log that is to be observed is a named pipe that nobody writes",
        _declared(os.mkfifo),
        2,
        r"the log that deployment 'live' declares is not there",
        keeps=(),
    ),
    _log(
        "observed-log-is-empty",
        "the log that is to be observed has no line, and a gate needs it",
        _declared(Path.touch),
        0,
        r"PASS +small",
    ),
    _inspect("inspected-html", "/props is an HTML page", "html-page", r"did not answer with JSON"),
    _inspect("inspected-cut-json", "/props ends half-way", "cut-json", r"did not answer with JSON"),
    _inspect("inspected-list", "/props is a list", "list-for-object", r"should be a JSON object"),
    _inspect("inspected-deep", "/props is 100,000 objects deep", "deep-json", r"with JSON"),
    _inspect(
        "inspected-endless", "/props never ends", "endless-body", r"answer is larger than 64 MiB"
    ),
    _inspect(
        "inspected-bomb", "/props has 512 MiB in 2 MiB of gzip", "gzip-bomb", r"larger|compress"
    ),
    _inspect(
        "inspected-redirect", "/props redirects to another host", "redirect-of-props", r"redirects"
    ),
    _inspect(
        "inspected-while-loading",
        "/health says ok, all else 503",
        "ready-while-loading",
        r"Loading model",
    ),
    _inspect(
        "inspected-slots", "/slots is an object", "slots-as-an-object", r"/slots should be a list"
    ),
    _inspect(
        "inspected-metrics-html",
        "/metrics is an HTML page",
        "metrics-as-html",
        r"/metrics was not read: it tells no metric",
        code=0,
    ),
    _inspect(
        "inspected-silent",
        "/slots is never answered",
        "slots-silent",
        r"/slots: no byte for 2 s",
        idle="2",
    ),
)
