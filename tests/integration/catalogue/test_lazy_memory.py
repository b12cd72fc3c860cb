"""Memory that follows use: healthy servers pass, those that keep or do not return it are caught."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk, lying, wrapper

pytestmark = pytest.mark.server


def test_a_healthy_server_passes(desk: Desk) -> None:
    """Growth with use and none while idle; where it unloads, memory comes back."""
    done = desk.run("run", "lazy-memory", "--server", "embedded")
    assert done.code == 0, done.text


@pytest.mark.parametrize(
    ("variant", "extra", "words"),
    [
        # keeps every prompt that a slot drops: the "leak" of many reports
        ("B", ["--cache-ram", "512"], ["at most 3 MiB above snapshot filled"]),
        ("Z", ["--sleep-idle-seconds", "-1"], ["at most -8 MiB above snapshot again"]),
    ],
)
def test_memory_that_is_kept_is_caught(
    desk: Desk, variant: str, extra: list[str], words: list[str]
) -> None:
    """A cache that grows with every prompt, and a server that stays loaded."""
    server = wrapper(desk.folder / "llama-server", extra)
    done = desk.run("run", "lazy-memory", "--variant", variant, "--server", str(server))
    assert done.code == 1, done.text
    for word in words:
        assert word in done.text


def test_one_thread_is_let_pass(desk: Desk) -> None:
    """How fast it works is not what this scenario is about."""
    server = wrapper(desk.folder / "llama-server", ["--threads", "1"])
    done = desk.run("run", "lazy-memory", "--variant", "B", "--server", str(server))
    assert done.code == 0, done.text


def test_memory_that_is_taken_before_any_use_is_caught(desk: Desk) -> None:
    """Whatever comes later grows from there."""
    server = lying(desk.folder / "llama-server", "large")
    done = desk.run("run", "lazy-memory", "--variant", "B", "--server", str(server))
    assert done.code == 1, done.text
    assert "before any request there are weights, an empty cache and little else" in done.text
