"""Lines that a server prints once, while it starts."""

from __future__ import annotations

import pytest

from benchsuite.logform.reader import LogReader
from benchsuite.logform.start import parse_context


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("llama_context: n_ubatch              = 64", ("ubatch-size", "64")),
        ("llama_context: flash_attn            = auto", ("flash-attn", "auto")),
        ("llama_context: flash_attn            = disabled", ("flash-attn", "off")),
        ("llama_new_context_with_model: n_batch    = 512", ("batch-size", "512")),
        ("llama_new_context_with_model: flash_attn = 1", ("flash-attn", "on")),
        ("llama_context: n_ctx                 = 8192", None),
        ("srv  decode: retrying with smaller batch size, off = 564, n_batch = 12, ret = 1", None),
    ],
)
def test_flags_of_a_context_are_read(text: str, wanted: tuple[str, str] | None) -> None:
    """In the forms of builds of 2024 and of today; nothing else is taken for one."""
    assert parse_context(text) == wanted


def test_the_target_context_counts_and_not_the_drafts() -> None:
    """It is made first; what users send later is not read."""
    log = """\
0.00.023.519 I llama_context: n_batch               = 256
0.00.023.534 I llama_context: n_ubatch              = 64
0.00.023.567 I llama_context: flash_attn            = enabled
0.00.033.519 I llama_context: n_batch               = 2048
0.00.033.534 I llama_context: n_ubatch              = 512
0.00.033.567 I llama_context: flash_attn            = auto
"""
    reader = LogReader()
    reader.feed(log.encode())
    wanted = {"batch-size": "256", "ubatch-size": "64", "flash-attn": "on"}
    assert reader.finish().context_flags == wanted
