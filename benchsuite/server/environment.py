"""The environment that servers are started with, and what is kept out of it.

Pure: takes an environment as a mapping and returns a new one.
"""

from __future__ import annotations

from collections.abc import Mapping

_FLAG_PREFIX = "LLAMA_ARG_"

_KEPT_OUT = frozenset(
    {
        "LLAMA_API_KEY",  # ours is set, or none
        "LLAMA_SERVER_ROUTER_PORT",  # makes llama-server a router's child (build 11434)
        "AIP_MODE",  # Vertex AI: makes llama-server ignore --port (build 11434)
    }
)


def server_environment(inherited: Mapping[str, str], *added: Mapping[str, str]) -> dict[str, str]:
    """The environment for a server: what we inherited without hidden flags, then what is added.

    Args:
        inherited: Usually `os.environ`. Its `LLAMA_ARG_*` are left out: a flag that nobody sees
            in the command would change what is measured.
        added: Later ones win; their `LLAMA_ARG_*` stay, for someone wrote them down for this
            server.
    """
    env = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(_FLAG_PREFIX) and name not in _KEPT_OUT
    }
    for more in added:
        env.update(more)
    return env


def hidden_flags(inherited: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the inherited variables that `server_environment` leaves out, sorted."""
    return tuple(
        sorted(name for name in inherited if name.startswith(_FLAG_PREFIX) or name in _KEPT_OUT)
    )
