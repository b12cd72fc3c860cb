"""`benchsuite inspect log` on every form of log, for people and for programs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchsuite.cli.main import run_command_line

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))


def _json(capsys: pytest.CaptureFixture[str], name: str) -> tuple[int, dict[str, Any]]:
    code = run_command_line(["inspect", "log", str(LOGS / f"{name}.log"), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", NAMES)
def test_every_log_is_printed_for_people_and_for_programs(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4 exactly where something is unreadable; the table says what the JSON says."""
    code, body = _json(capsys, name)
    assert {"build", "measurements", "crash", "failure", "unreadable"} <= set(body)
    assert code == (4 if body["unreadable"] else 0)
    totals = [m["value"] for m in body["measurements"] if m["name"] == "kv_mib" and not m["labels"]]
    assert bool(totals) or bool(body["unreadable"]) or bool(body["measurements"])
    assert 0 not in totals
    assert run_command_line(["inspect", "log", str(LOGS / f"{name}.log")]) == code
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert ("unreadable: " in out) == bool(body["unreadable"])


def test_a_crash_is_taken_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Kind, place, expression, and the device of a CUDA error."""
    _, body = _json(capsys, "real_10434_assert")
    assert body["crash"]["kind"] == "assertion"
    assert body["crash"]["file"].endswith("llama-context.cpp")
    assert body["crash"]["line"] == 2397
    assert body["crash"]["expression"] == "n_outputs >= 1"
    _, body = _json(capsys, "cuda_windows")
    assert (body["crash"]["kind"], body["crash"]["device"]) == ("cuda", 0)


def test_caches_and_memory_tables_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Types, cells and layers of each cache; rows of the tables at fitting and at exit."""
    _, body = _json(capsys, "quantised_sliding_window")
    assert [(size["cache"], size["k_type"], size["v_type"]) for size in body["kv_sizes"]] == [
        ("full", "q8_0", "q8_0"),
        ("swa", "q8_0", "q8_0"),
    ]
    _, body = _json(capsys, "fit_unsigned_wrap")
    fitted = body["memory_table"]["at_fitting"]
    assert fitted[0]["unaccounted_mib"] < 0
    assert body["memory_table"]["at_exit"] == []
    run_command_line(["inspect", "log", str(LOGS / "quantised_sliding_window.log")])
    assert "K q8_0, V q8_0" in capsys.readouterr().out


def test_a_failed_start_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The line nearest to the cause."""
    _, body = _json(capsys, "real_10068_port_in_use")
    assert body["failure"]["kind"] == "port"
    assert body["crash"] is None


def test_standard_input_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` reads what is piped in."""
    content = (LOGS / "real_10434_plain.log").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run_command_line(["inspect", "log", "-", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["path"] == "standard input"
    assert body["slots"] == 2


def test_hostile_text_is_made_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences of a log do not reach the terminal."""
    path = tmp_path / "evil.log"
    path.write_bytes(
        b"/src/x.cpp:1: GGML_ASSERT(a \x1b]0;title\x07 == b) failed\n\xff\xfe\x00 binary\n"
    )
    assert run_command_line(["inspect", "log", str(path)]) == 4
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_a_log_that_cannot_be_read_is_a_usage_error(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file, and a folder."""
    assert run_command_line(["inspect", "log", name]) == 2
    assert name in capsys.readouterr().err


def test_events_and_warnings_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """In a line for people, and by kind for programs."""
    log = LOGS.parent / "events" / "real_10092_small_host_cache.log"
    run_command_line(["inspect", "log", str(log), "--json"])
    body = json.loads(capsys.readouterr().out)
    assert body["events"]["cache_evicted"] == 6
    assert body["warnings"]["lines"] == 6
    assert "removing oldest entry" in body["warnings"]["last"][-1]
    run_command_line(["inspect", "log", str(log)])
    out = " ".join(capsys.readouterr().out.split())
    # 13 saves were announced, 6 of prompts that the cache had
    assert "events: 7 prompt-cache saves, 6 prompt-cache evictions" in out
    assert "warnings: 6 lines near the end, the last: srv" in out
