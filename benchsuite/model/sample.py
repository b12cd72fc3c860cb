"""What a load sends that was read from a file: chats, prompts, timed requests; no I/O."""

from __future__ import annotations

from typing import Literal

import msgspec

DatasetFormat = Literal["messages", "sharegpt"]
"""Chats: a line each in the form of OpenAI's API, or one array of ShareGPT's form."""

TraceFormat = Literal["mooncake", "prompts"]
"""Timed requests, a line each: by hashes of their blocks, or with their prompts."""

MOONCAKE_BLOCK = 512
"""Tokens behind one hash id (Mooncake's published traces, FAST 25)."""

MOST_ROWS = 100_000
"""Rows of one sample; all are kept while the load runs."""

MOST_TEXT = 256 * 1024 * 1024
"""Characters of one sample."""

ROLES = ("system", "user", "assistant")
"""Who may have said a message."""


class DatasetSpec(msgspec.Struct, frozen=True):
    """Where the requests of a load come from, as the scenario says it."""

    file: str  # as written: from the scenario file's folder, with forward slashes
    format: DatasetFormat | TraceFormat
    sample: int | None = None  # of a dataset: drawn by `seed`; of a trace: its first; None: all
    seed: int = 0  # of drawing and order
    order: Literal["drawn", "file"] = "drawn"  # of a dataset; a trace has its own
    ask: Literal["first", "last"] = "last"  # which of a chat's user messages is the last one sent
    min_chars: int = 0  # of all text of a request
    max_chars: int | None = None
    skip_bad: int = 0  # so many lines may be unusable
    speed: float = 1.0  # of a trace: 2 sends twice as fast
    block: int = MOONCAKE_BLOCK  # tokens made for one hash id; lengths scale with it
    line: int = 0

    @property
    def is_timed(self) -> bool:
        """Whether it says when each request arrives."""
        return self.format in ("mooncake", "prompts")


class Message(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: str  # one of `ROLES`
    content: str


class Row(msgspec.Struct, frozen=True):
    """One request of a file. Exactly one of `messages`, `prompt` and `blocks` is given."""

    number: int  # of the line, or of the array's element, from 1
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    blocks: tuple[int, ...] = ()  # hash ids; equal ones stand for equal text
    input_tokens: int | None = None  # of `blocks`, as the file says
    max_tokens: int | None = None  # output limit; None leaves it to the step
    at_ns: int | None = None  # of a trace: from the first kept row's arrival, as the file says

    @property
    def chars(self) -> int:
        """Characters of its text; 0 where the text is yet to be made."""
        return len(self.prompt or "") + sum(len(message.content) for message in self.messages)

    def tokens_at(self, block: int) -> int | None:
        """Prompt tokens where a hash id stands for `block` tokens; None where text decides."""
        if self.input_tokens is None:
            return None
        whole = len(self.blocks) - 1
        last = self.input_tokens - whole * MOONCAKE_BLOCK
        return whole * block + max(1, round(last * block / MOONCAKE_BLOCK))

    def output_at(self, block: int) -> int | None:
        """The output limit, which scales with the blocks of a trace that has them."""
        if self.max_tokens is None or not self.blocks:
            return self.max_tokens
        return max(1, round(self.max_tokens * block / MOONCAKE_BLOCK))


class Sample(msgspec.Struct, frozen=True):
    """What was read of one file and taken."""

    spec: DatasetSpec
    sha256: str  # of the file's bytes as they lie on disk
    rows: tuple[Row, ...]  # in the order of sending
    seen: int  # requests in the file that could be used, filters not counted
    filtered: int = 0  # of them left out by their length
    bad: int = 0  # lines or elements that could not be used
    first_bad: str = ""  # why, with its place; empty where all could

    @property
    def lacking(self) -> str:
        """That a sample asked for more requests than there are; empty where it did not."""
        asked, there = self.spec.sample, self.seen - self.filtered
        if asked is None or asked <= there:
            return ""
        return f"'sample: {asked}' asks for more requests than {self.spec.file} has: {there}"

    @property
    def counts(self) -> str:
        """What was taken of what."""
        words = f"{len(self.rows)} of {self.seen} requests of {self.spec.file}"
        if self.filtered:
            words += f", {self.filtered} left out by their length"
        if self.bad:
            words += f", {self.bad} unusable"
        return words

    @property
    def words(self) -> str:
        """What was taken of what, and why some could not be."""
        return self.counts + (f" (the first: {self.first_bad})" if self.bad else "")
