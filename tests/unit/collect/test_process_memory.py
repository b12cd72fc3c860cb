"""Memory is the kernel's own figures, summed over processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchsuite.collect.process_memory import parse_status, read_memory

STATUS = """Name:\tllama-server
VmPeak:\t  900000 kB
VmHWM:\t   70000 kB
VmRSS:\t   65000 kB
RssAnon:\t   50000 kB
VmSwap:\t     100 kB
Threads:\t8
"""


def test_status_fields_are_read_in_bytes() -> None:
    """Only the memory fields that we use, kB being KiB (proc(5))."""
    assert parse_status(STATUS) == {
        "VmHWM": 70000 * 1024,
        "VmRSS": 65000 * 1024,
        "RssAnon": 50000 * 1024,
        "VmSwap": 100 * 1024,
    }


@pytest.mark.parametrize("line", ["VmRSS: lots kB", "VmRSS:", "VmRSS: 5 MB", "VmRSS: -5 kB"])
def test_a_field_that_cannot_be_read_is_absent(line: str) -> None:
    """It is not 0."""
    assert parse_status(line) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_living_process_is_measured() -> None:
    """Ours has memory, and its peak is no lower than what it has now."""
    reading = read_memory([os.getpid()])
    assert reading is not None
    assert reading.rss_bytes is not None
    assert reading.peak_bytes is not None
    assert reading.anon_bytes is not None
    assert 0 < reading.anon_bytes <= reading.rss_bytes <= reading.peak_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_that_are_gone_are_left_out() -> None:
    """A process that ended between listing and reading is not an error; none left is None."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    both = read_memory([os.getpid(), child.pid])
    assert both is not None
    assert both.processes == 1
    assert read_memory([child.pid]) is None
