"""API keys, which come from the environment and reach no record."""

from __future__ import annotations

from collections.abc import Mapping

from benchsuite.errors import ConfigError


def api_key(name: str | None, environ: Mapping[str, str]) -> str | None:
    """The key in the variable `name`; None where no variable is named.

    Raises:
        ConfigError: The variable is not set, empty, or holds what no HTTP header can carry.
    """
    if name is None:
        return None
    key = environ.get(name, "")
    if not key:
        raise ConfigError(
            f"the variable '{name}' that should hold the server's API key is not set",
            hint=f"export {name}=... first, or name another variable with --api-key-env",
        )
    wrong = next((at for at, char in enumerate(key, 1) if not "!" <= char <= "~"), None)
    if wrong is not None:
        raise ConfigError(
            f"the API key in the variable '{name}' has a space, a line end or a character outside "
            f"ASCII at place {wrong} of {len(key)}, which no HTTP header can carry",
            hint=f"set it again without: export {name}=...",
        )
    return key
