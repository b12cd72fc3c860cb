"""`benchsuite.toml` or `[tool.benchsuite]` of pyproject.toml: where it is and what it says.

The file is looked for from the working directory up to the root of its git repository, and only
in the working directory itself where there is no repository: a stray file further up, which
others may be able to write, must not choose what is started.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.model.deployment import ADHOC, TINY, Deployment, Observe
from benchsuite.model.scenario import DEFAULT_FOLDER, FlagValue
from benchsuite.redact import is_secret_name, learn, secret_in_url
from benchsuite.regular import open_regular
from benchsuite.scenario.command_keys import COMMAND_KEYS, read_command
from benchsuite.scenario.limit_keys import read_limits
from benchsuite.scenario.toml_bounds import MAX_BYTES, bounded, line_of, refuse_long_keys
from benchsuite.scenario.words import remedy, shortened

CONFIG_NAME = "benchsuite.toml"
_PYPROJECT = "pyproject.toml"
_FOLDER_KEYS = ("scenarios", "baselines", "runs", "suites")
_TOP_KEYS = (*_FOLDER_KEYS, "limits", "trust", "deployments")
_KEY_IS_OURS = "a launched server gets a random key"
_REFUSED_ENV = {
    "LLAMA_API_KEY": _KEY_IS_OURS,
    "LLAMA_ARG_API_KEY": _KEY_IS_OURS,
    "LLAMA_ARG_API_KEY_FILE": _KEY_IS_OURS,
    "LLAMA_ARG_HF_TOKEN": "it is a secret; export HF_TOKEN=... and the server inherits it",
}
"""Variables that a deployment's `env` may not set, and why."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Config(msgspec.Struct, frozen=True):
    """What the user's configuration says; paths are absolute."""

    root: Path  # folder of the file, or the working directory without one
    path: Path | None = None
    folders: dict[str, Path] = {}  # scenarios, baselines, runs, suites: those given
    deployments: dict[str, Deployment] = {}
    limits: dict[str, float] = {}  # of waits, in seconds: those given
    overlay_places: dict[tuple[str, str], str] = {}  # (deployment, scenario) -> file:line
    allow_outside: tuple[Path, ...] = ()  # what scenario files may name outside the project


def find_config(start: Path) -> Path | None:
    """The configuration that holds for a folder, or None.

    Raises:
        ConfigError: A pyproject.toml on the way is not TOML.
    """
    folders = [start, *start.parents]
    roots = [folder for folder in folders if (folder / ".git").exists()]
    last = roots[0] if roots else start
    for folder in folders:
        if _is_there(folder / CONFIG_NAME):
            return folder / CONFIG_NAME
        project = folder / _PYPROJECT
        if project.is_file() and "benchsuite" in _tables(project, _read(project)).get("tool", {}):
            return project
        if folder == last:
            return None
    return None


def load_config(start: Path) -> Config:
    """The configuration that holds for a folder; an empty one where there is no file.

    Raises:
        ConfigError: The file has problems; all that could be found are named.
    """
    path = find_config(start)
    if path is None:
        return Config(root=start)
    text = _read(path)
    table = _tables(path, text)
    prefix: tuple[str, ...] = ()
    if path.name == _PYPROJECT:
        table, prefix = table["tool"]["benchsuite"], ("tool", "benchsuite")
    bounded(path, text, table, prefix)
    return _Reader(path, text, prefix).config(table)


def parse_config(path: Path, text: str) -> Config:
    """As `load_config`, from the text of a `benchsuite.toml` that would lie at `path`."""
    table = _tables(path, text)
    bounded(path, text, table, ())
    return _Reader(path, text, ()).config(table)


def _is_there(path: Path) -> bool:
    """Whether it is something to read, or to refuse in words."""
    return path.exists() and not path.is_dir()


def _read(path: Path) -> str:
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ConfigError(f"is larger than {MAX_BYTES} bytes", where=str(path))
        return raw.decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=str(path)) from None


def _tables(path: Path, text: str) -> dict[str, Any]:
    refuse_long_keys(path, text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError("is not TOML: it is nested too deeply", where=str(path)) from None
    except ValueError as error:  # TOMLDecodeError is one; a number of 4300 digits is another
        message = str(error)
        place = re.search(r" \(at line (\d+), column \d+\)", message)
        where = f"{path}:{place[1]}" if place is not None else str(path)
        sentence = message.replace(place[0], "") if place is not None else message
        raise ConfigError(
            f"is not TOML: {sentence[:1].lower()}{sentence[1:]}", where=where
        ) from None


class _Reader:
    """Checks one file's tables and collects what is wrong."""

    def __init__(self, path: Path, text: str, prefix: tuple[str, ...]) -> None:
        self.path = path
        self.text = text
        self.prefix = prefix
        self.root = path.parent
        self.problems: list[str] = []

    def place(self, *keys: str) -> str:
        return f"{self.path}:{line_of(self.text, (*self.prefix, *keys))}"

    def say(self, keys: tuple[str, ...], sentence: str) -> None:
        self.problems.append(f"{self.place(*keys)}: {shortened(sentence)}")

    def config(self, table: Mapping[str, Any]) -> Config:
        self.unknown(table, _TOP_KEYS, (), "the configuration")
        folders = {}
        for key in _FOLDER_KEYS:
            value = self.text_of(table, key, ())
            if value is not None:
                folders[key] = self.file(value)
        limits = self.limits(table, ())
        trust = self.table_of(table, "trust", ())
        self.unknown(trust, ("allow_outside",), ("trust",), "'trust'")
        allowed = self.words_of(trust, "allow_outside", ("trust",), '["/data/prompts"]')
        deployments: dict[str, Deployment] = {}
        places: dict[tuple[str, str], str] = {}
        for name, entry in self.table_of(table, "deployments", ()).items():
            keys = ("deployments", name)
            if name in (TINY, ADHOC):
                self.say(keys, f"deployment '{name}' is built in; choose another name")
            elif _NAME.fullmatch(name) is None:
                self.say(keys, f"deployment '{name}': expected letters, digits, '_', '-' and '.'")
            elif not isinstance(entry, dict):
                self.say(keys, f"deployment '{name}': expected a table")
            else:
                deployments[name] = self.deployment(name, entry)
                for scenario in deployments[name].overlays:
                    places[name, scenario] = self.place(*keys, "overlays", scenario)
        outside = tuple(self.file(text) for text in allowed)
        if self.problems:
            raise ConfigError("\n".join(self.problems))
        return Config(self.root, self.path, folders, deployments, limits, places, outside)

    def deployment(self, name: str, table: Mapping[str, Any]) -> Deployment:
        keys = ("deployments", name)
        fields = (
            *(
                field
                for field in Deployment.__struct_fields__
                if field not in ("name", "sources", "places")
            ),
            *COMMAND_KEYS,
        )
        self.unknown(table, fields, keys, f"deployment '{name}'")
        model = self.text_of(table, "model", keys)
        rate = table.get("requests_per_second")
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float)):
            self.wrong((*keys, "requests_per_second"), "a number", rate)
            rate = None
        if rate is not None and rate < 0:
            self.say((*keys, "requests_per_second"), "'requests_per_second' must be at least 0")
        found = Deployment(
            name=name,
            server=self.program(table, "server", keys),
            command=read_command(
                table,
                lambda text: str(self.file(text)),
                lambda key, sentence: self.say((*keys, key), sentence),
            ),
            url=self.text_of(table, "url", keys),
            model=None if model is None else str(self.file(model)),
            model_name=self.text_of(table, "model_name", keys),
            flags=self.flags(self.table_of(table, "flags", keys), (*keys, "flags")),
            env=self.env(self.table_of(table, "env", keys), (*keys, "env")),
            api_key_env=self.text_of(table, "api_key_env", keys),
            api_key_file=self.optional_file(table, "api_key_file", keys),
            ca=self.optional_file(table, "ca", keys),
            limits=self.limits(table, keys),
            observe=self.observe(self.table_of(table, "observe", keys), (*keys, "observe")),
            requests_per_second=None if rate is None else float(rate),
            rpc=self.program(table, "rpc", keys),
            overlays=self.overlays(self.table_of(table, "overlays", keys), (*keys, "overlays")),
            sources=self.sources(table, keys),
            source=self.place(*keys),
            places=self.flag_places(table, keys),
        )
        self.consistent(found, table, keys)
        return found

    def consistent(
        self, found: Deployment, table: Mapping[str, Any], keys: tuple[str, ...]
    ) -> None:
        only_launched = [
            key
            for key in ("server", "command", "model", "flags", "env", "rpc", "overlays")
            if table.get(key)
        ]
        if found.command is not None:
            for key in ("server", "rpc"):
                if key in table:
                    self.say((*keys, key), f"'{key}' does not go with 'command'; keep one of them")
        only_attached = [
            key
            for key in ("api_key_env", "api_key_file", "ca", "observe", "requests_per_second")
            if key in table
        ]
        if "api_key_env" in table and "api_key_file" in table:
            self.say((*keys, "api_key_file"), "'api_key_env' names the key already; keep one")
        if found.attached:
            for key in only_launched:
                self.say(
                    (*keys, key),
                    f"'{key}' is for a server that we start; 'url' names a running one",
                )
            if found.url is not None and not re.match(r"https?://[^/\s]+", found.url):
                self.wrong((*keys, "url"), "an address such as http://127.0.0.1:8080", found.url)
            elif found.url is not None and (what := secret_in_url(found.url)) is not None:
                self.say(
                    (*keys, "url"),
                    f"'url' holds a secret ({what}), which would be printed and recorded; name the "
                    'variable that holds the server\'s key: api_key_env = "NAME"',
                )
        else:
            for key in only_attached:
                self.say((*keys, key), f"'{key}' is for a running server, which 'url' would name")

    def observe(self, table: Mapping[str, Any], keys: tuple[str, ...]) -> Observe:
        known = tuple(name for name in Observe.__struct_fields__ if name != "log_command")
        self.unknown(table, known, keys, "'observe'")
        command = self.words_of(table, "log", keys) if isinstance(table.get("log"), list) else ()
        log = None if command else self.text_of(table, "log", keys)
        container = self.text_of(table, "container", keys)
        engine = self.words_of(table, "engine", keys) or ("docker",)
        if "engine" in table and container is None:
            self.say((*keys, "engine"), "'engine' goes with 'container', which is missing")
        if container is not None and "pid" in table:
            self.say((*keys, "pid"), "'pid' is that of the 'container'; keep one of them")
        if container is not None and "log" not in table:
            command = (*engine, "logs", "--follow", container)
        pid = table.get("pid")
        if pid is not None and (isinstance(pid, bool) or not isinstance(pid, int) or pid < 1):
            self.wrong((*keys, "pid"), "a process id", pid)
            pid = None
        return Observe(
            log=None if log is None else str(self.file(log)),
            log_command=command,
            pid=pid,
            container=container,
            engine=engine,
        )

    def limits(self, table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, float]:
        place = (*keys, "limits")
        return read_limits(
            self.table_of(table, "limits", keys),
            lambda key, sentence: self.say((*place, key), sentence),
        )

    def sources(self, table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, str]:
        """Source folders: `source = "FOLDER"`, or a table of several by key."""
        place = (*keys, "source")
        entry = table.get("source")
        if not isinstance(entry, dict):
            text = self.text_of(table, "source", keys)
            return {} if text is None else {DEFAULT_FOLDER: str(self.file(text))}
        found = {}
        for key in entry:
            if _NAME.fullmatch(key) is None:
                self.say(place, f"source folder '{key}': expected letters, digits, '_', '-', '.'")
            text = self.text_of(entry, key, place)
            if text is not None:
                found[key] = str(self.file(text))
        return found

    def env(self, table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, str]:
        for name, value in table.items():
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                self.wrong((*keys, name), "text", value)
            elif name in _REFUSED_ENV or (name.startswith("LLAMA_ARG_") and is_secret_name(name)):
                why = _REFUSED_ENV.get(name, "it is a secret; export it under its own name")
                self.say((*keys, name), f"'{name}' is not taken here: {why}")
            elif is_secret_name(name):
                learn(str(value))
        return {name: str(value) for name, value in table.items()}

    def flags(self, table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, FlagValue]:
        """Flags by name, dashes left out; an empty list removes a flag."""
        flags: dict[str, FlagValue] = {}
        for name, value in table.items():
            texts = [_flag_text(item) for item in value] if isinstance(value, list) else None
            single = _flag_text(value)
            if texts is not None and None not in texts:
                flags[name.lstrip("-")] = tuple(filter(None, texts)) or None
            elif single is not None:
                flags[name.lstrip("-")] = single
            else:
                self.wrong((*keys, name), "a value or a list of values", value)
        return flags

    def flag_places(self, table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, str]:
        """Where each flag stands, of the deployment and of its overlays."""
        found = {
            name.lstrip("-"): self.place(*keys, "flags", name)
            for name in self.table_of(table, "flags", keys)
        }
        overlays = self.table_of(table, "overlays", keys)
        for scenario in overlays:
            inner = self.table_of(overlays, scenario, (*keys, "overlays"))
            for variant in inner:
                place = (*keys, "overlays", scenario)
                for name in self.table_of(inner, variant, place):
                    word = f"{scenario}.{variant}.{name.lstrip('-')}"
                    found[word] = self.place(*place, variant, name)
        return found

    def overlays(
        self, table: Mapping[str, Any], keys: tuple[str, ...]
    ) -> dict[str, dict[str, dict[str, FlagValue]]]:
        found: dict[str, dict[str, dict[str, FlagValue]]] = {}
        for scenario in table:
            inner = self.table_of(table, scenario, keys)
            place = (*keys, scenario)
            found[scenario] = {
                variant: self.flags(self.table_of(inner, variant, place), (*place, variant))
                for variant in inner
            }
        return found

    def unknown(
        self, table: Mapping[str, Any], known: tuple[str, ...], keys: tuple[str, ...], what: str
    ) -> None:
        for key in table:
            if key not in known:
                hint = remedy(key, known, "valid keys")
                self.say((*keys, key), f"unknown key '{key}' in {what}{hint}")

    def text_of(self, table: Mapping[str, Any], key: str, keys: tuple[str, ...]) -> str | None:
        value = table.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self.wrong((*keys, key), "text", value)
        return None

    def words_of(
        self,
        table: Mapping[str, Any],
        key: str,
        keys: tuple[str, ...],
        such: str = '["docker", "logs", "-f", "llama"]',
    ) -> tuple[str, ...]:
        """A list of words, as in the example; empty where the key is not given."""
        value = table.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and value and all(isinstance(v, str) and v for v in value):
            return tuple(value)
        self.wrong((*keys, key), f"a list of words such as {such}", value)
        return ()

    def program(self, table: Mapping[str, Any], key: str, keys: tuple[str, ...]) -> str | None:
        """A program's path; a bare word is kept, to be looked up on PATH as a shell would."""
        text = self.text_of(table, key, keys)
        return text if text is None or _is_bare(text) else str(self.file(text))

    def optional_file(
        self, table: Mapping[str, Any], key: str, keys: tuple[str, ...]
    ) -> str | None:
        text = self.text_of(table, key, keys)
        return None if text is None else str(self.file(text))

    def table_of(
        self, table: Mapping[str, Any], key: str, keys: tuple[str, ...]
    ) -> Mapping[str, Any]:
        value = table.get(key, {})
        if isinstance(value, dict):
            return value
        self.wrong((*keys, key), "a table", value)
        return {}

    def wrong(self, keys: tuple[str, ...], expected: str, value: object) -> None:
        self.say(keys, f"'{keys[-1]}': expected {expected}, found {value!r}")

    def file(self, text: str) -> Path:
        try:
            return (self.root / Path(text).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a circle of links, nobody's `~`
            self.problems.append(f"{self.path}: '{text}' can name no file: {error}")
            return self.root


def _flag_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _is_bare(server: str) -> bool:
    return Path(server).name == server
