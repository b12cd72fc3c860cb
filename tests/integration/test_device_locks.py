"""Runs side by side: on two devices at once, on one device one after the other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.desk import Desk, wait_until
from tests.integration.test_lifecycle import SLOW

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no shared locks"),
]

NOISY = SLOW + '  - {metric: \'ttft_ms{session="A",turn="1"}\', regression: {worse_than: 10%}}\n'


def _idling(desk: Desk, device: str) -> subprocess.Popen[str]:
    """A noisy run that is confined to a GPU, and idles while it has its lock."""
    (desk.folder / "slow.yaml").write_text(NOISY)
    desk.env["CUDA_VISIBLE_DEVICES"] = device
    process = desk.start("run", "slow.yaml")
    assert wait_until(desk.has_reply)
    return process


def test_two_noisy_runs_use_two_devices_at_the_same_time(desk: Desk) -> None:
    """A third, on one of them, waits and says for whom."""
    process = _idling(desk, "0")
    try:
        (desk.folder / "short.yaml").write_text(NOISY.replace("idle: 60", "idle: 0.1"))
        done = desk.run("run", "short.yaml", CUDA_VISIBLE_DEVICES="1")
        assert done.code in (0, 3), done.text
        assert "waiting for" not in done.text
        desk.env["CUDA_VISIBLE_DEVICES"] = "0"
        third = desk.start("run", "short.yaml")
        assert third.stdout is not None
        said = third.stdout.readline()
        assert f"waiting for another run (process {process.pid}, since" in said
        assert "to be done with device 'gpu-0'" in said
    finally:
        process.terminate()
        process.communicate(timeout=30)
    out, _ = third.communicate(timeout=60)
    assert third.returncode in (0, 3), out


def test_an_exact_run_does_not_wait_for_another(desk: Desk) -> None:
    """Counts and KV memory are the same beside others."""
    (desk.folder / "slow.yaml").write_text(SLOW)
    process = desk.start("run", "slow.yaml")
    try:
        assert wait_until(desk.has_reply)
        (desk.folder / "short.yaml").write_text(SLOW.replace("idle: 60", "idle: 0.1"))
        done = desk.run("run", "short.yaml")
        assert done.code == 0, done.text
        assert "waiting for" not in done.text
    finally:
        process.terminate()
        process.communicate(timeout=30)
