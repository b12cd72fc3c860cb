"""GGUF headers written by hand, for tests of what is read of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

Value = bool | int | float | str | Sequence[bool] | Sequence[int] | Sequence[float]

_BOOL, _INT32, _UINT32, _FLOAT, _ARRAY = 7, 5, 4, 6, 9


class Header:
    """Writes a GGUF header in either byte order."""

    def __init__(self, order: str = "<", version: int = 3) -> None:
        self._order = order
        self._version = version
        self._keys: list[bytes] = []

    def _pack(self, code: str, *values: object) -> bytes:
        return struct.pack(self._order + code, *values)

    def _text(self, text: str) -> bytes:
        return self._pack("Q", len(text.encode())) + text.encode()

    def text(self, key: str, value: str) -> Header:
        """Add a string."""
        self._keys.append(self._text(key) + self._pack("I", 8) + self._text(value))
        return self

    def number(self, key: str, value: int) -> Header:
        """Add an unsigned integer."""
        self._keys.append(self._text(key) + self._pack("II", _UINT32, value))
        return self

    def texts(self, key: str, values: list[str]) -> Header:
        """Add an array of strings."""
        body = b"".join(self._text(value) for value in values)
        self._keys.append(self._text(key) + self._pack("IIQ", 9, 8, len(values)) + body)
        return self

    def value(self, key: str, value: Value) -> Header:
        """Add a value as converters write it: by its type."""
        if isinstance(value, str):
            return self.text(key, value)
        if isinstance(value, bool | int | float):
            kind, code = self._kind(value)
            self._keys.append(self._text(key) + self._pack(f"I{code}", kind, value))
            return self
        kind, code = self._kind(min(value)) if value else (_INT32, "i")
        body = self._pack(f"{len(value)}{code}", *value)
        self._keys.append(self._text(key) + self._pack("IIQ", _ARRAY, kind, len(value)) + body)
        return self

    def _kind(self, value: float) -> tuple[int, str]:
        if isinstance(value, bool):
            return _BOOL, "?"
        if type(value) is float:
            return _FLOAT, "f"
        return (_UINT32, "I") if value >= 0 else (_INT32, "i")

    def content(self, *, tensors: int = 0, keys: int | None = None) -> bytes:
        """The file; counts may lie."""
        count = len(self._keys) if keys is None else keys
        head = b"GGUF" + self._pack("IQQ", self._version, tensors, count)
        return head + b"".join(self._keys)


def write_model(path: Path, architecture: str, keys: Mapping[str, Value]) -> Path:
    """Write a model without tensors, its keys given without the architecture's name."""
    header = Header().text("general.architecture", architecture)
    for key, value in keys.items():
        header.value(f"{architecture}.{key}", value)
    path.write_bytes(header.content())
    return path
