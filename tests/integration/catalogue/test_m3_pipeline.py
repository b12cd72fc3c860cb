"""m3-pipeline: it passes, sees a broken pipeline, and knows the issue of a fork's pipeline."""

from __future__ import annotations

import pytest

from tests.integration.conditional import conditional
from tests.integration.desk import Desk

pytestmark = pytest.mark.server

ONE_THREAD = ("--set", "threads=1")  # where other programs compute too, more wait for each other
ASSERTION = "/src/ggml/src/ggml-cuda/concat.cu:165: GGML_ASSERT(src0->type == GGML_TYPE_F32) failed"


def test_it_passes_without_a_fork(desk: Desk) -> None:
    """O has no flags here: it is not applicable, and no known issue is considered."""
    done = desk.run("run", "m3-pipeline", *ONE_THREAD)
    assert done.code == 0, done.text
    record = desk.last_record()
    assert [n["variant"] for n in record["not_applicable"]] == ["O"]
    assert [i["outcome"] for i in record["known_issues"]] == ["not considered"]


@pytest.mark.parametrize(
    ("extra", "metric"),
    [(["--no-cache-prompt"], "cached_tokens"), (["--rope-freq-base", "3000"], "text")],
)
def test_a_broken_pipeline_is_found(desk: Desk, extra: list[str], metric: str) -> None:
    """One way of cutting batches loses what it computed, or computes another text."""
    server = conditional(desk.folder / "llama-server", ["--ubatch-size 96"], extra)
    done = desk.run("run", "m3-pipeline", "--variant", "M", "--server", str(server), *ONE_THREAD)
    assert done.code == 1, done.text
    failed = {
        (gate["variant"], gate["metric"].partition("{")[0])
        for gate in desk.last_record()["gates"]
        if gate["outcome"] == "fail" and gate["level"] == "block"
    }
    assert ("M", metric) in failed
    assert {variant for variant, _ in failed} == {"M"}


def test_batches_that_are_not_those_asked_for_are_found(desk: Desk) -> None:
    """A build that ignores the flag has tried nothing."""
    server = conditional(
        desk.folder / "llama-server", ["--ubatch-size 96"], ["--ubatch-size", "512"]
    )
    done = desk.run("run", "m3-pipeline", "--variant", "M", "--server", str(server), *ONE_THREAD)
    assert done.code == 4, done.text
    assert "ubatch-size: asked for 96, the log says 512" in done.text


def test_a_harmless_change_passes(desk: Desk) -> None:
    """More threads for one way of cutting batches change nothing but time."""
    server = conditional(desk.folder / "llama-server", ["--ubatch-size 96"], ["--threads", "2"])
    done = desk.run("run", "m3-pipeline", "--variant", "M", "--server", str(server), *ONE_THREAD)
    assert done.code == 0, done.text


def fork(desk: Desk, overlay: str) -> None:
    """A deployment of the tiny model that fills O in; the bug of CUDA's kernel is any backend's."""
    scenarios = desk.folder / "scenarios"
    scenarios.mkdir()
    text = desk.scenario_text("m3-pipeline")
    assert text.count("    backend: CUDA\n") == 1
    (scenarios / "m3-pipeline.yaml").write_text(text.replace("    backend: CUDA\n", ""))
    (desk.folder / "benchsuite.toml").write_text(
        f"[deployments.fork]\nmodel = '{desk.tiny_model()}'\n"
        "flags = {n-gpu-layers = 0, threads = 1}\n"
        f"[deployments.fork.overlays.m3-pipeline.O]\n{overlay}\n"
    )


def run_o(desk: Desk, dying: str) -> int:
    """The exit code of O on a fork that aborts with these words."""
    server = conditional(desk.folder / "llama-server", ["--ubatch-size 80"], dying=dying)
    return desk.run(
        "run", "m3-pipeline", "-d", "fork", "--variant", "O", "--server", str(server)
    ).code


def test_the_crash_of_a_fork_is_expected(desk: Desk) -> None:
    """bug-207 makes O's gates xfail; the run is accepted without O, and then passes."""
    fork(desk, "ubatch-size = 80")
    assert run_o(desk, ASSERTION) == 3  # nothing is accepted of this deployment yet
    record = desk.last_record()
    assert {g["outcome"] for g in record["gates"] if g["variant"] == "O"} == {
        "xfail",
        "not applicable",
    }
    forensics = next(x["failure"]["forensics"] for x in record["launches"] if x["failure"])
    assert (forensics["line"], forensics["signal"]) == (165, 6)
    assert forensics["expression"] == "src0->type == GGML_TYPE_F32"
    accepted = desk.run("accept", "last", "--reason", "first")
    assert accepted.code == 0, accepted.text
    assert run_o(desk, ASSERTION) == 0


def test_another_crash_of_a_fork_is_exit_4(desk: Desk) -> None:
    """The same place with another assertion is another bug."""
    fork(desk, "ubatch-size = 80")
    other = ASSERTION.replace("src0", "src1")
    assert run_o(desk, other) == 4
    assert desk.last_record()["known_issues"][0]["outcome"] == "other failure"


def test_a_fork_that_is_mended_is_told_which_line_to_delete(desk: Desk) -> None:
    """O passes: exit 1, and the entry's place is a line that holds it."""
    fork(desk, "ubatch-size = 80")
    done = desk.run("run", "m3-pipeline", "-d", "fork", "--variant", "O", "--server", "embedded")
    assert done.code == 1, done.text
    (issue,) = desk.last_record()["known_issues"]
    assert issue["outcome"] == "xpass"
    line = int(issue["place"].rpartition(":")[2])
    text = (desk.folder / "scenarios" / "m3-pipeline.yaml").read_text().splitlines()
    assert text[line - 1].strip() == "- variant: O"
    assert issue["place"] in done.text.replace(" ", "")


def test_a_fork_without_cuda_is_not_held_to_the_bug(desk: Desk) -> None:
    """bug-207 is of CUDA's kernel: elsewhere O passes like any variant."""
    fork(desk, "ubatch-size = 80")
    (desk.folder / "scenarios" / "m3-pipeline.yaml").unlink()
    done = desk.run("run", "m3-pipeline", "-d", "fork", "--variant", "O", "--server", "embedded")
    assert done.code == 3, done.text  # no baselines yet
    (issue,) = desk.last_record()["known_issues"]
    assert issue["outcome"] == "not considered"
    assert "backend CUDA" in issue["reason"]
    assert {g["outcome"] for g in desk.last_record()["gates"]} <= {
        "pass",
        "inconclusive",
        "not applicable",
    }
