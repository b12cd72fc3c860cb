"""The only writer of baselines: what it writes, keeps and refuses."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsuite.errors import ConfigError, UsageError
from benchsuite.metrics.select import parse_selector
from benchsuite.model.machine import MachineFinding, MachineReading, MachineState
from benchsuite.model.record import Failure, Measurement, RunRecord, Unmeasured
from benchsuite.model.vectors import LogprobVectors, Position, VectorLine, pack_floats
from benchsuite.model.verdict import GateResult, IssueResult, Verdict
from benchsuite.store.accept import Accepted, accept
from benchsuite.store.baselines import BaselineFile, load_baselines
from benchsuite.store.records import read_record

GOLDEN = Path(__file__).parents[2] / "golden" / "pass"
replace = msgspec.structs.replace


def gate(outcome: str, state: str | None, against: str, level: str = "block") -> GateResult:
    """A gate result of a run to be accepted."""
    content = {
        "metric": "kv_mib",
        "variant": "B",
        "rule": "a rule",
        "outcome": outcome,
        "level": level,
        "expected": "",
        "observed": "",
        "reason": "because",
        "state": state,
        "against": against,
    }
    return msgspec.convert(content, GateResult)


@pytest.fixture
def record() -> RunRecord:
    """A judged run that passes."""
    return replace(read_record(GOLDEN / "record.json"), verdict=Verdict("pass", 0, (), {}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A baseline folder with baselines."""
    return Path(shutil.copytree(GOLDEN / "baselines", tmp_path / "baselines"))


def take(record: RunRecord, folder: Path, *selectors: str, drop_missing: bool = False) -> Accepted:
    """Accept a record."""
    return accept(
        record,
        folder,
        reason="a test",
        environ={},
        metrics=[parse_selector(s) for s in selectors] or None,
        drop_missing=drop_missing,
    )


def config(folder: Path, record: RunRecord) -> BaselineFile:
    """The config baseline, read back."""
    found = load_baselines([folder], "tiny", "scenarioB", record.fingerprint).of("config").file
    assert found is not None
    return found


def with_kv(record: RunRecord, value: float, build: str = "b10440") -> RunRecord:
    """The record with other KV and from another build."""
    changed = [
        replace(m, value=value) if m.name == "kv_mib" and not m.labels else m
        for m in record.measurements
    ]
    info = replace(record.info, build=build)
    return replace(record, id="cafe0002", measurements=tuple(changed), info=info)


def test_files_are_stable_and_readable(record: RunRecord, tmp_path: Path) -> None:
    """Sorted keys, one value a line, a trailing newline; accepting twice changes nothing."""
    take(record, tmp_path)
    paths = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    before = {p: p.read_bytes() for p in paths}
    content = (tmp_path / "tiny/scenarioB/config.json").read_text()
    assert content.endswith("}\n")
    assert all(line.count(":") <= 2 or '"date"' in line for line in content.splitlines())
    decoded = msgspec.json.decode(content)
    assert list(decoded) == ["info", "match", "metrics", "scenario_digest", "schema"]
    assert decoded["metrics"]["B"]['cached_tokens{session="A",turn="2"}'] == [1216]
    take(record, tmp_path)
    assert {p: p.read_bytes() for p in paths} == before


def test_texts_are_files_of_their_own(record: RunRecord, tmp_path: Path) -> None:
    """Byte for byte, whatever they hold, under names that do not collide."""
    text = 'line\r\n "quoted" \u00e9\u4f60 \x1b[31m'
    odd = [
        Measurement("text", text, "", "B", labels={"session": "a", "turn": "1"}),
        Measurement("text", "other", "", "b", labels={"session": "A", "turn": "1"}),
        Measurement("text", "third", "", "B", labels={"session": "../x", "turn": "1"}),
        Measurement("text", "trial 2", "", "B", 2, labels={"session": "a", "turn": "1"}),
    ]
    changed = replace(record, measurements=tuple(odd))
    take(changed, tmp_path)
    found = load_baselines([tmp_path], "tiny", "scenarioB", record.fingerprint).of("numerics")
    assert found.file is not None
    values = found.file.metrics["B"]['text{session="a",turn="1"}']
    assert [s.value for s in values] == [text, "trial 2"]
    assert found.file.metrics["b"]['text{session="A",turn="1"}'][0].value == "other"
    assert found.file.metrics["B"]['text{session="../x",turn="1"}'][0].value == "third"
    names = [p.name.casefold() for p in tmp_path.rglob("*.txt")]
    assert len(names) == len(set(names)) == 4


def test_texts_that_are_no_longer_cited_go(record: RunRecord, folder: Path) -> None:
    """So that a diff of the folder shows what is compared."""
    longer = [replace(m, value="new") if m.name == "text" else m for m in record.measurements]
    take(replace(record, measurements=tuple(longer)), folder)
    texts = [p.read_text() for p in folder.rglob("*.txt")]
    assert texts
    assert set(texts) == {"new"}


def test_single_metrics_are_merged_and_keep_their_own_info(record: RunRecord, folder: Path) -> None:
    """The rest stays, with the build under which it was accepted."""
    done = take(with_kv(record, 12.25), folder, "kv_mib")
    found = config(folder, record)
    assert found.metrics["B"]["kv_mib"][0].value == 12.25
    cached = 'cached_tokens{session="A",turn="2"}'
    assert found.metrics["B"][cached][0].value == 1216
    assert found.info_for("B", "kv_mib").seen.build == "b10440"
    assert found.info_for("B", cached).seen.build == "b10434"
    assert found.info_for("B", cached).reason == "first baseline"
    assert done.values == 3
    assert done.kept > 0
    assert [p.name for p in done.files] == ["config.json"]


def test_a_full_accept_after_a_partial_one_clears_the_history(
    record: RunRecord, folder: Path
) -> None:
    """Nothing earlier is left to speak of."""
    take(with_kv(record, 12.25), folder, "kv_mib")
    take(with_kv(record, 12.5, "b10441"), folder)
    assert config(folder, record).refreshed == ()


def test_a_variant_that_did_not_run_is_kept(record: RunRecord, folder: Path) -> None:
    """`--variant B` alone does not lose the others."""
    only = replace(
        with_kv(record, 12.25),
        digests={"B": record.digests["B"]},
        measurements=tuple(m for m in with_kv(record, 12.25).measurements if m.variant == "B"),
    )
    take(only, folder)
    found = config(folder, record)
    assert found.metrics["B"]["kv_mib"][0].value == 12.25
    assert found.metrics["U"]["kv_mib"][0].value == 16.0
    assert set(found.scenario_digest) == {"B", "U", "P"}


def test_a_variant_of_another_scenario_state_goes(record: RunRecord, folder: Path) -> None:
    """Its values could not be compared any more; what went is told."""
    edited = replace(
        record,
        digests={**record.digests, "U": "edited"},
        measurements=tuple(m for m in record.measurements if m.variant != "U"),
    )
    done = take(edited, folder)
    assert "U" not in config(folder, record).metrics
    assert any(d.startswith("U ") for d in done.dropped)


def test_single_metrics_do_not_go_into_another_scenario_state(
    record: RunRecord, folder: Path
) -> None:
    """The rest of the variant would be left without a baseline."""
    edited = replace(record, digests={**record.digests, "B": "edited"})
    with pytest.raises(ConfigError, match="another state of the scenario"):
        take(edited, folder, "kv_mib")


def test_values_that_were_not_measured_are_not_lost_silently(
    record: RunRecord, folder: Path
) -> None:
    """An unreadable log must not take KV out of the baseline."""
    blind = tuple(m for m in record.measurements if m.name != "kv_mib")
    before = (folder / "tiny/scenarioB/config.json").read_bytes()
    with pytest.raises(UsageError, match="did not measure: B kv_mib") as caught:
        take(replace(record, measurements=blind), folder)
    assert "--drop-missing" in (caught.value.hint or "")
    assert (folder / "tiny/scenarioB/config.json").read_bytes() == before
    done = take(replace(record, measurements=blind), folder, drop_missing=True)
    assert "B kv_mib" in done.dropped
    assert "kv_mib" not in config(folder, record).metrics["B"]


def test_unknown_keys_leave_a_scope_out(record: RunRecord, tmp_path: Path) -> None:
    """With a warning, since nothing could ever match."""
    attached = replace(record, fingerprint=replace(record.fingerprint, numerics=None, machine=None))
    done = take(attached, tmp_path)
    assert [p.name for p in done.files] == ["config.json"]
    assert len(done.warnings) == 2


def test_no_place_on_this_machine_is_kept(record: RunRecord, tmp_path: Path) -> None:
    """Baselines are committed: neither paths nor ports belong there."""
    take(record, tmp_path)
    content = (tmp_path / "tiny/scenarioB/config.json").read_text()
    assert "/opt" not in content
    assert '"port"' not in content


def test_trials_that_disagree_are_warned_of(record: RunRecord, tmp_path: Path) -> None:
    """Such a baseline decides nothing."""
    more = (
        *record.measurements,
        Measurement("slot", 0, "", "B", 1, {"session": "A", "turn": "1"}),
        Measurement("slot", 1, "", "B", 2, {"session": "A", "turn": "1"}),
    )
    done = take(replace(record, measurements=more), tmp_path)
    assert any("slot" in w and "disagree" in w for w in done.warnings)


@pytest.mark.parametrize("value", ["true", "1", "yes"])
def test_it_refuses_in_ci(record: RunRecord, tmp_path: Path, value: str) -> None:
    """A pipeline must not bless its own result."""
    with pytest.raises(UsageError, match="not accepted in CI"):
        accept(record, tmp_path, reason="x", environ={"CI": value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", "false", "0", "False"])
def test_a_ci_variable_that_says_no_is_none(record: RunRecord, tmp_path: Path, value: str) -> None:
    """Some shells export it empty."""
    assert accept(record, tmp_path, reason="x", environ={"CI": value}).values > 0


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_it_wants_a_reason(record: RunRecord, tmp_path: Path, reason: str) -> None:
    """An empty one is none."""
    with pytest.raises(UsageError, match="needs a reason"):
        accept(record, tmp_path, reason=reason, environ={})


@pytest.mark.parametrize(
    "result",
    [
        gate("fail", "changed", "baseline"),
        gate("fail", "new", "baseline"),
        gate("inconclusive", "inconclusive", "baseline"),
        gate("fail", None, "number", level="advise"),
        gate("not applicable", None, "run"),
    ],
)
def test_what_a_baseline_mends_is_accepted(
    record: RunRecord, tmp_path: Path, result: GateResult
) -> None:
    """Changes, new values, and the lack of a baseline."""
    assert take(replace(record, gates=(result,)), tmp_path).values > 0


@pytest.mark.parametrize(
    "result",
    [
        gate("fail", None, "number"),
        gate("fail", "changed", "run"),
        gate("fail", "missing", "baseline"),
        gate("error", None, "baseline"),
        gate("xpass", None, "baseline"),
        gate("inconclusive", None, "run"),
    ],
)
def test_other_failures_are_refused(record: RunRecord, tmp_path: Path, result: GateResult) -> None:
    """Limits, comparisons within the run, and what was not measured."""
    with pytest.raises(UsageError, match="cannot mend"):
        take(replace(record, gates=(result,)), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_interrupted_or_unjudged_run_is_refused(record: RunRecord, tmp_path: Path) -> None:
    """Whatever its gates say."""
    crash = Failure("crash", "the server died")
    failed = replace(
        record, launches=(replace(record.launches[0], failure=crash), *record.launches[1:])
    )
    for bad, message in (
        (failed, "the server died"),
        (replace(record, interrupted=True), "was interrupted"),
        (replace(record, verdict=None), "was not judged"),
    ):
        with pytest.raises(UsageError, match=message):
            take(bad, tmp_path)


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("cached_tokens", "cached_tokens was measured with these labels: {session,turn}"),
        ("kv_mib_x", "measured were: "),
    ],
)
def test_a_selector_that_selects_nothing_is_refused(
    record: RunRecord, tmp_path: Path, selector: str, hint: str
) -> None:
    """With what could have been meant."""
    with pytest.raises(UsageError, match="has no measurement") as caught:
        take(record, tmp_path, selector)
    assert hint in (caught.value.hint or "")


def test_other_keys_replace_the_file_but_take_no_merge(record: RunRecord, folder: Path) -> None:
    """A run with another seed; what is lost is told."""
    reseeded = replace(record, fingerprint=replace(record.fingerprint, seed=3))
    with pytest.raises(ConfigError, match="under other keys"):
        take(reseeded, folder, "kv_mib")
    done = take(reseeded, folder)
    assert config(folder, reseeded).match["seed"] == 3
    assert "B kv_mib" in done.dropped


def test_metrics_of_a_later_version_are_passed_over(record: RunRecord, tmp_path: Path) -> None:
    """A record from another machine may know more than we do."""
    later = Measurement("warp_factor", 9.0, "", "B")
    take(replace(record, measurements=(*record.measurements, later)), tmp_path)
    assert "warp_factor" not in config(tmp_path, record).metrics["B"]


def test_what_a_known_issue_spoilt_is_in_no_baseline(record: RunRecord, tmp_path: Path) -> None:
    """A variant that crashed as expected, and a gate that failed as expected, leave no reference;
    the rest of the run is accepted."""
    issue = IssueResult("bug-207", "U", "crash", "xfail", "as expected", "s.yaml:60")
    launches = tuple(
        replace(one, failure=Failure("crash", "it died")) if one.variant == "U" else one
        for one in record.launches
    )
    spoilt = replace(
        gate("xfail", "changed", "baseline"), metric='cached_tokens{session="A",turn="2"}'
    )
    run = replace(record, launches=launches, known_issues=(issue,), gates=(spoilt,))
    take(run, tmp_path / "fresh")
    text = (tmp_path / "fresh" / "tiny" / "scenarioB" / "config.json").read_text()
    metrics = msgspec.json.decode(text)["metrics"]
    assert sorted(metrics) == ["B", "P"]
    assert 'cached_tokens{session="A",turn="2"}' not in metrics["B"]
    assert 'cached_tokens{session="B",turn="2"}' in metrics["B"]


def test_a_crash_that_no_issue_explains_is_refused(record: RunRecord, tmp_path: Path) -> None:
    """An entry that saw another failure excuses nothing."""
    issue = IssueResult("bug-207", "U", "crash", "other failure", "otherwise", "s.yaml:60")
    launches = tuple(
        replace(one, failure=Failure("crash", "it died")) if one.variant == "U" else one
        for one in record.launches
    )
    with pytest.raises(UsageError, match="variant U, trial 1: it died"):
        take(replace(record, launches=launches, known_issues=(issue,)), tmp_path / "fresh")


def test_vectors_are_stored_with_the_numerics_scope(record: RunRecord, folder: Path) -> None:
    """Neither where single metrics are taken nor where only the config scope is."""
    position = Position(0, pack_floats([-1.0]))
    line = VectorLine("B", 1, "reference", LogprobVectors("x", (1,), (0,), (position,), 9))
    common: dict[str, Any] = {"reason": "a test", "environ": {}, "vectors": [line]}

    def stored(accepted: Accepted) -> list[Path]:
        return [path for path in accepted.files if "vectors" in path.parts]

    assert not stored(accept(record, folder, metrics=[parse_selector("kv_mib")], **common))
    assert not stored(accept(record, folder, scopes=["config"], **common))
    (path,) = stored(accept(record, folder, **common))
    assert b'"a test"' in path.read_bytes()


def git(folder: Path, *words: str) -> str:
    """Run git with a user of its own."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "core.autocrlf=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize(
    ("selector", "changes"),
    [
        ("kv_mib", {"config.json": {'"value": 16.0', '"value": 32.0'}}),
        ('ttft_ms{session="A",turn="1"}', {"machine": {"13.5", "27.0"}}),
        (
            'text{session="A",turn="1"}',
            {
                "text": {'"sha256"'},
                "B.A.1.txt": {"alpha"},
                "P.A.1.txt": {"alpha"},
                "U.A.1.txt": {"alpha"},
            },
        ),
    ],
)
def test_refreshing_one_metric_touches_only_its_lines(
    record: RunRecord, tmp_path: Path, selector: str, changes: dict[str, set[str]]
) -> None:
    """By git's own word: its values, and one entry that says when and why; the second time, of
    that entry only what is new."""
    take(record, tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    name = parse_selector(selector).name
    twice = [replace(m, value=m.value * 2) if m.name == name else m for m in record.measurements]
    other = replace(record, id="cafe0002", measurements=tuple(twice))
    take(other, tmp_path, selector)
    names = git(tmp_path, "diff", "--name-only").split()
    assert len(names) == len(changes)
    for path in names:
        expected = next(v for k, v in changes.items() if path.rsplit("/", 1)[-1].startswith(k))
        diff = git(tmp_path, "diff", "-U0", "--", path)
        hunks = re.split(r"^@@.*@@.*\n", diff, flags=re.MULTILINE)[1:]
        entry = [h for h in hunks if '"refreshed"' in h]
        assert len(entry) == path.endswith(".json")
        assert all(line.startswith("+") for h in entry for line in h.splitlines())
        for hunk in [h for h in hunks if h not in entry]:
            lines = [line for line in hunk.splitlines() if not line.startswith("\\")]
            assert len(lines) == 2
            assert all(any(word in line for word in expected) for line in lines)
    git(tmp_path, "commit", "-qam", "second")
    take(replace(other, id="cafe0003", measurements=record.measurements), tmp_path, selector)
    added = [x for x in git(tmp_path, "diff", "-U0").splitlines() if re.match(r"\+[^+]", x)]
    assert sum('"run"' in line for line in added) == len([n for n in names if "json" in n])
    assert not any('"flags"' in line for line in added)


def test_the_entry_of_a_refreshed_metric_joins_that_of_the_same_run(
    record: RunRecord, folder: Path
) -> None:
    """Accepted one after the other, from one run for one reason; in the end all is one again."""
    run = with_kv(record, 12.25)
    for selector in ("kv_mib", 'cached_tokens{session="A",turn="2"}'):
        take(run, folder, selector)
    (entry,) = config(folder, record).refreshed
    assert set(entry.series["B"]) == {"kv_mib", 'cached_tokens{session="A",turn="2"}'}
    take(run, folder)
    assert config(folder, record).refreshed == ()


def test_every_trial_and_every_interval_is_kept(record: RunRecord, tmp_path: Path) -> None:
    """Raw samples, so that later runs can be compared with all of them."""
    rss = [
        Measurement("rss_mib", 100.0 + n, "MiB", "B", n, {"at": "mine"}, interval=ends)
        for n, ends in ((1, None), (2, (90.0, 120.5)), (3, None))
    ]
    slow = [
        Measurement("ttft_ms", 10.0 * n, "ms", "B", n, {"session": "Z", "turn": "1"})
        for n in (3, 1, 2)
    ]
    run = replace(record, measurements=(*record.measurements, *rss, *slow))
    for _ in range(2):
        take(run, tmp_path)
        found = load_baselines([tmp_path], "tiny", "scenarioB", record.fingerprint).of("machine")
        assert found.file is not None
        values = found.file.metrics["B"]
        assert [s.value for s in values['rss_mib{at="mine"}']] == [101.0, 102.0, 103.0]
        assert [s.interval for s in values['rss_mib{at="mine"}']] == [None, (90.0, 120.5), None]
        assert [s.value for s in values['ttft_ms{session="Z",turn="1"}']] == [10.0, 20.0, 30.0]
        take(run, tmp_path, "kv_mib")


def failing(selector: str) -> GateResult:
    """A gate on the baseline that found a change."""
    return replace(gate("fail", "changed", "baseline"), metric=selector)


def test_a_failure_that_is_not_being_accepted_refuses(record: RunRecord, folder: Path) -> None:
    """Of two metrics that moved, taking one would leave the other unexplained; the hint is a
    command that takes it too."""
    cached = 'cached_tokens{session="A",turn="2"}'
    moved = [
        replace(m, value=7)
        if m.name == "cached_tokens" and m.labels == {"session": "A", "turn": "2"}
        else m
        for m in with_kv(record, 12.25).measurements
    ]
    run = replace(
        with_kv(record, 12.25),
        measurements=tuple(moved),
        gates=(failing("kv_mib"), failing('cached_tokens{session="A",turn=~".*"}')),
    )
    before = config(folder, record)
    with pytest.raises(UsageError, match="also fails on what is not being accepted") as caught:
        take(run, folder, "kv_mib")
    assert f"--metric '{cached}'" in (caught.value.hint or "")
    assert config(folder, record) == before
    take(run, folder, "kv_mib", cached)
    assert config(folder, record).metrics["B"][cached][0].value == 7


def test_values_of_a_failing_gate_that_did_not_move_need_not_be_taken(
    record: RunRecord, folder: Path
) -> None:
    """A gate on every turn fails for one of them; taking that one is enough."""
    moved = [
        replace(m, value=7)
        if m.name == "cached_tokens" and m.labels == {"session": "A", "turn": "2"}
        else m
        for m in record.measurements
    ]
    run = replace(
        record,
        measurements=tuple(moved),
        gates=(failing('cached_tokens{session="A",turn=~".*"}'),),
    )
    take(run, folder, 'cached_tokens{session="A",turn="2"}')


def test_a_scope_that_is_left_out_is_not_being_accepted(record: RunRecord, folder: Path) -> None:
    """`--scope config` does not sweep a changed text under the carpet."""
    other = [replace(m, value="new") if m.name == "text" else m for m in record.measurements]
    run = replace(
        record,
        measurements=tuple(other),
        gates=(failing('text{session="A",turn=~".*"}'),),
    )
    with pytest.raises(UsageError, match="also fails") as caught:
        accept(run, folder, reason="x", environ={}, scopes=["config"])
    assert "without --scope" in (caught.value.hint or "")
    take(run, folder)


def test_missing_values_are_let_go_only_with_everything(record: RunRecord, folder: Path) -> None:
    """`--metric` keeps what it does not name, so it mends no gate on what is missing."""
    blind = tuple(m for m in record.measurements if m.name != "kv_mib")
    run = replace(record, measurements=blind, gates=(gate("fail", "missing", "baseline"),))
    with pytest.raises(UsageError, match="also fails on what is not being accepted: kv_mib"):
        take(run, folder, 'cached_tokens{session="A",turn="2"}', drop_missing=True)
    take(run, folder, drop_missing=True)


def test_a_latency_that_could_not_be_told_this_time_keeps_its_baseline(
    record: RunRecord, folder: Path
) -> None:
    """Tokens that came at one moment have no gaps: that is chance, and no loss to look into."""
    labels = {"session": "A", "turn": "1"}
    gap = Measurement("itl_ms", 1.5, "ms", "B", labels=labels)
    take(replace(record, measurements=(*record.measurements, gap)), folder)
    untold = Unmeasured("itl_ms", "B", "at one moment", "inconclusive", labels=labels)
    done = take(replace(record, unmeasured=(untold,)), folder)
    files = "".join(path.read_text() for path in folder.rglob("machine.*.json"))
    assert "itl_ms" in files
    assert done.kept >= 1
    with pytest.raises(UsageError, match="did not measure: B itl_ms"):
        take(record, folder)


def test_a_gate_on_stored_vectors_is_mended_by_storing_new_ones(
    record: RunRecord, folder: Path
) -> None:
    """And by nothing else: a run without vectors, or another scope, cannot mend it."""
    position = Position(0, pack_floats([-1.0]))
    line = VectorLine("B", 1, "reference", LogprobVectors("x", (1,), (0,), (position,), 9))
    stored = 'logprob_cosine{against="stored",request="x"}'
    cosine = Measurement(
        "logprob_cosine", 0.9, "", "B", labels={"against": "stored", "request": "x"}
    )
    run = replace(
        record,
        measurements=(*record.measurements, cosine),
        gates=(replace(gate("fail", None, "number"), metric=stored),),
    )
    common: dict[str, Any] = {"reason": "a test", "environ": {}}
    with pytest.raises(UsageError, match="cannot mend"):
        accept(run, folder, **common)
    with pytest.raises(UsageError, match="cannot mend"):
        accept(run, folder, scopes=["config"], vectors=[line], **common)
    with pytest.raises(UsageError, match="cannot mend"):
        accept(run, folder, metrics=[parse_selector("kv_mib")], vectors=[line], **common)
    done = accept(run, folder, metrics=[parse_selector(stored)], vectors=[line], **common)
    assert any("vectors" in path.parts for path in done.files)


def test_a_run_with_nothing_to_accept_is_refused(record: RunRecord, tmp_path: Path) -> None:
    """Saying that it was accepted would be untrue; not even a folder is left."""
    for run in (
        replace(record, measurements=()),
        replace(record, fingerprint=replace(record.fingerprint, machine=None)),
    ):
        with pytest.raises(UsageError, match="nothing to accept"):
            accept(run, tmp_path / "new", reason="x", environ={}, scopes=["machine"])
    assert list(tmp_path.iterdir()) == []


def test_metrics_of_a_later_version_are_kept_by_a_partial_accept(
    record: RunRecord, folder: Path
) -> None:
    """A colleague's newer benchsuite measured more; refreshing another metric leaves it alone."""
    path = folder / "tiny/scenarioB/config.json"
    path.write_text(path.read_text().replace('"kv_mib": [', '"warp_factor": [9],\n"kv_mib": [', 1))
    take(with_kv(record, 12.25), folder, "kv_mib")
    assert config(folder, record).metrics["B"]["warp_factor"][0].value == 9


def on(record: RunRecord, numerics: str, run: str) -> RunRecord:
    """The record as of another backend on the same machine."""
    key = replace(record.fingerprint, numerics=numerics, machine="desk")
    return replace(record, id=run, fingerprint=key)


def test_two_backends_on_one_machine_keep_a_file_each(record: RunRecord, tmp_path: Path) -> None:
    """Accepting one changes nothing of the other."""
    cpu, gpu = on(record, "cpu avx2", "aaaa0001"), on(record, "vulkan", "bbbb0002")
    take(cpu, tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("machine.*")}
    assert take(gpu, tmp_path).dropped == ()
    files = {p.name: p for p in tmp_path.rglob("machine.*")}
    assert sorted(files) == ["machine.desk.cpu-avx2-5f48950c.json", "machine.desk.vulkan.json"]
    assert {p: p.read_bytes() for p in before} == before
    for one in (cpu, gpu):
        found = load_baselines([tmp_path], "tiny", "scenarioB", one.fingerprint).of("machine")
        assert found.file is not None
        assert found.file.info.run == one.id


def test_a_machine_file_of_former_name_is_read_and_renamed(
    record: RunRecord, tmp_path: Path
) -> None:
    """By the next accept of the same keys; that of another backend leaves it as it is."""
    cpu, gpu = on(record, "cpu", "aaaa0001"), on(record, "vulkan", "bbbb0002")
    take(cpu, tmp_path)
    (new,) = tmp_path.rglob("machine.*")
    former = new.rename(new.with_name("machine.desk.json"))
    found = load_baselines([tmp_path], "tiny", "scenarioB", cpu.fingerprint).of("machine")
    assert found.state == "matching"
    other = load_baselines([tmp_path], "tiny", "scenarioB", gpu.fingerprint).of("machine")
    assert other.state == "other key"
    take(gpu, tmp_path)
    assert former.exists()
    done = take(replace(cpu, id="cccc0003"), tmp_path, 'anon_mib{at="end"}')
    assert done.kept > 0
    assert former in done.removed
    assert not former.exists()
    kept = load_baselines([tmp_path], "tiny", "scenarioB", cpu.fingerprint).of("machine").file
    assert kept is not None
    assert (kept.info.run, len(kept.refreshed)) == ("aaaa0001", 1)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_goes_into_no_baseline(
    record: RunRecord, folder: Path, odd: float
) -> None:
    """JSON has no such number, so its series is left out by name and the file stays readable."""
    shutil.rmtree(folder)
    spoilt = replace(
        record,
        measurements=tuple(
            replace(m, value=odd) if m.name == "kv_mib" and not m.labels else m
            for m in record.measurements
        ),
    )
    done = take(spoilt, folder)
    assert "no finite number: B kv_mib" in " ".join(done.warnings)
    metrics = config(folder, record).metrics["B"]
    assert "kv_mib" not in metrics
    assert len(metrics) > 3
    with pytest.raises(UsageError, match="nothing to accept") as caught:
        take(spoilt, folder, "kv_mib")
    assert "no finite number" in str(caught.value.hint)


def test_a_value_that_is_no_number_replaces_none(record: RunRecord, folder: Path) -> None:
    """What the baseline has and this run could not measure is kept, unless it is let go."""
    spoilt = with_kv(record, math.nan)
    with pytest.raises(UsageError, match="did not measure"):
        take(spoilt, folder)


@pytest.mark.parametrize(
    ("grade", "selectors", "warned"),
    [("warn", (), True), ("ok", (), False), ("warn", ("kv_mib",), False)],
)
def test_latency_of_an_unfit_machine_is_accepted_with_a_warning(
    record: RunRecord, folder: Path, grade: str, selectors: tuple[str, ...], warned: bool
) -> None:
    """What a busy machine made slow is a baseline that everything keeps."""
    load = msgspec.convert(
        {
            "fact": "load from others",
            "value": "40%",
            "grade": grade,
            "sentence": "",
            "strikes": ["latency"],
        },
        MachineFinding,
    )
    state = MachineState(MachineReading(0), MachineReading(1), (load,))
    slow = Measurement("ttft_ms", 9.0, "ms", "B", 1)
    busy = replace(record, machine_state=state, measurements=(*record.measurements, slow))
    warnings = " ".join(take(busy, folder, *selectors).warnings)
    assert ("not fit to measure latency (load from others 40%)" in warnings) == warned


@pytest.mark.parametrize(("before", "now", "warned"), [(5, 1, True), (1, 1, False), (9, 5, False)])
def test_fewer_launches_than_decide_are_accepted_with_a_warning(
    record: RunRecord, folder: Path, before: int, now: int, warned: bool
) -> None:
    """A gate that blocked would only advise from then on."""

    def with_launches(count: int) -> RunRecord:
        rest = tuple(m for m in record.measurements if m.name != "ttft_ms" or m.labels)
        more = tuple(Measurement("ttft_ms", 9.0 + i, "ms", "B", i + 1) for i in range(count))
        return replace(record, measurements=(*rest, *more))

    shutil.rmtree(folder)
    assert not take(with_launches(before), folder).warnings
    warnings = " ".join(take(with_launches(now), folder).warnings)
    assert (f"of {before} launches by that of {now}" in warnings) == warned
