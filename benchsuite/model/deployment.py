"""A named server: how it is started or reached, with which model and flags."""

from __future__ import annotations

import msgspec

from benchsuite.model.scenario import FlagValue

TINY = "tiny"
"""The built-in deployment: our tiny model on whatever server is found."""

ADHOC = "adhoc"
"""The deployment of `--model` or `--url` without `-d`."""

ROUTER_FLAGS = ("models-dir", "models-preset")
"""Flags of a router, which has its models from a folder or a file of presets."""

OWN_MODEL_FLAGS = (*ROUTER_FLAGS, "hf-repo", "model-url", "docker-repo")
"""Flags by which a server finds its model itself."""


class Observe(msgspec.Struct, frozen=True):
    """What can be seen of an attached server besides HTTP."""

    log: str | None = None  # a file
    log_command: tuple[str, ...] = ()  # prints the log instead: `docker logs -f NAME`
    pid: int | None = None
    container: str | None = None  # the container that is the server
    engine: tuple[str, ...] = ("docker",)  # the words that call its engine

    @property
    def has_log(self) -> bool:
        """Whether the server's log can be read."""
        return self.log is not None or bool(self.log_command)


class Command(msgspec.Struct, frozen=True):
    """How a server is started by a program that is not the server: an engine, ssh, a scheduler.

    Argument lists hold placeholders (`PLACEHOLDERS` of scenario/templates.py).
    """

    argv: tuple[str, ...]
    help: tuple[str, ...] = ()  # prints the server's help; empty: `argv` with --help for the flags
    stop: tuple[str, ...] = ()  # asks the server to end; empty: the signal TERM
    kill: tuple[str, ...] = ()  # ends it and removes what is left; run also when we are killed
    log: tuple[str, ...] = ()  # prints the server's log; empty: `argv` does
    engine: tuple[str, ...] = ()  # the words that call it: `docker`, or `sudo docker`
    container: str | None = None  # the container that is the server
    pidfile: str | None = None  # the file with the server's process id
    process: str | None = None  # matches the command line of the server's process
    host: str = "127.0.0.1"  # where the server is reached
    model_inside: str | None = None  # the model's path as the server sees it
    elsewhere: bool = False  # whether the server runs, or may run, on another host

    @property
    def shares_files(self) -> bool:
        """Whether the server sees the folders of this machine by the same paths."""
        return self.container is None and not self.elsewhere


class Deployment(msgspec.Struct, frozen=True):
    """Which server a scenario is driven against."""

    name: str
    server: str | None = None  # path of a llama-server; None looks one up
    command: Command | None = None  # what starts it instead of a llama-server's path
    url: str | None = None  # attached where given
    model: str | None = None  # path of a GGUF file; None: the tiny model, or the attached server's
    model_name: str | None = None  # `model` of every request: a router's name for the model
    flags: dict[str, FlagValue] = {}
    env: dict[str, str] = {}  # for the launched server
    api_key_env: str | None = None  # the variable that holds an attached server's key
    api_key_file: str | None = None  # or the file that does; absolute
    ca: str | None = None  # PEM file of the CA that signed an attached server's certificate
    limits: dict[str, float] = {}  # of waits, in seconds by the names of `Limits`
    observe: Observe = Observe()
    requests_per_second: float | None = None  # cap towards attached servers; 0 lifts it
    rpc: str | None = None  # ggml-rpc-server for variants that need one: `auto`, or a path
    overlays: dict[str, dict[str, dict[str, FlagValue]]] = {}  # scenario -> variant -> flags
    sources: dict[str, str] = {}  # folders of source code by key; a single one has DEFAULT_FOLDER
    source: str = "built in"  # file where it was declared, for messages
    # flag as written (of overlays `SCENARIO.VARIANT.flag`) -> file:line, for messages
    places: dict[str, str] = {}

    @property
    def attached(self) -> bool:
        """Whether the server is someone else's."""
        return self.url is not None
