"""Drives one variant's steps against a server, one request at a time or side by side.

It knows no processes, logs or files: what happens at quiet points, at snapshots and on progress
is handed in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.client.limits import in_time
from benchsuite.drive.conversation import Conversation
from benchsuite.drive.load import run_load
from benchsuite.drive.prompts import PromptBook, texts_of
from benchsuite.drive.replay import Fit, fit_to_server
from benchsuite.drive.served import (
    Hooks,
    Load,
    OtherStep,
    Refused,
    Sent,
    Served,
    Settled,
    SlotDone,
    describe_labels,
    fields_of,
    sent_of,
)
from benchsuite.drive.sweep import run_sweep
from benchsuite.drive.vectors import References, take_vectors
from benchsuite.errors import RequestRefusedError
from benchsuite.model.scenario import (
    AUTOMATIC_SNAPSHOTS,
    CompleteStep,
    ConcurrentlyStep,
    EmbeddingStep,
    IdleStep,
    LoadStep,
    LogprobsStep,
    PromptSpec,
    SessionSpec,
    SlotStep,
    SnapshotStep,
    Step,
    SweepStep,
    TurnStep,
)

__all__ = [
    "Driver",
    "Hooks",
    "Load",
    "OtherStep",
    "Refused",
    "Sent",
    "Served",
    "Settled",
    "SlotDone",
    "describe_labels",
]


class Driver:
    """The state of one variant's drive.

    Args:
        client: The server.
        prompts: Where texts come from.
        hooks: See `Hooks`.
        references: What vector steps go along and are compared with.
        chat_by_template: Send pinned chat turns through `/apply-template` and `/completion`,
            whose reply names the slot; for servers whose log cannot be read.
        step_seconds: How long a step may take that is more than idling; None: any time.
    """

    def __init__(
        self,
        client: LlamaClient,
        prompts: PromptBook,
        hooks: Hooks,
        *,
        chat_by_template: bool,
        references: References = References(),  # noqa: B008  # frozen
        step_seconds: float | None = None,
    ) -> None:
        self._client = client
        self._references = references
        self._step_seconds = step_seconds
        self._prompts = prompts
        self._hooks = msgspec.structs.replace(hooks, progress=self._progress)
        self._tell = hooks.progress
        self._doing = ""
        self._chat_by_template = chat_by_template
        self._conversations: dict[str, Conversation] = {}
        self._fits: dict[str, Fit] = {}  # of load steps that have a file

    async def prepare(self, sessions: dict[str, SessionSpec], steps: Sequence[Step]) -> None:
        """Make every text before the first request, so that making them disturbs nothing."""
        for spec in sessions.values():
            system = None
            if spec.system is not None:
                system = await self._prompts.text(spec.system, self._client.tokenise)
            self._conversations[spec.name] = Conversation(spec, system)
        for spec_of in _prompts_of(steps):
            await self._prompts.text(spec_of, self._client.tokenise)
        for step in steps:
            if isinstance(step, LoadStep) and step.source is not None:
                fit = await fit_to_server(step, self._client, self._prompts)
                self._fits[step.name] = fit
            elif isinstance(step, SweepStep):  # that something fits; its stages look it up again
                await fit_to_server(step.load, self._client, self._prompts)

    async def run(self, steps: Sequence[Step]) -> None:
        """Take every step in order, with the automatic snapshots around them.

        Raises:
            ServerError: Whatever a request or a hook found.
        """
        first, last = AUTOMATIC_SNAPSHOTS
        await self._snapshot(first)
        for step in steps:
            limit = None if isinstance(step, IdleStep) else self._step_seconds
            async with in_time("step", limit, lambda struck: f"{struck} during {self._doing}"):
                await self._step(step)
        await self._snapshot(last)

    def _progress(self, words: str) -> None:
        self._doing = words
        self._tell(words)

    async def _step(self, step: Step) -> None:
        match step:
            case TurnStep() | CompleteStep():
                await self._hooks.quiet([await self._request(step, alone=True)])
            case ConcurrentlyStep():
                await self._hooks.quiet(await self._concurrently(step))
            case SweepStep():
                await run_sweep(step, self._client, self._prompts, self._hooks)
            case LoadStep():
                self._hooks.progress(f"load {step.name}")
                await self._hooks.loaded(
                    await run_load(
                        step,
                        self._client,
                        self._prompts,
                        self._hooks,
                        fit=self._fits.get(step.name),
                    )
                )
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
            refused = Refused(labels, error.status, error.message)
            self._hooks.refused(refused)
            return refused
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
        fields = fields_of(spec.request, spec.slot)
        if spec.slot is not None and self._chat_by_template:
            prompt = await self._client.apply_template(messages)
            reply = await self._client.complete(prompt, {**fields, "n_predict": step.max_tokens})
            sent = sent_of(spec.request, prompt=prompt)
        else:
            sent = sent_of(spec.request, messages=messages)
            reply = await self._client.chat(messages, {**fields, "max_tokens": step.max_tokens})
        conversation.answered(user, reply.content)
        return Served(labels, reply, spec.slot, alone, sent, step.may_fail, warm_up=step.warm_up)

    async def _complete(self, step: CompleteStep, labels: dict[str, str], alone: bool) -> Served:
        prompt = await self._prompts.text(step.prompt, self._client.tokenise)
        fields = {**fields_of(step.request, step.slot), "n_predict": step.max_tokens}
        self._hooks.sending(labels, step.slot)
        reply = await self._client.complete(prompt, fields)
        sent = sent_of(step.request, prompt=prompt)
        return Served(labels, reply, step.slot, alone, sent, step.may_fail, warm_up=step.warm_up)


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
            found += texts_of(step)
    return found
