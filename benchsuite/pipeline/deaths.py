"""Whether, and how, a launched server has died: what its process, its log and the kernel tell."""

from __future__ import annotations

import asyncio
import time

from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.oom import OomKills, killer
from benchsuite.logform.facts import LogFacts
from benchsuite.model.record import ServerEnd
from benchsuite.server.ending import CRASH_SIGNALS, KILLER_UNKNOWN, describe_end
from benchsuite.server.launch import LaunchedServer

_DEATH_SECONDS = 0.5
"""How long after a broken exchange the process may take to be gone."""
_CLIENT_DEATH_SECONDS = 5.0
"""The same for a command's client, which an engine tells of its container's end."""


async def end_soon(server: LaunchedServer) -> ServerEnd | None:
    """Its end, waited for as long as a dying process may take; None where it lives on."""
    seconds = _DEATH_SECONDS if server.behind is None else _CLIENT_DEATH_SECONDS
    deadline = time.monotonic() + seconds
    while (end := server.poll()) is None:
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(0.005)
    return end


def how_it_ended(server: LaunchedServer, end: ServerEnd, log: LogFollower | None) -> str:
    """An end in words, with what the log tells of it."""
    if end.crash is not None and (end.how == "forced" or server.behind is not None):
        return end.crash  # we killed it, and say why; or an engine told
    if log is not None:
        log.poll()
    return describe_end(end.exit_code, end.signal, None if log is None else log.facts())


def with_killer(sentence: str, before: OomKills | None) -> str:
    """The sentence with the sender of SIGKILL in it, where the kernel's counters tell one.

    Args:
        sentence: Of an end.
        before: The counters at the server's start.
    """
    if KILLER_UNKNOWN not in sentence:
        return sentence
    return sentence.replace(KILLER_UNKNOWN, killer(before) or KILLER_UNKNOWN)


def crashed_in_stop(end: ServerEnd, log: LogFacts) -> bool:
    """Whether stopping ended in a crash: a wrapper's own exit code or a forced stop is none."""
    return end.how == "died" or end.signal in CRASH_SIGNALS or log.crash is not None
