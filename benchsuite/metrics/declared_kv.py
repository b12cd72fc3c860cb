"""KV caches, weights and prompts in memory; sources name where a formula or field was read."""

from __future__ import annotations

from benchsuite.metrics.metric import KV_SETS, declare

DECLARED = (
    declare(
        "kv_mib",
        "MiB",
        "equal",
        "quantised",
        "config",
        "log",
        KV_SETS,
        "KV cache memory of the target context: the sum of the log's `KV buffer size` lines of "
        "the last load. Parts by device, by cache (`full`, `swa`) and by stream where the log "
        'tells; `context="draft"` is a draft model\'s, left out of the total.',
        {s: "numerics" for s in KV_SETS if "device" in s},
        analytic=True,
    ),
    declare(
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
    declare(
        "weights_mib",
        "MiB",
        "equal",
        "quantised",
        "numerics",
        "log",
        (("device",),),
        "Model weights on a device: the sum of the log's `model buffer size` lines. `CPU_Mapped` "
        "are pages of the file itself.",
    ),
    declare(
        "prompt_cache_mib",
        "MiB",
        "equal",
        "quantised",
        "config",
        "log",
        ((),),
        "What the host prompt cache (`--cache-ram`) holds, from the last `cache state` line.",
    ),
    declare(
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
    declare(
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
    declare(
        "n_ctx_slot",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        ((),),
        "Context of one slot, from `/props` (`default_generation_settings.n_ctx`).",
    ),
)
