"""A share of the faults is made once each: nothing hangs, is left, is lost, or passes."""

from __future__ import annotations

import pytest

from tests.faults.every import every_fault, share_of
from tests.faults.fault import Fault, attempt
from tests.integration.desk import Desk

pytestmark = pytest.mark.server


@pytest.mark.parametrize("fault", share_of(every_fault()), ids=lambda fault: fault.name)
def test_a_fault_ends_as_it_must(desk: Desk, fault: Fault) -> None:
    """Its exit code and sentence are right, no process is left, and what was measured is kept."""
    unable = fault.unable()
    if unable is not None:
        pytest.skip(unable)
    seen = attempt(fault, desk)
    assert seen.faults(fault) == [], seen.done.text
