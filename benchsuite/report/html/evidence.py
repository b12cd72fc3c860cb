"""What only the journal of a run tells: memory over time, and when requests were sent.

A journal is read as far as it can be: a report is wanted most of runs that were cut off.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchsuite.store.records import JOURNAL_FILE, read_beside
from benchsuite.units import MIB

Place = tuple[str, int]
"""Variant and trial of a launch."""

_NS = 1e9


class MemoryPoint(msgspec.Struct, frozen=True):
    """One sample of a server's process tree."""

    at_s: float  # since the launch's first event in the journal
    rss_mib: float | None
    anon_mib: float | None


class Span(msgspec.Struct, frozen=True):
    """When one request was under way."""

    labels: dict[str, str]
    sent_s: float  # since the launch's first event in the journal
    first_s: float | None  # first token; None where none came as an event of its own
    end_s: float
    slot: int | None  # as the reply names it; chat replies do not


class Evidence(msgspec.Struct, frozen=True):
    """What the journal tells, by launch."""

    memory: dict[Place, tuple[MemoryPoint, ...]] = {}
    spans: dict[Place, tuple[Span, ...]] = {}
    notes: tuple[str, ...] = ()  # what could not be read


class _Stamps(msgspec.Struct):
    sent_ns: int = 0
    first_token_ns: int | None = None
    end_ns: int = 0


class _Reply(msgspec.Struct):
    stamps: _Stamps | None = None
    slot: int | None = None


class _Reading(msgspec.Struct):
    at_ns: int = 0
    rss_bytes: int | None = None
    anon_bytes: int | None = None


class _Event(msgspec.Struct):
    kind: str = ""
    variant: str = ""
    trial: int = 1
    labels: dict[str, str] = {}
    reply: msgspec.Raw = msgspec.Raw()
    reading: msgspec.Raw = msgspec.Raw()


def read_evidence(run: Path) -> Evidence:
    """What the journal beside a record tells.

    Args:
        run: A run folder, its `record.json`, or an archive.

    Raises:
        ConfigError: There is a journal that cannot be opened.
    """
    found = read_beside(run, JOURNAL_FILE)
    if found is None:
        return Evidence(
            notes=(f"there is no {JOURNAL_FILE} beside the record: no plots over time",)
        )
    return parse_evidence(found[0])


def parse_evidence(journal: bytes) -> Evidence:
    """What the lines of a journal tell; those that are no events are counted."""
    readings: dict[Place, list[_Reading]] = {}
    replies: dict[Place, list[tuple[dict[str, str], _Stamps, int | None]]] = {}
    unread = 0
    for line in journal.split(b"\n"):
        if b'"memory"' not in line and b'"reply"' not in line:
            continue
        try:
            event = msgspec.json.decode(line, type=_Event)
            place = (event.variant, event.trial)
            if event.kind == "memory":
                reading = msgspec.json.decode(event.reading, type=_Reading)
                readings.setdefault(place, []).append(reading)
            elif event.kind == "reply":
                reply = msgspec.json.decode(event.reply, type=_Reply)
                if reply.stamps is not None and reply.stamps.end_ns:
                    own = replies.setdefault(place, [])
                    own.append((event.labels, reply.stamps, reply.slot))
        except msgspec.DecodeError:
            unread += 1
    memory: dict[Place, tuple[MemoryPoint, ...]] = {}
    spans: dict[Place, tuple[Span, ...]] = {}
    for place in dict.fromkeys([*readings, *replies]):
        start = min(
            [r.at_ns for r in readings.get(place, ())]
            + [stamps.sent_ns for _, stamps, _ in replies.get(place, ())]
        )
        memory[place] = tuple(_point(r, start) for r in readings.get(place, ()))
        spans[place] = tuple(
            sorted((_span(*one, start) for one in replies.get(place, ())), key=lambda s: s.sent_s)
        )
    note = f"{unread} lines of {JOURNAL_FILE} cannot be read and are left out"
    return Evidence(memory, spans, (note,) if unread else ())


def _point(reading: _Reading, start: int) -> MemoryPoint:
    return MemoryPoint(
        (reading.at_ns - start) / _NS,
        None if reading.rss_bytes is None else reading.rss_bytes / MIB,
        None if reading.anon_bytes is None else reading.anon_bytes / MIB,
    )


def _span(labels: dict[str, str], stamps: _Stamps, slot: int | None, start: int) -> Span:
    first = stamps.first_token_ns
    return Span(
        labels,
        (stamps.sent_ns - start) / _NS,
        (first - start) / _NS if first else None,
        (stamps.end_ns - start) / _NS,
        slot,
    )
