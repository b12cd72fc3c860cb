"""A reader of server-sent events: bytes in at any split, events out; pure.

Follows the event-stream grammar of the HTML standard (section 9.2.6) as far as llama-server uses
it: `data:` lines joined by newlines, `event:` kept, comments (its keep-alive pings) counted,
lines ended by LF, CRLF or CR.
"""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True):
    """One dispatched event."""

    data: str
    kind: str = "message"


class EventReader:
    """Collects bytes and yields each event once its closing blank line has come.

    Attributes:
        comments: Comment lines seen so far (keep-alives).
    """

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[str] = []
        self._kind = "message"
        self._after_cr = False
        self.comments = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events completed by `chunk`, in order."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        buffer = self._tail + chunk
        lines = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._tail = lines.pop()
        events: list[Event] = []
        for line in lines:
            event = self._take(line)
            if event is not None:
                events.append(event)
        return events

    @property
    def pending(self) -> bool:
        """Whether an event was begun and not yet closed: a stream that ends so was cut."""
        return bool(self._tail or self._data)

    def _take(self, line: bytes) -> Event | None:
        if not line:
            if not self._data:
                self._kind = "message"
                return None
            event = Event("\n".join(self._data), self._kind)
            self._data, self._kind = [], "message"
            return event
        if line.startswith(b":"):
            self.comments += 1
            return None
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
