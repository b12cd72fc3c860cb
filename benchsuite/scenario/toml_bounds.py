"""What a TOML file may hold at most, and the lines where its keys stand."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from benchsuite.errors import ConfigError

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 16
MAX_VALUES = 10_000
MAX_TEXT = 10_000
"""Characters of one text or key."""

_MAX_NUMBER = 2**53
_LINE_CHARACTERS = 500  # of a line that are looked at for its keys

_STRING_OR_COMMENT = re.compile(
    r'''"""(?:[^\\"]|\\.?|"(?!""))*+(?:""")?'''
    r"""|'''(?:[^']|'(?!''))*+(?:''')?"""
    r"""|"(?:[^"\\\n]|\\[^\n]?)*+"?|'[^'\n]*+'?|#[^\n]*+""",
    re.DOTALL,
)
"""Each also where its end is missing, so that a text is gone through once."""

_LONG_KEY = re.compile(rf"(?<![\w.-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MAX_DEPTH}}}", re.ASCII)


def refuse_long_keys(path: Path, text: str) -> None:
    """Refuse keys of more parts than tables may be deep, before the file is parsed.

    `tomllib` takes time by the square of a dotted key's parts: 10 s for 20,000.

    Raises:
        ConfigError: There is one.
    """
    plain = _STRING_OR_COMMENT.sub(_without_text, text)
    found = _LONG_KEY.search(plain)
    if found is not None:
        raise ConfigError(
            f"a key has more than {MAX_DEPTH} parts, the most that tables may be deep",
            where=f"{path}:{plain.count(chr(10), 0, found.start()) + 1}",
        )


def _without_text(match: re.Match[str]) -> str:
    lines = "\n" * match[0].count("\n")
    return lines if match[0].startswith("#") else f"q{lines}"


def bounded(path: Path, text: str, table: object, prefix: tuple[str, ...]) -> None:
    """Refuse what no configuration needs, before anything is made of it.

    Raises:
        ConfigError: Too many values, too deep, too long, or a number that is none here.
    """
    pending: list[tuple[tuple[str, ...], int, object]] = [(prefix, 0, table)]
    count = 0

    def refuse(keys: tuple[str, ...], sentence: str) -> NoReturn:
        place = line_of(text, keys)
        name = f"'{'.'.join(keys[len(prefix) :])[:60]}'" if keys != prefix else "it"
        raise ConfigError(f"{name} {sentence}", where=f"{path}:{place}")

    while pending:
        keys, depth, value = pending.pop()
        count += 1
        if count > MAX_VALUES:
            refuse(prefix, f"has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            refuse(keys, f"is nested more than {MAX_DEPTH} deep")
        if isinstance(value, dict):
            for key, inner in value.items():
                if len(key) > MAX_TEXT:
                    refuse(keys, f"has a key of more than {MAX_TEXT} characters")
                pending.append(((*keys, key), depth + 1, inner))
        elif isinstance(value, list):
            pending += [(keys, depth + 1, inner) for inner in value]
        elif isinstance(value, str) and len(value) > MAX_TEXT:
            refuse(keys, f"has {len(value)} characters, more than {MAX_TEXT}")
        elif isinstance(value, float) and not math.isfinite(value):
            refuse(keys, f"is {value}; expected a number")
        elif isinstance(value, int | float) and abs(value) > _MAX_NUMBER:
            refuse(keys, f"is too large a number; expected at most {_MAX_NUMBER}")


def line_of(text: str, keys: tuple[str, ...]) -> int:
    """The line where a key stands, as far as a search can tell; 1 where it cannot.

    Args:
        text: A TOML file.
        keys: From the outermost table to the key.
    """
    exact, below = _places(text)
    whole = below.get(keys)
    if whole is not None:
        return whole
    for depth in range(len(keys) - 1, 0, -1):  # a line that names the parent
        if keys[:depth] in exact:
            return exact[keys[:depth]]
    return 1


_Places = dict[tuple[str, ...], int]


@lru_cache(maxsize=4)
def _places(text: str) -> tuple[_Places, _Places]:
    """The first lines of what is named, and of what is named or has something below it."""
    exact: _Places = {}
    below: _Places = {}
    table: tuple[str, ...] = ()
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole[:_LINE_CHARACTERS]
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line)
        entry = re.match(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[\w\"'-]+)*)\s*=", line)
        if header is not None:
            found = table = _dotted(header[1])
        elif entry is not None:
            found = (*table, *_dotted(entry[1]))
        else:
            continue
        exact.setdefault(found, number)
        for depth in range(1, len(found) + 1):
            below.setdefault(found[:depth], number)
    return exact, below


def _dotted(text: str) -> tuple[str, ...]:
    parts = re.findall(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)", text)
    return tuple(next(filter(None, groups), "") for groups in parts)
