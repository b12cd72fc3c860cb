"""The flag that rewrites golden files: `pytest tests/golden --rewrite-golden`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rewrite-golden`."""
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite tests/golden outputs")


@pytest.fixture
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are being rewritten."""
    return bool(request.config.getoption("--rewrite-golden", default=False))
