"""What changed between two sides."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ConfigError, UsageError
from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Failure, Measurement, RunRecord
from benchsuite.model.verdict import Verdict
from benchsuite.report.diff import Diff, diff
from benchsuite.report.diff_text import render_diff, render_diff_json, render_diff_markdown
from benchsuite.report.sources import read_sides
from benchsuite.store.accept import accept
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


def test_a_file_of_former_name_is_the_same_file(place: Path) -> None:
    """A machine's baselines are compared across the renaming, with their origin."""
    shutil.copytree(place / "baselines", place / "other")
    folder = place / "other/tiny/scenarioB"
    (former,) = folder.glob("machine.*.json")
    renamed = folder / "machine.any.json"
    former.rename(renamed)
    assert compare(place, "baselines", "other").is_same
    renamed.write_text(renamed.read_text().replace("13.5", "13.6"))
    rows = compare(place, "baselines", "other").rows
    assert {row.state for row in rows} == {"regressed"}


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


def test_a_run_whose_server_failed_is_not_the_same(place: Path, record: RunRecord) -> None:
    """What it did not come to is left out, and that it failed is said."""
    dead = Failure("crash", "the server died during turn 2", healthy_before=True)
    launches = tuple(
        replace(one, failure=dead) if one.variant == "U" else one for one in record.launches
    )
    only = tuple(m for m in record.measurements if m.variant != "U")
    failed = replace(record, launches=launches, measurements=only)
    found = compare(place, "baselines", failed)
    assert not found.is_same
    assert "variant U, trial 1 failed: the server died during turn 2" in found.failed[0]
    assert found.failed[0] in " ".join(render_diff(found).split())
    assert "1 failed to run" in render_diff_markdown(found)


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


def git(folder: Path, *words: str) -> str:
    """Run git with a user of its own."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def take(place: Path, record: RunRecord, reason: str, *selectors: str) -> None:
    """Accept a run into the folder of baselines."""
    judged = replace(record, verdict=Verdict("pass", 0, (), {}))
    metrics = [parse_selector(s) for s in selectors] or None
    accept(judged, place / "baselines", reason=reason, environ={}, metrics=metrics)


def between(place: Path, first: str, second: str | None = None) -> Diff:
    """Diff two sides as named on the command line."""
    folder = place / "baselines"
    return diff(*read_sides(first, second, baselines_folder=folder, runs_folder=place / "runs"))


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def repo(place: Path, record: RunRecord) -> Path:
    """A repository where one commit accepted everything and a later one KV memory alone."""
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "Accept everything")
    git(place, "checkout", "-qb", "pr")
    build = replace(record.info, build="b10440")
    half = replace(changed(record, "kv_mib", 12.25), info=build, id="cafe0002")
    take(place, half, "half the KV", "kv_mib")
    git(place, "commit", "-qam", "Halve KV")
    (place / "notes").touch()
    git(place, "add", "-A")
    git(place, "commit", "-qm", "Something else")
    return place


@needs_git
def test_a_pull_request_is_explained(repo: Path) -> None:
    """`diff git:main`: what moved, by how much, since which commit, why, and with what."""
    found = between(repo, "git:main")
    assert {row.series for row in found.rows} == {"kv_mib"}
    assert {row.variant for row in found.rows} == {"B", "P", "U"}
    row = found.rows[0]
    assert row.sentence == "changed from 16 MiB to 12.25 MiB (-23.4%)"
    first, second = git(repo, "rev-list", "--reverse", "HEAD").split()[:2]
    assert row.baseline_from.startswith(f"since commit {first[:9]} of 20")
    assert row.baseline_from.endswith(
        "(Accept everything), accepted from run ba5e0001 for: first baseline"
    )
    assert row.candidate_from.startswith(f"since commit {second[:9]} of 20")
    assert row.candidate_from.endswith("(Halve KV), accepted from run cafe0002 for: half the KV")
    assert row.differs == ("build b10434 -> b10440",)
    for words in (render_diff(found), render_diff_markdown(found)):
        for part in ("changed from 16 MiB to 12.25 MiB", "Halve KV", "half the KV", "B, P, U"):
            assert part in " ".join(words.split())


@needs_git
def test_what_is_not_committed_is_said_to_be(repo: Path, record: RunRecord) -> None:
    """The working tree may be ahead of every commit, and a file new to it."""
    take(repo, changed(record, "kv_mib", 10.0), "once more", "kv_mib")
    row = between(repo, "git:HEAD").rows[0]
    assert "(Halve KV)" in row.baseline_from
    assert row.candidate_from == "not committed yet, accepted from run 5eed0001 for: once more"
    shutil.copytree(repo / "baselines/tiny", repo / "baselines/other")
    new = [row for row in between(repo, "git:HEAD").rows if row.deployment == "other"]
    assert {row.state for row in new} == {"new"}
    assert all(row.candidate_from.startswith("not committed yet") for row in new)
    assert all(row.baseline_from == "" for row in new)


@needs_git
def test_a_run_is_explained_by_the_commit_of_its_baseline_and_its_own(
    repo: Path, record: RunRecord
) -> None:
    """So that a reader can list what lies between the two."""
    info = replace(record.info, commit="0123456789abcdef", build="b10500")
    found = compare(repo, "baselines", replace(changed(record, "kv_mib", 8.0), info=info))
    row = found.rows[0]
    assert "(Halve KV)" in row.baseline_from
    assert row.candidate_from == "run 5eed0001 of build b10500 at commit 012345678, 2026-11-03"
    assert row.differs == ("build b10440 -> b10500",)


@needs_git
def test_a_shallow_clone_says_that_a_value_may_be_older(repo: Path) -> None:
    """Its first commit is the first that is here."""
    git(repo, "clone", "-q", "--depth", "1", repo.as_uri(), "shallow")
    git(repo / "shallow", "fetch", "-q", "--depth=1", "origin", "main:refs/remotes/origin/main")
    row = between(repo / "shallow", "git:origin/main").rows[0]
    assert "or before: this clone is shallow" in row.baseline_from
    assert "or before: this clone is shallow" in row.candidate_from
    assert "or before" not in between(repo, "git:main").rows[0].baseline_from


def test_outside_of_a_repository_the_rest_is_told(place: Path, record: RunRecord) -> None:
    """The run that was accepted, and why."""
    row = compare(place, "baselines", changed(record, "kv_mib", 12.25)).rows[0]
    assert row.baseline_from == "accepted from run ba5e0001 for: first baseline"
    assert row.candidate_from.startswith("run 5eed0001 of build b10434")


def test_the_first_difference_of_a_text_is_shown_from_both_sides(
    place: Path, record: RunRecord
) -> None:
    """In full, also where the table has no room for it."""
    text = render_diff(
        compare(place, "baselines", changed(record, "text", "alpha bravo charlie", session="A"))
    )
    words = " ".join(text.split())
    assert "changed at character 8: 'alpha bravo charlie' instead of 'alpha beta'" in words


def test_two_machines_are_named(place: Path, record: RunRecord) -> None:
    """Between two runs, between a run and baselines, and between two folders."""
    big = replace(record, fingerprint=replace(record.fingerprint, machine="cpu avx2, big box"))
    runs = compare(place, record, big)
    assert any(words.startswith("machine ") and "big box" in words for words in runs.differs)
    (note,) = compare(place, "baselines", big).notes
    assert "no baseline of machine scope under this run's keys" in note
    assert "one of other keys: machine " in note
    other = place / "other"
    judged = replace(big, verdict=Verdict("pass", 0, (), {}))
    accept(judged, other, reason="x", environ={}, scopes=["machine"])
    (place / "baselines/tiny/scenarioB/config.json").unlink()
    folders = compare(place, "baselines", "other")
    assert {row.state for row in folders.rows} == {"missing", "new"}
    assert not folders.is_same
    (note,) = folders.notes
    assert "each side has machine baselines, but of other keys (machine " in note


def test_each_value_is_explained_by_its_own_acceptance(place: Path, record: RunRecord) -> None:
    """A metric that was taken anew stands on another build than the rest of its file."""
    info = replace(record.info, build="b10440")
    take(place, replace(changed(record, "kv_mib", 12.25), info=info), "new KV", "kv_mib")
    later = changed(changed(record, "kv_mib", 8.0), "cached_tokens", 7, session="A", turn="2")
    later = replace(later, info=replace(record.info, build="b10500"))
    rows = {row.series: row for row in compare(place, "baselines", later).rows}
    assert rows["kv_mib"].differs == ("build b10440 -> b10500",)
    cached = 'cached_tokens{session="A",turn="2"}'
    assert rows[cached].differs == ("build b10434 -> b10500",)
