"""The header of a GGUF file: its metadata, without its tensors.

An own reader, since importing gguf imports numpy and costs 150 to 220 ms, and since gguf's reader
builds every array: here big vocabularies are stepped over and a hostile header allocates next to
nothing. Reads versions 2 and 3 in both byte orders, and of a split model the part it is given.

Must not know what a key means, nor import numpy.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchsuite.errors import ConfigError

_MOST_KEYS = 100_000
_MOST_TENSORS = 1_000_000
_MOST_STRINGS = 20_000_000  # in one array; the largest vocabularies have 300,000
_MOST_KEY_BYTES = 65_535  # what gguf allows
_MOST_TEXT_BYTES = 1_000_000
_MOST_DIMENSIONS = 4
_MOST_NUMBERS = 4096
"""Longest array of numbers that is kept: one a layer, of which llama.cpp allows 512."""
_MOST_KEPT_NUMBERS = 1_000_000
"""Numbers of arrays that are kept of one header, all together."""

_TEXTS = frozenset(["general.architecture", "general.name"])
"""Keys whose string is kept; chat templates and the like are stepped over."""

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""Metadata type -> its struct code."""

_LOOKALIKES = (
    (b"PK\x03\x04", "a zip archive, as PyTorch saves", "convert it with convert_hf_to_gguf.py"),
    (b"lmgg", "GGML, the format before GGUF", "fetch or convert the model as GGUF"),
    (b"fmgg", "GGMF, a format before GGUF", "fetch or convert the model as GGUF"),
    (b"tjgg", "GGJT, a format before GGUF", "fetch or convert the model as GGUF"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file itself: git lfs pull"),
    (b"\x7fELF", "a program", "give the model file, not the server"),
    (b"\x1f\x8b", "gzip", "unpack it first"),
    (b"<", "a web page", "fetch the model again: the download brought an error page"),
)

Number = int | float


@contextmanager
def open_gguf(path: Path) -> Iterator[tuple[Header, mmap.mmap]]:
    """A file's header, and its bytes while the block lasts.

    Raises:
        ConfigError: The file is missing, unreadable, no GGUF, cut short or hostile.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(
                f"a {'folder' if stat.S_ISDIR(mode) else 'device'} where a model file was expected",
                where=str(path),
                hint="give the .gguf file itself",
            )
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ConfigError(
                    "an empty file where a GGUF model was expected",
                    where=str(path),
                    hint="fetch the model again",
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield Header(content, path), content
    except FileNotFoundError as error:
        raise ConfigError(
            "no such model file", where=str(path), hint="check the path, or leave --model out"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"a model file that cannot be read: {reason}", where=str(path)) from error


class Header:
    """The metadata of one open GGUF file, and where its header ends.

    Values that matter are taken while the file is mapped; everything else is stepped over.

    Args:
        content: The mapped file; not needed afterwards.
        path: For messages.

    Raises:
        ConfigError: It is no GGUF, cut short or hostile.
    """

    def __init__(self, content: mmap.mmap, path: Path) -> None:
        self.size_bytes = len(content)
        # None: a kind of value that is not kept
        self.keys: dict[str, Number | str | tuple[Number, ...] | None] = {}
        self.end = 0  # of header and tensor list, in bytes from the file's start
        self._numbers = 0  # kept in arrays so far
        self._content = content
        self._path = path
        self._at = 0
        self._doing = "the header"
        try:
            self._read()
        except (struct.error, OverflowError) as error:
            raise self._cut_short() from error
        finally:
            del self._content

    def number(self, key: str) -> int | None:
        """The integer of a key (of an array of integers its largest), or None."""
        value = self.keys.get(key)
        if isinstance(value, tuple):
            value = max(value, default=None)
        return value if isinstance(value, int) else None

    def text(self, key: str) -> str | None:
        """The string of a key, or None."""
        value = self.keys.get(key)
        return value if isinstance(value, str) else None

    def _read(self) -> None:
        content = self._content
        if content[:4] != b"GGUF":
            raise self._no_gguf()
        self._at = 4
        self._order = "<"
        version = self._take("I")
        if version & 0xFFFF == 0:  # a small number in the other byte order
            self._order = ">"
            self._at = 4
            version = self._take("I")
        if version not in (2, 3):
            raise ConfigError(
                f"GGUF version {version} where 2 or 3 was expected",
                where=str(self._path),
                hint="convert the model anew: llama-server does not read this version either",
            )
        tensors, keys = self._take("Q"), self._take("Q")
        self._limit("tensors", tensors, _MOST_TENSORS, 24)
        self._limit("metadata keys", keys, _MOST_KEYS, 13)
        for number in range(keys):
            self._doing = f"metadata key {number + 1} of {keys}"
            key = self._string(_MOST_KEY_BYTES)
            self._doing = f"metadata key '{key}'"
            value = self._value(key, self._take("I"))
            self.keys.setdefault(key, value)
        last_tensor = 0  # offset from where the data begin
        for number in range(tensors):
            self._doing = f"tensor {number + 1} of {tensors}"
            self._string(_MOST_KEY_BYTES)
            dimensions = self._take("I")
            if dimensions > _MOST_DIMENSIONS:
                raise self._absurd(f"a tensor of {dimensions} dimensions")
            self._skip(8 * dimensions + 4)
            last_tensor = max(last_tensor, self._take("Q"))
        self.end = self._at
        self._doing = "the data of its tensors"
        self._skip(last_tensor)

    def _value(self, key: str, kind: int) -> Number | str | tuple[Number, ...] | None:
        if kind in _SCALARS:
            value = self._take(_SCALARS[kind])
            return value if isinstance(value, float) else int(value)
        if kind == _STRING:
            if key in _TEXTS:
                return self._string(_MOST_TEXT_BYTES)
            self._skip(self._take("Q"))
            return None
        if kind == _ARRAY:
            return self._array(self._take("I"), self._take("Q"))
        raise self._absurd(f"a value of type {kind}")

    def _array(self, kind: int, count: int) -> tuple[Number, ...] | None:
        """The numbers of an array that is short enough to be one a layer; others None."""
        if kind in _SCALARS:
            code = _SCALARS[kind]
            begin = self._at
            self._skip(count * struct.calcsize(f"={code}"))
            if count > _MOST_NUMBERS or self._numbers + count > _MOST_KEPT_NUMBERS:
                return None
            self._numbers += count
            numbers = struct.unpack_from(f"{self._order}{count}{code}", self._content, begin)
            return tuple(int(n) for n in numbers) if code == "?" else numbers
        if kind != _STRING:
            raise self._absurd(f"an array of values of type {kind}")
        self._limit("strings", count, _MOST_STRINGS, 8)
        # the one loop that is long: 250,000 tokens take about 40 ms
        content, at = self._content, self._at
        length_at = struct.Struct(f"{self._order}Q").unpack_from
        for _ in range(count):
            at += 8 + length_at(content, at)[0]
        self._at = at
        self._skip(0)
        return None

    def _take(self, code: str) -> Any:
        taken = struct.Struct(self._order + code)
        value = taken.unpack_from(self._content, self._at)[0]
        self._at += taken.size
        return value

    def _string(self, most_bytes: int) -> str:
        length = self._take("Q")
        if length > most_bytes:
            raise self._absurd(f"a string of {length} bytes")
        begin = self._at
        self._skip(length)
        return self._content[begin : self._at].decode("utf-8", "replace")

    def _skip(self, length: int) -> None:
        self._at += length
        if self._at > self.size_bytes:
            raise self._cut_short()

    def _limit(self, what: str, count: int, most: int, least_bytes: int) -> None:
        """Refuse a count before anything is done that often."""
        if count > most:
            raise self._absurd(f"{count} {what}")
        if count * least_bytes > self.size_bytes - self._at:
            raise self._cut_short()

    def _cut_short(self) -> ConfigError:
        return ConfigError(
            f"a GGUF file that is cut short: it has {self.size_bytes} bytes, and "
            f"{self._doing} needs more",
            where=str(self._path),
            hint="fetch the model again",
        )

    def _absurd(self, found: str) -> ConfigError:
        return ConfigError(
            f"a damaged GGUF header: {self._doing} has {found}",
            where=str(self._path),
            hint="fetch the model again",
        )

    def _no_gguf(self) -> ConfigError:
        first = self._content[:32]
        what, remedy = "an unknown format", "give a .gguf file"
        if first[8:10] == b'{"':
            what, remedy = "safetensors", "convert it with convert_hf_to_gguf.py"
        for magic, lookalike, its_remedy in _LOOKALIKES:
            if first.startswith(magic):
                what, remedy = lookalike, its_remedy
        return ConfigError(
            f"no GGUF file: its first bytes are {bytes(first[:8])!r} ({what}) where b'GGUF' was "
            "expected",
            where=str(self._path),
            hint=remedy,
        )
