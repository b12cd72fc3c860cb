"""Loads of files against the embedded server, from the file to the verdict."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.integration.desk import Desk

pytestmark = pytest.mark.server

RUN = ("--server", "embedded")


def _write(desk: Desk, keys: str, lines: list[dict[str, Any]], context: int = 1024) -> None:
    folder = desk.folder / "scenarios"
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "rows.json").write_text(json.dumps(lines, indent=2))
    (folder / "small.yaml").write_text(
        "title: small\n"
        f"server: {{parallel: {{default: 2}}, ctx-size: {{default: {2 * context}}}}}\n"
        "steps:\n"
        f"  - load: {{as: s, {keys}}}\n"
        "gates:\n"
        "  - {metric: 'requests_failed{step=\"s\"}', equals: 0}\n"
        "  - {metric: 'requests_skipped{step=\"s\"}', equals: 0}\n"
    )


def _values(desk: Desk) -> dict[str, Any]:
    measured = desk.last_record()["measurements"]
    return {m["name"]: m["value"] for m in measured if m.get("labels") == {"step": "s"}}


def _replies(desk: Desk) -> list[dict[str, Any]]:
    """What the newest run's journal tells of each request, in the order of requests."""
    runs = (desk.folder / ".benchsuite" / "runs").iterdir()
    newest = max(runs, key=lambda run: run.stat().st_mtime_ns)
    events = map(json.loads, (newest / "samples.jsonl").read_text().splitlines())
    replies = [event for event in events if event["kind"] == "reply"]
    return sorted(replies, key=lambda reply: int(reply["labels"]["request"]))


def _asked(name: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": name}], "max_tokens": 3}


def test_a_dataset_is_sent_and_what_does_not_fit_is_told(desk: Desk) -> None:
    """A gate on what was skipped fails, with the row and its length in the table."""
    chats = [_asked(f"Say {n}.") for n in range(6)]
    _write(desk, "dataset: {file: rows.jsonl}, users: 2", chats)
    done = desk.run("run", "small", *RUN)
    assert done.code == 0, done.text
    values = _values(desk)
    assert values["output_tokens"] <= 18
    assert "6 distinct prompts" in done.text
    _write(desk, "dataset: {file: rows.jsonl}, users: 2", [*chats, _asked("far " * 2000)])
    done = desk.run("run", "small", *RUN)
    assert done.code == 1, done.text
    assert (_values(desk)["requests_skipped"], _values(desk)["requests_failed"]) == (1, 0)
    assert "1 of 7 requests of rows.jsonl was skipped, the first for this: row 7" in done.text
    assert "a slot holds 1024" in done.text


def test_a_sweep_sends_a_dataset_a_part_a_stage(desk: Desk) -> None:
    """What does not fit is passed over; what is sent again is warned of."""
    chats = [_asked("far " * 2000), *(_asked("far " * n) for n in range(1, 10))]
    _write(desk, "dataset: {file: rows.jsonl}", chats)
    text = (desk.folder / "scenarios" / "small.yaml").read_text()
    sweep = """  - sweep:
      as: s
      over: concurrency
      values: [1, 2]
      load: {requests: EACH, dataset: {file: rows.jsonl, order: file}}
gates:
  - {metric: 'requests_failed{stage="1",step="s"}', equals: 0}
"""
    whole = text[: text.index("  - load")] + sweep
    path = desk.folder / "scenarios" / "small.yaml"
    path.write_text(whole.replace("EACH", "4"))
    done = desk.run("run", "small", *RUN)
    assert done.code == 0, done.text
    lengths = [reply["reply"]["prompt_tokens"] for reply in _replies(desk)]
    assert len(lengths) == len(set(lengths)) == 8
    assert "stage 1 of sweep s: 1 of 5 requests of rows.jsonl was skipped" in done.text
    assert "sent again" not in done.text
    path.write_text(whole.replace("EACH", "6"))
    done = desk.run("run", "small", *RUN)
    assert "12 requests were sent of 10 that rows.jsonl gives" in done.text
    (desk.folder / "scenarios" / "rows.jsonl").write_text(json.dumps(chats[0]) + "\n")
    done = desk.run("run", "small", *RUN)
    assert done.code == 2, done.text
    assert "no request of rows.jsonl can be sent" in done.text


def test_a_trace_has_its_arrivals_its_lengths_and_its_reuse(desk: Desk) -> None:
    """To the token: prompts with their beginnings in common, and outputs as long as recorded."""
    rows = [
        {"timestamp": 400 * n, "input_length": 1024 + 256, "output_length": 64, "hash_ids": ids}
        for n, ids in enumerate([[1, 2, 3], [1, 2, 4], [1, 2, 5]])
    ]
    keys = "trace: {file: rows.jsonl, block: 64, speed: 2}, request: {ignore_eos: true}"
    _write(desk, keys, rows)
    done = desk.run("run", "small", *RUN)
    assert done.code == 0, done.text
    values = _values(desk)
    # the tiny model puts one special token before a prompt
    assert values["prompt_tokens"] == 3 * (64 + 64 + 32 + 1)
    assert values["output_tokens"] == 3 * 8
    assert values["cached_tokens"] >= 128  # the third at the latest finds what one of two left
    (load,) = desk.last_record()["launches"][0]["loads"]
    assert load["sent"] == 3
    assert load["seconds"] >= 0.4  # the last arrives at 0.8 s of the trace


def test_a_trace_arrives_when_it_says_whatever_the_server_does(desk: Desk) -> None:
    """To the nanosecond at its speed, also where one slot is far behind; lengths row by row."""
    at_ms = [0, 40, 41, 41, 300, 520]
    lengths = [(512 * 3, 1024), (700, 512), (512, 64), (512 * 2 + 256, 512), (64, 96), (1300, 32)]
    rows = [
        {
            "timestamp": 1000 + at,
            "input_length": prompt,
            "output_length": output,
            "hash_ids": [100 * n + block for block in range(-(-prompt // 512))],
        }
        for n, (at, (prompt, output)) in enumerate(zip(at_ms, lengths, strict=True))
    ]
    keys = "trace: {file: rows.jsonl, block: 64, speed: 0.5}, request: {ignore_eos: true}"
    _write(desk, keys, rows)
    scenario = desk.folder / "scenarios" / "small.yaml"
    scenario.write_text(scenario.read_text().replace("{default: 2}", "{default: 1}"))
    done = desk.run("run", "small", *RUN)
    assert done.code == 0, done.text
    replies = _replies(desk)
    due_ns = [reply["due_ns"] - replies[0]["due_ns"] for reply in replies]
    assert due_ns == [at * 2_000_000 for at in at_ms]
    for reply, (prompt, output) in zip(replies, lengths, strict=True):
        assert reply["reply"]["stamps"]["sent_ns"] >= reply["due_ns"]
        # the tiny model puts one special token before a prompt
        assert reply["reply"]["prompt_tokens"] == 1 + max(1, round(prompt / 8))
        assert reply["reply"]["output_tokens"] == round(output / 8)


def test_equal_hashes_are_found_in_a_cache_and_other_hashes_are_not(desk: Desk) -> None:
    """One after the other on one slot: as many tokens as the blocks that both begin with."""
    starts = [[1, 2, 3], [1, 2, 4], [1, 5, 6], [7, 2, 3]]
    rows = [
        {"timestamp": 0, "input_length": 512 * 3, "output_length": 8, "hash_ids": ids}
        for ids in starts
    ]
    keys = "trace: {file: rows.jsonl, block: 64}, in_flight: 1, request: {ignore_eos: true}"
    _write(desk, keys, rows)
    scenario = desk.folder / "scenarios" / "small.yaml"
    scenario.write_text(scenario.read_text().replace("{default: 2}", "{default: 1}"))
    done = desk.run("run", "small", *RUN)
    assert done.code == 0, done.text
    cached = [reply["reply"]["cached_tokens"] for reply in _replies(desk)]
    # a text of other blocks may begin with the same few tokens by chance
    assert cached[0] <= 1
    for found, blocks in zip(cached[1:], (2, 1, 0), strict=True):
        assert 64 * blocks <= found < 64 * blocks + 16, cached


def test_talks_of_sharegpt_are_sampled_and_sent_up_to_a_question(desk: Desk) -> None:
    """The same ones for the same seed, with the talk before them; not the answer after them."""
    talks = [
        {
            "id": str(n),
            "conversations": [
                {"from": "human", "value": f"First {n}?"},
                {"from": "gpt", "value": "Yes. " * n},
                {"from": "human", "value": "And then?"},
                {"from": "gpt", "value": "far " * 2000},
            ],
        }
        for n in range(1, 9)
    ]
    keys = "dataset: {file: rows.json, format: sharegpt, sample: 4, seed: 3}, max_tokens: 3"
    _write(desk, keys, talks)
    lengths = []
    for _ in range(2):
        done = desk.run("run", "small", *RUN)
        assert done.code == 0, done.text
        lengths.append([reply["reply"]["prompt_tokens"] for reply in _replies(desk)])
    assert lengths[0] == lengths[1]
    assert len(set(lengths[0])) == 4
    assert "4 of 8 requests of rows.json" in done.text
    _write(desk, keys.replace("seed: 3", "seed: 3, ask: first"), talks)
    done = desk.run("run", "small", *RUN)
    assert done.code == 0, done.text
    first = [reply["reply"]["prompt_tokens"] for reply in _replies(desk)]
    assert len(set(first)) == 1
    assert first[0] < min(lengths[0])


def test_where_no_row_fits_the_run_does_not_pass(desk: Desk) -> None:
    """A load of nothing has measured nothing."""
    _write(desk, "dataset: {file: rows.jsonl}", [_asked("far " * 2000), _asked("off " * 2000)])
    done = desk.run("run", "small", *RUN)
    assert done.code == 2, done.text
    assert "no request of rows.jsonl can be sent (2 tried)" in done.text
    assert "give the slots more context" in done.text


def test_a_baseline_of_other_data_is_not_compared(desk: Desk) -> None:
    """A changed file changes what is measured, though no key did."""
    _write(desk, "dataset: {file: rows.jsonl}", [_asked("a"), _asked("b")])
    scenario = desk.folder / "scenarios" / "small.yaml"
    with scenario.open("a") as file:
        file.write("  - {metric: 'prompt_tokens{step=\"s\"}', equals: baseline}\n")
    assert desk.run("run", "small", *RUN).code == 3
    done = desk.run("accept", "last", "--reason", "first")
    assert done.code == 0, done.text
    done = desk.run("run", "small", *RUN)
    assert done.code == 0, done.text
    (load,) = desk.last_record()["launches"][0]["loads"]
    data = desk.folder / "scenarios" / "rows.jsonl"
    assert load["source_sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    data.write_text(data.read_text().replace('"b"', '"c"'))
    done = desk.run("run", "small", *RUN)
    assert done.code == 3, done.text
    assert "or a file that it sends" in done.text


def test_problems_of_files_are_named_before_a_server_is_started(desk: Desk) -> None:
    """By check, show and run, at the file's line or the scenario's."""
    _write(desk, "dataset: {file: rows.jsonl}", [_asked("a"), {"messages": []}])
    for words in (("check",), ("show", "small"), ("run", "small", *RUN)):
        done = desk.run(*words)
        assert done.code == 2, done.text
        assert "scenarios/rows.jsonl:2: " in done.text
    (desk.folder / "scenarios" / "rows.jsonl").unlink()
    done = desk.run("check", "small")
    assert done.code == 2, done.text
    assert "scenarios/small.yaml:4: no such file" in done.text


def test_the_shipped_replay_passes(desk: Desk) -> None:
    """Without a baseline, since its gates hold on any healthy machine."""
    done = desk.run("run", "replay", *RUN)
    assert done.code == 0, done.text
