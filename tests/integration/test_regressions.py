"""Real regressions on a real server: each has its exit code and a sentence that names the cause.

The servers are real ones behind wrappers that change one thing, as a patch or a packager would.
"""

from __future__ import annotations

import json

import pytest

from tests.integration.desk import Desk, real_servers, wrapper

pytestmark = pytest.mark.server


def test_the_shipped_scenario_passes(desk: Desk) -> None:
    """The verdict of a healthy server is a pass, with KV, cached tokens and RSS in it."""
    done = desk.run("run", "scenarioB")
    assert done.code == 0, done.text
    assert "PASS" in done.text
    for word in ("KV MiB", "cached_tokens", "RSS MiB"):
        assert word in done.text


@pytest.mark.parametrize(
    ("name", "extra", "code", "words"),
    [
        ("quantised K", ["--cache-type-k", "q8_0"], 1, ["kv_mib", "8"]),
        ("no prompt cache", ["--no-cache-prompt"], 1, ["cached_tokens"]),
        ("sessions change slots", ["--slot-prompt-similarity", "0"], 1, ["cached_tokens"]),
        ("parallel ignored", ["--parallel", "1"], 4, ["asked for 2 slots, the server has 1"]),
        ("no KV lines", ["--verbosity", "3"], 1, ["kv_mib", "no KV line"]),
        ("dies while loading", ["--batch-size", "0"], 4, ["did not start", "GGML_ASSERT"]),
    ],
)
def test_a_changed_server_does_not_pass(
    desk: Desk, name: str, extra: list[str], code: int, words: list[str]
) -> None:
    """A wrapper that adds one flag is found, and what it changed is named."""
    server = wrapper(desk.folder / "llama-server", extra)
    done = desk.run("run", "scenarioB", "--variant", "B", "--server", str(server))
    assert done.code == code, f"{name}: {done.text}"
    for word in words:
        assert word in done.text, f"{name}: {done.text}"


def test_a_server_that_dies_in_turn_2_is_a_crash(desk: Desk) -> None:
    """The step and the signal are named, what was measured before is kept, nothing passes."""
    server = wrapper(desk.folder / "llama-server", [], kill_at_request=3)
    done = desk.run("run", "scenarioB", "--variant", "B", "--server", str(server))
    assert done.code == 4, done.text
    assert "died during turn 2 of session A" in done.text
    assert "signal 9" in done.text
    assert "unknown because of it: cached_tokens, kv_mib, anon_mib" in done.text
    record = desk.last_record()
    seen = {(m["name"], *sorted(m["labels"].values())) for m in record["measurements"]}
    assert ("cached_tokens", "1", "A") in seen
    assert ("cached_tokens", "2", "A") not in seen
    left = record["launches"][0]["failure"]["forensics"]
    assert [request["labels"] for request in left["in_flight"]] == [{"session": "A", "turn": "2"}]
    assert left["signal"] == 9
    assert [slot["processing"] for slot in left["slots"]].count(True) == 1
    assert "in flight: turn 2 of session A" in done.text


def test_a_missing_baseline_is_inconclusive(desk: Desk) -> None:
    """With no baseline at all there is nothing to hold the numbers against: exit 3, and how to
    accept one."""
    done = desk.run("run", "scenarioB", "--variant", "B", "--model", str(desk.tiny_model()))
    assert done.code == 3, done.text
    assert "benchsuite accept" in done.text


def test_a_deleted_baseline_is_not_a_pass(desk: Desk) -> None:
    """A user's baseline file that lost a metric makes the metric new, which fails."""
    desk.run("run", "scenarioB", "--variant", "B")
    assert desk.run("accept", "last", "--reason", "first").code == 0
    (file,) = (desk.folder / "baselines").rglob("config.json")
    body = json.loads(file.read_text())
    del body["metrics"]["B"]["kv_mib"]
    file.write_text(json.dumps(body))
    done = desk.run("run", "scenarioB", "--variant", "B")
    assert done.code == 1, done.text
    assert "kv_mib" in done.text
    assert "new" in done.text


def test_a_renamed_metric_is_a_usage_error(desk: Desk) -> None:
    """A scenario that gates a metric which does not exist is refused at its line."""
    text = desk.scenario_text("scenarioB").replace("metric: kv_mib", "metric: kv_mb", 1)
    path = desk.folder / "renamed.yaml"
    path.write_text(text)
    line = text[: text.index("kv_mb")].count("\n") + 1
    done = desk.run("run", str(path))
    assert done.code == 2, done.text
    assert f"renamed.yaml:{line}: " in done.text
    assert "did you mean 'kv_mib'?" in done.text
    assert not (desk.folder / ".benchsuite").exists()


def test_a_slot_that_the_server_lacks_is_an_error(desk: Desk) -> None:
    """llama-server serves an out-of-range slot by another one and says nothing; the log tells."""
    text = desk.scenario_text("scenarioB").replace("B: {slot: 1}", "B: {slot: 9}")
    text = text.replace("parallel: 2", "parallel: {default: 2}")
    path = desk.folder / "pinned.yaml"
    path.write_text(text)
    done = desk.run("run", str(path), "--variant", "P")
    assert done.code == 4, done.text
    assert "asked for slot 9" in done.text


def test_an_out_of_range_slot_is_found_by_the_reply_too(desk: Desk) -> None:
    """`/completion` names the slot itself."""
    path = desk.folder / "complete.yaml"
    path.write_text(
        "title: raw\n"
        "server: {parallel: 2, ctx-size: 1024}\n"
        "steps:\n"
        "  - complete: {id: one, prompt: {tokens: 20}, slot: 7, max_tokens: 4}\n"
        "gates:\n"
        "  - {metric: 'output_tokens{request=\"one\"}', equals: 4}\n"
    )
    done = desk.run("run", str(path))
    assert done.code == 4, done.text
    assert "asked for slot 7" in done.text


def test_more_than_100_requests_on_one_server(desk: Desk) -> None:
    """llama-server closes a kept-alive connection after 100 requests; nobody notices."""
    turns = "".join(
        f"  - complete: {{id: r{i}, prompt: {{tokens: 8, seed: {i}}}, max_tokens: 2}}\n"
        for i in range(130)
    )
    path = desk.folder / "many.yaml"
    path.write_text(
        "title: many requests\nserver: {parallel: 1, ctx-size: 1024}\nsteps:\n"
        f"{turns}gates:\n"
        "  - {metric: 'output_tokens{request=~\".*\"}', equals: 2}\n"
    )
    done = desk.run("run", str(path))
    assert done.code == 0, done.text


def test_every_step_of_a_scenario_is_taken(desk: Desk) -> None:
    """Turns, raw completions, steps side by side, a pause and a snapshot in one file."""
    path = desk.folder / "all.yaml"
    path.write_text(
        "title: every step\n"
        "server: {parallel: 2, ctx-size: {min: 1024, per: slot}}\n"
        "prompts:\n  system: {tokens: 100, seed: 3}\n"
        "sessions:\n  A: {system: system, slot: 0}\n  B: {system: system, slot: 1}\n"
        "steps:\n"
        "  - turn: {session: A, user: {text: ' bako tumi'}, max_tokens: 4}\n"
        "  - concurrently:\n"
        "      - turn: {session: A, user: {tokens: 10, seed: 1}, max_tokens: 6}\n"
        "      - [{turn: {session: B, user: {tokens: 10, seed: 2}, max_tokens: 6}},\n"
        "         {complete: {id: raw, prompt: {tokens: 9}, max_tokens: 3}}]\n"
        "  - idle: 0.05\n"
        "  - snapshot: middle\n"
        "gates:\n"
        '  - {metric: \'slot{session="A",turn=~".*"}\', equals: 0}\n'
        '  - {metric: \'slot{session="B",turn="1"}\', equals: 1}\n'
        "  - {metric: 'prompt_tokens{request=\"raw\"}', min: 9, max: 10}\n"
        "  - {metric: 'rss_mib{at=\"middle\"}', min: 1, needs: linux}\n"
        '  - {metric: \'cached_tokens{session="A",turn="2"}\', min: 100}\n'
    )
    done = desk.run("run", str(path))
    assert done.code == 0, done.text


def test_json_holds_the_whole_record(desk: Desk) -> None:
    """`--json -` prints runs with verdict, gates and measurements, and nothing else on stdout."""
    done = desk.run("run", "scenarioA", "--json", "-", "--quiet")
    body = json.loads(done.out)
    (run,) = body["runs"]
    assert run["verdict"]["exit_code"] == done.code == 0
    first = run["measurements"][0]
    assert {"name", "labels", "value", "unit", "variant", "trial"} <= set(first)


def test_three_real_servers_give_the_same_numbers(desk: Desk) -> None:
    """The embedded server, a llama-server binary and an older one agree on KV and cached tokens."""
    runs = []
    servers = real_servers()
    if len(servers) < 2:
        pytest.skip("no llama-server besides the embedded one runs here")
    for server in servers:
        done = desk.run("run", "scenarioB", "--server", server)
        assert done.code == 0, done.text
        measured = desk.last_record()["measurements"]
        runs.append(
            {
                (m["name"], m["variant"], *sorted(m["labels"].items())): m["value"]
                for m in measured
                if m["name"] in ("kv_mib", "cached_tokens") and "device" not in m["labels"]
            }
        )
    assert all(run == runs[0] for run in runs)
