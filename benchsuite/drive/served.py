"""What was asked of a server and what came of it, and whom the driver tells of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from benchsuite.client.reply import Reply
from benchsuite.drive.tally import Tally
from benchsuite.drive.vectors import Taken
from benchsuite.model.sample import Sample
from benchsuite.model.scenario import (
    DamageStep,
    RequestSpec,
    RestartStep,
    SlotAction,
    SourceMarkersStep,
    SweepStep,
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
    due_ns: int | None = None  # of a load step: when it was due, in the monotonic clock

    @property
    def words(self) -> str:
        """The request in words, for messages."""
        return describe_labels(self.labels)


class Refused(msgspec.Struct, frozen=True):
    """A request or slot step that was allowed to fail, and was answered with an error or not."""

    labels: dict[str, str]
    status: int  # of HTTP, or as the error says that ended a stream; 0 where it says none
    message: str
    timed_out: bool = False  # given up after the `timeout` of its load step

    @property
    def of_load(self) -> bool:
        """Whether it was a request of a load step."""
        return "step" in self.labels and "request" in self.labels

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
    if "stage" in labels:
        return f"request {labels['request']} of stage {labels['stage']} of sweep {labels['step']}"
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
    tally: Tally  # what its requests came to
    wall_ns: int  # from before the first request to after the last reply
    is_open: bool = False  # whether users came by a schedule
    distinct_prompts: int = 0  # different texts, histories of chats apart
    most_in_flight: int = 0  # at one moment
    sample: Sample | None = None  # what was sent of a file
    skipped: int = 0  # rows of it that no slot of the server can hold
    why_skipped: str = ""  # of the first of them
    stage: str = ""  # of a sweep; empty for a load step
    embeds: bool = False  # whether embeddings were asked for, which have no tokens
    asked_per_second: float | None = None  # by the schedule, on average; None of a closed loop
    scheduled_ns: int = 0  # how long requests after warm-up were asked at that rate; 0: not known

    @property
    def words(self) -> str:
        """What it is, for messages."""
        return f"stage {self.stage} of sweep {self.name}" if self.stage else f"load {self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Those of its measurements."""
        return {"stage": self.stage, "step": self.name} if self.stage else {"step": self.name}

    @property
    def counted_ns(self) -> int:
        """What rates are of: from the first request after warm-up to the end of the last.

        Of an open loop at least as long as its schedule, so that no more is served than was asked.
        """
        took_ns = self.tally.span_ns if self.tally.warm_ups else self.wall_ns
        return max(took_ns, self.scheduled_ns)

    @property
    def tokenless_after(self) -> int:
        """Requests served after warm-up of which no token came; an embedding needs none."""
        if self.embeds:
            return 0
        return self.tally.served_after - len(self.tally.spans["ttft_ms"])


class Climber(Protocol):
    """Decides on the levels of one sweep."""

    def next(self) -> float | None:
        """The level of the next stage; None where the sweep has ended."""
        ...

    async def take(self, stage: Stage) -> None:
        """Take what a stage came to."""
        ...

    def finish(self) -> None:
        """The sweep is over."""
        ...


class Stage(msgspec.Struct, frozen=True):
    """What one stage of a sweep brought."""

    level: float
    load: Load
    cpu_share: float  # CPU time of our own process / time
    backlog_half: int = 0  # of an open loop: requests due but not answered at half of its schedule
    backlog_end: int = 0  # likewise at its end


def _no_sweep(step: SweepStep) -> Climber:
    raise AssertionError(f"nobody decides on the levels of sweep {step.name}")


def _nothing(labels: dict[str, str], slot: int | None) -> None:
    """Nobody wants to know what is about to be sent."""


def _unfinished(load: Load) -> None:
    """Nobody wants to know how far a load came that was cut."""


def _nobody(refused: Refused) -> None:
    """Nobody wants to know what was refused."""


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
    climb: Callable[[SweepStep], Climber] = _no_sweep
    refused: Callable[[Refused], None] = _nobody  # at once when one that may fail has failed
    # instead of `loaded`, where an interruption or a fault ended a load before its end
    cut: Callable[[Load], None] = _unfinished


def fields_of(request: RequestSpec, slot: int | None) -> dict[str, Any]:
    """The fields of a request's body beyond prompt and output limit."""
    fields: dict[str, Any] = {"temperature": request.temperature, **request.extra}
    if request.cache_prompt is not None:
        fields["cache_prompt"] = request.cache_prompt
    if slot is not None:
        fields["id_slot"] = slot
    return fields


def sent_of(
    request: RequestSpec,
    *,
    messages: Sequence[dict[str, str]] | None = None,
    prompt: str | None = None,
) -> Sent:
    """What a request asked, for those who look into caches."""
    kept = None if messages is None else tuple(messages)
    return Sent(kept, prompt, dict(request.extra), request.cache_prompt)
