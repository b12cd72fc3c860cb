"""Load steps on real servers: schedules, chats, errors, a server that dies, a capped rate."""

from __future__ import annotations

import json
import signal
import time
from itertools import pairwise
from typing import Any

import pytest

from tests.integration.desk import Desk, real_servers, wrapper
from tests.integration.foreign_server import launched
from tests.integration.server_under_test import needs_embedded

pytestmark = pytest.mark.server

SCHEDULES = """title: schedules
server: {parallel: 2, ctx-size: 1024}
steps:
  - load:
      as: even
      rate: 40
      requests: 40
      prompt: {tokens: 24}
      max_tokens: 3
  - load:
      as: random
      rate: 40
      arrivals: poisson
      duration: 1500 ms
      warm_up: 500 ms
      api: completions
      prompt: {tokens: 16, seed: 500}
      max_tokens: 3
gates:
  - {metric: 'requests_failed{step="even"}', equals: 0, why: every request must be answered}
  - {metric: 'requests_failed{step="random"}', equals: 0, why: every request must be answered}
"""

_CHAT = """
      turns: 2
      think: {uniform: {min: 20 ms, max: 60 ms}}
      prefix: {tokens: 100, seed: 900}
      max_tokens: 8
"""

CHATS = f"""title: chats
server: {{parallel: 2, ctx-size: 2048}}
steps:
  - load:
      as: alone
      users: 1
      requests: 6
      prompt: {{tokens: 16, seed: 901}}{_CHAT}
  - load:
      as: both
      users: 2
      requests: 8
      prompt: {{tokens: 16, seed: 951}}{_CHAT}
gates:
  - {{metric: 'requests_failed{{step="alone"}}', equals: 0, why: every request must be answered}}
  - {{metric: 'requests_failed{{step="both"}}', equals: 0, why: every request must be answered}}
"""

TOO_LONG = """title: some too long
server: {parallel: 1, ctx-size: 256}
steps:
  - load:
      as: mixed
      requests: 20
      users: 2
      prompt_tokens: {uniform: {min: 20, max: 400}}
      max_tokens: 2
gates:
  - {metric: 'error_share{step="mixed"}', max: 0, why: every request must be answered}
"""

LONG = """title: long
server: {parallel: 2, ctx-size: 1024}
steps:
  - load: {as: long, requests: 60, users: 2, prompt: {tokens: 16}, max_tokens: 2}
gates:
  - {metric: 'error_share{step="long"}', max: 0, why: every request must be answered}
"""

CAPPED = """title: capped
server: {parallel: {min: 1}}
steps:
  - load: {as: open, rate: 100, requests: 12, prompt: {tokens: 8}, max_tokens: 2}
gates:
  - {metric: 'requests_failed{step="open"}', equals: 0, why: every request must be answered}
"""


EMBEDDINGS = """title: embeddings
server: {embedding: true, parallel: 2, ctx-size: 512}
steps:
  - load: {as: vectors, rate: 50, requests: 40, api: embedding, prompt: {tokens: 40}}
gates:
  - {metric: 'error_share{step="vectors"}', max: 0, why: every request must be answered}
"""

NOBODY = """title: nobody
server: {parallel: 2, ctx-size: 1024}
steps:
  - load:
      as: few
      rate: 0.01
      arrivals: poisson
      duration: 1 s
      prompt: {tokens: 16}
      max_tokens: 3
gates:
  - {metric: 'requests_failed{step="few"}', equals: 0, why: every request must be answered}
  - {metric: 'decode_change_percent{step="few"}', min: -25, why: it stays as fast}
"""

ENDLESS = """title: endless
server: {parallel: 2, ctx-size: 1024}
steps:
  - load: {as: endless, duration: 1h, users: 2, prompt: {tokens: 16}, max_tokens: 2}
gates:
  - {metric: 'error_share{step="endless"}', max: 0, why: every request must be answered}
"""


def _run(desk: Desk, text: str, *words: str) -> tuple[int, str]:
    (desk.folder / "load.yaml").write_text(text)
    done = desk.run("run", "load.yaml", *words)
    return done.code, done.text


def _values(desk: Desk, step: str) -> dict[str, float]:
    """By metric, what was measured of a step as a whole; percentiles by `METRIC p0.95`."""
    measured = desk.last_record()["measurements"]
    return {
        f"{one['name']}{_quantile(one)}": one["value"]
        for one in measured
        if one["labels"].get("step") == step
    }


def _quantile(one: dict[str, Any]) -> str:
    quantile = one["labels"].get("quantile")
    return "" if quantile is None else f" p{quantile}"


def _replies(desk: Desk, step: str) -> list[dict[str, Any]]:
    """The journal's entries of a step's replies, by number of the request."""
    (journal,) = (desk.folder / ".benchsuite" / "runs").glob("*/samples.jsonl")
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    ours = [e for e in entries if e["kind"] == "reply" and e["labels"].get("step") == step]
    return sorted(ours, key=lambda one: int(one["labels"]["request"]))


@pytest.mark.parametrize("server", real_servers())
def test_open_loops_send_by_their_schedules(desk: Desk, server: str) -> None:
    """By count and by time, over both raw endpoints; what is due early is warm-up."""
    code, text = _run(desk, SCHEDULES, "--server", server)
    assert code == 0, text
    even, random = _values(desk, "even"), _values(desk, "random")
    due = [one["due_ns"] for one in _replies(desk, "even")]
    assert {after - before for before, after in pairwise(due)} == {25_000_000}
    assert len(due) == 40
    assert even["output_tokens"] == 40 * 3
    assert even["error_share"] == 0
    assert {"ttft_ms", "ttft_from_due_ms", "wait_ms", "client_late_share"} <= even.keys()
    (launch,) = desk.last_record()["launches"]
    summary = {one["name"]: one for one in launch["loads"]}["random"]
    sent = _replies(desk, "random")
    begin = min(one["due_ns"] for one in sent)
    span = max(one["due_ns"] for one in sent) - begin
    assert summary["sent"] == len(sent) > 20
    assert span < 1_500_000_000
    assert 0 < summary["measured"] < summary["sent"]
    assert random["output_tokens"] == 3 * len(sent)
    assert random["prompt_tokens"] >= 16 * len(sent)


@pytest.mark.parametrize("server", real_servers())
def test_the_second_turn_of_a_chat_finds_the_first_in_the_cache(desk: Desk, server: str) -> None:
    """All of the first prompt and of its answer but the last token; later users find the prefix."""
    code, text = _run(desk, CHATS, "--server", server)
    assert code == 0, text
    replies = [one["reply"] for one in _replies(desk, "alone")]
    for first, second in zip(replies[::2], replies[1::2], strict=True):
        kept = first["prompt_tokens"] + first["output_tokens"] - 1
        assert second["cached_tokens"] == kept
        assert second["evaluated_tokens"] == second["prompt_tokens"] - kept
    assert all(one["cached_tokens"] >= 100 for one in replies[2::2])
    assert _values(desk, "alone")["cached_tokens"] == sum(one["cached_tokens"] for one in replies)


@pytest.mark.parametrize("server", real_servers())
def test_users_think_from_their_answer_to_their_next_request(desk: Desk, server: str) -> None:
    """Each second turn is due 20 to 60 ms after an answer, whatever the server does."""
    code, text = _run(desk, CHATS, "--server", server)
    assert code == 0, text
    both = _replies(desk, "both")
    ends = [one["reply"]["stamps"]["end_ns"] for one in both]
    thinking = [one for one in both if one["due_ns"] > both[0]["due_ns"]]
    assert len(thinking) == 6
    for one in thinking:
        assert any(20e6 <= one["due_ns"] - end <= 60e6 for end in ends)


@needs_embedded
def test_few_requests_give_no_percentile_and_say_why(desk: Desk) -> None:
    """12 requests have a p50 with an interval, and no p90, p95 or p99."""
    text = LONG.replace("requests: 60", "requests: 12")
    code, said = _run(desk, text, "--server", "embedded")
    assert code == 0, said
    values = _values(desk, "long")
    assert "e2e_ms p0.5" in values
    assert not {"e2e_ms p0.9", "e2e_ms p0.95", "e2e_ms p0.99"} & values.keys()
    assert "12 requests are too few to tell how high the 0.99 quantile may be: 368 are" in said


@needs_embedded
def test_refused_requests_are_in_the_denominator(desk: Desk) -> None:
    """Prompts beyond the context are errors of their requests; the gate fails by their share."""
    code, said = _run(desk, TOO_LONG, "--server", "embedded")
    assert code == 1, said
    values = _values(desk, "mixed")
    failed = values["requests_failed"]
    assert 0 < failed < 20
    assert values["error_share"] == failed / 20
    assert len(_replies(desk, "mixed")) == 20 - failed
    assert "exceeds the available context size" in said
    assert "p95: " in said
    assert f"{failed:g} of 20 requests brought no reply" in said


@needs_embedded
def test_a_server_that_dies_in_the_middle_fails_the_launch(desk: Desk) -> None:
    """What was answered stays in the journal, no share is made of it, and the run exits with 4."""
    server = wrapper(desk.folder / "dying", [], kill_at_request=20)
    code, said = _run(desk, LONG, "--server", str(server))
    assert code == 4, said
    assert "the server died during load long" in said
    assert "unknown because of it: error_share" in said
    assert 10 <= len(_replies(desk, "long")) < 20
    assert "error_share" not in _values(desk, "long")


@needs_embedded
def test_a_capped_rate_towards_a_foreign_server_is_kept_and_said(desk: Desk) -> None:
    """The wait is counted from the schedule and told; it is no time of the server's."""
    with launched(desk) as url:
        config = f'[deployments.live]\nurl = "{url}"\nrequests_per_second = 4\n'
        (desk.folder / "benchsuite.toml").write_text(config)
        code, said = _run(desk, CAPPED, "-d", "live")
    assert code == 0, said
    assert "the cap of the request rate held requests back" in said
    sent = sorted(one["reply"]["stamps"]["sent_ns"] for one in _replies(desk, "open"))
    for first, fifth in zip(sent, sent[4:], strict=False):
        assert fifth - first > 0.95e9  # at most 4 in a second
    values = _values(desk, "open")
    assert values["ttft_from_due_ms"] - values["ttft_ms"] > 500


@pytest.mark.parametrize("server", real_servers())
def test_embeddings_are_asked_for_by_a_schedule(desk: Desk, server: str) -> None:
    """How long each took is measured, and prompts as the server counts them; tokens have none."""
    model = str(desk.tiny_model("embedding"))
    code, said = _run(desk, EMBEDDINGS, "--server", server, "--model", model)
    assert code == 0, said
    values = _values(desk, "vectors")
    assert values["prompt_tokens"] >= 40 * 40
    assert {"e2e_ms", "e2e_ms p0.5", "e2e_from_due_ms", "requests_per_second"} <= values.keys()
    record = desk.last_record()
    reasons = {
        one["name"]: one["reason"] for one in record["unmeasured"] if "step" in one["labels"]
    }
    for name in ("ttft_ms", "itl_ms", "tpot_ms", "output_tokens", "output_tokens_per_second"):
        assert name not in values
        assert "an embedding" in reasons[name]
    assert len(_replies(desk, "vectors")) == 40


@pytest.mark.parametrize("server", real_servers())
def test_a_load_to_which_nobody_came_is_no_good_news(desk: Desk, server: str) -> None:
    """Nothing of it is measured, so that nothing is judged."""
    code, text = _run(desk, NOBODY, "--server", server)
    assert code == 3, text
    record = desk.last_record()
    assert [gate["outcome"] for gate in record["gates"]] == ["inconclusive"] * 2
    assert _values(desk, "few") == {}
    (launch,) = record["launches"]
    assert any("no request was sent" in words for words in launch["warnings"])


@pytest.mark.parametrize("server", real_servers())
def test_a_load_that_is_interrupted_leaves_what_it_came_to(desk: Desk, server: str) -> None:
    """Figures in words, which nothing judges; of a soak of hours that is everything."""
    (desk.folder / "load.yaml").write_text(ENDLESS)
    process = desk.start("run", "load.yaml", "--server", server)
    deadline = time.monotonic() + 60
    while not desk.has_reply() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    record = desk.last_record()
    assert _values(desk, "endless") == {}
    (launch,) = record["launches"]
    (load,) = launch["loads"]
    assert load["cut"]
    assert load["measured"] >= 1
    assert any(words.startswith("requests_per_second ") for words in load["so_far"])
    assert [gate["outcome"] for gate in record["gates"]] == ["inconclusive"]
