"""What replies hold: counts, slots and text; sources name where a formula or field was read."""

from __future__ import annotations

from benchsuite.metrics.metric import AGAINST, COUNTED, REQUEST, STEP, declare

DECLARED = (
    declare(
        "cached_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        COUNTED,
        "Prompt tokens taken from the KV cache: `timings.cache_n`, else "
        "`usage.prompt_tokens_details.cached_tokens`. Of a `load` step the sum over its replies, "
        "of several copies of one prompt its own count, and by `copy` what each tells.",
    ),
    declare(
        "evaluated_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        (*REQUEST, ("step",)),
        "Prompt tokens computed now: `timings.prompt_n`. cached + evaluated = prompt. Of a `load` "
        "step the sum over its replies.",
    ),
    declare(
        "prompt_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        (*REQUEST, ("step",)),
        "The whole prompt: `usage.prompt_tokens`, for `/completion` `tokens_evaluated`.",
    ),
    declare(
        "output_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        COUNTED,
        "Tokens generated: `usage.completion_tokens`, for `/completion` `tokens_predicted`; of "
        "several copies the sum, of a `load` step the sum over its replies.",
    ),
    declare(
        "slot",
        "",
        "equal",
        "exact",
        "config",
        "http",
        (*REQUEST, ("copy", "request")),
        "The slot that served: from the reply where it names it, else from the log.",
    ),
    declare(
        "http_status",
        "",
        "equal",
        "exact",
        "config",
        "http",
        (*REQUEST, *STEP),
        "HTTP status of a request or slot step that may fail: 200, or that of its error, also of "
        "one that ended a stream (`error.code`).",
    ),
    declare(
        "slot_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        STEP,
        "Tokens that a slot step saved, restored or erased: `n_saved`, `n_restored`, `n_erased`.",
    ),
    declare(
        "source_markers",
        "",
        "equal",
        "exact",
        "config",
        "files",
        STEP,
        "Lines under the deployment's source folder that match the step's pattern.",
    ),
    declare(
        "text",
        "",
        "equal",
        "text",
        "numerics",
        "http",
        (*REQUEST, ("copy", "request")),
        "The text of the reply.",
    ),
    declare(
        "excess_cached_tokens",
        "tokens",
        "equal",
        "exact",
        "config",
        "http",
        (*REQUEST, ("step",)),
        "Cached tokens beyond the longest common prefix with anything that an earlier or "
        "overlapping request of the launch can have left, by token ids of `/tokenize`; above 0 "
        "another conversation's state was used, or the count is wrong. Of a `load` step the most "
        "of any of its requests.",
    ),
    declare(
        "leaks",
        "",
        "equal",
        "exact",
        "config",
        "http",
        (*REQUEST, ("step",)),
        "Secrets of other sessions (`secret`) that the reply contains; of a `load` step the sum "
        "over its replies. Measured where a session has a secret.",
    ),
    declare(
        "own_secrets",
        "",
        "equal",
        "exact",
        "config",
        "http",
        (("session", "turn"),),
        "1 where the reply says its own session's `secret`, else 0: a server that says nothing, or "
        "loses what it was told, leaks nothing either.",
    ),
    declare(
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
    declare(
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
    declare(
        "logprob_cosine",
        "",
        "higher",
        "exact",
        "numerics",
        "http",
        AGAINST,
        "How alike two servers weigh the next token: the cosine of their log-probabilities, each "
        "vector less its mean, at the position where it is smallest. Both are forced along the "
        "reference's greedy tokens, one `/completion` request a position. `against` is the "
        "reference variant, or `stored` for the vectors that `accept` stored of the same variant.",
    ),
    declare(
        "top_token_changes",
        "positions",
        "lower",
        "exact",
        "numerics",
        "http",
        AGAINST,
        "Positions of `logprob_cosine` at which the likeliest token is another than the "
        "reference's.",
    ),
    declare(
        "embedding_cosine",
        "",
        "higher",
        "exact",
        "numerics",
        "http",
        AGAINST,
        "The cosine of two servers' embeddings of one prompt (`/v1/embeddings`); `against` as in "
        "`logprob_cosine`.",
    ),
)
