"""How many connections this process may hold at once: its limit of open files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchsuite.errors import MachineError

_KEPT = 128
"""Open files for everything that is no connection."""


@contextmanager
def connections_at_once() -> Iterator[int | None]:
    """Raise the limit of open files as far as it goes, and tell how many connections fit.

    The former limit is set again at the end: a server that we start later inherits it, and some
    still use `select`, which cannot count above 1,024. None where the system has no such limit.
    """
    if sys.platform == "win32":
        yield None
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS tells an unlimited one and grants less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        yield None if now == resource.RLIM_INFINITY else max(1, now - _KEPT)
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def require_room(room: int | None, connections: int, what: str) -> None:
    """Refuse a load that needs more connections at once than fit.

    Args:
        room: As of `connections_at_once`.
        connections: So many it needs.
        what: It, in words.

    Raises:
        MachineError: They do not fit.
    """
    if room is not None and room < connections:
        raise MachineError(
            f"{what} needs {connections} connections at once, but the limit of open files, "
            f"{room + _KEPT}, leaves {room} for them",
            hint=f"raise it, the hard one too: ulimit -n {connections + _KEPT} (of a container: "
            f"--ulimit nofile={connections + _KEPT}); or ask with fewer users",
        )
