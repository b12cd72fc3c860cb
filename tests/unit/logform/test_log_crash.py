"""One death is one crash, in whatever form and order it was printed."""

from __future__ import annotations

import re

import pytest

from benchsuite.logform.facts import Crash, LogFacts
from benchsuite.logform.reader import LogReader


def read(*lines: str) -> LogFacts:
    reader = LogReader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    return reader.finish()


def crash_of(*lines: str) -> Crash:
    crash = read(*lines).crash
    assert crash is not None
    return crash


def test_the_detail_lines_of_a_cuda_error_may_stand_in_either_order() -> None:
    """The abort line is written directly, the others through a thread."""
    detail = (
        "CUDA error: an illegal memory access was encountered",
        "  current device: 1, in function ggml_backend_cuda_synchronize at /s/ggml-cuda.cu:2780",
        "  cudaStreamSynchronize(cuda_ctx->stream())",
    )
    abort = "/s/ggml-cuda.cu:88: CUDA error"
    assert crash_of(abort, *detail) == crash_of(*detail, abort)
    assert crash_of(*detail) == crash_of(*detail, abort)


def test_an_abort_line_alone_is_a_crash() -> None:
    """Where its details were lost, its own place is what is known."""
    crash = crash_of("/s/ggml-cuda.cu:88: CUDA error")
    assert (crash.kind, crash.file, crash.line) == ("cuda", "/s/ggml-cuda.cu", 88)


def test_other_accelerators_name_themselves() -> None:
    """ROCm and MUSA print the same lines under their own names."""
    crash = crash_of(
        "ROCm error: out of memory",
        "  current device: 0, in function alloc at /s/ggml-cuda.cu:12",
    )
    assert (crash.kind, crash.message, crash.line) == ("cuda", "ROCm error: out of memory", 12)


@pytest.mark.parametrize(
    ("line", "kind", "file", "number"),
    [
        (
            (
                "/usr/include/c++/13/bits/stl_vector.h:1130: reference std::vector<int>::operator[]"
                "(size_type): Assertion '__n < this->size()' failed."
            ),
            "cpp_assertion",
            "/usr/include/c++/13/bits/stl_vector.h",
            1130,
        ),
        (
            "llama-server: src/x.c:9: init: Assertion `ptr != NULL' failed.",
            "cpp_assertion",
            "src/x.c",
            9,
        ),
        ("/s/src/llama-kv-cache.cpp:77: fatal error", "abort", "/s/src/llama-kv-cache.cpp", 77),
        (
            (
                "/s/ggml-backend.cpp:844: pre-allocated tensor (cache_k_l0 (view)) in a buffer "
                "(CUDA0) that cannot run the operation (CPY)"
            ),
            "abort",
            "/s/ggml-backend.cpp",
            844,
        ),
    ],
)
def test_other_aborts_keep_their_place(line: str, kind: str, file: str, number: int) -> None:
    """Assertions of the C and C++ libraries, and any other message of an abort."""
    crash = crash_of(line)
    assert (crash.kind, crash.file, crash.line) == (kind, file, number)


def test_an_uncaught_exception_says_what() -> None:
    """Its type and its message are in one sentence."""
    crash = crash_of(
        "terminate called after throwing an instance of 'std::runtime_error'",
        "  what():  vk::Queue::submit: ErrorDeviceLost",
    )
    assert crash.kind == "exception"
    assert "std::runtime_error" in crash.sentence
    assert "ErrorDeviceLost" in crash.sentence


def test_the_first_of_several_assertions_is_the_cause() -> None:
    """What other threads hit while the process dies is not."""
    crash = crash_of("/s/a.cpp:1: GGML_ASSERT(x) failed", "/s/b.cpp:2: GGML_ASSERT(y) failed")
    assert (crash.expression, crash.line) == ("x", 1)


def test_a_place_and_its_message_may_be_on_different_lines() -> None:
    """Threads interleave."""
    crash = crash_of("/s/a.cpp:17: ", "GGML_ASSERT(n > 0) failed")
    assert (crash.file, crash.line, crash.expression) == ("/s/a.cpp", 17, "n > 0")


def test_an_expression_may_hold_parentheses_and_text() -> None:
    """It ends at the last word of the form, not at the first bracket."""
    crash = crash_of('/s/a.cpp:3: GGML_ASSERT((f(x) > 0) && "no f") failed')
    assert crash.expression == '(f(x) > 0) && "no f"'


def test_a_crash_is_known_after_much_noise() -> None:
    """A debugger prints more than is kept of a log's end."""
    noise = [f"#{n}  0x00007f0000000000 in frame_{n} () from /lib/libc.so.6" for n in range(4000)]
    crash = crash_of("/s/a.cpp:3: GGML_ASSERT(a) failed", *noise)
    assert crash.expression == "a"
    crash = crash_of(
        "CUDA error: misaligned address",
        "  current device: 0, in function f at /s/m.cu:5",
        *noise,
    )
    assert (crash.message, crash.line) == ("CUDA error: misaligned address", 5)


@pytest.mark.parametrize(
    "line",
    [
        "0.00.001.000 E srv  send_error: task id = 3, error: the request exceeds the context size",
        '0.00.001.000 D srv  log_server_r: request: {"prompt": "a.cpp:1: GGML_ASSERT(x) failed"}',
        "0.00.001.000 E ggml_vulkan: Device memory allocation of size 12 failed.",
        "30\t../sysdeps/unix/sysv/linux/wait4.c: No such file or directory.",
        "0.00.001.000 W load: control-looking token: 212 was not control-type",
        "[GIN] 2026/01/02 - 03:04:05 | 500 | error",
    ],
)
def test_error_lines_alone_are_no_crash(line: str) -> None:
    """Nor is what users send about crashes."""
    assert read(line).crash is None


def test_a_sentence_reads_like_the_newest_form() -> None:
    """So that a signature written for it matches older wording too."""
    old = crash_of("GGML_ASSERT: ggml-cuda/concat.cu:60: nb == 4")
    new = crash_of("ggml-cuda/concat.cu:60: GGML_ASSERT(nb == 4) failed")
    assert old == new
    assert re.search(r"concat\.cu:\d+: GGML_ASSERT", old.sentence)


def test_a_child_that_ends_well_is_no_crash() -> None:
    """Status 0 is a normal stop."""
    assert read("0.04.2 I srv run: instance name=m exited with status 0").crash is None


@pytest.mark.parametrize(
    ("lines", "kind", "text"),
    [
        (["error: invalid argument: --nope"], "flag", "--nope"),
        (['error while handling argument "-c": stoi'], "flag", "-c"),
        (
            ["0.1 E ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory"],
            "device_memory",
            "ErrorOutOfDeviceMemory",
        ),
        (
            [
                "0.00.000.001 E gguf_init_from_file_impl: invalid magic characters: 'MZ', expected",
                "0.00.000.002 E llama_model_load: error loading model: failed to load model",
                "0.00.000.003 E srv  llama_server: exiting due to model loading error",
            ],
            "model",
            "invalid magic",
        ),
        (
            [
                "0.00.000.001 E allocating 9.00 MiB on device 0: cudaMalloc failed: out of memory",
                "0.00.000.002 E llama_init_from_model: failed to allocate buffer for kv cache",
                "0.00.000.003 E srv  llama_server: exiting due to model loading error",
            ],
            "kv_memory",
            "kv cache",
        ),
    ],
)
def test_a_failure_is_the_line_nearest_to_its_cause(lines: list[str], kind: str, text: str) -> None:
    """Whatever the last line says."""
    failure = read(*lines).failure
    assert failure is not None
    assert failure.kind == kind
    assert text in failure.text
