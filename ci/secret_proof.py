"""Show that a server's key is in no command line, no written file and no printed line.

    python ci/secret_proof.py [--proc] [--server PROGRAM] [--plant argv|file|print|piece]

A launched server (its random key is read from its environment) and an attached one are
benchmarked in a folder of their own, under `strace` where there is one: then the arguments of
every execve, and every write to a file or to the outputs, are searched. Without strace
(`--proc`) the command lines in /proc are read again and again, which may miss short ones. Either
way every file left below the folder (HOME and TMPDIR lie in it) and everything printed is
searched, for the key as it is, percent-encoded, escaped in JSON, and in base64, and for any 16
characters of it in a row.

Not searched: environments, by which the key is given on purpose; what goes to sockets and pipes.
`--plant` leaks a key on purpose instead, which must be found.

Exit codes: 0 nothing found, 1 found, 2 it could not be shown.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchsuite.server.tiny_model import tiny_model  # noqa: E402

_MARK = "SECRET_PROOF_MARK"
_KEY = "PROOF_KEY"  # the variable that holds the attached server's key
_CALLS = "execve,execveat,write,writev,pwrite64,sendto,sendmsg,openat"
_LIMIT_SECONDS = 300
PIECE = 16  # characters of a key that are found by themselves; of 64 random bits when hexadecimal
_PLANTS = {
    "argv": "sh -c 'sleep 1; :' x \"$PROOF_KEY\"",
    "file": 'printf "me:%s" "$PROOF_KEY" | base64 -w0 > planted',
    "print": 'printf "%s\\n" "$PROOF_KEY"',
    "piece": 'printf "x%.25s\\n" "$PROOF_KEY"',
}
_HEX = re.compile(rb"(?:\\x[0-9a-f]{2})+")
_CALL = re.compile(rb"^(?:\d+ +)?(?P<name>\w+)\((?:(?P<fd>\d+)<(?P<what>[^>]*)>)?(?P<rest>.*)$")


@dataclass
class Look:
    """What was searched, and what was found."""

    execves: int = 0  # command lines seen
    writes: int = 0  # writes to files and outputs seen; 0 without strace
    files: int = 0  # files left behind
    searched: int = 0  # bytes
    replies: int = 0  # of a server, in the journals left behind
    keys: set[str] = field(default_factory=set)
    found: list[str] = field(default_factory=list)  # where, never the key

    def search(self, where: str, data: bytes) -> None:
        """Look for every key in the data."""
        self.searched += len(data)
        for key in self.keys:
            for name, form in needles(key):
                if form in data:
                    self.found.append(f"{where}: {name}")


def forms(key: str) -> Iterator[tuple[str, bytes]]:
    """The key as it may be written, each with a name; base64 at each of three places."""
    raw = key.encode()
    yield "plain", raw
    quoted = urllib.parse.quote(key, safe="")
    yield "percent-encoded", quoted.encode()
    yield "percent-encoded", urllib.parse.quote(key).encode()
    yield "percent-encoded", re.sub("%..", lambda m: m[0].lower(), quoted).encode()
    yield "in JSON", json.dumps(key)[1:-1].encode()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw)
        core = text[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        yield "in base64", core
        yield "in base64", core.translate(bytes.maketrans(b"+/", b"-_"))


@cache
def needles(key: str) -> tuple[tuple[str, bytes], ...]:
    """What may stand nowhere: the key's forms, and its pieces, since a key may have been cut."""
    starts = range(1 + max(0, len(key) - PIECE))
    pieces = {form for at in starts for form in _texts(key[at : at + PIECE])}
    return (*forms(key), *(("a piece of it", piece) for piece in sorted(pieces)))


def _texts(piece: str) -> Iterator[bytes]:
    yield from (form for name, form in forms(piece) if name != "in base64")


class Watch(threading.Thread):
    """Reads the environments and command lines of all marked processes, again and again."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self._mark = f"{_MARK}={mark}".encode()
        self._done = threading.Event()
        self.commands: set[tuple[int, bytes]] = set()
        self.keys: set[str] = set()

    def run(self) -> None:
        """Until `stop`."""
        while not self._done.wait(0.01):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    environ = (folder / "environ").read_bytes().split(b"\0")
                    if self._mark not in environ:
                        continue
                    self.commands.add((int(folder.name), (folder / "cmdline").read_bytes()))
                except OSError:
                    continue
                for entry in environ:
                    if entry.startswith(b"LLAMA_API_KEY="):
                        self.keys.add(entry.partition(b"=")[2].decode())

    def stop(self) -> None:
        """End it."""
        self._done.set()
        self.join()


def read_trace(path: Path, look: Look) -> None:
    """Search what strace wrote down."""
    with path.open("rb") as trace:
        for line in trace:
            call = _CALL.match(line)
            if call is None:
                continue
            name, fd, what = call["name"].decode(), call["fd"], _plain(call["what"] or b"")
            if name.startswith("execve"):
                look.execves += 1
                # the arguments: strings that strace parted are joined
                look.search("command line", _plain(call["rest"]))
            elif name in ("write", "writev", "pwrite64"):
                if fd in (b"1", b"2") or what.startswith(b"/"):
                    look.writes += 1
                    look.search(f"write to {what.decode(errors='replace')}", _plain(call["rest"]))
            elif name == "openat":
                look.search("name of a file", _plain(call["rest"]))


def _plain(text: bytes) -> bytes:
    return _HEX.sub(lambda m: bytes.fromhex(m[0].decode().replace("\\x", "")), text)


def case(words: list[str], folder: Path, key: str | None, *, traced: bool) -> tuple[int, Look]:
    """Run a command in a folder of its own, and search all that it left.

    Args:
        words: The command.
        folder: Empty; made the working folder, and HOME and TMPDIR lie below.
        key: In the variable `PROOF_KEY`; None: the random one of a launched server.
        traced: With strace.
    """
    for name in ("home", "tmp", "work"):
        (folder / name).mkdir(parents=True)
    mark = secrets.token_hex(8)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LLAMA_", "BENCHSUITE_"))}
    env |= {
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "home" / ".cache"),
        "TMPDIR": str(folder / "tmp"),
        "BENCHSUITE_LOCKS": str(folder / "tmp" / "locks"),
        "PYTHONPATH": str(ROOT),
        _MARK: mark,
    }
    if key is not None:
        env[_KEY] = key
    trace = folder.with_suffix(".strace")
    tracer = ["strace", "-f", "-y", "-xx", "-s", "100000", "-e", f"trace={_CALLS}", "-o"]
    command = [*tracer, str(trace), *words] if traced else words
    watch = Watch(mark)
    watch.start()
    try:
        done = subprocess.run(
            command,
            cwd=folder / "work",
            env=env,
            capture_output=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )
    finally:
        watch.stop()
    look = Look(keys=watch.keys if key is None else {key})
    if traced:
        read_trace(trace, look)
    else:
        look.execves = len(watch.commands)
        for _, line in watch.commands:
            look.search("command line", line)
    look.search("standard output", done.stdout)
    look.search("standard error", done.stderr)
    for path in folder.rglob("*"):
        look.search("name of a file", str(path).encode())
        if path.is_file() and not path.is_symlink():
            look.files += 1
            data = path.read_bytes()
            look.search(str(path.relative_to(folder)), data)
            if path.name == "samples.jsonl":
                look.replies += data.count(b'"kind":"reply"')
    if done.returncode not in (0, 3):
        print((done.stdout + done.stderr).decode(errors="replace")[-2000:], file=sys.stderr)
    return done.returncode, look


@contextmanager
def served(folder: Path, key: str) -> Iterator[str]:
    """The URL of an embedded server with a key, that is not ours to start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir()
    words = [sys.executable, "-m", "benchsuite.server.embedded", "-m", str(tiny_model(folder))]
    words += ["--host", "127.0.0.1", "--port", str(port), "-c", "8192", "-np", "2", "--metrics"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "LLAMA_API_KEY": key}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(words, env=env, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).close()
                break
            except (urllib.error.URLError, OSError):
                if server.poll() is not None:
                    break
                time.sleep(0.1)
        yield url
    finally:
        server.kill()
        server.wait()


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--proc", action="store_true", help="read /proc, also where strace is")
    parser.add_argument("--plant", choices=_PLANTS, help="leak a key, which must be found")
    parser.add_argument("--server", action="append", default=[], help="a llama-server to launch")
    options = parser.parse_args()
    traced = shutil.which("strace") is not None and not options.proc
    key = f'proof/{secrets.token_hex(8)}+"\\={secrets.token_hex(8)}'
    run = [sys.executable, "-m", "benchsuite", "run", "scenarioB", "--variant", "B"]
    run += ["--json", "out.json", "--html", "out.html", "--junit", "out.xml"]
    worst = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def tell(name: str, code: int, look: Look) -> None:
            nonlocal worst
            kind = "strace" if traced else "/proc"
            print(
                f"{name}: exit {code}, {look.replies} replies; {kind}: {look.execves} "
                f"command lines, {look.writes} writes; {look.files} files; {look.searched:,} "
                f"bytes searched for {len(look.keys)} key(s) in {len(list(forms('x')))} forms "
                f"and in pieces: {len(look.found)} found"
            )
            for where in sorted(set(look.found)):
                print(f"  found in {where}")
            if look.found:
                worst = 1
            elif code not in (0, 3) or not (look.keys and look.execves and look.replies):
                # 3: an attached server has no log, so gates on it stay inconclusive
                print("  nothing is shown: it did not run to its end, or no key was seen")
                worst = worst or 2

        if options.plant:
            words = ["sh", "-c", f'"$@" >/dev/null; {_PLANTS[options.plant]}', "sh"]
            words += [sys.executable, "-m", "benchsuite", "--version"]
            tell("planted", *case(words, folder / "planted", key, traced=traced))
            return worst
        tell("launched, embedded", *case(run, folder / "embedded", None, traced=traced))
        for i, program in enumerate(options.server):
            words = [*run, "--server", program]
            tell(f"launched, {program}", *case(words, folder / f"real{i}", None, traced=traced))
        with served(folder / "server", key) as url:
            words = [*run, "--url", url, "--api-key-env", _KEY]
            tell("attached", *case(words, folder / "attached", key, traced=traced))
    return worst


if __name__ == "__main__":
    sys.exit(main())
