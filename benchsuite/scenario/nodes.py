"""YAML text to nodes that know their lines; scalars stay as they were written.

Built from the parser's events rather than its composer: nesting and alias expansion are bounded
before anything recurses, and nothing is guessed about a scalar (`on` stays `on`). Must not know
what a scenario looks like.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from benchsuite.errors import ScenarioError
from benchsuite.regular import NotRegularError, open_regular

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
MAX_NODES = 20_000
"""Nodes of one file with every alias expanded; the largest sensible scenario has hundreds."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class Scalar:
    """One scalar as written; `plain` where it had no quotes and was no block."""

    text: str
    plain: bool
    line: int

    @property
    def is_null(self) -> bool:
        """Whether it says nothing: empty, `~` or `null`, without quotes."""
        return self.plain and self.text in _NULLS


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in their order; every key occurs once."""

    pairs: tuple[tuple[Scalar, Node], ...]
    line: int


Node = Scalar | Sequence | Mapping


def read_nodes(path: Path, display: str) -> Node:
    """The one document of a file.

    Args:
        path: The file.
        display: How problems name it.

    Raises:
        ScenarioError: It cannot be read, or is not one YAML document within the limits above.
    """
    return parse_nodes(_read_text(path, display), display)


def _read_text(path: Path, display: str) -> str:
    try:
        if path.is_dir():
            raise ScenarioError([f"{display}: is a folder; name a scenario file in it"])
        with open_regular(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ScenarioError([f"{display}: no such file"]) from None
    except NotRegularError as error:
        raise ScenarioError([f"{display}: {error.strerror}"]) from error
    except OSError as error:
        raise ScenarioError([f"{display}: cannot be read: {error.strerror or error}"]) from error
    if len(raw) > MAX_BYTES:
        raise ScenarioError([f"{display}: is larger than 1 MiB, the limit of a scenario file"])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ScenarioError([f"{display}:{line}: is not UTF-8 text"]) from None


def parse_nodes(text: str, display: str) -> Node:
    """The one YAML document in `text`.

    Raises:
        ScenarioError: As `read_nodes`; a syntax error ends the reading, duplicate keys are all
            named.
    """
    _refuse_tabs(text, display)
    import yaml  # here, since most commands never read YAML

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(display)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        what = error.problem or "cannot be read"
        context = f" ({error.context})" if error.context else ""
        raise ScenarioError([f"{display}:{line}: is not YAML: {what}{context}"]) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        what = " ".join(str(error).split())
        raise ScenarioError([f"{display}:1: is not YAML: {what}"]) from None
    return builder.finish()


def _refuse_tabs(text: str, display: str) -> None:
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if "\t" in line[: len(line) - len(line.lstrip())] and line.strip()
    ]
    if lines:
        more = f" (and on {len(lines) - 1} more lines)" if len(lines) > 1 else ""
        raise ScenarioError(
            [f"{display}:{lines[0]}: a tab in the indentation{more}; YAML takes only spaces"]
        )


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been seen."""

    is_mapping: bool
    line: int
    anchor: str | None
    items: list[Node] = field(default_factory=list)
    size: int = 1


class _Builder:
    """Nodes from a stream of YAML events."""

    def __init__(self, display: str) -> None:
        self.display = display
        self.duplicates: list[tuple[int, str]] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.root: Node | None = None
        self.documents = 0
        self.total = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        line = event.start_mark.line + 1
        if kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                self.fail(line, "a second document; a scenario file holds one")
        elif kind == "AliasEvent":
            self.alias(event.anchor, line)
        elif kind == "ScalarEvent":
            self.refuse_tag(event, line)
            plain = event.style is None or event.style == ""
            self.put(Scalar(event.value, plain, line), 1, event.anchor)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            self.refuse_tag(event, line)
            if len(self.open) >= MAX_DEPTH:
                self.fail(line, f"nested more than {MAX_DEPTH} deep")
            self.open.append(_Open(kind == "MappingStartEvent", line, event.anchor))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            done = self.open.pop()
            node = self.mapping(done) if done.is_mapping else Sequence(tuple(done.items), done.line)
            self.put(node, done.size, done.anchor)

    def finish(self) -> Node:
        if self.root is None or (isinstance(self.root, Scalar) and self.root.is_null):
            raise ScenarioError([f"{self.display}:1: is empty; a scenario has at least 'steps'"])
        if self.duplicates:
            raise self.error()
        return self.root

    def alias(self, anchor: str, line: int) -> None:
        # an anchor counts once its node is closed, so that a node cannot hold itself
        if anchor not in self.anchors:
            self.fail(line, f"alias '*{anchor}' has no anchor '&{anchor}' before it")
        node, size = self.anchors[anchor]
        self.total += size - 1
        self.put(node, size, None)

    def put(self, node: Node, size: int, anchor: str | None) -> None:
        self.total += 1
        if self.total > MAX_NODES:
            self.fail(node.line, f"more than {MAX_NODES} values with its aliases expanded")
        if anchor is not None:
            self.anchors[anchor] = (node, size)
        if self.open:
            self.open[-1].items.append(node)
            self.open[-1].size += size
        else:
            self.root = node

    def mapping(self, done: _Open) -> Mapping:
        pairs: list[tuple[Scalar, Node]] = []
        first: dict[str, int] = {}
        for key, value in zip(done.items[::2], done.items[1::2], strict=True):
            if not isinstance(key, Scalar):
                self.fail(key.line, "a key must be a word, not a list or mapping")
            elif key.text in first:
                sentence = f"duplicate key '{key.text}', first given on line {first[key.text]}"
                self.duplicates.append((key.line, sentence))
            else:
                first[key.text] = key.line
                pairs.append((key, value))
        return Mapping(tuple(pairs), done.line)

    def refuse_tag(self, event: Any, line: int) -> None:
        # "!" alone is how the parser marks a quoted scalar's non-specific tag
        if event.tag is not None and event.tag != "!":
            self.fail(line, f"tag '{event.tag}' is not supported; write the plain value")

    def fail(self, line: int, sentence: str) -> NoReturn:
        raise self.error((line, sentence))

    def error(self, *last: tuple[int, str]) -> ScenarioError:
        found = sorted([*self.duplicates, *last])
        return ScenarioError([f"{self.display}:{line}: {text}" for line, text in found])
