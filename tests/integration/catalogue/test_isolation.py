"""Concurrent conversations with secrets: healthy servers keep them apart, others are caught."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk, lying, wrapper

pytestmark = pytest.mark.server


def test_a_healthy_server_passes(desk: Desk) -> None:
    """In every KV layout; each conversation says its own secret, so that a leak would show."""
    done = desk.run("run", "isolation", "--server", "embedded")
    assert done.code == 0, done.text
    record = desk.last_record()
    said = {
        m["labels"]["session"]: m["value"]
        for m in record["measurements"]
        if m["name"] == "text" and m["labels"]["turn"] == "1" and m["variant"] == "B"
    }
    secrets = {"A": "bebo", "B": "dazo", "C": "kise", "D": "kuni", "E": "rama", "F": "soku"}
    assert all(secret in said[session].split() for session, secret in secrets.items()), said


@pytest.mark.parametrize(
    ("lie", "gate", "why"),
    [
        ("leak", "leaks", "the reply has the secret of session"),
        ("excess", "excess_cached_tokens", "is 7 tokens, but must be 0 tokens"),
        ("refuses", "requests_failed", "is 4, but must be 0"),
        ("tells", "leaks", "request 1 of load others: the reply has the secret of session A"),
        ("empty", "own_secrets", "is 0, but must be 1"),
    ],
)
def test_a_server_that_mixes_conversations_is_caught(
    desk: Desk, lie: str, gate: str, why: str
) -> None:
    """Another's reply, tokens that nothing had left, and requests that fail."""
    server = lying(desk.folder / "llama-server", lie)
    done = desk.run("run", "isolation", "--variant", "B", "--server", str(server))
    assert done.code == 1, done.text
    assert gate in done.text
    assert why in done.text


def test_another_choice_of_slots_is_let_pass(desk: Desk) -> None:
    """Which slot serves whom is not what this scenario is about."""
    extra = ["--slot-prompt-similarity", "0.9", "--ubatch-size", "64"]
    server = wrapper(desk.folder / "llama-server", extra)
    done = desk.run("run", "isolation", "--variant", "B", "--server", str(server))
    assert done.code == 0, done.text
