"""What `init` writes is read back as what was found, whatever stood in the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.model.scenario import FlagValue
from benchsuite.report.first_config import (
    FirstLook,
    Reuse,
    render_config,
    render_first_scenario,
)
from benchsuite.scenario.config import parse_config
from benchsuite.scenario.load import parse_scenario

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: bool(text.strip())
)


@given(
    flags=st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9.-]{0,10}", fullmatch=True),
        _TEXT | st.lists(_TEXT, min_size=2, max_size=3).map(tuple),
    ),
    env=st.dictionaries(
        st.from_regex(r"[A-Z_]{1,8}", fullmatch=True),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    sentence=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
def test_flags_survive_being_written_and_read(
    flags: dict[str, FlagValue], env: dict[str, str], sentence: str
) -> None:
    """Numbers, words, quotes, line ends; and what a comment holds cannot become a key."""
    look = FirstLook("m", server="s", flags=flags, env=env, seen=(sentence,), switches=())
    config = parse_config(Path("/x/benchsuite.toml"), render_config(look))
    found = config.deployments["m"]
    assert found.flags == flags
    assert found.env == env
    assert found.server == "s"


def test_switches_are_true_and_false() -> None:
    """A flag that takes a word keeps it, even where the word is `on`."""
    flags: dict[str, FlagValue] = {"metrics": "on", "warmup": "off", "flash-attn": "on"}
    text = render_config(FirstLook("m", flags=flags, switches=("metrics", "warmup")))
    for line in ("metrics = true", "warmup = false", 'flash-attn = "on"'):
        assert f"\n{line}\n" in text


def test_a_running_server_has_its_address_and_the_name_of_the_key() -> None:
    """Nothing that is only for servers that we start."""
    look = FirstLook("m", url="https://h/x", api_key_env="K", log="l", model_name="one")
    found = parse_config(Path("/x/benchsuite.toml"), render_config(look)).deployments["m"]
    assert (found.url, found.api_key_env, found.model_name) == ("https://h/x", "K", "one")
    assert found.observe.log == "/x/l"


@pytest.mark.parametrize(
    ("look", "lines", "missing"),
    [
        (FirstLook("m"), ["min: 600", "when: {attention: full}", "equals: analytic"], "rs_mib"),
        (FirstLook("m", attention="recurrent"), ["metric: rs_mib", "checkpoints"], "kv_mib\n"),
        (FirstLook("m", attention="hybrid"), ["metric: rs_mib", "metric: kv_mib"], "min: 0"),
        (
            FirstLook("m", caches_prompts=False),
            ["equals: 0", "turns the prompt cache off"],
            "600\n",
        ),
        (FirstLook("m", slot_tokens=512), ["min: 160", "{min: 512, per: slot}"], "600"),
        (FirstLook("m", slot_tokens=256), ["min: 40", "{min: 256, per: slot}"], "600"),
        (FirstLook("m", url="http://h", reuse=Reuse(600, 700, 660)), ["min: 600"], "when:"),
        (
            FirstLook("m", url="http://h", reuse=Reuse(600, 700, 12)),
            ["when: {attention"],
            "kv_mib\n",
        ),
        (
            FirstLook("m", url="http://h", reuse=Reuse(600, None, None)),
            ["when: {attention"],
            "trial",
        ),
        (FirstLook("m", url="http://h", kv_mib=4.25), ["equals: 4.25"], "analytic"),
    ],
)
def test_gates_are_those_that_hold_for_the_model(
    look: FirstLook, lines: list[str], missing: str
) -> None:
    """Each file is a scenario that passes the checks."""
    text = render_first_scenario(look)
    parse_scenario(text, "first", "scenarios/first.yaml")
    for line in lines:
        assert line in text
    assert missing not in text.partition("# Once a run")[0]
