"""Fixtures of all tests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.integration.desk import Desk

# A shell's background job ignores interrupts and one under nohup ignores SIGHUP, and so would every
# program that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def desk_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOME that all desks share, so that the tiny model is made once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def desk(tmp_path: Path, desk_home: Path) -> Desk:
    """An empty folder to run benchsuite in."""
    return Desk(tmp_path, desk_home)
