"""What was seen: measurements, replies, launches, and the record of a whole run."""

from __future__ import annotations

from typing import Literal

import msgspec

from benchsuite.model.load import LoadSummary, SweepSummary
from benchsuite.model.machine import MachineState
from benchsuite.model.verdict import GateResult, IssueResult, Verdict

RECORD_SCHEMA = 1
"""Version of `record.json` and `samples.jsonl`. 1: first."""

Value = int | float | str


class Measurement(msgspec.Struct, frozen=True):
    """One value of one metric.

    Labels say which part is meant (`session`, `turn`, `device`, `at`, ...); variant and trial
    are kept apart and are never selected by labels.
    """

    name: str
    value: Value
    unit: str
    variant: str
    trial: int = 1  # from 1
    labels: dict[str, str] = {}
    quantum: float = 0.0  # print quantum of a quantised value, in `unit`; 0 for others
    terms: int = 1  # printed terms summed into a quantised value
    # where it was read: `log`, `/props`, `reply timings.cache_n`, `/proc/PID/status`,
    # `client clock`; empty in records older than this field, and in no baseline
    source: str = ""
    # 95% interval of a value that is itself an estimate (a slope), in `unit`; None for others
    interval: tuple[float, float] | None = None


class Unmeasured(msgspec.Struct, frozen=True):
    """A metric that could not be measured, and why; a gate on it says so."""

    name: str
    variant: str
    reason: str
    # not_applicable: cannot be seen from where we stand (an attached server's memory)
    # missing: should have been there (a log that cannot be read)
    # inconclusive: was declared observable but could not be read
    outcome: Literal["not_applicable", "missing", "inconclusive"] = "missing"
    trial: int = 1
    labels: dict[str, str] = {}
    # a gate on it advises only: this deployment and scenario have nothing stored to compare with
    advises: bool = False


class InFlight(msgspec.Struct, frozen=True):
    """A request that had been sent and not answered when the server failed."""

    labels: dict[str, str]
    wanted_slot: int | None = None  # that it was pinned to
    slot: int | None = None  # that worked on it, where the log tells
    prompt_tokens: int | None = None  # of the whole prompt, where the log tells


class SlotState(msgspec.Struct, frozen=True):
    """What a slot was doing, by the last lines about it in the log."""

    slot: int
    task: int | None = None  # that it processes or processed last
    processing: bool = False
    prompt_tokens: int | None = None  # of that task's prompt


class Forensics(msgspec.Struct, frozen=True):
    """What is left of a server that failed. None and empty where nothing tells."""

    exit_code: int | None = None  # None also where a signal ended it, or it still ran
    signal: int | None = None
    crash: str = ""  # the assertion or error in one line, as the newest llama.cpp prints it
    kind: str = ""  # assertion, cuda, cpp_assertion, abort, exception, child
    file: str = ""  # of the source, as printed
    line: int | None = None
    expression: str = ""  # of an assertion
    device: int | None = None  # of a CUDA error
    function: str = ""  # of a CUDA error or a C++ assertion
    in_flight: tuple[InFlight, ...] = ()
    slots: tuple[SlotState, ...] = ()
    errors: tuple[str, ...] = ()  # the last lines that report an error
    backtrace: tuple[str, ...] = ()  # frames, innermost first


class Failure(msgspec.Struct, frozen=True):
    """How a launch failed, with the evidence."""

    # unmet: an attached server that does not meet the scenario's needs; nothing was driven
    kind: Literal[
        "start", "crash", "hang", "lied", "connection", "refused", "machine", "interrupted", "unmet"
    ]
    message: str
    hint: str | None = None
    step: str = ""  # in words: `turn 2 of session A`
    healthy_before: bool = False  # whether the server had been healthy
    last_lines: tuple[str, ...] = ()  # of the server's log
    unknowable: tuple[str, ...] = ()  # metrics that it makes unknowable
    forensics: Forensics | None = None  # None in older records, and where nothing is left


class ModelFacts(msgspec.Struct, frozen=True):
    """Identity and kind of the model file; None where the file cannot be seen."""

    path: str = ""
    size_bytes: int | None = None
    sampled_sha256: str | None = None  # of header and sampled blocks
    architecture: str | None = None
    attention: str | None = None  # full, sliding_window, recurrent, hybrid
    n_ctx_train: int | None = None  # tokens; llama-server caps a slot at it
    name: str | None = None


class ServerFacts(msgspec.Struct, frozen=True):
    """Which server answered."""

    # command: started by a program of the deployment's; none: no step needs a server
    kind: Literal["binary", "wheel", "embedded", "command", "attached", "none"]
    path: str = ""  # binary, command as the deployment has it, or URL of an attached server
    why: str = ""  # why this one was chosen
    build: str | None = None  # from the log or `/props`; None where neither tells
    command: tuple[str, ...] = ()  # exact, key left out
    flags: dict[str, str | tuple[str, ...] | None] = {}  # as given, ours included
    env: dict[str, str] = {}  # what was set for it, secrets left out
    slots: int | None = None
    n_ctx_slot: int | None = None  # cells
    kv_unified: bool | None = None
    devices: tuple[str, ...] = ()  # that hold model, KV or compute buffers
    # flag -> type of the KV cache as the log tells it: `{"cache-type-k": "f16", ...}`
    kv_types: dict[str, str] = {}
    # `batch-size`, `ubatch-size`, `flash-attn` (on, off, auto) as the log prints them
    context_flags: dict[str, str] = {}
    cpu_features: str = ""  # as the server prints them: `AVX512 = 1 | ...`; empty if not seen
    model: ModelFacts = ModelFacts()
    # `build`, `slots`, `n_ctx_slot`, `kv_unified` -> `/props` or `log`
    sources: dict[str, str] = {}
    # of its container: `ghcr.io/x/llama@sha256:...`, or the id of an image that was only built
    # here; empty without a container, where the engine does not tell, and in older records
    image: str = ""
    # device that holds buffers -> its model, where the log prints it: `{"CUDA0": "NVIDIA H200"}`
    device_models: dict[str, str] = {}


class ServerEnd(msgspec.Struct, frozen=True):
    """How a launched server ended."""

    exit_code: int | None = None  # None if killed by a signal
    signal: int | None = None
    how: Literal["stopped", "forced", "died", "left running"] = "stopped"
    crash: str | None = None  # one sentence, from the log or the signal


Cause = Literal[
    "model loaded again",  # the server slept, or a router started its child anew
    "another slot was chosen",
    "slot overwritten",  # another request took the slot
    "slot cleared",  # the server dropped or moved away what the slot held
    "first difference",  # no shortfall: the prompt differs from what was left
    "checkpoint missing",  # sliding window or recurrent state: everything was evaluated again
    "checkpoint short",  # sliding window or recurrent state: restored short of the prefix
    "host cache off",
    "host cache full",
    "context shift",
    "cache_prompt off",
    "pinned to an empty slot",
    "at least one token",  # no shortfall: the last token of a prompt is always evaluated
    "not known",
]
"""Why prompt tokens were evaluated again."""


class Reevaluation(msgspec.Struct, frozen=True):
    """One request whose prompt was evaluated again where an earlier request had left tokens."""

    labels: dict[str, str]  # of the request
    cached: int  # prompt tokens
    common_prefix: int | None  # with what one earlier request left behind; None: not known
    cause: Cause
    sentence: str  # the cause in words, with slots and requests named
    evidence: tuple[str, ...] = ()  # log lines, numbers, and what could not be seen

    @property
    def short(self) -> bool:
        """Whether fewer tokens were cached than could have been, the last one left out."""
        return self.cause not in ("first difference", "at least one token")


class Launch(msgspec.Struct, frozen=True):
    """One variant's trial: the server, what went wrong, where its log is."""

    variant: str
    trial: int
    started_at: str  # UTC, ISO 8601
    server: ServerFacts
    end: ServerEnd | None = None
    failure: Failure | None = None
    log: str | None = None  # file name inside the run's folder
    warnings: tuple[str, ...] = ()
    reevaluations: tuple[Reevaluation, ...] = ()  # in the order of the requests
    # what the model file and the flags make of `kv_mib`, `kv_cells` and `rs_mib`: exact, without
    # print quantum; a metric that the model has no memory of is not among them
    analytic: tuple[Measurement, ...] = ()
    analytic_unknown: str = ""  # why there is no `analytic`; both empty in older records
    loads: tuple[LoadSummary, ...] = ()  # in the order of the steps; empty in older records
    sweeps: tuple[SweepSummary, ...] = ()  # likewise; their stages are among the loads


class Fingerprint(msgspec.Struct, frozen=True):
    """What must match for a comparison of a scope to mean anything."""

    deployment: str
    scenario: str
    seed: int
    numerics: str | None = None  # backends used and CPU features or GPU architecture
    machine: str | None = None  # numerics and the machine's name


class Info(msgspec.Struct, frozen=True):
    """What people change on purpose: shown as 'what differs', never a match key."""

    build: str | None = None
    server: str = ""
    model: str = ""  # name, size and sampled hash
    flags: dict[str, dict[str, str]] = {}  # variant -> flag -> value as given
    env: dict[str, str] = {}
    commit: str | None = None  # of the user's repository
    kernel: str = ""
    benchsuite: str = ""
    image: str = ""  # of the server's container, by digest or id


class NotApplicable(msgspec.Struct, frozen=True):
    """A variant that could not run here, and why."""

    variant: str
    reason: str


class RunRecord(msgspec.Struct, frozen=True):
    """Everything that was seen in one run of one scenario."""

    schema_version: int
    id: str
    started_at: str  # UTC, ISO 8601
    wall_seconds: float
    scenario: str
    scenario_path: str
    title: str
    digests: dict[str, str]  # variant -> digest of what changes the measurement
    fingerprint: Fingerprint
    info: Info
    trials: int
    launches: tuple[Launch, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    gates: tuple[GateResult, ...] = ()
    known_issues: tuple[IssueResult, ...] = ()  # in the order of the scenario's entries
    verdict: Verdict | None = None
    # where the baselines came from; None in a side of `ab`, which was judged by none
    baseline: str | None = None
    against: str | None = None  # as `--against` named it; None: the deployment's own baselines
    interrupted: bool = False
    warnings: tuple[str, ...] = ()
    machine_state: MachineState | None = None  # None in older records
    # of the suite that it was run for: whether its gates move the suite's exit code
    policy: Literal["block", "advise"] = "block"
    duration: str | None = None  # of load steps that end by one, as `--duration` gave it

    @property
    def excused(self) -> frozenset[str]:
        """Variants whose launches failed by a known issue, as expected."""
        return frozenset(
            issue.variant
            for issue in self.known_issues
            if issue.expect == "crash" and issue.outcome == "xfail"
        )
