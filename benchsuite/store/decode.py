"""The JSON of one baseline file, checked value by value so that each error has its line.

Baselines are merged and edited by hand, so a wrong one must say where it is wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import parse_selector
from benchsuite.store.floats import decode_json, is_finite
from benchsuite.store.migrations import BASELINE, check_version, migrate

_CONFLICT = re.compile(rb"^(<<<<<<<|=======|>>>>>>>|\|\|\|\|\|\|\|)", re.MULTILINE)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?|[{}\[\]]')
_FOLDER = re.compile(r"[^/\\]*$")  # of a path, what is not its folder
_BYTE = re.compile(r"\(byte (\d+)\)")
_MAX_QUANTUM = 0.1
"""In the metric's unit. llama-server prints sizes with two or three decimals; with one to spare. A
coarser quantum would make different values equal."""
_MAX_TERMS = 1024
"""Sizes that are printed apart and summed: one a device, cache and sequence."""
_KEYS = ("schema", "match", "scenario_digest", "info", "metrics")
_HINT = "restore it from version control, or remove it and accept a run anew"
_CONFLICT_HINT = (
    "take one side whole (git checkout --ours or --theirs FILE, and the text folder beside it), "
    "then accept the other side's run again"
)

DecodedSample = tuple[int | float | str, float, int, tuple[float, float] | None]
"""Value, quantum, terms, interval."""


class DecodedFile(msgspec.Struct, frozen=True):
    """The parts of a baseline file; infos are checked for their types by the caller."""

    match: dict[str, str | int]
    scenario_digest: dict[str, str]
    info: dict[str, Any]
    refreshed: list[dict[str, Any]]
    metrics: dict[str, dict[str, list[DecodedSample]]]


def decode_baseline_file(
    raw: bytes, *, where: str, read_text: Callable[[str], bytes | None]
) -> DecodedFile:
    """Decode and check a baseline file.

    Args:
        raw: Its bytes.
        where: Its path, for messages.
        read_text: Gives the bytes of a text file beside it, or None.

    Raises:
        ConfigError: With file:line, what was found and what was expected.
    """
    return _Decoder(raw, where, read_text).decode()


def series_lines(raw: bytes) -> dict[tuple[str, str], range]:
    """The lines of each series' values in a baseline file that was decoded, from 1.

    Returns:
        Variant and series -> its lines, that of the series' name included.
    """
    found: dict[tuple[str, str], range] = {}
    path: list[str] = []  # the key under which each open object or list lies
    starts: list[int] = []
    key, line, seen = "", 1, 0
    for token in _TOKEN.finditer(raw):
        line += raw.count(b"\n", seen, token.start())
        seen = token.start()
        if token[1] is not None:
            key = msgspec.json.decode(token[0][: -len(token[1])])
        elif token[0] in b"{[":
            path.append(key)
            starts.append(line)
            key = ""
        elif token[0] in b"}]":
            if len(path) == 4 and path[1] == "metrics":
                found[path[2], path[3]] = range(starts[-1], line + 1)
            path.pop()
            starts.pop()
    return found


class _Decoder:
    def __init__(self, raw: bytes, where: str, read_text: Callable[[str], bytes | None]) -> None:
        self._raw = raw
        self._where = where
        self._read_text = read_text

    def decode(self) -> DecodedFile:
        conflict = _CONFLICT.search(self._raw)
        if conflict is not None:
            self._fail_at_byte(
                conflict.start(), "holds the markers of a merge conflict", _CONFLICT_HINT
            )
        content = self._parse()
        if not isinstance(content, dict):
            self._fail((), "is not a baseline: expected an object")
        at = f"{self._where}:{self._line_of(('schema',))}"
        check_version(BASELINE, content.get("schema"), where=at)
        self._refuse_duplicates()
        content = migrate(BASELINE, content, where=at)
        for key in content:
            if key not in (*_KEYS, "refreshed"):
                self._fail((key,), f"unknown key '{key}'; expected {', '.join(_KEYS)}")
        for key in _KEYS:
            if key not in content:
                self._fail((), f"lacks the key '{key}'")
        return DecodedFile(
            match=self._match(content["match"]),
            scenario_digest=self._words(content["scenario_digest"], "scenario_digest"),
            info=self._info(content["info"], "info"),
            refreshed=self._refreshed(content.get("refreshed", [])),
            metrics=self._metrics(content["metrics"]),
        )

    def _parse(self) -> Any:
        try:
            return decode_json(self._raw)
        except msgspec.DecodeError as error:
            at = _BYTE.search(str(error))
            if at is not None:
                what = _BYTE.sub("", str(error)).strip()
                self._fail_at_byte(int(at[1]), f"is not JSON: {what}")
            self._fail_at_byte(len(self._raw), f"is not JSON: {error}")

    def _refuse_duplicates(self) -> None:
        """Refuse a key that an object has twice: of the two values, one would be lost."""
        try:
            if not _has_duplicates(self._raw):
                return
        except RecursionError:
            self._fail((), "is nested too deeply")
        seen: list[set[bytes]] = []
        for token in _TOKEN.finditer(self._raw):
            word = token[0]
            if word == b"{":
                seen.append(set())
            elif word == b"}":
                seen.pop()
            elif token[1] is not None:
                key = word[: -len(token[1])]
                if key in seen[-1]:
                    shown = msgspec.json.decode(key)
                    self._fail_at_byte(token.start(), f"has the key '{shown}' twice", _MERGE_HINT)
                seen[-1].add(key)
        self._fail((), "has a key twice", _MERGE_HINT)  # the same key, spelled differently

    def _match(self, found: Any) -> dict[str, str | int]:
        match: dict[str, str | int] = {}
        for key, value in self._object(found, "match").items():
            wanted = int if key == "seed" else str
            if not isinstance(value, wanted) or isinstance(value, bool):
                expected = "a whole number" if wanted is int else "text"
                self._fail(("match", key), f"'{key}' is {_show(value)}, expected {expected}")
            match[key] = value
        return match

    def _words(self, found: Any, *path: str) -> dict[str, str]:
        for key, value in self._object(found, *path).items():
            if not isinstance(value, str):
                self._fail((*path, key), f"'{key}' is {_show(value)}, expected text")
        return dict(found)

    def _info(self, found: Any, *path: str) -> dict[str, Any]:
        for key, value in self._object(found, *path).items():
            if key == "flags":
                for variant, flags in self._object(value, *path, key).items():
                    self._words(flags, *path, key, variant)
            elif key == "env":
                self._words(value, *path, key)
            elif value is not None and not isinstance(value, str):
                self._fail((*path, key), f"'{key}' is {_show(value)}, expected text")
        return dict(found)

    def _refreshed(self, found: Any) -> list[dict[str, Any]]:
        name = "refreshed"
        if not isinstance(found, list):
            self._fail((name,), f"'{name}' is {_show(found)}, expected a list")
        listed: set[tuple[str, str]] = set()
        for part in found:
            self._info(self._object(part, name).get("info"), name, "info")
            for variant, series in self._object(part.get("series"), name, "series").items():
                place = (name, "series", variant)
                if not isinstance(series, list) or not all(isinstance(s, str) for s in series):
                    self._fail(place, f"'{variant}' is {_show(series)}, expected a list of series")
                for text in series:
                    if (variant, text) in listed:
                        self._fail(place, f"lists '{text}' of variant {variant} twice", _MERGE_HINT)
                    listed.add((variant, text))
        return found

    def _metrics(self, found: Any) -> dict[str, dict[str, list[DecodedSample]]]:
        metrics: dict[str, dict[str, list[DecodedSample]]] = {}
        for variant, rows in self._object(found, "metrics").items():
            for series, values in self._object(rows, "metrics", variant).items():
                place = ("metrics", variant, series)
                try:
                    name = parse_selector(series).name
                except ValueError as error:
                    self._fail(place, str(error))
                if not isinstance(values, list) or not values:
                    self._fail(place, f"'{series}' is {_show(values)}, expected a list of values")
                metric = CATALOGUE.get(name)
                is_text = metric is not None and metric.assume == "text"
                read = self._text if is_text else self._number
                samples = [read(value, place) for value in values]
                metrics.setdefault(variant, {})[series] = samples
        return metrics

    def _number(self, value: Any, place: tuple[str, ...]) -> DecodedSample:
        quantum: Any = 0.0
        terms: Any = 1
        interval: Any = None
        number = value
        if isinstance(value, dict) and set(value) in _OBJECTS:
            number = value["value"]
            quantum, terms = value.get("quantum", quantum), value.get("terms", terms)
            interval = value.get("interval")
        if not _is_number(number):
            self._fail(place, f"'{place[-1]}' holds {_show(value)}, expected a number")
        if not _is_number(quantum) or not 0 <= quantum <= _MAX_QUANTUM:
            self._fail(
                place,
                f"'{place[-1]}' has quantum {_show(quantum)}, expected 0 to {_MAX_QUANTUM:g}, as "
                "coarse as anything is printed",
            )
        if not isinstance(terms, int) or isinstance(terms, bool) or not 1 <= terms <= _MAX_TERMS:
            self._fail(
                place,
                f"'{place[-1]}' has terms {_show(terms)}, expected a whole number from 1 to "
                f"{_MAX_TERMS}",
            )
        if quantum * terms / 2 > max(abs(number), 1.0):
            self._fail(
                place,
                f"'{place[-1]}' has quantum {_show(quantum)} and terms {terms}, by which "
                f"{_show(number)} would equal 0; expected those that were accepted",
            )
        if interval is not None and not (
            isinstance(interval, list)
            and len(interval) == 2
            and all(map(_is_number, interval))
            and interval[0] <= number <= interval[1]
        ):
            self._fail(
                place,
                f"'{place[-1]}' has interval {_show(interval)}, expected two numbers around "
                f"{_show(number)}",
            )
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        return (number, float(quantum), terms, ends)

    def _text(self, value: Any, place: tuple[str, ...]) -> DecodedSample:
        if not (
            isinstance(value, dict)
            and isinstance(value.get("file"), str)
            and isinstance(value.get("sha256"), str)
        ):
            self._fail(place, f"'{place[-1]}' holds {_show(value)}, expected file and sha256")
        name = value["file"]
        if "\\" in name or name.startswith("/") or ".." in name.split("/"):
            self._fail(place, f"the file '{name}' lies outside of the baseline")
        raw = self._read_text(name)
        if raw is None:
            self._fail(place, f"the text file '{name}' is not there")
        if hashlib.sha256(raw).hexdigest() != value["sha256"]:
            conflict = _CONFLICT.search(raw)
            if conflict is not None and conflict[1] == b"<<<<<<<":
                line = raw.count(b"\n", 0, conflict.start()) + 1
                where = f"{_FOLDER.sub('', self._where)}{name}:{line}"
                message = "holds the markers of a merge conflict"
                raise ConfigError(message, where=where, hint=_CONFLICT_HINT)
            self._fail(
                place,
                f"the text file '{name}' is not the one that was accepted: its sha256 differs",
                hint="was it edited, or did git change its line ends? mark it `-text` in "
                ".gitattributes; " + _HINT,
            )
        try:
            return (raw.decode("utf-8"), 0.0, 1, None)
        except UnicodeDecodeError:
            self._fail(place, f"the text file '{name}' is not UTF-8")

    def _object(self, found: Any, *path: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            self._fail(path, f"'{path[-1]}' is {_show(found)}, expected an object")
        return found

    def _fail(self, path: tuple[str, ...], message: str, hint: str = _HINT) -> NoReturn:
        raise ConfigError(message, where=f"{self._where}:{self._line_of(path)}", hint=hint)

    def _fail_at_byte(self, byte: int, message: str, hint: str = _HINT) -> NoReturn:
        line = self._raw.count(b"\n", 0, byte) + 1
        raise ConfigError(message, where=f"{self._where}:{line}", hint=hint)

    def _line_of(self, path: tuple[str, ...]) -> int:
        """The line of a key; found by its text, since the decoder keeps no positions."""
        lines = self._raw.split(b"\n")
        at = 0
        for key in path:
            quoted = msgspec.json.encode(key) + b":"
            following = range(at, len(lines))
            at = next((n for n in following if lines[n].strip().startswith(quoted)), at)
        return at + 1


_MERGE_HINT = (
    "keep one of the two: a merge may have taken both sides; or restore the file and accept anew"
)
_OBJECTS = ({"value", "quantum", "terms"}, {"value", "interval"})


def _has_duplicates(raw: bytes) -> bool:
    """Whether any object has a key twice; msgspec keeps the last and says nothing."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) != len(pairs)

    json.loads(raw, object_pairs_hook=look)
    return found


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a number that arithmetic can take."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and is_finite(value)


def _show(value: Any) -> str:
    """A JSON value as short text for a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else f"{text[:37]}..."
