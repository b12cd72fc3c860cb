"""Whatever cuts a journal off, what stands before is read, and it is said where it ends."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchsuite.errors import ConfigError, MachineError
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.store.ab import read_any
from benchsuite.store.floats import encode_record
from benchsuite.store.journal import (
    KIND_BEGIN,
    KIND_DOING,
    Journal,
    read_cut_journal,
    read_journal,
)
from benchsuite.store.records import JOURNAL_FILE, RECORD_FILE, read_record, write_record
from tests.unit.store.record_example import RECORD


@functools.cache
def _journal() -> bytes:
    """A journal as a run writes it: two turns of two launches."""
    events = [
        {"kind": "opened", "schema_version": 1, "utc": "2026-11-03T10:00:00+00:00"},
        {"kind": KIND_BEGIN, "record": RECORD},
    ]
    for variant in ("B", "U"):
        for turn in ("1", "2"):
            labels = {"session": "A", "turn": turn}
            words = f"turn {turn} of session A"
            events += [
                {"kind": KIND_DOING, "words": words, "variant": variant, "trial": 1},
                {"kind": "reply", "variant": variant, "labels": labels, "text": "älter\n\0"},
                {
                    "kind": "measurement",
                    "measurement": Measurement("output_tokens", 8, "", variant, labels=labels),
                },
            ]
    return b"".join(encode_record({"ns": n, **one}) + b"\n" for n, one in enumerate(events))


TAILS = st.one_of(
    st.just(b""),
    st.integers(1, 5000).map(bytes),  # zeros, as after a power cut
    st.binary(max_size=200),  # what the disk held before
    st.integers(1, 100).map(lambda depth: b'{"a":' * depth * 100),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(size=st.integers(0, len(_journal())), tail=TAILS)
def test_a_journal_cut_at_any_byte_is_read(tmp_path: Path, size: int, tail: bytes) -> None:
    """Also with zeros or rubbish behind the cut: all whole events, and where they end."""
    path = tmp_path / JOURNAL_FILE
    data = _journal()[:size] + tail
    path.write_bytes(data)
    events, end = read_cut_journal(path)
    whole = _journal()[:size].count(b"\n")
    # rubbish that begins with a line break may end the line that was cut just before it
    assert end.line == len(events) in (whole, whole + 1)
    assert end.byte + end.rest == len(data)
    assert data[: end.byte].count(b"\n") == end.line
    assert ("in the middle of a line" in end.words) == (end.rest > 0)
    if whole >= 2:
        record = read_record(tmp_path)
        assert record.interrupted
        assert record.verdict is None
        assert f"ends in line {end.line} after byte {end.byte}" in record.warnings[-1]
    else:
        with pytest.raises(ConfigError, match="killed before it measured anything"):
            read_record(tmp_path)


def test_it_is_told_what_the_run_was_doing(tmp_path: Path) -> None:
    """By the last step that was begun."""
    lines = _journal().split(b"\n")
    (tmp_path / JOURNAL_FILE).write_bytes(b"\n".join([*lines[:6], lines[6][:9]]))
    (note,) = read_record(tmp_path).warnings
    assert "killed during turn 2 of session A of variant B" in note
    assert "in line 6 after byte " in note


@pytest.mark.parametrize("rubbish", [b"", b"{", b"\0" * 4096, b'{"schema_version":1}', b"[" * 9999])
def test_a_record_that_is_rubbish_is_shown_from_the_journal(tmp_path: Path, rubbish: bytes) -> None:
    """For reports only; whoever judges or accepts is told that it cannot be read."""
    (tmp_path / JOURNAL_FILE).write_bytes(_journal())
    (tmp_path / RECORD_FILE).write_bytes(rubbish)
    found = read_any(tmp_path)
    assert isinstance(found, RunRecord)
    assert len(found.measurements) == 4
    assert found.interrupted
    assert "its record cannot be read" in found.warnings[-1]
    assert "the verdict is lost" in found.warnings[-1]
    with pytest.raises(ConfigError):
        read_record(tmp_path)


def test_a_record_of_a_newer_version_is_refused_whatever_its_journal_says(tmp_path: Path) -> None:
    """It is whole, and only this benchsuite is too old for it."""
    (tmp_path / JOURNAL_FILE).write_bytes(_journal())
    write_record(tmp_path / RECORD_FILE, msgspec.structs.replace(RECORD, schema_version=99))
    with pytest.raises(ConfigError, match="newer benchsuite"):
        read_any(tmp_path)


@contextlib.contextmanager
def _full_after(size: int) -> Iterator[None]:
    """No file of ours may grow beyond so many bytes, as where a disk is full for a moment."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the kernel")
@pytest.mark.parametrize("later", [1, 2])
def test_an_event_that_the_disk_took_in_part_is_taken_back(tmp_path: Path, later: int) -> None:
    """So what is written later stands in a line of its own and is read."""
    path = tmp_path / JOURNAL_FILE
    with Journal(path) as journal:
        size = path.stat().st_size
        with _full_after(size + 20), pytest.raises(MachineError, match="cannot write here"):
            journal.write("torn", text="x" * 100)
        assert path.stat().st_size == size
        for number in range(later):
            journal.write("later", number=number)
    assert [one.get("number") for one in read_journal(path)[1:]] == list(range(later))


class _Stuck(io.FileIO):
    """A file that cannot be cut."""

    def truncate(self, size: int | None = None, /) -> int:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the kernel")
def test_nothing_is_written_behind_half_an_event_that_stays(tmp_path: Path) -> None:
    """What stands before it can still be read, and every later event is refused with why."""
    path = tmp_path / JOURNAL_FILE
    with Journal(path) as journal:
        journal.write("whole")
        journal._stream.close()
        journal._stream = _Stuck(path, "ab")
        with _full_after(path.stat().st_size + 20), pytest.raises(MachineError):
            journal.write("torn", text="x" * 100)
        with pytest.raises(MachineError, match="half an event stays at its end"):
            journal.write("later")
    assert [one["kind"] for one in read_journal(path)] == ["opened", "whole"]
