"""Files of load steps are looked up where they may be, and become part of what is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchsuite.errors import UsageError
from benchsuite.model.scenario import LoadStep, Scenario
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import prepare
from benchsuite.scenario.datasets import take
from benchsuite.scenario.datasets.take import with_samples
from benchsuite.scenario.digest import canonical
from benchsuite.scenario.workspace import Workspace, load_workspace

Write = Callable[[str], Scenario]
CHATS = ["one", "two", "three"]


def chats(texts: list[str]) -> str:
    """A file of chats."""
    return "".join(
        json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n" for text in texts
    )


@pytest.fixture
def desk(tmp_path: Path) -> Workspace:
    """A project with a folder of scenarios and a dataset; outside it a secret."""
    root = tmp_path / "project"
    (root / "scenarios" / "data").mkdir(parents=True)
    (root / "benchsuite.toml").write_text("")
    (root / "scenarios" / "data" / "a.jsonl").write_text(chats(CHATS))
    (root / "at-root.jsonl").write_text(chats(["root"]))
    (tmp_path / "secret.jsonl").write_text(chats(["secret"]))
    return load_workspace(root)


@pytest.fixture
def write(desk: Workspace) -> Write:
    """Writes and reads a scenario whose load has these keys, in line 4."""

    def made(keys: str) -> Scenario:
        path = desk.scenarios / "s.yaml"
        path.write_text(f"title: t\nsteps:\n  - load:\n      {keys}\n      as: s\n")
        return desk.load(path)

    return made


def sample_of(scenario: Scenario) -> LoadStep:
    """Its load step."""
    (step,) = scenario.steps
    assert isinstance(step, LoadStep)
    return step


def test_rows_come_from_the_scenario_files_folder(desk: Workspace, write: Write) -> None:
    """And a scenario without files is left as it is."""
    step = sample_of(with_samples(desk, write("dataset: {file: data/a.jsonl, order: file}")))
    assert step.sample is not None
    assert [row.messages[0].content for row in step.sample.rows] == CHATS
    assert step.texts == 3
    assert step.row_of(4) == step.sample.rows[1]
    plain = write("prompt: {tokens: 3}\n      requests: 2")
    assert with_samples(desk, plain) == plain


def test_the_whole_project_is_allowed(desk: Workspace, write: Write) -> None:
    """By a way upwards, too."""
    step = sample_of(with_samples(desk, write("dataset: {file: ../at-root.jsonl}")))
    assert step.sample is not None


@pytest.mark.parametrize("how", ["upwards", "whole", "link", "folder-link"])
def test_files_elsewhere_are_refused_wherever_links_lead(
    desk: Workspace, write: Write, tmp_path: Path, how: str
) -> None:
    """A scenario from elsewhere sends no other file's text to a server."""
    file = {
        "upwards": "../../secret.jsonl",
        "whole": str(tmp_path / "secret.jsonl"),
        "link": "data/link.jsonl",
        "folder-link": "data/up/secret.jsonl",
    }[how]
    (desk.scenarios / "data" / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (desk.scenarios / "data" / "up").symlink_to(tmp_path)
    with pytest.raises(UsageError, match=r"scenarios/s.yaml:4: .*outside the project"):
        with_samples(desk, write(f"dataset: {{file: '{file}'}}"))


def test_what_the_project_allows_may_be_read(desk: Workspace, write: Write, tmp_path: Path) -> None:
    """By benchsuite.toml, which is the user's own word."""
    config = desk.config.root / "benchsuite.toml"
    config.write_text(f'[trust]\nallow_outside = ["{tmp_path / "secret.jsonl"}"]\n')
    scenario = write("dataset: {file: ../../secret.jsonl}")
    step = sample_of(with_samples(load_workspace(desk.config.root), scenario))
    assert step.sample is not None


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("data/b.jsonl", r"s.yaml:4: no such file: .*/data/b.jsonl"),
        ("data", r"s.yaml:4: this is no file: .*/data"),
    ],
)
def test_a_file_that_is_not_there_is_named_in_its_line(
    desk: Workspace, write: Write, file: str, expected: str
) -> None:
    """With the place that was looked at."""
    with pytest.raises(UsageError, match=expected):
        with_samples(desk, write(f"dataset: {{file: {file}}}"))


def test_a_bad_line_is_named_by_file_and_line(desk: Workspace, write: Write) -> None:
    """As the user would open it."""
    (desk.scenarios / "data" / "a.jsonl").write_text(chats(["one"]) + "{}\n")
    with pytest.raises(UsageError, match=r"^scenarios/data/a.jsonl:2: no 'messages'"):
        with_samples(desk, write("dataset: {file: data/a.jsonl}"))


def test_texts_beyond_what_can_be_kept_are_refused(
    desk: Workspace, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a server is started, with what to write."""
    row = {"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}
    (desk.scenarios / "data" / "t.jsonl").write_text(json.dumps(row))
    keys = "trace: {file: data/t.jsonl, block: 100}"
    with_samples(desk, write(keys))
    monkeypatch.setattr(take, "MOST_MADE_TOKENS", 299)  # two blocks, and one end in its place
    with pytest.raises(UsageError, match=r"s.yaml:4: .* would have 300 tokens") as caught:
        with_samples(desk, write(keys))
    assert "block" in (caught.value.hint or "")


def test_the_file_enters_the_digest_and_its_rows_do_not(desk: Workspace, write: Write) -> None:
    """A changed file, another sample or another key is another measurement."""
    options = RunOptions(url="http://127.0.0.1:1")

    def digest(keys: str) -> str:
        return prepare(desk, write(keys), options, {}).plan.variants[0].digest

    base = "dataset: {file: data/a.jsonl}"
    before = digest(base)
    assert digest(base) == before
    assert digest("dataset: {file: data/a.jsonl, seed: 1}") != before
    text = json.dumps(canonical(sample_of(with_samples(desk, write(base)))))
    assert "three" not in text
    (desk.scenarios / "data" / "a.jsonl").write_text(chats([*CHATS[:2], "four"]))
    assert digest(base) != before
