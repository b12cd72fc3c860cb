"""The server behind the fixture `llama_server`.

One server stands at a time: two could together exceed what a device holds. It is kept from test to
test as long as they ask for the same flags.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchsuite.errors import BenchsuiteError
from benchsuite.pipeline.keys import key_of
from benchsuite.pipeline.prepare import chosen_deployment
from benchsuite.pipeline.standing import StandingServer, start_server
from benchsuite.pytest_plugin.runs import options_of
from benchsuite.scenario.workspace import Workspace, load_workspace

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S = 60.0
_LAST_LINES = 20

_standing: tuple[tuple[str, ...], StandingServer] | None = None  # with the flags asked for


class LlamaServer:
    """A healthy llama-server for a test.

    Attributes:
        url: `http://HOST:PORT`, without a slash at the end.
        api_key: For `Authorization: Bearer`; None where the server needs none.
        log_path: The server's log; None of a server that was running already.
        pid: Of its process; None as above.
        command: As one would type it, without the key; empty as above.
    """

    def __init__(self, url: str, key: str | None, standing: StandingServer | None = None) -> None:
        self._standing = standing
        self.url = url
        self.api_key = key
        self.log_path: Path | None = None if standing is None else standing.log_path
        self.pid: int | None = None if standing is None else standing.pid
        self.command: tuple[str, ...] = () if standing is None else standing.command

    @property
    def headers(self) -> dict[str, str]:
        """What a request must carry."""
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}

    @property
    def log(self) -> str:
        """What the server has printed so far; empty of a server that was running already."""
        return "" if self.log_path is None else self.log_path.read_text("utf-8", "replace")

    @cached_property
    def client(self) -> httpx.Client:
        """An HTTP client with the server's address and key; closed after the test."""
        import httpx

        return httpx.Client(base_url=self.url, headers=self.headers, timeout=_TIMEOUT_S)

    def in_use(self) -> AbstractContextManager[object]:
        """Keep runs with noisy gates from the server's devices."""
        return nullcontext() if self._standing is None else self._standing.in_use()

    def close(self) -> None:
        """Close the client, if one was made."""
        client = self.__dict__.pop("client", None)
        if client is not None:
            client.close()


def serve(request: pytest.FixtureRequest) -> Iterator[LlamaServer]:
    """The fixture's work: a server with the test's flags, and a look at it afterwards."""
    mark = request.node.get_closest_marker("llama_server")
    flags, fresh = _asked(mark)
    config = request.config
    server, fault = None, ""
    try:
        workspace = load_workspace(Path(config.invocation_params.dir))
        server = _attached(config, workspace) or _launched(request, workspace, flags, fresh=fresh)
    except BenchsuiteError as error:
        fault = f"{error}\n  {error.hint}" if error.hint else str(error)
    if server is None:
        pytest.fail(f"llama_server: {fault}", pytrace=False)
    try:
        with server.in_use():
            yield server
    finally:
        server.close()
        ended = _ended()
        if fresh or ended is not None:
            stop()
    if ended is not None:
        pytest.fail(f"the server died during the test: {ended}\n{_tail(server)}", pytrace=False)


def _asked(mark: pytest.Mark | None) -> tuple[tuple[str, ...], bool]:
    """The mark's flags as `FLAG=VALUE`, and whether the server is for this test alone."""

    def read(flags: Mapping[str, object] | None = None, fresh: bool = False) -> tuple[object, bool]:
        return flags or {}, fresh

    try:
        flags, fresh = ({}, False) if mark is None else read(*mark.args, **mark.kwargs)
        words = tuple(
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in sorted(dict(flags).items())  # type: ignore[call-overload]
        )
    except (TypeError, ValueError) as error:
        pytest.fail(
            f"the mark llama_server takes flags (a mapping) and fresh: {error}", pytrace=False
        )
    return words, fresh


def _attached(config: pytest.Config, workspace: Workspace) -> LlamaServer | None:
    """The running server that the options mean; None where one is to be launched."""
    deployment = chosen_deployment(workspace, options_of(config))
    if not deployment.attached or deployment.url is None:
        return None
    key = key_of(deployment, os.environ)
    return LlamaServer(deployment.url.rstrip("/"), key)


def _launched(
    request: pytest.FixtureRequest, workspace: Workspace, flags: tuple[str, ...], *, fresh: bool
) -> LlamaServer:
    global _standing
    if _standing is not None and (fresh or _standing[0] != flags):
        stop()
    if _standing is None:
        folder = request.getfixturevalue("tmp_path_factory").mktemp("llama_server")
        options = options_of(request.config)
        _standing = flags, start_server(workspace, options, flags, os.environ, folder)
    standing = _standing[1]
    return LlamaServer(standing.url, standing.api_key, standing)


def _ended() -> str | None:
    """How the standing server ended by itself; None while it runs, or where there is none."""
    end = None if _standing is None else _standing[1].poll()
    return None if end is None else end.crash or f"exit code {end.exit_code}"


def _tail(server: LlamaServer) -> str:
    lines = server.log.splitlines()[-_LAST_LINES:]
    return "\n".join([f"last lines of {server.log_path}:", *lines])


def stop() -> None:
    """Stop the standing server, if there is one."""
    global _standing
    if _standing is not None:
        standing, _standing = _standing[1], None
        standing.stop()
