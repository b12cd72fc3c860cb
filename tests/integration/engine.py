"""A desk with the stand-ins for docker and ssh on its PATH, and images that hold real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.integration.desk import REPOSITORY, Desk

SERVERS = REPOSITORY / "tests" / "servers"
EMBEDDED = [sys.executable, "-P", str(REPOSITORY / "benchsuite" / "server" / "embedded.py")]
_NAMESPACES = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"]

DEPLOYMENT = """[deployments.box]
command = [
  "docker", "run", "--name", "{name}", "--network", "host", "-v", "{model}:/srv/model.gguf:ro",
  "-e", "{key_env}", "llama", "--model", "/srv/model.gguf", "--host", "{host}", "--port", "{port}",
  "{flags}",
]
container = "{name}"
flags = {n-gpu-layers = 0}
"""
"""As an owner would write it; the stand-in's network is the host's."""


def no_namespaces() -> str | None:
    """Why the stand-in cannot make containers here; None where it can."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    try:
        done = subprocess.run(_NAMESPACES, capture_output=True, text=True, timeout=20)
    except OSError as error:
        return f"unshare cannot be run: {error.strerror}"
    return None if done.returncode == 0 else f"unshare is not permitted: {done.stderr.strip()}"


class EngineDesk:
    """A desk, the registry of its engine, and its images.

    Args:
        desk: Gets the engine's folders and PATH.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.registry = desk.folder / "registry"
        (self.registry / "images").mkdir(parents=True)
        programs = desk.folder / "programs"
        programs.mkdir()
        (programs / "docker").symlink_to(SERVERS / "container_engine.py")
        (programs / "ssh").symlink_to(SERVERS / "remote_shell.py")
        # the stand-ins begin with `env python3`: the one that runs the tests
        (programs / "python3").symlink_to(sys.executable)
        desk.env["PATH"] = f"{programs}{os.pathsep}{desk.env['PATH']}"
        desk.env["STAND_IN_ENGINE"] = str(self.registry)
        self.image("llama", EMBEDDED)
        self.declare(DEPLOYMENT)

    def image(self, name: str, entrypoint: list[str], **more: str) -> None:
        """Put an image into the registry."""
        env = {"PYTHONPATH": str(REPOSITORY)}
        text = json.dumps({"entrypoint": entrypoint, "env": env, **more})
        (self.registry / "images" / f"{name}.json").write_text(text)

    def declare(self, text: str) -> None:
        """Write benchsuite.toml."""
        (self.desk.folder / "benchsuite.toml").write_text(text)

    def containers(self) -> list[str]:
        """The names of the containers that there are, running or not."""
        folder = self.registry / "containers"
        return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []

    def state(self, name: str) -> dict[str, Any]:
        """A container's state."""
        path = self.registry / "containers" / name / "state.json"
        state: dict[str, Any] = json.loads(path.read_text())
        return state

    def processes(self) -> list[psutil.Process]:
        """What runs in containers of this desk, with their keepers."""
        mark = f"STAND_IN_ENGINE={self.registry}"
        found = []
        for one in psutil.process_iter():
            try:
                environ = Path(f"/proc/{one.pid}/environ").read_bytes()
                words = one.cmdline()
                served = any("/srv/model.gguf" in word for word in words) and "docker" not in words
                kept = mark.encode() in environ and "keep" in words
                if kept or (served and "--port" in words and self._is_ours(one)):
                    found.append(one)
            except (psutil.Error, OSError):
                continue
        return found

    def _is_ours(self, process: psutil.Process) -> bool:
        """Whether it descends from a keeper of this desk's."""
        mark = f"STAND_IN_ENGINE={self.registry}".encode()
        return any(
            mark in Path(f"/proc/{parent.pid}/environ").read_bytes()
            for parent in process.parents()
            if parent.pid > 1
        )
