"""The embedded server's command line, without the embedded server."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.server import embedded_args
from benchsuite.server.embedded_args import BadArgumentError, Option
from benchsuite.server.embedded_flags import OPTIONS, help_text


def parse(*arguments: str, **environ: str) -> dict[str, object]:
    """Longest name -> value, later ones winning."""
    asked = embedded_args.parse(OPTIONS, arguments, environ, lambda _: None)
    return {max(option.names, key=len): value for option, value in asked}


def test_short_and_long_names_and_underscores_mean_the_same() -> None:
    """As in llama-server: `--cache_ram` is `--cache-ram`."""
    assert parse("-cram", "5") == parse("--cache-ram", "5") == parse("--cache_ram", "5")


def test_the_last_of_repeated_flags_wins() -> None:
    """As in llama-server."""
    assert parse("-c", "1", "-c", "2") == {"--ctx-size": 2}


def test_a_negative_name_switches_off() -> None:
    """Both directions are spelled out, so both can be asked for."""
    assert parse("-no-kvu") == {"--kv-unified": False}
    assert parse("--kv-unified") == {"--kv-unified": True}


def test_the_environment_counts_and_the_command_line_wins() -> None:
    """With a warning in llama-server's words."""
    warnings: list[str] = []
    asked = embedded_args.parse(OPTIONS, ["-c", "2"], {"LLAMA_ARG_CTX_SIZE": "1"}, warnings.append)
    assert [value for _, value in asked] == [1, 2]
    assert warnings == [
        (
            "warn: LLAMA_ARG_CTX_SIZE environment variable is set, "
            "but will be overwritten by command line argument -c"
        )
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("LLAMA_ARG_KV_UNIFIED", "off", {"--kv-unified": False}),
        ("LLAMA_ARG_NO_KV_UNIFIED", "anything", {"--kv-unified": False}),
        ("LLAMA_ARG_ENDPOINT_METRICS", "1", {"--metrics": True}),
        ("LLAMA_ARG_ENDPOINT_METRICS", "0", {}),
        ("LLAMA_API_KEY", "a,b", {"--api-key": ["a", "b"]}),
        ("UNRELATED", "x", {}),
    ],
)
def test_variables_are_read_as_llama_server_reads_them(
    name: str, value: str, expected: dict[str, object]
) -> None:
    """Truth has llama-server's spellings."""
    assert parse(**{name: value}) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "error: invalid argument: --nope"),
        (["stray"], "error: invalid argument: stray"),
        (["--cache-prompt=1"], "error: invalid argument: --cache-prompt=1"),
        (["--rpc", "h:1"], "error: invalid argument: --rpc"),
        (["-c"], 'error while handling argument "-c": expected value for argument'),
        (["-c", "12x"], "'12x' is not a whole number"),
        (["-c", "9999999999"], "is not between"),
        (["-np", "0"], "invalid value for n_parallel"),
        (["--temp", "nan"], "'nan' is not finite"),
        (["--temp", "warm"], "'warm' is not a number"),
        (["-ctk", "q9"], "'q9' is none of f32, f16"),
        (["-fit", "maybe"], "invalid boolean value 'maybe'"),
        (["-ngl", "most"], "'most' is not a whole number"),
        (["--slot-save-path", "/no/such/folder"], "not a directory: /no/such/folder"),
        (["--chat-template-file", "/no/such/file"], "failed to open file '/no/such/file'"),
        (["--port", "70000"], "is not between 0 and 65535"),
        (["--host", ","], "--host requires at least one address"),
        (["--sleep-idle-seconds", "0"], "cannot be 0"),
        (["-ts", ""], "got 0 values"),
        (["--spec-type", "draft-simple,magic"], "'magic' is none of"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments: list[str], message: str) -> None:
    """By name and with the reason; never ignored."""
    with pytest.raises(BadArgumentError) as caught:
        embedded_args.parse(OPTIONS, arguments, {}, lambda _: None)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("LLAMA_ARG_RPC", "h:1", "the embedded server cannot honour it"),
        ("LLAMA_ARG_CTX_SIZE", "x", "'x' is not a whole number"),
        ("LLAMA_ARG_KV_UNIFIED", "maybe", "invalid boolean value"),
    ],
)
def test_variables_that_cannot_be_honoured_are_refused(name: str, value: str, reason: str) -> None:
    """The variable's name is in the error."""
    with pytest.raises(BadArgumentError) as caught:
        embedded_args.parse(OPTIONS, [], {name: value}, lambda _: None)
    assert f'"{name}"' in str(caught.value)
    assert reason in str(caught.value)


def test_no_name_or_variable_belongs_to_two_flags() -> None:
    """Else one of them could never be given."""
    names = [name for option in OPTIONS for name in (*option.names, *option.negatives)]
    variables = [option.env for option in OPTIONS if option.env is not None]
    assert len(names) == len(set(names))
    assert len(variables) == len(set(variables))


def test_help_has_llama_servers_form() -> None:
    """Names in one column, words in another, then the variable; long heads on a line apart."""
    lines = help_text().splitlines()
    assert lines[0] == "----- common params -----"
    at = lines.index(
        "-c,    --ctx-size N                     "
        "size of the prompt context (default: 0, 0 = loaded from model)"
    )
    assert lines[at + 1] == " " * 40 + "(env: LLAMA_ARG_CTX_SIZE)"
    assert "-kvo,  --kv-offload, -nkvo, --no-kv-offload" in lines
    assert "--metrics                               enable" in help_text()
    assert max(len(line) for line in lines if line.startswith(" ")) <= 40 + 70


@given(st.lists(st.sampled_from([n for o in OPTIONS for n in o.names + o.negatives] + ["1", "x"])))
def test_any_command_line_is_parsed_or_refused(arguments: list[str]) -> None:
    """No other exception leaves the parser."""
    with contextlib.suppress(BadArgumentError):
        embedded_args.parse(OPTIONS, arguments, {}, lambda _: None)


class _Params:
    """Takes any attribute, as far as it was declared."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def _option(name: str) -> Option:
    return next(option for option in OPTIONS if name in option.names)


def test_a_context_size_of_0_also_keeps_fitting_from_shrinking_it() -> None:
    """As llama-server's parser (build 11434): asked for by name, the whole context is meant."""
    params = _Params(n_ctx=1, fit_params_min_ctx=4096)
    _option("--ctx-size").put(params, None, 0)
    assert vars(params) == {"n_ctx": 0, "fit_params_min_ctx": -1}
    _option("--ctx-size").put(params, None, 64)
    assert params.__dict__["n_ctx"] == 64


def test_lists_of_devices_keep_their_length() -> None:
    """The library's lists have one entry for each device there may be."""
    params = _Params(tensor_split=[0.0] * 4, fit_params_target=[1, 1, 1])
    _option("--tensor-split").put(params, None, [3.0, 1.0])
    _option("--fit-target").put(params, None, [2])
    assert params.__dict__["tensor_split"] == [3.0, 1.0, 0.0, 0.0]
    assert params.__dict__["fit_params_target"] == [2 * 1024 * 1024] * 3
    _option("--fit-target").put(params, None, [5, 6])
    assert params.__dict__["fit_params_target"][2] == 2 * 1024 * 1024


def test_keys_add_up(tmp_path: Path) -> None:
    """From the environment, the command line and a file with comments."""
    file = tmp_path / "keys"
    file.write_text("# mine\nc\n\nd\n", encoding="utf-8")
    params = _Params(api_keys=[])
    for option, value in embedded_args.parse(
        OPTIONS, ["--api-key", "b", "--api-key-file", str(file)], {"LLAMA_API_KEY": "a"}, print
    ):
        option.put(params, None, value)
    assert params.__dict__["api_keys"] == ["a", "b", "c", "d"]
