"""Prometheus-style selectors over measurements: `cached_tokens{session="B",turn=~"1|2"}`.

A selector names exactly the labels of what it selects; trial and variant are not labels here.
Regular expressions match the whole value, as in Prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from benchsuite.model.record import Measurement
from benchsuite.patterns import found, problem_of
from benchsuite.redact import beginning

_MOST_QUOTED = 200  # characters of a selector in a message

_NAME = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*")
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*')


class Matcher(msgspec.Struct, frozen=True):
    """One condition on one label."""

    label: str
    operator: Literal["=", "!=", "=~", "!~"]
    value: str

    def accepts(self, value: str) -> bool:
        """Whether a label's value meets the condition.

        Raises:
            SlowExpressionError: A regular expression does not tell in time.
        """
        if self.operator == "=":
            return value == self.value
        if self.operator == "!=":
            return value != self.value
        return found(self.value, value, whole=True) is (self.operator == "=~")


class Selector(msgspec.Struct, frozen=True):
    """A metric's name and a condition for each of its labels."""

    name: str
    matchers: tuple[Matcher, ...]

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels named, each once, in alphabetical order."""
        return tuple(sorted({matcher.label for matcher in self.matchers}))

    def accepts(self, name: str, labels: dict[str, str]) -> bool:
        """Whether it selects a measurement of this name and these labels."""
        return (
            name == self.name
            and tuple(sorted(labels)) == self.label_names
            and all(matcher.accepts(labels[matcher.label]) for matcher in self.matchers)
        )

    def select(self, measurements: Iterable[Measurement]) -> list[Measurement]:
        """The measurements selected, in their order."""
        return [m for m in measurements if self.accepts(m.name, m.labels)]


def parse_selector(text: str) -> Selector:
    """Read a selector.

    Raises:
        ValueError: The text is not a selector; the message says what was found where.
    """
    match = _NAME.match(text)
    if match is None:
        raise ValueError(f"selector '{_cut(text)}' does not begin with a metric name")
    name, rest = match[1], text[match.end() :]
    if not rest:
        return Selector(name, ())
    if not (rest.startswith("{") and rest.rstrip().endswith("}")):
        raise ValueError(f"selector '{_cut(text)}': after the name comes {{label=\"value\",...}}")
    body = rest.strip()[1:-1]
    matchers: list[Matcher] = []
    position = 0
    while position < len(body):
        match = _MATCHER.match(body, position)
        if match is None:
            raise ValueError(
                f"selector '{_cut(text)}': expected label=\"value\" at '{_cut(body[position:])}'"
            )
        value = re.sub(r"\\(.)", r"\1", match[3]) if match[2] in ("=", "!=") else match[3]
        if match[2] in ("=~", "!~"):
            problem = problem_of(value)
            if problem is not None:
                raise ValueError(f"selector '{_cut(text)}': bad regular expression: {problem}")
        matchers.append(Matcher(match[1], match[2], value))  # type: ignore[arg-type]  # by _MATCHER
        position = match.end()
        if position < len(body):
            if body[position] != ",":
                raise ValueError(
                    f"selector '{_cut(text)}': expected a comma at '{_cut(body[position:])}'"
                )
            position += 1
    return Selector(name, tuple(matchers))


def _cut(text: str) -> str:
    """The beginning of what was found, for a message."""
    return text if len(text) <= _MOST_QUOTED else f"{beginning(text, _MOST_QUOTED)}..."


def format_series(name: str, labels: dict[str, str]) -> str:
    """One series as text that `parse_selector` reads back: `kv_mib{device="CUDA0"}`."""
    if not labels:
        return name
    pairs = ",".join(
        '{}="{}"'.format(key, labels[key].replace("\\", "\\\\").replace('"', '\\"'))
        for key in sorted(labels)
    )
    return f"{name}{{{pairs}}}"
