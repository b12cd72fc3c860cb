"""Cached tokens beyond what was there to be reused: a sign of another conversation's state.

A prompt can take from a cache no more than the longest common prefix with what an earlier request
had left, its prompt and reply. Requests that overlapped count as earlier: the bound is never too
low. Token ids are asked of the server once all steps are done, as for re-evaluations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.collect.evidence import Tokens
from benchsuite.collect.explain import Asked, TokenBook
from benchsuite.collect.prefix import common_prefix
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured

MOST_COMPARED = 1000
"""More requests in a launch are not compared with each other."""


class Excess(msgspec.Struct, frozen=True):
    """What was found for one request; one of the two is given."""

    labels: dict[str, str]
    tokens: int | None = None  # cached ones beyond the longest common prefix; 0: none
    why: str = ""  # it is not known


async def measure_excess(
    client: LlamaClient,
    asked: Collection[Asked],
    why: str,
    variant: str,
    trial: int,
    *,
    owned: bool,
) -> tuple[list[Measurement], list[Unmeasured]]:
    """`excess_cached_tokens` of each request, and the most of each load step.

    Args:
        client: The server, idle.
        asked: Every request of the launch.
        why: It cannot be measured; empty where it can.
        variant: Name of the variant.
        trial: From 1.
        owned: Whether we launched the server.

    Raises:
        ServerError: It does not answer.
    """
    name = "excess_cached_tokens"
    unit, source = CATALOGUE[name].unit, "reply timings.cache_n, /tokenize"
    outcome: Literal["missing", "not_applicable"] = "missing" if owned else "not_applicable"
    if why:
        found = [Excess(one.served.labels, why=why) for one in asked]
    else:
        found = await excess_of(client, list(asked))
    measured, unmeasured = [], []
    for one in by_step(found):
        if one.tokens is None:
            unmeasured.append(
                Unmeasured(name, variant, one.why, outcome, trial=trial, labels=one.labels)
            )
        else:
            measured.append(
                Measurement(name, one.tokens, unit, variant, trial, one.labels, source=source)
            )
    return measured, unmeasured


def by_step(found: Sequence[Excess]) -> list[Excess]:
    """Requests as they are, those of a load step as one: the most, unless one is not known."""
    kept: list[Excess] = []
    steps: dict[str, list[Excess]] = {}
    for one in found:
        if "step" in one.labels:
            steps.setdefault(one.labels["step"], []).append(one)
        else:
            kept.append(one)
    for step, several in steps.items():
        labels = {"step": step}
        why = next((one.why for one in several if one.tokens is None), "")
        worst = max(one.tokens or 0 for one in several)
        # one excess is enough to know of, whatever the others are
        kept.append(Excess(labels, why=why) if why and not worst else Excess(labels, worst))
    return kept


async def excess_of(client: LlamaClient, asked: Sequence[Asked]) -> list[Excess]:
    """For each request the cached tokens that nothing before it can have left.

    Args:
        client: The server, idle.
        asked: Every request of the launch that can have left something, in any order.

    Raises:
        ServerError: It does not answer.
    """
    rows = sorted(asked, key=lambda one: one.reply.stamps.sent_ns)
    book = TokenBook(client, rows)
    return [await _excess(rows, place, book) for place in range(len(rows))]


async def _excess(rows: Sequence[Asked], place: int, book: TokenBook) -> Excess:
    one = rows[place]
    labels, cached = one.served.labels, one.reply.cached_tokens
    if cached is None:
        return Excess(labels, why="the reply does not tell its cached tokens")
    if not cached:
        return Excess(labels, 0)
    own = await book.tokens(place)
    if own.prompt is None:
        return Excess(labels, why=own.why)
    most, unknown = 0, ""
    for other in _before(rows, place):
        held = await book.tokens(other)
        if held.prompt is None or rows[other].reply.truncated:
            unknown = held.why or f"{rows[other].served.words} was cut or its context shifted"
            continue
        most = max(most, _bound(own.prompt, held.prompt, held.left, rows[other]))
        if most >= cached:
            return Excess(labels, 0)
    if unknown:
        return Excess(labels, why=f"what an earlier request left is not known: {unknown}")
    return Excess(labels, cached - most)


def _before(rows: Sequence[Asked], place: int) -> list[int]:
    """The requests that can have left something when one was served, the latest first."""
    end_ns = rows[place].reply.stamps.end_ns
    return [
        i
        for i in reversed(range(len(rows)))
        if i != place and rows[i].reply.stamps.sent_ns < end_ns
    ]


def _bound(prompt: Tokens, held: Tokens, left: Tokens | None, other: Asked) -> int:
    """At most so many tokens of a prompt are what another request left.

    Where the tokens that it generated are not exactly known, all of them count as common once
    its whole prompt is.
    """
    if left is not None and not other.reply.copies:
        return common_prefix(prompt.ids, left.ids)
    common = common_prefix(prompt.ids, held.ids)
    if common < len(held.ids):
        return common
    return common + (other.reply.output_tokens or len(prompt.ids))
