"""`benchsuite trend` and `benchsuite clean` as a user types them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.store.records import RECORD_FILE
from tests.unit.store.run_example import record, store


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with four runs, a day apart from 2026-10-01 on."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".benchsuite" / "runs"
    for day in range(4):
        store(folder, record({"kv_mib": [10 + day // 2]}, day=day))
    return folder


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """What is printed."""
    return capsys


def test_trend_shows_and_narrows(runs: Path, said: pytest.CaptureFixture[str]) -> None:
    """By date, number, variant and scenario."""
    assert run_command_line(["trend", "kv_mib"]) == 0
    assert "changed from 10 to 11 MiB" in said.readouterr().out
    assert run_command_line(["trend", "kv_mib", "--since", "2026-10-03", "--json"]) == 0
    (one,) = json.loads(said.readouterr().out)["series"]
    assert [p["value"] for p in one["points"]] == [11, 11]
    assert run_command_line(["trend", "kv_mib", "--last", "1", "--csv"]) == 0
    assert len(said.readouterr().out.splitlines()) == 2
    narrowed = ["--variant", "B", "--scenario", "s", "-d", "tiny", "--machine", "desk"]
    assert run_command_line(["trend", "kv_mib", *narrowed]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["kv_mb"], "did you mean 'kv_mib'"),
        (['kv_mib{device="CPU"}'], "names exactly the labels"),
        (["kv_mib", "--variant", "Z"], "it is in: s on tiny, variant B"),
        (["kv_mib{"], "selector"),
        (["kv_mib", "--since", "soon"], "soon"),
        (["kv_mib", "--json", "--csv"], "exclude each other"),
    ],
)
def test_trend_says_what_would_find_something(
    runs: Path, said: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    """Exit 2, and the nearest word."""
    assert run_command_line(["trend", *words]) == 2
    assert told in " ".join(said.readouterr().err.split())


def test_trend_without_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
) -> None:
    """Says so, and makes nothing."""
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["trend", "kv_mib"]) == 2
    assert "there is no run yet" in said.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_trend_warns_of_a_record_that_cannot_be_read(
    runs: Path, said: pytest.CaptureFixture[str]
) -> None:
    """The others are shown."""
    damaged = store(runs, record({"kv_mib": [9]}, day=9))
    (damaged / RECORD_FILE).write_text("{")
    assert run_command_line(["trend", "kv_mib"]) == 0
    out, err = said.readouterr()
    assert "changed from 10 to 11" in out
    assert "left out" in err


def test_clean_without_a_limit_asks_for_one(runs: Path, said: pytest.CaptureFixture[str]) -> None:
    """Says what there is first."""
    assert run_command_line(["clean"]) == 2
    out, err = said.readouterr()
    assert "4 runs" in out
    assert "--older-than 30d" in err
    assert len(list(runs.iterdir())) == 4


def test_clean_removes_and_the_history_follows(
    runs: Path, said: pytest.CaptureFixture[str]
) -> None:
    """Nothing on a dry run, nothing unasked, then the oldest."""
    run_command_line(["trend", "kv_mib"])
    assert run_command_line(["clean", "--keep", "3", "--dry-run"]) == 0
    assert "would remove 1 run" in said.readouterr().out
    assert len(list(runs.iterdir())) == 4
    assert run_command_line(["clean", "--keep", "3", "--yes"]) == 0
    assert "removed 1 run" in said.readouterr().out
    assert sorted(path.name[:8] for path in runs.iterdir()) == ["20261002", "20261003", "20261004"]
    run_command_line(["trend", "kv_mib", "--json"])
    (one,) = json.loads(said.readouterr().out)["series"]
    assert len(one["points"]) == 3


def test_clean_asks_nobody_where_nobody_can_answer(
    runs: Path, said: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script has to say --yes."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run_command_line(["clean", "--older-than", "1d"]) == 2
    assert "--yes" in said.readouterr().err
    assert len(list(runs.iterdir())) == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--older-than", "30"], "has no unit"),
        (["--older-than", "soon"], "not a number"),
        (["--older-than", "-1d"], "below 0"),
        (["--max-size", "5"], "has no unit"),
        (["--max-size", "5 apples"], "not in MiB"),
        (["--keep", "-1"], "--keep"),
    ],
)
def test_clean_refuses_limits_that_it_would_have_to_guess(
    runs: Path, said: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    """And removes nothing."""
    assert run_command_line(["clean", "--yes", *words]) == 2
    assert told in said.readouterr().err
    assert len(list(runs.iterdir())) == 4


def test_clean_keeps_what_a_baseline_cites(runs: Path, said: pytest.CaptureFixture[str]) -> None:
    """Whatever the limits."""
    first = min(runs.iterdir())
    baseline = runs.parents[1] / "baselines" / "tiny" / "s" / "config.json"
    baseline.parent.mkdir(parents=True)
    baseline.write_text(json.dumps({"info": {"run": first.name.rsplit("-", 1)[1]}}))
    assert run_command_line(["clean", "--older-than", "0d", "--keep", "0", "--yes"]) == 0
    assert "a baseline cites it" in said.readouterr().out
    assert [path.name for path in runs.iterdir()] == [first.name]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "--bisect"], 128),
        (["run", "--bisect", "s", "--trials", "x"], 128),
        (["run", "nothing-of-this-name", "--bisect"], 128),
        (["run", "s", "--bisect", "--no-such-option"], 128),
        (["run", "s", "--no-such-option"], 2),
    ],
)
def test_no_usage_error_looks_like_a_bad_commit(runs: Path, words: list[str], code: int) -> None:
    """To `git bisect run` 2 is bad and 128 ends the search."""
    assert run_command_line(words) == code


def test_a_fault_of_benchsuite_is_no_bad_commit(
    runs: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
) -> None:
    """Exit 5 would be one to git; such a commit is skipped."""

    def fail(*words: object, **more: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("benchsuite.pipeline.command.run_command", fail)
    assert run_command_line(["run", "s"]) == 5
    assert run_command_line(["run", "s", "--bisect"]) == 125
    assert "a bug" in said.readouterr().err
