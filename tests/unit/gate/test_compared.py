"""What of two sides is compared without being asked for."""

from __future__ import annotations

from benchsuite.gate.compared import default_gates
from benchsuite.gate.seen import Series
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import format_series, parse_selector
from benchsuite.model.ab import AbRules
from benchsuite.model.scenario import Regression
from benchsuite.store.baselines import Sample

TURN = {"session": "A", "turn": "1"}


def _gates(*series: tuple[str, dict[str, str]]) -> list[str]:
    measured = [
        Series(format_series(name, labels), name, labels, (Sample(1),)) for name, labels in series
    ]
    return [gate.metric for gate in default_gates(measured, AbRules())]


def test_the_launchs_median_stands_for_its_requests() -> None:
    """Loads are compared beside it; where there is no median, the requests are taken."""
    turn, load = ("ttft_ms", TURN), ("ttft_ms", {"step": "crowd"})
    assert _gates(turn, ("ttft_ms", {}), load) == ["ttft_ms", 'ttft_ms{step=~".*"}']
    assert _gates(turn, load) == ['ttft_ms{session=~".*",turn=~".*"}', 'ttft_ms{step=~".*"}']


def test_each_metric_that_says_something_new_is_compared() -> None:
    """Of every declared metric with every label set: all steady ones, and few noisy ones."""
    every = [
        (metric.name, dict.fromkeys(labels, "x"))
        for metric in CATALOGUE.values()
        for labels in metric.labels
    ]
    names = {selector.partition("{")[0] for selector in _gates(*every)}
    steady = {m.name for m in CATALOGUE.values() if m.assume in ("exact", "quantised", "text")}
    assert steady - names == {"top_token_changes"}
    noisy = {m.name for m in CATALOGUE.values() if m.assume in ("memory", "latency")}
    assert names & noisy == {
        "anon_mib",
        "gpu_mib",
        "ttft_ms",
        "prefill_tokens_per_second",
        "decode_tokens_per_second",
        "requests_per_second",
        "output_tokens_per_second",
    }


def test_selectors_select_what_they_were_made_of() -> None:
    """Each can be read, and memory is that of the end."""
    labels = {"device": "CUDA0", "cache": "swa"}
    (made,) = _gates(("kv_mib", labels))
    assert parse_selector(made).accepts("kv_mib", labels)
    assert _gates(("anon_mib", {"at": "ready"})) == ['anon_mib{at="end"}']


def test_tolerances_are_those_of_the_rules() -> None:
    """Latency in percent, memory in percent and MiB."""
    measured = [
        Series("ttft_ms", "ttft_ms", {}, ()),
        Series('anon_mib{at="end"}', "anon_mib", {"at": "end"}, ()),
    ]
    rules = AbRules(latency_percent=7, memory_percent=3, memory_mib=2)
    found = {g.metric: g.regression for g in default_gates(measured, rules)}
    assert found == {"ttft_ms": Regression(7), 'anon_mib{at="end"}': Regression(3, 2)}
