"""The keys of a deployment that starts its server by a command: what they are, and what is wrong.

Pure: takes the table as TOML gave it and says each problem with the key that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from benchsuite.model.deployment import Command
from benchsuite.patterns import problem_of
from benchsuite.redact import is_secret_name, secret_in_url
from benchsuite.scenario.templates import FLAGS, PLACEHOLDERS, placeholders, template_problems

COMMAND_KEYS = (
    "help",
    "stop",
    "kill",
    "log",
    "engine",
    "container",
    "pidfile",
    "process",
    "host",
    "model_inside",
    "elsewhere",
)
"""Keys beside `command` that only make sense with it."""

ENGINES = ("docker", "podman", "nerdctl")
_STARTING = ("run",)  # of an engine's own commands; `create`, `start` and `compose` leave at once
_DETACHED = ("-d", "--detach", "--detach=true")
_BUNDLED = re.compile(r"-[dit]+")  # `-itd`; `-dt` and `-td` may be the server's own
_SECRET = re.compile(
    r"""(?:^|[\s;&|"'(])(?P<flag>--?[A-Za-z][\w-]*)(?:[\s=]+|$)(?!["']?\$|\{key_env\})
    |(?:^|[\s=,;&|"'(])(?P<name>[A-Za-z_]\w*)=(?!["']?\$|\{key_env\})\S""",
    re.VERBOSE,
)
"""A flag or an assignment in a word of a command; in a shell's words a variable may follow."""

_SHORT_FLAGS = frozenset({"-hft"})  # of llama-server, whose value is a secret
_HEADER = re.compile(
    r"\b(?:bearer|authorization:\s*basic|x-api-key:)\s+(?![\"']?\$)\S", re.IGNORECASE
)

_ELSEWHERE = ("ssh", "srun", "kubectl", "oc")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_AFTER = ("name", "host", "port")  # placeholders of what is run beside or after the command
_ALL = tuple(PLACEHOLDERS)

_Say = Callable[[str, str], None]


def read_command(
    table: Mapping[str, Any], locate: Callable[[str], str], say: _Say
) -> Command | None:
    """The command of a deployment; None where there is none, or it cannot be used.

    Args:
        table: The deployment's.
        locate: Makes the path of a file absolute.
        say: Told of each problem: the key, and the sentence.
    """
    if "command" not in table:
        for key in COMMAND_KEYS:
            if key in table:
                say(key, f"'{key}' is for a server that a 'command' starts, and there is none")
        return None
    reader = _Keys(table, locate, say)
    argv = reader.words("command", _ALL)
    engine = reader.words("engine", ()) or _engine_of(argv)
    container = reader.template("container", ("name",))
    found = Command(
        argv=argv,
        help=reader.words("help", ("name", "model", "key_env", "host", "port")),
        stop=reader.words("stop", _AFTER),
        kill=reader.words("kill", _AFTER),
        log=reader.words("log", _AFTER),
        engine=engine,
        container=container,
        pidfile=reader.template("pidfile", _AFTER),
        process=reader.pattern("process", _AFTER),
        host=reader.text("host") or "127.0.0.1",
        model_inside=reader.text("model_inside"),
        elsewhere=reader.flag("elsewhere"),
    )
    if "elsewhere" not in table:
        found = msgspec.structs.replace(found, elsewhere=_is_elsewhere(found))
    if argv:
        _check(found, table, say)
    return found if argv else None


def _check(found: Command, table: Mapping[str, Any], say: _Say) -> None:
    names = list(placeholders(found.argv))
    for name in (FLAGS, "port"):
        if name not in names:
            say("command", f"'command' has no '{{{name}}}': {PLACEHOLDERS[name]}")
    ways = [key for key in ("container", "pidfile", "process") if key in table]
    if len(ways) > 1:
        say(ways[1], f"'{ways[0]}' and '{ways[1]}' both say which process is the server; keep one")
    if found.container is not None and not found.engine:
        say(
            "container",
            "which engine has the container? 'command' calls none of "
            f'{", ".join(ENGINES)}; name it: engine = ["docker"]',
        )
    for key in ("command", "help", "stop", "kill", "log"):
        secret = _secret_in(getattr(found, "argv" if key == "command" else key))
        if secret is not None:
            say(
                key,
                f"'{key}' holds a secret ({secret}), which would be printed and recorded; a server "
                "that is launched gets a random key, so hand on the variable by its name: "
                "'-e', '{key_env}'; other secrets are exported and handed on likewise",
            )
    if _runs_container(found):
        _check_container(found, say)
    elif found.elsewhere and ("pidfile" in ways or "process" in ways):
        say(
            ways[0],
            f"'{ways[0]}' is looked for on this machine, but the command starts its server on "
            "another (elsewhere = false says that it does not)",
        )


def _check_container(found: Command, say: _Say) -> None:
    if found.container is None:
        say(
            "command",
            "'command' runs a container, and nothing says which: add '--name', '{name}' behind "
            "'run', and container = \"{name}\"",
        )
    elif "name" in placeholders([found.container]) and "name" not in placeholders(found.argv):
        say(
            "container",
            "'container' is '{name}', which 'command' does not use; add '--name', '{name}' to it",
        )
    elif "name" not in placeholders([found.container]):
        say(
            "container",
            f"'container' is '{found.container}' at every launch, and one could be taken for "
            "another; write container = \"{name}\", and '--name', '{name}' in 'command'",
        )
    detached = [word for word in found.argv if word in _DETACHED or _is_detached_bundle(word)]
    if detached:
        say(
            "command",
            f"'{detached[0]}': the client must stay, since its end is taken for the server's; "
            "leave it out",
        )


def _is_detached_bundle(word: str) -> bool:
    return _BUNDLED.fullmatch(word) is not None and "d" in word and "i" in word


def _secret_in(words: tuple[str, ...]) -> str | None:
    """The name of a key or variable whose value stands in a command; None where there is none."""
    for word, following in zip(words, (*words, "")[1:], strict=True):
        for found in _SECRET.finditer(word):
            flag, name = found["flag"], found["name"]
            if flag is not None and (is_secret_name(flag) or flag in _SHORT_FLAGS):
                alone = word == flag
                if alone and (not following or following[0] in "$-"):
                    continue  # a switch, or a shell's variable
                return flag.replace("_", "-")
            if name is not None and is_secret_name(name):
                return name
        if (what := secret_in_url(word)) is not None:
            return f"{what} of a URL"
        if _HEADER.search(word) is not None:
            return "a header with a key"
    return None


def _runs_container(found: Command) -> bool:
    """Whether the command is an engine's `run`, also behind `sudo` or `ssh`."""
    known = _engine_of(found.argv)
    return bool(known) and any(word in _STARTING for word in found.argv[len(known) :][:2])


def _engine_of(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The words up to an engine's own name: `docker`, `sudo docker`, `ssh HOST docker`."""
    for i, word in enumerate(argv):
        if PurePath(word).stem in ENGINES and i + 1 < len(argv):
            return argv[: i + 1]
        if FLAGS in placeholders([word]):
            break
    return ()


def _is_elsewhere(found: Command) -> bool:
    """By the programs that are known to start things elsewhere, and by the address."""
    programs = {PurePath(word).stem for word in found.argv[:3]}
    return not programs.isdisjoint(_ELSEWHERE) or found.host not in _LOOPBACK


class _Keys:
    """Takes values out of one deployment's table.

    Args:
        table: The deployment's.
        locate: Makes the path of a file absolute.
        say: Told of each problem.
    """

    def __init__(self, table: Mapping[str, Any], locate: Callable[[str], str], say: _Say) -> None:
        self._table = table
        self._locate = locate
        self._say = say

    def words(self, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        """An argument list; its program is looked up on PATH, or beside the configuration."""
        value = self._table.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not value or not all(map(_is_text, value)):
            hint = ""
            if isinstance(value, str):
                hint = "; every argument is a text of its own, and no shell reads them"
            self._say(key, f"'{key}': expected a list of texts, found {value!r}{hint}")
            return ()
        for problem in template_problems(value, allowed):
            self._say(key, f"'{key}': {problem}")
        program = value[0] if PurePath(value[0]).name == value[0] else self._locate(value[0])
        return (program, *value[1:])

    def template(self, key: str, allowed: tuple[str, ...]) -> str | None:
        """A text with placeholders."""
        text = self.text(key)
        for problem in () if text is None else template_problems([text], allowed):
            self._say(key, f"'{key}': {problem}")
        return text

    def pattern(self, key: str, allowed: tuple[str, ...]) -> str | None:
        """A regular expression with placeholders."""
        text = self.template(key, allowed)
        if text is not None:
            problem = problem_of(text)
            if problem is not None:
                self._say(key, f"'{key}': not a regular expression: {problem}")
                return None
        return text

    def text(self, key: str) -> str | None:
        """A text that is not blank."""
        value = self._table.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self._say(key, f"'{key}': expected text, found {value!r}")
        return None

    def flag(self, key: str) -> bool:
        """A truth value, false where there is none."""
        value = self._table.get(key, False)
        if isinstance(value, bool):
            return value
        self._say(key, f"'{key}': expected true or false, found {value!r}")
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
