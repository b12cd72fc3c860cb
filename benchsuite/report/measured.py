"""The key measurements of a run beside their baselines, as rows of short text.

Knows which metrics matter at a glance; no layout.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.gate.kinds import KINDS
from benchsuite.gate.kinds.noisy import median
from benchsuite.gate.seen import Seen
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import format_series, parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.store.baselines import Baselines, Sample, samples_by_variant, scope_of
from benchsuite.units import format_number

_MAX_REQUESTS = 12
_AGAINST = ("against", "request")


class Row(msgspec.Struct, frozen=True):
    """One line of the table: a label, and a cell for each variant."""

    label: str
    cells: tuple[str, ...]


def variants_of(record: RunRecord) -> list[str]:
    """The variants that measured something, in the order in which they ran."""
    measured = {m.variant for m in record.measurements}
    ran = dict.fromkeys(launch.variant for launch in record.launches)
    return [v for v in ran if v in measured]


def key_rows(record: RunRecord, baselines: Baselines | None) -> tuple[list[Row], int]:
    """The rows of the table, and how many requests were left out of it."""
    table = _Table(record, baselines)
    devices = table.values_of("kv_mib", ("device",))
    rows = [
        table.row("KV MiB", [("kv_mib", {})]),
        *(
            table.row(f"KV MiB on {device}", [("kv_mib", {"device": device})])
            for device in (devices if len(devices) > 1 else ())  # one holds the total
        ),
        table.row("recurrent MiB", [("rs_mib", {})]),
    ]
    requests = table.requests()
    for words, labels in requests[:_MAX_REQUESTS]:
        pair = [("cached_tokens", labels), ("evaluated_tokens", labels)]
        rows.append(table.row(f"{words} cached/evaluated", pair))
    for name, words in (("logprob_cosine", "logprob"), ("embedding_cosine", "embedding")):
        for against in table.values_of(name, _AGAINST):
            for request in table.values_of(name, _AGAINST, of="request"):
                labels = {"against": against, "request": request}
                rows.append(table.row(f"{request} {words} cosine to {against}", [(name, labels)]))
    for at in table.values_of("anon_mib", ("at",))[-1:]:
        for name, words in (("rss_mib", "RSS MiB"), ("anon_mib", "anon MiB")):
            rows.append(table.row(f"{words} at {at}", [(name, {"at": at})]))
    for at in table.values_of("gpu_mib", ("at", "device"))[-1:]:
        for device in table.values_of("gpu_mib", ("at", "device"), of="device"):
            part = ("gpu_mib", {"at": at, "device": device})
            rows.append(table.row(f"GPU MiB on {device} at {at}", [part]))
    for words, labels in requests[:_MAX_REQUESTS]:
        rows.append(table.row(f"{words} TTFT/e2e ms", [("ttft_ms", labels), ("e2e_ms", labels)]))
    rows.append(table.row("server start ms", [("server_start_ms", {})]))
    found = [row for row in rows if any(row.cells)]
    return found, max(0, len(requests) - _MAX_REQUESTS)


class _Table:
    """Cells of one record, each beside its baseline."""

    def __init__(self, record: RunRecord, baselines: Baselines | None) -> None:
        self._variants = variants_of(record)
        self._samples = samples_by_variant(record.measurements)
        self._baselines = baselines
        self._seen = Seen(record)
        self._record = record

    def requests(self) -> list[tuple[str, dict[str, str]]]:
        """Each request in words, with its labels, in the order in which they were measured."""
        found: dict[str, tuple[str, dict[str, str]]] = {}
        for m in self._record.measurements:
            if m.name in ("evaluated_tokens", "ttft_ms") and "quantile" not in m.labels:
                key = format_series("", m.labels)
                labels = m.labels
                if "session" in labels:
                    words = f"{labels['session']} turn {labels.get('turn', '?')}"
                elif "step" in labels:
                    words = f"load {labels['step']}"
                    if "stage" in labels:
                        words = f"sweep {labels['step']} at {labels['stage']}"
                else:
                    words = labels.get("request", "request")
                found.setdefault(key, (words, labels))
        return list(found.values())

    def values_of(self, name: str, labels: tuple[str, ...], of: str | None = None) -> list[str]:
        """The values that a label takes in a metric, as measured.

        Args:
            name: The metric.
            labels: All labels of the measurements meant, in alphabetical order.
            of: The label wanted; None is the first.
        """
        wanted = labels[0] if of is None else of
        values = (
            m.labels[wanted]
            for m in self._record.measurements
            if m.name == name and tuple(sorted(m.labels)) == labels
        )
        return list(dict.fromkeys(values))

    def row(self, label: str, parts: Sequence[tuple[str, dict[str, str]]]) -> Row:
        """A row whose cells join the parts with a slash, baselines in brackets."""
        return Row(label, tuple(self._cell(v, parts) for v in self._variants))

    def _cell(self, variant: str, parts: Sequence[tuple[str, dict[str, str]]]) -> str:
        series = [format_series(name, labels) for name, labels in parts]
        own = [self._samples.get(variant, {}).get(text) for text in series]
        if all(samples is None for samples in own):
            return "unknown" if self._is_unknown(variant, parts) else ""
        stored = [self._stored(variant, text) for text in series]
        shown = "/".join(_short(samples) for samples in own)
        if all(samples is None for samples in stored):
            return shown
        same = all(
            b is not None and o is not None and _same(text, b, o)
            for text, b, o in zip(series, stored, own, strict=True)
        )
        return f"{shown} =" if same else f"{shown} ({'/'.join(_short(b) for b in stored)})"

    def _is_unknown(self, variant: str, parts: Sequence[tuple[str, dict[str, str]]]) -> bool:
        """Whether something was to be measured here and was not."""
        selector = parse_selector(format_series(*parts[0]))
        why = self._seen.unmeasured(variant, selector)
        return why is not None and why.outcome != "not_applicable"

    def _stored(self, variant: str, series: str) -> tuple[Sample, ...] | None:
        if self._baselines is None:
            return None
        selector = parse_selector(series)
        scope = scope_of(selector.name, selector.label_names)
        file = self._baselines.of(scope).file if scope is not None else None
        if file is None or file.scenario_digest.get(variant) != self._record.digests.get(variant):
            return None
        return file.metrics.get(variant, {}).get(series)


def _same(series: str, reference: Sequence[Sample], candidate: Sequence[Sample]) -> bool:
    """Whether two cells may be called the same: never for noisy values that print differently."""
    metric = CATALOGUE[parse_selector(series).name]
    kind = KINDS[metric.assume]
    if kind.advises:
        return _short(reference) == _short(candidate)
    return kind.compare(reference, candidate, unit="", better="equal").state == "same"


def _short(samples: Sequence[Sample] | None) -> str:
    """Samples in few characters: the value on which they agree, else median and spread."""
    if not samples:
        return "?"
    middle = median(samples)
    decimals = 0 if abs(middle) >= 1000 else 1 if abs(middle) >= 100 else 2
    spread = "~" if len({s.value for s in samples}) > 1 else ""
    return f"{spread}{format_number(middle, decimals)}"
