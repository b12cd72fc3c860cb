"""A closed loop: each worker's next request is due when its last one was answered."""

from __future__ import annotations

import asyncio

from benchsuite.drive.load import closed_loop


def test_a_request_is_due_when_the_workers_last_one_was_answered() -> None:
    """By the answer's own stamp; the first of each worker when the loop begins."""
    asked: list[tuple[int, int]] = []

    async def ask(number: int, due_ns: int) -> int:
        asked.append((number, due_ns))
        await asyncio.sleep(0)
        return 1000 + number

    asyncio.run(closed_loop(5, 2, ask))
    begin = asked[0][1]
    assert asked == [(0, begin), (1, begin), (2, 1000), (3, 1001), (4, 1002)]
