"""Every metric by its name, and sets of them; published names never change meaning."""

from __future__ import annotations

from benchsuite.metrics import declared_kv, declared_memory, declared_replies, declared_times
from benchsuite.metrics.metric import LAUNCH, Metric

_DECLARED = (
    *declared_kv.DECLARED,
    *declared_replies.DECLARED,
    *declared_memory.DECLARED,
    *declared_times.DECLARED,
)

SLOPE = "anon_mib_per_request"
LATE_SLOPE = "late_anon_mib_per_request"
LATE_HOURLY = "late_anon_mib_per_hour"
SLOPES = frozenset({SLOPE, LATE_SLOPE, LATE_HOURLY})
"""Growth of memory, which may be below 0."""

DECODE_CHANGE = "decode_change_percent"
DECODE_HOURLY = "decode_change_percent_per_hour"
CHANGES = SLOPES | {DECODE_CHANGE, DECODE_HOURLY}
"""Trends, which may be below 0 where what they are of may not."""

SLOPE_REQUESTS = 64
"""Fewest requests over which growth is told from the first filling of caches."""

LOAD_ONLY = frozenset(
    (
        *CHANGES,
        "slots_busy_max",
        "slots_busy_mean",
        "slot_tokens_max",
        "requests_deferred_max",
        "requests_failed",
        "requests_skipped",
        "requests_timed_out",
        "error_share",
        "requests_per_second",
        "output_tokens_per_second",
        "send_lateness_ms",
        "client_late_share",
        "event_loop_late_share",
        "ttft_ms",
        "e2e_ms",
        "tpot_ms",
        "itl_ms",
        "wait_ms",
        "ttft_from_due_ms",
        "e2e_from_due_ms",
    )
)
"""Metrics of which the label `step` names `load` steps alone."""

SWEEP_ONLY = frozenset({"goodput_requests_per_second", "highest_load", "knee_load"})
"""Metrics of which the label `step` names `sweep` steps alone."""

FROM_DUE = ("wait_ms", "ttft_from_due_ms", "e2e_from_due_ms")
"""Latencies that only an open loop has, since only there requests have a schedule."""

LOAD_SPANS = ("ttft_ms", "e2e_ms", "tpot_ms", "itl_ms", *FROM_DUE)
"""Latencies of a `load` step."""

OF_REPLIES = ("tpot_ms", "itl_ms")
"""Those of them that a request without a reply has no part in."""

OF_TOKENS = frozenset(
    (
        DECODE_CHANGE,
        DECODE_HOURLY,
        "ttft_ms",
        "ttft_from_due_ms",
        "tpot_ms",
        "itl_ms",
        "cached_tokens",
        "evaluated_tokens",
        "output_tokens",
        "output_tokens_per_second",
    )
)
"""Metrics of a load step that replies of embeddings do not have."""

LAUNCH_MEDIANS = tuple(m.name for m in _DECLARED if m.assume == "latency" and LAUNCH[1] in m.labels)
"""Latencies of requests, of which a launch has a median without labels."""

CLIENT_HEALTH = frozenset(
    {
        "event_loop_lag_ms",
        "event_loop_late_share",
        "client_cpu_share",
        "send_lateness_ms",
        "client_late_share",
    }
)
"""Metrics of our own client: they tell whether others can be believed, and are no baseline."""

CATALOGUE: dict[str, Metric] = {metric.name: metric for metric in _DECLARED}
"""Every metric by name."""
