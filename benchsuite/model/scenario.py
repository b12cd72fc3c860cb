"""What a scenario file says, once loaded and checked.

Every value that came from a file keeps the line it stood on (`line`, from 1; 0 where it did not
come from a file), so that later findings can point at it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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
    """Many raw prompts over `/completion` in a closed loop: a worker sends its next request as
    soon as its last one is answered. Measured as a whole, labelled `step="NAME"`."""

    name: str
    requests: int  # in all
    concurrency: int  # workers
    prompt: PromptSpec
    prefix: PromptSpec | None = None  # before every prompt, the same for all
    same: bool = False  # every request sends the same prompt; else each the next seed's
    max_tokens: int = 16
    request: RequestSpec = RequestSpec()
    warm_up: int = 0  # so many first requests are in no median, rate or slope; in counts they are
    line: int = 0

    def prompt_of(self, number: int) -> PromptSpec:
        """The own part of a request's prompt; requests are numbered from 0."""
        if self.same or self.prompt.tokens is None:
            return self.prompt
        return msgspec.structs.replace(self.prompt, seed=self.prompt.seed + number)


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
