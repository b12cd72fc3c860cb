"""The table of a sweep: a row a stage, in eighty columns, with what is not known left out."""

from __future__ import annotations

import msgspec

from benchsuite.model.load import StageSummary, SweepSummary
from benchsuite.model.record import Measurement, RunRecord, Unmeasured
from benchsuite.report.html.sweep_chart import sweep_chart
from benchsuite.report.layout import Style
from benchsuite.report.sweep_table import sweep_lines, sweep_tables
from tests.unit.gate import gate_example as example

FIGURES = {
    "requests_per_second": ("", 987.6, 3456.7),
    "goodput_requests_per_second": ("", 987.6, 12.3),
    "output_tokens_per_second": ("", 98765.4, 345678.9),
    "ttft_ms": ("0.95", 12345.6, 234567.8),
    "itl_ms": ("0.95", 1234.5, 23456.7),
    "e2e_ms": ("0.95", 123456.7, 234567.8),
    "error_share": ("", 0.0, 1.0),
}


def swept(*names: str) -> RunRecord:
    """A run with a sweep of two stages, of which these metrics are known."""
    given = example.record(("B",), 1)
    stages = (
        StageSummary("512", 512.0, "uncertain", "too few", "3457 a second after 988"),
        StageSummary("64", 64.0, "met", "fine"),
    )
    summary = SweepSummary("s", "concurrency", stages, "the server is over-saturated at 512")
    (launch,) = given.launches
    made = [
        Measurement(name, value, "ms", "B", 1, labels(stage, FIGURES[name][0]))
        for name in names
        for stage, value in zip(("64", "512"), FIGURES[name][1:], strict=True)
        if isinstance(value, float)
    ]
    whole = Measurement("highest_load", 64.0, "", "B", 1, {"step": "s"})
    return msgspec.structs.replace(
        given,
        launches=(msgspec.structs.replace(launch, sweeps=(summary,)),),
        measurements=(*given.measurements, *made, whole),
        unmeasured=(Unmeasured("knee_load", "B", "2 levels are too few", labels={"step": "s"}),),
    )


def labels(stage: str, quantile: str) -> dict[str, str]:
    """Of a stage's measurement."""
    found = {"stage": stage, "step": "s"}
    return {**found, "quantile": quantile} if quantile else found


def test_large_figures_fit_eighty_columns() -> None:
    """All columns at once, the longest verdict, and no cell cut."""
    lines = sweep_lines(swept(*FIGURES), Style())
    assert max(len(line) for line in lines) <= 80
    assert not any("..." in line for line in lines)
    assert "uncertain*" in lines[3]
    assert any("*: the server is over-saturated: 3457 a second" in line for line in lines)


def test_rows_ascend_and_say_what_is_known() -> None:
    """A column that no stage has is left out; what is unknown of the whole says why."""
    (table,) = sweep_tables(swept("requests_per_second", "e2e_ms"))
    assert table.head == ("users", "req/s", "e2e ms", "objectives")
    assert [row[0] for row in table.rows] == ["64", "512"]
    assert "knee: ?: 2 levels are too few" in table.notes
    assert "highest load that meets the objectives: 64" in table.notes


def test_the_chart_marks_the_best_level_and_the_knee() -> None:
    """Where they are known; latency is that to the first token unless there is none."""
    (table,) = sweep_tables(swept(*FIGURES))
    chart = sweep_chart(table, "sweep-0")
    assert chart is not None
    assert chart.says == (
        "2 levels of users; highest that meets the objectives: 64; knee: not known"
    )
    assert "highest that meets the objectives" in chart.item
    assert '"knee"' not in chart.item
    assert "p95 TTFT" in chart.item
    (other,) = sweep_tables(swept("e2e_ms"))
    of_embeddings = sweep_chart(other, "sweep-0")
    assert of_embeddings is not None
    assert "p95 e2e" in of_embeddings.item
    assert "goodput" not in of_embeddings.item


def test_a_sweep_without_figures_has_no_chart() -> None:
    """It has its table."""
    (table,) = sweep_tables(swept())
    assert sweep_chart(table, "sweep-0") is None
    assert table.head == ("users", "objectives")
