"""`benchsuite ab` on real servers: nothing is found where nothing changed, and what changed is."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.desk import Desk, real_servers, wait_until, wrapper

pytestmark = pytest.mark.server

# one thread: where other programs compute too, llama.cpp's threads wait for each other for long
B = ("--variant", "B", "--set", "threads=1", "--quiet")
ONE = (*B, "--exact")
"""What is exact is decided by one pair; no machine's load can upset it."""
SHORT = """title: short
server: {parallel: 2, ctx-size: {min: 512, per: slot}}
prompts: {system: {tokens: 100, seed: 7}}
sessions: {A: {system: system}, B: {system: system}}
steps:
  - turn: {session: A, user: {tokens: 20, seed: 1}, max_tokens: 4}
  - turn: {session: B, user: {tokens: 20, seed: 27}, max_tokens: 4}
  - turn: {session: A, user: {tokens: 20, seed: 11}, max_tokens: 4}
variants:
  B: {}
  P: {sessions: {A: {slot: 0}, B: {slot: 1}}}
gates:
  - {metric: 'cached_tokens{session=~"A|B",turn=~".*"}', equals: baseline}
"""
SLOW = """title: slow
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - idle: 3
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 2}
"""


def _record(desk: Desk) -> dict[str, Any]:
    (file,) = (desk.folder / ".benchsuite" / "runs").glob("*/record.json")
    record: dict[str, Any] = json.loads(file.read_text())
    return record


def _failing(record: dict[str, Any]) -> set[str]:
    return {g["metric"].partition("{")[0] for g in record["gates"] if g["outcome"] == "fail"}


def test_a_build_against_itself_passes(desk: Desk) -> None:
    """Everything exact is equal, in two pairs of which the second goes the other way round."""
    (desk.folder / "short.yaml").write_text(SHORT)
    done = desk.run("ab", "short.yaml", "--pairs", "2", "--exact", "--set", "threads=1", "--quiet")
    assert done.code == 0, done.text
    assert "an A/A run" in done.text
    record = _record(desk)
    order = [(t["pair"], t["side"]) for t in record["turns"] if t["variant"] == "P"]
    assert order == [(1, "baseline"), (1, "candidate"), (2, "candidate"), (2, "baseline")]
    starts = {
        (launch["trial"], side, launch["variant"]): launch["started_at"]
        for side in ("baseline", "candidate")
        for launch in record[side]["launches"]
    }
    taken = [starts[t["pair"], t["side"], t["variant"]] for t in record["turns"]]
    assert taken == sorted(taken)
    (folder,) = (desk.folder / ".benchsuite" / "runs").iterdir()
    for side in ("baseline", "candidate"):
        names = {path.name for path in (folder / side).iterdir()}
        assert {"record.json", "samples.jsonl", "server.P.1.log", "server.P.2.log"} <= names


def test_a_larger_kv_type_is_blamed_on_kv_memory(desk: Desk) -> None:
    """Flag overlays on one server; the first pair ends it, and nothing else is blamed."""
    done = desk.run("ab", "scenarioB", *B, "--candidate-set", "cache-type-k=f32")
    assert done.code == 1, done.text
    record = _record(desk)
    assert _failing(record) == {"kv_mib"}
    assert record["differs"] == ["cache-type-k not set -> f32"]
    assert len(record["turns"]) == 2
    assert "kv_mib decides it after 1 pair" in done.text
    assert "changed from 16 MiB to 24 MiB (+50.0%) with cache-type-k not set -> f32" in done.text


@pytest.mark.parametrize("flag", [["--no-cache-prompt"], ["--slot-prompt-similarity", "0"]])
def test_a_lost_prefix_is_blamed_on_cached_tokens(desk: Desk, flag: list[str]) -> None:
    """A server that reuses nothing, or elsewhere, keeps its texts and loses its cached tokens."""
    server = wrapper(desk.folder / "llama-server", flag)
    done = desk.run(
        "ab", "scenarioB", *ONE, "--baseline-server", "embedded", "--candidate-server", str(server)
    )
    assert done.code == 1, done.text
    assert {"cached_tokens", "evaluated_tokens"} <= _failing(_record(desk))
    assert "text" not in _failing(_record(desk))


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_crash_of_either_side_is_exit_4(desk: Desk, side: str) -> None:
    """The side is named, and so is the step."""
    server = wrapper(desk.folder / "llama-server", [], kill_at_request=3)
    servers = {"baseline": "embedded", "candidate": "embedded", side: str(server)}
    words = [word for name, path in servers.items() for word in (f"--{name}-server", path)]
    done = desk.run("ab", "scenarioB", *B, *words)
    assert done.code == 4, done.text
    assert (
        f"{side} side: variant B, pair 1: the server died during turn 2 of session A" in done.text
    )
    verdict = _record(desk)["verdict"]
    assert verdict["reasons"][0].startswith(f"{side}, variant B, pair 1: ")


def test_a_coarser_cache_is_blamed_on_the_cosine(desk: Desk) -> None:
    """Both sides are forced along the baseline's tokens; a Q4_0 cache thinks otherwise."""
    coarse = ("--candidate-set", "cache-type-k=q4_0", "--candidate-set", "cache-type-v=q4_0")
    done = desk.run("ab", "equivalence", *ONE, *coarse, "--server", "embedded")
    assert done.code == 1, done.text
    record = _record(desk)
    assert {"kv_mib", "logprob_cosine"} <= _failing(record)
    against = {
        m["labels"]["against"]
        for m in record["candidate"]["measurements"]
        if m["name"] == "logprob_cosine"
    }
    assert against == {"B", "baseline"}


def test_the_same_vectors_are_alike(desk: Desk) -> None:
    """Cosines of a build with itself are 1, or nearly."""
    done = desk.run("ab", "equivalence", *ONE)
    assert done.code == 0, done.text
    cosines = [
        m["value"]
        for m in _record(desk)["candidate"]["measurements"]
        if m["name"] == "logprob_cosine" and m["labels"]["against"] == "baseline"
    ]
    assert len(cosines) == 2
    assert min(cosines) > 0.9999


def test_concurrent_requests_are_no_difference(desk: Desk) -> None:
    """Which slot serves whom is left out, and that it is."""
    done = desk.run("ab", "isolation", *ONE)
    assert done.code == 0, done.text
    assert (
        "not compared by default, since requests run at the same time: cached_tokens" in done.text
    )


def test_sides_may_be_deployments(desk: Desk) -> None:
    """Each with flags of its own; both are named."""
    model = json.dumps(str(desk.tiny_model()))
    (desk.folder / "benchsuite.toml").write_text(
        f'[deployments.plain]\nserver = "embedded"\nmodel = {model}\n'
        f'[deployments.wide]\nserver = "embedded"\nmodel = {model}\n'
        'flags = {cache-type-v = "f32"}\n'
    )
    sides = ("--baseline-deployment", "plain", "--candidate-deployment", "wide")
    done = desk.run("ab", "scenarioB", *ONE, *sides)
    assert done.code == 1, done.text
    assert _failing(_record(desk)) == {"kv_mib"}
    assert "deployment plain" in done.text
    assert "deployment wide" in done.text


def test_other_builds_are_compared(desk: Desk) -> None:
    """The builds are told as what differs; the tiny model's KV memory is the same in all."""
    servers = real_servers()
    if len(servers) < 2:
        pytest.skip("there is one server only")
    done = desk.run(
        "ab", "scenarioB", *ONE, "--baseline-server", servers[1], "--candidate-server", servers[-1]
    )
    record = _record(desk)
    assert done.code in (0, 1), done.text
    assert not {"kv_mib", "prompt_tokens"} & _failing(record)
    if len(servers) > 2:
        assert record["differs"][0].startswith("build ")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--candidate-set", "cache-tipe-k=f32"), 2, "candidate side: "),
        (("--candidate-server", "./nowhere"), 2, "nowhere"),
        (("--set", "threads=1", "--candidate-set", "threads=2"), 2, "--set threads is for both"),
        (("--pairs", "0"), 2, "--pairs"),
    ],
)
def test_what_cannot_be_run_is_said_before(
    desk: Desk, words: tuple[str, ...], code: int, told: str
) -> None:
    """Nothing is started, and the side is named where one of them is at fault."""
    done = desk.run("ab", "scenarioB", *words)
    assert done.code == code, done.text
    assert told in done.text
    assert not (desk.folder / ".benchsuite").exists()


def test_a_running_server_is_refused(desk: Desk) -> None:
    """It could not be stopped while the other side is measured."""
    (desk.folder / "benchsuite.toml").write_text('[deployments.live]\nurl = "http://127.0.0.1:1"\n')
    done = desk.run("ab", "scenarioB", "--candidate-deployment", "live")
    assert done.code == 2, done.text
    assert "cannot be stopped" in done.text


def test_json_goes_to_standard_output_alone(desk: Desk) -> None:
    """The record, with what each comparison stands on."""
    done = desk.run("ab", "scenarioB", *ONE, "--json", "-")
    assert done.code == 0, done.text
    body = json.loads(done.out)
    assert (body["schema_version"], body["kind"]) == (1, "ab")
    assert {g["against"] for g in body["gates"]} == {"other side", "number", "analytic"}


def _servers(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["pid"]):
        try:
            if any(str(folder) in one.path for one in process.open_files()):
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if "--port" in " ".join(process.cmdline())]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interruption_keeps_what_was_decided(desk: Desk) -> None:
    """In the second pair, what the first decided stands, no server is left, and exit is 130."""
    (desk.folder / "slow.yaml").write_text(SLOW)
    process = desk.start("ab", "slow.yaml", "--quiet", "--set", "threads=1")
    runs = desk.folder / ".benchsuite" / "runs"
    assert wait_until(
        lambda: any('"pair":2' in f.read_text() for f in runs.glob("*/samples.jsonl")), 60
    )
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert not _servers(desk.folder)
    record = _record(desk)
    assert record["interrupted"]
    outcomes = {g["metric"].partition("{")[0]: g["outcome"] for g in record["gates"]}
    assert outcomes["text"] == outcomes["kv_mib"] == outcomes["output_tokens"] == "pass"
    assert outcomes["ttft_ms"] == "inconclusive"
    assert "INTERRUPTED" in out
