"""The only writer of baselines: what it writes, keeps and refuses."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsuite.errors import ConfigError, UsageError
from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Failure, Measurement, RunRecord
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
