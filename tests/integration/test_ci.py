"""A suite on a real server: green, red, accepted; hostile output; what a service is told."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from tests.integration.desk import Desk

pytestmark = pytest.mark.server

SCENARIO = """title: how much one prompt weighs
server: {parallel: 1, ctx-size: {default: 512}, threads: 1}
steps:
  - complete: {id: one, prompt: {tokens: 20}, max_tokens: 4}
gates:
  - {metric: kv_mib, equals: baseline}
  - {metric: 'output_tokens{request="one"}', equals: 4}
"""
SUITE = """title: small
scenarios: [{entry}]
outputs: {{junit: junit.xml, summary: summary.md, gitlab-metrics: metrics.txt, markdown: c.md}}
"""
QUARANTINE = """quarantine:
  - {scenario: weight, variant: default, gate: kv_mib, issue: bug-9, expires: 'DATE', reason: r}
"""


class Shop:
    """A desk with scenario `weight` and suite `pr`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        (desk.folder / "scenarios").mkdir()
        (desk.folder / "ci" / "suites").mkdir(parents=True)
        (desk.folder / "scenarios" / "weight.yaml").write_text(SCENARIO)
        self.suite()

    def suite(self, entry: str = "weight", more: str = "") -> None:
        (self.desk.folder / "ci/suites/pr.yaml").write_text(SUITE.format(entry=entry) + more)

    def ci(self, *words: str, **env: str) -> tuple[int, str]:
        """Exit code and standard output of `benchsuite ci pr` on the embedded server."""
        done = self.desk.run("ci", "pr", "-q", "--server", "embedded", *words, **env)
        return done.code, done.out

    def accept(self) -> None:
        done = self.desk.run("accept", "last", "--reason", "first", "--scope", "config")
        assert done.code == 0, done.text

    def result(self, name: str) -> str:
        return (self.desk.folder / ".benchsuite/ci/pr" / name).read_text()


@pytest.fixture
def shop(desk: Desk) -> Shop:
    return Shop(desk)


def test_green_then_red_then_accepted_and_green(shop: Shop) -> None:
    """A regression is told at the baseline's line; a baseline accepted from the run mends it."""
    assert shop.ci()[0] == 3  # nothing to compare with yet
    shop.accept()
    assert shop.ci()[0] == 0
    assert 'failures="0" errors="0"' in shop.result("junit.xml")
    summary = shop.desk.folder / "step.md"
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(shop.desk.folder),
        "GITHUB_STEP_SUMMARY": str(summary),
        "CI": "true",
    }
    wider = ("--set", "ctx-size=1024")
    code, out = shop.ci(*wider, **github)
    assert code == 1
    (error,) = [line for line in out.splitlines() if line.startswith("::error ")]
    baseline = "baselines/tiny/weight/config.json"
    found = re.match(rf"::error file={baseline},line=(\d+),title=weight default%3A kv_mib ", error)
    assert found is not None, error
    lines = (shop.desk.folder / baseline).read_text().splitlines()
    assert lines[int(found[1]) - 1].strip().startswith('"kv_mib":')
    assert "changed from 1 MiB to 2 MiB" in error
    assert summary.read_text().startswith("## benchsuite: did not pass (0 of 1 runs hold)")
    assert "FAIL" in shop.result("c.md").splitlines()[1]
    (failure,) = ET.fromstring(shop.result("junit.xml")).iter("failure")
    assert failure.get("type") == "changed"
    assert shop.desk.run("accept", "last", "--reason", "wider", **github).code == 2
    shop.accept()
    assert shop.ci(*wider, **github)[0] == 0
    values = dict(line.rsplit(" ", 1) for line in shop.result("metrics.txt").splitlines()[1:-1])
    assert values['kv_mib{deployment="tiny",scenario="weight",variant="default"}'] == "2"


def test_a_quarantined_gate_shows_and_does_not_block(shop: Shop) -> None:
    """Until it expires; the gates beside it still do."""
    shop.ci()
    shop.accept()
    wider = ("--set", "ctx-size=1024")
    shop.suite(more=QUARANTINE.replace("DATE", "2099-01-01"))
    code, out = shop.ci(*wider)
    assert code == 0
    assert "quarantined (bug-9, until 2099-01-01)" in " ".join(out.split())
    (skipped,) = ET.fromstring(shop.result("junit.xml")).iter("skipped")
    assert skipped.get("type") == "quarantined, changed"
    scenario = shop.desk.folder / "scenarios" / "weight.yaml"
    scenario.write_text(SCENARIO.replace("equals: 4}", "equals: 5}"))
    assert shop.ci(*wider)[0] == 1
    shop.suite(more=QUARANTINE.replace("DATE", "2020-01-01"))
    done = shop.desk.run("ci", "pr")
    assert done.code == 2
    assert "ci/suites/pr.yaml:5: the quarantine for bug-9 expired on 2020-01-01" in done.text


def test_a_crash_beside_a_pass_is_told_and_the_rest_still_runs(shop: Shop) -> None:
    """Exit 4, both runs in the files; the failed one alone is run again."""
    broken = SCENARIO.replace("threads: 1}", "threads: 1, batch-size: 0}")
    (shop.desk.folder / "scenarios" / "broken.yaml").write_text(broken)
    shop.ci()
    shop.accept()
    shop.suite("broken, weight")
    assert shop.ci()[0] == 4
    runs = json.loads(shop.result("suite.json"))["runs"]
    assert [run["outcome"] for run in runs] == ["server failed", "pass"]
    (error, *_) = ET.fromstring(shop.result("junit.xml")).iter("error")
    assert error.get("type") in ("start", "crash")
    assert shop.ci("--failed")[0] == 4
    runs = json.loads(shop.result("suite.json"))["runs"]
    assert [run["carried"] for run in runs] == [False, True]
