"""The flags in someone's llama-server command line, held against the build's own help; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from benchsuite.errors import FlagError, UsageError
from benchsuite.model.scenario import FlagValue
from benchsuite.redact import is_secret_name, secret_in_url
from benchsuite.scenario.flags import FlagTable, show_value

_LISTENS = "a launched server listens on 127.0.0.1, at a port that is free"
_PLAIN = "a launched server speaks plain HTTP on 127.0.0.1"
_LOG = "the log is kept with each run, at the verbosity that tells KV memory"
_KEY = "a secret; each launched server gets a random key of its own"

LEFT_OUT = {
    "host": _LISTENS,
    "port": _LISTENS,
    "reuse-port": _LISTENS,
    "api-key": _KEY,
    "api-key-file": _KEY,
    "hf-token": "a secret; export HF_TOKEN=... and the server inherits it",
    "ssl-key-file": _PLAIN,
    "ssl-cert-file": _PLAIN,
    "api-prefix": "a launched server is asked at its root",
    "log-file": _LOG,
    "log-disable": _LOG,
    "log-verbosity": _LOG,
    "log-verbose": _LOG,
}
"""Canonical flags that a deployment does not take over, and why."""

WITHOUT_URL = "export HF_TOKEN for a model hub, else fetch the file and name it with 'model'"
"""What to do instead of giving a server a URL with a secret in it."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_FLAG_PREFIX = "LLAMA_ARG_"


class CommandLine(msgspec.Struct, frozen=True):
    """What a command line says of a deployment."""

    flags: dict[str, FlagValue] = {}  # by canonical name, `model` apart, in their order
    model: str | None = None  # as written
    env: dict[str, str] = {}  # assignments before the program, secrets and flags apart
    left_out: tuple[tuple[str, str], ...] = ()  # flag or variable, and why; never its value


def split_command(words: Sequence[str]) -> tuple[dict[str, str], str, tuple[str, ...]]:
    """The assignments before a program (also after `env`), the program, and its arguments.

    Raises:
        UsageError: There is no program.
    """
    rest = list(words)
    if rest[:1] == ["env"]:
        rest = rest[1:]
    env: dict[str, str] = {}
    while rest and (found := _ASSIGNMENT.fullmatch(rest[0])) is not None:
        env[found[1]] = found[2]
        rest = rest[1:]
    if not rest:
        raise UsageError(
            "the command line names no program",
            hint="example: benchsuite init -- ./llama-server -m model.gguf -c 32768 -np 4",
        )
    return env, rest[0], tuple(rest[1:])


def read_command_line(
    arguments: Sequence[str], env: dict[str, str], table: FlagTable
) -> CommandLine:
    """What a llama-server's arguments and assignments say.

    Args:
        arguments: After the program's name, as the shell gives them.
        env: Assignments before it; `LLAMA_ARG_*` are flags, below those of the arguments.
        table: The flags of the build.

    Raises:
        UsageError: A word that is no flag, or a flag without its value.
        FlagError: A flag that the build lacks, or a value that it does not take.
    """
    left: dict[str, str] = {}
    plain: dict[str, str] = {}
    given: dict[str, FlagValue] = {}
    for name, value in env.items():
        if name.startswith(_FLAG_PREFIX):
            flag, normal = table.normalise(name, value)
            given[flag] = normal
        elif is_secret_name(name):
            left[name] = "named like a secret; export it, and the server inherits it"
        elif (what := secret_in_url(value)) is not None:
            left[name] = f"its URL holds a secret ({what}); export it, and the server inherits it"
        else:
            plain[name] = value
    from_words: dict[str, FlagValue] = {}
    place = 0
    while place < len(arguments):
        word = _spelled(arguments[place])
        if not word.startswith("-"):
            raise UsageError(f"'{word}' of the command line is no flag and no flag's value")
        flag_of = table.find(_checked(word, table))[0]
        values = arguments[place + 1 : place + 1 + flag_of.arity]
        if len(values) < flag_of.arity:
            raise UsageError(f"flag '{word}' of the command line lacks its value")
        place += 1 + flag_of.arity
        name, normal = table.normalise(word, " ".join(values) if values else "true")
        before = from_words.get(name)
        if before is not None and flag_of.arity and normal != before:
            earlier = before if isinstance(before, tuple) else (before,)
            now = (normal,) if isinstance(normal, str) else ()
            normal = (*earlier, *now)
        from_words[name] = normal
    given |= from_words
    model = given.pop("model", None)
    for name, given_value in list(given.items()):
        what = secret_in_url(show_value(given_value))
        if what is not None:
            left[f"--{name}"] = f"its URL holds a secret ({what}); {WITHOUT_URL}"
            del given[name]
    for name in list(given):
        if name in LEFT_OUT:
            left[f"--{name}"] = LEFT_OUT[name]
            del given[name]
    last = model[-1] if isinstance(model, tuple) else model
    return CommandLine(given, last, plain, tuple(left.items()))


def _spelled(word: str) -> str:
    # llama-server reads `--ctx_size` as `--ctx-size` (common/arg.cpp)
    return word.replace("_", "-") if word.startswith("--") else word


def _checked(word: str, table: FlagTable) -> str:
    name, equals, _ = word.partition("=")
    if equals and name in table:
        raise FlagError(
            f"llama-server does not take '{name}=VALUE'", hint=f"write '{name} VALUE', with a space"
        )
    return word
