"""Which devices a run is known to use, and when it needs them alone."""

from __future__ import annotations

import pytest

from benchsuite.model.deployment import Command, Deployment
from benchsuite.model.plan import Plan
from benchsuite.model.scenario import GateSpec, Regression, Scenario, SnapshotStep
from benchsuite.pipeline.devices import devices_of, is_noisy, locks_of, locks_of_sides


def _plan(deployment: Deployment, *gates: GateSpec) -> Plan:
    scenario = Scenario(name="x", path="x.yaml", title="x", steps=(SnapshotStep("a"),))
    return Plan(scenario=scenario, deployment=deployment, variants=(), gates=gates)


def _container(*words: str) -> Deployment:
    argv = ("docker", "run", "--name", "{name}", *words, "image", "{flags}")
    return Deployment("box", command=Command(argv, engine=("docker",), container="{name}"))


@pytest.mark.parametrize(
    ("env", "environ", "found"),
    [
        ({}, {}, ()),
        ({"CUDA_VISIBLE_DEVICES": "1"}, {}, ("gpu-1",)),
        ({}, {"CUDA_VISIBLE_DEVICES": "0, 1"}, ("gpu-0", "gpu-1")),
        ({"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "0"}, ("gpu-1",)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1a2b-3c"}, {}, ("gpu-GPU-1a2b-3c",)),
        ({"CUDA_VISIBLE_DEVICES": ""}, {}, ()),
        ({"CUDA_VISIBLE_DEVICES": "none"}, {}, ()),
    ],
)
def test_a_mask_names_the_gpus(
    env: dict[str, str], environ: dict[str, str], found: tuple[str, ...]
) -> None:
    """The deployment's before ours; what is not understood is not known."""
    assert devices_of(_plan(Deployment("x", env=env)), environ) == found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--gpus", "all"), ()),
        (("--gpus", '"device=0,1"'), ("gpu-0", "gpu-1")),
        (("--gpus=device=1",), ("gpu-1",)),
        (("-e", "NVIDIA_VISIBLE_DEVICES=1"), ("gpu-1",)),
        (("--device", "nvidia.com/gpu=0", "--device=nvidia.com/gpu=1"), ("gpu-0", "gpu-1")),
        (("--device", "nvidia.com/gpu=all"), ()),
        ((), ()),
    ],
)
def test_an_engine_s_options_name_the_gpus_of_a_container(
    words: tuple[str, ...], found: tuple[str, ...]
) -> None:
    """Our own mask does not reach into it."""
    environ = {"CUDA_VISIBLE_DEVICES": "7"}
    assert devices_of(_plan(_container(*words)), environ) == found


def test_latency_and_regressions_of_memory_are_noisy() -> None:
    """A limit of memory or an exact count holds whoever else is busy; any latency does not."""
    worse = Regression(10)
    assert is_noisy([GateSpec("ttft_ms", regression=worse)])
    assert is_noisy([GateSpec("ttft_ms", max=100)])
    assert is_noisy([GateSpec('decode_change_percent{step="soak"}', min=-25)])
    assert is_noisy([GateSpec('anon_mib{at="end"}', regression=worse)])
    assert not is_noisy([GateSpec('anon_mib{at="end"}', max=100)])
    assert not is_noisy([GateSpec("kv_mib", equals_baseline=True)])


def test_a_server_that_is_not_of_this_machine_locks_nothing() -> None:
    """Attached, or started elsewhere."""
    assert locks_of(_plan(Deployment("x", url="http://x")), {}) is None
    far = Command(("ssh", "x", "{flags}"), elsewhere=True)
    assert locks_of(_plan(Deployment("x", command=far)), {}) is None


def test_servers_that_are_compared_lock_what_both_use() -> None:
    """The whole host where the devices of one side are not known."""
    zero = _plan(Deployment("x", env={"CUDA_VISIBLE_DEVICES": "0"}))
    one = _plan(Deployment("x", env={"CUDA_VISIBLE_DEVICES": "1,0"}))
    far = _plan(Deployment("x", command=Command(("ssh", "x", "{flags}"), elsewhere=True)))
    assert locks_of_sides([zero, one], {}) == ("gpu-0", "gpu-1")
    assert locks_of_sides([zero, far], {}) == ("gpu-0",)
    assert locks_of_sides([zero, _plan(Deployment("x"))], {}) == ()
    assert locks_of_sides([far, far], {}) is None
