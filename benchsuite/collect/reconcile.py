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


class Totals:
    """Token counts of replies, added up as they come."""

    def __init__(self) -> None:
        # counter -> the sum, and the sum with each prompt counted once for each of its copies
        self._sums = dict.fromkeys(_COUNTERS, (0, 0))
        self._untold: set[str] = set()

    def take(self, reply: Reply) -> None:
        """Add one reply's counts."""
        for counter, (word, count_of) in _COUNTERS.items():
            number = count_of(reply)
            if number is None:
                self._untold.add(counter)
                continue
            once, each = self._sums[counter]
            copies = 1 if word == "output" else max(1, len(reply.copies))
            self._sums[counter] = (once + number, each + number * copies)

    def of(self, counter: str) -> tuple[int, int] | None:
        """The two sums that a counter may have moved by; None where a reply does not tell."""
        return None if counter in self._untold else self._sums[counter]


def totals_of(replies: Sequence[Reply]) -> Totals:
    """The counts of replies, added up."""
    totals = Totals()
    for reply in replies:
        totals.take(reply)
    return totals


def is_counted(counters: Mapping[str, float]) -> bool:
    """Whether `/metrics` has any counter that replies can be held against."""
    return any(name in counters for name in _COUNTERS)


def contradictions_with_counters(
    before: Mapping[str, float], after: Mapping[str, float], told: Totals
) -> list[str]:
    """What the change of `/metrics` says against the replies in between, one sentence each.

    Counters that a build does not have, and counts that its replies do not tell, are passed over.
    Of several completions of one prompt 10434 and 11549 count the prompt once, 10092 once for each
    completion, although it was evaluated once there too (one `new prompt` line in its log).
    Counters above 999999 are printed rounded (10434: 1101449 as `1.10145e+06`), so that much is
    allowed.
    """
    found: list[str] = []
    for counter, (word, _) in _COUNTERS.items():
        accepted = told.of(counter)
        if counter not in before or counter not in after or accepted is None:
            continue
        change = after[counter] - before[counter]
        rounded = printed_quantum(before[counter]) + printed_quantum(after[counter])
        if all(abs(change - count) > rounded / 2 for count in accepted):
            found.append(
                f"/metrics counted {change:g} {word} tokens ({counter}) where the replies "
                f"count {accepted[0]}"
            )
    return found
