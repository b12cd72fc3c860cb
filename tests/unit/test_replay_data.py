"""The files that the scenario `replay` sends are what their script makes, and can be used whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchsuite.model.sample import DatasetSpec, Sample
from benchsuite.model.scenario import LoadStep
from benchsuite.scenario.datasets.read import read_sample
from benchsuite.scenario.datasets.take import with_samples
from benchsuite.scenario.workspace import load_workspace
from tests.scripts import load_script

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "scenarios" / "data"


FILES: dict[str, str] = load_script(ROOT / "ci" / "replay_data.py").files()


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_as_its_script_makes_it(name: str) -> None:
    """A changed text changes its file; run `python ci/replay_data.py`."""
    assert (FOLDER / name).read_text(encoding="utf-8") == FILES[name]


def test_no_file_is_left_over() -> None:
    """Every file of the folder is made by the script."""
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)


def _whole(spec: DatasetSpec) -> Sample:
    return read_sample(FOLDER / spec.file, spec)


def test_every_line_can_be_used() -> None:
    """In its form, with nothing left out."""
    for spec, count in (
        (DatasetSpec("library-chats.jsonl", "messages"), 32),
        (DatasetSpec("library-talks.json", "sharegpt"), 8),
        (DatasetSpec("library-trace.jsonl", "mooncake"), 42),
    ):
        sample = _whole(spec)
        assert (len(sample.rows), sample.seen, sample.bad) == (count, count, 0)


def test_the_gates_of_replay_count_what_the_trace_asks_for() -> None:
    """So that its file and its gates cannot drift apart."""
    workspace = load_workspace(ROOT)
    scenario = with_samples(workspace, workspace.load(ROOT / "scenarios" / "replay.yaml"))
    (trace,) = [one for one in scenario.steps if isinstance(one, LoadStep) and one.name == "trace"]
    assert trace.sample is not None
    block = trace.sample.spec.block
    prompts = sum(row.tokens_at(block) or 0 for row in trace.sample.rows)
    outputs = sum(row.output_at(block) or 0 for row in trace.sample.rows)
    text = (ROOT / "scenarios" / "replay.yaml").read_text()
    (least,) = re.findall(r"prompt_tokens\{step=\"trace\"\}'\n    min: (\d+)", text)
    (exact,) = re.findall(r"output_tokens\{step=\"trace\"\}'\n    equals: (\d+)", text)
    assert (prompts, outputs) == (int(least), int(exact))


def test_the_trace_shares_beginnings() -> None:
    """Most blocks that begin a prompt stood at its place before."""
    known: set[tuple[int, ...]] = set()
    shared = 0
    rows = _whole(DatasetSpec("library-trace.jsonl", "mooncake")).rows
    for row in rows:
        starts = {row.blocks[:n] for n in range(1, len(row.blocks) + 1)}
        shared += len(starts & known)
        known |= starts
    assert shared > sum(len(row.blocks) for row in rows) / 2
