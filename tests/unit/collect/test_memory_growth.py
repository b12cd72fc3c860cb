"""Memory beside the count of finished requests."""

from __future__ import annotations

import time

import msgspec

from benchsuite.collect.memory_growth import MOST_POINTS, Growth, GrowthPoint
from benchsuite.collect.process_memory import MemoryReading, MemorySampler
from tests.unit.collect.test_explain import served


class Sampler(MemorySampler):
    """Gives one reading after another."""

    def __init__(self, *anon: int | None) -> None:
        super().__init__(lambda: (), lambda reading: None)
        self._anon = list(anon)

    def read(self) -> MemoryReading | None:
        return MemoryReading(0, 1, None, None, self._anon.pop(0))


def test_each_request_is_counted_and_some_are_read() -> None:
    """Warm-up is neither counted nor read, but moves the count on; readings keep a distance."""
    growth, sampler = Growth(), Sampler(100, 200)
    turn = served("r", "one two", 0).served
    load = msgspec.structs.replace(turn, labels={"step": "many", "request": "1"})
    growth.finished(msgspec.structs.replace(load, warm_up=True), sampler)
    growth.finished(load, sampler)
    growth.finished(load, sampler)  # at once: too early for another reading
    time.sleep(0.011)
    growth.finished(turn, sampler)
    assert growth.counted == {"many": 2, "": 1}
    assert growth.points() == [GrowthPoint(2, "many", 100), GrowthPoint(4, None, 200)]
    assert growth.points("many") == [GrowthPoint(2, "many", 100)]
    assert growth.readable is True


def test_a_fresh_process_begins_anew_and_loads_keep_their_readings() -> None:
    """Memory of two processes is never in one series."""
    growth, sampler = Growth(), Sampler(100, 20)
    turn = served("r", "one two", 0).served
    load = msgspec.structs.replace(turn, labels={"step": "many", "request": "1"})
    growth.finished(load, sampler)
    growth.restarted()
    assert (growth.points(), growth.of_process) == ([], 0)
    growth.finished(turn, sampler)
    assert (growth.points(), growth.of_process) == ([GrowthPoint(1, None, 20)], 1)
    assert growth.points("many") == [GrowthPoint(1, "many", 100)]
    assert growth.counted == {"many": 1, "": 1}


def test_a_system_that_does_not_tell_is_known_for_it() -> None:
    """No reading becomes 0, and without processes nothing is said."""
    growth = Growth()
    turn = served("r", "one two", 0).served
    growth.finished(turn, None)
    before = growth.readable
    growth.finished(turn, Sampler(None))
    assert (before, growth.readable) == (None, False)
    assert growth.points() == []


def test_few_readings_are_kept_of_many() -> None:
    """However many requests there are, the first and the latest among them."""
    growth = Growth()
    for n in range(1, 100_001):
        growth.add(GrowthPoint(n, "many", n))
    kept = [point.finished for point in growth.points("many")]
    assert MOST_POINTS // 2 <= len(kept) <= MOST_POINTS
    assert kept[0] == 1
    assert kept[-1] > 99_000
