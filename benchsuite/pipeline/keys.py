"""API keys, which come from the environment and reach no record."""

from __future__ import annotations

from collections.abc import Mapping

from benchsuite.errors import ConfigError


def api_key(name: str | None, environ: Mapping[str, str]) -> str | None:
    """The key in the variable `name`; None where no variable is named.

    Raises:
        ConfigError: The variable is not set, or empty.
    """
    if name is None:
        return None
    key = environ.get(name, "")
    if not key:
        raise ConfigError(
            f"the variable '{name}' that should hold the server's API key is not set",
            hint=f"export {name}=... first, or name another variable with --api-key-env",
        )
    return key
