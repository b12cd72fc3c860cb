"""Prompts that a real server evaluates again, and why: each cause is brought about for real."""

from __future__ import annotations

from typing import Any

import pytest

from benchsuite.model.tiny_words import TINY_WORDS
from tests.integration.desk import Desk, real_servers
from tests.integration.foreign_server import launched

pytestmark = pytest.mark.server

_HEAD = """\
title: {name}
server:
  parallel: {{exact: 2}}
  ctx-size: {{exact: {cells}}}
  cache-ram: {{default: 64}}
variants:
  V: {{flags: {{{flags}}}}}
"""
_GATE = "gates:\n  - {{metric: 'cached_tokens{{{labels}}}', equals: 10000}}\n"


def reevaluations(
    desk: Desk,
    steps: str,
    labels: str,
    *,
    flags: str = "",
    cells: int = 2048,
    server: str = "embedded",
    more: tuple[str, ...] = (),
) -> tuple[str, list[dict[str, Any]]]:
    """What a run of these steps prints, and what its record holds of re-evaluations.

    A gate on the request with these labels always fails.
    """
    text = _HEAD.format(name="again", cells=cells, flags=flags) + steps
    (desk.folder / "again.yaml").write_text(text + _GATE.format(labels=labels))
    chosen = () if "--url" in more else ("--server", server)
    done = desk.run("run", "again.yaml", *chosen, *more)
    assert done.code == 1, done.text
    return done.text, desk.last_record()["launches"][0]["reevaluations"]


def _words(count: int, seed: int) -> str:
    """So many words, one token each on the tiny model."""
    return " ".join(TINY_WORDS[(seed * 31 + i * 7) % len(TINY_WORDS)] for i in range(count))


_TWO_TURNS = """\
sessions:
  A: {system: {tokens: 200, seed: 1}}
steps:
  - turn: {session: A, user: {tokens: 20, seed: 11}, max_tokens: 8}
  - turn: {session: A, user: {tokens: 20, seed: 12}, max_tokens: 8}
"""
_THREE_SESSIONS = """\
sessions:
  A: {system: {tokens: 200, seed: 1}}
  B: {system: {tokens: 200, seed: 2}}
  C: {system: {tokens: 200, seed: 3}}
steps:
  - turn: {session: A, user: {tokens: 20, seed: 11}, max_tokens: 8}
  - turn: {session: B, user: {tokens: 20, seed: 12}, max_tokens: 8}
  - turn: {session: C, user: {tokens: 20, seed: 13}, max_tokens: 8}
  - turn: {session: A, user: {tokens: 20, seed: 14}, max_tokens: 8}
"""
_SHARED_SYSTEM = """\
sessions:
  A: {system: {tokens: 200, seed: 1}}
  B: {system: {tokens: 200, seed: 1}}
steps:
  - turn: {session: A, user: {tokens: 40, seed: 11}, max_tokens: 8}
  - turn: {session: B, user: {tokens: 40, seed: 12}, max_tokens: 8}
  - turn: {session: A, user: {tokens: 40, seed: 13}, max_tokens: 8}
"""
_AN_IDLE_TIME_BETWEEN = """\
sessions:
  A: {system: {tokens: 200, seed: 1}}
steps:
  - turn: {session: A, user: {tokens: 20, seed: 11}, max_tokens: 8}
  - idle: 3
  - turn: {session: A, user: {tokens: 20, seed: 12}, max_tokens: 8}
"""
_SLOT_1_AFTER_0 = """\
steps:
  - complete: {id: one, prompt: {tokens: 100, seed: 1}, slot: 0, max_tokens: 4}
  - complete: {id: two, prompt: {tokens: 100, seed: 1}, slot: 1, max_tokens: 4}
"""


@pytest.mark.parametrize("server", real_servers())
def test_another_slot_by_age(desk: Desk, server: str) -> None:
    """Without similarity the least recently used slot serves turn 2, and the gate says so."""
    flags = 'slot-prompt-similarity: "0", cache-ram: "0"'
    labels = 'session="A",turn="2"'
    text, found = reevaluations(desk, _TWO_TURNS, labels, flags=flags, server=server)
    assert [one["cause"] for one in found] == ["another slot was chosen"]
    assert found[0]["cached"] < 20 < 200 < found[0]["common_prefix"]
    assert "another slot was chosen (least recently used): slot 0; slot 1 held" in text
    assert any("selected slot by LRU" in line for line in found[0]["evidence"])


@pytest.mark.parametrize("server", real_servers())
def test_a_server_that_slept_in_between(desk: Desk, server: str) -> None:
    """It unloads the model when idle, and loads it anew with empty slots."""
    labels = 'session="A",turn="2"'
    flags = 'sleep-idle-seconds: "1"'
    text, found = reevaluations(desk, _AN_IDLE_TIME_BETWEEN, labels, flags=flags, server=server)
    assert [one["cause"] for one in found] == ["model loaded again"]
    assert found[0]["cached"] < 20 < 200 < found[0]["common_prefix"]
    assert "as it does when it wakes from sleep" in " ".join(text.split())


@pytest.mark.parametrize("server", real_servers())
def test_a_request_pinned_to_an_empty_slot(desk: Desk, server: str) -> None:
    """The very prompt is in slot 0; slot 1, to which the request is pinned, was empty."""
    text, found = reevaluations(desk, _SLOT_1_AFTER_0, 'request="two"', server=server)
    assert [one["cause"] for one in found] == ["pinned to an empty slot"]
    assert (found[0]["cached"], found[0]["common_prefix"]) == (0, 101)
    assert "pinned to slot 1, which was empty; slot 0 held 101 of its tokens" in text


@pytest.mark.parametrize("server", real_servers())
def test_the_host_cache_is_off(desk: Desk, server: str) -> None:
    """Three sessions over two slots: the first session's tokens are nowhere any more."""
    labels = 'session="A",turn="2"'
    text, found = reevaluations(
        desk, _THREE_SESSIONS, labels, flags='cache-ram: "0"', server=server
    )
    assert [one["cause"] for one in found] == ["host cache off"]
    assert "until turn 1 of session C (least recently used) took it" in text
    assert "the host prompt cache is off (--cache-ram 0)" in text


def test_the_host_cache_is_full(desk: Desk) -> None:
    """The same with room for one prompt in the host cache: it holds another by then."""
    labels = 'session="A",turn="2"'
    text, found = reevaluations(desk, _THREE_SESSIONS, labels, flags='cache-ram: "1"')
    assert [one["cause"] for one in found] == ["host cache full"]
    assert "the host prompt cache was full and dropped it" in text
    assert any("removing oldest entry" in line for line in found[0]["evidence"])


def test_the_host_cache_has_room(desk: Desk) -> None:
    """The same with a host cache large enough: everything is reused, and nothing is to be told."""
    _, found = reevaluations(desk, _THREE_SESSIONS, 'session="A",turn="2"')
    assert found == []


@pytest.mark.parametrize("server", real_servers())
def test_similarity_gives_a_slot_to_another_session(desk: Desk, server: str) -> None:
    """Session B shares a large prefix, so it gets A's slot; A's own turn is lost there."""
    labels = 'session="A",turn="2"'
    text, found = reevaluations(desk, _SHARED_SYSTEM, labels, server=server)
    assert [(one["labels"]["session"], one["cause"]) for one in found] == [
        ("B", "first difference"),
        ("A", "slot overwritten"),
    ]
    assert 200 <= found[1]["cached"] < found[1]["common_prefix"]
    assert "until turn 1 of session B (similarity 0." in text


def test_cache_prompt_off_by_the_server(desk: Desk) -> None:
    """A flag of the server turns the prompt cache off."""
    labels = 'session="A",turn="2"'
    text, found = reevaluations(desk, _TWO_TURNS, labels, flags='cache-prompt: "off"')
    assert [one["cause"] for one in found] == ["cache_prompt off"]
    assert "the server was started with --no-cache-prompt" in text


def test_cache_prompt_off_by_the_request(desk: Desk) -> None:
    """A field of the request does the same for itself."""
    steps = (
        "steps:\n"
        "  - complete: {id: one, prompt: {tokens: 100, seed: 1}, max_tokens: 4}\n"
        "  - complete: {id: two, prompt: {tokens: 100, seed: 1}, max_tokens: 4, "
        "request: {cache_prompt: false}}\n"
    )
    text, found = reevaluations(desk, steps, 'request="two"')
    assert [one["cause"] for one in found] == ["cache_prompt off"]
    assert "the request says `cache_prompt: false`" in text


def test_the_first_difference(desk: Desk) -> None:
    """Where a prompt differs from what was left, the token is named and shown in context."""
    first = _words(60, 1).split()
    second = [*first[:40], "other", *first[41:]]
    steps = (
        "steps:\n"
        f"  - complete: {{id: one, prompt: {{text: '{' '.join(first)}'}}, max_tokens: 4}}\n"
        f"  - complete: {{id: two, prompt: {{text: '{' '.join(second)}'}}, max_tokens: 4}}\n"
    )
    text, found = reevaluations(desk, steps, 'request="two"')
    assert [one["cause"] for one in found] == ["first difference"]
    assert found[0]["cached"] == found[0]["common_prefix"]
    place = found[0]["common_prefix"]
    assert f"first difference at token {place} from what request one left" in text
    there, here = found[0]["evidence"]
    assert first[39] in there
    assert first[40] in there
    assert first[39] in here
    assert first[40] not in here


def test_the_last_token_of_a_repeated_prompt(desk: Desk) -> None:
    """An exact repeat evaluates one token: no shortfall, but an answer to who expected none."""
    steps = (
        "steps:\n"
        "  - complete: {id: one, prompt: {tokens: 100, seed: 1}, max_tokens: 4}\n"
        "  - complete: {id: two, prompt: {tokens: 100, seed: 1}, max_tokens: 4}\n"
    )
    text, found = reevaluations(desk, steps, 'request="two"')
    assert [one["cause"] for one in found] == ["at least one token"]
    assert (found[0]["cached"], found[0]["common_prefix"]) == (100, 101)
    assert "the last token of a prompt is always evaluated" in text


@pytest.mark.parametrize("server", real_servers())
def test_a_context_shift(desk: Desk, server: str) -> None:
    """What was shifted no longer begins with the prompt."""
    steps = (
        "steps:\n"
        "  - complete: {id: one, prompt: {tokens: 200, seed: 1}, max_tokens: 120}\n"
        "  - complete: {id: two, prompt: {tokens: 200, seed: 1}, max_tokens: 4}\n"
    )
    flags = 'context-shift: "on", cache-ram: "0"'
    text, found = reevaluations(desk, steps, 'request="two"', flags=flags, cells=512, server=server)
    assert [one["cause"] for one in found] == ["context shift"]
    assert "the context was shifted in request one, which dropped" in text


_AGAIN = """\
steps:
  - complete: {id: one, prompt: {tokens: 300, seed: 1}, max_tokens: 240}
  - complete: {id: two, prompt: {tokens: 300, seed: 1}, max_tokens: 4}
"""


@pytest.mark.parametrize("kind", ["swa", "recurrent", "hybrid"])
@pytest.mark.parametrize("server", real_servers())
def test_no_checkpoint_to_go_on_from(desk: Desk, kind: str, server: str) -> None:
    """Without checkpoints such models evaluate everything again."""
    model = str(desk.tiny_model(kind))
    flags = 'ctx-checkpoints: "0", ubatch-size: "64", cache-ram: "0"'
    text, found = reevaluations(
        desk, _AGAIN, 'request="two"', flags=flags, server=server, more=("--model", model)
    )
    assert [one["cause"] for one in found] == ["checkpoint missing"]
    assert found[0]["cached"] == 0
    assert "had no checkpoint to go on from there" in text
    assert "context checkpoints are off (--ctx-checkpoints 0)" in found[0]["evidence"]


@pytest.mark.parametrize("kind", ["recurrent", "hybrid"])
def test_a_checkpoint_short_of_the_prefix(desk: Desk, kind: str) -> None:
    """With checkpoints they go on from the nearest, a few tokens before the prompt's end."""
    model = str(desk.tiny_model(kind))
    text, found = reevaluations(desk, _AGAIN, 'request="two"', more=("--model", model))
    assert [one["cause"] for one in found] == ["checkpoint short"]
    assert 290 < found[0]["cached"] < 300 < found[0]["common_prefix"]
    assert "goes on only from a checkpoint, and the nearest is at token" in text


def test_an_attached_server_without_its_log(desk: Desk) -> None:
    """Replies name their slots, which is enough to say that another one was chosen."""
    with launched(desk, "--slot-prompt-similarity", "0", "--cache-ram", "0") as url:
        steps = (
            "steps:\n"
            "  - complete: {id: one, prompt: {tokens: 100, seed: 1}, max_tokens: 4}\n"
            "  - complete: {id: two, prompt: {tokens: 100, seed: 1}, max_tokens: 4}\n"
        )
        text, found = reevaluations(desk, steps, 'request="two"', more=("--url", url))
    assert [one["cause"] for one in found] == ["another slot was chosen"]
    assert "another slot was chosen (how is not told)" in text


def test_a_passing_run_says_it_in_one_line(desk: Desk) -> None:
    """A shortfall that no gate minds takes one line, and all of it with --verbose."""
    text = _HEAD.format(name="again", cells=2048, flags='cache-ram: "0"') + _THREE_SESSIONS
    gate = 'gates:\n  - {metric: \'evaluated_tokens{session="B",turn="1"}\', min: 1}\n'
    (desk.folder / "again.yaml").write_text(text + gate)
    done = desk.run("run", "again.yaml", "--server", "embedded")
    assert done.code == 0, done.text
    assert "1 request reused less than an earlier one had left (host cache off 1)" in done.text
    assert "until turn 1 of session C" not in done.text
    told = desk.run("run", "again.yaml", "--server", "embedded", "--verbose")
    assert "until turn 1 of session C (least recently used) took it" in told.text
    assert "| log: slot get_availabl" in told.text
