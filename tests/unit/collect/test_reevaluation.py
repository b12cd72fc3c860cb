"""Each cause of a re-evaluation, told from excerpts of logs that real servers printed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchsuite.collect.evidence import Request, Server, Tokens
from benchsuite.collect.reevaluation import explain
from benchsuite.collect.timeline import Timeline
from benchsuite.logform.reader import LogReader
from benchsuite.model.record import Reevaluation

LOGS = Path(__file__).parents[2] / "fixtures" / "events"
PLAIN = Server(host_cache=True, log=True, verbosity=4, attention="full")


def timeline(log: str) -> Timeline:
    """The events of an excerpt, or of a fixture by its name."""
    reader = LogReader()
    reader.feed(log.encode() if "\n" in log else (LOGS / f"{log}.log").read_bytes())
    return Timeline(reader.finish().events)


def tokens(*runs: tuple[int, int]) -> Tokens:
    """Token ids made of runs, each a first id and a count."""
    ids = tuple(first + i for first, count in runs for i in range(count))
    return Tokens(ids, tuple(f" t{n}" for n in ids))


def asked(
    words: str,
    prompt: Tokens | None,
    *,
    at: int,
    cached: int = 0,
    slot: int | None = 0,
    task: int | None = None,
    left: Tokens | None = None,
    wanted: int | None = None,
) -> Request:
    """A request that was sent at a moment and ended one later."""
    return Request(
        labels={"request": words},
        words=f"request {words}",
        cached=cached,
        prompt_tokens=None if prompt is None else len(prompt.ids),
        prompt=prompt,
        left=left,
        slot=slot,
        wanted_slot=wanted,
        task=None if task is None else ("", task),
        sent_ns=at,
        end_ns=at + 1,
    )


def told(
    rows: list[Request], log: str = "nothing\n", server: Server = PLAIN
) -> Reevaluation | None:
    """What is said of the last of some requests."""
    return explain(rows[-1], rows[:-1], timeline(log), server)


def sure(found: Reevaluation | None) -> Reevaluation:
    """Something was said."""
    assert found is not None
    return found


FIRST = tokens((0, 100))
OTHER = tokens((0, 1), (5000, 99))
LONGER = tokens((0, 100), (2000, 20))


def test_what_was_left_and_reused_needs_no_word() -> None:
    """Prompt and reply but for its last token were left, and all of that was reused."""
    left = tokens((0, 100), (2000, 7))
    rows = [
        asked("a", FIRST, at=0, left=left),
        asked("b", LONGER, at=2, cached=107),
    ]
    assert told(rows) is None
    assert sure(told([rows[0], msgspec.structs.replace(rows[1], cached=100)])).common_prefix == 107


def test_nothing_in_common_needs_no_word() -> None:
    """Special tokens alone are no prefix."""
    assert told([asked("a", OTHER, at=0), asked("b", FIRST, at=2)]) is None
    assert told([asked("b", FIRST, at=2)]) is None


def test_what_was_left_by_a_request_still_under_way_does_not_count() -> None:
    """It had not ended when this one was sent."""
    rows = [asked("a", FIRST, at=0), asked("b", FIRST, at=0, slot=1)]
    assert told(rows) is None


def test_all_but_one_token_is_no_shortfall() -> None:
    """The last token of a prompt is always evaluated."""
    found = sure(told([asked("a", FIRST, at=0), asked("b", FIRST, at=2, cached=99)]))
    assert (found.cause, found.short) == ("at least one token", False)
    assert found.sentence == (
        "all 100 tokens had been left by request a, and the last token of a prompt is always "
        "evaluated"
    )


def test_the_first_difference_is_shown_in_context() -> None:
    """Everything in common was reused; the prompt itself differs."""
    changed = tokens((0, 60), (7000, 1), (61, 39))
    found = sure(told([asked("a", FIRST, at=0), asked("b", changed, at=2, cached=60)]))
    assert (found.cause, found.common_prefix, found.short) == ("first difference", 60, False)
    assert found.sentence == "first difference at token 60 from what request a left"
    assert found.evidence == (
        "there: ' t56 t57 t58 t59' [' t60'] ' t61 t62 t63 t64'",
        "here: ' t56 t57 t58 t59' [' t7000'] ' t61 t62 t63 t64'",
    )


def test_a_prompt_that_ends_where_another_goes_on_is_shown() -> None:
    """A difference may lie at the end."""
    short = tokens((0, 50))
    rows = [asked("a", FIRST, at=0), asked("b", tokens((0, 50), (9000, 1)), at=2, cached=50)]
    assert sure(told(rows)).cause == "first difference"
    assert sure(told([asked("a", FIRST, at=0), asked("b", short, at=2, cached=49)])).cause == (
        "at least one token"
    )


def test_cache_prompt_off() -> None:
    """By the request's field, else by the server's flag."""
    rows = [asked("a", FIRST, at=0), asked("b", FIRST, at=2)]
    off = msgspec.structs.replace(rows[1], cache_prompt=False)
    found = sure(told([rows[0], off]))
    assert (found.cause, found.cached) == ("cache_prompt off", 0)
    assert found.sentence == "the request says `cache_prompt: false`"
    server = Server(cache_prompt=False)
    found = sure(told(rows, server=server))
    assert (found.cause, found.sentence) == (
        "cache_prompt off",
        "the server was started with --no-cache-prompt",
    )
    on = msgspec.structs.replace(rows[1], cache_prompt=True)
    assert sure(told([rows[0], on], server=server)).cause != "cache_prompt off"


_BY_AGE = """\
I slot get_availabl: id  1 | task -1 | selected slot by LRU, t_last = -1
I slot launch_slot_: id  1 | task 0 | processing task, is_child = 0
I slot      release: id  1 | task 0 | stop processing: n_tokens = 107, truncated = 0
I slot get_availabl: id  0 | task -1 | selected slot by LRU, t_last = -1
I slot launch_slot_: id  0 | task 9 | processing task, is_child = 0
I slot      release: id  0 | task 9 | stop processing: n_tokens = 107, truncated = 0
"""


def test_another_slot_by_age_by_similarity_and_untold() -> None:
    """The line that chose the slot says how; without a log only that it was another."""
    rows = [asked("a", FIRST, at=0, slot=1, task=0), asked("b", FIRST, at=2, slot=0, task=9)]
    found = sure(told(rows, _BY_AGE))
    assert found.cause == "another slot was chosen"
    assert found.sentence == (
        "another slot was chosen (least recently used): slot 0; slot 1 held 100 of its tokens, "
        "from request a"
    )
    assert found.evidence == (
        "log: slot get_availabl: id  0 | task -1 | selected slot by LRU, t_last = -1",
    )
    similar = _BY_AGE.replace(
        "0 | task -1 | selected slot by LRU, t_last = -1",
        "0 | task -1 | selected slot by LCP similarity, sim_best = 0.300 (> 0.100 thold), "
        "f_keep = 0.9",
    )
    third = asked("c", tokens((0, 30), (8000, 9)), at=-2, slot=0)
    found = sure(told([third, rows[0], msgspec.structs.replace(rows[1], cached=30)], similar))
    assert "(similarity): slot 0; slot 1 held 100" in found.sentence
    assert "slot 0 held 30 of its tokens, from request c" in found.evidence
    unseen = [msgspec.structs.replace(row, task=None) for row in rows]
    found = sure(told(unseen, server=Server()))
    assert (found.cause, found.evidence) == ("another slot was chosen", ())
    assert "(how is not told)" in found.sentence


def test_a_slot_that_the_request_is_pinned_to() -> None:
    """Empty, as in a real log, or in use before."""
    first = asked("a", FIRST, at=0, slot=0, task=0, wanted=0)
    second = asked("b", FIRST, at=2, slot=1, task=9, wanted=1)
    found = sure(told([first, second], "real_11549_pinned"))
    assert found.cause == "pinned to an empty slot"
    assert found.sentence == (
        "the request is pinned to slot 1, which was empty; slot 0 held 100 of its tokens, from "
        "request a"
    )
    assert "selected slot by id (1)" in found.evidence[-1]
    before = asked("z", OTHER, at=-2, slot=1)
    found = sure(told([before, first, second], "real_11549_pinned"))
    assert found.cause == "another slot was chosen"
    assert "(pinned by the request)" in found.sentence


def _three_on(log: str, server: Server, tasks: tuple[int, int, int]) -> Reevaluation:
    """A in slot 1, C takes it, then A again in slot 0, as in `real_11549_three_sessions`."""
    return sure(
        told(
            [
                asked("a", FIRST, at=0, slot=1, task=tasks[0]),
                asked("c", OTHER, at=2, slot=1, task=tasks[1]),
                asked("a2", LONGER, at=4, slot=0, task=tasks[2], cached=1),
            ],
            log,
            server,
        )
    )


def test_a_slot_that_was_overwritten() -> None:
    """With the host prompt cache off, on, and not known to be either."""
    off = msgspec.structs.replace(PLAIN, host_cache=False)
    found = _three_on("real_11549_three_sessions", off, (0, 18, 27))
    assert found.cause == "host cache off"
    assert found.sentence == (
        "slot 1 held 100 of its tokens, from request a, until request c (least recently used) "
        "took it; the host prompt cache is off (--cache-ram 0)"
    )
    unseen = _three_on("nothing\n", Server(host_cache=False), (0, 18, 27))
    assert unseen.cause == "slot overwritten"
    assert unseen.evidence == ("the host prompt cache is off (--cache-ram 0)",)
    unknown = _three_on("nothing\n", Server(), (0, 18, 27))
    assert unknown.cause == "slot overwritten"
    assert unknown.evidence == ("whether the host prompt cache is on is not told",)
    kept = _three_on("real_11549_three_sessions", PLAIN, (0, 18, 18))
    assert kept.cause == "slot overwritten"
    assert "until request c (least recently used) took it" in kept.sentence


def test_a_slot_taken_by_similarity_is_no_matter_of_the_host_cache() -> None:
    """Most of the slot was kept, so a cache would not have been asked; the real log says so."""
    rows = [
        asked("a", FIRST, at=0, slot=1, task=0),
        asked("b", tokens((0, 60), (7000, 40)), at=2, slot=1, task=9, cached=60),
        asked("a2", LONGER, at=4, slot=1, task=18, cached=60),
    ]
    for on in (True, False):
        server = msgspec.structs.replace(PLAIN, host_cache=on)
        found = sure(told(rows, "real_10092_similarity", server))
        assert found.cause == "slot overwritten"
        assert found.sentence.endswith("until request b (similarity 0.836) took it")


def test_the_host_cache_was_full() -> None:
    """The log of a server with 1 MiB: what the first slot left is dropped for the third."""
    found = _three_on("real_10092_small_host_cache", PLAIN, (0, 18, 27))
    assert found.cause == "host cache full"
    assert found.sentence.endswith("took it; the host prompt cache was full and dropped it")
    assert any("removing oldest entry" in line for line in found.evidence)


def test_a_state_too_large_for_the_host_cache() -> None:
    """A refused save is told apart from a dropped one."""
    saved = (
        "selected slot by LRU, t_last = 5\nI srv   prompt_save:  - saving prompt with length 107, "
    )
    log = _BY_AGE + (
        f"I slot get_availabl: id  1 | task -1 | {saved}total state size = 5.1 MiB (draft: 0.0)\n"
        "W srv         alloc:  - prompt state size 5.100 MiB exceeds cache size limit 1.000 MiB, "
        "skipping\n"
        "I slot launch_slot_: id  1 | task 18 | processing task, is_child = 0\n"
        "I slot get_availabl: id  0 | task -1 | selected slot by LRU, t_last = 6\n"
        "I slot launch_slot_: id  0 | task 27 | processing task, is_child = 0\n"
    )
    found = _three_on(log, PLAIN, (0, 18, 27))
    assert found.cause == "host cache full"
    assert found.sentence.endswith("the host prompt cache is too small for it")


def test_a_slot_taken_by_someone_else() -> None:
    """A task in the log that is none of ours."""
    log = _BY_AGE + (
        "I slot launch_slot_: id  1 | task 50 | processing task, is_child = 0\n"
        "I slot launch_slot_: id  0 | task 60 | processing task, is_child = 0\n"
    )
    rows = [asked("a", FIRST, at=0, slot=1, task=0), asked("b", FIRST, at=9, slot=0, task=60)]
    found = sure(told(rows, log))
    assert found.cause == "slot overwritten"
    assert "until task 50, which is not of this run, took it" in found.sentence


def test_a_slot_that_was_purged() -> None:
    """Lines of a real server with one pool for all slots, which ran out of room."""
    rows = [
        asked("a", FIRST, at=0, slot=0, task=0),
        asked("b", FIRST, at=9, slot=1, task=9, cached=0),
    ]
    log = _BY_AGE.replace("id  0", "id  2").replace("task 9 ", "task 5 ").replace("id  1", "id  0")
    log += (
        "W srv  try_clear_id: purging slot 0 with 107 tokens\n"
        "I slot prompt_clear: id  0 | task -1 | clearing prompt with 107 tokens\n"
        "I slot get_availabl: id  1 | task -1 | selected slot by LRU, t_last = -1\n"
        "I slot launch_slot_: id  1 | task 9 | processing task, is_child = 0\n"
    )
    found = sure(told(rows, log))
    assert found.cause == "slot cleared"
    assert "until it was cleared to make room" in found.sentence
    found = sure(told(rows, log, Server(host_cache=False, log=True, verbosity=4)))
    assert found.cause == "host cache off"  # idle slots are saved at every new task where it is on


def test_checkpoints_of_a_recurrent_model() -> None:
    """A real log: restored short of the end, later none to go on from."""
    server = Server(host_cache=True, log=True, verbosity=4, attention="recurrent")
    first = asked("a", FIRST, at=0, task=0)
    short = sure(
        told([first, asked("b", FIRST, at=2, task=11, cached=96)], _checkpoints(96), server)
    )
    assert short.cause == "checkpoint short"
    assert short.sentence == (
        "slot 0 held 100 of its tokens, from request a, but this recurrent model goes on only "
        "from a checkpoint, and the nearest is at token 96"
    )
    missing = sure(told([first, asked("b", LONGER, at=2, task=30)], "real_11549_recurrent", server))
    assert missing.cause == "checkpoint missing"
    assert "this recurrent model had no checkpoint to go on from there" in missing.sentence
    assert "forcing full prompt re-processing" in missing.evidence[0]
    none = msgspec.structs.replace(server, checkpoint_limit=0)
    missing = sure(told([first, asked("b", LONGER, at=2, task=30)], "real_11549_recurrent", none))
    assert "context checkpoints are off (--ctx-checkpoints 0)" in missing.evidence


def _checkpoints(place: int) -> str:
    """The real log with its restored checkpoint at another place."""
    log = (LOGS / "real_11549_recurrent.log").read_text()
    return log.replace("n_past = 150,", f"n_past = {place},")


def test_a_forced_evaluation_of_what_the_slot_did_not_hold_is_no_cause() -> None:
    """The line also stands where a slot has one token in common; the slot is then the cause."""
    server = Server(host_cache=True, log=True, verbosity=4, attention="recurrent")
    rows = [
        asked("a", FIRST, at=0, slot=0, task=0),
        asked("c", OTHER, at=2, slot=0, task=20),
        asked("b", FIRST, at=4, slot=0, task=30),
    ]
    assert sure(told(rows, "real_11549_recurrent", server)).cause == "slot overwritten"


_LAUNCHED = "slot launch_slot_: id  0 | task {task} | processing task, is_child = 0\n"
_LOADED = "srv    load_model: loading model 'tiny.gguf'\n"


def test_a_model_that_was_loaded_again() -> None:
    """A load between two requests leaves nothing; one before both takes nothing away."""
    rows = [asked("a", FIRST, at=0, task=0), asked("b", FIRST, at=2, task=5, cached=0)]
    found = sure(told(rows, _LAUNCHED.format(task=0) + _LOADED + _LAUNCHED.format(task=5)))
    assert found.cause == "model loaded again"
    assert "after request a, as it does when it wakes from sleep" in found.sentence
    assert any("loading model" in line for line in found.evidence)
    before = sure(told(rows, _LOADED + _LAUNCHED.format(task=0) + _LAUNCHED.format(task=5)))
    assert before.cause != "model loaded again"


def test_a_context_shift() -> None:
    """The line of the earlier task, else its reply and the server's flag."""
    rows = [asked("a", FIRST, at=0, task=0), asked("b", FIRST, at=2, task=130, cached=1)]
    found = sure(told(rows, "real_10434_context_shift"))
    assert found.cause == "context shift"
    assert found.sentence == (
        "the context was shifted in request a, which dropped 127 tokens after the first 1"
    )
    cut = [msgspec.structs.replace(rows[0], truncated=True, task=None), rows[1]]
    assert sure(told(cut, server=Server(context_shift=True))).cause == "context shift"
    assert sure(told(cut, server=Server(context_shift=False))).cause == "not known"


@pytest.mark.parametrize(
    ("change", "server", "words"),
    [
        ({}, Server(), "the server's log was not seen"),
        ({}, Server(log=True, verbosity=3), "the log has verbosity 3; causes are told from 4 on"),
        ({}, PLAIN, "no lines of the log could be told to be this request's"),
        ({"slot": None}, PLAIN, "no lines of the log could be told to be this request's"),
    ],
)
def test_what_is_not_known_is_not_guessed(
    change: dict[str, None], server: Server, words: str
) -> None:
    """The same slot held everything, and nothing tells why it was not reused."""
    second = msgspec.structs.replace(asked("b", FIRST, at=2), **change)
    found = sure(told([asked("a", FIRST, at=0), second], server=server))
    assert (found.cause, found.common_prefix) == ("not known", 100)
    assert words in found.evidence
    assert "the longest common prefix is with request a" in found.evidence


def test_foreign_traffic_makes_slots_unknowable() -> None:
    """Unless the log tells; others may have changed what a slot holds."""
    rows = [asked("a", FIRST, at=0, slot=0), asked("b", FIRST, at=2, slot=1)]
    found = sure(told(rows, server=Server(foreign=True)))
    assert found.cause == "not known"
    assert "others use this server" in found.sentence


def test_a_request_between_whose_slot_is_not_known() -> None:
    """It may have taken the slot."""
    rows = [
        asked("a", FIRST, at=0, slot=0),
        asked("x", OTHER, at=2, slot=None),
        asked("b", FIRST, at=4, slot=0),
    ]
    assert sure(told(rows)).cause == "not known"


def test_a_prompt_whose_tokens_are_not_known() -> None:
    """The server's template gave another prompt later, as one with the time of day does."""
    odd = msgspec.structs.replace(
        asked("b", None, at=2), prompt_tokens=100, untold="asked for again, ..."
    )
    found = sure(told([asked("a", FIRST, at=0), odd]))
    assert (found.cause, found.common_prefix) == ("not known", None)
    assert found.evidence == ("asked for again, ...",)
    uncounted = msgspec.structs.replace(odd, cached=None)
    assert told([asked("a", FIRST, at=0), uncounted]) is None
