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
    line: int = 0


class TurnStep(msgspec.Struct, frozen=True, tag="turn"):
    """The session's next user message and the server's reply, over `/v1/chat/completions`."""

    session: str
    user: PromptSpec
    max_tokens: int = 16
    line: int = 0


class CompleteStep(msgspec.Struct, frozen=True, tag="complete"):
    """One raw prompt over `/completion`, outside any session; named by `id` in labels."""

    id: str
    prompt: PromptSpec
    max_tokens: int = 16
    slot: int | None = None
    request: RequestSpec = RequestSpec()
    line: int = 0


class ConcurrentlyStep(msgspec.Struct, frozen=True, tag="concurrently"):
    """Branches that run at the same time; the steps of one branch run in order."""

    branches: tuple[tuple[TurnStep | CompleteStep, ...], ...]
    line: int = 0


class IdleStep(msgspec.Struct, frozen=True, tag="idle"):
    """A pause without requests."""

    seconds: float
    line: int = 0


class SnapshotStep(msgspec.Struct, frozen=True, tag="snapshot"):
    """Memory and counters read at this point and labelled `at="NAME"`."""

    name: str
    line: int = 0


class LogprobsStep(msgspec.Struct, frozen=True, tag="logprobs"):
    """Log-probabilities after a raw prompt along the reference's greedy tokens.

    One request a position over `/completion`; named by `id` in the label `request`.
    """

    id: str
    prompt: PromptSpec
    tokens: int = 16  # positions; the first follows the prompt
    top: int = 1024  # likeliest tokens asked for; all where the vocabulary is smaller
    at_once: int = 1  # requests under way at the same time; the reference's own go one by one
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
    | IdleStep
    | SnapshotStep
    | LogprobsStep
    | EmbeddingStep
)

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


class Regression(msgspec.Struct, frozen=True):
    """How much worse than the baseline is still accepted; both must be exceeded to be worse."""

    worse_than_percent: float
    and_by: float | None = None  # in the metric's unit


class GateSpec(msgspec.Struct, frozen=True):
    """One rule. Exactly one of: `equals_baseline`, `equals_analytic`, `equals`, (`min`, `max`),
    `same_as`, `regression`."""

    metric: str  # selector as written
    equals_baseline: bool = False
    equals_analytic: bool = False  # what the model file and the flags make of it
    equals: float | str | None = None
    min: float | None = None
    max: float | None = None
    same_as: SameAs | None = None
    regression: Regression | None = None
    variants: tuple[str, ...] | None = None  # None: every variant (its own reference excepted)
    when: When = When()
    needs: Literal["launched", "linux"] | None = None
    level: Literal["block", "advise"] | None = None  # None: the kind's own default
    why: str = ""  # one sentence for the reader: what breaks where this fails
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
