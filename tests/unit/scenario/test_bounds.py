"""Numbers without end, texts without end and files without end are refused in words, in time."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from benchsuite.errors import ConfigError, ScenarioError
from benchsuite.scenario.config import load_config, parse_config
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.toml_bounds import refuse_long_keys

PATH = Path("/x/benchsuite.toml")
DIGITS = "1" + "0" * 5000
NUMBERS = ("1e400", "-1e400", DIGITS, f"-{DIGITS}", "nan", "inf", "-inf", "0x" + "f" * 5000)

_KEYS = (
    "[limits]\nstart = {}\n",
    '[deployments.x]\nurl = "http://h"\nrequests_per_second = {}\n',
    '[deployments.x]\nurl = "http://h"\nobserve = {{pid = {}}}\n',
    "[deployments.x]\nflags = {{ctx-size = {}}}\n",
    "[deployments.x]\nflags = {{ctx-size = [{}]}}\n",
    "[deployments.x.overlays.s.v]\nctx-size = {}\n",
    "[deployments.x.env]\nA = {}\n",
    "unknown = {}\n",
)


@pytest.mark.parametrize("text", _KEYS)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:6])
def test_a_number_that_is_none_is_refused_in_the_configuration(text: str, number: str) -> None:
    """In each key that takes one, with its line or that of what is no TOML."""
    with pytest.raises(ConfigError, match=r"benchsuite\.toml") as caught:
        parse_config(PATH, text.format(number))
    assert len(str(caught.value)) < 1000


_IDLE = "title: t\nsteps:\n  - idle: 1 s\n"
_SCENARIO = (
    "title: t\nsteps:\n  - idle: {}\n",
    "title: t\nsteps:\n  - complete: {{id: a, prompt: {{tokens: {}}}}}\n",
    "title: t\nsteps:\n  - complete: {{id: a, prompt: {{text: x, seed: {}}}}}\n",
    "title: t\nsteps:\n- complete: {{id: a, prompt: {{text: x}}, request: {{temperature: {}}}}}\n",
    "title: t\nsteps:\n  - load: {{as: l, requests: 3, rate: {}, prompt: {{tokens: 3}}}}\n",
    "title: t\nserver:\n  ctx-size: {{min: {}}}\nsteps:\n  - idle: 1 s\n",
    _IDLE + "gates:\n  - {{metric: kv_mib, max: {}}}\n",
    _IDLE + "gates:\n  - {{metric: kv_mib, regression: {{worse_than: {}}}}}\n",
)


@pytest.mark.parametrize("text", _SCENARIO)
@pytest.mark.parametrize("number", [*NUMBERS, ".inf", ".nan", "1" * 900_000], ids=lambda t: t[:6])
def test_a_number_that_is_none_is_refused_in_a_scenario(text: str, number: str) -> None:
    """In each key that takes one, in time, and without quoting all of it."""
    began = time.monotonic()
    with pytest.raises(ScenarioError, match=r"s\.yaml:\d+: ") as caught:
        parse_scenario(text.format(number), display="s.yaml")
    assert time.monotonic() - began < 30
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = " + "[" * 20 + "]" * 20, r"toml:1: 'a' is nested more than 16 deep"),
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("".join(f"[deployments.d{i}]\nurl='http://h'\n" for i in range(9000)), "more than 10000"),
        (f"\nserver = '{'x' * 10_001}'\n", r"toml:2: 'server' has 10001 characters"),
        (f"{'k' * 10_001} = 1\n", "a key of more than 10000 characters"),
        (f"\n{'a.' * 20_000}a = 1\n", r"toml:2: a key has more than 16 parts"),
        (f'a = """\n\n"""\n[{" . ".join(["b", chr(39) * 2] * 9)}]\n', r"toml:4: a key has"),
    ],
)
def test_a_configuration_of_absurd_size_is_refused(text: str, expected: str) -> None:
    """Before anything is made of it."""
    with pytest.raises(ConfigError, match=expected):
        parse_config(PATH, text)


@pytest.mark.parametrize(
    "text",
    [
        f"model = '{'a.' * 20}gguf'\n",
        f'# {"a." * 20}\nmodel = "m\\"{"a." * 20}"\n',
        f"model = \"\"\"\n{'a.' * 20}\n\"\"\"\nserver = '''{'a.' * 20}'''\n",
    ],
)
def test_dots_in_texts_and_comments_are_none_of_a_key(text: str) -> None:
    """Paths and addresses have as many as they like."""
    refuse_long_keys(PATH, text)
    assert "a.a" in str(tomllib.loads(text))


def test_a_configuration_file_of_absurd_size_is_not_read(tmp_path: Path) -> None:
    """Neither ours nor a pyproject.toml."""
    for name in ("benchsuite.toml", "pyproject.toml"):
        (tmp_path / name).write_bytes(b"#" * (1024 * 1024 + 1))
        with pytest.raises(ConfigError, match="is larger than 1048576 bytes"):
            load_config(tmp_path)
        (tmp_path / name).unlink()
