"""What scenario and suite files may name, and which flags they may not give."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.errors import ConfigError, FlagError, UsageError
from benchsuite.model.deployment import Deployment
from benchsuite.model.scenario import FlagValue
from benchsuite.scenario.config import parse_config
from benchsuite.scenario.flags import parse_help
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.plan import make_plan
from benchsuite.scenario.reach import Reach, flags_outside
from benchsuite.scenario.workspace import load_workspace

HELP = Path(__file__).parents[2] / "fixtures" / "help" / "b10434.txt"
MORE = """
--lora-scaled FNAME:SCALE,...           path to LoRA adapter with user defined scaling
--chat-template-file JINJA_TEMPLATE_FILE
                                        set custom jinja chat template file
                                        (env: LLAMA_ARG_CHAT_TEMPLATE_FILE)
--slot-save-path PATH                   path to save slot kv cache (default: disabled)
--mcp-servers-config PATH               experimental: path to JSON file with MCP server definitions
--tools TOOL1,TOOL2,...                 experimental: whether to enable built-in tools
-ag,   --agent, -no-ag, --no-agent      whether to enable all built-in tools
-mu,   --model-url MODEL_URL            model download url
-hf,   -hfr, --hf-repo <user>/<model>   Hugging Face model repository
--rpc SERVERS                           comma-separated list of RPC servers (host:port)
--gpt-oss-20b-default                   use gpt-oss-20b (note: can download weights)
--newer-thing FNAME                     a flag that no version of ours knows
"""
TABLE = parse_help(HELP.read_text() + MORE, "llama-server b10434")
SCENARIO = "title: t\nsteps:\n  - idle: 1 s\nvariants:\n  A:\n    flags: {%s}\n"


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    """A project with a folder of scenarios; beside it, a secret."""
    (tmp_path / "project" / "scenarios").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    folder = (tmp_path / "project").resolve()
    return Reach(folder / "scenarios", folder)


def test_a_file_of_the_project_is_found_from_the_scenarios_folder(reach: Reach) -> None:
    """Also above the scenario's folder, and whether or not it exists yet."""
    found = reach.file("../data/a.jsonl", where="s.yaml:3", key="'file'")
    assert found == reach.root / "data" / "a.jsonl"
    assert reach.file("a", where="s.yaml:3", key="'file'") == reach.folder / "a"


@pytest.mark.parametrize("text", ["../../secret", "/etc/passwd", "~/x", "a/../../../secret"])
def test_a_file_outside_is_refused_with_its_place_and_what_to_type(reach: Reach, text: str) -> None:
    """The message has where, found, expected and the remedy."""
    with pytest.raises(UsageError) as caught:
        reach.file(text, where="s.yaml:3", key="'file'")
    message = str(caught.value)
    assert message.startswith(f"s.yaml:3: 'file': '{text}' is /")
    assert f"outside the project ({reach.root}); expected a file in it" in message
    assert caught.value.hint is not None
    assert '[trust] allow_outside = ["/' in caught.value.hint


def test_links_are_followed_before_a_file_is_judged(reach: Reach) -> None:
    """A link within the project to something outside is outside, as is one in the middle."""
    (reach.folder / "link").symlink_to(reach.root.parent / "secret")
    (reach.folder / "folder").symlink_to(reach.root.parent)
    for text in ("link", "folder/secret"):
        with pytest.raises(UsageError, match="outside the project"):
            reach.file(text, where="s.yaml:3", key="'file'")


def test_what_the_configuration_allows_may_be_named(reach: Reach, tmp_path: Path) -> None:
    """Relative to benchsuite.toml; only what lies below, not beside it."""
    config = parse_config(
        reach.root / "benchsuite.toml", '[trust]\nallow_outside = ["../common"]\n'
    )
    assert config.allow_outside == (tmp_path.resolve() / "common",)
    wider = Reach(reach.folder, reach.root, config.allow_outside)
    assert wider.file("../../common/x", where=None, key="k") == tmp_path.resolve() / "common" / "x"
    with pytest.raises(UsageError, match="outside"):
        wider.file("../../common-not/x", where=None, key="k")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[trust]\nallow = ["/x"]', r"toml:2: unknown key 'allow' in 'trust'"),
        ('[trust]\nallow_outside = "/x"', r"toml:2: 'allow_outside': expected a list of words"),
        ("trust = 3", r"toml:1: 'trust': expected a table"),
    ],
)
def test_a_mistyped_trust_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    """Nothing is allowed by accident."""
    with pytest.raises(ConfigError, match=expected):
        parse_config(tmp_path / "benchsuite.toml", text)


@pytest.mark.parametrize(
    ("flag", "key"),
    [
        ("chat-template-file: /etc/passwd", "chat-template-file"),
        ("LLAMA_ARG_CHAT_TEMPLATE_FILE: ../../x", "chat-template-file"),
        ("slot-save-path: ../..", "slot-save-path"),
        ("lora: 'a.gguf,/etc/passwd'", "lora"),
        ("lora-scaled: '/etc/passwd:0.5'", "lora-scaled"),
        ("md: /etc/passwd", "model-draft"),
        ("newer-thing: /etc/passwd", "newer-thing"),
        ("lora: [a, /etc/passwd]", "lora"),
    ],
)
def test_a_scenarios_flag_names_no_file_outside(reach: Reach, flag: str, key: str) -> None:
    """Whatever the spelling, by what the build's help says of the flag; of needs and variants."""
    scenario = parse_scenario(SCENARIO % flag, display="s.yaml")
    with pytest.raises(UsageError, match=rf"^s.yaml:\d: flag '{key}': '.*outside the project"):
        make_plan(scenario, Deployment(name="mine"), TABLE, reach=reach)
    assert [one for one in flags_outside(scenario, reach, TABLE) if f"'{key}'" in one]
    needs = f"title: t\nserver:\n  {flag}\nsteps:\n  - idle: 1 s\n"
    with pytest.raises(UsageError, match=r"^s.yaml:3: flag .*outside the project"):
        make_plan(
            parse_scenario(needs, display="s.yaml"), Deployment(name="mine"), TABLE, reach=reach
        )


def test_a_scenarios_file_is_given_whole_to_the_server(reach: Reach) -> None:
    """So that it does not depend on the working directory, and is the file that was looked at."""
    scenario = parse_scenario(SCENARIO % "lora-scaled: 'a.gguf:0.5,b.gguf:1'", display="s.yaml")
    plan = make_plan(scenario, Deployment(name="mine"), TABLE, reach=reach)
    folder = reach.folder
    assert plan.variants[0].flags["lora-scaled"] == f"{folder}/a.gguf:0.5,{folder}/b.gguf:1"


def test_deployments_and_set_name_what_they_like(reach: Reach) -> None:
    """They are the user's own word."""
    scenario = parse_scenario(SCENARIO % "", display="s.yaml")
    for where, sets in (
        (Deployment(name="mine", flags={"lora": "/opt/a.gguf"}), []),
        (Deployment(name="mine"), [("lora", "/opt/a.gguf")]),
    ):
        plan = make_plan(scenario, where, TABLE, sets=sets, reach=reach)
        assert plan.variants[0].flags["lora"] == "/opt/a.gguf"


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("tools: all", "start programs"),
        ("agent: true", "start programs"),
        ("mcp-servers-config: inside.json", "start programs"),
        ("model-url: 'http://h/x'", "download a model"),
        ("hf: a/b", "download a model"),
        ("gpt-oss-20b-default: true", "download a model"),
        ("rpc: '127.0.0.1:1,h:2'", "sends the model to h:2"),
    ],
)
def test_flags_that_start_or_fetch_something_are_the_deployments(
    reach: Reach, flag: str, expected: str
) -> None:
    """A scenario file is data; the hint says where the flag may stand."""
    scenario = parse_scenario(SCENARIO % flag, display="s.yaml")
    with pytest.raises(FlagError, match=rf"^s.yaml:\d: flag .*{expected}") as caught:
        make_plan(scenario, Deployment(name="mine"), TABLE, reach=reach)
    assert caught.value.hint is not None
    assert "deployment" in caught.value.hint
    assert list(flags_outside(scenario, reach, TABLE))


@pytest.mark.parametrize("value", ["false", None, "127.0.0.1:50052,localhost:1"])
def test_what_starts_nothing_may_be_given(reach: Reach, value: FlagValue) -> None:
    """Off, not at all, or an RPC server of this machine."""
    name = "rpc" if value is None or ":" in str(value) else "agent"
    scenario = parse_scenario(
        SCENARIO % f"{name}: {'null' if value is None else repr(value)}", display="s.yaml"
    )
    assert make_plan(scenario, Deployment(name="mine"), TABLE, reach=reach)


def test_a_scenario_reached_by_a_link_reaches_no_further(tmp_path: Path) -> None:
    """Its folder is the one where it was found, not the one that the link leads to."""
    (tmp_path / "elsewhere").mkdir()
    project = tmp_path / "project"
    (project / "scenarios").mkdir(parents=True)
    (tmp_path / "elsewhere" / "s.yaml").write_text("title: t\nsteps:\n  - idle: 1 s\n")
    (project / "scenarios" / "s.yaml").symlink_to(tmp_path / "elsewhere" / "s.yaml")
    workspace = load_workspace(project)
    (scenario,) = workspace.find(["s"])
    reach = workspace.reach(scenario.path)
    assert reach.folder == (project / "scenarios").resolve()
    with pytest.raises(UsageError, match="outside"):
        reach.file(str(tmp_path / "elsewhere" / "x"), where=None, key="k")
