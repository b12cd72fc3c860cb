"""The server dies: while it loads, between requests, in the middle of one, while it stops."""

from __future__ import annotations

from functools import partial

from tests.faults.faulty import BEGUN, fault

_loading = partial(fault, "the server dies while it loads", keeps=BEGUN)
_serving = partial(fault, "the server dies while it serves")

FAULTS = (
    _loading(
        "dies-with-words",
        "exits with code 1 after an error line",
        "exited with code 1: .*tensor 'x' is missing",
    ),
    _loading("dies-without-words", "exits with code 1, prints nothing", "exited with code 1"),
    _loading("leaves-at-once", "exits with code 0", "exited with code 0"),
    _loading(
        "killed-while-loading", "SIGKILL", r"killed by signal 9 \(kill\): by the out-of-memory"
    ),
    _loading("faults-while-loading", "SIGSEGV", r"killed by signal 11 \(segmentation fault\)"),
    _loading(
        "asserts-while-loading",
        "GGML_ASSERT glued to progress dots, then abort",
        r"aborted: .*llama-kv-cache\.cpp:77: GGML_ASSERT\(n_seqs == 1\) failed",
    ),
    _loading(
        "no-memory-of-device",
        "the device's memory is full while loading",
        "out of memory|failed to allocate",
    ),
    _loading("no-memory-of-host", "std::bad_alloc, then abort", "bad_alloc"),
    _serving(
        "dies-before-headers",
        "SIGKILL while it evaluates a prompt",
        "died during turn 2 of session A: killed by signal 9",
    ),
    _serving(
        "dies-mid-stream",
        "SIGKILL after three events of a reply",
        "died during turn 2 of session A: killed by signal 9",
    ),
    _serving(
        "asserts-mid-stream",
        "GGML_ASSERT and abort after three events of a reply",
        r"died during turn 2 of session A: aborted: .*GGML_ASSERT\(n_seqs == 1\) failed",
    ),
    _serving(
        "faults-mid-stream",
        "SIGSEGV after three events of a reply",
        r"died during turn 2 of session A: killed by signal 11 \(segmentation fault\)",
    ),
    _serving(
        "cuda-fails",
        "a CUDA error, then abort",
        "died during turn 2 of session A: aborted: .*illegal memory access",
    ),
    _serving(
        "exits-mid-stream",
        "exits with code 0 after three events of a reply",
        "died during turn 2 of session A: exited with code 0",
    ),
    _serving("dies-after-a-turn", "SIGKILL between two turns", "died during .*killed by signal 9"),
    _serving("dies-after-the-last-turn", "SIGKILL once all was answered", "killed by signal 9"),
    _serving(
        "faults-while-stopping",
        "SIGSEGV when it is asked to stop",
        r"crashed while it was stopped: .*segmentation fault",
    ),
    _serving(
        "asserts-while-stopping",
        "GGML_ASSERT when it is asked to stop",
        r"crashed while it was stopped: .*GGML_ASSERT\(n_seqs == 1\) failed",
    ),
)
