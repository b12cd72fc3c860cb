"""`[limits]` of a configuration and of a deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.errors import ConfigError
from benchsuite.scenario.config import parse_config


def test_limits_of_the_file_and_of_a_deployment_are_read(tmp_path: Path) -> None:
    """In seconds; what is not given is not there."""
    text = "[limits]\nrun = 3600\nlock = 0\n[deployments.d]\n[deployments.d.limits]\nstep = 1.5\n"
    found = parse_config(tmp_path / "benchsuite.toml", text)
    assert found.limits == {"run": 3600.0, "lock": 0.0}
    assert found.deployments["d"].limits == {"step": 1.5}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("stepp = 1", r":2: unknown key 'stepp' in 'limits'.*did you mean 'step'"),
        ("step = 0", r":2: 'step': expected a number of seconds above 0"),
        ("step = nan", ":2: 'limits.step' is nan; expected a number"),
        ("run = inf", ":2: 'limits.run' is inf; expected a number"),
        ("idle = true", r":2: 'idle': expected a number of seconds, found True"),
        ('idle = "1 min"', r":2: 'idle': expected a number of seconds"),
    ],
)
def test_what_is_no_limit_is_said_at_its_line(tmp_path: Path, line: str, told: str) -> None:
    """With the word that was meant."""
    with pytest.raises(ConfigError, match=told):
        parse_config(tmp_path / "benchsuite.toml", f"[limits]\n{line}\n")
