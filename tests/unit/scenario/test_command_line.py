"""Someone's command line becomes flags by their canonical names, without its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.errors import BenchsuiteError, FlagError, UsageError
from benchsuite.model.scenario import FlagValue
from benchsuite.scenario.command_line import CommandLine, read_command_line, split_command
from benchsuite.scenario.flags import parse_help

HELP = Path(__file__).parents[2] / "fixtures" / "help" / "b10434.txt"
MORE = """
-hft,  --hf-token TOKEN                 Hugging Face access token
-mu,   --model-url MODEL_URL            model download url
--ssl-key-file FNAME                    path to file a PEM-encoded SSL private key
"""
"""Lines of the same help that the fixture leaves out."""
TABLE = parse_help(HELP.read_text() + MORE, "llama-server b10434")


def _read(*words: str, **env: str) -> CommandLine:
    return read_command_line(words, env, TABLE)


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (("-c", "4096", "-np", "-1"), {"ctx-size": "4096", "parallel": "-1"}),
        (("--ctx_size", "4096"), {"ctx-size": "4096"}),
        (("-nkvo", "-kvu"), {"kv-offload": "off", "kv-unified": "on"}),
        (("-fa", "1"), {"flash-attn": "on"}),
        (("-c", "1", "--ctx-size", "2"), {"ctx-size": ("1", "2")}),
        (("--lora", "a", "--lora", "b"), {"lora": ("a", "b")}),
        (("--metrics", "--metrics"), {"metrics": "on"}),
        ((), {}),
    ],
)
def test_flags_are_read_as_the_server_reads_them(
    words: tuple[str, ...], flags: dict[str, FlagValue]
) -> None:
    """Short names, underscores, negations, negative numbers, repeats."""
    assert _read(*words).flags == flags


def test_variables_before_the_program_are_flags_settings_or_secrets() -> None:
    """Arguments beat variables; a secret is named without its value."""
    found = _read("-c", "9", LLAMA_ARG_CTX_SIZE="1", LLAMA_ARG_N_PARALLEL="2", A="b", MY_KEY="xyz")
    assert found.flags == {"ctx-size": "9", "parallel": "2"}
    assert found.env == {"A": "b"}
    assert [name for name, _ in found.left_out] == ["MY_KEY"]
    assert "xyz" not in repr(found)


def test_what_is_ours_or_secret_is_left_out_and_said() -> None:
    """And the model is told apart."""
    words = (
        "-m",
        "m.gguf",
        "--host",
        "h",
        "--port",
        "1",
        "--api-key",
        "xyz",
        "--hf-token",
        "hf_t",
    )
    found = _read(*words, "--log-file", "f", "-lv", "1", "--ssl-key-file", "k", "-c", "9")
    assert (found.model, found.flags) == ("m.gguf", {"ctx-size": "9"})
    names = [name for name, _ in found.left_out]
    assert names == [
        "--host",
        "--port",
        "--api-key",
        "--hf-token",
        "--log-file",
        "--log-verbosity",
        "--ssl-key-file",
    ]
    assert "xyz" not in repr(found)
    assert "hf_t" not in repr(found)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://me:pw12@h/m.gguf", False),
        ("https://h/m.gguf?token=pw12", False),
        ("https://h/m.gguf?X-Amz-Signature=pw12&x=1", False),
        ("https://h/m.gguf?download=true", True),
    ],
)
def test_urls_with_secrets_are_left_out(url: str, kept: bool) -> None:
    """Of flags and of variables; others are taken over."""
    found = _read("-mu", url, PROXY=url)
    assert ("model-url" in found.flags) is kept
    assert ("PROXY" in found.env) is kept
    assert "pw12" not in repr(found)


@pytest.mark.parametrize(
    ("words", "kind", "sentence"),
    [
        (("-c",), UsageError, "flag '-c' of the command line lacks its value"),
        (("4096",), UsageError, "'4096' of the command line is no flag"),
        (("--ctx-sise", "1"), FlagError, "did you mean 'ctx-size'"),
        (("--ctx-size=1",), FlagError, "does not take '--ctx-size=VALUE'"),
        (("-fa", "perhaps"), FlagError, "has no value 'perhaps'"),
    ],
)
def test_words_that_the_server_would_refuse_are_errors(
    words: tuple[str, ...], kind: type[BenchsuiteError], sentence: str
) -> None:
    """Each by its word."""
    with pytest.raises(kind, match=sentence):
        _read(*words)


def test_a_command_is_split_at_its_program() -> None:
    """Assignments may stand before it, also after `env`."""
    assert split_command(["A=1", "B=x=y", "./s", "-c", "C=1"]) == (
        {"A": "1", "B": "x=y"},
        "./s",
        ("-c", "C=1"),
    )
    assert split_command(["env", "A=1", "s"]) == ({"A": "1"}, "s", ())
    for words in ([], ["A=1"], ["env"]):
        with pytest.raises(UsageError, match="names no program"):
            split_command(words)


@given(st.lists(st.sampled_from(["-c", "1", "--metrics", "-m", "--no-slots", "x", "--api-key"])))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    """Nothing else is raised, and what was read gives the server the same flags."""
    try:
        found = _read(*words)
    except BenchsuiteError:
        return
    TABLE.argv(found.flags)
