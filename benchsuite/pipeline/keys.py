"""API keys, which come from the environment or a file and reach no record."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from benchsuite.errors import ConfigError
from benchsuite.model.deployment import Deployment
from benchsuite.redact import LEAST, Key, learn
from benchsuite.regular import open_regular

_MOST_BYTES = 64 * 1024  # of a file with a key
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def api_key(name: str | None, environ: Mapping[str, str], file: str | None = None) -> Key | None:
    """The key in the variable `name`, else in the file; None where neither is named.

    From here on it is hidden in whatever is kept or printed.

    Args:
        name: A variable of `environ`.
        environ: Usually `os.environ`.
        file: A file whose first line that is not blank is the key.

    Raises:
        ConfigError: The variable is not set, the file cannot be read, it is empty, or it holds what
            no HTTP header can carry.
    """
    if name is None and file is None:
        return None
    if name is not None and file is not None:
        raise ConfigError("the server's key is named twice, by a variable and by a file; keep one")
    if file is not None:
        key, what = _read(Path(file)), f"the file {file}"
        again = f"write the key alone on the first line of {file}"
    else:
        key, what = environ.get(name or "", ""), f"the variable '{name}'"
        again = f"set it again without: export {name}=..."
    learn(key)
    if not key:
        raise ConfigError(
            f"{what} that should hold the server's API key is "
            f"{'not set' if file is None else 'empty'}",
            hint=f"export {name}=... first, or name another variable with --api-key-env"
            if file is None
            else again,
        )
    wrong = next((at for at, char in enumerate(key, 1) if not "!" <= char <= "~"), None)
    if wrong is not None:
        raise ConfigError(
            f"the API key in {what} has a space, a line end or a character outside "
            f"ASCII at place {wrong} of {len(key)}, which no HTTP header can carry",
            hint=again,
        )
    return Key(key)


def key_of(deployment: Deployment, environ: Mapping[str, str]) -> Key | None:
    """The key of an attached server, as its deployment names it; None where it names none.

    Raises:
        ConfigError: As `api_key`.
    """
    return api_key(deployment.api_key_env, environ, deployment.api_key_file)


def key_warnings(deployment: Deployment, key: str | None) -> tuple[str, ...]:
    """What is unsafe about a key's place, length or way, a sentence each."""
    if key is None:
        return ()
    found = []
    if len(key) < LEAST:
        found.append(
            f"the server's API key has fewer than {LEAST} characters: it cannot be told from other "
            "text, and is hidden behind 'Bearer' and 'api_key' only"
        )
    parts = urlsplit(deployment.url or "")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        found.append(
            f"the server's API key travels in clear to {parts.hostname}; everybody on the way can "
            "read it, which https would prevent"
        )
    file = deployment.api_key_file
    if file is not None and os.name != "nt":
        mode = Path(file).stat().st_mode
        if mode & (stat.S_IRWXO | stat.S_IRWXG):
            found.append(f"other users may read the API key's file; type: chmod 600 {file}")
    return tuple(found)


def _read(path: Path) -> str:
    """The first line of a file that is not blank, without blanks around it."""
    try:
        with open_regular(path) as stream:
            data = stream.read(_MOST_BYTES)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"the API key's file cannot be read: {error.strerror or error}", where=str(path)
        ) from error
    except UnicodeDecodeError:
        raise ConfigError("the API key's file is not UTF-8 text", where=str(path)) from None
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
