"""Each measurement of a real run says where it came from; memory is the server's, not ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, launch, wait_until_healthy
from tests.integration.desk import Desk
from tests.integration.server_under_test import embedded, is_healthy, linux_only, needs_embedded

pytestmark = [pytest.mark.server, needs_embedded, linux_only]

SCENARIO = """title: small
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 2}
  - {metric: 'pss_mib{at="end"}', max: 1 GiB}
  - {metric: 'gpu_mib{at="end",device=~".*"}', max: 1 GiB}
  - {metric: 'cgroup_mib{at="end"}', max: 1 GiB}
"""


def test_a_launched_run_names_every_source(desk: Desk) -> None:
    """Replies, log, /props, /proc and our clock; GPU and cgroup are not applicable here."""
    (desk.folder / "f.yaml").write_text(SCENARIO)
    done = desk.run("run", "f.yaml", "--server", "embedded")
    assert done.code == 0, done.text
    record = desk.last_record()
    sources = {m["name"]: m["source"] for m in record["measurements"]}
    assert "" not in sources.values()
    assert sources["kv_mib"] == "log"
    assert sources["n_ctx_slot"] == "/props"
    assert sources["anon_mib"] == "/proc/PID/status"
    assert sources["pss_mib"] == "/proc/PID/smaps_rollup"
    assert sources["cached_tokens"] == "reply timings.cache_n"
    assert sources["server_start_ms"] == "client clock"
    outcomes = {gate["metric"].partition("{")[0]: gate["outcome"] for gate in record["gates"]}
    assert outcomes == {
        "output_tokens": "pass",
        "pss_mib": "pass",
        "gpu_mib": "not applicable",
        "cgroup_mib": "not applicable",
    }
    values = {m["name"]: m["value"] for m in record["measurements"] if m["labels"].get("at")}
    assert 0 < values["pss_mib"] <= values["rss_mib"] * 1.1


def test_an_attached_server_is_seen_through_its_process(desk: Desk) -> None:
    """Declared by its process id and its log: the same sources, and its memory alone."""
    (desk.folder / "f.yaml").write_text(SCENARIO)
    with launched(desk) as server:
        _declare(desk, server, server.log_path)
        done = desk.run("run", "f.yaml", "-d", "live", LIVE_KEY=server.api_key)
    assert done.code == 0, done.text
    record = desk.last_record()
    sources = {m["name"]: m["source"] for m in record["measurements"]}
    assert "" not in sources.values()
    assert sources["pss_mib"] == "/proc/PID/smaps_rollup"
    assert sources["kv_mib"] == "log"
    # it runs in the test's own cgroup, and so does benchsuite
    reasons = {u["name"]: u["reason"] for u in record["unmeasured"]}
    assert "own cgroup" in reasons["cgroup_mib"]
    assert "no NVIDIA device is in use" in reasons["gpu_mib"]


def test_the_log_of_another_server_tells_nothing(desk: Desk) -> None:
    """It has a KV size, but no line of the requests that were just made."""
    (desk.folder / "f.yaml").write_text(SCENARIO + "  - {metric: kv_mib, max: 1 GiB}\n")
    with launched(desk) as server:
        elsewhere = desk.folder / "elsewhere.log"
        elsewhere.write_bytes(server.log_path.read_bytes())
        _declare(desk, server, elsewhere)
        done = desk.run("run", "f.yaml", "-d", "live", LIVE_KEY=server.api_key)
        assert done.code == 3, done.text
        assert "the observed log has no line of the requests that were just made" in " ".join(
            done.text.split()
        )
        _declare(desk, server, server.log_path)
        done = desk.run("run", "f.yaml", "-d", "live", LIVE_KEY=server.api_key)
    assert done.code == 0, done.text


@contextmanager
def launched(desk: Desk) -> Iterator[LaunchedServer]:
    """A running server with a log of its own."""
    with Guard() as guard:
        server = launch(
            embedded(),
            ["-c", "1024", "-np", "1", "--fit", "off", "-lv", "4", "--threads", "1", "--metrics"],
            model=str(desk.tiny_model()),
            log_path=desk.folder / "server.log",
            env={},
            guard=guard,
        )
        try:
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 30))
            yield server
        finally:
            server.stop(5)


def _declare(desk: Desk, server: LaunchedServer, log: Path) -> None:
    (desk.folder / "benchsuite.toml").write_text(
        f'[deployments.live]\nurl = "{server.url}"\napi_key_env = "LIVE_KEY"\n'
        f'observe = {{ log = "{log}", pid = {server.pid} }}\n'
    )
