"""`benchsuite inspect model`: what a model needs, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.server.tiny_model import TINY_SHA256, write_tiny_model
from tests.unit.server.gguf_example import Header, Value, write_model

GEMMA3: dict[str, Value] = {
    "block_count": 18,
    "context_length": 32768,
    "embedding_length": 640,
    "feed_forward_length": 2048,
    "attention.head_count": 4,
    "attention.head_count_kv": 1,
    "attention.key_length": 256,
    "attention.value_length": 256,
    "attention.sliding_window": 512,
}
HYBRID: dict[str, Value] = {
    "block_count": 4,
    "context_length": 4096,
    "embedding_length": 256,
    "attention.head_count": 8,
    "attention.head_count_kv": [0, 2, 0, 0],
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 512,
    "ssm.state_size": 16,
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_tiny_model(path)
    return path


def look(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON."""
    code = run_command_line(["inspect", "model", str(path), *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def totals(body: dict[str, Any]) -> dict[str, float]:
    """The measurements without labels."""
    return {m["name"]: m["value"] for m in body["measurements"] if not m["labels"]}


def test_the_tiny_model_weighs_16_mib_in_8192_cells(
    capsys: pytest.CaptureFixture[str], tiny: Path
) -> None:
    """DESIGN's own figure, under the names that gates use."""
    code, body = look(capsys, tiny, "--ctx-size", "8192", "--parallel", "2")
    assert code == 0
    assert totals(body) == {"kv_mib": 16.0, "kv_cells": 8192}
    assert body["unreadable"] == []
    (cache,) = body["caches"]
    assert (cache["layers"], cache["cells"], cache["streams"], cache["mib"]) == (4, 4096, 2, 16.0)
    assert body["model"]["architecture"] == "llama"
    assert body["state"] is None


def test_short_names_are_those_of_llama_server(
    capsys: pytest.CaptureFixture[str], tiny: Path
) -> None:
    """`-c`, `-np`, `-ctk`, `-ctv`, `-kvu`, `-ub`, `-b`, `-fa`."""
    short = ["-c", "1000", "-np", "3", "-ctk", "q8_0", "-ctv", "q4_0", "-kvu", "-ub", "64"]
    long = [
        *("--ctx-size", "1000", "--parallel", "3", "--cache-type-k", "q8_0"),
        *("--cache-type-v", "q4_0", "--kv-unified", "--ubatch-size", "64"),
    ]
    ours = look(capsys, tiny, *short, "-b", "128", "-fa", "on")
    assert ours == look(capsys, tiny, *long, "--batch-size", "128", "--flash-attn", "on")
    assert totals(ours[1])["kv_cells"] == 1024


def test_without_flags_the_servers_defaults_hold(
    capsys: pytest.CaptureFixture[str], tiny: Path
) -> None:
    """The model's own context, four automatic slots, one stream."""
    _, body = look(capsys, tiny)
    assert (body["n_ctx_seq"], body["settings"]["slots"]) == (32768, 4)
    assert body["settings"]["kv_unified"] is True


def test_two_caches_and_recurrent_state_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A row for each, in the table and in JSON."""
    gemma = write_model(tmp_path / "gemma.gguf", "gemma3", GEMMA3)
    _, body = look(capsys, gemma, "-c", "2048", "-np", "2")
    assert [(c["cache"], c["cells"], c["mib"]) for c in body["caches"]] == [
        ("full", 1024, 6.0),
        ("swa", 1024, 30.0),
    ]
    assert run_command_line(["inspect", "model", str(gemma), "-c", "2048", "-np", "2"]) == 0
    out = capsys.readouterr().out
    assert "3 with 1 KV head of keys 256, values 256" in " ".join(out.split())
    assert "window 512" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    rows = [line.split() for line in out.splitlines()]
    assert ["full", "3", "1024", "2", "3.00", "3.00", "6.00"] in rows
    assert ["swa", "15", "1024", "2", "15.00", "15.00", "30.00"] in rows
    assert ["kv_mib", "36", "MiB"] in rows
    hybrid = write_model(tmp_path / "hybrid.gguf", "jamba", HYBRID)
    _, body = look(capsys, hybrid, "-c", "1024", "-np", "2")
    assert body["state"]["layers"] == 3
    assert totals(body)["rs_mib"] == body["state"]["mib"] > 0
    assert run_command_line(["inspect", "model", str(hybrid), "-c", "1024", "-np", "2"]) == 0
    assert "recurrent" in capsys.readouterr().out


def test_an_unknown_architecture_is_printed_and_exits_4(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is known of the file is told, its memory is not guessed."""
    path = write_model(tmp_path / "m.gguf", "somebodys-new-one", GEMMA3)
    code, body = look(capsys, path)
    assert code == 4
    assert body["model"]["architecture"] == "somebodys-new-one"
    assert (body["measurements"], body["caches"]) == ([], [])
    (reason,) = body["unreadable"]
    assert reason.startswith(
        "unreadable: the cache of architecture 'somebodys-new-one' is not known to benchsuite"
    )
    assert run_command_line(["inspect", "model", str(path)]) == 4
    assert "unreadable: the cache of architecture" in capsys.readouterr().out


def test_what_the_server_would_refuse_exits_4(
    capsys: pytest.CaptureFixture[str], tiny: Path
) -> None:
    """With the server's own reason."""
    code, body = look(capsys, tiny, "-ctv", "q8_0", "-fa", "off")
    assert code == 4
    assert "refuses q8_0 for V without flash attention" in body["unreadable"][0]


def test_layers_that_older_builds_keep_are_noted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Numbers are those of the newest rule, and it is said which builds differ."""
    keys = {key: value for key, value in GEMMA3.items() if "sliding" not in key}
    path = write_model(tmp_path / "m.gguf", "glm4moe", {**keys, "nextn_predict_layers": 1})
    code, body = look(capsys, path, "-c", "1024")
    assert code == 0
    assert "builds before 11434" in body["notes"][0]
    assert run_command_line(["inspect", "model", str(path), "-c", "1024"]) == 0
    assert "note: builds before 11434" in capsys.readouterr().out


def test_the_first_part_of_a_split_model_is_enough_metadata(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """All parts count for the size; another part is refused by name."""
    header = Header().text("general.architecture", "gemma3")
    for key, value in GEMMA3.items():
        header.value(f"gemma3.{key}", value)
    header.number("split.count", 2).number("split.no", 0)
    first, second = (tmp_path / f"m-0000{n}-of-00002.gguf" for n in (1, 2))
    first.write_bytes(header.content())
    second.write_bytes(Header().number("split.count", 2).number("split.no", 1).content())
    code, body = look(capsys, first, "-c", "2048", "-np", "2")
    assert (code, totals(body)["kv_mib"]) == (0, 36.0)
    assert body["model"]["size_bytes"] == first.stat().st_size + second.stat().st_size
    assert run_command_line(["inspect", "model", str(second)]) == 2
    assert "give its first part" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-ctk", "q8"], "--cache-type-k 'q8' is no cache type; did you mean 'q8_0'?"),
        (["-ctv", "F16"], "--cache-type-v 'F16' is no cache type; did you mean 'f16'?"),
        (["-c", "-5"], "-5 is not in the range"),
        (["-c", "many"], "'many' is not a valid integer"),
        (["-np", "0"], "--parallel 0: expected 1 to 256 slots"),
        (["-np", "-3"], "-3 is not in the range"),
        (["-np", "257"], "257 is not in the range"),
        (["-ub", "0"], "0 is not in the range"),
        (["-fa", "maybe"], "'maybe' is not one of"),
        (["--ctx-sise", "5"], "No such option"),
    ],
)
def test_bad_input_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tiny: Path, words: list[str], sentence: str
) -> None:
    """Exit 2, with what was found and what was expected."""
    assert run_command_line(["inspect", "model", str(tiny), *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"title: a scenario\n", "no GGUF file"), (b"", "empty file"), (None, "no such model file")],
)
def test_a_file_that_is_no_model_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    """Exit 2, also with --json, and the file named."""
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content)
    assert run_command_line(["inspect", "model", str(path), "--json"]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "x.gguf" in err


def test_a_hostile_name_cannot_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Control characters from the file are shown as text."""
    header = Header().text("general.architecture", "x\x1b[2J").text("general.name", "n\x1b]0;a\x07")
    path = tmp_path / "m.gguf"
    path.write_bytes(header.content())
    assert run_command_line(["inspect", "model", str(path)]) == 4
    assert "\x1b" not in capsys.readouterr().out


def test_the_whole_file_is_hashed_only_where_asked_for(
    capsys: pytest.CaptureFixture[str], tiny: Path
) -> None:
    """`--hash` reads every byte; without it the JSON says null."""
    assert look(capsys, tiny)[1]["model"]["sha256"] is None
    assert look(capsys, tiny, "--hash")[1]["model"]["sha256"] == {tiny.name: TINY_SHA256}
    assert run_command_line(["inspect", "model", str(tiny), "--hash"]) == 0
    assert f"sha256 {TINY_SHA256}  {tiny.name}" in capsys.readouterr().out
