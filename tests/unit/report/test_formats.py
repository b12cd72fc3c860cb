"""Every format of `benchsuite report`, by what reads it."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from benchsuite.errors import UsageError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.ab import AB_KIND, AB_SCHEMA, AbRecord, AbRules
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.report.csv import COLUMNS
from benchsuite.report.formats import FORMATS, Entry, ReportInput, format_named, format_of_file
from benchsuite.report.github_action_benchmark import LEANINGS
from benchsuite.report.json import Report
from benchsuite.report.json_schema import report_schema
from benchsuite.report.openmetrics import openmetrics_name
from tests.unit.report.reports import HOSTILE, failing, given, healthy, hostile, replace

HOSTILE_IDS = [ascii(text)[:20] for text in HOSTILE]


def render(name: str, report: ReportInput) -> str:
    """The report in a format."""
    return FORMATS[name].render(report)


def rows_of(report: ReportInput) -> list[dict[str, str]]:
    """The CSV as Python's reader sees it."""
    return list(csv.DictReader(io.StringIO(render("csv", report), newline="")))


def samples_of(report: ReportInput) -> Iterator[Sample]:
    """The OpenMetrics samples as Prometheus' own parser sees them."""
    text = render("openmetrics", report)
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        yield from family.samples


def time_of(sample: Sample) -> float:
    """When it was taken, in seconds since 1970."""
    assert sample.timestamp is not None
    return float(str(sample.timestamp))


def two_sides() -> AbRecord:
    """A run of two servers."""
    one = healthy()
    return AbRecord(
        AB_SCHEMA, AB_KIND, "ab01", one.started_at, 3.0, AbRules(), one, replace(one, id="b")
    )


def test_formats_are_told_by_name_and_by_the_end_of_a_file() -> None:
    """The longest end counts; what is unknown is answered with what there is."""
    assert format_named("csv").name == "csv"
    assert format_of_file("a.b.CSV").name == "csv"
    assert format_of_file("run.json").name == "json"
    assert format_of_file("run.pytest-benchmark.json").name == "pytest-benchmark"
    with pytest.raises(UsageError, match=r"no format 'cvs'.*json, csv") as caught:
        format_named("cvs")
    assert caught.value.hint == "did you mean 'csv'?"
    with pytest.raises(UsageError, match=r"the end of 'a\.txt'.*\.csv \(csv\)"):
        format_of_file("a.txt")
    assert len({one.suffix for one in FORMATS.values()}) == len(FORMATS)


def test_json_is_what_its_schema_says() -> None:
    """The document validates, reads back as the records that went in, and fields are described."""
    report = ReportInput((Entry(healthy()), Entry(two_sides())), Path())
    content = json.loads(render("json", report))
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(content)
    assert msgspec.convert(content, Report) == Report(1, (healthy(),), (two_sides(),))
    trial = schema["$defs"]["Measurement"]["properties"]["trial"]
    assert trial["description"] == "from 1"
    content["runs"][0]["measurements"][0]["value"] = None
    assert not validator.is_valid(content)


def test_csv_has_a_row_a_measurement() -> None:
    """Numbers are numbers, also negative ones; what is missing is an empty value with a reason."""
    record = replace(
        healthy(),
        measurements=(
            Measurement("anon_mib_per_request", -0.5, "MiB", "B", interval=(-1.0, 0.25)),
            Measurement("cached_tokens", 7, "tokens", "B", 2, {"turn": "2", "session": "A"}),
        ),
        unmeasured=(Unmeasured("kv_mib", "B", "no log"),),
    )
    estimate, count, missing = rows_of(given(record))
    assert tuple(estimate) == tuple(COLUMNS)
    assert (estimate["value"], estimate["interval_low"]) == ("-0.5", "-1.0")
    assert (count["value"], count["trial"], count["labels"]) == ("7", "2", 'session="A",turn="2"')
    assert count["interval_low"] == ""
    assert (missing["value"], missing["state"], missing["reason"]) == ("", "missing", "no log")


@pytest.mark.parametrize(
    "start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", '"=1', "|x", "\uff1d1"]
)
def test_csv_holds_no_formula(start: str) -> None:
    """A text that a spreadsheet would compute begins with an apostrophe."""
    record = replace(healthy(), measurements=(Measurement("text", start, "", "B"),), unmeasured=())
    (row,) = rows_of(given(record))
    assert row["value"].startswith(("'", "\\t"))


def test_both_sides_of_two_servers_are_told_apart() -> None:
    """In every format that has one line a value."""
    report = ReportInput((Entry(two_sides()),), Path())
    assert {row["side"] for row in rows_of(report)} == {"baseline", "candidate"}
    assert {row["run"] for row in rows_of(report)} == {"ab01"}
    sides = {s.labels.get("side") for s in samples_of(report)}
    assert sides == {"baseline", "candidate"}
    for name in ("pytest-benchmark", "github-action-benchmark-smaller"):
        text = render(name, report)
        assert "scenarioB on tiny, baseline" in text
        assert "scenarioB on tiny, candidate" in text


def test_openmetrics_gives_base_units_at_the_time_of_the_run() -> None:
    """MiB are bytes, milliseconds seconds; texts are left out, the verdict is a state."""
    samples = list(samples_of(given(failing())))
    kv = [s for s in samples if s.name == "benchsuite_kv_bytes" and "device" not in s.labels]
    assert {s.value for s in kv} == {16 * 2**20}
    assert {time_of(s) for s in kv} == {1793700000.0}
    assert any(s.name == "benchsuite_ttft_seconds" and s.value < 1 for s in samples)
    states = {s.labels["benchsuite_verdict"]: s.value for s in samples if "verdict" in s.name}
    assert (states["fail"], states["pass"]) == (1, 0)
    assert not any("text" in s.name for s in samples)


def test_openmetrics_counts_what_is_missing_and_gives_it_no_value() -> None:
    """A metric that could not be measured has no sample but its own kind."""
    record = replace(healthy(), measurements=(), unmeasured=(Unmeasured("kv_mib", "B", "no log"),))
    samples = list(samples_of(given(record)))
    assert [s.labels["series"] for s in samples if s.name == "benchsuite_unmeasured"] == ["kv_mib"]
    assert not any("kv" in s.name for s in samples)


def test_openmetrics_keeps_runs_of_one_scenario_in_the_order_of_time() -> None:
    """The samples of one series stand together, the older first, so that they can be backfilled."""
    later = replace(healthy(), id="later", started_at="2026-11-04T10:00:00+00:00")
    report = given(later, healthy())
    times: dict[tuple[Any, ...], list[float]] = {}
    for sample in samples_of(report):
        key = (sample.name, *sorted(sample.labels.items()))
        times.setdefault(key, []).append(time_of(sample))
    assert all(found == sorted(found) for found in times.values())
    assert [1793700000.0, 1793786400.0] in times.values()


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda m: m.name)
def test_openmetrics_names_end_in_their_unit(metric: Any) -> None:
    """As the specification asks, for every metric of the catalogue, and no two share a name."""
    name, unit, _ = openmetrics_name(metric.name, metric.unit)
    assert name.endswith(f"_{unit}" if unit else "")
    assert "_mib" not in name
    assert not name.endswith(("_total", "_count", "_sum", "_bucket", "_created", "_info", "_ms"))
    alike = [m for m in CATALOGUE.values() if openmetrics_name(m.name, m.unit)[0] == name]
    assert alike == [metric]


def test_pytest_benchmark_compares_two_exports(tmp_path: Path) -> None:
    """Its own command prints both runs' times in one table."""
    slower = tuple(
        replace(m, value=m.value * 2) if m.unit == "ms" and not isinstance(m.value, str) else m
        for m in healthy().measurements
    )
    names = ("before.json", "after.json")
    for name, record in zip(
        names, (healthy(), replace(healthy(), measurements=slower)), strict=True
    ):
        (tmp_path / name).write_text(render("pytest-benchmark", given(record)))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest_benchmark", "compare", *names),
            *("--group-by=fullname", "--columns=median,rounds", "--csv=out.csv"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Failed to load" not in done.stdout + done.stderr
    table = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    starts = [float(row["median"]) for row in table if "variant B: server_start_ms" in row["name"]]
    assert sorted(starts) == pytest.approx([0.043, 0.086])
    assert not any("kv_mib" in row["name"] for row in table)


def test_github_action_benchmark_takes_one_direction_a_file() -> None:
    """Each list has what its tool reads, unique names, and no metric is in both."""
    content = {
        word: json.loads(render(f"github-action-benchmark-{word}", given(healthy())))
        for word in ("smaller", "bigger")
    }
    names = [one["name"] for results in content.values() for one in results]
    assert len(names) == len(set(names))
    for results in content.values():
        assert results
        for one in results:
            assert set(one) <= {"name", "unit", "value", "range", "extra"}
            assert isinstance(one["name"], str)
            assert isinstance(one["unit"], str)
            assert isinstance(one["value"], int | float)
    assert any(": kv_mib" in one["name"] for one in content["smaller"])
    assert all(": cached_tokens" in one["name"] for one in content["bigger"])
    assert set(LEANINGS) <= {m.name for m in CATALOGUE.values() if m.better == "equal"}


def test_github_action_benchmark_takes_the_median_of_trials() -> None:
    """With half their spread as the range; two runs of one scenario keep their names apart."""
    values = tuple(Measurement("ttft_ms", v, "ms", "B", t) for t, v in ((1, 10), (2, 40), (3, 12)))
    record = replace(healthy(), measurements=values)
    both = given(record, replace(record, id="second"))
    first, second = json.loads(render("github-action-benchmark-smaller", both))
    assert (first["value"], first["range"]) == (12, "± 15")
    assert second["name"] == f"{first['name']} (run second)"


@pytest.mark.parametrize("text", HOSTILE, ids=HOSTILE_IDS)
def test_hostile_text_leaves_every_format_valid(text: str) -> None:
    """Whatever a server, a model or a file says, the reader of each format reads it."""
    report = given(hostile(text), healthy())
    jsonschema.validate(json.loads(render("json", report)), report_schema())
    count = len(hostile(text).measurements) + 1 + len(healthy().measurements)
    rows = rows_of(report)
    assert len(rows) == count + len(healthy().unmeasured)
    assert all(None not in row and None not in row.values() for row in rows)
    assert len(list(samples_of(report))) > 100
    for name in ("pytest-benchmark", "github-action-benchmark-smaller"):
        assert json.loads(render(name, report))
    for name in FORMATS.keys() - {"html"}:  # which is held to them in its own tests
        output = render(name, report)
        # JSON and XML keep what is text; a terminal is not their reader
        is_data = "json" in FORMATS[name].suffix or FORMATS[name].suffix == ".xml"
        harmful = "\x00\x1b\x07" if is_data else "\x00\x1b\x07\u202e\u2066"
        assert not set(output) & set(harmful), name
        lines = re.split(r"[\r\n]", output)  # as actions/runner reads a file that is printed
        commands = [line for line in lines if line.strip().startswith("::") or "##[" in line]
        if name == "github":  # its own, and nothing that the text would have made
            assert not [
                one for one in commands if one.startswith(("::error::", "::error file=a::"))
            ]
        else:
            assert commands == [], name


def test_the_page_on_reports_has_every_format_and_column() -> None:
    """As the code says them."""
    page = (Path(__file__).parents[3] / "docs" / "reports.md").read_text()
    for one in FORMATS.values():
        assert f"| `{one.name}` | `{one.suffix}` | {one.summary} |" in page
    for column, words in COLUMNS.items():
        assert f"| `{column}` | {words} |" in page
