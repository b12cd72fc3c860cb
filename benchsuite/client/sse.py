"""A reader of server-sent events: bytes in at any split, events out; pure.

Follows the event-stream grammar of the HTML standard (section 9.2.6) as far as llama-server uses
it: `data:` lines joined by newlines, `event:` kept, comments (its keep-alive pings) counted,
lines ended by LF, CRLF or CR, a byte order mark at the start passed over. Each byte is looked at a
fixed number of times however the stream is split.
"""

from __future__ import annotations

import msgspec

from benchsuite.errors import ServerLiedError
from benchsuite.units import MIB

EVENT_BYTES = 64 * MIB
"""The most that one event may hold; a stream that has no end of it would fill memory."""

_MARK = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True):
    """One dispatched event."""

    data: str
    kind: str = "message"


class EventReader:
    """Collects bytes and yields each event once its closing blank line has come.

    Args:
        limit: The most bytes of one event.

    Attributes:
        comments: Comment lines seen so far (keep-alives).
    """

    def __init__(self, limit: int = EVENT_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []  # of the line that was begun
        self._begun = 0  # bytes of that line
        self._size = 0  # bytes of the event that was begun, with that line
        self._data: list[str] = []
        self._kind = "message"
        self._after_cr = False
        self._start: bytes | None = b""  # what may become a byte order mark; None after it
        self.comments = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events completed by `chunk`, in order.

        Raises:
            ServerLiedError: An event is larger than the limit.
        """
        if self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(_MARK) and _MARK.startswith(chunk):
                self._start = chunk
                return []
            self._start = None
            chunk = chunk.removeprefix(_MARK)
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if not chunk:
            return []
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        tail = lines.pop()
        events: list[Event] = []
        for line in lines:
            if self._pieces:
                self._size -= self._begun  # counted when it came, and now with its line
                self._pieces.append(line)
                whole, self._begun = b"".join(self._pieces), 0
                self._pieces.clear()
            else:
                whole = line
            event = self._take(whole)
            if event is not None:
                events.append(event)
        if tail:
            self._pieces.append(tail)
            self._begun += len(tail)
            self._grow(len(tail))
        return events

    @property
    def pending(self) -> bool:
        """Whether an event was begun and not yet closed: a stream that ends so was cut."""
        return bool(self._pieces or self._data or self._start)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise ServerLiedError(
                f"an event of the stream is larger than {self._limit // MIB} MiB"
                if self._limit >= MIB
                else f"an event of the stream is larger than {self._limit} bytes"
            )

    def _take(self, line: bytes) -> Event | None:
        if not line:
            self._size = 0
            if not self._data:
                self._kind = "message"
                return None
            data = self._data[0] if len(self._data) == 1 else "\n".join(self._data)
            event = Event(data, self._kind)
            self._data, self._kind = [], "message"
            return event
        if line.startswith(b":"):
            self.comments += 1
            return None
        self._grow(len(line))
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "error":
            # llama-server before build b6000 wrote `error: {...}` where the data field belongs
            self._data.append(value)
            self._kind = "error"
        return None
