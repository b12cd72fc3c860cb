"""Writes docs/reference from what the code declares: scenario keys, metrics, commands, exit codes.

`python ci/reference.py` writes; a test compares, so that the pages cannot go stale.
"""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # before what is installed elsewhere

from benchsuite.cli.main import group  # noqa: E402
from benchsuite.metrics.catalogue import CATALOGUE  # noqa: E402
from benchsuite.metrics.metric import Metric  # noqa: E402
from benchsuite.scenario.load import schema  # noqa: E402

FOLDER = ROOT / "docs" / "reference"
_MADE = "<!-- Written by ci/reference.py; do not edit. -->\n"
_SOURCES = {
    "http": "the server's replies",
    "log": "the server's log",
    "process": "the server's processes",
    "client": "the client's clock",
    "files": "files",
}
_KINDS = {
    "exact": "equal, or within limits",
    "quantised": "equal within what is printed",
    "memory": "difference of medians over launches",
    "latency": "ratio of medians over launches",
    "text": "equal byte for byte",
}
_SCOPES = {
    "config": "every machine",
    "numerics": "machines that do the same arithmetic",
    "machine": "one kind of machine",
}


def pages() -> dict[str, str]:
    """Each page by its file's name."""
    return {
        "scenario.md": _scenario_page(),
        "metrics.md": _metrics_page(),
        "commands.md": _commands_page(),
    }


def _scenario_page() -> str:
    parts = [
        _MADE,
        "# Keys of a scenario file\n",
        (
            "`benchsuite schema` prints the same as JSON Schema, for editors. **Bold** keys must "
            "be given. A key that is not here is an error at its line.\n"
        ),
    ]
    known: dict[str, str] = {}
    waiting: list[tuple[str, Mapping[str, Any]]] = [("scenario", schema())]
    while waiting:
        path, node = waiting.pop(0)
        inner: list[tuple[str, Mapping[str, Any]]] = []
        parts.append(f"## {path}\n")
        if node.get("description"):
            parts.append(f"{node['description']}\n")
        parts.append("| key | value | |\n|---|---|---|")
        required = node.get("required", ())
        for key, value in node["properties"].items():
            place = f"{path}.{key}".removeprefix("scenario.")
            name = f"**`{key}`**" if key in required else f"`{key}`"
            words = _value(place, value, known, inner)
            parts.append(f"| {name} | {_cell(words)} | {_cell(value.get('description', ''))} |")
        parts.append("")
        waiting = inner + waiting
    return "\n".join(parts)


def _value(
    place: str,
    node: Mapping[str, Any],
    known: dict[str, str],
    inner: list[tuple[str, Mapping[str, Any]]],
) -> str:
    """What a key takes, in words; objects with keys get a section, once."""
    if node.get("properties"):
        content = json.dumps(node, sort_keys=True)
        if content not in known:
            known[content] = place
            inner.append((place, node))
        return f"keys of [{known[content]}](#{_anchor(known[content])})"
    for word in ("anyOf", "oneOf"):
        if word in node:
            if _plain_parts(node) == _FLAG_PARTS:
                return "a flag's value"
            found = [_value(place, one, known, inner) for one in node[word]]
            return " or ".join(dict.fromkeys(found))
    if "enum" in node:
        return " or ".join(f"`{one}`" for one in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if isinstance(node.get("additionalProperties"), dict):
        return f"name: {_value(f'{place}.NAME', node['additionalProperties'], known, inner)}"
    if "items" in node:
        return f"list of {_value(f'{place}[]', node['items'], known, inner)}"
    return _plain(node)


_FLAG_PARTS = {"string", "number", "boolean", "array"}


def _plain_parts(node: Mapping[str, Any]) -> set[str]:
    """The types of a choice among plain values and lists of them; empty for any other."""
    found: set[str] = set()
    for one in node.get("anyOf", ()):
        kinds = one.get("type", ())
        if "enum" in one or "properties" in one or "additionalProperties" in one or not kinds:
            return set()
        found.update([kinds] if isinstance(kinds, str) else kinds)
    return found - {"null"}


def _plain(node: Mapping[str, Any]) -> str:
    kinds = node.get("type", "anything")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = {
        "integer": "whole number",
        "string": "text",
        "boolean": "yes or no",
        "null": "nothing",
        "object": "mapping",
        "array": "list",
    }
    text = " or ".join(words.get(kind, kind) for kind in kinds)
    low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum")
    if low is not None and high is not None:
        return f"{text}, {low} to {high}"
    if low is not None:
        return f"{text}, {'more than' if 'exclusiveMinimum' in node else 'at least'} {low}"
    return text if high is None else f"{text}, at most {high}"


def _metrics_page() -> str:
    parts = [
        _MADE,
        "# Metrics\n",
        (
            "A selector names exactly the labels of what it selects: `kv_mib` is the total alone, "
            '`kv_mib{device=~".*"}` asks for the parts. A request of a session has the labels '
            "`session` and `turn`, a `complete` step `request`, a snapshot `at`.\n"
        ),
    ]
    for metric in CATALOGUE.values():
        parts += _metric(metric)
    return "\n".join(parts)


def _metric(metric: Metric) -> Iterator[str]:
    yield f"## {metric.name}\n"
    yield f"{metric.doc}\n"
    labels = ", ".join(f"`{{{','.join(one)}}}`" if one else "none" for one in metric.labels)
    other = sorted({_SCOPES[s] for s in metric.scope_by_labels.values() if s != metric.scope})
    scope = _SCOPES[metric.scope] + (f"; parts: {', '.join(other)}" if other else "")
    better = "either way is a change" if metric.better == "equal" else f"{metric.better} is better"
    yield f"- unit: {metric.unit or 'none'}; {better}"
    yield f"- compared: {_KINDS[metric.assume]}; a baseline holds on {scope}"
    yield f"- read from: {_SOURCES[metric.source]}"
    yield f"- labels: {labels}"
    if metric.analytic:
        yield "- a gate may ask for `equals: analytic`"
    yield ""


def _commands_page() -> str:
    parts = [_MADE, "# Commands\n", "`benchsuite COMMAND --help` shows the same.\n"]
    for words, command in _commands(group, ("benchsuite",)):
        parts += _command(" ".join(words), command)
    return "\n".join(parts)


def _command(name: str, command: click.Command) -> Iterator[str]:
    # not click's own page, whose form differs between its versions
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option)]
    shown = " ".join([name, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
    yield f"## {name}\n"
    yield f"`{shown}`\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    if options:
        yield "| option | |\n|---|---|"
    for option in options:
        value = "" if option.is_flag else f" {_metavar(option)}"
        spelt = ", ".join(f"`{word}{value}`" for word in option.opts)
        must = " Required." if option.required else ""
        yield f"| {_cell(spelt)} | {_cell(option.help or '')}{must} |"
    examples = (command.epilog or "").partition("\b\n")[2]
    if examples:
        yield f"\n```sh\n{textwrap.dedent(examples)}\n```"
    yield ""


def _argument(argument: click.Argument) -> str:
    name = _metavar(argument)
    return name if argument.required or "[" in name else f"[{name}]"


def _metavar(param: click.Parameter) -> str:
    if param.metavar:
        return param.metavar
    if isinstance(param.type, click.Choice):
        return "|".join(param.type.choices)
    return "N" if isinstance(param.type, click.types.IntParamType) else (param.name or "").upper()


def _commands(
    parent: click.Group, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(parent)
    for name in parent.list_commands(context):
        command = parent.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*words, name))
        elif command is not None:
            yield (*words, name), command


def _anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return "".join(c for c in heading.lower() if c.isalnum() or c in "-_ ").replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
