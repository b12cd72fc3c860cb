"""What only the journal of a run tells: memory over time, and when requests were sent.

A journal is read as far as it can be: a report is wanted most of runs that were cut off.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.report.html.in_step import InStep
from benchsuite.store.records import JOURNAL_FILE, read_beside
from benchsuite.units import MIB

Place = tuple[str, int]
"""Variant and trial of a launch."""

_NS = 1e9

MOST_SPANS = 2000
"""Requests of a launch that are kept one by one."""

MOST_READINGS = 4096
"""Readings of a launch's memory; beyond, half of them go, never a peak or a trough."""


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
    in_step: dict[Place, InStep] = {}  # of launches that had requests
    notes: tuple[str, ...] = ()  # what could not be read, or was too much


class _Stamps(msgspec.Struct):
    sent_ns: int = 0
    first_token_ns: int | None = None
    end_ns: int = 0


class _Reply(msgspec.Struct):
    stamps: _Stamps | None = None
    slot: int | None = None
    output_tokens: int | None = None


class _Reading(msgspec.Struct):
    at_ns: int = 0
    rss_bytes: int | None = None
    anon_bytes: int | None = None


class _Sample(msgspec.Struct):
    at_ns: int = 0
    in_flight: int | None = None
    busy: int | None = None
    deferred: int | None = None
    held_tokens: int | None = None
    gap: str = ""


class _Event(msgspec.Struct):
    kind: str = ""
    variant: str = ""
    trial: int = 1
    labels: dict[str, str] = {}
    reply: msgspec.Raw = msgspec.Raw()
    reading: msgspec.Raw = msgspec.Raw()
    sample: msgspec.Raw = msgspec.Raw()


_KINDS = (b'"memory"', b'"reply"', b'"server"')


class _Launch:
    """What is kept of one launch, bounded however long its journal is."""

    def __init__(self) -> None:
        self.readings: list[_Reading] = []
        self.replies: list[tuple[dict[str, str], _Stamps, int | None]] = []
        self.replied = 0
        self.in_step = InStep()

    def take(self, event: _Event) -> None:
        """Take one event.

        Raises:
            DecodeError: It is none.
        """
        if event.kind == "memory":
            reading = msgspec.json.decode(event.reading, type=_Reading)
            self.readings.append(reading)
            if len(self.readings) > MOST_READINGS:
                self.readings = _halved(self.readings)
            if reading.anon_bytes is not None:
                there = self.in_step.at(reading.at_ns)
                there.least("low_anon_mib", reading.anon_bytes / MIB)
                there.most("high_anon_mib", reading.anon_bytes / MIB)
        elif event.kind == "server":
            self._take_sample(msgspec.json.decode(event.sample, type=_Sample))
        elif event.kind == "reply":
            self._take_reply(event.labels, msgspec.json.decode(event.reply, type=_Reply))

    def _take_sample(self, sample: _Sample) -> None:
        self.in_step.looks += 1
        there = self.in_step.at(sample.at_ns)
        there.most("in_flight", sample.in_flight)
        if sample.gap:
            there.gaps += 1
            return
        there.most("busy", sample.busy)
        there.most("deferred", sample.deferred)
        there.most("held", sample.held_tokens)

    def _take_reply(self, labels: dict[str, str], reply: _Reply) -> None:
        stamps = reply.stamps
        if stamps is None or not stamps.end_ns:
            return
        self.replied += 1
        if len(self.replies) < MOST_SPANS:
            self.replies.append((labels, stamps, reply.slot))
        there = self.in_step.at(stamps.end_ns)
        there.replies += 1
        there.tokens += reply.output_tokens or 0
        if stamps.first_token_ns:
            ttft_ms = (stamps.first_token_ns - stamps.sent_ns) / 1e6
            there.least("low_ttft_ms", ttft_ms)
            there.most("high_ttft_ms", ttft_ms)


def read_evidence(run: Path) -> Evidence:
    """What the journal beside a record tells; one in a folder is read line by line.

    Args:
        run: A run folder, its `record.json`, or an archive.

    Raises:
        ConfigError: There is a journal that cannot be opened.
    """
    path = (run if run.is_dir() else run.parent) / JOURNAL_FILE
    if (run.is_dir() or run.suffix == ".json") and path.is_file():
        try:
            with path.open("rb") as stream:
                return _gather(stream)
        except OSError as error:
            raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from error
    found = read_beside(run, JOURNAL_FILE)
    if found is None:
        return Evidence(
            notes=(f"there is no {JOURNAL_FILE} beside the record: no plots over time",)
        )
    return parse_evidence(found[0])


def parse_evidence(journal: bytes) -> Evidence:
    """What the lines of a journal tell; those that are no events are counted."""
    return _gather(journal.split(b"\n"))


def _gather(lines: Iterable[bytes]) -> Evidence:
    launches: dict[Place, _Launch] = {}
    unread = 0
    for line in lines:
        if not any(kind in line for kind in _KINDS):
            continue
        try:
            event = msgspec.json.decode(line, type=_Event)
            place = (event.variant, event.trial)
            if event.kind in ("memory", "reply", "server"):
                launches.setdefault(place, _Launch()).take(event)
        except msgspec.DecodeError:
            unread += 1
    memory: dict[Place, tuple[MemoryPoint, ...]] = {}
    spans: dict[Place, tuple[Span, ...]] = {}
    notes = []
    for place, seen in launches.items():
        starts = [r.at_ns for r in seen.readings[:1]]
        starts += [stamps.sent_ns for _, stamps, _ in seen.replies]
        if not starts:
            continue
        start = min(starts)
        memory[place] = tuple(_point(r, start) for r in seen.readings)
        spans[place] = tuple(
            sorted((_span(*one, start) for one in seen.replies), key=lambda s: s.sent_s)
        )
        if seen.replied > MOST_SPANS:
            notes.append(
                f"variant {place[0]}, trial {place[1]}: of {seen.replied:,} requests the first "
                f"{MOST_SPANS:,} are shown one by one, and all of them over time"
            )
    if unread:
        notes.append(f"{unread} lines of {JOURNAL_FILE} cannot be read and are left out")
    in_step = {place: seen.in_step for place, seen in launches.items() if seen.replied}
    return Evidence(memory, spans, in_step, tuple(notes))


def _halved(readings: list[_Reading]) -> list[_Reading]:
    """Half of the readings: of each four the one with the least memory and that with the most."""
    kept: list[_Reading] = readings[:1]
    for i in range(1, len(readings), 4):
        part = readings[i : i + 4]
        low = min(part, key=lambda r: r.anon_bytes or r.rss_bytes or 0)
        high = max(part, key=lambda r: r.anon_bytes or r.rss_bytes or 0)
        kept += [low] if low is high else sorted((low, high), key=lambda r: r.at_ns)
    return kept


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
