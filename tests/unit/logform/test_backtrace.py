"""Backtraces in every form that llama.cpp's abort handler has: only frames, innermost first."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.logform.backtrace import read_backtrace
from benchsuite.logform.reader import LogReader

FIXTURES = Path(__file__).parents[2] / "fixtures" / "backtraces"


def told(name: str) -> tuple[str, ...]:
    """The backtrace in a log made with build 10434."""
    reader = LogReader()
    reader.feed((FIXTURES / name).read_bytes())
    facts = reader.finish()
    assert facts.crash is not None
    assert facts.crash.expression == "n_outputs_max <= cparams.n_outputs_max"
    return facts.backtrace


def test_gdb_tells_functions_and_libraries() -> None:
    """The handler's own frames and gdb's noise are left out; `??` of a stripped program stays."""
    frames = told("gdb.txt")
    assert frames[0] == "llama_context::output_reserve(int) (libllama.so.0)"
    assert frames[-1] == "??"
    assert len(frames) == 11
    assert "__libc_start_call_main" in frames[-3]


def test_the_c_library_tells_symbols_as_they_are() -> None:
    """Without a debugger the names are mangled, and a static function has none."""
    frames = told("glibc.txt")
    assert frames[0] == "? (libllama.so.0)"
    assert frames[1] == "_ZN13llama_contextC1ERK11llama_model20llama_context_params (libllama.so.0)"
    assert frames[-1] == "? (llama-server)"


@pytest.mark.parametrize(
    ("lines", "frames"),
    [
        (
            [
                "#0  0x00007f12 in __GI_raise (sig=6) at raise.c:50",
                "#1  0x00007f13 in ggml_abort (file=0x1, line=165) at /src/ggml.c:255",
                "#2  ggml_cuda_op_concat (ctx=..., dst=0x5) at /src/ggml-cuda/concat.cu:165",
                "165\t    GGML_ASSERT(src0->type == GGML_TYPE_F32);",
            ],
            ["ggml_cuda_op_concat (ctx=..., dst=0x5) at /src/ggml-cuda/concat.cu:165"],
        ),
        (
            [
                "* thread #1, name = 'llama-server', stop reason = signal SIGSTOP",
                "  * frame #0: 0x00007fd libc.so.6`__wait4 + 87",
                "    frame #1: 0x00007fe libggml-base.so`ggml_abort + 338",
                "    frame #2: 0x00007ff libllama.so`llama_decode at llama.cpp:12:3",
                "    frame #3: 0x00007fa llama-server`main + 21",
            ],
            ["llama_decode at llama.cpp:12:3", "main + 21 (llama-server)"],
        ),
        (
            [
                "0   libggml-base.dylib     0x0000000102a3c6d8 ggml_print_backtrace + 276",
                "1   libggml-base.dylib     0x0000000102a3c8c4 ggml_abort + 156",
                "2   libllama.dylib         0x0000000102b1c8c4 llama_decode + 20",
            ],
            ["llama_decode (libllama.dylib)"],
        ),
        (["0: 0x7a12 ggml_abort", "1: 0x7a13 llama_decode", "2: 0x7a14 "], ["llama_decode", "?"]),
        (["srv  update_slots: all slots are idle", "# a comment", "0: a list"], []),
    ],
)
def test_other_forms(lines: list[str], frames: list[str]) -> None:
    """gdb with sources, lldb, macOS, Android; a log without a backtrace has none."""
    assert list(read_backtrace(lines)) == frames


@given(st.lists(st.text(max_size=80)))
def test_any_text_is_read(lines: list[str]) -> None:
    """Whatever a log holds, nothing is raised."""
    assert all(isinstance(frame, str) for frame in read_backtrace(lines))


def test_a_log_without_a_crash_has_no_backtrace() -> None:
    """Lines that look like frames mean nothing while the server lives."""
    reader = LogReader()
    reader.feed(b"#0  0x00007f12 in main ()\n")
    assert reader.finish().backtrace == ()
