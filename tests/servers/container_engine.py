#!/usr/bin/env python3
"""A stand-in for docker, where no engine can run: same commands, answers and exit codes.

    docker run [--rm] [-d] [--name N] [-e NAME[=V]]... [-v SRC:DST[:ro]]... [-p ...] IMAGE ARG...
    docker inspect [--type container] N | logs [-f] N | stop N | kill [--signal S] N | rm [-f] N

A container is a process tree in user, process and mount namespaces of its own (`unshare`), and in
a memory cgroup of its own where this user may make one. As with dockerd, a keeper that is no child
of the client's starts it, knows nothing of the client's environment, and outlives the client. Only
the network is this machine's, so `--network host` is what it does whatever it is told.

The registry is the folder $STAND_IN_ENGINE: `images/NAME.json` holds {"entrypoint", "env"} and may
hold {"oom_on": PATTERN}: once the log matches, the container is killed as for its memory limit.
"""

# ruff: noqa: T201  # a program prints

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

REGISTRY = "STAND_IN_ENGINE"
_VALUED = {
    *("--name", "-e", "--env", "-v", "--volume", "-p", "--publish", "--network", "--gpus"),
    *("--type", "--signal", "-s", "-t", "--time", "--memory", "--entrypoint"),
}


def fail(code: int, words: str) -> NoReturn:
    print(f"docker: {words}", file=sys.stderr)
    if code == 125:
        print("\nRun 'docker run --help' for more information", file=sys.stderr)
    sys.exit(code)


def parse(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Options before the first word that is none, and the rest."""
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).partition("=")
        if name in _VALUED:
            options.setdefault(name, []).append(value if equals else words.pop(0))
        else:
            options.setdefault(name, []).append(value)
    return options, words


def several(options: dict[str, list[str]], *names: str) -> list[str]:
    return [value for name in names for value in options.get(name, [])]


class Container:
    """One container's folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(os.environ[REGISTRY]) / "containers" / name
        self.log = self.folder / "log"

    def state(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        except OSError:
            return None
        return found

    def need(self) -> dict[str, Any]:
        state = self.state()
        if state is None:
            print(f"Error response from daemon: No such container: {self.name}", file=sys.stderr)
            sys.exit(1)
        return state

    def write(self, state: dict[str, Any]) -> None:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            new = self.folder / "state.json.new"
            new.write_text(json.dumps(state))
            new.rename(self.folder / "state.json")

    def remove(self) -> None:
        for path in [*self.folder.glob("*"), self.folder]:
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()

    def signal(self, number: int) -> None:
        state = self.need()
        if not state["Running"]:
            fail(1, f"Error response from daemon: container {self.name} is not running")
        with contextlib.suppress(ProcessLookupError):
            os.kill(state["Pid"], number)

    def wait(self, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while (state := self.state()) is not None and state["Running"]:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True


def run(words: list[str]) -> None:
    options, (image, *arguments) = parse(words)
    name = (several(options, "--name") or [f"nameless-{os.getpid()}"])[0]
    container = Container(name)
    path = Path(os.environ[REGISTRY]) / "images" / f"{image.replace('/', '_')}.json"
    if not path.is_file():
        print(f"Unable to find image '{image}' locally", file=sys.stderr)
        fail(125, f"Error response from daemon: pull access denied for {image}")
    try:
        container.folder.mkdir(parents=True)
    except FileExistsError:
        fail(125, f'Error response from daemon: Conflict. The container name "/{name}" is in use')
    env = {}
    for word in several(options, "-e", "--env"):
        key, equals, value = word.partition("=")
        if equals or key in os.environ:  # a bare name hands our value on
            env[key] = value if equals else os.environ[key]
    spec = {
        "image": json.loads(path.read_text()),
        "identity": identity_of(path.read_text()),
        "arguments": arguments,
        "env": env,
        "volumes": several(options, "-v", "--volume"),
        "remove": "--rm" in options,
    }
    (container.folder / "spec.json").write_text(json.dumps(spec))
    container.log.touch()
    state = {"Status": "created", "Running": False, "Pid": 0, "ExitCode": 0, "OOMKilled": False}
    state |= {"StartedAt": "0001-01-01T00:00:00Z", "Error": "", "Id": os.urandom(32).hex()}
    container.write(state)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            kept = {REGISTRY: os.environ[REGISTRY], "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            os.execve(sys.executable, [sys.executable, "-I", __file__, "keep", name], kept)
        os._exit(0)
    os.wait()
    if "-d" in options or "--detach" in options:
        print(state["Id"])
        return
    attend(container)


def attend(container: Container) -> NoReturn:
    """Be the client: print what the container prints, hand signals on, end as it ends."""

    def hand_on(number: int, _: Any) -> None:
        with contextlib.suppress(SystemExit):
            container.signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    with container.log.open("rb") as log:
        state = container.need()
        while state["Running"] or state["Status"] == "created":
            sys.stderr.buffer.write(log.read())
            sys.stderr.flush()
            time.sleep(0.01)
            state = container.state() or state | {"Running": False, "Status": "gone"}
        sys.stderr.buffer.write(log.read())
    if state["Status"] == "gone":  # removed by force
        sys.exit(137)
    if json.loads((container.folder / "spec.json").read_text())["remove"]:
        container.remove()
    sys.exit(state["ExitCode"])


def keep(name: str) -> None:
    """Be the daemon for one container: start it, and note how it ends."""
    container = Container(name)
    state = container.need()
    spec = json.loads((container.folder / "spec.json").read_text())
    script = []
    for volume in spec["volumes"]:
        source, target = volume.split(":")[:2]
        parent = Path(target).parent
        script.append(f"mount -t tmpfs none {shlex.quote(str(parent))}")
        make = "mkdir" if Path(source).is_dir() else "touch"
        script.append(f"{make} {shlex.quote(target)}")
        script.append(f"mount --bind {shlex.quote(source)} {shlex.quote(target)}")
    inside = [*spec["image"]["entrypoint"], *spec["arguments"]]
    script.append(f"exec {shlex.join(inside)}")
    group = make_cgroup(state["Id"])
    enter = "" if group is None else f"echo $$ > {group}/cgroup.procs && "
    unshare = "exec unshare --user --map-root-user --pid --fork --kill-child --mount-proc sh -c"
    with container.log.open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", f"{enter}{unshare} {shlex.quote(' && '.join(script))}"],
            env={"PATH": os.environ["PATH"], **spec["image"].get("env", {}), **spec["env"]},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    state |= {"Pid": first_process(process), "Running": True, "Status": "running"}
    state["StartedAt"] = dt.datetime.now(dt.UTC).isoformat().replace("+00:00", "123Z")
    container.write(state)
    oom = spec["image"].get("oom_on")
    while process.poll() is None:
        if oom is not None and re.search(oom, container.log.read_text(errors="replace")):
            state["OOMKilled"] = True
            os.kill(state["Pid"], signal.SIGKILL)
            oom = None
        time.sleep(0.01)
    code = process.returncode
    state |= {"Running": False, "Status": "exited", "Pid": 0}
    state["ExitCode"] = 128 - code if code < 0 else code
    container.write(state)
    if group is not None:
        with contextlib.suppress(OSError):
            group.rmdir()


def first_process(process: subprocess.Popen[bytes]) -> int:
    """The container's first process: the child of `unshare`."""
    while process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.001)
    return 0


def make_cgroup(identity: str) -> Path | None:
    """A memory cgroup beside ours, version 1 or 2; None where this user may make none."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        base = {"memory": "/sys/fs/cgroup/memory", "": "/sys/fs/cgroup"}.get(controllers)
        if base is None:
            continue
        for parent in (f"{base}{path}", base):
            group = Path(parent) / f"stand-in-{identity}"
            try:
                group.mkdir()
            except OSError:
                continue
            usage = ("memory.usage_in_bytes", "memory.current")
            if any((group / name).exists() for name in usage):
                return group
            group.rmdir()
    return None


def inspect(words: list[str]) -> None:
    options, (name,) = parse(words)
    if several(options, "--type") == ["image"]:
        inspect_image(name)
        return
    container = Container(name)
    state = container.need()
    spec = json.loads((container.folder / "spec.json").read_text())
    shown = {"Id": state.pop("Id"), "Name": f"/{name}", "State": state, "Image": spec["identity"]}
    print(json.dumps([shown]))


def identity_of(text: str) -> str:
    """An image's id, from its file."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def inspect_image(identity: str) -> None:
    for path in (Path(os.environ[REGISTRY]) / "images").glob("*.json"):
        text = path.read_text()
        if identity == identity_of(text):
            print(
                json.dumps([{"Id": identity, "RepoDigests": json.loads(text).get("digests", [])}])
            )
            return
    fail(1, f"Error response from daemon: No such image: {identity}")


def logs(words: list[str]) -> None:
    options, (name,) = parse(words)
    container = Container(name)
    container.need()
    with container.log.open("rb") as log:
        while True:
            state = container.state()
            sys.stderr.buffer.write(log.read())
            sys.stderr.flush()
            if not ("-f" in options or "--follow" in options) or not (state or {}).get("Running"):
                return
            time.sleep(0.01)


def kill(words: list[str]) -> None:
    options, (name,) = parse(words)
    word = (several(options, "--signal", "-s") or ["KILL"])[0].removeprefix("SIG")
    Container(name).signal(getattr(signal, f"SIG{word}"))


def stop(words: list[str]) -> None:
    options, (name,) = parse(words)
    container = Container(name)
    if not container.need()["Running"]:
        return
    container.signal(signal.SIGTERM)
    if not container.wait(float((several(options, "-t", "--time") or ["10"])[0])):
        container.signal(signal.SIGKILL)
        container.wait(10)


def remove(words: list[str]) -> None:
    options, (name,) = parse(words)
    container = Container(name)
    if container.need()["Running"]:
        if "-f" not in options and "--force" not in options:
            fail(1, f"Error response from daemon: cannot remove running container {name}")
        container.signal(signal.SIGKILL)
        container.wait(10)
    container.remove()


COMMANDS = {"run": run, "inspect": inspect, "logs": logs, "kill": kill, "stop": stop, "rm": remove}


def main() -> None:
    command, *words = sys.argv[1:]
    if command == "keep":
        keep(*words)
    elif command in COMMANDS:
        COMMANDS[command](words)
    else:
        fail(125, f"'{command}' is not a docker command")


if __name__ == "__main__":
    main()
