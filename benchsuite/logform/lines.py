"""What stands before and around a log message: timestamps, levels, colours, ports, JSON.

Seen: `0.02.118.340 I ` (2025 on), `I ` (`--no-log-timestamps`), nothing (`--no-log-prefix`, and
aborts), `[48087] ` before each line of a router's child, `name  | ` of compose, colours with and
without their escape character, `--log-jsonl` (build 11434), JSON of early 2024, and ik_llama's
`INFO [ function] text | tid=...`.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from benchsuite.redact import beginning_of_bytes

LINE_BYTES = 8192
"""Longer lines are cut: no line that is read here comes near."""


class Line(NamedTuple):
    """One log line without what surrounds its message."""

    instance: str  # port or compose name; empty for a plain server
    level: str  # `I`, `W`, `E`, `D`, or empty where none is printed
    text: str
    record: dict[str, object] | None = None  # of JSON logs


_COLOUR = re.compile(r"(?:\x1b\[|\x9b)[0-9;]*[mK]|\[[0-9;]+m")
_PREFIX = re.compile(
    r"(?:(?P<name>[A-Za-z][\w.-]*) +\| )?"
    r"(?:\[(?P<port>\d{2,5})\] )?"
    r"(?:\d+\.\d\d\.\d{3}\.\d{3} )?"
    r"(?:(?P<level>[IWEDT]) )?"
)
_INSTANCE = re.compile(rb"(?:([A-Za-z][\w.-]*) +\| )?(?:\[(\d{2,5})\] )?")
_IK = re.compile(
    r"(?P<level>INFO|WARN|ERR|VERB|WARNING|ERROR) \[ *(?P<function>\w+)\] (?P<rest>.*)"
)
_LEVELS = {
    "info": "I",
    "inf": "I",
    "warn": "W",
    "warning": "W",
    "wrn": "W",
    "error": "E",
    "err": "E",
    "debug": "D",
    "verb": "D",
    "trace": "D",
}


def read_line(raw: bytes) -> Line:
    """A line's message and where it came from; never raises.

    Args:
        raw: One line without its newline, in any encoding.
    """
    text = beginning_of_bytes(raw, LINE_BYTES).decode("utf-8", "replace").rstrip("\r\n")
    if "m" in text and ("\x1b" in text or "\x9b" in text or "[0m" in text or "[3" in text):
        text = _COLOUR.sub("", text)
    match = _PREFIX.match(text)
    if match is None or match.end() == 0:
        return _unwrap("", "", text)
    return _unwrap(_join(match["name"], match["port"]), match["level"] or "", text[match.end() :])


def _unwrap(instance: str, level: str, text: str) -> Line:
    if text.startswith("{"):
        return _read_json(instance, level, text)
    if text[:3] in ("INF", "WAR", "ERR", "VER"):
        match = _IK.match(text)
        if match is not None:
            return Line(instance, _LEVELS[match["level"].lower()], match["rest"])
    return Line(instance, level, text)


def _read_json(instance: str, level: str, text: str) -> Line:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return Line(instance, level, text)
    if not isinstance(record, dict):
        return Line(instance, level, text)
    message = record.get("msg", record.get("message"))
    named = record.get("level")
    if isinstance(named, str):
        level = _LEVELS.get(named.lower(), level)
    if not isinstance(message, str):
        return Line(instance, level, text, record)
    inner = _PREFIX.match(message)
    if inner is not None and inner["port"]:  # a router that logs JSON wraps its child's lines
        instance = _join(instance, inner["port"])
        level, message = inner["level"] or level, message[inner.end() :]
    return Line(instance, level, message.rstrip("\r\n"), record)


def read_instance(raw: bytes) -> str:
    """Only the port or compose name of a line; cheaper than `read_line`."""
    if raw[:1].isdigit():
        return ""
    if raw[:1] in (b"{", b"\x1b"):
        return read_line(raw).instance
    match = _INSTANCE.match(raw)
    if match is None or match.end() == 0:
        return ""
    name, port = match[1], match[2]
    return _join(name.decode() if name else None, port.decode() if port else None)


def _join(name: str | None, port: str | None) -> str:
    return "/".join(part for part in (name, port) if part)


_QUOTE = re.compile(r'["{]')


def is_prose(text: str) -> bool:
    """Whether a message is a comment, or quotes what users sent or got: JSON, as `-v` prints it."""
    return text.startswith("# ") or _QUOTE.search(text, 0, 200) is not None
