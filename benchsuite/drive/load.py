"""Runs a load step against a server: what is asked, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from benchsuite.client.api import LlamaClient
from benchsuite.client.limits import Turn, from_sending
from benchsuite.client.reply import Reply
from benchsuite.drive.pacing import Ask, Due, Pace, keep_pace
from benchsuite.drive.prompts import PromptBook
from benchsuite.drive.replay import Content, Fit, content_of, fit_to_server
from benchsuite.drive.served import (
    Hooks,
    Load,
    Refused,
    Sent,
    Served,
    describe_labels,
    fields_of,
    sent_of,
)
from benchsuite.drive.tally import Tally, late_limit_ns
from benchsuite.errors import ConnectionLostError, RequestRefusedError, ServerError
from benchsuite.model.load import Objective
from benchsuite.model.scenario import LoadStep

_NS = 1_000_000_000


async def run_load(
    step: LoadStep,
    client: LlamaClient,
    prompts: PromptBook,
    hooks: Hooks,
    *,
    stage: str = "",
    objectives: Sequence[Objective] = (),
    fit: Fit | None = None,
) -> Load:
    """Do a load step, and tell what it came to.

    To run it at another level, hand in the step with another `concurrency` or `arrivals`
    (`msgspec.structs.replace`). Nothing is kept of single requests but what the hooks keep.

    Args:
        step: What is asked. Its texts are made on first use where they were not made before.
        client: The server.
        prompts: Where texts come from.
        hooks: `sending`, `served` and `refused` are called for every request.
        stage: Of a sweep, as its label says it.
        objectives: What a request must meet to count as good.
        fit: What of its file fits the server; looked up before the load begins if None.

    Raises:
        UsageError: No row of its file fits the server.
        ServerError: The server or a hook has failed; what was under way is given up. An error
            reply, a timeout of the step's own, and a connection that was lost while the server
            still says that it is ready are counted instead.
    """
    found = await fit_to_server(step, client, prompts) if fit is None else fit
    return await _LoadRun(found, client, prompts, hooks, stage, objectives).run()


class _LoadRun:
    """The state of one load step."""

    def __init__(
        self,
        fit: Fit,
        client: LlamaClient,
        prompts: PromptBook,
        hooks: Hooks,
        stage: str,
        objectives: Sequence[Objective],
    ) -> None:
        self._stage = stage
        self._fit = fit
        self._step = step = fit.step
        self._client = client
        self._prompts = prompts
        self._hooks = hooks
        self._tally = Tally(late_limit_ns(step.arrivals), objectives)
        self._fields = fields_of(step.request, None)
        self._looking = asyncio.Lock()
        self._looked_ns = 0

    async def run(self) -> Load:
        pace = await keep_pace(self._step, self._user, cut=self._cut)
        return self._came_to(pace)

    def _cut(self, pace: Pace) -> None:
        self._hooks.cut(self._came_to(pace))

    def _came_to(self, pace: Pace) -> Load:
        arrivals = self._step.arrivals
        mean_rate = 0.0 if arrivals is None else arrivals.mean_rate  # also of a trace: not known
        return Load(
            self._step.name,
            self._tally,
            pace.wall_ns,
            is_open=arrivals is not None,
            distinct_prompts=min(self._step.texts, self._tally.sent),
            most_in_flight=pace.most_in_flight,
            sample=self._step.sample,
            skipped=self._fit.skipped,
            why_skipped=self._fit.why,
            stage=self._stage,
            embeds=self._step.api == "embedding",
            asked_per_second=mean_rate * self._step.turns if mean_rate else None,
            scheduled_ns=round((self._step.scheduled_seconds(warm_up=False) or 0.0) * _NS),
        )

    def _user(self, user: int) -> Ask:
        history: list[dict[str, str]] = []

        async def ask(due: Due) -> int:
            return await self._ask(due, history)

        return ask

    async def _ask(self, due: Due, history: list[dict[str, str]]) -> int:
        step, tally = self._step, self._tally
        labels = {"step": step.name, "request": str(due.number + 1)}
        if self._stage:
            labels["stage"] = self._stage
        row = step.row_of(due.number)
        if row is None:
            content: Content = await self._prompts.text(
                step.prompt_of(due.number), self._client.tokenise
            )
        else:
            content = await content_of(row, step, self._prompts, self._client)
        prefix = None
        if step.prefix is not None and step.is_prefixed(due.user):
            prefix = await self._prompts.text(step.prefix, self._client.tokenise)
        limit = step.output_of(due.number)
        self._hooks.sending(labels, None)
        began_ns = time.monotonic_ns()
        tally.sending(began_ns - due.free_ns, warm_up=due.warm_up)
        turn = Turn()
        try:
            async with from_sending(step.timeout, paced=self._client.is_paced) as turn:
                reply, sent = await self._exchange(content, prefix, limit, history)
        except RequestRefusedError as error:
            return self._failed(Refused(labels, error.status, error.message), due, began_ns, turn)
        except ConnectionLostError as error:
            lost_ns = time.monotonic_ns()
            if not await self._is_there():
                raise
            self._tally.lost += 1
            refused = Refused(labels, 0, error.message)
            return self._failed(refused, due, began_ns, turn, lost_ns)
        except TimeoutError:
            words = f"no whole reply within {step.timeout:g} s"
            return self._failed(Refused(labels, 0, words, timed_out=True), due, began_ns, turn)
        tally.take(reply, due.due_ns, warm_up=due.warm_up)
        self._hooks.served(
            Served(
                labels,
                reply,
                None,
                alone=not step.is_concurrent,
                sent=sent,
                warm_up=due.warm_up,
                due_ns=due.due_ns,
            )
        )
        return reply.stamps.end_ns

    async def _is_there(self) -> bool:
        """Whether the server is ready after a connection was lost; many ask once."""
        lost_ns = time.monotonic_ns()
        async with self._looking:
            if self._looked_ns > lost_ns:
                return True  # else the load would have ended
            began_ns = time.monotonic_ns()
            try:
                if not await self._client.healthy():
                    return False
            except ServerError:
                return False
            self._looked_ns = began_ns
            return True

    def _failed(
        self,
        refused: Refused,
        due: Due,
        began_ns: int,
        turn: Turn,
        ended_ns: int | None = None,
    ) -> int:
        """Count a request without a reply; from now on its user may send again."""
        now_ns = time.monotonic_ns()
        span_ns = (began_ns, now_ns if ended_ns is None else ended_ns)
        wait_ns = (turn.let_go_ns or began_ns) - due.due_ns
        words = f"{describe_labels(refused.labels)}: {refused.message}"
        self._tally.fail(
            words,
            warm_up=due.warm_up,
            timed_out=refused.timed_out,
            span_ns=span_ns,
            wait_ns=wait_ns,
        )
        self._hooks.refused(refused)
        return now_ns

    async def _exchange(
        self, content: Content, prefix: str | None, limit: int, history: list[dict[str, str]]
    ) -> tuple[Reply, Sent]:
        """Send one request in the step's form; of a chat the history grows by it."""
        step = self._step
        if not isinstance(content, str):
            reply = await self._client.chat(content, {**self._fields, "max_tokens": limit})
            return reply, sent_of(step.request, messages=content)
        if step.api == "chat":
            system = [] if prefix is None else [{"role": "system", "content": prefix}]
            said = {"role": "user", "content": content}
            messages = [*system, *history, said]
            fields: dict[str, Any] = {**self._fields, "max_tokens": limit}
            reply = await self._client.chat(messages, fields)
            history += [said, {"role": "assistant", "content": reply.content}]
            return reply, sent_of(step.request, messages=messages)
        whole = content if prefix is None else f"{prefix} {content}"
        if step.api == "embedding":
            embedded = await self._client.embed(whole, path="/v1/embeddings")
            return embedded.reply, sent_of(step.request, prompt=whole)
        if step.api == "completions":
            fields = {**self._fields, "max_tokens": limit}
            reply = await self._client.complete_text(whole, fields)
            return reply, sent_of(step.request, prompt=whole)
        reply = await self._client.complete(whole, {**self._fields, "n_predict": limit})
        return reply, sent_of(step.request, prompt=whole)
