"""Machines under one name, deployments side by side, and whose baselines judge."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk

pytestmark = pytest.mark.server

SMALL = """title: small
server: {parallel: {default: 1}, ctx-size: {default: 1024}}
sessions: {A: {system: {tokens: 50, seed: 1}}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - turn: {session: A, user: {tokens: 8, seed: 1}, max_tokens: 2}
gates:
  - {metric: 'cached_tokens{session="A",turn="2"}', equals: baseline}
  - {metric: kv_mib, equals: baseline}
  - {metric: 'anon_mib{at="end"}', regression: {worse_than: 50%, and_by: 64 MiB}}
"""


@pytest.fixture
def small(desk: Desk) -> Desk:
    """A desk with a scenario, and two deployments of one server: as it is, and a candidate."""
    (desk.folder / "scenarios").mkdir()
    (desk.folder / "scenarios" / "small.yaml").write_text(SMALL)
    model = desk.tiny_model()
    (desk.folder / "benchsuite.toml").write_text(
        "".join(
            f'[deployments.{name}]\nserver = "embedded"\nmodel = "{model}"\n'
            f"flags = {{ n-gpu-layers = 0, ctx-size = {context} }}\n"
            for name, context in (("stable", 1024), ("candidate", 1024), ("larger", 2048))
        )
    )
    return desk


def _outcomes(desk: Desk) -> dict[str, str]:
    return {gate["metric"].split("{")[0]: gate["outcome"] for gate in desk.last_record()["gates"]}


def test_a_pool_of_two_hosts_shares_one_baseline(small: Desk) -> None:
    """By option or by variable; a third name is inconclusive, and the field is named."""
    trials = ("run", "small", "-d", "stable", "--trials", "3")
    small.run(*trials, BENCHSUITE_MACHINE="pool-a")
    assert small.run("accept", "last", "--reason", "first").code == 0
    folder = small.folder / "baselines" / "stable" / "small"
    files = {path.name for path in folder.iterdir()}
    assert len([name for name in files if name.startswith("machine.")]) == 1
    # the other host of the pool
    done = small.run(*trials, "--machine", "pool-a")
    assert done.code == 0, done.text
    assert _outcomes(small) == {"cached_tokens": "pass", "kv_mib": "pass", "anon_mib": "pass"}
    done = small.run(*trials, "--machine", "pool-b", BENCHSUITE_MACHINE="pool-a")
    assert done.code == 3, done.text
    assert "machine: 'pool-a' in the baseline, 'pool-b' here" in done.text
    # what does not depend on the machine is held to the baseline all the same
    assert _outcomes(small) == {
        "cached_tokens": "pass",
        "kv_mib": "pass",
        "anon_mib": "inconclusive",
    }
    assert {path.name for path in folder.iterdir()} == files


def test_a_candidate_is_judged_by_the_baselines_of_another_deployment(small: Desk) -> None:
    """Each deployment has its own, side by side; `--against` picks whose judge."""
    small.run("run", "small", "-d", "stable")
    assert small.run("accept", "last", "--reason", "first").code == 0
    done = small.run("run", "small", "-d", "candidate")
    assert done.code == 3, done.text
    done = small.run("run", "small", "-d", "candidate", "--against", "stable")
    assert done.code == 0, done.text
    done = small.run("run", "small", "-d", "larger", "--against", "stable")
    assert done.code == 1, done.text
    assert "ctx-size 1024 -> 2048" in done.text
    assert _outcomes(small)["kv_mib"] == "fail"
    # the candidate becomes a deployment of its own right
    assert small.run("accept", "last", "--metric", "kv_mib", "--reason", "larger").code in (0, 2)
    small.run("run", "small", "-d", "candidate")
    assert small.run("accept", "last", "--reason", "its own").code == 0
    assert small.run("run", "small", "-d", "candidate").code == 0
    assert small.run("run", "small", "-d", "stable").code == 0
    assert {"stable", "candidate"} <= {path.name for path in (small.folder / "baselines").iterdir()}


def test_a_name_that_judges_nothing_is_refused_before_anything_runs(small: Desk) -> None:
    """Neither a deployment, a run, nor a revision."""
    done = small.run("run", "small", "-d", "candidate", "--against", "stabel")
    assert done.code == 2, done.text
    assert "stabel" in done.text
    assert not (small.folder / ".benchsuite").exists()
