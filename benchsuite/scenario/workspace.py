"""Where scenarios, baselines and runs are, and which deployments there are.

The user's own folders come first, then what travels with benchsuite: `shipped/` inside an
installed package, the repository's folders in a checkout.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import msgspec

import benchsuite
from benchsuite.errors import ConfigError, ScenarioError, UsageError
from benchsuite.model.deployment import ADHOC, TINY, Deployment
from benchsuite.model.scenario import Scenario
from benchsuite.model.suite import Suite
from benchsuite.redact import secret_in_url
from benchsuite.scenario.config import CONFIG_NAME, Config, load_config
from benchsuite.scenario.load import load_scenario
from benchsuite.scenario.reach import Reach
from benchsuite.scenario.suite import load_suite
from benchsuite.scenario.templates import placeholders
from benchsuite.scenario.words import remedy

_SUFFIXES = (".yaml", ".yml")
_TAG = "tag:"

_SUITES = "ci/suites"
_IN_CHECKOUT = {"suites": _SUITES}

_TINY_FLAGS = {"n-gpu-layers": "0"}
"""All on the CPU, so that totals and counts are equal on every machine."""


def shipped_folder(kind: str) -> Path:
    """The folder of this kind (`scenarios`, `baselines`, `suites`) that travels with benchsuite."""
    package = Path(benchsuite.__file__).resolve().parent
    installed = package / "shipped" / kind
    return installed if installed.is_dir() else package.parent / _IN_CHECKOUT.get(kind, kind)


def tiny_deployment() -> Deployment:
    """The built-in deployment: our tiny model on whatever server is found."""
    return Deployment(name=TINY, flags=dict(_TINY_FLAGS), rpc="auto")


class Workspace(msgspec.Struct, frozen=True):
    """The user's folders and deployments; paths are absolute."""

    cwd: Path
    config: Config

    @property
    def scenarios(self) -> Path:
        """The user's own scenarios; may not exist."""
        return self.config.folders.get("scenarios", self.config.root / "scenarios")

    @property
    def baselines(self) -> Path:
        """Where accepted baselines are written; may not exist yet."""
        return self.config.folders.get("baselines", self.config.root / "baselines")

    @property
    def runs(self) -> Path:
        """Where run records are kept; may not exist yet."""
        return self.config.folders.get("runs", self.config.root / ".benchsuite" / "runs")

    @property
    def suites(self) -> Path:
        """The user's own suites; may not exist."""
        return self.config.folders.get("suites", self.config.root / _SUITES)

    def suite_results(self, suite: str) -> Path:
        """The folder of a suite's results, beside the runs; may not exist yet."""
        return self.runs.parent / "ci" / suite

    @property
    def scenario_folders(self) -> tuple[Path, ...]:
        """Where scenarios are looked up, in this order."""
        return _distinct(self.scenarios, shipped_folder("scenarios"))

    @property
    def baseline_folders(self) -> tuple[Path, ...]:
        """Where baselines are read, in this order."""
        return _distinct(self.baselines, shipped_folder("baselines"))

    @property
    def deployments(self) -> dict[str, Deployment]:
        """Every named deployment, the built-in one first."""
        return {TINY: tiny_deployment(), **self.config.deployments}

    def reach(self, path: str) -> Reach:
        """What a scenario or suite file may name; the folder is that where it was found.

        Args:
            path: Of the file, as `Scenario.path` and `Suite.path` have it.
        """
        return Reach(
            folder=resolved(self.cwd, str(Path(path).parent)),
            root=self.config.root,
            allowed=self.config.allow_outside,
            config=self.display(self.config.path) if self.config.path else CONFIG_NAME,
        )

    def display(self, path: Path) -> str:
        """A path as the user would open it from where they stand."""
        try:
            return str(path.relative_to(self.cwd))
        except ValueError:
            return str(path)

    def scenario_files(self) -> dict[str, Path]:
        """Every scenario file by its stem; the user's hide shipped ones of the same name."""
        return _files_in(self.scenario_folders)

    def suite_files(self) -> dict[str, Path]:
        """Every suite file by its stem; the user's hide shipped ones of the same name."""
        return _files_in(_distinct(self.suites, shipped_folder("suites")))

    def locate_suite(self, word: str) -> Path:
        """The suite file meant by a stem or path; one that looks like a path may not exist.

        Raises:
            UsageError: The word means none.
        """
        if looks_like_path(word):
            return resolved(self.cwd, word)
        files = self.suite_files()
        if word in files:
            return files[word]
        raise UsageError(
            f"no suite '{word}'{remedy(word, files, 'suites')}",
            hint=f"write {self.display(self.suites / word)}.yaml, or name a file",
        )

    def load_suite(self, path: Path, today: dt.date) -> Suite:
        """One suite file, named in messages as the user would open it.

        Raises:
            ScenarioError: It has problems, entries that expired on `today` among them.
        """
        return load_suite(path, self.display(path), today=today)

    def load(self, path: Path) -> Scenario:
        """One file, named in messages as the user would open it.

        Raises:
            ScenarioError: It has problems.
        """
        return load_scenario(path, self.display(path))

    def find(self, words: Sequence[str]) -> list[Scenario]:
        """The scenarios meant, each once, in the order named.

        Args:
            words: Stems, paths, or `tag:NAME`.

        Raises:
            UsageError: A word means none.
            ScenarioError: Files have problems; those of all files are named.
        """
        found: dict[Path, Scenario] = {}
        problems: list[str] = []
        for word in words:
            if word.startswith(_TAG):
                found.update(self._tagged(word.removeprefix(_TAG)))
                continue
            path = self.locate(word)
            if path in found:
                continue
            try:
                found[path] = self.load(path)
            except ScenarioError as error:
                problems.extend(error.problems)
        if problems:
            raise ScenarioError(problems)
        return list(found.values())

    def locate(self, word: str) -> Path:
        """The file meant by a stem or path; one that looks like a path may not exist.

        Raises:
            UsageError: The word means none.
        """
        if looks_like_path(word):
            # a missing file, or a folder, is the loader's to name
            return resolved(self.cwd, word)
        files = self.scenario_files()
        if word in files:
            return files[word]
        if (self.cwd / word).exists():
            return self.cwd / word
        raise UsageError(
            f"no scenario '{word}'{remedy(word, files, 'scenarios')}",
            hint="see 'benchsuite list', or name a file",
        )

    def _tagged(self, tag: str) -> dict[Path, Scenario]:
        every = {path: self.load(path) for path in self.scenario_files().values()}
        found = {path: each for path, each in every.items() if tag in each.tags}
        if not found:
            tags = sorted({name for scenario in every.values() for name in scenario.tags})
            raise UsageError(f"no scenario has the tag '{tag}'{remedy(tag, tags, 'tags')}")
        return found


def looks_like_path(word: str) -> bool:
    """Whether a word names a scenario or suite by its file, not by its name."""
    return "/" in word or "\\" in word or word.endswith(_SUFFIXES)


def resolved(folder: Path, text: str) -> Path:
    """A path as a user writes it, whole.

    Raises:
        UsageError: It can name no file: links lead in a circle, or `~` is nobody's home.
    """
    try:
        return (folder / Path(text).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"'{text}' can name no file: {error}") from error


def _files_in(folders: Sequence[Path]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in folders:
        if folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path.suffix in _SUFFIXES and path.is_file():
                    files.setdefault(path.stem, path)
    return files


def _distinct(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(resolved(path, "") for path in paths))


def load_workspace(cwd: Path | None = None) -> Workspace:
    """The workspace of a folder, the working directory if None.

    Raises:
        ConfigError: The configuration has problems.
    """
    folder = (Path.cwd() if cwd is None else cwd).resolve()
    return Workspace(cwd=folder, config=load_config(folder))


def resolve_deployment(
    workspace: Workspace,
    *,
    name: str | None = None,
    server: str | None = None,
    model: str | None = None,
    url: str | None = None,
    api_key_env: str | None = None,
    api_key_file: str | None = None,
) -> Deployment:
    """The deployment that a command line means.

    Args:
        workspace: Knows the named ones.
        name: `-d`; None is `tiny`, or `adhoc` where a model or an address is given.
        server: `--server`: a path, or a word to look up on PATH.
        model: `--model`: a path.
        url: `--url`: a running server.
        api_key_env: `--api-key-env`: the variable that holds its key.
        api_key_file: `--api-key-file`: or the file that does.

    Raises:
        UsageError: The options contradict each other, or no deployment has the name.
        ConfigError: One of the deployment's overlays names a scenario or variant that is none.
    """
    chosen = _named(workspace, name) if name is not None else tiny_deployment()
    if name is None and (model is not None or url is not None):
        chosen = Deployment(name=ADHOC, source="the command line")
    if chosen.attached or url is not None:
        _refuse_with_url(chosen, server=server, model=model, url=url)
    elif api_key_env is not None or api_key_file is not None:
        option = "--api-key-env" if api_key_env is not None else "--api-key-file"
        raise UsageError(f"{option} is for a running server; name it with --url")
    if model is not None and chosen.name == TINY:
        raise UsageError(f"deployment '{TINY}' is our tiny model; leave out -d, or --model")
    if chosen.command is not None:
        _refuse_with_command(chosen, server=server, model=model)
    changes: dict[str, str | None] = {}
    if server is not None:
        bare = Path(server).name == server and not (workspace.cwd / server).is_file()
        changes["server"] = server if bare else _absolute(workspace.cwd, server)
    if model is not None:
        changes["model"] = _absolute(workspace.cwd, model)
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--url '{url}': expected an address such as http://127.0.0.1:8080")
        if (what := secret_in_url(url)) is not None:
            raise UsageError(
                f"--url holds a secret ({what}), which would be printed and recorded, and is seen "
                "in the list of processes",
                hint="export the server's key, and name its variable with --api-key-env",
            )
        changes["url"] = url
    if api_key_env is not None:
        changes["api_key_env"], changes["api_key_file"] = api_key_env, None
    if api_key_file is not None:
        if api_key_env is None:
            changes["api_key_env"] = None
        changes["api_key_file"] = _absolute(workspace.cwd, api_key_file)
    _check_overlays(workspace, chosen)
    return msgspec.structs.replace(chosen, **changes)


def _named(workspace: Workspace, name: str) -> Deployment:
    known = workspace.deployments
    if name in known:
        return known[name]
    path = workspace.config.path
    hint = f"in {workspace.display(path)}" if path else "in a file benchsuite.toml"
    raise UsageError(
        f"no deployment '{name}'{remedy(name, known, 'deployments')}",
        hint=f"declare it as [deployments.{name}] {hint}",
    )


def _refuse_with_url(
    chosen: Deployment, *, server: str | None, model: str | None, url: str | None
) -> None:
    if server is not None:
        raise UsageError("--server starts a server, --url attaches to a running one; give one")
    if model is not None:
        raise UsageError("--model is for a server that we start; a running one has its model")
    if not chosen.attached and url is not None and chosen.name != ADHOC:
        raise UsageError(
            f"deployment '{chosen.name}' starts a server, --url attaches to a running one",
            hint="leave out -d, or declare a deployment with 'url'",
        )


def _refuse_with_command(chosen: Deployment, *, server: str | None, model: str | None) -> None:
    if server is not None:
        raise UsageError(
            f"deployment '{chosen.name}' starts its server by a 'command'; --server cannot replace "
            "it",
            hint="leave out -d, or --server",
        )
    command = chosen.command
    if model is None or command is None:
        return
    if command.model_inside is None and "model" not in placeholders(command.argv):
        raise UsageError(
            f"deployment '{chosen.name}' brings its own model; --model cannot replace it",
            hint="leave out --model, or write {model} in its 'command'",
        )
    if command.model_inside is not None:
        raise UsageError(
            f"deployment '{chosen.name}' says with 'model_inside' where its server finds the "
            "model; --model cannot replace it",
            hint="leave out --model, or declare a deployment for the other model",
        )


def _absolute(cwd: Path, text: str) -> str:
    # links stay: a server may find its libraries by the name it was called with
    return str((cwd / Path(text).expanduser()).absolute())


def _check_overlays(workspace: Workspace, deployment: Deployment) -> None:
    if not deployment.overlays:
        return
    files = workspace.scenario_files()
    for scenario in deployment.overlays:
        if scenario not in files:
            raise ConfigError(
                f"overlay for an unknown scenario '{scenario}'"
                f"{remedy(scenario, files, 'scenarios')}",
                where=workspace.config.overlay_places.get((deployment.name, scenario)),
            )
