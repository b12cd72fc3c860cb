"""context-shift: it passes on a healthy server, and finds a shift that does not happen."""

from __future__ import annotations

import pytest

from tests.integration.conditional import conditional
from tests.integration.desk import Desk, wrapper

pytestmark = pytest.mark.server


def test_it_passes_on_tiny(desk: Desk) -> None:
    """Generation past the end, with and without shifting, in both layouts of KV."""
    done = desk.run("run", "context-shift", "--server", "embedded")
    assert done.code == 0, done.text


def test_a_shift_that_does_not_happen_fails(desk: Desk) -> None:
    """Generation stops where the context ends although shifting was asked for."""
    server = wrapper(desk.folder / "llama-server", ["--no-context-shift"])
    done = desk.run("run", "context-shift", "--variant", "shift", "--server", str(server))
    assert done.code == 1, done.text
    assert "generation must go on to its own limit" in done.text


def test_fewer_threads_change_nothing(desk: Desk) -> None:
    """Both slots are compared within one run."""
    server = wrapper(desk.folder / "llama-server", ["--threads", "1"])
    done = desk.run("run", "context-shift", "--variant", "shift", "--server", str(server))
    assert done.code == 0, done.text


def test_a_unified_cache_that_shifts_otherwise_fails(desk: Desk) -> None:
    """Its text past the shift is held against that of a slot with its own cache."""
    server = conditional(
        desk.folder / "llama-server",
        ["--kv-unified", "--ctx-size 256"],
        ["--rope-freq-base", "3000"],
    )
    done = desk.run("run", "context-shift", "--variant", "shift-u", "--server", str(server))
    assert done.code == 1, done.text
    assert "shifted at the same token, a unified cache must go on as a slot's own does" in done.text
