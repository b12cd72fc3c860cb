"""Kinds of single values: each reads a node, collects problems, and gives its JSON Schema.

One declaration made of these and of `containers` serves both the error messages and the schema
for editors. Must not know what a scenario is; see `shape` for that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from benchsuite.patterns import problem_of
from benchsuite.scenario import nodes
from benchsuite.scenario.words import remedy, shortened
from benchsuite.units import parse_quantity

Json = dict[str, Any]

_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


class Problems:
    """The problems found so far in one file.

    Args:
        display: How the file is named in front of each.
    """

    def __init__(self, display: str) -> None:
        self.display = display
        self._found: list[tuple[int, str]] = []

    def say(self, line: int, sentence: str) -> None:
        """Note one problem; the same one on the same line counts once."""
        sentence = shortened(sentence)
        if (line, sentence) not in self._found:
            self._found.append((line, sentence))

    def __bool__(self) -> bool:
        return bool(self._found)

    def sentences(self) -> list[str]:
        """All of them as `file:line: sentence`, by line."""
        return [f"{self.display}:{line}: {text}" for line, text in sorted(self._found)]


@dataclass(frozen=True, slots=True)
class Found:
    """What one kind read: `value` is None where the node was null or wrong."""

    value: Any
    line: int

    def get(self, key: str) -> Found | None:
        """A field of a record, or None where it is absent or was wrong."""
        found: Found | None = self.value.get(key) if isinstance(self.value, dict) else None
        return None if found is None or found.value is None else found

    def plain(self, key: str, default: Any = None) -> Any:
        """A field's value, or `default`."""
        found = self.get(key)
        return default if found is None else found.value


class Kind(Protocol):
    """What may stand at one place of the file."""

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        """Read a node.

        Args:
            node: The node.
            what: How a sentence names the place: `'max_tokens' of step 'turn'`.
            line: Where the reader would look for it: of its key, or its own.
            problems: Takes what is wrong.
        """
        ...

    def schema(self) -> Json:
        """JSON Schema of the values accepted."""
        ...


def form(node: nodes.Node) -> str:
    """What a node is, in a sentence."""
    if isinstance(node, nodes.Mapping):
        return "a mapping"
    if isinstance(node, nodes.Sequence):
        return "a list"
    return "nothing" if node.is_null else f"'{node.text}'"


def wrong(problems: Problems, line: int, what: str, expected: str, node: nodes.Node) -> Found:
    """Note that a node is not what was expected; an empty finding."""
    problems.say(line, f"{what}: expected {expected}, found {form(node)}")
    return Found(None, line)


@dataclass(frozen=True)
class Text:
    """A text, or one of a few words, or a name of a certain form."""

    choices: tuple[str, ...] = ()
    pattern: str | None = None
    expected: str = "text"
    others: tuple[str, ...] = ()  # what may stand here in another form, told among valid words

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if not isinstance(node, nodes.Scalar) or node.is_null:
            return wrong(problems, line, what, self.expected, node)
        if self.choices and node.text not in self.choices:
            hint = remedy(node.text, (*self.choices, *self.others), "valid words")
            problems.say(node.line, f"{what}: '{node.text}' is unknown{hint}")
            return Found(None, node.line)
        if self.pattern is not None and re.fullmatch(self.pattern, node.text) is None:
            return wrong(problems, node.line, what, self.expected, node)
        return Found(node.text, node.line)

    def schema(self) -> Json:
        if self.choices:
            return {"enum": list(self.choices)}
        if self.pattern is not None:
            return {"type": "string", "pattern": f"^(?:{self.pattern})$"}
        return {"type": "string"}


@dataclass(frozen=True)
class Expression:
    """A regular expression of Python."""

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if not isinstance(node, nodes.Scalar) or node.is_null or not node.text:
            return wrong(problems, line, what, "a regular expression", node)
        problem = problem_of(node.text)
        if problem is not None:
            problems.say(node.line, f"{what}: '{node.text}' is no regular expression: {problem}")
            return Found(None, node.line)
        return Found(node.text, node.line)

    def schema(self) -> Json:
        return {"type": "string", "format": "regex"}


@dataclass(frozen=True)
class Whole:
    """A whole number within limits."""

    at_least: int | None = None
    at_most: int | None = None

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        expected = "a whole number"
        if self.at_least is not None:
            expected += f" of at least {self.at_least}"
        if self.at_most is not None:
            expected += f", at most {self.at_most}"
        # the length is bounded because int() of a very long text raises
        if (
            not isinstance(node, nodes.Scalar)
            or len(node.text) > 19
            or _WHOLE.fullmatch(node.text) is None
        ):
            return wrong(problems, line, what, expected, node)
        number = int(node.text)
        if (self.at_least is not None and number < self.at_least) or (
            self.at_most is not None and number > self.at_most
        ):
            return wrong(problems, node.line, what, expected, node)
        return Found(number, node.line)

    def schema(self) -> Json:
        schema: Json = {"type": "integer"}
        if self.at_least is not None:
            schema["minimum"] = self.at_least
        if self.at_most is not None:
            schema["maximum"] = self.at_most
        return schema


@dataclass(frozen=True)
class Quantity:
    """A number above zero or at least zero, bare or with a unit."""

    unit: str
    example: str
    zero: bool = False
    at_most: float | None = None

    @property
    def expected(self) -> str:
        """What is right, in words."""
        limit = "at least 0" if self.zero else "above 0"
        if self.at_most is not None:
            limit += f" and at most {self.at_most:g}"
        return f"a number such as {self.example} ({limit})"

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        expected = self.expected
        if not isinstance(node, nodes.Scalar) or node.is_null:
            return wrong(problems, line, what, expected, node)
        try:
            number = parse_quantity(node.text, self.unit)
        except ValueError as error:
            problems.say(node.line, f"{what}: {error}; expected {expected}")
            return Found(None, node.line)
        too_small = number < 0 or (number == 0 and not self.zero)
        if too_small or number > (self.at_most if self.at_most is not None else 1e18):
            return wrong(problems, node.line, what, expected, node)
        return Found(number, node.line)

    def schema(self) -> Json:
        return {"type": ["number", "string"], "examples": [self.example]}


@dataclass(frozen=True)
class YesNo:
    """true or false."""

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        word = node.text.casefold() if isinstance(node, nodes.Scalar) else ""
        if word not in _TRUE and word not in _FALSE:
            return wrong(problems, line, what, "true or false", node)
        return Found(word in _TRUE, node.line)

    def schema(self) -> Json:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Written:
    """Any single value, kept as its scalar for one who knows later what it must be."""

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if not isinstance(node, nodes.Scalar) or node.is_null:
            return wrong(problems, line, what, "a single value", node)
        return Found(node, node.line)

    def schema(self) -> Json:
        return {"type": ["number", "string"]}


@dataclass(frozen=True)
class FlagSetting:
    """A server flag's value: text, a list that repeats the flag, or null that removes it.

    Reads to a one-tuple holding the value, so that null can be told from a wrong one.
    """

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if isinstance(node, nodes.Scalar):
            return Found((None if node.is_null else node.text,), line)
        if isinstance(node, nodes.Sequence) and node.items:
            texts = [
                item.text
                for item in node.items
                if isinstance(item, nodes.Scalar) and not item.is_null
            ]
            if len(texts) == len(node.items):
                return Found((tuple(texts),), line)
        return wrong(problems, line, what, "a value, a list of values, or null", node)

    def schema(self) -> Json:
        single: Json = {"type": ["string", "number", "boolean", "null"]}
        many = {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1}
        return {"anyOf": [single, many]}


@dataclass(frozen=True)
class RequestField:
    """A request field's value, typed as JSON would: true, 3, 0.5, text."""

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if not isinstance(node, nodes.Scalar) or node.is_null:
            return wrong(problems, line, what, "a single value", node)
        text = node.text
        if not node.plain:
            return Found(text, node.line)
        if text in ("true", "false"):
            return Found(text == "true", node.line)
        if _WHOLE.fullmatch(text) and len(text) < 19:
            return Found(int(text), node.line)
        return Found(float(text) if _DECIMAL.fullmatch(text) else text, node.line)

    def schema(self) -> Json:
        return {"type": ["string", "number", "boolean"]}
