"""The server's log is deleted, cut, flooded, or no text."""

from __future__ import annotations

from functools import partial

from tests.faults.faulty import MEASURED, fault

_log = partial(fault, "the log is no log")
_harmless = partial(_log, says=r"PASS +small", code=0)
_UNLOGGED = tuple(what for what in MEASURED if what != "log")

FAULTS = (
    _harmless("log-deleted", "the log is deleted", keeps=_UNLOGGED),
    _harmless("log-truncated", "the log is cut to 0 bytes"),
    _harmless("log-rotated", "the log is moved away, another is in its place"),
    _harmless("log-floods", "50 MB/s for 4 s", slow=True),
    _log(
        "log-outgrows-the-cap", "the log grows beyond 1 GiB", "its log outgrew 1024 MiB", slow=True
    ),
    _harmless("log-not-utf8", "128 KB that are no UTF-8"),
    _harmless("log-of-nul-bytes", "1 MiB of NUL bytes"),
    _harmless("log-line-without-end", "a line of 100 MB that does not end"),
    _harmless("log-in-colours", "colours, and codes that clear a screen"),
    _log(
        "log-colours-then-dies",
        "a GGML_ASSERT in red, then abort",
        r"aborted: .*GGML_ASSERT\(n == 1\) failed",
    ),
    _harmless("log-goes-back-in-time", "timestamps that go backwards"),
    _harmless("log-repeats-a-start", "a line says that another model is loaded"),
)
