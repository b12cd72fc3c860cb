"""What a server's log says, as frozen types; no parsing.

Sizes are in MiB as printed (llama.cpp before 2024 prints the same amount as `MB`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

Context = Literal["target", "draft"]
"""Whose memory: the model that is served, or the draft model of speculative decoding."""


class KvBuffer(msgspec.Struct, frozen=True):
    """One `KV buffer size` line."""

    device: str  # as printed: `CUDA0`, `CPU`, `RPC0[127.0.0.1:50952]`, `Meta()`
    mib: float
    context: Context = "target"
    cache: str = ""  # `full`, `swa`, `indexer` or a fork's own; empty where there is only one
    stream: str | None = None  # of forks that print a buffer for each stream


class KvSize(msgspec.Struct, frozen=True):
    """One `size =` or `KV self size` line; None for what an older form does not print."""

    mib: float
    cells: int | None = None  # of one stream
    layers: int | None = None
    seqs: int | None = None
    streams: int | None = None  # 1 where all sequences share one (unified)
    k_type: str | None = None
    k_mib: float | None = None
    v_type: str | None = None
    v_mib: float | None = None
    context: Context = "target"
    cache: str = ""


class RsBuffer(msgspec.Struct, frozen=True):
    """One `RS buffer size` line: recurrent state, which grows with slots and not with context."""

    device: str
    mib: float
    context: Context = "target"


class RsSize(msgspec.Struct, frozen=True):
    """The `size =` line of a recurrent memory."""

    mib: float
    cells: int | None = None
    layers: int | None = None
    seqs: int | None = None
    context: Context = "target"


class Buffer(msgspec.Struct, frozen=True):
    """One line of any other buffer."""

    kind: str  # model, compute, output, input, vision (an image encoder's compute), state, lora
    device: str  # empty where the form names none (2023)
    mib: float
    context: Context = "target"


class Total(msgspec.Struct, frozen=True):
    """A sum of printed sizes."""

    mib: float
    terms: int  # printed numbers in it, each rounded to 0.01 MiB


class TableRow(msgspec.Struct, frozen=True):
    """One row of the memory table, in whole MiB; None where the row leaves the column empty."""

    device: str  # `CUDA0 (RTX 3090)`, `Host`
    self_mib: int
    model_mib: int
    context_mib: int
    compute_mib: int
    total_mib: int | None = None
    free_mib: int | None = None
    unaccounted_mib: int | None = None  # may be negative; an unsigned wrap is read as negative


class SlotLaunch(msgspec.Struct, frozen=True, gc=False):
    """A slot began a task. Their order is the order of the log."""

    slot: int
    task: int
    instance: str = ""


class SlotTiming(msgspec.Struct, frozen=True, gc=False):
    """What a slot's timing lines say of one finished task; milliseconds have two decimals."""

    slot: int | None  # None where no line names it
    task: int | None
    prompt_ms: float
    prompt_tokens: int  # evaluated, without cached
    decode_ms: float | None = None  # None where the line is missing
    output_tokens: int | None = None
    instance: str = ""


class PromptReuse(msgspec.Struct, frozen=True, gc=False):
    """How many prompt tokens a task found in its slot: the first such line of the task."""

    slot: int
    task: int
    cached: int
    instance: str = ""


EventKind = Literal[
    "model_loaded",  # at a start, or at a wake from sleep: slots and host prompt cache are empty
    "selected_by_similarity",
    "selected_by_age",  # least recently used
    "selected_by_id",  # the request is pinned
    "checked",  # how much of the new prompt an idle slot holds; build 10434 on
    "busy",  # a slot that was passed over since it is processing
    "launched",
    "new_prompt",
    "full_reprocessing",  # no checkpoint serves (sliding window, recurrent state)
    "checkpoint_created",
    "checkpoint_restored",
    "checkpoint_invalidated",
    "checkpoint_erased",
    "context_shift",
    "truncated",
    "context_full",
    "released",
    "cleared",  # a slot's state was dropped
    "purged",  # an idle slot's state was dropped to make room
    "chunk_reused",
    "idle_saved",  # an idle slot is about to be saved to the host prompt cache
    "one_token",  # the whole prompt was cached, and its last token is evaluated all the same
    "cache_saved",
    "cache_kept",  # a save that was not needed: the cache has it
    "cache_obsolete",  # a cached prompt dropped since a longer one begins with it
    "cache_loaded",
    "cache_evicted",
    "cache_refused",  # the state is larger than the host prompt cache
    "cache_load_failed",
]


class SlotEvent(msgspec.Struct, frozen=True, gc=False):
    """One line on what a slot or the host prompt cache did. Their order is the order of the log."""

    kind: EventKind
    slot: int | None  # None for lines of the host prompt cache
    task: int | None  # None where the slot has none yet, or no longer
    numbers: dict[str, float]  # by the names of `events.py`: `similarity`, `keep`, `n_tokens`, ...
    text: str  # the message, without timestamp and level
    instance: str = ""


class CacheState(msgspec.Struct, frozen=True):
    """The host prompt cache, from its last `cache state` line."""

    prompts: int
    mib: float
    limit_mib: float | None  # None: no limit (printed as 0.000)


class Crash(msgspec.Struct, frozen=True):
    """How the server died, from what it printed."""

    # child: a router's child ended with a status other than 0
    kind: Literal["assertion", "cuda", "cpp_assertion", "abort", "exception", "child"]
    file: str = ""  # as printed
    line: int | None = None
    expression: str = ""  # of an assertion
    message: str = ""  # of anything else
    device: int | None = None
    function: str = ""
    instance: str = ""

    @property
    def sentence(self) -> str:
        """The crash in one line, in the newest form that llama.cpp prints it."""
        place = f"{self.file}:{self.line}: " if self.file else ""
        if self.kind == "assertion":
            return f"{place}GGML_ASSERT({self.expression}) failed"
        if self.kind == "cpp_assertion":
            function = f"{self.function}: " if self.function else ""
            return f"{place}{function}Assertion '{self.expression}' failed"
        detail = [] if self.device is None else [f"device {self.device}"]
        if self.function:
            detail.append(f"in {self.function}")
        return place + self.message + (f" ({', '.join(detail)})" if detail else "")


class LogFailure(msgspec.Struct, frozen=True):
    """Why the server could not start, from what it printed."""

    kind: Literal["model", "kv_memory", "device_memory", "port", "flag", "configuration"]
    text: str  # the line that says so, without its prefix


class Load(msgspec.Struct, frozen=True):
    """The last load of one server process."""

    # the router's port or compose's service name before each line; empty for a plain server
    instance: str = ""
    model: str = ""  # a router's name for it
    n_slots: int | None = None
    n_ctx_slot: int | None = None
    kv_unified: bool | None = None
    listening: str | None = None  # URL
    buses: dict[str, str] = {}  # device -> bus address, where printed: `0000:01:00.0`
    device_models: dict[str, str] = {}  # device -> its model, likewise: `NVIDIA H200`
    kv_buffers: tuple[KvBuffer, ...] = ()  # draft context included
    kv_sizes: tuple[KvSize, ...] = ()
    kv: Total | None = None  # of the target context; None: unknown or unreadable, never 0
    draft_kv: Total | None = None
    rs_buffers: tuple[RsBuffer, ...] = ()
    rs_sizes: tuple[RsSize, ...] = ()
    rs: Total | None = None
    buffers: tuple[Buffer, ...] = ()
    exit_table: tuple[TableRow, ...] = ()  # printed when the server ended
    fit_table: tuple[TableRow, ...] = ()  # printed by memory fitting, an estimate
    probed: bool = False  # KV lines of memory fitting's probe were seen and left out
    unreadable: tuple[str, ...] = ()  # `why: line`, of the target context's KV
    unreadable_draft: tuple[str, ...] = ()
    unreadable_rs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # disagreements that a known dialect explains
    exit_status: int | None = None  # of a router's child


class LogFacts(msgspec.Struct, frozen=True):
    """Everything that was read. The properties are those of `load`."""

    load: Load = Load()  # the server's own, or the last loaded of several
    loads: tuple[Load, ...] = ()  # all, where a router or compose mixes several
    build: str | None = None  # `b10434-7e4c0a9`
    verbosity: int | None = None
    cpu_features: str = ""  # `CPU : SSE3 = 1 | AVX512 = 1 | ...`
    launches: tuple[SlotLaunch, ...] = ()
    timings: tuple[SlotTiming, ...] = ()
    reuses: tuple[PromptReuse, ...] = ()
    requests: int = 0  # whose timings were printed, kept above or not
    cache_state: CacheState | None = None
    events: tuple[SlotEvent, ...] = ()  # the last 100,000 at most; of one large read, of its end
    # of the whole log: checkpoints, shifts, truncations, re-evaluations, and what the host cache
    # did, by kind; `truncated` with replies cut short, `kv_full` where a batch found no room
    event_counts: dict[str, int] = {}
    prompt_cache: bool | None = None  # whether the host prompt cache is on; None: not told
    checkpoint_limit: int | None = None  # context checkpoints a slot may keep; None: not told
    # `batch-size`, `ubatch-size`, `flash-attn` (on, off, auto) of the target context as printed
    context_flags: dict[str, str] = {}
    crash: Crash | None = None
    backtrace: tuple[str, ...] = ()  # of the crash, innermost frame first, if one was printed
    failure: LogFailure | None = None
    forced_stop: bool = False  # a second interrupt ended it at once; not a crash
    error_lines: tuple[str, ...] = ()  # the last that report an error, without prefixes
    warnings: int = 0  # lines of level W among the last 64 KiB
    warning_lines: tuple[str, ...] = ()  # the last of these, each once, without prefixes
    last_lines: tuple[str, ...] = ()  # the last of all, without prefixes
    bytes_read: int = 0

    @property
    def kv_buffers(self) -> tuple[KvBuffer, ...]:
        """Each `KV buffer size` line of the last load."""
        return self.load.kv_buffers

    @property
    def kv_sizes(self) -> tuple[KvSize, ...]:
        """Each KV size line of the last load."""
        return self.load.kv_sizes

    @property
    def kv_total(self) -> Total | None:
        """KV of the target context; None: unknown or unreadable, never 0."""
        return self.load.kv

    @property
    def draft_kv_total(self) -> Total | None:
        """KV of the draft context."""
        return self.load.draft_kv

    @property
    def rs_buffers(self) -> tuple[RsBuffer, ...]:
        """Each `RS buffer size` line of the last load."""
        return self.load.rs_buffers

    @property
    def rs_total(self) -> Total | None:
        """Recurrent state of the target context."""
        return self.load.rs

    @property
    def kv_types(self) -> dict[str, str]:
        """Flag -> the type that each KV cache has, where the last load's size lines tell it.

        `cache-type-k`, `cache-type-v`, and of a draft model `cache-type-k-draft`,
        `cache-type-v-draft`; caches that differ are joined by commas. Indexer caches, whose type
        is the model's, and values that take no memory (MLA) are left out.
        """
        found: dict[str, dict[str, None]] = {}
        for size in self.kv_sizes:
            if size.cache not in ("", "full", "swa"):
                continue
            draft = "-draft" if size.context == "draft" else ""
            for part, kind, mib in (("k", size.k_type, size.k_mib), ("v", size.v_type, size.v_mib)):
                if kind is not None and mib:
                    found.setdefault(f"cache-type-{part}{draft}", {})[kind.lower()] = None
        return {flag: ", ".join(kinds) for flag, kinds in found.items()}

    @property
    def n_slots(self) -> int | None:
        """Number of slots."""
        return self.load.n_slots

    @property
    def n_ctx_slot(self) -> int | None:
        """Context of one slot, in tokens."""
        return self.load.n_ctx_slot

    @property
    def kv_unified(self) -> bool | None:
        """Whether all slots share one KV cache."""
        return self.load.kv_unified

    @property
    def listening(self) -> str | None:
        """URL of the server; a router's own where there is one."""
        for load in self.loads:
            if load.instance == "" and load.listening:
                return load.listening
        return self.load.listening

    @property
    def probed(self) -> bool:
        """Whether KV lines of memory fitting's probe were seen and left out."""
        return self.load.probed

    @property
    def unreadable(self) -> tuple[str, ...]:
        """What looked like KV or recurrent state and could not be read, each `why: line`."""
        load = self.load
        return load.unreadable + load.unreadable_draft + load.unreadable_rs

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that hold model, KV, recurrent state or compute buffers, as first printed."""
        load = self.load
        held = [b.device for b in load.buffers if b.kind in ("model", "compute")]
        held += [b.device for b in load.kv_buffers]
        held += [b.device for b in load.rs_buffers]
        return tuple(dict.fromkeys(name for name in held if name))
