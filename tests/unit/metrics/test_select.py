"""Selectors read as Prometheus users write them, and select exactly what they name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import format_series, parse_selector


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("kv_mib", {}, True),
        ("kv_mib", {"device": "CPU"}, False),
        ('kv_mib{device=~".*"}', {"device": "CPU"}, True),
        ('kv_mib{device=~".*"}', {}, False),
        ('kv_mib{device=~"CUDA"}', {"device": "CUDA0"}, False),
        ('kv_mib{device!="CPU"}', {"device": "CUDA0"}, True),
        ('kv_mib{device!~"CUDA.*"}', {"device": "CUDA0"}, False),
        ('kv_mib{ device = "CPU" , cache="swa" }', {"cache": "swa", "device": "CPU"}, True),
        ('kv_mib{device="CPU"}', {"cache": "swa", "device": "CPU"}, False),
    ],
)
def test_a_selector_names_exactly_the_labels_of_what_it_selects(
    text: str, labels: dict[str, str], selected: bool
) -> None:
    """The total alone, or the parts; a regular expression matches the whole value."""
    assert parse_selector(text).accepts("kv_mib", labels) is selected
    assert not parse_selector(text).accepts("rs_mib", labels)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "9x", "kv_mib{", "kv_mib}", 'kv_mib{device}', 'kv_mib{device=CPU}',
     'kv_mib{a="1" b="2"}', 'kv_mib{a=~"["}', "kv mib"],
)  # fmt: skip
def test_what_is_no_selector_is_refused_with_its_place(text: str) -> None:
    """The message quotes what was found."""
    with pytest.raises(ValueError, match="selector"):
        parse_selector(text)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=12)))
def test_a_series_as_text_selects_itself(labels: dict[str, str]) -> None:
    """Quotes and backslashes in values survive."""
    assert parse_selector(format_series("kv_mib", labels)).accepts("kv_mib", labels)


def test_every_metric_is_declared_with_sorted_labels() -> None:
    """Label names are in alphabetical order, and scopes by labels are among them."""
    for metric in CATALOGUE.values():
        assert metric.doc
        for names in metric.labels:
            assert list(names) == sorted(names)
        assert set(metric.scope_by_labels) <= set(metric.labels)
