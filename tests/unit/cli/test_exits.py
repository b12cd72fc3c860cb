"""What ends the command line without a verdict never leaves with a code that is one."""

from __future__ import annotations

import click
import pytest

from benchsuite.cli import main
from benchsuite.errors import ExitCode


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit(1), RuntimeError("oops")])
def test_an_exit_that_is_none_of_ours_is_our_failure(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever code it asks for: 0 would be a pass, 1 a failed gate."""

    @click.command()
    def leaves() -> None:
        raise error

    monkeypatch.setattr(main, "group", leaves)
    monkeypatch.delenv("BENCHSUITE_TRACEBACK", raising=False)
    assert main.run_command_line([]) == ExitCode.MACHINE_FAILED
    assert f"benchsuite itself failed: {type(error).__name__}" in capsys.readouterr().err
