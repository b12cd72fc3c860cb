"""Runs as GitLab's metrics report: OpenMetrics text that its merge-request widget can read.

GitLab splits each line as a shell would, takes the first word for the name and the second for the
value, cuts from `#` on, and compares values as text (its Gitlab::Ci::Parsers::Metrics::Generic). So
only values that are equal where nothing changed are listed, exact and quantised ones, and labels
are spelt in characters that a shell leaves alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.units import format_number

_STEADY = ("exact", "quantised")
_LABEL = re.compile(r"[^A-Za-z0-9_.:/=+-]")
_LONGEST_LABEL = 100


def render_gitlab_metrics(runs: Sequence[RunRecord]) -> str:
    """The exact and quantised values of the runs, one a line, in order of metric and labels.

    Where trials differ, each value has its own line with the label `trial`.
    """
    lines: dict[str, dict[str, str]] = {}
    for record in runs:
        for name, labels, value in _values(record):
            lines.setdefault(name, {}).setdefault(labels, value)
    text = []
    for name, values in sorted(lines.items()):
        text.append(f"# TYPE {name} gauge")
        text += [f"{name}{{{labels}}} {value}" for labels, value in sorted(values.items())]
    return "\n".join([*text, "# EOF"]) + "\n"


def _values(record: RunRecord) -> list[tuple[str, str, str]]:
    series: dict[tuple[str, str], list[Measurement]] = {}
    for one in record.measurements:
        metric = CATALOGUE.get(one.name)
        steady = metric is not None and metric.assume in _STEADY
        if steady and not isinstance(one.value, str):
            labels = {
                **one.labels,
                "deployment": record.fingerprint.deployment,
                "scenario": record.scenario,
                "variant": one.variant,
            }
            series.setdefault((one.name, _labels(labels)), []).append(one)
    found = []
    for (name, text), measured in series.items():
        shown = [_number(one.value) for one in measured]
        if len(set(shown)) == 1:
            found.append((name, text, shown[0]))
        else:
            pairs = zip(measured, shown, strict=True)
            found += [(name, f'{text},trial="{one.trial}"', value) for one, value in pairs]
    return found


def _labels(labels: dict[str, str]) -> str:
    cleaned = {k: _LABEL.sub("_", v[:_LONGEST_LABEL]) for k, v in labels.items()}
    return ",".join(f'{key}="{cleaned[key]}"' for key in sorted(cleaned))


def _number(value: float | str) -> str:
    assert not isinstance(value, str)
    return format_number(value, 6)
