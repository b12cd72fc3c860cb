"""Reading llama-server's command line and environment for the embedded server, and its help.

Must stay quick to import (no typing, dataclasses, argparse): it runs at each start of a server.
The wording of errors and the form of the help are llama-server's (build 11434), so that whatever
reads the one reads the other.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_COLUMN = 40
_WIDTH = 70


class BadArgumentError(Exception):
    """An argument or variable that cannot be honoured; the text is llama-server's wording."""


class Option:
    """One flag: its names, how its value is read, and where it goes.

    Attributes:
        names: As typed, short ones first.
        negatives: Names that switch it off (`--no-...`); empty where there are none.
        hint: What its value looks like; empty for a flag without value.
        text: For the help.
        env: Its environment variable, or None.
        read: Text -> value; raises ValueError with the reason.
        put: Sets the value on the parameters: `put(params, module, value)`.
    """

    __slots__ = ("env", "hint", "names", "negatives", "put", "read", "text")

    def __init__(
        self,
        names: str,
        text: str,
        put: Callable[[Any, Any, Any], None],
        *,
        read: Callable[[str], object] | None = None,
        hint: str = "",
        negatives: str = "",
        env: str | None = None,
    ) -> None:
        self.names = tuple(names.split())
        self.negatives = tuple(negatives.split())
        self.hint = hint
        self.text = text
        self.env = env
        self.read = read
        self.put = put


def read_number(low: int = -(2**31), high: int = 2**31 - 1) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a whole number") from None
        if not low <= number <= high:
            raise ValueError(f"{number} is not between {low} and {high}")
        return number

    return read


def read_decimal(text: str) -> float:
    """A finite number."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if number - number != 0:
        raise ValueError(f"'{text}' is not finite")
    return number


def read_word(words: Mapping[str, object]) -> Callable[[str], object]:
    """A reader of one of the words, to what it stands for."""

    def read(text: str) -> object:
        if text not in words:
            raise ValueError(f"'{text}' is none of {', '.join(words)}")
        return words[text]

    return read


ON = ("on", "enabled", "true", "1")
OFF = ("off", "disabled", "false", "0")


def read_switch(text: str) -> bool:
    """`on` or `off`, in any of llama-server's spellings."""
    if text not in ON + OFF:
        raise ValueError(f"invalid boolean value '{text}'")
    return text in ON


def parse(
    options: Sequence[Option],
    arguments: Sequence[str],
    environ: Mapping[str, str],
    warn: Callable[[str], object],
) -> list[tuple[Option, object]]:
    """What was asked for, environment first, so that later entries win.

    Args:
        options: All that can be honoured.
        arguments: Of the command line, without the program.
        environ: `LLAMA_ARG_*` and the other variables that options name.
        warn: Called with each sentence that llama-server would print.

    Raises:
        BadArgumentError: A flag or variable is unknown, or its value cannot be read.
    """
    asked = _from_environment(options, environ)
    by_name = {name: (option, True) for option in options for name in option.names}
    by_name.update({name: (option, False) for option in options for name in option.negatives})
    from_env = {option for option, _ in asked}
    waiting = list(reversed(arguments))
    while waiting:
        given = waiting.pop()
        name = given.replace("_", "-") if given.startswith("--") else given
        if name not in by_name:
            raise BadArgumentError(f"error: invalid argument: {name}")
        option, positive = by_name[name]
        if option in from_env:
            warn(
                f"warn: {option.env} environment variable is set, "
                f"but will be overwritten by command line argument {name}"
            )
        if option.read is None:
            asked.append((option, positive))
            continue
        try:
            if not waiting:
                raise ValueError("expected value for argument")
            asked.append((option, option.read(waiting.pop())))
        except ValueError as error:
            raise BadArgumentError(
                f'error while handling argument "{name}": {error}\n\n'
                f"usage:\n{_usage(option)}\n\nto show complete usage, run with -h"
            ) from None
    return asked


def _from_environment(
    options: Sequence[Option], environ: Mapping[str, str]
) -> list[tuple[Option, object]]:
    asked: list[tuple[Option, object]] = []
    known = set()
    for option in options:
        if option.env is None:
            continue
        known.add(option.env)
        off = option.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")
        if option.negatives:
            known.add(off)
            if off in environ:  # whatever it holds
                asked.append((option, False))
                continue
        value = environ.get(option.env)
        if value is None:
            continue
        try:
            if option.read is not None:
                asked.append((option, option.read(value)))
            elif option.negatives:
                asked.append((option, read_switch(value)))
            elif value in ON:  # as llama-server does it: other values leave the flag unset
                asked.append((option, True))
        except ValueError as error:
            raise BadArgumentError(
                f'error while handling environment variable "{option.env}": {error}\n\n'
            ) from None
    for name in environ:
        if name.startswith("LLAMA_ARG_") and name not in known:
            raise BadArgumentError(
                f'error while handling environment variable "{name}": '
                "the embedded server cannot honour it\n\n"
            )
    return asked


def help_text(sections: Sequence[tuple[str, Sequence[Option]]]) -> str:
    """The help in llama-server's form.

    Args:
        sections: Heading and options of each.
    """
    parts = []
    for heading, options in sections:
        parts.append(f"----- {heading} -----\n\n" + "\n".join(_usage(o) for o in options) + "\n")
    return "\n\n".join(parts)


def _usage(option: Option) -> str:
    names = [*option.names, *option.negatives]
    if len(names) > 1:
        # the first name is mostly a short one; padding aligns the long ones behind it
        names[0] = f"{names[0]},".ljust(7)
        head = names[0] + ", ".join(names[1:])
    else:
        head = names[0]
    if option.hint:
        head += f" {option.hint}"
    lines = _wrap(option.text)
    if option.env is not None:
        lines.append(f"(env: {option.env})")
    margin = " " * _COLUMN
    if len(head) > _COLUMN - 3:
        return "\n".join([head, *(margin + line for line in lines)])
    return "\n".join([head.ljust(_COLUMN) + lines[0], *(margin + line for line in lines[1:])])


def _wrap(text: str) -> list[str]:
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            if line and len(line) + 1 + len(word) > _WIDTH:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        lines.append(line)
    return lines
