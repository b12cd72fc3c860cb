"""Do the counts agree with each other? Replies with themselves, and with `/metrics`; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchsuite.client.prometheus import printed_quantum
from benchsuite.client.reply import Reply

_COUNTERS: dict[str, tuple[str, Callable[[Reply], int | None]]] = {
    "prompt_tokens_total": ("evaluated", lambda reply: reply.evaluated_tokens),
    "prompt_tokens_cached_total": ("cached", lambda reply: reply.cached_tokens),  # not in 10068
    "tokens_predicted_total": ("output", lambda reply: reply.output_tokens),
}
"""Counter of `/metrics` (builds 10434 and 11549) -> what of a reply it adds up."""


def contradiction_in(reply: Reply) -> str | None:
    """A sentence if cached + evaluated is not the whole prompt; None if it is, or is not told."""
    if None in (reply.cached_tokens, reply.evaluated_tokens, reply.prompt_tokens):
        return None
    cached, evaluated = reply.cached_tokens or 0, reply.evaluated_tokens or 0
    if cached + evaluated == reply.prompt_tokens:
        return None
    return (
        f"{cached} cached and {evaluated} evaluated prompt tokens make {cached + evaluated}, "
        f"but the reply counts {reply.prompt_tokens} prompt tokens"
    )


def contradictions_with_counters(
    before: Mapping[str, float], after: Mapping[str, float], replies: Sequence[Reply]
) -> list[str]:
    """What the change of `/metrics` says against the replies in between, one sentence each.

    Counters that a build does not have, and counts that its replies do not tell, are passed over.
    Counters above 999999 are printed rounded (10434: 1101449 as `1.10145e+06`), so that much is
    allowed.
    """
    found: list[str] = []
    for counter, (word, count_of) in _COUNTERS.items():
        counts = [count_of(reply) for reply in replies]
        if counter not in before or counter not in after or None in counts:
            continue
        change = after[counter] - before[counter]
        told = sum(count or 0 for count in counts)
        rounded = printed_quantum(before[counter]) + printed_quantum(after[counter])
        if abs(change - told) > rounded / 2:
            found.append(
                f"/metrics counted {change:g} {word} tokens ({counter}) where the replies "
                f"count {told}"
            )
    return found
