"""Which baselines a run may be compared with, and what is wrong with broken ones."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ConfigError
from benchsuite.metrics.metric import Scope
from benchsuite.model.record import Failure, Fingerprint, RunRecord
from benchsuite.store.baselines import Baselines, baselines_of_record, load_baselines
from benchsuite.store.records import read_record

GOLDEN = Path(__file__).parents[2] / "golden" / "pass"
PRINT = Fingerprint("tiny", "scenarioB", 0, "cpu avx2", "cpu avx2, example cpu, 2 cores")
replace = msgspec.structs.replace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A baseline folder that may be broken."""
    return Path(shutil.copytree(GOLDEN / "baselines", tmp_path / "baselines"))


def load(*folders: Path, fingerprint: Fingerprint = PRINT) -> Baselines:
    """The baselines of the example."""
    return load_baselines(folders, "tiny", "scenarioB", fingerprint)


def states(found: Baselines) -> dict[Scope, str]:
    """The state of each scope."""
    return {scope: found.of(scope).state for scope in found.scopes}


def test_everything_accepted_is_found(folder: Path) -> None:
    """Numbers with their quanta, and texts from their own files."""
    found = load(folder)
    assert set(states(found).values()) == {"matching"}
    config, numerics = found.of("config").file, found.of("numerics").file
    assert config is not None
    assert numerics is not None
    kv = config.metrics["B"]["kv_mib"][0]
    assert (kv.value, kv.quantum, kv.terms) == (16.0, 0.01, 1)
    text = numerics.metrics["B"]['text{session="A",turn="1"}'][0]
    assert text.value == "alpha beta"
    info = config.info_for("B", "kv_mib")
    assert (info.seen.build, info.reason, info.run) == ("b10434", "first baseline", "ba5e0001")


def test_no_folder_at_all_is_none(tmp_path: Path) -> None:
    """Neither is an error."""
    assert set(states(load()).values()) == {"none"}
    assert set(states(load(tmp_path / "nowhere")).values()) == {"none"}


def test_the_first_folder_that_has_the_file_wins(folder: Path, tmp_path: Path) -> None:
    """Scope by scope: the user's config, the shipped rest."""
    own = tmp_path / "own" / "tiny" / "scenarioB"
    own.mkdir(parents=True)
    shipped = (folder / "tiny/scenarioB/config.json").read_text()
    (own / "config.json").write_text(shipped.replace("16.0", "17.0"))
    found = load(tmp_path / "own", folder)
    config = found.of("config").file
    assert config is not None
    assert config.metrics["B"]["kv_mib"][0].value == 17.0
    assert found.of("machine").state == "matching"


def test_other_keys_are_told_from_none(folder: Path) -> None:
    """A file of another machine, in any folder, is `other key`, and the field is named."""
    found = load(folder, fingerprint=replace(PRINT, machine="another machine"))
    assert states(found) == {"config": "matching", "numerics": "matching", "machine": "other key"}
    mismatches = found.of("machine").mismatches
    assert len(mismatches) == 1
    assert mismatches[0].startswith("machine: 'cpu avx2, example cpu, 2 cores' in the baseline")


def test_an_unknown_key_never_matches(folder: Path) -> None:
    """An attached server's numerics cannot be seen."""
    found = load(folder, fingerprint=replace(PRINT, numerics=None, machine=None))
    assert found.of("numerics").state == "other key"
    assert "unknown here" in found.of("numerics").mismatches[0]


def test_of_long_keys_only_the_parts_that_differ_are_named(folder: Path) -> None:
    """CPU features are a long list."""
    features = " | ".join(f"FEATURE{i} = 1" for i in range(20))
    path = next((folder / "tiny/scenarioB").glob("text.*.json"))
    path.write_text(path.read_text().replace('"cpu avx2"', f'"{features} | AVX512 = 1"'))
    found = load(folder, fingerprint=replace(PRINT, numerics=f"{features} | AVX512 = 0"))
    words = "numerics: 'AVX512 = 1' in the baseline, 'AVX512 = 0' here"
    assert found.of("numerics").mismatches == (words,)


def test_the_seed_is_part_of_every_key(folder: Path) -> None:
    """No scope matches another seed."""
    found = load(folder, fingerprint=replace(PRINT, seed=1))
    assert set(states(found).values()) == {"other key"}


def test_baselines_of_another_deployment_can_be_asked_for(folder: Path) -> None:
    """`--against`: the deployment asked for is the key, not the run's own."""
    found = load_baselines(
        [folder], "tiny", "scenarioB", replace(PRINT, deployment="candidate", machine="x")
    )
    assert found.of("config").state == "matching"
    copied = folder / "other" / "scenarioB"
    shutil.copytree(folder / "tiny" / "scenarioB", copied)
    moved = load_baselines([folder], "other", "scenarioB", replace(PRINT, deployment="other"))
    assert "deployment: 'tiny' in the baseline, 'other' here" in moved.of("config").mismatches


def test_another_run_can_be_the_baseline() -> None:
    """With the keys of its own fingerprint."""
    record: RunRecord = read_record(GOLDEN / "record.json")
    found = baselines_of_record(record, PRINT)
    assert set(states(found).values()) == {"matching"}
    elsewhere = baselines_of_record(record, replace(PRINT, machine="x"))
    assert elsewhere.of("machine").state == "other key"


def test_what_a_failed_launch_measured_is_no_reference() -> None:
    """As `accept` refuses it; the run's other launches are one."""
    record = read_record(GOLDEN / "record.json")
    dead = replace(record.launches[0], failure=Failure("crash", "it died"))
    found = baselines_of_record(replace(record, launches=(dead, *record.launches[1:])), PRINT)
    file = found.of("config").file
    assert (None if file is None else file.metrics.get(dead.variant)) is None
    assert baselines_of_record(record, PRINT).of("config").state == "matching"


def edit_config(folder: Path, edit: Callable[[str], str]) -> Path:
    """Rewrite the config baseline by hand."""
    path = folder / "tiny" / "scenarioB" / "config.json"
    path.write_text(edit(path.read_text()))
    return path


def line_of(path: Path, needle: str) -> int:
    """The first line that holds a text."""
    lines = path.read_text().splitlines()
    return next(n for n, line in enumerate(lines, start=1) if needle in line)


def test_a_merge_conflict_is_named_at_its_line(folder: Path) -> None:
    """Before anything else is said about the file."""
    path = edit_config(
        folder, lambda s: s.replace('  "match"', '<<<<<<< HEAD\n  "match"\n=======\n>>>>>>> x\n', 1)
    )
    with pytest.raises(ConfigError, match="merge conflict") as caught:
        load(folder)
    assert caught.value.where == f"{path}:{line_of(path, '<<<<<<<')}"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"value": 16.0', '"value": "16.0"', 'holds "16.0", expected a number|expected a number'),
        ('"value": 16.0', '"value": true', "expected a number"),
        ('"value": 16.0', '"value": 1' + "0" * 400, "expected a number"),
        ('"quantum": 0.01', '"quantum": -1', "quantum -1"),
        ('"quantum": 0.01', '"quantum": 1e9', "quantum 1000000000"),
        ('"quantum": 0.01', '"quantum": 1', "expected 0 to 0.1"),
        ('"terms": 1', '"terms": 1000000', "expected a whole number from 1 to 1024"),
        (
            '"quantum": 0.01,\n          "terms": 1',
            '"quantum": 0.1,\n          "terms": 1000',
            "would",
        ),
        ('"terms": 1', '"terms": 0', "terms 0"),
        ('"terms": 1', '"term": 1', "expected a number"),
        ('"kv_mib": [', '"kv_mib{": [', "selector 'kv_mib{'"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_at_its_series(
    folder: Path, before: str, after: str, message: str
) -> None:
    """The line is that of the series in the first variant."""
    path = edit_config(folder, lambda s: s.replace(before, after, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        load(folder)
    line = line_of(path, '"kv_mib')
    assert caught.value.where == f"{path}:{line}"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"seed": 0', '"seed": "0"', "'seed' is \"0\", expected a whole number"),
        ('"deployment": "tiny"', '"deployment": 3', "expected text"),
        ('"build": "b10434"', '"build": 10434', "'build' is 10434, expected text"),
        ('"schema": 1', '"schema": 9', "newer benchsuite: a baseline with schema 9"),
        ('"schema": 1', '"schema": null', "has no schema"),
        ('"schema": 1', '"schema": 0', "has schema 0, expected a whole number from 1 to 2"),
        ('"metrics": {', '"metric": {', "unknown key 'metric'"),
        ('"parallel": "2"', '"parallel": 2', "'parallel' is 2, expected text"),
    ],
)
def test_a_wrong_key_is_named_at_its_line(
    folder: Path, before: str, after: str, message: str
) -> None:
    """What was found and what was expected."""
    path = edit_config(folder, lambda s: s.replace(before, after, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        load(folder)
    assert caught.value.where == f"{path}:{line_of(path, after)}"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: "", "is not JSON"),
        (lambda s: s[: len(s) // 2], "is not JSON"),
        (lambda s: s.replace(",", ",,", 1), "is not JSON"),
        (lambda s: "[]", "expected an object"),
        (lambda s: '{"schema": 1}', "lacks the key 'match'"),
    ],
)
def test_a_broken_file_is_refused(folder: Path, edit: Callable[[str], str], message: str) -> None:
    """Truncated, empty, or something else altogether."""
    path = edit_config(folder, edit)
    with pytest.raises(ConfigError, match=message) as caught:
        load(folder)
    assert (caught.value.where or "").startswith(f"{path}:")


def test_bytes_that_are_no_text_are_refused(folder: Path) -> None:
    """As a disk or an editor may leave them."""
    path = folder / "tiny/scenarioB/config.json"
    path.write_bytes(path.read_bytes().replace(b"b10434", b"b\xff\xfe"))
    with pytest.raises(ConfigError, match="is not"):
        load(folder)


def test_a_folder_in_place_of_a_file_is_refused(folder: Path) -> None:
    """It cannot be read, and that is said."""
    path = folder / "tiny/scenarioB/config.json"
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="cannot read it"):
        load(folder)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda p: p.unlink(), "is not there"),
        (lambda p: p.write_bytes(p.read_bytes() + b"\n"), "its sha256 differs"),
    ],
)
def test_a_text_that_was_touched_is_refused(
    folder: Path, edit: Callable[[Path], object], message: str
) -> None:
    """A text gate must not compare with something that nobody accepted."""
    edit(next((folder / "tiny/scenarioB/text").glob("*/B.A.1.txt")))
    with pytest.raises(ConfigError, match=message):
        load(folder)


def test_a_text_outside_of_the_baseline_is_refused(folder: Path) -> None:
    """A baseline from elsewhere must not read other files."""
    path = next((folder / "tiny/scenarioB").glob("text.*.json"))
    content = path.read_text()
    start = content.index("text/cpu")
    end = content.index('"', start)
    path.write_text(content[:start] + "../../../../etc/passwd" + content[end:])
    with pytest.raises(ConfigError, match="lies outside"):
        load(folder)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ('      "kv_mib": [', '      "kv_mib": [1],\n      "kv_mib": [', 2),
        ('    "seed": 0', '    "seed": 1,\n    "seed": 0', 2),
        ('  "match": {', '  "match": {},\n  "match": {', 2),
        ('      "kv_mib": [', '      "\\u006bv_mib": [1],\n      "kv_mib": [', 0),
    ],
)
def test_a_key_that_stands_twice_is_refused(
    folder: Path, before: str, after: str, line: int
) -> None:
    """A merge may take both sides without a conflict; JSON would keep the last and be silent."""
    path = folder / "tiny/scenarioB/config.json"
    first = line_of(path, before.strip())
    edit_config(folder, lambda s: s.replace(before, after, 1))
    with pytest.raises(ConfigError, match="twice") as caught:
        load(folder)
    assert caught.value.where == f"{path}:{first + line - 1 if line else 1}"
    assert "keep one of the two" in (caught.value.hint or "")


def test_a_quoted_brace_is_no_brace(folder: Path) -> None:
    """Names of series hold braces and quotes; a key may stand once in each object."""
    odd = '"reason": "}{ \\" [ ] \\"kv_mib\\": "'
    edit_config(folder, lambda s: s.replace('"reason": "first baseline"', odd, 1))
    file = load(folder).of("config").file
    assert file is not None
    assert file.info.reason == '}{ " [ ] "kv_mib": '


def test_series_that_are_listed_twice_are_refused(folder: Path) -> None:
    """Which of two entries says when a value was accepted would be a guess."""
    entry = '{"info": {}, "series": {"B": ["kv_mib"]}}'
    path = edit_config(
        folder,
        lambda s: s.replace('"schema": 1', f'"refreshed": [{entry}, {entry}],\n  "schema": 2'),
    )
    with pytest.raises(ConfigError, match="lists 'kv_mib' of variant B twice") as caught:
        load(folder)
    assert (caught.value.where or "").startswith(f"{path}:")


@pytest.mark.parametrize(
    "interval", ["[1]", "[1, 2, 3]", '["a", 2]', "5", "{}", "[null, 2]", "[true, 2]"]
)
def test_an_interval_has_two_ends(folder: Path, interval: str) -> None:
    """Anything else is named at its series."""
    edit_config(
        folder,
        lambda s: s.replace(
            '"kv_mib": [', f'"x": [{{"value": 1, "interval": {interval}}}], "kv_mib": [', 1
        ),
    )
    with pytest.raises(ConfigError, match=r"interval .*, expected two numbers"):
        load(folder)


def test_a_conflict_says_how_it_is_solved(folder: Path) -> None:
    """In a baseline file and in a text beside it, each at its own line."""
    text = next((folder / "tiny/scenarioB/text").glob("*/B.A.1.txt"))
    text.write_text("same\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> theirs\n")
    with pytest.raises(ConfigError, match="merge conflict") as caught:
        load(folder)
    assert caught.value.where == f"{text}:2"
    for words in ("git checkout --ours", "--theirs", "accept the other side's run again"):
        assert words in (caught.value.hint or "")


def test_a_text_may_look_like_a_conflict(folder: Path) -> None:
    """A model may write one; what was accepted byte for byte is no conflict."""
    text = b"<<<<<<< HEAD\n=======\n>>>>>>> x\n"
    path = next((folder / "tiny/scenarioB/text").glob("*/B.A.1.txt"))
    old = hashlib.sha256(path.read_bytes()).hexdigest()
    for name in ("B", "P", "U"):
        path.with_name(f"{name}.A.1.txt").write_bytes(text)
    file = next((folder / "tiny/scenarioB").glob("text.*.json"))
    file.write_text(file.read_text().replace(old, hashlib.sha256(text).hexdigest()))
    found = load(folder).of("numerics").file
    assert found is not None
    assert found.metrics["B"]['text{session="A",turn="1"}'][0].value == text.decode()


@pytest.mark.parametrize(
    "number",
    ["1e400", "-1e400", "1" + "0" * 5000, "NaN", "Infinity", "-Infinity", '"' + "9" * 10_000 + '"'],
    ids=lambda text: text[:5],
)
@pytest.mark.parametrize("key", ["value", "quantum", "terms", "schema"])
def test_a_number_that_is_none_is_refused(folder: Path, number: str, key: str) -> None:
    """At its line, without quoting all of it."""
    file = folder / "tiny/scenarioB/config.json"
    text = file.read_text()
    wrong = {
        "value": text.replace("16.0", number, 1),
        "quantum": text.replace("0.01", number, 1),
        "terms": re.sub(r'"terms": \d+', f'"terms": {number}', text, count=1),
        "schema": re.sub(r'"schema": \d+', f'"schema": {number}', text, count=1),
    }[key]
    assert wrong != text
    file.write_text(wrong)
    with pytest.raises(ConfigError, match=r"config\.json:\d+") as caught:
        load(folder)
    assert len(str(caught.value)) < 2000
