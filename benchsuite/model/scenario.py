"""What a scenario file says, once loaded and checked.

Every value that came from a file keeps the line it stood on (`line`, from 1; 0 where it did not
come from a file), so that later findings can point at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from benchsuite.model.load import (
    DISTINCT_OF_DURATION,
    Api,
    Arrivals,
    Length,
    Objective,
    Over,
    Think,
    seeded,
)
from benchsuite.model.sample import DatasetSpec, Row, Sample

FlagValue = str | tuple[str, ...] | None
"""A server flag as written: text (`on`, `8192`), several (a repeated flag), or None (removed)."""

RequestValue = str | int | float | bool


class PromptSpec(msgspec.Struct, frozen=True):
    """A text to be sent: written out, or made to an exact number of tokens.

    Exactly one of `text` and `tokens` is given.
    """

    text: str | None = None
    tokens: int | None = None  # exactly so many on the model at hand, special tokens not counted
    seed: int = 0  # which text of that length
    line: int = 0


class FlagNeed(msgspec.Struct, frozen=True):
    """What a scenario needs of one server flag. Exactly one of `exact`, `min`, `default`."""

    exact: FlagValue = None
    min: int | None = None
    default: FlagValue = None
    kind: Literal["exact", "min", "default"] = "exact"
    per: Literal["slot", "total"] = "total"  # of `min`: slot multiplies by the number of slots
    line: int = 0


class RequestSpec(msgspec.Struct, frozen=True):
    """Fields of a request beyond prompt and output limit; None leaves a field out of the body."""

    cache_prompt: bool | None = None
    temperature: float = 0.0  # greedy
    extra: dict[str, RequestValue] = {}  # any other field of llama-server's request body


class SessionSpec(msgspec.Struct, frozen=True):
    """One client's ordered conversation."""

    name: str
    system: PromptSpec | None = None
    slot: int | None = None  # pinned to this slot; None lets the server choose
    request: RequestSpec = RequestSpec()
    secret: str | None = None  # text that no other conversation's reply may contain
    line: int = 0


class TurnStep(msgspec.Struct, frozen=True, tag="turn"):
    """The session's next user message and the server's reply, over `/v1/chat/completions`."""

    session: str
    user: PromptSpec
    max_tokens: int = 16
    may_fail: bool = False  # an error reply is measured as `http_status` instead of failing the run
    warm_up: bool = False  # its latency is not measured, and in no median; its counts are
    line: int = 0


class CompleteStep(msgspec.Struct, frozen=True, tag="complete"):
    """One raw prompt over `/completion`, outside any session; named by `id` in labels."""

    id: str
    prompt: PromptSpec
    max_tokens: int = 16
    slot: int | None = None
    request: RequestSpec = RequestSpec()
    may_fail: bool = False  # as of a turn
    warm_up: bool = False  # as of a turn
    line: int = 0


class ConcurrentlyStep(msgspec.Struct, frozen=True, tag="concurrently"):
    """Branches that run at the same time; the steps of one branch run in order."""

    branches: tuple[tuple[TurnStep | CompleteStep, ...], ...]
    line: int = 0


class LoadStep(msgspec.Struct, frozen=True, tag="load"):
    """Many requests, measured as a whole and labelled `step="NAME"`.

    Closed loop: each of `concurrency` users sends its next request once its last one is answered
    and it has thought. Open loop (`arrivals`): users come by a schedule, whatever the server does.
    A user asks `turns` requests; of an open loop each arrival is another user. It ends after
    `requests` or at `duration`, whichever comes first; what is under way is waited for and counts.
    """

    name: str
    requests: int | None  # in all; None: by `duration` only
    concurrency: int  # users of a closed loop; 1 of an open one, where it means nothing
    prompt: PromptSpec
    prefix: PromptSpec | None = None  # before prompts, the same for all; of a chat its system
    same: bool = False  # every request sends the same prompt; else each the next seed's
    max_tokens: int = 16
    request: RequestSpec = RequestSpec()
    warm_up: int = 0  # so many first requests are in no median, rate or slope; in counts they are
    duration: float | None = None  # seconds; nothing is due from then on
    arrivals: Arrivals | None = None  # None: closed loop
    in_flight: int | None = None  # at most so many at once in an open loop; others wait
    think: Think | None = None  # between an answer and the user's next request
    turns: int = 1  # requests of one user, with growing history where above 1
    prefix_share: float = 1.0  # of the users, whose prompts begin with `prefix`
    prompt_tokens: Length | None = None  # instead of `prompt.tokens`
    output_tokens: Length | None = None  # instead of `max_tokens`
    distinct: int | None = None  # so many texts, in turn; None: see `texts`
    api: Api = "completion"
    timeout: float | None = None  # seconds from sending, after which a request is given up
    warm_up_seconds: float = 0.0  # what is due before this is warm-up; beside `warm_up`
    seed: int = 0  # of arrivals, think times, lengths and shares; of a trace also of its texts
    source: DatasetSpec | None = None  # a file of requests, instead of `prompt`
    sample: Sample | None = None  # what was read of it; None until it was
    line: int = 0

    @property
    def texts(self) -> int:
        """How many different prompts there are: as many as requests unless told otherwise."""
        if self.sample is not None:
            return len(self.sample.rows)
        if self.same or self.prompt.tokens is None:
            return 1
        if self.distinct is not None:
            return min(self.distinct, self.requests or self.distinct)
        if self.duration is None:
            return self.requests or 1
        return min(self.requests or DISTINCT_OF_DURATION, DISTINCT_OF_DURATION)

    @property
    def is_concurrent(self) -> bool:
        """Whether several requests may be under way at once."""
        return self.concurrency > 1 or (self.arrivals is not None and self.in_flight != 1)

    @property
    def recorded_ns(self) -> Iterator[int]:
        """When the requests of a trace arrive, from the step's beginning, at the asked speed."""
        if self.sample is not None:
            speed = self.sample.spec.speed
            yield from (round((row.at_ns or 0) / speed) for row in self.sample.rows)

    @property
    def rows_due(self) -> int | None:
        """How many requests of a trace are due before `duration`; None where all are."""
        if self.sample is None or self.duration is None or not self.sample.spec.is_timed:
            return None
        due = sum(at_ns < self.duration * 1e9 for at_ns in self.recorded_ns)
        return due if due < len(self.sample.rows) else None

    def row_of(self, number: int) -> Row | None:
        """What the file says of a request; None where there is no file. Rows are sent in turn."""
        if self.sample is None:
            return None
        return self.sample.rows[number % len(self.sample.rows)]

    def prompt_of(self, number: int) -> PromptSpec:
        """The own part of a request's prompt; requests are numbered from 0."""
        if self.same or self.prompt.tokens is None:
            return self.prompt
        text = number % self.texts
        tokens = self.prompt.tokens
        if self.prompt_tokens is not None:
            tokens = self.prompt_tokens.draw(seeded(self.seed, "prompt", text))
        return msgspec.structs.replace(self.prompt, tokens=tokens, seed=self.prompt.seed + text)

    def scheduled_seconds(self, *, warm_up: bool) -> float | None:
        """How long users come by the schedule: what they ask in that time is asked at its rate.

        It is longer than from the first arrival to the last. None of a closed loop, and of a ramp
        or a trace, which have no rate that holds throughout.

        Args:
            warm_up: Whether the time of the warm-up is in it.
        """
        arrivals = self.arrivals
        if arrivals is None or arrivals.kind not in ("constant", "poisson", "bursts"):
            return None
        asked = arrivals.mean_rate * self.turns  # a second
        ends = [] if self.duration is None else [self.duration]
        if self.requests is not None:
            ends.append(self.requests / asked)
        before = 0.0 if warm_up else max(self.warm_up_seconds, self.warm_up / asked)
        return max(0.0, min(ends) - before)

    def output_of(self, number: int) -> int:
        """The output limit of a request, in tokens; of a file its own where it says one."""
        row = self.row_of(number)
        if row is not None and self.sample is not None:
            limit = row.output_at(self.sample.spec.block)
            if limit is not None:
                return limit
        if self.output_tokens is None:
            return self.max_tokens
        return self.output_tokens.draw(seeded(self.seed, "output", number))

    def is_prefixed(self, user: int) -> bool:
        """Whether the prompts of a user begin with the prefix; users are numbered from 0."""
        if self.prefix is None:
            return False
        return self.prefix_share >= 1 or (
            seeded(self.seed, "prefix", user).random() < self.prefix_share
        )


class SweepStep(msgspec.Struct, frozen=True, tag="sweep"):
    """A load at one level after the other; each stage is labelled `stage="LEVEL"`."""

    load: LoadStep  # at the highest level; its name is the sweep's
    over: Over
    values: tuple[float, ...] = ()  # ascending; empty where levels are searched
    search: tuple[float, float] | None = None  # from, to
    objectives: tuple[Objective, ...] = ()
    line: int = 0

    @property
    def name(self) -> str:
        """Label `step` of what it measures."""
        return self.load.name

    def at(self, level: float, number: int, rows: int = 0) -> LoadStep:
        """The load of one stage, with texts of its own as far as there are such.

        Args:
            level: Users, or users a second.
            number: Of the stage, from 0.
            rows: Of its file, which earlier stages took; this one goes on behind them.
        """
        load = self.load
        if load.sample is not None:
            first = rows % len(load.sample.rows)
            turned = (*load.sample.rows[first:], *load.sample.rows[:first])
            sample = msgspec.structs.replace(load.sample, rows=turned)
            load = msgspec.structs.replace(load, sample=sample)
        prompt = load.prompt
        if prompt.tokens is not None and not load.same:
            prompt = msgspec.structs.replace(prompt, seed=prompt.seed + number * load.texts)
        if self.over == "concurrency":
            return msgspec.structs.replace(load, concurrency=round(level), prompt=prompt)
        if load.arrivals is None:
            raise AssertionError("a sweep over rates without arrivals")
        arrivals = msgspec.structs.replace(load.arrivals, rate=level)
        return msgspec.structs.replace(load, arrivals=arrivals, prompt=prompt)


class IdleStep(msgspec.Struct, frozen=True, tag="idle"):
    """A pause without requests."""

    seconds: float
    line: int = 0


class SnapshotStep(msgspec.Struct, frozen=True, tag="snapshot"):
    """Memory and counters read at this point and labelled `at="NAME"`."""

    name: str
    line: int = 0


SlotAction = Literal["save", "restore", "erase"]


class SlotStep(msgspec.Struct, frozen=True, tag="slot"):
    """Save, restore or erase one slot, over `POST /slots/ID?action=...`."""

    name: str  # labels what it measures: `slot_tokens{step="NAME"}`
    action: SlotAction
    id: int
    file: str | None = None  # name inside the folder of saved slots; None for erase
    may_fail: bool = False  # as of a turn
    line: int = 0


Damage = Literal["truncate", "garbage", "foreign"]


class DamageStep(msgspec.Struct, frozen=True, tag="damage"):
    """Spoil a file that a slot was saved to."""

    file: str  # name inside the folder of saved slots
    # truncate: the first half is left; garbage: other bytes, as many; foreign: the format's own
    # first 8 bytes (magic and version), then other bytes, as a state of something else
    how: Damage
    to: str | None = None  # the spoilt file, beside the whole one; None spoils the file itself
    line: int = 0


class RestartStep(msgspec.Struct, frozen=True, tag="restart"):
    """Stop the launched server and start it again with the same flags."""

    line: int = 0


DEFAULT_FOLDER = "default"
"""Key of a deployment's only source folder."""


class SourceMarkersStep(msgspec.Struct, frozen=True, tag="source_markers"):
    """Count the lines that match a pattern under a source folder of the deployment."""

    name: str  # labels what it measures: `source_markers{step="NAME"}`
    pattern: str  # a regular expression of Python, searched in each line
    files: tuple[str, ...]  # globs; one without a slash means files of that name in any folder
    folder: str = DEFAULT_FOLDER  # which of the deployment's source folders
    line: int = 0


class LogprobsStep(msgspec.Struct, frozen=True, tag="logprobs"):
    """Log-probabilities after a raw prompt along the reference's greedy tokens.

    One request a position over `/completion`; named by `id` in the label `request`.
    """

    id: str
    prompt: PromptSpec
    tokens: int = 16  # positions; the first follows the prompt
    top: int = 1024  # likeliest tokens asked for; all where the vocabulary is smaller
    at_once: int = 1  # requests under way at the same time, each with its own form of the prompt
    line: int = 0


class EmbeddingStep(msgspec.Struct, frozen=True, tag="embedding"):
    """The embedding of a raw prompt over `/v1/embeddings`; named by `id` in `request`."""

    id: str
    prompt: PromptSpec
    line: int = 0


Step = (
    TurnStep
    | CompleteStep
    | ConcurrentlyStep
    | LoadStep
    | SweepStep
    | IdleStep
    | SnapshotStep
    | SlotStep
    | DamageStep
    | RestartStep
    | SourceMarkersStep
    | LogprobsStep
    | EmbeddingStep
)

OWNED_STEPS = (SlotStep, DamageStep, RestartStep)
"""Steps that only a server of our own may be put through."""
STORED = "stored"
"""Value of the label `against` where vectors were compared with those stored by `accept`."""

AUTOMATIC_SNAPSHOTS = ("ready", "end")
"""Snapshots taken in every launch: once healthy, and after the last step."""


class SessionOverlay(msgspec.Struct, frozen=True):
    """What a variant changes of one session; None leaves the scenario's value."""

    slot: int | None = None
    request: RequestSpec | None = None
    line: int = 0


class Require(msgspec.Struct, frozen=True):
    """Without these a variant is not applicable."""

    flag: str | None = None  # this build has the flag (long name without dashes)
    device: str | None = None  # a device of this kind is used, by its name in the log: `CUDA`
    overlay: bool = False  # the deployment fills the variant in


class VariantSpec(msgspec.Struct, frozen=True):
    """A named overlay of flags and of session or request fields."""

    name: str
    title: str = ""
    flags: dict[str, FlagValue] = {}
    sessions: dict[str, SessionOverlay] = {}
    require: Require = Require()
    line: int = 0


class When(msgspec.Struct, frozen=True):
    """Facts under which a gate applies; None does not ask."""

    attention: Literal["full", "sliding_window", "recurrent", "hybrid"] | None = None
    sliding_window: bool | None = None
    recurrent: bool | None = None
    backend: str | None = None  # a device by its name in the log, digits left out: `CPU`, `CUDA`
    deployment: str | None = None
    analytic: bool | None = None  # the model file and the flags tell what memory must be


class SameAs(msgspec.Struct, frozen=True):
    """Another place of the same run whose value must be equal."""

    variant: str | None = None
    session: str | None = None
    request: str | None = None  # id of a 'complete' step

    @property
    def label(self) -> tuple[str, str] | None:
        """The label that names the other place within a run; None where only the variant does."""
        if self.session is not None:
            return "session", self.session
        return None if self.request is None else ("request", self.request)


class Growth(msgspec.Struct, frozen=True):
    """How far a snapshot's value may lie above an earlier one's of the same launch.

    In the metric's unit; negative limits ask for a decline. At least one limit is given.
    """

    since: str  # the earlier snapshot
    min: float | None = None
    max: float | None = None


class Regression(msgspec.Struct, frozen=True):
    """How much worse than the baseline is still accepted; both must be exceeded to be worse."""

    worse_than_percent: float
    and_by: float | None = None  # in the metric's unit


class GateSpec(msgspec.Struct, frozen=True):
    """One rule. Exactly one of: `equals_baseline`, `equals_analytic`, `equals`, (`min`, `max`),
    `same_as`, `regression`, `growth`."""

    metric: str  # selector as written
    equals_baseline: bool = False
    equals_analytic: bool = False  # what the model file and the flags make of it
    equals: float | str | None = None
    min: float | None = None
    max: float | None = None
    same_as: SameAs | None = None
    regression: Regression | None = None
    growth: Growth | None = None
    variants: tuple[str, ...] | None = None  # None: every variant (its own reference excepted)
    when: When = When()
    needs: Literal["launched", "linux"] | None = None
    level: Literal["block", "advise"] | None = None  # None: the kind's own default
    why: str = ""  # one sentence for the reader: what breaks where this fails
    line: int = 0


class BuildRange(msgspec.Struct, frozen=True):
    """Builds of llama.cpp by their numbers, both ends included; None leaves an end open."""

    first: int | None = None
    last: int | None = None


class KnownIssue(msgspec.Struct, frozen=True):
    """A failure that is expected of one variant, under conditions; it is considered where all of
    them hold, and nowhere else."""

    variant: str
    issue: str  # by which it is known to its tracker: `bug-207`
    # crash: the server dies, while loading or later; fail: gates fail and the server lives
    expect: Literal["crash", "fail"]
    # regular expression searched in what tells the failure; never empty for a crash
    signature: str = ""
    gate: str | None = None  # selector of the gates meant; None: every gate of the variant
    builds: BuildRange = BuildRange()
    commit: str | None = None  # the build's commit begins with it: `7e4c0a9`
    backend: str | None = None  # as of `When`
    deployment: str | None = None
    expires: str | None = None  # ISO date, from which on `ci` refuses the entry
    reason: str = ""  # one sentence for the reader
    line: int = 0


class Scenario(msgspec.Struct, frozen=True):
    """One scenario file."""

    name: str  # the file's stem
    path: str  # as the user would open it
    title: str
    description: str = ""
    tags: tuple[str, ...] = ()
    server: dict[str, FlagNeed] = {}
    sessions: dict[str, SessionSpec] = {}
    steps: tuple[Step, ...] = ()
    variants: dict[str, VariantSpec] = {}  # never empty: a file without has one, `default`
    # the variant along whose tokens `logprobs` steps go, and which vectors are compared with;
    # runs first. Empty where no step takes vectors
    reference: str = ""
    gates: tuple[GateSpec, ...] = ()
    known_issues: tuple[KnownIssue, ...] = ()

    @property
    def needs_server(self) -> bool:
        """Whether any step is done to a server; counting source markers is not."""
        return not all(isinstance(step, SourceMarkersStep) for step in self.steps)

    @property
    def saves_slots(self) -> bool:
        """Whether slots are saved, restored or erased, which needs `--slot-save-path`."""
        return any(isinstance(step, SlotStep) for step in self.steps)
