"""`m0-single-session`: passes on healthy servers, finds faults that only a slot besides 0 shows."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk, wrapper

pytestmark = pytest.mark.server

SCENARIO = "m0-single-session"
ASSERTION = (
    "/src/llama-kv-cache.cpp:1042: GGML_ASSERT(stream_id < (uint32_t) v_cells.size()) failed"
)


def test_a_healthy_server_passes(desk: Desk) -> None:
    """Every slot serves as slot 0 does, with a KV buffer for each and with one for all."""
    done = desk.run("run", SCENARIO)
    assert done.code == 0, done.text
    assert "26 gates passed" in done.text


def test_a_crash_on_another_slot_is_found(desk: Desk) -> None:
    """A server that asserts once any slot but 0 serves fails in the very first turn."""
    server = wrapper(desk.folder / "llama-server", [], abort_on=(r"launch_slot_: id +3", ASSERTION))
    done = desk.run("run", SCENARIO, "--server", str(server), "--variant", "B")
    assert done.code == 4, done.text
    assert "died during turn 1 of session S3" in done.text
    assert "llama-kv-cache.cpp:1042: GGML_ASSERT" in done.text


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--cache-type-k", "q8_0"], ["kv_mib"]),
        (["--no-cache-prompt"], ["cached_tokens"]),
    ],
)
def test_a_changed_server_does_not_pass(desk: Desk, extra: list[str], words: list[str]) -> None:
    """Other KV memory and lost reuse fail, by name."""
    server = wrapper(desk.folder / "llama-server", extra)
    done = desk.run("run", SCENARIO, "--server", str(server), "--variant", "B")
    assert done.code == 1, done.text
    for word in words:
        assert word in done.text


def test_other_threads_and_batches_change_nothing(desk: Desk) -> None:
    """How the same sums are split up is no regression."""
    server = wrapper(desk.folder / "llama-server", ["--threads", "1", "--ubatch-size", "128"])
    done = desk.run("run", SCENARIO, "--server", str(server))
    assert done.code == 0, done.text
