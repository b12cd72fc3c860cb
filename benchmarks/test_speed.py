"""Speed of the pure parts, by pytest-benchmark: `pytest benchmarks/test_speed.py`.

Compare two checkouts with `--benchmark-autosave` and `pytest-benchmark compare`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchsuite.client.sse import EventReader
from benchsuite.logform.reader import LogReader
from benchsuite.scenario.load import load_scenario

ROOT = Path(__file__).parents[1]
LOG = b"".join(
    b"0.01.%03d.000 I slot print_timing: id  1 | task %d | prompt eval time =      26.09 ms /"
    b"    25 tokens (    1.04 ms per token,   958.33 tokens per second)\n"
    b"0.01.%03d.100 I srv  update_slots: all slots are idle\n" % (i % 1000, i, i % 1000)
    for i in range(5000)
)
STREAM = b"".join(b'data: {"content":" word%d","stop":false}\n\n' % i for i in range(5000))


def _read_log() -> int:
    reader = LogReader()
    reader.feed(LOG)
    return len(reader.finish().timings)


def test_reading_a_log(benchmark: Any) -> None:
    """1 MB of a busy server's log."""
    assert benchmark(_read_log) == 5000


def _read_stream() -> int:
    reader = EventReader()
    return sum(len(reader.feed(STREAM[i : i + 4096])) for i in range(0, len(STREAM), 4096))


def test_reading_a_stream(benchmark: Any) -> None:
    """5,000 events in chunks of 4 KiB."""
    assert benchmark(_read_stream) == 5000


def test_loading_a_scenario(benchmark: Any) -> None:
    """The largest shipped scenario, from its file to its types."""
    scenario = benchmark(load_scenario, ROOT / "scenarios" / "scenarioB.yaml")
    assert scenario.name == "scenarioB"
