"""Ends of servers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.server.ending import describe_end, error_lines, lost_the_port, read_end

ASSERTION = "/src/ggml/src/ggml.c:2529: GGML_ASSERT(ne % (n_batch + 1) == 0) failed"
LOAD = (
    "0.00.008.269 E gguf_init_from_file: failed to open GGUF file 'nope.gguf'",
    "0.00.008.607 E llama_model_load: error loading model: failed to load model from nope.gguf",
    "0.00.008.752 I srv    operator(): operator(): cleaning up before exit...",
    "0.00.011.734 E srv  llama_server: exiting due to model loading error",
)


@pytest.mark.parametrize(
    ("code", "signal", "lines", "expected"),
    [
        (
            None,
            4,
            (),
            (
                "killed by signal 4 (illegal instruction): "
                "built for a CPU with instructions that this one lacks"
            ),
        ),
        (
            132,
            None,
            (),
            (
                "killed by signal 4 (illegal instruction, told as exit code 132 by a wrapper): "
                "built for a CPU with instructions that this one lacks"
            ),
        ),
        (
            None,
            6,
            (ASSERTION,),
            f"aborted: {ASSERTION}",
        ),
        (
            134,
            None,
            (ASSERTION,),
            f"aborted: {ASSERTION}",
        ),
        (None, 6, (), "killed by signal 6 (abort): it printed no assertion"),
        (
            None,
            6,
            ("CUDA error: an illegal memory access was encountered",),
            "aborted: CUDA error: an illegal memory access was encountered",
        ),
        (None, 11, (), "killed by signal 11 (segmentation fault)"),
        (
            None,
            9,
            (),
            (
                "killed by signal 9 (kill): by the out-of-memory killer or by a person; "
                "`dmesg` tells which"
            ),
        ),
        (
            1,
            None,
            LOAD,
            "exited with code 1: gguf_init_from_file: failed to open GGUF file 'nope.gguf'",
        ),
        (
            1,
            None,
            ("error: invalid argument: --nope", "", "to show complete usage, run with -h"),
            "exited with code 1: refused a flag: error: invalid argument: --nope",
        ),
        (
            1,
            None,
            ("0.00.005.061 E srv start: couldn't bind HTTP server socket, hostname: h, port: 1",),
            (
                "exited with code 1: port in use: srv start: couldn't bind HTTP server socket, "
                "hostname: h, port: 1"
            ),
        ),
        (
            127,
            None,
            ("llama-server: error while loading shared libraries: libggml.so: cannot open",),
            (
                "exited with code 127: llama-server: error while loading shared libraries: "
                "libggml.so: cannot open"
            ),
        ),
        (
            1,
            None,
            (
                (
                    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9.00 MiB on device 0: "
                    "cudaMalloc failed: out of memory"
                ),
                "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            ),
            (
                "exited with code 1: ggml_backend_cuda_buffer_type_alloc_buffer: "
                "allocating 9.00 MiB on device 0: cudaMalloc failed: out of memory"
            ),
        ),
        (0, None, (), "exited with code 0 and gave no reason"),
        (3, None, ("0.00.001.000 I all is well",), "exited with code 3 and gave no reason"),
        (0xC000001D, None, (), "ended with 0xc000001d (illegal instruction)"),
        (
            0xC0000409 - 2**32,
            None,
            (ASSERTION,),
            (f"ended with 0xc0000409 (abort): {ASSERTION}"),
        ),
    ],
)
def test_an_end_is_told_with_its_reason(
    code: int | None, signal: int | None, lines: tuple[str, ...], expected: str
) -> None:
    """Exit code or signal first, then what the log says about it."""
    assert describe_end(code, signal, read_end(lines)) == expected


def test_error_lines_are_the_last_ones_each_once() -> None:
    """Levels other than E count only where their words tell of a failure."""
    lines = [
        "\x1b[34m0.00.001.000\x1b[0m \x1b[31mE\x1b[0m srv: first",
        "0.00.002.000 I srv: fine",
        "0.00.003.000 E srv: second",
        "0.00.004.000 E srv: first",
        "error: invalid argument: --x",
    ]
    expected = ("srv: second", "srv: first", "error: invalid argument: --x")
    told = read_end(lines)
    assert error_lines(told) == expected
    assert error_lines(told, most=1) == expected[-1:]


def test_a_lost_port_is_recognised() -> None:
    """By llama-server's own words."""
    words = "E srv start: couldn't bind HTTP server socket, hostname: h"
    assert lost_the_port(read_end(["I a", words]))
    assert not lost_the_port(read_end(["E srv start: something else"]))


@given(
    st.one_of(st.none(), st.integers(-(2**31), 2**32)),
    st.one_of(st.none(), st.integers(1, 64)),
    st.lists(st.text(max_size=80), max_size=5),
)
def test_any_end_is_one_line_of_text(
    code: int | None, signal: int | None, lines: list[str]
) -> None:
    """Whatever a log holds, the sentence is printable and never empty."""
    told = describe_end(code, signal, read_end([line.replace("\n", " ") for line in lines]))
    assert told
