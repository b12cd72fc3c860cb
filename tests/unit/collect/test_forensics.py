"""What is left of a server: which slot did what, and which request was on it."""

from __future__ import annotations

from benchsuite.collect.forensics import forensics, slot_states
from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader
from benchsuite.model.record import InFlight, ServerEnd, SlotState

LOG = b"""\
0.00.100.000 I srv    load_model: initializing, n_slots = 3, n_ctx_slot = 4096, kv_unified = 'false'
0.01.000.000 I slot launch_slot_: id  0 | task 0 | processing task, is_child = 0
0.01.010.000 I slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, \
task.n_tokens = 670
0.01.500.000 I slot      release: id  0 | task 0 | stop processing: n_tokens = 685, truncated = 0
0.02.000.000 I slot launch_slot_: id  1 | task 17 | processing task, is_child = 0
0.02.010.000 I slot update_slots: id  1 | task 17 | new prompt, n_ctx_slot = 4096, n_keep = 0, \
task.n_tokens = 1330
/src/ggml/src/ggml-cuda/concat.cu:165: GGML_ASSERT(src0->type == GGML_TYPE_F32) failed
"""


def read(text: bytes = LOG) -> LogFacts:
    """The facts of a log."""
    reader = LogReader()
    reader.feed(text)
    return reader.finish()


def test_slots_are_idle_busy_or_unused() -> None:
    """The last lines about each slot decide."""
    assert slot_states(read()) == (
        SlotState(0, 0, False, 670),
        SlotState(1, 17, True, 1330),
        SlotState(2),
    )


def test_one_request_is_on_the_one_busy_slot() -> None:
    """Its slot and prompt are the slot's; the assertion is in parts and in one line."""
    left = forensics(read(), ServerEnd(signal=6), [({"session": "A", "turn": "2"}, None)])
    assert left is not None
    assert left.in_flight == (InFlight({"session": "A", "turn": "2"}, None, 1, 1330),)
    assert (left.signal, left.exit_code, left.kind, left.line) == (6, None, "assertion", 165)
    assert left.file == "/src/ggml/src/ggml-cuda/concat.cu"
    assert left.expression == "src0->type == GGML_TYPE_F32"
    assert left.crash == f"{left.file}:165: GGML_ASSERT({left.expression}) failed"


def test_of_several_requests_only_a_pinned_one_is_placed() -> None:
    """Which of two is on the busy slot is not known, unless one asked for it."""
    asked = [({"session": "A", "turn": "2"}, None), ({"session": "B", "turn": "2"}, 1)]
    left = forensics(read(), None, asked)
    assert left is not None
    assert [(one.slot, one.prompt_tokens) for one in left.in_flight] == [(None, None), (1, 1330)]


def test_a_cuda_error_names_device_and_function() -> None:
    """The lines of a CUDA error give both."""
    log = (
        b"ggml_cuda_error: CUDA error: an illegal memory access was encountered\n"
        b"  current device: 1, in function ggml_backend_cuda_synchronize at ggml-cuda.cu:3206\n"
        b"  cudaStreamSynchronize(cuda_ctx->stream())\n"
        b"/src/ggml-cuda.cu:102: CUDA error\n"
    )
    left = forensics(read(log), ServerEnd(signal=6), ())
    assert left is not None
    assert (left.kind, left.device, left.function) == ("cuda", 1, "ggml_backend_cuda_synchronize")


def test_nothing_left_is_none() -> None:
    """An empty log of a server that still runs leaves nothing."""
    assert forensics(LogFacts(), None, ()) is None
