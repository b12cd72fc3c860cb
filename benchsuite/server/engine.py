"""What a container engine's client tells of a container: docker, podman, and what speaks alike.

Read from `inspect`, whose `State` has the same fields in docker 20 to 28 and podman 3 to 5. The
client may be called through others (`sudo docker`, `ssh HOST docker`).
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from benchsuite.server.bounded import run_bounded

_ASK_LIMIT_S = 10.0
_CLOCK_SLACK_S = 10.0  # between an engine's clock and the kernel's start times
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_ABSENT = re.compile(r"no such (?:container|object)", re.IGNORECASE)


class Container(msgspec.Struct, frozen=True):
    """A container as `inspect` shows it."""

    identity: str  # its full id; empty where the engine does not tell
    running: bool
    pid: int  # of its first process, as the engine's host numbers it; 0 once it has ended
    exit_code: int
    oom_killed: bool  # it reached its memory limit
    started_at: float | None  # seconds since the epoch; None where it is not told
    error: str = ""  # why it could not be started
    image: str = ""  # the id of what it was made of; empty where the engine does not tell


class NoContainer(msgspec.Struct, frozen=True):
    """Why there is nothing to tell of a container."""

    reason: str
    is_absent: bool = False  # the engine has none of this name; else it could not be asked


def inspect_container(engine: Sequence[str], name: str) -> Container | NoContainer:
    """The container's state now.

    Args:
        engine: The words that call the engine: `docker`, or `sudo docker`.
        name: Of the container, or its id.
    """
    done = _ask(engine, "container", name)
    if isinstance(done, NoContainer):
        return done
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace").strip()
        last = text.splitlines()[-1] if text else f"exit code {done.returncode}"
        absent = _ABSENT.search(text) is not None
        return NoContainer(f"{engine[-1]} inspect {name}: {last}", is_absent=absent)
    return parse_inspect(done.stdout)


def image_digest(engine: Sequence[str], image: str) -> str:
    """What names an image wherever it is: `ghcr.io/x/llama@sha256:...`; else its id here.

    Args:
        engine: The words that call the engine.
        image: Its id, as a container tells it.

    Returns:
        The first of its `RepoDigests`; `sha256:...`, the id, of one that was never pulled or
        pushed (each host that builds it has another). Empty where neither is told.
    """
    done = _ask(engine, "image", image) if image else NoContainer("the image is not told")
    if not isinstance(done, NoContainer) and done.returncode == 0:
        found = parse_image(done.stdout)
        if found:
            return found
    return _image_id(image)


def parse_image(text: bytes | str) -> str:
    """The digest in what `inspect --type image` printed; empty where there is none."""
    try:
        shown: Any = json.loads(text)
        one = shown[0] if isinstance(shown, list) else shown
        digests = sorted(str(digest) for digest in one.get("RepoDigests") or ())
        return digests[0] if digests else _image_id(str(one.get("Id", "")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


def _image_id(text: str) -> str:
    """Docker writes `sha256:` before an id, podman does not."""
    match = _DIGEST.fullmatch(text)
    return "" if match is None else f"sha256:{match[1]}"


def _ask(
    engine: Sequence[str], kind: str, name: str
) -> subprocess.CompletedProcess[bytes] | NoContainer:
    try:
        return run_bounded([*engine, "inspect", "--type", kind, name], _ASK_LIMIT_S)
    except OSError as error:
        return NoContainer(f"{engine[0]} could not be asked: {error.strerror}")
    except subprocess.TimeoutExpired:
        return NoContainer(f"{engine[-1]} did not answer 'inspect' within {_ASK_LIMIT_S:g} s")


def parse_inspect(text: bytes | str) -> Container | NoContainer:
    """The container that `inspect` printed."""
    try:
        shown: Any = json.loads(text)
        one = shown[0] if isinstance(shown, list) else shown
        state = one["State"]
        return Container(
            identity=str(one.get("Id", one.get("ID", ""))),
            running=bool(state["Running"]),
            pid=int(state.get("Pid", 0)),
            exit_code=int(state.get("ExitCode", 0)),
            oom_killed=bool(state.get("OOMKilled", False)),
            started_at=_seconds(str(state.get("StartedAt", ""))),
            error=str(state.get("Error", "")),
            image=str(one.get("Image", "")),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return NoContainer("what the engine printed for 'inspect' is not understood")


def pid_here(container: Container, proc: Path = Path("/proc")) -> int | None:
    """The process id of a running container, if that process is one of this machine.

    An engine tells the id that its own host uses, which may be another machine, a virtual one
    (Docker Desktop), or a namespace outside ours; here that number may be anyone's. So it must
    have the container's id in its cgroup, or have started when the container did.
    """
    if container.pid <= 0:
        return None
    try:
        started = psutil.Process(container.pid).create_time()
    except psutil.Error:
        return None
    try:
        cgroup = (proc / str(container.pid) / "cgroup").read_text()
    except OSError:
        cgroup = ""
    if container.identity and container.identity in cgroup:
        return container.pid
    if container.started_at is None or abs(started - container.started_at) > _CLOCK_SLACK_S:
        return None
    return container.pid


def _seconds(text: str) -> float | None:
    """Seconds since the epoch of `2026-11-02T10:11:12.123456789Z`; None where it is no time."""
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.\d+)?\s*(Z|[+-]\d\d:?\d\d)?.*", text
    )
    if match is None or text.startswith("0001-"):  # docker's zero time
        return None
    zone = "+00:00" if match[2] in (None, "Z") else match[2]
    try:
        return dt.datetime.fromisoformat(match[1] + zone).timestamp()
    except ValueError:
        return None
