"""A crowd on one prefix: healthy servers keep it for the next one, others are caught."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk, wrapper

pytestmark = pytest.mark.server


def test_a_healthy_server_passes(desk: Desk) -> None:
    """Chosen or spread slots, one KV buffer or several."""
    done = desk.run("run", "shared-pool", "--server", "embedded")
    assert done.code == 0, done.text


@pytest.mark.parametrize(
    ("extra", "variant"),
    [
        (["--slot-prompt-similarity", "0"], "B"),  # joiners are spread, each pays for the prefix
        (["--no-cache-prompt"], "P"),  # what a session leaves is lost
    ],
)
def test_joiners_that_pay_again_are_caught(desk: Desk, extra: list[str], variant: str) -> None:
    """Both by the baseline and by what any build must reuse."""
    server = wrapper(desk.folder / "llama-server", extra)
    done = desk.run("run", "shared-pool", "--variant", variant, "--server", str(server))
    assert done.code == 1, done.text
    assert "changed from 417 tokens to 0 tokens" in done.text
    assert "must be at least 400" in done.text


def test_smaller_batches_are_let_pass(desk: Desk) -> None:
    """How prompts are cut into batches changes nothing that the scenario gates."""
    server = wrapper(desk.folder / "llama-server", ["--ubatch-size", "64"])
    done = desk.run("run", "shared-pool", "--variant", "P", "--server", str(server))
    assert done.code == 0, done.text
