"""Help: every command has examples, they can be typed, and they fit a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from benchsuite.cli.main import group


def commands(
    parent: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that call it."""
    context = click.Context(parent)
    for name in parent.list_commands(context):
        command = parent.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


COMMANDS = dict(commands(group))


def examples_of(command: click.Command) -> list[str]:
    """The examples below a command's help, each as one line."""
    _, marked, text = (command.epilog or "").partition("Examples:\n\n\b\n")
    assert marked, "give it epilog=examples(...)"
    return [line.strip() for line in text.replace("\\\n", "").splitlines()]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_examples_can_be_typed(words: tuple[str, ...]) -> None:
    """Each example is of its command, with options and values that it takes."""
    found = examples_of(COMMANDS[words])
    assert found
    for line in found:
        call = re.split(r" >>? | \| (?!benchsuite)", line)[0].rpartition("benchsuite ")[2]
        typed = shlex.split(call)
        assert tuple(typed[: len(words)]) == words, line
        COMMANDS[words].make_context(" ".join(words), typed[len(words) :])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_80_columns(words: tuple[str, ...]) -> None:
    """No line of a command's help is wider than a plain terminal."""
    context = click.Context(COMMANDS[words], info_name=" ".join(words), terminal_width=80)
    wide = [line for line in COMMANDS[words].get_help(context).splitlines() if len(line) > 80]
    assert wide == []


def test_every_command_has_a_line_in_the_list() -> None:
    """The list of commands is of those that exist."""
    assert set(group.list_commands(click.Context(group))) == {words[0] for words in COMMANDS}
