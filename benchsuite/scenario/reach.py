"""Which files a scenario or suite file may name, and which flags it may not give at all.

Such files are data: they may come with a change that nobody has looked at yet. What they name lies
under the project's root, beside the file itself, or where `benchsuite.toml` allows, wherever links
lead. The command line, deployments and their overlays are the user's own word and are not held to
this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchsuite.errors import FlagError, UsageError
from benchsuite.model.scenario import FlagValue, Scenario
from benchsuite.redact import secret_in_url
from benchsuite.scenario.command_line import WITHOUT_URL
from benchsuite.scenario.flags import Flag, FlagTable, show_value

_STARTS_PROGRAMS = frozenset(
    {"agent", "mcp-servers-config", "mcp-servers-json", "tools", "tools-runtime", "webui-mcp-proxy"}
)
"""Canonical names, build 10434: the server then starts programs, or fetches pages for others."""

_FETCHES = re.compile(
    r"(?:.*-)?(?:url|docker-repo|hf-repo|hf-file|hf-repo-draft|hf-repo-v|hf-file-v)"
    r"|(?:embd|fim|gpt-oss|vision)-.*-(?:default|spec)"
)
"""Canonical names, build 10434: the server then downloads a model."""

_FILE_NAMES = re.compile(
    r".*-(?:file|path|dir)|path|lora|lora-scaled|control-vector|control-vector-scaled"
    r"|model-draft|model-vocoder|mmproj|models-preset|lookup-cache-(?:static|dynamic)"
)
"""Canonical names of flags that take a file, also where a help does not say so."""

_OURS = {
    "host": "a launched server listens on 127.0.0.1",
    "reuse-port": "a free port is chosen",
    "model": "name the model with 'model' of the deployment, or --model",
    "api-key": "a launched server gets a random key",
    "api-key-file": "a launched server gets a random key",
    "log-file": "the log is kept with the run",
    "log-disable": "the log is read for KV memory",
}
"""Flags that are not for scenarios or deployments to set, and why."""

_SECRET = {
    "hf-token": "it is a secret; export HF_TOKEN=... and the server inherits it",
    "ssl-key-file": "a launched server speaks plain HTTP on 127.0.0.1",
    "ssl-cert-file": "a launched server speaks plain HTTP on 127.0.0.1",
}
"""Flags that no command of ours may have, and why."""

_SHORT = {
    "mu": "model-url",
    "hf": "hf-repo",
    "hfr": "hf-repo",
    "hff": "hf-file",
    "hfd": "hf-repo-draft",
    "hfrd": "hf-repo-draft",
    "hfv": "hf-repo-v",
    "hfrv": "hf-repo-v",
    "hffv": "hf-file-v",
    "hft": "hf-token",
    "dr": "docker-repo",
    "m": "model",
}
"""Short spellings (build 10434) of such flags, for a build that has none of them."""

_LISTS = frozenset({"lora", "lora-scaled", "control-vector", "control-vector-scaled"})
_SCALED = re.compile(r"(?P<file>.+?)(?P<scale>:[-+.\deE]+)?")
_LOOPBACK = re.compile(r"(?:127\.\d+\.\d+\.\d+|localhost|\[::1\])(?::\d+)?")


class Reach(msgspec.Struct, frozen=True):
    """What one scenario or suite file may name; folders are absolute, links followed."""

    folder: Path  # of the file; relative names are looked up from it
    root: Path  # of the project: the folder of benchsuite.toml, or the working directory
    allowed: tuple[Path, ...] = ()  # files and folders besides, as `[trust] allow_outside` says
    config: str = "benchsuite.toml"  # where that is written, as the user would open it

    def file(self, text: str, *, where: str | None, key: str) -> Path:
        """The file that is named, links followed; it may not exist.

        Args:
            text: As written.
            where: `file:line` of it; None where the caller says it.
            key: What names it, for the message.

        Raises:
            UsageError: It lies outside, or can name no file.
        """
        try:
            path = (self.folder / Path(text).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"{key}: '{text}' can name no file: {error}", where=where) from error
        inside = (self.root, self.folder, *self.allowed)
        if any(path.is_relative_to(one) for one in inside):
            return path
        raise UsageError(
            f"{key}: '{text}' is {path}, outside the project ({self.root}); expected a file in it, "
            f"or beside the file that names it ({self.folder})",
            where=where,
            hint=f"copy it there, or allow it in {self.config}: "
            f'[trust] allow_outside = ["{path.parent}"]',
        )

    def flag(self, flag: Flag | None, name: str, value: FlagValue, *, where: str) -> FlagValue:
        """A flag's value as it may be given to a server, files whole.

        Args:
            flag: As its build tells of it; None where no build is known.
            name: Canonical.
            value: In canonical form.
            where: `file:line` of it.

        Raises:
            FlagError: The flag is not for a scenario or suite file to give, or is ours to set.
            UsageError: It names a file outside.
        """
        refuse_ours(name, value, where)
        if name == "port":  # a deployment may choose one
            raise FlagError(
                "flag 'port' is set by benchsuite: a free port is chosen",
                where=where,
                hint="leave it out, or give it in a deployment",
            )
        if value is None:
            return None
        what = _refused(name, value)
        if what is not None:
            raise FlagError(
                f"flag '{name}' {what}; a scenario or suite file is data and may not give it",
                where=where,
                hint="put it into a deployment (flags, or an overlay for this scenario) or --set",
            )
        takes_file = _FILE_NAMES.fullmatch(name) is not None
        if not takes_file and (flag is None or not flag.names_file):
            return value
        if isinstance(value, tuple):
            return tuple(self._files(name, one, where) for one in value)
        return self._files(name, value, where)

    def _files(self, name: str, text: str, where: str) -> str:
        key = f"flag '{name}'"
        if name not in _LISTS:
            return str(self.file(text, where=where, key=key))
        parts = []
        for part in text.split(","):
            match = _SCALED.fullmatch(part) if name.endswith("-scaled") else None
            file, scale = (part, "") if match is None else (match["file"], match["scale"] or "")
            parts.append(f"{self.file(file, where=where, key=key)}{scale}")
        return ",".join(parts)


def refuse_ours(name: str, value: FlagValue, where: str) -> None:
    """Refuse a flag that neither a scenario nor a deployment may give.

    Args:
        name: Canonical.
        value: In canonical form.
        where: `file:line` of it.

    Raises:
        FlagError: It is set by benchsuite, is a secret, or holds one.
    """
    if name in _OURS:
        raise FlagError(f"flag '{name}' is set by benchsuite: {_OURS[name]}", where=where)
    if name in _SECRET:
        raise FlagError(f"flag '{name}' is not taken: {_SECRET[name]}", where=where)
    what = secret_in_url(show_value(value))
    if what is not None:
        raise FlagError(
            f"flag '{name}' holds a URL with a secret ({what}), which would be printed, "
            "recorded and seen in the list of processes",
            where=where,
            hint=WITHOUT_URL,
        )


def flags_outside(scenario: Scenario, reach: Reach, table: FlagTable | None) -> Iterator[str]:
    """What of a scenario's flags it may not give, each as `file:line: sentence`.

    Args:
        scenario: Its needs and its variants' flags are looked at.
        reach: Of its file.
        table: Knows spellings; None, and words that it lacks are taken as they are.
    """
    told = set()
    given = [(word, need.exact, need.line) for word, need in scenario.server.items()]
    given += [(word, need.default, need.line) for word, need in scenario.server.items()]
    for variant in scenario.variants.values():
        given += [(word, value, variant.line) for word, value in variant.flags.items()]
    for word, value, line in given:
        flag = table.find(word)[0] if table is not None and word in table else None
        bare = word.lstrip("-")
        name = _SHORT.get(bare, bare) if flag is None else flag.name
        try:
            reach.flag(flag, name, value, where=f"{scenario.path}:{line}")
        except UsageError as error:
            problem = f"{error} ({error.hint})" if error.hint else str(error)
            if problem not in told:
                told.add(problem)
                yield problem


def _refused(name: str, value: FlagValue) -> str | None:
    if value in ("off", "false"):
        return None
    if name in _STARTS_PROGRAMS:
        return "lets the server start programs or fetch pages"
    if _FETCHES.fullmatch(name) is not None:
        return "has the server download a model"
    if name == "rpc":
        hosts = (value,) if isinstance(value, str) else value or ()
        away = [one for text in hosts for one in text.split(",") if not _LOOPBACK.fullmatch(one)]
        return f"sends the model to {away[0]}, which is not this machine" if away else None
    return None
