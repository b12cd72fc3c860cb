"""Drives one variant's steps against a server, one request at a time or side by side.

It knows no processes, logs or files: what happens at quiet points, at snapshots and on progress
is handed in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply
from benchsuite.drive.conversation import Conversation
from benchsuite.drive.load import closed_loop
from benchsuite.drive.prompts import PromptBook
from benchsuite.drive.vectors import References, Taken, take_vectors
from benchsuite.errors import RequestRefusedError
from benchsuite.model.scenario import (
    AUTOMATIC_SNAPSHOTS,
    CompleteStep,
    ConcurrentlyStep,
    DamageStep,
    EmbeddingStep,
    IdleStep,
    LoadStep,
    LogprobsStep,
    PromptSpec,
    RequestSpec,
    RestartStep,
    SessionSpec,
    SlotAction,
    SlotStep,
    SnapshotStep,
    SourceMarkersStep,
    Step,
    TurnStep,
)


class Sent(msgspec.Struct, frozen=True):
    """What a request asked, as far as the server's caches go; either messages or a prompt."""

    messages: tuple[dict[str, str], ...] | None = None  # of a chat
    prompt: str | None = None  # raw
    fields: dict[str, Any] = {}  # extra ones of the body, which a chat template may read
    cache_prompt: bool | None = None


class Served(msgspec.Struct, frozen=True):
    """One request and its reply."""

    labels: dict[str, str]
    reply: Reply
    wanted_slot: int | None  # pinned to; None left the choice to the server
    alone: bool  # whether no other request of ours was under way
    sent: Sent = Sent()
    may_fail: bool = False  # whether its status is measured
    measured: bool = True  # False: asked for its vectors, no request of the scenario's own
    warm_up: bool = False  # whether its latency is left out

    @property
    def words(self) -> str:
        """The request in words, for messages."""
        return describe_labels(self.labels)


class Refused(msgspec.Struct, frozen=True):
    """A request or slot step that was allowed to fail, and was answered with an error."""

    labels: dict[str, str]
    status: int  # of HTTP, or as the error says that ended a stream; 0 where it says none
    message: str

    @property
    def words(self) -> str:
        """What was asked, in words, for messages."""
        return describe_labels(self.labels)


class SlotDone(msgspec.Struct, frozen=True):
    """A slot step that was done."""

    labels: dict[str, str]
    action: SlotAction
    tokens: int  # saved, restored or erased
    may_fail: bool

    @property
    def words(self) -> str:
        """What was asked, in words, for messages."""
        return describe_labels(self.labels)


Settled = Served | Refused | SlotDone
"""What a step came to that asked something of the server."""


def describe_labels(labels: dict[str, str]) -> str:
    """A request in words: `turn 2 of session A`, `request warm`."""
    if "step" in labels and "request" in labels:
        return f"request {labels['request']} of load {labels['step']}"
    if "session" in labels:
        return f"turn {labels['turn']} of session {labels['session']}"
    if "step" in labels:
        return f"step {labels['step']}"
    return f"request {labels['request']}"


OtherStep = DamageStep | RestartStep | SourceMarkersStep


class Load(msgspec.Struct, frozen=True):
    """What a load step brought."""

    name: str
    served: tuple[Served, ...]  # in the order in which they were finished
    refused: tuple[Refused, ...]
    wall_ns: int  # from before the first request to after the last reply
    # nanoseconds from each served request being due to its being on its way, a cap of the rate
    # and warm-up left out; in the order in which they were finished
    lateness_ns: tuple[int, ...] = ()


def _nothing(labels: dict[str, str], slot: int | None) -> None:
    """Nobody wants to know what is about to be sent."""


class Hooks(msgspec.Struct, frozen=True):
    """What the driver calls besides the server."""

    progress: Callable[[str], None]  # before each step, in words
    served: Callable[[Served], None]  # at once when a request is finished
    quiet: Callable[[Sequence[Settled]], Awaitable[None]]  # after each step, with its requests
    snapshot: Callable[[str], Awaitable[None]]
    loaded: Callable[[Load], Awaitable[None]]  # after each load step
    other: Callable[[OtherStep], Awaitable[None]]  # steps that are more than requests
    vectors: Callable[[Taken], None]  # at once when vectors were taken
    # before a request is sent, with its labels and the slot that it is pinned to
    sending: Callable[[dict[str, str], int | None], None] = _nothing


class Driver:
    """The state of one variant's drive.

    Args:
        client: The server.
        prompts: Where texts come from.
        hooks: See `Hooks`.
        references: What vector steps go along and are compared with.
        chat_by_template: Send pinned chat turns through `/apply-template` and `/completion`,
            whose reply names the slot; for servers whose log cannot be read.
    """

    def __init__(
        self,
        client: LlamaClient,
        prompts: PromptBook,
        hooks: Hooks,
        *,
        chat_by_template: bool,
        references: References = References(),  # noqa: B008  # frozen
    ) -> None:
        self._client = client
        self._references = references
        self._prompts = prompts
        self._hooks = hooks
        self._chat_by_template = chat_by_template
        self._conversations: dict[str, Conversation] = {}

    async def prepare(self, sessions: dict[str, SessionSpec], steps: Sequence[Step]) -> None:
        """Make every text before the first request, so that making them disturbs nothing."""
        for spec in sessions.values():
            system = None
            if spec.system is not None:
                system = await self._prompts.text(spec.system, self._client.tokenise)
            self._conversations[spec.name] = Conversation(spec, system)
        for spec_of in _prompts_of(steps):
            await self._prompts.text(spec_of, self._client.tokenise)

    async def run(self, steps: Sequence[Step]) -> None:
        """Take every step in order, with the automatic snapshots around them.

        Raises:
            ServerError: Whatever a request or a hook found.
        """
        first, last = AUTOMATIC_SNAPSHOTS
        await self._snapshot(first)
        for step in steps:
            await self._step(step)
        await self._snapshot(last)

    async def _step(self, step: Step) -> None:
        match step:
            case TurnStep() | CompleteStep():
                await self._hooks.quiet([await self._request(step, alone=True)])
            case ConcurrentlyStep():
                await self._hooks.quiet(await self._concurrently(step))
            case LoadStep():
                self._hooks.progress(f"load {step.name}")
                await self._hooks.loaded(await self._load(step))
            case LogprobsStep() | EmbeddingStep():
                await self._vectors(step)
            case IdleStep():
                self._hooks.progress(f"idle for {step.seconds:g} s")
                await asyncio.sleep(step.seconds)
            case SnapshotStep():
                await self._snapshot(step.name)
            case SlotStep():
                await self._hooks.quiet([await self._slot(step)])
            case _:
                self._hooks.progress(str(type(step).__struct_config__.tag).replace("_", " "))
                await self._hooks.other(step)

    async def _vectors(self, step: LogprobsStep | EmbeddingStep) -> None:
        labels = {"request": step.id}
        self._hooks.progress(describe_labels(labels))
        prompt = await self._prompts.text(step.prompt, self._client.tokenise)
        replies, taken = await take_vectors(step, prompt, self._client, self._references)
        batch = [Served(labels, reply, None, alone=False, measured=False) for reply in replies]
        for served in batch:
            self._hooks.served(served)
        if taken is not None:
            self._hooks.vectors(taken)
        if batch:
            await self._hooks.quiet(batch)

    async def _snapshot(self, name: str) -> None:
        self._hooks.progress(f"snapshot {name}")
        await self._hooks.snapshot(name)

    async def _concurrently(self, step: ConcurrentlyStep) -> list[Served | Refused]:
        alone = len(step.branches) == 1

        async def branch(steps: Sequence[TurnStep | CompleteStep]) -> list[Served | Refused]:
            return [await self._request(inner, alone=alone) for inner in steps]

        tasks = [asyncio.ensure_future(branch(steps)) for steps in step.branches]
        try:
            branches = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return [served for results in branches for served in results]

    async def _load(self, step: LoadStep) -> Load:
        served: list[Served] = []
        refused: list[Refused] = []
        lateness_ns: list[int] = []
        fields = {**_fields(step.request, None), "n_predict": step.max_tokens}

        async def ask(number: int, due_ns: int) -> int:
            labels = {"step": step.name, "request": str(number + 1)}
            prompt = await self._prompts.text(step.prompt_of(number), self._client.tokenise)
            if step.prefix is not None:
                prefix = await self._prompts.text(step.prefix, self._client.tokenise)
                prompt = f"{prefix} {prompt}"
            self._hooks.sending(labels, None)
            try:
                reply = await self._client.complete(prompt, fields)
            except RequestRefusedError as error:
                refused.append(Refused(labels, error.status, error.message))
                return time.monotonic_ns()
            sent = _sent(step.request, prompt=prompt)
            alone, warm_up = step.concurrency == 1, number < step.warm_up
            served.append(Served(labels, reply, None, alone, sent, warm_up=warm_up))
            if not warm_up:
                lateness_ns.append(reply.stamps.scheduled_ns - due_ns)
            self._hooks.served(served[-1])
            return reply.stamps.end_ns

        wall_ns = await closed_loop(step.requests, step.concurrency, ask)
        return Load(step.name, tuple(served), tuple(refused), wall_ns, tuple(lateness_ns))

    async def _request(self, step: TurnStep | CompleteStep, *, alone: bool) -> Served | Refused:
        labels = self._labels(step)
        self._hooks.progress(describe_labels(labels))
        try:
            if isinstance(step, TurnStep):
                served = await self._turn(step, labels, alone)
            else:
                served = await self._complete(step, labels, alone)
        except RequestRefusedError as error:
            if not step.may_fail:
                raise
            if isinstance(step, TurnStep):
                self._conversations[step.session].skipped()
            return Refused(labels, error.status, error.message)
        self._hooks.served(served)
        return served

    async def _slot(self, step: SlotStep) -> SlotDone | Refused:
        labels = {"step": step.name}
        self._hooks.progress(describe_labels(labels))
        try:
            tokens = await self._client.slot_action(step.id, step.action, step.file)
        except RequestRefusedError as error:
            if not step.may_fail:
                raise
            return Refused(labels, error.status, error.message)
        return SlotDone(labels, step.action, tokens, step.may_fail)

    def _labels(self, step: TurnStep | CompleteStep) -> dict[str, str]:
        if isinstance(step, CompleteStep):
            return {"request": step.id}
        turn = self._conversations[step.session].turns + 1
        return {"session": step.session, "turn": str(turn)}

    async def _turn(self, step: TurnStep, labels: dict[str, str], alone: bool) -> Served:
        conversation = self._conversations[step.session]
        spec = conversation.spec
        user = await self._prompts.text(step.user, self._client.tokenise)
        self._hooks.sending(labels, spec.slot)
        messages = conversation.ask(user)
        fields = _fields(spec.request, spec.slot)
        if spec.slot is not None and self._chat_by_template:
            prompt = await self._client.apply_template(messages)
            reply = await self._client.complete(prompt, {**fields, "n_predict": step.max_tokens})
            sent = _sent(spec.request, prompt=prompt)
        else:
            sent = _sent(spec.request, messages=messages)
            reply = await self._client.chat(messages, {**fields, "max_tokens": step.max_tokens})
        conversation.answered(user, reply.content)
        return Served(labels, reply, spec.slot, alone, sent, step.may_fail, warm_up=step.warm_up)

    async def _complete(self, step: CompleteStep, labels: dict[str, str], alone: bool) -> Served:
        prompt = await self._prompts.text(step.prompt, self._client.tokenise)
        fields = {**_fields(step.request, step.slot), "n_predict": step.max_tokens}
        self._hooks.sending(labels, step.slot)
        reply = await self._client.complete(prompt, fields)
        sent = _sent(step.request, prompt=prompt)
        return Served(labels, reply, step.slot, alone, sent, step.may_fail, warm_up=step.warm_up)


def _fields(request: RequestSpec, slot: int | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"temperature": request.temperature, **request.extra}
    if request.cache_prompt is not None:
        fields["cache_prompt"] = request.cache_prompt
    if slot is not None:
        fields["id_slot"] = slot
    return fields


def _sent(
    request: RequestSpec,
    *,
    messages: Sequence[dict[str, str]] | None = None,
    prompt: str | None = None,
) -> Sent:
    kept = None if messages is None else tuple(messages)
    return Sent(kept, prompt, dict(request.extra), request.cache_prompt)


_WithPrompt = CompleteStep | LogprobsStep | EmbeddingStep


def _prompts_of(steps: Sequence[Step]) -> list[PromptSpec]:
    found: list[PromptSpec] = []
    for step in steps:
        if isinstance(step, TurnStep):
            found.append(step.user)
        elif isinstance(step, _WithPrompt):
            found.append(step.prompt)
        elif isinstance(step, ConcurrentlyStep):
            for branch in step.branches:
                found += _prompts_of(branch)
        elif isinstance(step, LoadStep):
            found += [step.prompt_of(number) for number in range(step.requests)]
            found += [] if step.prefix is None else [step.prefix]
    return found
