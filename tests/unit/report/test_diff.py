"""What changed between two sides."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ConfigError, UsageError
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.report.diff import Diff, diff, render_diff, render_diff_json, render_diff_markdown
from benchsuite.report.sources import read_sides
from benchsuite.store.records import read_record, write_record

GOLDEN = Path(__file__).parents[2] / "golden" / "pass"
replace = msgspec.structs.replace


@pytest.fixture
def record() -> RunRecord:
    """The healthy run."""
    return read_record(GOLDEN / "record.json")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with baselines of the healthy run."""
    shutil.copytree(GOLDEN / "baselines", tmp_path / "baselines")
    return tmp_path


def changed(record: RunRecord, name: str, value: float | str, **labels: str) -> RunRecord:
    """The run with another value in every variant."""
    found = [
        replace(m, value=value) if m.name == name and labels.items() <= m.labels.items() else m
        for m in record.measurements
    ]
    return replace(record, measurements=tuple(found))


def compare(place: Path, first: RunRecord | str, second: RunRecord | str) -> Diff:
    """Diff two records, or folders by name."""
    names = []
    for i, side in enumerate((first, second)):
        if isinstance(side, RunRecord):
            write_record(place / f"{i}" / "record.json", side)
            names.append(str(place / f"{i}"))
        else:
            names.append(str(place / side))
    sides = read_sides(*names, baselines_folder=place / "baselines", runs_folder=place / "runs")
    return diff(*sides)


def test_equal_runs_differ_in_nothing(place: Path, record: RunRecord) -> None:
    """All is counted, nothing shown."""
    found = compare(place, record, record)
    assert found.is_same
    assert found.rows == ()
    assert found.same == len(record.measurements)
    assert "the same" in render_diff(found)


def test_a_run_against_its_baseline(place: Path, record: RunRecord) -> None:
    """In either order, states are seen from the first side."""
    more = replace(
        changed(record, "kv_mib", 12.25),
        measurements=(
            *changed(record, "kv_mib", 12.25).measurements,
            Measurement("slot", 1, "", "B", labels={"session": "A", "turn": "1"}),
        ),
    )
    found = compare(place, "baselines", more)
    states = {(row.variant, row.series): row.state for row in found.rows}
    assert states["B", "kv_mib"] == "changed"
    assert states["B", 'slot{session="A",turn="1"}'] == "new"
    back = compare(place, more, "baselines")
    assert "missing" in {row.state for row in back.rows}
    assert not found.is_same


def test_noise_of_runs_is_told_apart(place: Path, record: RunRecord) -> None:
    """Small changes are the same, large ones are shown, and neither is a difference."""
    assert compare(place, record, changed(record, "ttft_ms", 13.6)).rows == ()
    found = compare(place, record, changed(record, "ttft_ms", 27.0))
    assert {row.state for row in found.rows} == {"regressed"}
    assert all(row.noisy for row in found.rows)
    assert found.is_same
    assert "advice only" in render_diff(found)
    better = compare(place, record, changed(record, "ttft_ms", 5.0))
    assert {row.state for row in better.rows} == {"improved"}


def test_two_folders_differ_in_every_value(place: Path, record: RunRecord) -> None:
    """A changed sample of latency is a change of the file."""
    shutil.copytree(place / "baselines", place / "other")
    machine = next((place / "other/tiny/scenarioB").glob("machine.*.json"))
    machine.write_text(machine.read_text().replace("13.5", "13.6"))
    found = compare(place, "baselines", "other")
    assert found.rows
    assert not found.is_same
    assert compare(place, "baselines", "baselines").is_same


def test_a_scenario_that_is_gone_is_missing(place: Path) -> None:
    """Folders are compared as a whole."""
    shutil.copytree(place / "baselines", place / "other")
    shutil.copytree(place / "baselines/tiny/scenarioB", place / "other/tiny/scenarioC")
    found = compare(place, "other", "baselines")
    assert {(row.scenario, row.state) for row in found.rows} == {("scenarioC", "missing")}


def test_runs_of_two_deployments_can_be_compared(place: Path, record: RunRecord) -> None:
    """Which is what a diff of runs is for, also across machines."""
    print_of = replace(record.fingerprint, deployment="other", machine="m2", numerics="n2")
    found = compare(place, record, replace(record, fingerprint=print_of))
    assert found.is_same
    assert found.same == len(record.measurements)


def test_runs_of_two_scenarios_cannot(place: Path, record: RunRecord) -> None:
    """It is an error that names both."""
    print_of = replace(record.fingerprint, scenario="scenarioA")
    with pytest.raises(UsageError, match=r"ran scenarioB and .* ran scenarioA"):
        compare(place, record, replace(record, fingerprint=print_of))


def test_a_folder_without_this_deployment_is_refused(place: Path, record: RunRecord) -> None:
    """Nothing in common is no `same`."""
    print_of = replace(record.fingerprint, deployment="prod")
    with pytest.raises(ConfigError, match="holds no baseline for prod/scenarioB"):
        compare(place, "baselines", replace(record, fingerprint=print_of))
    (place / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no baselines"):
        compare(place, "empty", "baselines")


def test_variants_that_only_one_run_has_are_left_out(place: Path, record: RunRecord) -> None:
    """A run of one variant is compared in that variant."""
    only = tuple(m for m in record.measurements if m.variant == "B")
    found = compare(place, "baselines", replace(record, measurements=only))
    assert found.is_same
    assert found.same == len(only)


def test_another_scenario_state_is_noted(place: Path, record: RunRecord) -> None:
    """The values may then differ for that reason."""
    found = compare(place, record, replace(record, digests={**record.digests, "B": "x"}))
    assert any("variant B" in note for note in found.notes)


def test_outputs_fit_and_escape(place: Path, record: RunRecord) -> None:
    """80 columns of harmless text; Markdown that stays a table; JSON that is whole."""
    evil = "\x1b[31m| <b>`x`</b> \n"
    found = compare(place, record, changed(record, "text", evil, session="A"))
    text = render_diff(found)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert all(c == "\n" or c.isprintable() for c in text)
    table = [line for line in render_diff_markdown(found).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {7}
    assert "<b>" not in "".join(table)
    decoded = msgspec.json.decode(render_diff_json(found))
    assert len(decoded["rows"]) == len(found.rows)
    assert decoded["rows"][0]["change"].startswith("at character 1")
