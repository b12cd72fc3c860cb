"""The folder of two sides: written whole, read back, and read from its journals after a kill."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ConfigError, UsageError
from benchsuite.model.ab import SIDES, Turn
from benchsuite.store.ab import KIND_BEGIN_AB, KIND_TURN, AbFolder, read_ab
from benchsuite.store.records import find_run, read_record
from tests.unit.gate import ab_example

WHEN = dt.datetime(2026, 11, 3, 10, tzinfo=dt.UTC)


@pytest.fixture
def folder(tmp_path: Path) -> AbFolder:
    """A new folder."""
    return AbFolder.create(tmp_path / "runs", "scenarioB", WHEN)


def test_what_was_written_is_read(folder: AbFolder) -> None:
    """The whole by its folder or file, and each side as a run of its own."""
    record = ab_example.judged(ab_example.ab(2)).record
    folder.write_record(record)
    assert read_ab(folder.path) == record
    assert read_ab(folder.path / "record.json") == record
    for side in SIDES:
        assert read_record(folder.path / side) == record.side(side)


def test_it_is_no_run_of_its_own(folder: AbFolder) -> None:
    """`last` passes it over, and who names it is told to name a side."""
    folder.write_record(ab_example.ab())
    with pytest.raises(UsageError, match="there is no run yet"):
        find_run("last", folder.path.parent)
    with pytest.raises(ConfigError, match="record of two servers") as error:
        read_record(folder.path)
    assert "candidate" in (error.value.hint or "")


def test_a_killed_run_is_read_from_its_journals(folder: AbFolder) -> None:
    """Launches, measurements and the order of turns are there, and it counts as interrupted."""
    record = ab_example.ab()
    empty = msgspec.structs.replace(record, turns=())
    with folder.folder.open_journal() as journal:
        journal.write(KIND_BEGIN_AB, record=empty)
        for turn in record.turns:
            journal.write(KIND_TURN, turn=turn)
    for side in SIDES:
        with folder.sides[side].open_journal() as journal:
            whole = record.side(side)
            head = msgspec.structs.replace(whole, launches=(), measurements=())
            journal.write("begin", record=head)
            for measurement in whole.measurements:
                journal.write("measurement", measurement=measurement)
            for launch in whole.launches:
                journal.write("launch", launch=launch)
    found = read_ab(folder.path)
    assert found.interrupted
    assert found.turns == (Turn(1, "baseline", "B"), Turn(1, "candidate", "B"))
    assert found.candidate.measurements == record.candidate.measurements
    verdict = ab_example.judged(found).record.verdict
    assert verdict is not None
    assert verdict.exit_code == 130


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"schema_version": 99, "kind": "ab"}', "schema_version 99"),
        ('{"schema_version": 1}', "is not the record of `benchsuite ab`"),
        ("{", "is not the record of `benchsuite ab`"),
    ],
)
def test_what_is_no_record_is_refused(folder: AbFolder, content: str, words: str) -> None:
    """A newer version, a run's own record, half a file."""
    (folder.path / "record.json").write_text(content)
    with pytest.raises(ConfigError, match=words):
        read_ab(folder.path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """There is nothing to read."""
    with pytest.raises(ConfigError, match="holds neither"):
        read_ab(tmp_path)


def test_numbers_that_are_not_finite_are_read_back(folder: AbFolder) -> None:
    """From the record, from each side's, and from the journal of a killed run."""
    whole = ab_example.ab(1)
    odd = [math.nan, math.inf, -math.inf]
    measured = tuple(
        msgspec.structs.replace(m, value=odd[i % 3], interval=(odd[(i + 1) % 3], 1.0))
        for i, m in enumerate(whole.candidate.measurements)
    )
    side = msgspec.structs.replace(whole.candidate, measurements=measured)
    record = ab_example.judged(msgspec.structs.replace(whole, candidate=side)).record
    folder.write_record(record)
    assert json.loads((folder.path / "record.json").read_text(), parse_constant=pytest.fail)
    for found in (read_ab(folder.path).candidate, read_record(folder.path / "candidate")):
        assert repr(found.measurements) == repr(measured)
    with folder.sides["candidate"].open_journal() as journal:
        journal.write("begin", record=msgspec.structs.replace(side, measurements=()))
        for one in measured:
            journal.write("measurement", measurement=one)
    (folder.path / "candidate" / "record.json").unlink()
    assert repr(read_record(folder.path / "candidate").measurements) == repr(measured)
