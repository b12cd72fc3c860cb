"""The event reader gives the same events however the bytes are split."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.client.sse import Event, EventReader
from benchsuite.errors import ServerLiedError

STREAM = (
    b": ping\n\n"
    b'data: {"a": 1}\n\n'
    b"event: note\r\ndata: two\r\ndata: lines\r\n\r\n"
    b"data:no space\n\n"
    b"id: 7\nretry: 10\ndata: [DONE]\n\n"
)
EVENTS = [
    Event('{"a": 1}'),
    Event("two\nlines", "note"),
    Event("no space"),
    Event("[DONE]"),
]


def test_events_are_read_in_order() -> None:
    """Data lines are joined, the kind is kept, unknown fields and comments are passed over."""
    reader = EventReader()
    assert reader.feed(STREAM) == EVENTS
    assert reader.comments == 1
    assert not reader.pending


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_split_gives_the_same_events(cuts: list[int]) -> None:
    """Chunk borders may fall anywhere, also inside CRLF."""
    reader = EventReader()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = [e for a, b in itertools.pairwise(edges) for e in reader.feed(STREAM[a:b])]
    assert found == EVENTS


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_read_without_an_exception(chunks: list[bytes]) -> None:
    """A hostile stream gives events or none, and never raises."""
    reader = EventReader()
    for chunk in chunks:
        for event in reader.feed(chunk):
            assert isinstance(event.data, str)


@pytest.mark.parametrize("tail", [b"data: half", b"data: no blank line after\n"])
def test_a_cut_stream_is_pending(tail: bytes) -> None:
    """An event that was begun and never closed shows that the stream was cut."""
    reader = EventReader()
    reader.feed(b"data: whole\n\n" + tail)
    assert reader.pending


def test_the_old_error_field_is_an_event() -> None:
    """Servers of 2024 wrote `error: {...}` where `data:` belongs."""
    assert EventReader().feed(b'error: {"message": "x"}\n\n') == [
        Event('{"message": "x"}', "error")
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_way_to_end_a_line_holds_byte_by_byte(end: bytes) -> None:
    """A blank line after CRLF is not taken for a part of it, wherever the bytes are split."""
    stream = b"\xef\xbb\xbf" + end.join([b"data: a", b"", b": ping", b"data: b", b"", b""])
    reader = EventReader()
    found = [event for byte in stream for event in reader.feed(bytes([byte]))]
    assert found == [Event("a"), Event("b")]
    assert EventReader().feed(stream + b"\n") == found


def test_an_event_without_an_end_is_a_named_error() -> None:
    """Nothing is collected without a limit, in one line or in many."""
    for piece in (b"x", b"data: x\n"):
        reader = EventReader(limit=1000)
        fed = (reader.feed(piece) for _ in range(2000))
        with pytest.raises(ServerLiedError, match="larger than 1000 bytes"):
            list(fed)
    reader = EventReader(limit=100)
    for _ in range(1000):
        reader.feed(b"data: x\n\n")


def test_a_line_in_many_pieces_is_joined_once() -> None:
    """Pieces that came are not touched again until their line ends: time is linear in bytes."""
    reader = EventReader()
    reader.feed(b"data: ")
    for number in range(1000):
        kept = list(reader._pieces)
        assert reader.feed(b"%03d," % number) == []
        assert len(reader._pieces) == len(kept) + 1
        assert all(now is then for now, then in zip(reader._pieces, kept, strict=False))
    assert reader.feed(b"\n\n") == [Event("".join(f"{number:03d}," for number in range(1000)))]
    assert not reader._pieces
