"""Why a prompt was evaluated again where an earlier request had left its tokens; pure.

What a slot holds after a request is its prompt and what was generated, but for the last token
(build 11434: the last sampled token is never decoded). The longest common prefix of a prompt with
that is what could be reused, but for the last token of the prompt, which is always evaluated.

Nothing is guessed: where two things explain a shortfall the larger is named, and where neither log
nor replies tell, the cause is `not known`, with what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.collect.evidence import Request, Server, Tokens
from benchsuite.collect.prefix import common_prefix
from benchsuite.collect.timeline import Task, Timeline
from benchsuite.logform.facts import SlotEvent
from benchsuite.model.record import Cause, Reevaluation

_LEAST_TOKENS = 8
"""Shorter common prefixes are not looked at: special tokens and a template's first words."""
_AROUND = 4
"""Tokens shown on either side of a first difference."""
_MOST_EVIDENCE = 12
_LITTLE_KEPT = 0.5
"""A slot of which less is kept goes through the host prompt cache (build 11434)."""
_PINNED, _BY_AGE, _BY_SIMILARITY = "pinned by the request", "least recently used", "similarity"


class _Match(msgspec.Struct, frozen=True):
    """An earlier request, and how many tokens of the prompt at hand it left."""

    request: Request
    common: int  # -1: its tokens are not known, since its text has less in common than others


def explain(
    request: Request, earlier: Sequence[Request], timeline: Timeline, server: Server
) -> Reevaluation | None:
    """Why fewer tokens were cached than an earlier request had left, or where the prompt differs.

    Args:
        request: Whose prompt it is.
        earlier: Requests before it, in the order in which they were sent.
        timeline: Of the server's log; empty where it was not seen.
        server: Its flags and facts.

    Returns:
        None where nothing is to be explained: everything that was left was reused.
    """
    cached, total = request.cached, request.prompt_tokens
    if cached is None or total is None:
        return None
    if request.prompt is None:
        seen = (request.untold,) if request.untold else ()
        return _found(request, None, "not known", "the tokens of its prompt are not known", seen)
    matches = [
        _Match(
            other,
            -1 if (held := _held(other)) is None else common_prefix(request.prompt.ids, held.ids),
        )
        for other in earlier
        if other.end_ns <= request.sent_ns
    ]
    # of equals the latest: it is where the tokens lie now
    best = max(enumerate(matches), key=lambda pair: (pair[1].common, pair[0]), default=None)
    if best is None or best[1].common < min(_LEAST_TOKENS, total - 1):
        return None
    if cached >= min(best[1].common, total - 1):
        return _no_shortfall(request, best[1], total)
    return _Shortfall(request, earlier, matches, best[1], timeline, server).explain()


def _held(request: Request) -> Tokens | None:
    """What is surely left: prompt and reply, or the prompt alone."""
    return request.left or request.prompt


def _no_shortfall(request: Request, best: _Match, total: int) -> Reevaluation | None:
    cached, prompt, held = request.cached, request.prompt, _held(best.request)
    if cached is None or prompt is None or held is None:
        return None
    if cached == total - 1 and best.common >= total:
        sentence = (
            f"all {total} tokens had been left by {best.request.words}, and the last token of a "
            "prompt is always evaluated"
        )
        return _found(request, best.common, "at least one token", sentence)
    if best.common >= len(held.ids):
        return None  # it goes on from there
    sentence = f"first difference at token {best.common} from what {best.request.words} left"
    around = (
        f"there: {_around(held, best.common)}",
        f"here: {_around(prompt, best.common)}",
    )
    return _found(request, best.common, "first difference", sentence, around)


class _Shortfall:
    """The search for the cause of one shortfall."""

    def __init__(
        self,
        request: Request,
        earlier: Sequence[Request],
        matches: Sequence[_Match],
        best: _Match,
        timeline: Timeline,
        server: Server,
    ) -> None:
        self.request = request
        self.earlier = earlier
        self.matches = matches
        self.best = best
        self.timeline = timeline
        self.server = server
        self.evidence: list[str] = []
        self.selected = timeline.selected(request.task)

    def explain(self) -> Reevaluation:
        """The cause, by what is sure first."""
        found = self._switched_off() or self._reloaded() or self._shifted()
        if found is not None:
            return found
        if self.request.slot is None or self.best.request.slot is None:
            return self._not_known("nothing tells which slot served")
        if any(request.slot is None for request in self._since()):
            return self._not_known("of a request since then nothing tells which slot served it")
        if self.server.foreign:
            return self._not_known("others use this server, and may have changed what it holds")
        in_slot = self._in_slot()
        return self._by_slot(in_slot) if self._lost_elsewhere(in_slot) else self._by_state(in_slot)

    def _switched_off(self) -> Reevaluation | None:
        asked = self.request.cache_prompt
        if asked is False:
            return self._is("cache_prompt off", "the request says `cache_prompt: false`")
        if asked is None and self.server.cache_prompt is False:
            return self._is("cache_prompt off", "the server was started with --no-cache-prompt")
        return None

    def _reloaded(self) -> Reevaluation | None:
        other = self.best.request
        lines = self.timeline.between(other.task, self.request.task, "model_loaded")
        if not lines:
            return None
        self._quote(lines)
        return self._is(
            "model loaded again",
            f"the server loaded its model again after {other.words}, as it does when it wakes from "
            "sleep, and began with empty slots and an empty prompt cache",
        )

    def _shifted(self) -> Reevaluation | None:
        other = self.best.request
        lines = self.timeline.of(other.task, "context_shift")
        if lines:
            self._quote(lines)
            sentence = f"the context was shifted in {other.words}"
            gone, kept = lines[0].numbers.get("n_discard"), lines[0].numbers.get("n_keep")
            if gone is not None and kept is not None:
                sentence += f", which dropped {gone:.0f} tokens after the first {kept:.0f}"
            return self._is("context shift", sentence)
        if other.truncated and self.server.context_shift:
            sentence = f"the context was shifted in {other.words}: its reply is marked truncated"
            return self._is("context shift", sentence)
        return None

    def _since(self) -> list[Request]:
        """The requests sent after the one that left the most, and before this one."""
        return [r for r in self.earlier if r.sent_ns >= self.best.request.end_ns]

    def _in_slot(self) -> _Match | None:
        """What the slot that served held before; None where it served none of ours."""
        of_slot = [m for m in self.matches if self._place(m.request) == self._place(self.request)]
        return of_slot[-1] if of_slot else None

    def _place(self, request: Request) -> tuple[str, int | None]:
        return (request.task[0] if request.task else "", request.slot)

    def _lost_elsewhere(self, in_slot: _Match | None) -> bool:
        """Whether most of the shortfall is what the slot did not hold."""
        wanted = min(self.best.common, (self.request.prompt_tokens or 1) - 1)
        had = 0 if in_slot is None or self._lost(in_slot) else max(in_slot.common, 0)
        cached = self.request.cached or 0
        return wanted - max(had, cached) > max(had - cached, 0)

    def _lost(self, match: _Match) -> list[SlotEvent]:
        """Lines by which the slot of an earlier request lost what it held, before this one."""
        lines = self.timeline.between(match.request.task, self.request.task, "cleared", "purged")
        chosen = self.timeline.choosing(self.request.task)
        return [e for e in lines if e.slot == match.request.slot and e not in chosen]

    # what the slot did not hold

    def _by_slot(self, in_slot: _Match | None) -> Reevaluation:
        other = self.best.request
        held = f"slot {other.slot} held {self.best.common} of its tokens, from {other.words}"
        self._quote(self.timeline.choosing(self.request.task))
        if in_slot is not None and in_slot.common >= 0:
            self._note(
                f"slot {self.request.slot} held {in_slot.common} of its tokens, from "
                f"{in_slot.request.words}"
            )
        taker = self._taker()
        if taker is not None:
            words, task = taker
            told = f"{held}, until {words} took it"
            return self._gone_from_slot("slot overwritten", told, self._would_save(task))
        lost = self._lost(self.best)
        if lost:
            self._quote(lost)
            why = "to make room" if lost[0].kind == "purged" else "by the server"
            told = f"{held}, until it was cleared {why}"
            return self._gone_from_slot("slot cleared", told, self._would_save(self.request.task))
        return self._other_slot(in_slot, held)

    def _other_slot(self, in_slot: _Match | None, held: str) -> Reevaluation:
        slot, other = self.request.slot, self.best.request
        if self._place(self.request) == self._place(other):
            return self._not_known(f"{held}, and the same slot served")
        if self.request.wanted_slot is not None or self._kind() == "selected_by_id":
            if in_slot is None:
                sentence = f"the request is pinned to slot {slot}, which was empty; {held}"
                return self._is("pinned to an empty slot", sentence)
            sentence = f"another slot was chosen ({_PINNED}): slot {slot}; {held}"
            return self._is("another slot was chosen", sentence)
        how = {
            "selected_by_age": _BY_AGE,
            "selected_by_similarity": _BY_SIMILARITY,
        }.get(self._kind() or "", "how is not told")
        sentence = f"another slot was chosen ({how}): slot {slot}; {held}"
        return self._is("another slot was chosen", sentence)

    def _would_save(self, taker: Task | None) -> bool:
        """Whether a host prompt cache would have got what the slot held before a task took it.

        Build 11434 saves a slot that changes hands by age, or of which less than half is kept,
        and at every new task the slots that are idle.
        """
        return self._asks_cache(taker) or bool(
            self.timeline.between(self.best.request.task, taker, "launched")
        )

    def _asks_cache(self, task: Task | None) -> bool:
        """Whether the way in which a task's slot was chosen goes through the host prompt cache."""
        line = self.timeline.selected(task)
        if line is None:
            return False
        return line.kind == "selected_by_age" or (
            line.kind == "selected_by_similarity" and line.numbers.get("keep", 1.0) < _LITTLE_KEPT
        )

    def _gone_from_slot(self, cause: Cause, told: str, would_save: bool) -> Reevaluation:
        """It was nowhere but in the host prompt cache, if there."""
        other, task = self.best.request, self.request.task
        asks = self._asks_cache(task)
        if self.server.host_cache is False:
            if would_save and asks:
                sentence = f"{told}; the host prompt cache is off (--cache-ram 0)"
                return self._is("host cache off", sentence)
            self._note("the host prompt cache is off (--cache-ram 0)")
            return self._is(cause, told)
        fate = None if other.slot is None else self.timeline.fate(other.task, other.slot, task)
        lost = self.timeline.between(other.task, task, "cache_evicted", "cache_refused")
        if fate in ("dropped", "refused") and asks:
            self._quote(lost)
            why = "was full and dropped it" if fate == "dropped" else "is too small for it"
            return self._is("host cache full", f"{told}; the host prompt cache {why}")
        loaded = [e for e in self.timeline.choosing(task) if e.kind == "cache_loaded"]
        if self.server.host_cache is None:
            self._note("whether the host prompt cache is on is not told")
        elif fate == "kept" and not loaded:
            self._note("the host prompt cache had it, and it was not loaded")
        elif not loaded:
            self._note("nothing was loaded from the host prompt cache")
        if lost and fate is None:
            self._note("the host prompt cache dropped or refused prompts, which is not told")
        return self._is(cause, told)

    def _taker(self) -> tuple[str, Task | None] | None:
        """Who took the slot since, in words with how it was chosen, and its task."""
        other, timeline, task = self.best.request, self.timeline, self.request.task
        for later in self.earlier:
            if self._place(later) != self._place(other) or later.sent_ns < other.end_ns:
                continue
            if later.end_ns <= self.request.sent_ns or timeline.is_before(later.task, task):
                return f"{later.words}{self._how(later)}", later.task
        ours = {request.task for request in self.earlier}
        for launch in timeline.between(other.task, task, "launched"):
            if launch.slot == other.slot and (launch.instance, launch.task) not in ours:
                self._quote([launch])
                number = launch.task or 0
                return f"task {number}, which is not of this run,", (launch.instance, number)
        return None

    def _how(self, request: Request) -> str:
        """How the slot of an earlier request was chosen, in brackets; empty where not told."""
        line = self.timeline.selected(request.task)
        if line is None:
            return f" ({_PINNED})" if request.wanted_slot is not None else ""
        self._quote([line])
        similarity = line.numbers.get("similarity")
        words = {
            "selected_by_age": _BY_AGE,
            "selected_by_id": _PINNED,
            "selected_by_similarity": _BY_SIMILARITY
            + ("" if similarity is None else f" {similarity:g}"),
        }
        return f" ({words[line.kind]})"

    def _kind(self) -> str | None:
        return None if self.selected is None else self.selected.kind

    # what the slot held and did not reuse

    def _by_state(self, in_slot: _Match | None) -> Reevaluation:
        task = self.request.task
        held = ""
        if in_slot is not None:
            held = (
                f"slot {self.request.slot} held {in_slot.common} of its tokens, from "
                f"{in_slot.request.words}"
            )
        forced = self.timeline.of(task, "full_reprocessing")
        restored = self.timeline.of(task, "checkpoint_restored")
        if forced or restored:
            self._quote([*forced, *restored])
            self._quote(self.timeline.of(task, "checkpoint_invalidated")[:3])
            kind = (self.server.attention or "sliding-window or recurrent").replace("_", " ")
            if self.server.checkpoint_limit == 0:
                self._note("context checkpoints are off (--ctx-checkpoints 0)")
        if forced:
            sentence = f"{held}, but this {kind} model had no checkpoint to go on from there"
            return self._is("checkpoint missing", sentence)
        if restored and restored[-1].numbers.get("n_past", self.request.cached) == (
            self.request.cached
        ):
            sentence = (
                f"{held}, but this {kind} model goes on only from a checkpoint, and the nearest "
                f"is at token {self.request.cached}"
            )
            return self._is("checkpoint short", sentence)
        return self._not_known(held or "what the slot held is not known")

    # the end of each search

    def _not_known(self, told: str) -> Reevaluation:
        server, choosing = self.server, self.timeline.choosing(self.request.task)
        if not self.evidence:
            self._quote(choosing)
        if not server.log:
            self._note("the server's log was not seen")
        elif server.verbosity is not None and server.verbosity < 4:
            self._note(f"the log has verbosity {server.verbosity}; causes are told from 4 on")
        elif not self.timeline.knows(self.request.task):
            self._note("no lines of the log could be told to be this request's")
        elif self.request.cached == 0 and server.attention in (None, "full"):
            self._note(
                "no line of the log tells of a checkpoint; a server with its prompt cache turned "
                "off in a way that we do not see behaves like this"
            )
        if server.attention not in (None, "full"):
            self._note(f"the model's attention is {server.attention}".replace("_", " "))
        self._note(f"the longest common prefix is with {self.best.request.words}")
        return self._is("not known", f"why is not known: {told}")

    def _is(self, cause: Cause, sentence: str) -> Reevaluation:
        return _found(self.request, self.best.common, cause, sentence, tuple(self.evidence))

    def _note(self, words: str) -> None:
        if words not in self.evidence:
            self.evidence.append(words)

    def _quote(self, lines: Sequence[SlotEvent]) -> None:
        for line in lines:
            self._note(f"log: {line.text}")


def _found(
    request: Request,
    common: int | None,
    cause: Cause,
    sentence: str,
    evidence: tuple[str, ...] = (),
) -> Reevaluation:
    left_out = len(evidence) - _MOST_EVIDENCE
    if left_out > 0:
        evidence = (*evidence[:_MOST_EVIDENCE], f"and {left_out} more lines")
    return Reevaluation(request.labels, request.cached or 0, common, cause, sentence, evidence)


def _around(tokens: Tokens, place: int) -> str:
    """A few tokens either side of a place, the one at the place in brackets."""
    before = "".join(tokens.pieces[max(0, place - _AROUND) : place])
    if place >= len(tokens.pieces):
        return f"{before!r} and there it ends"
    after = "".join(tokens.pieces[place + 1 : place + 1 + _AROUND])
    return f"{before!r} [{tokens.pieces[place]!r}] {after!r}"
