"""Do the counts agree with each other? Replies with themselves, and with `/metrics`; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchsuite.client.prometheus import printed_quantum
from benchsuite.client.reply import Copy, Reply

_COUNTERS: dict[str, tuple[str, Callable[[Reply], int | None]]] = {
    "prompt_tokens_total": ("evaluated", lambda reply: reply.evaluated_tokens),
    "prompt_tokens_cached_total": ("cached", lambda reply: reply.cached_tokens),  # not in 10068
    "tokens_predicted_total": ("output", lambda reply: reply.generated_tokens),
}
"""Counter of `/metrics` (builds 10434 and 11549) -> what of a reply it adds up."""


def contradiction_in(reply: Reply) -> str | None:
    """A sentence if cached + evaluated is not the whole prompt; None if it is, or is not told."""
    parts: tuple[Reply | Copy, ...] = (reply, *reply.copies)
    for part in parts:
        if None in (part.cached_tokens, part.evaluated_tokens, reply.prompt_tokens):
            continue
        cached, evaluated = part.cached_tokens or 0, part.evaluated_tokens or 0
        if cached + evaluated != reply.prompt_tokens:
            return (
                f"{cached} cached and {evaluated} evaluated prompt tokens make "
                f"{cached + evaluated}, but the reply counts {reply.prompt_tokens} prompt tokens"
            )
    return None


def contradictions_with_counters(
    before: Mapping[str, float], after: Mapping[str, float], replies: Sequence[Reply]
) -> list[str]:
    """What the change of `/metrics` says against the replies in between, one sentence each.

    Counters that a build does not have, and counts that its replies do not tell, are passed over.
    Of several completions of one prompt 10434 and 11549 count the prompt once, 10092 once for each
    completion, although it was evaluated once there too (one `new prompt` line in its log).
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
        accepted = {told}
        if word != "output":
            pairs = zip(counts, replies, strict=True)
            accepted.add(sum((count or 0) * max(1, len(r.copies)) for count, r in pairs))
        rounded = printed_quantum(before[counter]) + printed_quantum(after[counter])
        if all(abs(change - count) > rounded / 2 for count in accepted):
            found.append(
                f"/metrics counted {change:g} {word} tokens ({counter}) where the replies "
                f"count {told}"
            )
    return found
