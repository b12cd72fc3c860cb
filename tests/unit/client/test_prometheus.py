"""The text of /metrics is read into numbers by name, of every era, and nothing is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.client.prometheus import parse_metrics, printed_quantum

RECORDED = Path(__file__).parents[2] / "fixtures" / "http"
BUILDS = ("b10092", "b10434", "b11549_embedded")

# as server.cpp of February 2025 writes it: no cached total, KV gauges, a counter that is a mean
EARLY_2025 = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 1215
llamacpp:n_busy_slots_per_decode 1
# TYPE llamacpp:kv_cache_usage_ratio gauge
llamacpp:kv_cache_usage_ratio 0.296631
llamacpp:kv_cache_tokens 1215
llamacpp:requests_deferred 0
"""


def test_samples_are_read_by_name() -> None:
    """Comments, blank lines and values that are no numbers are left out."""
    text = (
        "# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.\n"
        "# TYPE llamacpp:prompt_tokens_total counter\n"
        "llamacpp:prompt_tokens_total 31\n"
        "\n"
        'llamacpp:requests_processing{slot="1"} 2e1\n'
        "llamacpp:odd many\n"
    )
    seen = parse_metrics(text)
    assert seen.counters() == {"prompt_tokens_total": 31.0, "requests_processing": 20.0}
    assert seen.not_numbers == ("odd",)


@pytest.mark.parametrize("build", BUILDS)
def test_recorded_builds(build: str) -> None:
    """What builds have in common, and what only some have, is there or absent, never 0."""
    seen = parse_metrics((RECORDED / build / "metrics.txt").read_text()).counters()
    assert seen["prompt_tokens_total"] > 0
    assert seen["requests_processing"] == 0
    assert seen["n_tokens_max"] == 511
    assert ("prompt_tokens_cached_total" in seen) == (build != "b10092")
    assert "kv_cache_usage_ratio" not in seen


def test_gauges_of_old_builds() -> None:
    """KV use was a gauge until 2025."""
    seen = parse_metrics(EARLY_2025).counters()
    assert seen["kv_cache_usage_ratio"] == 0.296631
    assert seen["kv_cache_tokens"] == 1215
    assert "prompt_tokens_cached_total" not in seen


@pytest.mark.parametrize("value", ["NaN", "nan", "-nan", "+Inf", "inf", "-Inf"])
def test_what_is_no_number_is_told_apart(value: str) -> None:
    """A rate of nothing is not 0."""
    seen = parse_metrics(f"llamacpp:predicted_tokens_seconds {value}\n")
    assert seen.series == ()
    assert seen.not_numbers == ("predicted_tokens_seconds",)


def test_labels_are_kept() -> None:
    """One series a draft position (11434); a name with several values has no single one."""
    name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
    text = f'{name}{{position="0"}} 9\n{name}{{position="1"}} 4\n'
    seen = parse_metrics(text)
    assert [(one.labels, one.value) for one in seen.series] == [
        ({"position": "0"}, 9.0),
        ({"position": "1"}, 4.0),
    ]
    assert seen.counters() == {}


def test_labels_may_hold_anything() -> None:
    """Braces, commas and escaped quotes within a value, a timestamp behind it."""
    seen = parse_metrics('x{a="}, b=\\"1\\"", model="q\\\\w"} 3 1700000000\n')
    assert seen.series[0].labels == {"a": '}, b="1"', "model": "q\\w"}
    assert seen.series[0].value == 3


@pytest.mark.parametrize("text", ["", "<html>", "{}", "a{b", "= 3", "\x00", 'x{y="z"}', "x"])
def test_other_text_has_no_samples(text: str) -> None:
    """Whatever is sent, nothing is raised."""
    assert parse_metrics(text).series == ()


@pytest.mark.parametrize(
    ("printed", "quantum"),
    [("999999", 0), ("1.10145e+06", 10), ("1.1e+06", 10), ("2.5e+07", 100), ("1101449", 0)],
)
def test_large_counters_are_rounded(printed: str, quantum: float) -> None:
    """Six digits are printed (10434: 1101449 as 1.10145e+06); more digits were printed in full."""
    assert parse_metrics(f"x {printed}\n").series[0].quantum == quantum
    assert printed_quantum(float(printed)) == quantum
