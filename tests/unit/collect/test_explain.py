"""Which requests are looked at, and what is asked of the server for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.collect.evidence import Tokens
from benchsuite.collect.explain import Asked, explain_requests, left_behind, server_of
from benchsuite.drive.driver import Sent, Served
from benchsuite.logform.facts import LogFacts
from benchsuite.model.record import ModelFacts, Reevaluation, ServerFacts
from benchsuite.model.scenario import FlagValue

BEGIN = "<s> "


class Speaker:
    """A server that makes a token of each word, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def token_pieces(self, text: str) -> list[tuple[int, str]]:
        self.asked.append(text)
        return [(hash(word) % 10**9, f" {word}") for word in (BEGIN + text).split()]

    async def apply_template(
        self, messages: Sequence[Mapping[str, str]], fields: Mapping[str, Any] | None = None
    ) -> str:
        return " ".join(f"[{m['role']}] {m['content']}" for m in messages) + " [assistant]"


def served(
    name: str,
    prompt: str | list[dict[str, str]],
    at: int,
    *,
    cached: int = 0,
    reply: str = " yes it is so",
    slot: int | None = 0,
    cache_prompt: bool | None = None,
) -> Asked:
    """A request for as many tokens as words, in a slot."""
    if isinstance(prompt, str):
        sent, size = Sent(prompt=prompt, cache_prompt=cache_prompt), len(prompt.split()) + 1
    else:
        text = asyncio.run(Speaker().apply_template(prompt))
        sent, size = Sent(messages=tuple(prompt)), len(text.split()) + 1
    answer = Reply(
        text=reply,
        content=reply,
        prompt_tokens=size,
        cached_tokens=cached,
        evaluated_tokens=size - cached,
        output_tokens=len(reply.split()),
        slot=slot,
        finish="length",
        truncated=False,
        timings=Timings(),
        stamps=Stamps(scheduled_ns=at, sent_ns=at, first_token_ns=at + 1, end_ns=at + 1),
    )
    return Asked(Served({"request": name}, answer, None, alone=True, sent=sent), slot)


def explain(
    *asked: Asked, flags: dict[str, FlagValue] | None = None
) -> tuple[list[Reevaluation], list[str]]:
    """What is found out, and the texts that were asked for."""
    server = Speaker()
    facts = ServerFacts("binary", flags=cast(Any, flags or {}))
    found = asyncio.run(
        explain_requests(cast(LlamaClient, server), asked, None, facts, foreign=False)
    )
    return list(found.reevaluations), server.asked


PROMPT = " ".join(f"word{i}" for i in range(40))


def test_nothing_is_asked_where_counts_and_texts_say_enough() -> None:
    """First requests, requests without anything in common, and those that reused all there was."""
    other = PROMPT.replace("word", "thing")
    longer = f"{PROMPT} yes it is so and more"
    found, asked = explain(
        served("a", PROMPT, 0),
        served("b", other, 2),
        served("c", longer, 4, cached=44),
    )
    assert (found, asked) == ([], [])


def test_a_shortfall_is_asked_for_and_explained() -> None:
    """Only the requests that matter are asked for."""
    found, asked = explain(
        served("a", PROMPT, 0, slot=1),
        served("b", PROMPT.replace("word", "thing"), 2, slot=0),
        served("c", f"{PROMPT} yes it is quite so", 4, slot=0, cached=1),
    )
    assert [one.cause for one in found] == ["another slot was chosen"]
    assert (found[0].cached, found[0].common_prefix) == (1, 44)
    assert found[0].labels == {"request": "c"}
    assert {text.split()[0] for text in asked} == {"word0", "thing0"}


def test_a_chat_is_asked_for_through_its_template() -> None:
    """The conversation as the server renders it; the difference is in the last message."""
    first = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "tell me one"}]
    second = [first[0], {"role": "user", "content": "tell me two"}]
    found, asked = explain(served("a", first, 0), served("b", second, 2, cached=45))
    assert [one.cause for one in found] == ["first difference"]
    assert "[' one']" in found[0].evidence[0]
    assert all(text.startswith("[system] word0") for text in asked)


def test_a_prompt_that_has_another_length_now_is_not_known() -> None:
    """What is asked later must be what was sent."""
    odd = served("b", PROMPT, 2)
    reply = odd.reply
    changed = Asked(
        Served(
            odd.served.labels,
            Reply(**{**_fields(reply), "prompt_tokens": 50}),
            None,
            alone=True,
            sent=odd.served.sent,
        ),
        0,
    )
    found, _ = explain(served("a", PROMPT, 0), changed)
    assert [one.cause for one in found] == ["not known"]
    assert found[0].evidence == ("asked for again, its prompt has 41 tokens and not 50",)


def _fields(reply: Reply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in reply.__struct_fields__}


def test_replies_without_counts_are_passed_over() -> None:
    """Builds that do not tell cached tokens."""
    one = served("b", PROMPT, 2)
    untold = Reply(**{**_fields(one.reply), "cached_tokens": None})
    asked = Asked(Served({"request": "b"}, untold, None, alone=True, sent=one.served.sent), 0)
    assert explain(served("a", PROMPT, 0), asked) == ([], [])


def test_very_many_shortfalls_are_cut_with_a_word() -> None:
    """A load of requests may not ask for thousands of prompts."""
    rows = [served("a", PROMPT, 0)] + [
        served(f"b{i}", f"{PROMPT} yes {i}", 2 + 2 * i, cached=1) for i in range(120)
    ]
    found = asyncio.run(
        explain_requests(
            cast(LlamaClient, Speaker()), rows, None, ServerFacts("binary"), foreign=False
        )
    )
    assert len(found.reevaluations) == 100
    assert found.warnings == (
        "why prompts were evaluated again was asked of 100 requests only, of 120",
    )


def test_flags_and_log_make_the_server() -> None:
    """The log is nearer to the truth; what neither tells is None."""
    facts = ServerFacts(
        "binary",
        flags={"cache-ram": "0", "cache-prompt": "off", "ctx-checkpoints": "0"},
        model=ModelFacts(attention="hybrid"),
    )
    server = server_of(facts, None, foreign=False)
    assert (server.host_cache, server.cache_prompt, server.checkpoint_limit) == (False, False, 0)
    assert (server.context_shift, server.attention, server.log) == (None, "hybrid", False)
    log = LogFacts(prompt_cache=True, checkpoint_limit=32, verbosity=4)
    server = server_of(facts, log, foreign=True)
    assert (server.host_cache, server.checkpoint_limit, server.log) == (True, 32, True)
    assert server.foreign
    assert server_of(ServerFacts("attached"), None, foreign=False).cache_prompt is None


@pytest.mark.parametrize(
    ("finish", "generated", "output", "left"),
    [
        ("length", 4, 4, 13),
        ("stop", 4, 5, 14),  # the end-of-text token has no text
        ("length", 3, 4, None),  # the text tokenises to something else
        ("length", 0, 1, 10),  # of one token none is left, whatever its text
    ],
)
def test_what_a_request_leaves(finish: str, generated: int, output: int, left: int | None) -> None:
    """Prompt and reply but for the last token, where the reply's tokens are sure."""
    ids = tuple(range(10 + generated))
    both = Tokens(ids, tuple(map(str, ids)))
    prompt = Tokens(ids[:10], both.pieces[:10])
    one = served("a", PROMPT, 0)
    reply = Reply(**{**_fields(one.reply), "finish": finish, "output_tokens": output})
    found = left_behind(reply, prompt, both)
    assert (None if found is None else len(found.ids)) == left
    thought = Reply(**{**_fields(reply), "text": "hm yes"})
    assert left_behind(thought, prompt, both) is None
