"""Slot and prompt-cache events, read from logs of three builds and from lines of older ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchsuite.logform import events
from benchsuite.logform.events import EventReader, parse_event
from benchsuite.logform.facts import LogFacts, SlotEvent
from benchsuite.logform.reader import LogReader

LOGS = Path(__file__).parents[2] / "fixtures" / "events"
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))

COUNTS: dict[str, dict[str, int]] = {
    "real_10092_similarity": {},
    "real_10092_small_host_cache": {"cache_saved": 13, "cache_kept": 6, "cache_evicted": 6},
    "real_10434_chunk_reuse": {"chunk_reused": 1, "cache_saved": 1},
    "real_10434_context_shift": {"context_shift": 1, "truncated": 1, "cache_saved": 2},
    "real_10434_unified_pool_full": {"kv_full": 29, "cleared": 5},
    "real_11549_pinned": {"cache_saved": 3, "cache_kept": 2},
    "real_11549_recurrent": {
        "checkpoint_created": 9,
        "checkpoint_restored": 1,
        "checkpoint_erased": 3,
        "checkpoint_invalidated": 4,
        "full_reprocessing": 2,
        "cache_saved": 2,
    },
    "real_11549_three_sessions": {"cache_saved": 9, "cache_loaded": 3, "cache_kept": 4},
}


def read(log: bytes) -> LogFacts:
    reader = LogReader()
    reader.feed(log)
    return reader.finish()


@pytest.mark.parametrize("name", NAMES)
def test_events_are_counted_by_kind(name: str) -> None:
    """As a count of the lines by eye says, and as the events themselves do."""
    facts = read((LOGS / f"{name}.log").read_bytes())
    assert facts.event_counts == COUNTS[name]
    kinds = Counter(event.kind for event in facts.events)
    assert kinds["launched"] == len(facts.launches)
    cut = sum(e.kind == "released" and e.numbers["truncated"] == 1 for e in facts.events)
    for kind, number in facts.event_counts.items():
        if kind != "kv_full":
            assert number == kinds[kind] + (cut if kind == "truncated" else 0)  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES)
def test_chunks_of_any_size_give_the_same_events(name: str) -> None:
    """Cut anywhere."""
    log = (LOGS / f"{name}.log").read_bytes()
    whole = read(log)
    for size in (1, 13, 4096):
        reader = LogReader()
        for start in range(0, len(log), size):
            reader.feed(log[start : start + size])
        assert reader.finish().events == whole.events


def test_the_limits_of_cache_and_checkpoints_are_read() -> None:
    """What the server prints of them while it starts."""
    on, off = LOGS / "real_11549_recurrent.log", LOGS / "real_10434_unified_pool_full.log"
    assert (read(on.read_bytes()).prompt_cache, read(on.read_bytes()).checkpoint_limit) == (True, 2)
    assert read(off.read_bytes()).prompt_cache is False
    assert read(b"srv load_model: context checkpoints disabled\n").checkpoint_limit == 0
    assert read(b"").prompt_cache is None
    assert read(b"").checkpoint_limit is None


_LINES = [
    (  # build 11549
        (
            "0.00.1.1 I slot get_availabl: id  1 | task -1 | selected slot by LCP similarity, "
            "f_sim_best = 0.836 (> 0.100 thold), f_keep = 0.813"
        ),
        ("selected_by_similarity", 1, None, {"similarity": 0.836, "keep": 0.813, "threshold": 0.1}),
    ),
    (  # build 10092
        (
            "slot get_availabl: id  1 | task -1 | selected slot by LCP similarity, "
            "sim_best = 0.500 (> 0.100 thold), f_keep = 1.000"
        ),
        ("selected_by_similarity", 1, None, {"similarity": 0.5, "keep": 1.0, "threshold": 0.1}),
    ),
    (  # 2024
        (
            "slot get_availabl: id  0 | task -1 | selected slot by lcs similarity, lcs_len = 25, "
            "similarity = 0.962"
        ),
        ("selected_by_similarity", 0, None, {"lcp": 25, "similarity": 0.962}),
    ),
    (
        "slot get_availabl: id  3 | task -1 | selected slot by lru, t_last = -1",
        ("selected_by_age", 3, None, {"t_last": -1}),
    ),
    (
        "slot get_availabl: id  0 | task -1 | selected slot by id (0)",
        ("selected_by_id", 0, None, {}),
    ),
    (
        "slot get_availabl: id  1 | task -1 |  - checking sim = 0.010 (1/101) > 0.100",
        ("checked", 1, None, {"similarity": 0.01, "lcp": 1, "n_tokens": 101, "threshold": 0.1}),
    ),
    (
        (
            "slot update_slots: id  0 | task 7 | SWA checkpoint create, pos_min = 0, pos_max = 99, "
            "size = 1.500 MiB, total = 1/3 (1.500 MiB)"
        ),
        ("checkpoint_created", 0, 7, {"pos_min": 0, "pos_max": 99, "mib": 1.5, "total": 1}),
    ),
    (
        (
            "slot update_slots: id  0 | task 7 | SWA checkpoint restore, pos_min = 0, "
            "pos_max = 99, size = 1.500 MiB"
        ),
        ("checkpoint_restored", 0, 7, {"pos_min": 0, "pos_max": 99, "mib": 1.5}),
    ),
    (
        (
            "slot   operator(): id  0 | task 11 | restored context checkpoint (pos_min = 149, "
            "pos_max = 149, n_tokens = 150, n_past = 150, size = 0.149 MiB)"
        ),
        (
            "checkpoint_restored",
            0,
            11,
            {"pos_min": 149, "pos_max": 149, "n_tokens": 150, "n_past": 150, "mib": 0.149},
        ),
    ),
    (
        (
            "slot create_check: id  0 | task 0 | created context checkpoint 2 of 32 (pos_min = 0, "
            "pos_max = 149, n_tokens = 150, size = 0.095 MiB)"
        ),
        (
            "checkpoint_created",
            0,
            0,
            {
                "pos_min": 0,
                "pos_max": 149,
                "n_tokens": 150,
                "mib": 0.095,
                "number": 2,
                "limit": 32,
            },
        ),
    ),
    (
        (
            "slot update_slots: id  0 | task 0 | input truncated, n_ctx = 512, n_keep = 0, "
            "n_left = 512, n_prompt_tokens = 260"
        ),
        ("truncated", 0, 0, {"n_ctx": 512, "n_keep": 0, "n_left": 512, "n_tokens": 260}),
    ),
    (
        "slot      release: id  0 | task 0 | stop processing: n_past = 204, truncated = 1",
        ("released", 0, 0, {"n_past": 204, "truncated": 1}),
    ),
    (
        "[48087] 0.1.1.1 W srv  try_clear_id: purging slot 2 with 211 tokens",
        ("purged", 2, None, {"n_tokens": 211}),
    ),
    (
        "0.03.120.004 I srv    load_model: loading model '/models/a b.gguf'",
        ("model_loaded", None, None, {}),
    ),
    (
        (
            "srv   prompt_save:  - saving prompt with length 108, total state size = 0.212 MiB "
            "(draft: 0.000 MiB)"
        ),
        ("cache_saved", None, None, {"n_tokens": 108, "mib": 0.212}),
    ),
    (
        (
            "srv         alloc:  - prompt state size 5.100 MiB exceeds cache size limit 1.000 MiB, "
            "skipping"
        ),
        ("cache_refused", None, None, {"mib": 5.1, "limit_mib": 1.0}),
    ),
    (
        "srv        update:  - cache size limit reached, removing oldest entry (size = 0.513 MiB)",
        ("cache_evicted", None, None, {"mib": 0.513}),
    ),
    (
        (
            '{"type":"log","level":"info","msg":"slot get_availabl: id  2 | task -1 | selected '
            'slot by LRU, t_last = 5\\n"}'
        ),
        ("selected_by_age", 2, None, {"t_last": 5}),
    ),
]


@pytest.mark.parametrize(("line", "wanted"), _LINES, ids=[str(w[0]) for _, w in _LINES])
def test_each_form_is_read(
    line: str, wanted: tuple[str, int | None, int | None, dict[str, float]]
) -> None:
    """Kind, slot, task and numbers; the reader takes the line by its marks too."""
    event = parse_event(line.encode())
    assert event is not None
    assert (event.kind, event.slot, event.task, event.numbers) == wanted
    assert read(line.encode() + b"\n").events == (event,)


@pytest.mark.parametrize(
    "line",
    [
        "slot   operator(): id  0 | task 3 | restored 2 context checkpoint(s) from 'saved.bin'",
        "slot   operator(): id  0 | task 3 | created speculative checkpoint (pos_min = 0)",
        "slot get_availabl: id  0 | task -1 |  - skipping, slot is empty",
        "slot process_toke: id  0 | task 3 | n_gen = 3, n_remaining = 2, next token:  5 'a'",
        "slot   operator(): id  0 | task 3 | failed to process mtmd chunk, res = 1",
        "0.03.120.004 I user asks what srv load_model: loading model 'x' means",
    ],
)
def test_other_lines_of_slots_are_none(line: str) -> None:
    """What resembles an event and tells something else."""
    assert read(line.encode() + b"\n").events == ()


def test_the_instance_is_that_of_the_line() -> None:
    """Children of a router count their tasks each from 0."""
    line = b"[50001] 0.1.1.1 I slot launch_slot_: id  1 | task 4 | processing task, is_child = 0\n"
    assert read(line).events[0].instance == "50001"


def test_only_the_last_events_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond either bound the oldest are dropped, asked for or not; none is missing between."""
    monkeypatch.setattr(events, "KEEP", 100)
    monkeypatch.setattr(events, "PENDING_BYTES", 5000)
    line = b"slot release: id  0 | task %d | stop processing: n_tokens = 9, truncated = 1\n"
    for asks in (False, True):
        reader = EventReader()
        for number in range(1000):
            text = line % number
            reader.take_block(text, len(text))
            if asks:
                assert reader.events[-1].task == number
        kept = reader.events
        assert 50 <= len(kept) <= 100
        assert [e.task for e in kept] == list(range(1000 - len(kept), 1000))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_kept_is_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bound, and wherever the log is cut."""
    log = (LOGS / f"{name}.log").read_bytes()
    for bound in (0, 1000):
        monkeypatch.setattr(events, "PENDING_BYTES", bound)
        reader = LogReader()
        for start in range(0, len(log), 700):
            reader.feed(log[start : start + 700])
        facts = reader.finish()
        assert facts.event_counts == COUNTS[name]
        assert len(facts.events) <= bound / 40


def test_warnings_are_those_of_the_end() -> None:
    """Each once, the newest last; other levels are none."""
    log = (LOGS / "real_10434_unified_pool_full.log").read_bytes()
    facts = read(log)
    assert facts.warnings == log.count(b" W ")
    assert "retrying with smaller batch size" in facts.warning_lines[-1]
    assert len(set(facts.warning_lines)) == len(facts.warning_lines) == 10
    assert read(b"0.00.001.001 I all is well\n").warning_lines == ()


def test_an_event_costs_no_garbage_collection() -> None:
    """There may be 100,000 of them."""
    assert SlotEvent.__struct_config__.gc is False
