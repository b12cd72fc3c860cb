"""Why a server could not start, and which lines report an error.

The most specific line is the reason: every failed load also ends in `exiting due to model loading
error`, whatever stopped it (seen in builds 10068 to 11434).
"""

from __future__ import annotations

import re
from collections import deque
from typing import Literal

from benchsuite.logform.facts import LogFailure
from benchsuite.logform.lines import Line, is_prose

Kind = Literal["flag", "port", "kv_memory", "device_memory", "configuration", "model"]

_RULES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "flag",
        re.compile(
            r"error: (?:invalid|unknown|unrecognized) (?:argument|option)"
            r"|error while handling (?:argument|environment variable)"
            r"|argument has been removed"
        ),
    ),
    ("port", re.compile(r"couldn't bind|[Aa]ddress already in use|failed to bind")),
    (
        "kv_memory",
        re.compile(r"failed to allocate .*\bkv\b|kv_cache_init\(\) failed", re.IGNORECASE),
    ),
    (
        "device_memory",
        re.compile(
            r"out of memory|ErrorOutOf(?:Device|Host)Memory|insufficient memory"
            r"|failed to allocate (?:compute|.*\bbuffer)|unable to allocate \S+ buffer"
        ),
    ),
    (
        "configuration",
        re.compile(r"requires flash_attn|failed to initialize the context: "),
    ),
    ("model", re.compile(r"failed to open GGUF|invalid magic|bad magic")),
    ("model", re.compile(r"error loading model")),
    ("model", re.compile(r"(?:failed|unable) to load (?:the )?model|due to model loading error")),
)
"""In order: an earlier rule's line is nearer to the cause."""

_ONLY_FITTING = "while trying to fit params"
_LOADING = frozenset({"kv_memory", "device_memory", "configuration", "model"})
_ERROR = re.compile(
    r"\b(?:error|failed|failure|fatal|aborted|aborting|exception|insufficient|couldn't|unable"
    r"|terminate called|Assertion)\b|GGML_ASSERT",
    re.IGNORECASE,
)
_LINES = 20

FAILURE_MARKS = (
    b"rror",
    b"ailed",
    b"E ",
    b"ERR",
    b"couldn't",
    b"memory",
    b"requires",
    b"magic",
    b"unable",
    b"ddress already",
    b"has been removed",
    b"bort",
    b"xception",
    b"atal",
    b"nsufficient",
)
"""One of these is in every line that `FailureReader` can use."""

_REMOVE = re.compile(r"\s+$")


class FailureReader:
    """Gathers error lines and the reason of a failed start from lines in the order of the log."""

    def __init__(self) -> None:
        self.errors: deque[str] = deque(maxlen=_LINES)
        self._found: dict[int, LogFailure] = {}

    def take(self, line: Line, *, serving: bool) -> None:
        """Read a line.

        Args:
            line: Any line.
            serving: The server that printed it has loaded its model: what it reports from then on
                is no failed load.
        """
        if line.level in ("I", "D", "T"):
            return
        text = _REMOVE.sub("", line.text)
        told = line.level == "E" or text.startswith("error") or "GGML_ASSERT" in text
        if is_prose(text) and not told:
            return
        is_error = _ERROR.search(text) is not None
        if (line.level == "E" or is_error) and text:
            self.errors.append(text)
        if _ONLY_FITTING in text:
            return
        for rank, (kind, pattern) in enumerate(_RULES):
            if pattern.search(text) and not (serving and kind in _LOADING):
                if rank not in self._found:
                    self._found[rank] = LogFailure(kind, text.strip())
                return

    @property
    def failure(self) -> LogFailure | None:
        """The reason nearest to the cause; None where nothing failed."""
        return self._found[min(self._found)] if self._found else None
