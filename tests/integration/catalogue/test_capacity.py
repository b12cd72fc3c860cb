"""A sweep over users on a real server: each stage is measured, and the sweep as a whole."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk

pytestmark = pytest.mark.server


def test_a_healthy_server_passes(desk: Desk) -> None:
    """Whatever its speed, a single user is served within generous objectives."""
    done = desk.run("run", "capacity", "--server", "embedded")
    assert done.code == 0, done.text
    record = desk.last_record()
    (sweep,) = record["launches"][0]["sweeps"]
    driven = [one["stage"] for one in sweep["stages"]]
    assert driven == ["1", "2", "4"][: len(driven)]
    assert sweep["stages"][0]["verdict"] == "met"
    for name in ("requests_per_second", "goodput_requests_per_second", "error_share"):
        stages = [
            m["labels"]["stage"]
            for m in record["measurements"]
            if m["name"] == name and "stage" in m["labels"]
        ]
        assert stages == driven
    assert "highest load that meets the objectives" in done.text
