"""Whether the kernel has killed for want of memory: counters read before and after."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchsuite.collect.cgroup import find_place, parse_stat
from benchsuite.collect.process_memory import Unreadable

_EVENTS: dict[int, str] = {1: "memory.oom_control", 2: "memory.events"}
_FIELD = "oom_kill"
"""Of version 2, of version 1 since Linux 4.13, and of `/proc/vmstat` since then."""


class OomKills(msgspec.Struct, frozen=True):
    """How many processes were killed so far."""

    file: Path  # what told
    words: str  # it, for a sentence
    of_server: bool  # whether it counts the server's cgroup alone; else the whole machine
    kills: int  # since the cgroup was made, or the machine started


def read_oom_kills(pid: int | str, root: Path = Path("/")) -> OomKills | None:
    """The counter of a process' cgroup, else of the machine; None where there is none.

    Args:
        pid: A process that lives: a dead one has no cgroup.
        root: What stands before `/proc` and every mount point.
    """
    place = find_place(pid, root)
    if not isinstance(place, Unreadable):
        name = _EVENTS[place.version]
        words = f"{name} of cgroup {place.path}"
        found = _read(place.folder / name, words, of_server=True)
        if found is not None:
            return found
    return _read(root / "proc" / "vmstat", "oom_kill of /proc/vmstat", of_server=False)


def killer(before: OomKills | None) -> str | None:
    """Who sent SIGKILL, where the counter has moved since `before`; None where that is unknown."""
    if before is None:
        return None
    after = _read(before.file, before.words, of_server=before.of_server)
    if after is None or after.kills <= before.kills:
        return None
    more = after.kills - before.kills
    told = f"{before.words} counts {more} kill{'' if more == 1 else 's'} since its launch"
    if before.of_server:
        return f"by the out-of-memory killer ({told})"
    return f"most likely by the out-of-memory killer ({told}, of the whole machine)"


def _read(file: Path, words: str, *, of_server: bool) -> OomKills | None:
    try:
        kills = parse_stat(file.read_text()).get(_FIELD)
    except OSError:
        return None
    return None if kills is None else OomKills(file, words, of_server, kills)
