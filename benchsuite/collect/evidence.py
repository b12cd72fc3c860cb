"""What is known of requests and of the server when a re-evaluation is to be explained."""

from __future__ import annotations

import msgspec

from benchsuite.collect.timeline import Task


class Tokens(msgspec.Struct, frozen=True):
    """Token ids, and the text of each."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]


class Request(msgspec.Struct, frozen=True):
    """One request that was served, as far as it is known."""

    labels: dict[str, str]
    words: str  # `turn 2 of session A`
    cached: int | None
    prompt_tokens: int | None
    prompt: Tokens | None = None  # None: not known
    left: Tokens | None = None  # prompt and reply but for its last token; None: not known exactly
    slot: int | None = None  # that served
    wanted_slot: int | None = None  # that it was pinned to
    task: Task | None = None  # in the log
    cache_prompt: bool | None = None  # as the request said; None: it did not
    truncated: bool = False  # the reply was cut or the context shifted
    sent_ns: int = 0
    end_ns: int = 0
    untold: str = ""  # why its tokens are not known


class Server(msgspec.Struct, frozen=True):
    """What matters of the server; None where it is not known."""

    cache_prompt: bool | None = None  # by its flags
    host_cache: bool | None = None
    checkpoint_limit: int | None = None
    context_shift: bool | None = None  # by its flags
    attention: str | None = None  # full, sliding_window, recurrent, hybrid
    log: bool = False  # whether its log was read
    verbosity: int | None = None
    foreign: bool = False  # whether others use it too
