"""Steps become requests in order, with what the scenario says and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.collect.load import summarise_load
from benchsuite.drive.driver import (
    Driver,
    Hooks,
    Load,
    OtherStep,
    Refused,
    Served,
    Settled,
    SlotDone,
)
from benchsuite.drive.prompts import NONCE_TOKENS, PromptBook
from benchsuite.errors import ConnectionLostError, RequestRefusedError
from benchsuite.model.scenario import (
    CompleteStep,
    ConcurrentlyStep,
    IdleStep,
    LoadStep,
    PromptSpec,
    RequestSpec,
    RestartStep,
    SessionSpec,
    SlotStep,
    SnapshotStep,
    Step,
    TurnStep,
)


class Server:
    """Answers every request with its number; counts those under way."""

    is_paced = False

    def __init__(
        self,
        *,
        break_at: int | None = None,
        refuse_at: frozenset[int] = frozenset(),
        is_healthy: bool = True,
    ) -> None:
        self._is_healthy = is_healthy
        self.sent: list[tuple[str, Any, dict[str, Any]]] = []
        self.most_at_once = 0
        self._under_way = 0
        self._break_at = break_at
        self._refuse_at = refuse_at

    async def healthy(self) -> bool:
        return self._is_healthy

    async def complete_text(self, prompt: str, fields: dict[str, Any]) -> Reply:
        return await self._answer("complete_text", prompt, fields)

    async def tokenise(self, text: str) -> list[int]:
        return list(range(len(text.split())))

    async def apply_template(self, messages: Sequence[Mapping[str, str]]) -> str:
        return "|".join(m["content"] for m in messages)

    async def chat(self, messages: Sequence[Mapping[str, str]], fields: dict[str, Any]) -> Reply:
        return await self._answer("chat", [dict(m) for m in messages], fields)

    async def complete(self, prompt: str, fields: dict[str, Any]) -> Reply:
        return await self._answer("complete", prompt, fields)

    async def slot_action(self, slot: int, action: str, file: str | None) -> int:
        self.sent.append((action, slot, {"file": file}))
        if len(self.sent) in self._refuse_at:
            raise RequestRefusedError("no such file", status=400)
        return 7

    async def _answer(self, kind: str, what: Any, fields: dict[str, Any]) -> Reply:
        self.sent.append((kind, what, fields))
        number = len(self.sent)
        if number == self._break_at:
            raise ConnectionLostError("gone")
        if number in self._refuse_at:
            raise RequestRefusedError("too large", status=400, kind="exceed_context_size_error")
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._under_way -= 1
        return Reply(
            text=f"r{number}",
            content=f"r{number}",
            prompt_tokens=3,
            cached_tokens=1,
            evaluated_tokens=2,
            output_tokens=4,
            slot=None,
            finish="length",
            truncated=False,
            timings=Timings(),
            stamps=Stamps(scheduled_ns=0, sent_ns=0, first_token_ns=1, end_ns=1),
        )


class Seen:
    """What the hooks were told."""

    def __init__(self) -> None:
        self.progress: list[str] = []
        self.served: list[Served] = []
        self.quiet: list[list[str]] = []
        self.settled: list[Settled] = []
        self.snapshots: list[str] = []
        self.sending: list[tuple[dict[str, str], int | None]] = []
        self.loads: list[Load] = []
        self.other: list[OtherStep] = []
        self.vectors: list[object] = []
        self.refused: list[Refused] = []

    def hooks(self) -> Hooks:
        async def quiet(batch: Sequence[Settled]) -> None:
            self.quiet.append([served.words for served in batch])
            self.settled += batch

        async def snapshot(name: str) -> None:
            self.snapshots.append(name)

        async def loaded(load: Load) -> None:
            self.loads.append(load)

        def sending(labels: dict[str, str], slot: int | None) -> None:
            assert labels not in [served.labels for served in self.served]
            self.sending.append((labels, slot))

        async def other(step: OtherStep) -> None:
            self.other.append(step)

        return Hooks(
            self.progress.append,
            self.served.append,
            quiet,
            snapshot,
            loaded,
            other,
            self.vectors.append,
            sending=sending,
            refused=self.refused.append,
        )


def _text(text: str) -> PromptSpec:
    return PromptSpec(text=text)


def _drive(
    steps: Sequence[Step],
    sessions: Sequence[SessionSpec] = (),
    *,
    by_template: bool = False,
    server: Server | None = None,
) -> tuple[Server, Seen]:
    server, seen = server or Server(), Seen()
    client = cast(LlamaClient, server)
    driver = Driver(client, PromptBook(), seen.hooks(), chat_by_template=by_template)

    async def run() -> None:
        await driver.prepare({spec.name: spec for spec in sessions}, steps)
        await driver.run(steps)

    asyncio.run(run())
    return server, seen


def test_a_session_grows_by_each_turn() -> None:
    """System prompt, then every message and reply so far, then the new message."""
    session = SessionSpec("A", system=_text("sys"))
    server, seen = _drive([TurnStep("A", _text("u1")), TurnStep("A", _text("u2"))], [session])
    contents = [[m["content"] for m in messages] for _, messages, _ in server.sent]
    assert contents == [["sys", "u1"], ["sys", "u1", "r1", "u2"]]
    assert [served.labels for served in seen.served] == [
        {"session": "A", "turn": "1"},
        {"session": "A", "turn": "2"},
    ]


def test_each_request_is_told_before_it_is_sent() -> None:
    """With its labels and the slot that it asks for, so that a crash can be told with it."""
    _, seen = _drive(
        [TurnStep("A", _text("u")), CompleteStep("one", _text("raw"), slot=1)], [SessionSpec("A")]
    )
    assert seen.sending == [({"session": "A", "turn": "1"}, None), ({"request": "one"}, 1)]


def test_requests_carry_what_the_scenario_says_and_no_more() -> None:
    """Greedy and an output limit by default; `cache_prompt` and `id_slot` only where given."""
    server, _ = _drive(
        [TurnStep("A", _text("u"), max_tokens=5), TurnStep("B", _text("u"), max_tokens=6)],
        [
            SessionSpec("A"),
            SessionSpec("B", slot=1, request=RequestSpec(cache_prompt=False, extra={"top_k": 1})),
        ],
    )
    assert [fields for _, _, fields in server.sent] == [
        {"temperature": 0.0, "max_tokens": 5},
        {
            "temperature": 0.0,
            "top_k": 1,
            "cache_prompt": False,
            "id_slot": 1,
            "max_tokens": 6,
        },
    ]


def test_pinned_chat_goes_by_the_template_where_the_log_cannot_be_read() -> None:
    """Only `/completion` names the slot that served; sessions that are free stay with chat."""
    server, _ = _drive(
        [TurnStep("A", _text("u")), TurnStep("B", _text("u"))],
        [SessionSpec("A", system=_text("s"), slot=0), SessionSpec("B")],
        by_template=True,
    )
    assert server.sent[0][:2] == ("complete", "s|u")
    assert server.sent[0][2]["n_predict"] == 16
    assert server.sent[1][0] == "chat"


def test_branches_run_side_by_side_and_settle_together() -> None:
    """The steps of one branch keep their order; the quiet point comes after all of them."""
    step = ConcurrentlyStep(
        (
            (TurnStep("A", _text("a1")), TurnStep("A", _text("a2"))),
            (CompleteStep("raw", _text("p")),),
        )
    )
    server, seen = _drive([step], [SessionSpec("A")])
    assert server.most_at_once == 2
    assert seen.quiet == [["turn 1 of session A", "turn 2 of session A", "request raw"]]
    assert all(not served.alone for served in seen.served)


def test_a_broken_branch_ends_the_others() -> None:
    """The fault is told, and no request is left behind."""
    branches = tuple((CompleteStep(f"c{i}", _text("p")),) for i in range(4))
    with pytest.raises(ConnectionLostError, match="gone"):
        _drive([ConcurrentlyStep(branches)], server=Server(break_at=2))


def test_snapshots_are_taken_by_name_and_around_all_steps() -> None:
    """`ready` before the first step and `end` after the last one need no step."""
    _, seen = _drive([SnapshotStep("middle"), IdleStep(0.0)])
    assert seen.snapshots == ["ready", "middle", "end"]


def test_a_nonce_changes_texts_and_keeps_their_length() -> None:
    """A server that may remember yesterday's run is asked something new of the same size."""

    async def texts(nonce: str | None) -> list[str]:
        book = PromptBook(nonce)
        server = Server()
        specs = (PromptSpec(tokens=30, seed=1), PromptSpec(text="hello"))
        return [await book.text(spec, server.tokenise) for spec in specs]

    plain, one, two = (asyncio.run(texts(nonce)) for nonce in (None, "abc", "abd"))
    assert len({plain[0], one[0], two[0]}) == 3
    assert {len(texts[0].split()) for texts in (plain, one, two)} == {30}
    assert plain[1] == "hello"
    assert one[1] != two[1]
    for written in (one[1], two[1]):
        assert written.endswith(" hello")
        assert len(written.split()) == NONCE_TOKENS + 1


def test_a_nonce_keeps_what_texts_share() -> None:
    """Texts that begin apart do so in every run: how much of a cache is reused is no chance."""

    async def firsts(nonce: str) -> list[str]:
        book = PromptBook(nonce)
        specs = [PromptSpec(tokens=30, seed=seed) for seed in range(1, 21)]
        return [(await book.text(spec, Server().tokenise))[0] for spec in specs]

    for run in range(20):
        assert len(set(asyncio.run(firsts(f"run {run}")))) == 20


def test_a_nonce_is_tried_until_the_text_is_that_much_longer() -> None:
    """Where the tokens of the first tries melt into the text, another one is taken."""
    seen: list[str] = []

    async def tokenise(text: str) -> list[int]:
        words = text.split()
        if words[-1] == "hello" and len(words) > 1:
            seen.append(text)
            return list(range(len(words) - (len(seen) < 3)))
        return list(range(len(words)))

    text = asyncio.run(PromptBook("abc").text(PromptSpec(text="hello"), tokenise))
    assert text == seen[2]
    assert len(set(seen)) == 3


def test_a_model_without_so_short_texts_still_gets_a_nonce() -> None:
    """Written texts then begin with the nonce itself."""

    async def tokenise(text: str) -> list[int]:
        return list(range(9 * len(text)))

    text = asyncio.run(PromptBook("abc").text(PromptSpec(text="hello"), tokenise))
    assert text == "abc hello"


def test_a_turn_that_may_fail_leaves_nothing_in_the_conversation() -> None:
    """The next turn counts on, and its prompt does not hold what was refused."""
    steps = [TurnStep("A", _text(f"u{n}"), may_fail=True) for n in (1, 2, 3)]
    server, seen = _drive(steps, [SessionSpec("A")], server=Server(refuse_at=frozenset({2})))
    assert [m["content"] for m in server.sent[2][1]] == ["u1", "r1", "u3"]
    assert seen.settled[1] == Refused({"session": "A", "turn": "2"}, 400, "too large")
    assert [served.labels["turn"] for served in seen.served] == ["1", "3"]


def test_a_request_that_must_not_fail_ends_the_drive() -> None:
    """`may_fail` is for the steps that say so."""
    with pytest.raises(RequestRefusedError, match="too large"):
        _drive([CompleteStep("c", _text("p"))], server=Server(refuse_at=frozenset({1})))
    with pytest.raises(RequestRefusedError, match="no such file"):
        _drive(
            [SlotStep("back", "restore", 0, file="a.bin")], server=Server(refuse_at=frozenset({1}))
        )


def test_slot_steps_settle_by_themselves() -> None:
    """What they saved is told, and so is an error that they may meet."""
    steps = [
        SlotStep("kept", "save", 1, file="a.bin"),
        SlotStep("gone", "erase", 1),
        SlotStep("back", "restore", 0, file="b.bin", may_fail=True),
    ]
    server, seen = _drive(steps, server=Server(refuse_at=frozenset({3})))
    assert [(action, slot, f["file"]) for action, slot, f in server.sent] == [
        ("save", 1, "a.bin"),
        ("erase", 1, None),
        ("restore", 0, "b.bin"),
    ]
    assert seen.settled == [
        SlotDone({"step": "kept"}, "save", 7, may_fail=False),
        SlotDone({"step": "gone"}, "erase", 7, may_fail=False),
        Refused({"step": "back"}, 400, "no such file"),
    ]


def test_other_steps_are_handed_out() -> None:
    """The driver knows no processes and no files."""
    _, seen = _drive([RestartStep(line=3)])
    assert seen.other == [RestartStep(line=3)]


def test_a_load_sends_every_request_once_and_no_more_at_a_time() -> None:
    """Each with the next seed's prompt after the same prefix; measured as one step."""
    step = LoadStep("many", 7, 3, PromptSpec(tokens=4, seed=5), _text("shared"), max_tokens=2)
    server, seen = _drive([step])
    prompts = [what for kind, what, _ in server.sent]
    assert len(set(prompts)) == 7
    assert all(prompt.startswith("shared ") for prompt in prompts)
    assert server.most_at_once == 3
    (load,) = seen.loads
    assert sorted(s.labels["request"] for s in seen.served) == [str(i) for i in range(1, 8)]
    assert seen.served[0].words.endswith(" of load many")
    assert (load.tally.sent, load.tally.served, len(load.tally.lateness)) == (7, 7, 7)
    assert (load.distinct_prompts, load.most_in_flight) == (7, 3)
    assert sorted(labels["request"] for labels, _ in seen.sending) == list("1234567")


def test_a_load_of_the_same_prompt_sends_one_text() -> None:
    """For what caches make of repeats."""
    server, _ = _drive([LoadStep("same", 4, 2, PromptSpec(tokens=4, seed=5), same=True)])
    assert len({what for _, what, _ in server.sent}) == 1


def test_a_refused_request_of_a_load_is_kept_and_the_load_goes_on() -> None:
    """A server's own error is a count; a connection that the server's end broke ends the step."""

    class Refusing(Server):
        async def complete(self, prompt: str, fields: dict[str, Any]) -> Reply:
            if len(self.sent) == 1:
                self.sent.append(("complete", prompt, fields))
                raise RequestRefusedError("no", status=500)
            return await super().complete(prompt, fields)

    step = LoadStep("many", 4, 2, PromptSpec(tokens=4))
    _, seen = _drive([step], server=Refusing())
    (load,) = seen.loads
    assert (load.tally.served, load.tally.refused) == (3, 1)
    assert [(r.status, r.message) for r in seen.refused] == [(500, "no")]
    with pytest.raises(ConnectionLostError):
        _drive([step], server=Server(break_at=2, is_healthy=False))


def test_a_lost_connection_of_a_load_is_an_error_of_its_request_while_the_server_lives() -> None:
    """The first of them is told in words."""
    step = LoadStep("many", 4, 1, PromptSpec(tokens=4))
    _, seen = _drive([step], server=Server(break_at=2))
    (load,) = seen.loads
    tally = load.tally
    assert (tally.served, tally.refused, tally.lost, tally.timed_out) == (3, 1, 1, 0)
    assert tally.first_failure == "request 2 of load many: gone"
    assert [(r.status, r.message, r.of_load) for r in seen.refused] == [(0, "gone", True)]
    (words,) = summarise_load(load, capped=False).warnings
    assert "0 answered with an error, 0 given up, 1 by a lost connection" in words


def test_a_load_through_v1_completions_sends_its_limit_as_max_tokens() -> None:
    """And the prefix before the prompt."""
    step = LoadStep(
        "text", 2, 1, PromptSpec(tokens=4), _text("shared"), max_tokens=3, api="completions"
    )
    server, seen = _drive([step])
    assert [kind for kind, _, _ in server.sent] == ["complete_text"] * 2
    assert all(what.startswith("shared ") for _, what, _ in server.sent)
    assert [fields["max_tokens"] for _, _, fields in server.sent] == [3, 3]
    assert seen.loads[0].tally.served == 2
