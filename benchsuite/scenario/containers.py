"""Kinds of lists and mappings, made of other kinds.

Must not know what a scenario is; see `shape` for that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchsuite.scenario import nodes
from benchsuite.scenario.kinds import Found, Json, Kind, Problems, wrong
from benchsuite.scenario.words import remedy


@dataclass(frozen=True)
class ListOf:
    """A list; reads to a list of Found."""

    item: Kind
    item_word: str = "entry"
    at_least: int = 0

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if not isinstance(node, nodes.Sequence):
            return wrong(problems, line, what, "a list", node)
        if len(node.items) < self.at_least:
            problems.say(line, f"{what}: needs at least {self.at_least} {self.item_word}")
        word = self.item_word
        return Found(
            [
                self.item.read(item, f"{word} {number} of {what}", item.line, problems)
                for number, item in enumerate(node.items, 1)
            ],
            line,
        )

    def schema(self) -> Json:
        schema: Json = {"type": "array", "items": self.item.schema()}
        if self.at_least:
            schema["minItems"] = self.at_least
        return schema


@dataclass(frozen=True)
class MapOf:
    """A mapping with names of the author's choosing; reads to name -> Found, also of wrong ones."""

    item: Kind
    item_word: str
    key_pattern: str
    key_expected: str
    at_least: int = 0

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if not isinstance(node, nodes.Mapping):
            return wrong(problems, line, what, "a mapping", node)
        if len(node.pairs) < self.at_least:
            problems.say(line, f"{what}: needs at least {self.at_least} {self.item_word}")
        found: dict[str, Found] = {}
        for key, value in node.pairs:
            if re.fullmatch(self.key_pattern, key.text) is None:
                problems.say(
                    key.line,
                    f"{self.item_word} '{key.text}' in {what}: expected {self.key_expected}",
                )
            found[key.text] = self.item.read(
                value, f"{self.item_word} '{key.text}'", key.line, problems
            )
        return Found(found, line)

    def schema(self) -> Json:
        schema: Json = {
            "type": "object",
            "additionalProperties": self.item.schema(),
            "propertyNames": {"pattern": f"^(?:{self.key_pattern})$"},
        }
        if self.at_least:
            schema["minProperties"] = self.at_least
        return schema


@dataclass(frozen=True)
class Key:
    """One declared key of a record."""

    kind: Kind
    doc: str
    required: bool = False


@dataclass(frozen=True)
class Record:
    """A mapping with declared keys; reads to name -> Found of those present."""

    keys: Mapping[str, Key]
    doc: str = ""
    nullable: bool = False  # `B:` alone is an empty one
    others: Kind | None = None  # of keys that are not declared, where those are allowed
    exactly_one: tuple[str, ...] = ()  # of which one must be given

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        if self.nullable and isinstance(node, nodes.Scalar) and node.is_null:
            node = nodes.Mapping((), line)
        if not isinstance(node, nodes.Mapping):
            return wrong(problems, line, what, "a mapping", node)
        found: dict[str, Found] = {}
        misspelt = False
        for key, value in node.pairs:
            declared = self.keys.get(key.text)
            place = f"'{key.text}' of {what}"
            if declared is not None:
                found[key.text] = declared.kind.read(value, place, key.line, problems)
            elif self.others is not None:
                found[key.text] = self.others.read(value, place, key.line, problems)
            elif key.text == "<<":
                problems.say(key.line, f"merge key '<<' in {what} is not supported")
            else:
                misspelt = True
                hint = remedy(key.text, self.keys, "valid keys")
                problems.say(key.line, f"unknown key '{key.text}' in {what}{hint}")
        if not misspelt:  # an unknown key is most likely the one that would be missing
            self._check_given(found, what, line, problems)
        return Found(found, line)

    def _check_given(
        self, found: Mapping[str, Found], what: str, line: int, problems: Problems
    ) -> None:
        for name, declared in self.keys.items():
            if declared.required and name not in found:
                problems.say(line, f"{what}: '{name}' is missing")
        given = [name for name in self.exactly_one if name in found]
        if self.exactly_one and len(given) != 1:
            words = " or ".join(f"'{name}'" for name in self.exactly_one)
            count = "both" if len(given) == len(self.exactly_one) == 2 else len(given) or "none"
            problems.say(line, f"{what}: expected one of {words}, found {count}")

    def schema(self) -> Json:
        schema: Json = {
            "type": ["object", "null"] if self.nullable else "object",
            "properties": {
                name: {**key.kind.schema(), "description": key.doc}
                for name, key in self.keys.items()
            },
            "additionalProperties": False if self.others is None else self.others.schema(),
        }
        required = [name for name, key in self.keys.items() if key.required]
        if required:
            schema["required"] = required
        if self.exactly_one:
            schema["oneOf"] = [{"required": [name]} for name in self.exactly_one]
        if self.doc:
            schema["description"] = self.doc
        return schema


@dataclass(frozen=True)
class OneKey:
    """A mapping with exactly one of several keys; reads to (key, Found)."""

    choices: Mapping[str, Key]
    word: str

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        names = ", ".join(self.choices)
        if not isinstance(node, nodes.Mapping):
            return wrong(problems, line, what, f"a {self.word} ({names})", node)
        if len(node.pairs) != 1:
            problems.say(line, f"{what}: expected one {self.word} ({names}), found several keys")
            return Found(None, line)
        key, value = node.pairs[0]
        if key.text not in self.choices:
            hint = remedy(key.text, self.choices, f"{self.word}s")
            problems.say(key.line, f"unknown {self.word} '{key.text}'{hint}")
            return Found(None, line)
        kind = self.choices[key.text].kind
        inner = kind.read(value, f"{self.word} '{key.text}'", key.line, problems)
        return Found(None if inner.value is None else (key.text, inner), key.line)

    def schema(self) -> Json:
        return {
            "type": "object",
            "properties": {
                name: {**key.kind.schema(), "description": key.doc}
                for name, key in self.choices.items()
            },
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        }


@dataclass(frozen=True)
class ByForm:
    """Another kind for a single value, for a mapping, and for a list; reads as that kind does."""

    expected: str
    scalar: Kind | None = None
    mapping: Kind | None = None
    sequence: Kind | None = None

    def read(self, node: nodes.Node, what: str, line: int, problems: Problems) -> Found:
        kind = self.sequence
        if isinstance(node, nodes.Scalar):
            kind = self.scalar
        elif isinstance(node, nodes.Mapping):
            kind = self.mapping
        if kind is None:
            return wrong(problems, line, what, self.expected, node)
        return kind.read(node, what, line, problems)

    def schema(self) -> Json:
        kinds = [k for k in (self.scalar, self.mapping, self.sequence) if k is not None]
        return {"anyOf": [kind.schema() for kind in kinds]}
