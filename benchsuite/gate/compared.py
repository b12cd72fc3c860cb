"""What of two sides is compared without being asked for; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from benchsuite.gate.seen import Series
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.ab import AbRules
from benchsuite.model.scenario import GateSpec, Regression

OTHER_SIDE = "baseline"
"""Value of the label `against` where vectors were compared with those of the baseline side."""

LATENCY = (
    "ttft_ms",
    "prefill_tokens_per_second",
    "decode_tokens_per_second",
    "requests_per_second",
    "output_tokens_per_second",
)
"""Compared in every run that measures them; others of the catalogue say the same again."""
_OF_REQUESTS = (("session", "turn"), ("request",))
"""Label sets of latencies that the launch's median without labels is made of."""

MEMORY = {"anon_mib": 'anon_mib{at="end"}', "gpu_mib": 'gpu_mib{at="end",device=~".*"}'}
"""Metric -> what of it is compared in every run that measures it."""

COSINES = ("logprob_cosine", "embedding_cosine")
_VECTORS = (*COSINES, "top_token_changes")


def default_gates(measured: Iterable[Series], rules: AbRules) -> Iterator[GateSpec]:
    """One gate for each metric and label set that is compared by default, in catalogue order.

    Args:
        measured: Every series of either side.
        rules: Tolerances.
    """
    found: dict[str, set[tuple[str, ...]]] = {}
    for one in measured:
        found.setdefault(one.name, set()).add(tuple(sorted(one.labels)))
    for name in (name for name in CATALOGUE if name in found):
        if name in COSINES:
            selector = f'{name}{{against="{OTHER_SIDE}",request=~".*"}}'
            yield GateSpec(selector, min=rules.cosine)
        elif name in MEMORY:
            bound = Regression(rules.memory_percent, rules.memory_mib)
            yield GateSpec(MEMORY[name], regression=bound)
        elif name not in _VECTORS:
            yield from _every_series(name, found[name], rules)


def _every_series(
    name: str, label_sets: Collection[tuple[str, ...]], rules: AbRules
) -> Iterator[GateSpec]:
    for labels in sorted(label_sets):
        every = ",".join(f'{label}=~".*"' for label in labels)
        selector = f"{name}{{{every}}}" if every else name
        if CATALOGUE[name].assume in ("exact", "quantised", "text"):
            yield GateSpec(selector, equals_baseline=True)
        elif name in LATENCY and not (() in label_sets and labels in _OF_REQUESTS):
            yield GateSpec(selector, regression=Regression(rules.latency_percent))
