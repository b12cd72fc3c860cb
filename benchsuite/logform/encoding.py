"""Logs in UTF-16, as redirecting in PowerShell writes them, read as UTF-8."""

from __future__ import annotations

import codecs

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class ToUtf8:
    """Passes bytes on as they are, unless the first two say that they are UTF-16."""

    def __init__(self) -> None:
        self._begun = b""  # less than two bytes
        self._decoder: codecs.IncrementalDecoder | None = None
        self._plain = False

    def take(self, chunk: bytes) -> bytes:
        """The next bytes of the log; what cannot be decoded yet is kept back."""
        if self._plain:
            return chunk
        if self._decoder is None:
            self._begun += chunk
            if len(self._begun) < len(_MARKS[0]):
                return b""
            chunk, self._begun = self._begun, b""
            if not chunk.startswith(_MARKS):
                self._plain = True
                return chunk
            self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        return self._decoder.decode(chunk).encode("utf-8", "replace")

    def finish(self) -> bytes:
        """What was kept back; the log has ended."""
        rest, self._begun = self._begun, b""
        return rest
