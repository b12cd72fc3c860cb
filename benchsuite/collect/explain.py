"""From what was asked to why prompts were evaluated again: token ids are asked of the server.

Only once all steps are done, and only for requests whose counts and texts leave something to
explain; `/apply-template` and `/tokenize` touch no slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply
from benchsuite.collect.evidence import Request, Server, Tokens
from benchsuite.collect.prefix import common_prefix
from benchsuite.collect.reevaluation import explain
from benchsuite.collect.slots import timings_of
from benchsuite.collect.timeline import Task, Timeline
from benchsuite.drive.driver import Sent, Served
from benchsuite.logform.facts import LogFacts, SlotTiming
from benchsuite.model.record import Reevaluation, ServerFacts

_MOST_EXPLAINED = 100
"""So many requests of a launch are looked at: each costs a few short exchanges."""
_LOOK_BACK = 200
"""So many earlier requests are compared by text."""
_CANDIDATES = 3
_LEAST_CHARACTERS = 16
"""Texts with less in common share a template's head, not a prompt."""


class Asked(msgspec.Struct, frozen=True):
    """A request that was served, and where."""

    served: Served
    slot: int | None

    @property
    def reply(self) -> Reply:
        """What came."""
        return self.served.reply


class Explained(msgspec.Struct, frozen=True):
    """What was found out, and how much was left out."""

    reevaluations: tuple[Reevaluation, ...] = ()
    warnings: tuple[str, ...] = ()


async def explain_requests(
    client: LlamaClient,
    asked: Iterable[Asked],
    log: LogFacts | None,
    facts: ServerFacts,
    *,
    foreign: bool,
) -> Explained:
    """Why prompts were evaluated again, request by request.

    Args:
        client: The server, idle.
        asked: What was asked of it, in the order in which it was finished.
        log: What its log says; None where it cannot be seen.
        facts: Its flags and model.
        foreign: Whether someone else was seen to use it.

    Raises:
        ServerError: It does not answer.
    """
    rows = sorted(asked, key=lambda one: one.reply.stamps.sent_ns)
    texts = [_Text(one) for one in rows]
    found = _suspects(rows, texts)
    if not found:
        return Explained()
    tokens = TokenBook(client, rows)
    tasks = [_task_of(one.reply, log) for one in rows]
    timeline = Timeline(() if log is None else log.events)
    server = server_of(facts, log, foreign=foreign)
    explained = []
    for place, candidates in list(found.items())[:_MOST_EXPLAINED]:
        wanted = {place, *candidates, *_neighbours(rows, place, candidates)}
        for other in sorted(wanted):
            await tokens.learn(other)
        requests = [tokens.request(i, tasks[i]) for i in range(place + 1)]
        told = explain(requests[-1], requests[:-1], timeline, server)
        if told is not None:
            explained.append(told)
    warnings: tuple[str, ...] = ()
    if len(found) > _MOST_EXPLAINED:
        words = f"why prompts were evaluated again was asked of {_MOST_EXPLAINED} requests only, "
        warnings = (f"{words}of {len(found)}",)
    return Explained(tuple(explained), warnings)


def server_of(facts: ServerFacts, log: LogFacts | None, *, foreign: bool) -> Server:
    """What matters of a server, from its flags and its log."""
    host_cache = None if log is None else log.prompt_cache
    if host_cache is None and facts.flags.get("cache-ram") == "0":
        host_cache = False
    limit = None if log is None else log.checkpoint_limit
    if limit is None and facts.flags.get("ctx-checkpoints") == "0":
        limit = 0
    return Server(
        cache_prompt=_switch(facts, "cache-prompt"),
        host_cache=host_cache,
        checkpoint_limit=limit,
        context_shift=_switch(facts, "context-shift"),
        attention=facts.model.attention,
        log=log is not None,
        verbosity=None if log is None else log.verbosity,
        foreign=foreign,
    )


def _switch(facts: ServerFacts, name: str) -> bool | None:
    """A switch as it was given; None where it was not."""
    if name not in facts.flags:
        return None
    return facts.flags[name] not in ("off", "false", "0", "no", "disabled")


class _Text:
    """A request's prompt as text, and what it left behind."""

    def __init__(self, asked: Asked) -> None:
        sent, reply = asked.served.sent, asked.reply
        if sent.messages is not None:
            self.prompt = "".join(f"{m['role']}\n{m['content']}\n" for m in sent.messages)
            self.left = f"{self.prompt}assistant\n{reply.content}\n"
        else:
            self.prompt = sent.prompt or ""
            self.left = self.prompt + reply.content
        self.kind = sent.messages is None


def _suspects(rows: Sequence[Asked], texts: Sequence[_Text]) -> dict[int, list[int]]:
    """Requests that may have something to explain, each with the earlier ones nearest in text."""
    found = {}
    for i, one in enumerate(rows):
        cached, total = one.reply.cached_tokens, one.reply.prompt_tokens
        if cached is None or total is None or "step" in one.served.labels:
            continue  # requests of a load are too many to explain
        shared = [
            (common_prefix(texts[i].prompt, texts[j].left), j)
            for j in range(max(0, i - _LOOK_BACK), i)
            if texts[j].kind == texts[i].kind
            and rows[j].reply.stamps.end_ns <= one.reply.stamps.sent_ns
        ]
        if not shared:
            continue
        most = max(count for count, _ in shared)
        best = [j for count, j in shared if count == most]
        whole = most == len(texts[i].prompt)
        if most < _LEAST_CHARACTERS and not whole:
            continue
        if not whole and cached >= min(total - 1, _most_left(rows[best[-1]].reply, total)):
            continue
        if whole and cached >= total:
            continue
        nearest = sorted(shared)[-_CANDIDATES:]
        found[i] = [best[-1], *(j for _, j in nearest)]
    return found


def _most_left(reply: Reply, otherwise: int) -> int:
    """Tokens that a request can have left at most; `otherwise` where its reply does not count."""
    if reply.prompt_tokens is None or reply.output_tokens is None:
        return otherwise
    return reply.prompt_tokens + max(reply.output_tokens - 1, 0)


def _neighbours(rows: Sequence[Asked], place: int, candidates: Sequence[int]) -> set[int]:
    """The last request before on the slot that served, and on the candidates' slots."""
    slots = {rows[i].slot for i in (place, *candidates)}
    found = set()
    for slot in slots:
        before = [i for i in range(place) if rows[i].slot == slot and slot is not None]
        found.update(before[-1:])
    return found


class Known(msgspec.Struct, frozen=True):
    """What is known of a request's tokens."""

    prompt: Tokens | None
    left: Tokens | None  # as `left_behind`
    why: str = ""  # the prompt's are not known


class TokenBook:
    """The tokens of requests, each asked for once.

    Args:
        client: The server, idle.
        rows: The requests; a place is an index into them.
    """

    def __init__(self, client: LlamaClient, rows: Sequence[Asked]) -> None:
        self._client = client
        self._rows = rows
        self._known: dict[int, Known] = {}

    async def tokens(self, place: int) -> Known:
        """The tokens of one request: of its prompt, and of what it left."""
        await self.learn(place)
        return self._known[place]

    async def learn(self, place: int) -> None:
        """Ask for the tokens of one request: of its prompt, and with its reply."""
        if place in self._known:
            return
        one = self._rows[place]
        text = await self._prompt(one.served.sent)
        prompt = await self._tokens(text)
        total = one.reply.prompt_tokens
        if total is not None and len(prompt.ids) != total:
            why = f"asked for again, its prompt has {len(prompt.ids)} tokens and not {total}"
            self._known[place] = Known(None, None, why)
            return
        both = await self._tokens(text + one.reply.content)
        self._known[place] = Known(prompt, left_behind(one.reply, prompt, both))

    async def _prompt(self, sent: Sent) -> str:
        if sent.messages is None:
            return sent.prompt or ""
        return await self._client.apply_template(sent.messages, sent.fields)

    async def _tokens(self, text: str) -> Tokens:
        pairs = await self._client.token_pieces(text)
        return Tokens(tuple(n for n, _ in pairs), tuple(piece for _, piece in pairs))

    def request(self, place: int, task: Task | None) -> Request:
        """A request with what is known of its tokens."""
        one = self._rows[place]
        known = self._known.get(place, Known(None, None))
        reply, served = one.reply, one.served
        return Request(
            labels=served.labels,
            words=served.words,
            cached=reply.cached_tokens,
            prompt_tokens=reply.prompt_tokens,
            prompt=known.prompt,
            left=known.left,
            slot=one.slot,
            wanted_slot=served.wanted_slot,
            task=task,
            cache_prompt=served.sent.cache_prompt,
            truncated=reply.truncated,
            sent_ns=reply.stamps.sent_ns,
            end_ns=reply.stamps.end_ns,
            untold=known.why,
        )


def left_behind(reply: Reply, prompt: Tokens, both: Tokens) -> Tokens | None:
    """Prompt and generated tokens but for the last one; None where they are not exactly known.

    Args:
        reply: For its counts, and how it ended: an end-of-text token has no text.
        prompt: Tokens of the prompt.
        both: Tokens of the prompt and the reply's text, as one text.
    """
    output, size = reply.output_tokens, len(prompt.ids)
    if output is None or reply.truncated or reply.text != reply.content:
        return None
    if output <= 1:
        return prompt
    generated = len(both.ids) - size
    ended = reply.finish not in ("length", "limit")
    if both.ids[:size] != prompt.ids or generated not in (output, output - 1 if ended else output):
        return None
    end = size + output - 1
    return Tokens(both.ids[:end], both.pieces[:end])


def _task_of(reply: Reply, log: LogFacts | None) -> Task | None:
    """The task of a request in the log, by its printed timings; None where none or several fit."""
    if log is None:
        return None
    found: list[SlotTiming] = timings_of(reply, log.timings)
    tasks = {(timing.instance, timing.task) for timing in found if timing.task is not None}
    if len(tasks) != 1:
        return None
    instance, task = tasks.pop()
    return (instance, task) if task is not None else None
