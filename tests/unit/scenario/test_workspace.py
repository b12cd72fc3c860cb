"""Folders, scenarios and deployments are found where the user would expect them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.errors import ConfigError, ScenarioError, UsageError
from benchsuite.model.deployment import Deployment, Observe
from benchsuite.scenario.config import find_config
from benchsuite.scenario.toml_bounds import line_of
from benchsuite.scenario.workspace import (
    Workspace,
    load_workspace,
    resolve_deployment,
    shipped_folder,
)

SCENARIO = "title: {title}\ntags: [{tag}]\nsteps:\n  - idle: 1\n"
CONFIG = """scenarios = "bench"
runs = "out/runs"

[deployments.fork]
server = "build/bin/llama-server"
model = "models/m.gguf"
env = {GGML_X = "1"}

[deployments.fork.flags]
flash-attn = true
"--cache-type-k" = "q8_0"
lora = ["a", "b"]
mmproj = []
n-gpu-layers = 99

[deployments.fork.overlays.mine.O]
swa-full = true

[deployments.live]
url = "http://10.0.0.1:8080"
api_key_env = "KEY"
observe = {log = "server.log", pid = 7}
requests_per_second = 5
"""


def folder(path: Path, config: str = "", **scenarios: str) -> Workspace:
    (path / ".git").mkdir(exist_ok=True)
    if config:
        (path / "benchsuite.toml").write_text(config)
    for name, tag in scenarios.items():
        (path / "bench").mkdir(exist_ok=True)
        (path / "bench" / f"{name}.yaml").write_text(SCENARIO.format(title=name, tag=tag))
    return load_workspace(path)


def config_error(path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        folder(path, text)
    return str(caught.value).replace(f"{path}/", "")


def test_without_a_file_everything_has_a_place(tmp_path: Path) -> None:
    """An empty folder works, with the shipped scenarios and the tiny deployment."""
    workspace = load_workspace(tmp_path)
    assert workspace.scenarios == tmp_path / "scenarios"
    assert workspace.baselines == tmp_path / "baselines"
    assert workspace.runs == tmp_path / ".benchsuite" / "runs"
    assert workspace.baseline_folders == (tmp_path / "baselines", shipped_folder("baselines"))
    assert list(workspace.deployments) == ["tiny"]
    assert {"scenarioA", "scenarioB"} <= set(workspace.scenario_files())


def test_the_file_is_found_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    """A folder inside uses it; a repository inside does not look beyond itself."""
    (tmp_path / "benchsuite.toml").write_text("")
    inner = tmp_path / "repo" / "a" / "b"
    inner.mkdir(parents=True)
    assert find_config(inner) is None  # no repository: only the folder itself
    (tmp_path / "repo" / ".git").mkdir()
    assert find_config(inner) is None
    (tmp_path / "repo" / "benchsuite.toml").write_text("")
    assert find_config(inner) == tmp_path / "repo" / "benchsuite.toml"


def test_pyproject_counts_only_with_our_table(tmp_path: Path) -> None:
    """Another project's pyproject.toml is passed over."""
    project = tmp_path / "pyproject.toml"
    project.write_text("[tool.ruff]\n")
    assert find_config(tmp_path) is None
    project.write_text('[tool.benchsuite]\nruns = "r"\n')
    assert load_workspace(tmp_path).runs == tmp_path / "r"
    project.write_text('\n[tool.benchsuite]\nrun = "r"\n')
    with pytest.raises(ConfigError, match=r"pyproject.toml:3: unknown key 'run' .* 'runs'"):
        load_workspace(tmp_path)


def test_a_whole_configuration(tmp_path: Path) -> None:
    """Paths are relative to the file, flags are text, an empty list removes a flag."""
    workspace = folder(tmp_path, CONFIG, mine="x")
    fork, live = workspace.deployments["fork"], workspace.deployments["live"]
    assert workspace.scenarios == tmp_path / "bench"
    assert fork.server == str(tmp_path / "build/bin/llama-server")
    assert fork.model == str(tmp_path / "models/m.gguf")
    assert fork.env == {"GGML_X": "1"}
    assert fork.flags == {
        "flash-attn": "true",
        "cache-type-k": "q8_0",
        "lora": ("a", "b"),
        "mmproj": None,
        "n-gpu-layers": "99",
    }
    assert fork.overlays == {"mine": {"O": {"swa-full": "true"}}}
    assert fork.source.endswith("benchsuite.toml:4")
    assert live == Deployment(
        name="live",
        url="http://10.0.0.1:8080",
        api_key_env="KEY",
        observe=Observe(log=str(tmp_path / "server.log"), pid=7),
        requests_per_second=5.0,
        source=live.source,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = [\n", "benchsuite.toml:"),
        ('\nscenario = "x"\n', "benchsuite.toml:2: unknown key 'scenario' in the configuration"),
        ("runs = 3\n", "benchsuite.toml:1: 'runs': expected text, found 3"),
        ("\n[deployments.tiny]\n", "benchsuite.toml:2: deployment 'tiny' is built in; choose"),
        ("[deployments]\nx = 3\n", "benchsuite.toml:2: deployment 'x': expected a table"),
        (
            "[deployments.x]\n\nmodle = 'm'\n",
            "benchsuite.toml:3: unknown key 'modle' in deployment 'x'; did you mean 'model'?",
        ),
        (
            "[deployments.x.flags]\nfa = 1979-05-27\n",
            "benchsuite.toml:2: 'fa': expected a value or a list of values, found",
        ),
        (
            "[deployments.x]\nurl = 'http://a'\nmodel = 'm'\n",
            "benchsuite.toml:3: 'model' is for a server that we start; 'url' names a running one",
        ),
        (
            "[deployments.x]\nurl = 'localhost'\n",
            "benchsuite.toml:2: 'url': expected an address such as http://127.0.0.1:8080, found",
        ),
        (
            "[deployments.x]\napi_key_env = 'K'\n",
            "benchsuite.toml:2: 'api_key_env' is for a running server, which 'url' would name",
        ),
        (
            "[deployments.x]\nurl='http://a'\nobserve = {pid = -1}\n",
            "benchsuite.toml:3: 'pid': expected a process id, found -1",
        ),
    ],
)
def test_each_mistake_is_named_at_its_line(tmp_path: Path, text: str, expected: str) -> None:
    """One sentence at file:line."""
    assert config_error(tmp_path, text).startswith(expected)


def test_all_mistakes_are_named_together(tmp_path: Path) -> None:
    """Two mistakes are two lines of one error."""
    text = "run = 1\n[deployments.x]\nurll = 'u'\n"
    assert [line.split(": ")[0] for line in config_error(tmp_path, text).splitlines()] == [
        "benchsuite.toml:1",
        "benchsuite.toml:3",
    ]


def test_lines_are_found_by_the_deepest_match() -> None:
    """Headers, dotted keys and quoted names are understood."""
    text = '[a."b.c"]\nx = 1\n\n[a.d]\nx = 2\ne.f = 3\n'
    assert line_of(text, ("a", "b.c", "x")) == 2
    assert line_of(text, ("a", "d", "x")) == 5
    assert line_of(text, ("a", "d", "e", "f")) == 6
    assert line_of(text, ("a", "d", "gone")) == 4
    assert line_of(text, ("nothing",)) == 1


def test_scenarios_are_found_by_stem_path_and_tag(tmp_path: Path) -> None:
    """The user's own come first; each is loaded once, in the order named."""
    workspace = folder(tmp_path, 'scenarios = "bench"\n', one="x", two="y", scenarioA="y")
    assert [s.title for s in workspace.find(["two", "bench/one.yaml", "two"])] == ["two", "one"]
    assert workspace.find(["scenarioA"])[0].path == "bench/scenarioA.yaml"
    assert {s.name for s in workspace.find(["tag:y"])} == {"two", "scenarioA"}
    assert workspace.find(["scenarioB"])[0].name == "scenarioB"


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("scenarioC", "no scenario 'scenarioC'; did you mean 'scenario"),
        ("tag:m9", "no scenario has the tag 'm9'"),
    ],
)
def test_unknown_scenarios_name_the_nearest(tmp_path: Path, word: str, sentence: str) -> None:
    """A word that means nothing is a usage error."""
    with pytest.raises(UsageError) as caught:
        load_workspace(tmp_path).find([word])
    assert caught.value.message.startswith(sentence)


def test_paths_that_are_no_scenarios(tmp_path: Path) -> None:
    """A missing file and a folder are named as the user wrote them."""
    (tmp_path / "dir").mkdir()
    workspace = load_workspace(tmp_path)
    for word, sentence in (("x.yaml", "x.yaml: no such file"), ("dir", "dir: is a folder; name")):
        with pytest.raises(ScenarioError) as caught:
            workspace.find([word])
        assert caught.value.problems[0].startswith(sentence)


def test_options_choose_the_deployment(tmp_path: Path) -> None:
    """--server alone keeps tiny; --model or --url without -d is adhoc."""
    workspace = folder(tmp_path, CONFIG, mine="x")
    (tmp_path / "wrapper").write_text("")
    assert resolve_deployment(workspace).flags == {"n-gpu-layers": "0"}
    tiny = resolve_deployment(workspace, server="./wrapper")
    assert (tiny.name, tiny.server) == ("tiny", str(tmp_path / "wrapper"))
    assert resolve_deployment(workspace, server="llama-server").server == "llama-server"
    assert resolve_deployment(workspace, server="wrapper").server == str(tmp_path / "wrapper")
    adhoc = resolve_deployment(workspace, server="x/y", model="m.gguf")
    assert (adhoc.name, adhoc.model, adhoc.flags) == ("adhoc", str(tmp_path / "m.gguf"), {})
    attached = resolve_deployment(workspace, url="http://h:1", api_key_env="K")
    assert (attached.name, attached.attached, attached.api_key_env) == ("adhoc", True, "K")
    fork = resolve_deployment(workspace, name="fork", model="other.gguf")
    assert (fork.name, fork.model) == ("fork", str(tmp_path / "other.gguf"))
    live = resolve_deployment(workspace, name="live", url="http://h:2")
    assert (live.url, live.api_key_env) == ("http://h:2", "KEY")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "frok"}, "no deployment 'frok'; did you mean 'fork'?"),
        ({"name": "adhoc"}, "no deployment 'adhoc'"),
        ({"url": "http://h", "server": "x"}, "--server starts a server, --url attaches"),
        ({"url": "http://h", "model": "x"}, "--model is for a server that we start"),
        ({"url": "h:8080"}, "--url 'h:8080': expected an address"),
        ({"url": "http://h", "name": "fork"}, "deployment 'fork' starts a server, --url attaches"),
        ({"url": "http://h", "name": "tiny"}, "deployment 'tiny' starts a server, --url attaches"),
        ({"server": "x", "name": "live"}, "--server starts a server"),
        ({"api_key_env": "K"}, "--api-key-env is for a running server"),
        ({"name": "tiny", "model": "m"}, "deployment 'tiny' is our tiny model"),
    ],
)
def test_options_that_contradict_are_refused(
    tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    """Nothing is guessed where two options name different servers."""
    workspace = folder(tmp_path, CONFIG, mine="x")
    with pytest.raises(UsageError) as caught:
        resolve_deployment(workspace, **options)
    assert caught.value.message.startswith(sentence)


def test_an_overlay_for_no_scenario_is_an_error(tmp_path: Path) -> None:
    """A renamed scenario must not silently lose its overlay."""
    workspace = folder(tmp_path, CONFIG.replace("overlays.mine", "overlays.mien"), mine="x")
    with pytest.raises(ConfigError, match=r"benchsuite.toml:16: overlay for an unknown scenario"):
        resolve_deployment(workspace, name="fork")


def test_source_folders_are_one_or_several(tmp_path: Path) -> None:
    """A single one has no key of its own; both are taken from the configuration's folder."""
    one = folder(tmp_path, '[deployments.fork]\nsource = "../llama.cpp"\n')
    assert one.deployments["fork"].sources == {"default": str(tmp_path.parent / "llama.cpp")}
    two = folder(tmp_path, '[deployments.fork]\nsource = {ours = "a", theirs = "b"}\n')
    assert two.deployments["fork"].sources == {
        "ours": str(tmp_path / "a"),
        "theirs": str(tmp_path / "b"),
    }
    assert "'source': expected text, found 3" in config_error(
        tmp_path, "[deployments.fork]\nsource = 3\n"
    )


def test_every_flag_knows_its_line(tmp_path: Path) -> None:
    """In tables of their own, inline, and in overlays; dashes do not matter."""
    config = """[deployments.a]
server = "llama-server"
[deployments.a.flags]
ctx-size = 9
"--np" = 4
[deployments.a.overlays.small.B]
kv-unified = true
[deployments.b]
flags = { ctx-size = 9 }
"""
    (tmp_path / "benchsuite.toml").write_text(config)
    found = load_workspace(tmp_path).config.deployments
    file = tmp_path.resolve() / "benchsuite.toml"
    assert found["a"].places == {
        "ctx-size": f"{file}:4",
        "np": f"{file}:5",
        "small.B.kv-unified": f"{file}:7",
    }
    assert found["b"].places == {"ctx-size": f"{file}:9"}
