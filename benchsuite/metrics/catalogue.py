"""One declaration per metric: name, unit, direction, kind, scope, labels, and what it means.

Sources name where a formula or field was read. Published names never change meaning.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Assume = Literal["exact", "quantised", "memory", "latency", "text"]
Scope = Literal["config", "numerics", "machine"]
Better = Literal["lower", "higher", "equal"]
Source = Literal["http", "log", "process", "client", "files"]


class Metric(msgspec.Struct, frozen=True):
    """A declared metric."""

    name: str
    unit: str
    better: Better
    assume: Assume
    scope: Scope
    source: Source  # from where it is read; decides what an attached server can give
    doc: str
    # label sets under which it occurs, each a tuple of label names in alphabetical order
    labels: tuple[tuple[str, ...], ...]
    # label sets whose values belong to another scope than `scope`
    scope_by_labels: dict[tuple[str, ...], Scope] = {}
    # whether the model file and the flags tell what its total must be (`metrics/kv_formula.py`)
    analytic: bool = False

    def scope_of(self, label_names: tuple[str, ...]) -> Scope:
        """The scope of a measurement with these label names, in alphabetical order."""
        return self.scope_by_labels.get(label_names, self.scope)


_REQUEST = (("session", "turn"), ("request",))
_COUNTED = (*_REQUEST, ("copy", "request"), ("step",))
_AT = (("at",),)
_STEP = (("step",),)
_LAUNCH = ((), *_REQUEST)  # without labels: the launch's median over its turns and completes
_AGAINST = (("against", "request"),)


def _metric(
    name: str,
    unit: str,
    better: Better,
    assume: Assume,
    scope: Scope,
    source: Source,
    labels: tuple[tuple[str, ...], ...],
    doc: str,
    scope_by_labels: dict[tuple[str, ...], Scope] | None = None,
    *,
    analytic: bool = False,
) -> Metric:
    return Metric(
        name, unit, better, assume, scope, source, doc, labels, scope_by_labels or {}, analytic
    )


_DEVICE_SETS = (
    ("device",),
    ("cache", "device"),
    ("device", "stream"),
    ("cache", "device", "stream"),
)
_KV_SETS = ((), *_DEVICE_SETS, ("context",), ("context", "device"))

_DECLARED = (
    _metric(
        "kv_mib",
        "MiB",
        "equal",
        "quantised",
        "config",
        "log",
        _KV_SETS,
        "KV cache memory of the target context: the sum of the log's `KV buffer size` lines of "
        "the last load. Parts by device, by cache (`full`, `swa`) and by stream where the log "
        'tells; `context="draft"` is a draft model\'s, left out of the total.',
        {s: "numerics" for s in _KV_SETS if "device" in s},
        analytic=True,
    ),
    _metric(
        "rs_mib",
        "MiB",
        "equal",
        "quantised",
        "config",
        "log",
        ((), ("device",)),
        "Recurrent state memory: the sum of `RS buffer size` lines, apart from KV.",
        {("device",): "numerics"},
        analytic=True,
    ),
    _metric(
        "prompt_cache_mib",
        "MiB",
        "equal",
        "quantised",
        "config",
        "log",
        ((),),
        "What the host prompt cache (`--cache-ram`) holds, from the last `cache state` line.",
    ),
    _metric(
        "prompt_cache_over_limit_mib",
        "MiB",
        "lower",
        "quantised",
        "config",
        "log",
        ((),),
        "How far the host prompt cache is above its limit, from the same line; 0 within it or "
        "where there is none. One prompt alone may exceed the limit (#21690).",
    ),
    _metric(
        "kv_cells",
        "cells",
        "equal",
        "exact",
        "config",
        "log",
        ((), ("cache",)),
        "Cells of the KV cache over all streams: cells of each `size =` line times its streams.",
        analytic=True,
    ),
    _metric(
        "n_ctx_slot",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        ((),),
        "Context of one slot, from `/props` (`default_generation_settings.n_ctx`).",
    ),
    _metric(
        "cached_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        _COUNTED,
        "Prompt tokens taken from the KV cache: `timings.cache_n`, else "
        "`usage.prompt_tokens_details.cached_tokens`. Of a `load` step the sum over its replies, "
        "of several copies of one prompt its own count, and by `copy` what each tells.",
    ),
    _metric(
        "evaluated_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        (*_REQUEST, ("step",)),
        "Prompt tokens computed now: `timings.prompt_n`. cached + evaluated = prompt. Of a `load` "
        "step the sum over its replies.",
    ),
    _metric(
        "prompt_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        (*_REQUEST, ("step",)),
        "The whole prompt: `usage.prompt_tokens`, for `/completion` `tokens_evaluated`.",
    ),
    _metric(
        "output_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        _COUNTED,
        "Tokens generated: `usage.completion_tokens`, for `/completion` `tokens_predicted`; of "
        "several copies the sum, of a `load` step the sum over its replies.",
    ),
    _metric(
        "slot",
        "",
        "equal",
        "exact",
        "config",
        "http",
        (*_REQUEST, ("copy", "request")),
        "The slot that served: from the reply where it names it, else from the log.",
    ),
    _metric(
        "http_status",
        "",
        "equal",
        "exact",
        "config",
        "http",
        (*_REQUEST, *_STEP),
        "HTTP status of a request or slot step that may fail: 200, or that of its error, also of "
        "one that ended a stream (`error.code`).",
    ),
    _metric(
        "slot_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        _STEP,
        "Tokens that a slot step saved, restored or erased: `n_saved`, `n_restored`, `n_erased`.",
    ),
    _metric(
        "source_markers",
        "",
        "equal",
        "exact",
        "config",
        "files",
        _STEP,
        "Lines under the deployment's source folder that match the step's pattern.",
    ),
    _metric(
        "text",
        "",
        "equal",
        "text",
        "numerics",
        "http",
        (*_REQUEST, ("copy", "request")),
        "The text of the reply.",
    ),
    _metric(
        "excess_cached_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        (*_REQUEST, ("step",)),
        "Cached tokens beyond the longest common prefix with anything that an earlier or "
        "overlapping request of the launch can have left, by token ids of `/tokenize`; above 0 "
        "another conversation's state was used, or the count is wrong. Of a `load` step the most "
        "of any of its requests.",
    ),
    _metric(
        "leaks",
        "",
        "equal",
        "exact",
        "config",
        "http",
        (*_REQUEST, ("step",)),
        "Secrets of other sessions (`secret`) that the reply contains; of a `load` step the sum "
        "over its replies. Measured where a session has a secret.",
    ),
    _metric(
        "distinct_texts",
        "",
        "equal",
        "exact",
        "numerics",
        "http",
        (("request",),),
        "Different texts among several completions of one prompt (`n_cmpl`); 1 where all are "
        "equal, as greedy ones are.",
    ),
    _metric(
        "prompt_evaluations",
        "",
        "equal",
        "exact",
        "config",
        "log",
        (("request",),),
        "How many slots evaluated the prompt of several completions: the log's `new prompt` lines "
        "while the request was alone (builds 10092 to 11549 print one; the other slots copy the "
        "state).",
    ),
    _metric(
        "logprob_cosine",
        "",
        "higher",
        "exact",
        "numerics",
        "http",
        _AGAINST,
        "How alike two servers weigh the next token: the cosine of their log-probabilities, each "
        "vector less its mean, at the position where it is smallest. Both are forced along the "
        "reference's greedy tokens, one `/completion` request a position. `against` is the "
        "reference variant, or `stored` for the vectors that `accept` stored of the same variant.",
    ),
    _metric(
        "top_token_changes",
        "positions",
        "lower",
        "exact",
        "numerics",
        "http",
        _AGAINST,
        "Positions of `logprob_cosine` at which the likeliest token is another than the "
        "reference's.",
    ),
    _metric(
        "embedding_cosine",
        "",
        "higher",
        "exact",
        "numerics",
        "http",
        _AGAINST,
        "The cosine of two servers' embeddings of one prompt (`/v1/embeddings`); `against` as in "
        "`logprob_cosine`.",
    ),
    _metric(
        "rss_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        _AT,
        "Resident memory of the server's process tree: the sum of VmRSS (proc(5)).",
    ),
    _metric(
        "rss_peak_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        _AT,
        "The kernel's own high-water mark of resident memory: the sum of VmHWM (proc(5)).",
    ),
    _metric(
        "anon_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        _AT,
        "Anonymous memory of the server's process tree: the sum of RssAnon + VmSwap (proc(5)); "
        "mapped model pages are left out.",
    ),
    _metric(
        "pss_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        _AT,
        "Proportional memory of the server's process tree: the sum of Pss of "
        "`/proc/PID/smaps_rollup` (Linux 4.14); a page shared by n processes counts 1/n in each.",
    ),
    _metric(
        "cgroup_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        _AT,
        "Memory charged to the server's cgroup, page cache included: `memory.current`, in version "
        "1 `memory.usage_in_bytes`. Measured where that cgroup is not benchsuite's own, as in a "
        "container.",
    ),
    _metric(
        "cgroup_anon_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        _AT,
        "Anonymous memory charged to the server's cgroup: `anon` of `memory.stat`, in version 1 "
        "`total_rss`. Measured where `cgroup_mib` is.",
    ),
    _metric(
        "anon_mib_per_request",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        ((), ("step",)),
        "How much anonymous memory of the server's process tree grows with each request: the "
        "Theil-Sen slope of RssAnon + VmSwap over finished requests, with its 95% interval; of a "
        "`load` step, or of the whole launch since its last restart. Measured from 64 requests on, "
        "those of warm-up left out.",
    ),
    _metric(
        "gpu_mib",
        "MiB",
        "lower",
        "memory",
        "machine",
        "process",
        (("at", "device"),),
        "GPU memory of the server's process tree on an NVIDIA device that its log names, from "
        "NVML; the device's total where NVML does not tell processes apart (containers, WSL), "
        "which the source and a warning say.",
    ),
    _metric(
        "ttft_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "client",
        (*_LAUNCH, ("step",)),
        "Time to first token: from sending the request to its first non-empty token event; of a "
        "`load` step the median over its replies. Without labels, as every latency of a request, "
        "the median over the launch's turns and completes; a warm-up is in no median.",
    ),
    _metric(
        "e2e_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "client",
        (*_LAUNCH, ("step",)),
        "From sending the request to the end of its reply; of a `load` step the median over its "
        "replies.",
    ),
    _metric(
        "requests_failed",
        "",
        "lower",
        "exact",
        "config",
        "http",
        (("step",),),
        "Requests of a `load` step that the server answered with an error.",
    ),
    _metric(
        "requests_per_second",
        "1/s",
        "higher",
        "latency",
        "machine",
        "client",
        (("step",),),
        "Requests served in a `load` step / seconds from its first request to its last reply.",
    ),
    _metric(
        "output_tokens_per_second",
        "tokens/s",
        "higher",
        "latency",
        "machine",
        "client",
        (("step",),),
        "Tokens generated in a `load` step / seconds from its first request to its last reply.",
    ),
    _metric(
        "tpot_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "client",
        _LAUNCH,
        "Time per output token after the first: (last - first token) / (output tokens - 1).",
    ),
    _metric(
        "server_prefill_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "http",
        _LAUNCH,
        "The server's own time for the prompt: `timings.prompt_ms`.",
    ),
    _metric(
        "server_decode_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "http",
        _LAUNCH,
        "The server's own time for generation, its first token left out: `timings.predicted_ms`.",
    ),
    _metric(
        "prefill_tokens_per_second",
        "tokens/s",
        "higher",
        "latency",
        "machine",
        "http",
        _LAUNCH,
        "evaluated tokens / `timings.prompt_ms`.",
    ),
    _metric(
        "decode_tokens_per_second",
        "tokens/s",
        "higher",
        "latency",
        "machine",
        "http",
        _LAUNCH,
        "`timings.predicted_per_second`.",
    ),
    _metric(
        "server_start_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "client",
        ((),),
        "From starting the process to the first healthy answer.",
    ),
    _metric(
        "event_loop_lag_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "client",
        ((),),
        "How late our own client answers an event that comes at a random moment while requests are "
        "under way: the sum of L*L/2 / time, for each time L that its event loop was held up.",
    ),
    _metric(
        "client_cpu_share",
        "",
        "lower",
        "latency",
        "machine",
        "client",
        ((),),
        "CPU time of our own client while requests are under way / time of the cores on which a "
        "server that we launched may run.",
    ),
    _metric(
        "send_lateness_ms",
        "ms",
        "lower",
        "latency",
        "machine",
        "client",
        _STEP,
        "From the answer to a worker's request in a `load` step to its next request being on its "
        "way, the median over requests; a cap of the rate is left out.",
    ),
)

SLOPE = "anon_mib_per_request"
SLOPE_REQUESTS = 64
"""Fewest requests over which growth is told from the first filling of caches."""

LOAD_ONLY = frozenset(
    (
        SLOPE,
        "requests_failed",
        "requests_per_second",
        "output_tokens_per_second",
        "send_lateness_ms",
    )
)
"""Metrics of which the label `step` names `load` steps alone."""

LAUNCH_MEDIANS = tuple(
    m.name for m in _DECLARED if m.assume == "latency" and _LAUNCH[1] in m.labels
)
"""Latencies of requests, of which a launch has a median without labels."""

CLIENT_HEALTH = frozenset({"event_loop_lag_ms", "client_cpu_share", "send_lateness_ms"})
"""Metrics of our own client: they tell whether others can be believed, and are no baseline."""

CATALOGUE: dict[str, Metric] = {metric.name: metric for metric in _DECLARED}
"""Every metric by name."""
