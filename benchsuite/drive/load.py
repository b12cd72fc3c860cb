"""A closed loop: so many workers, each asking again once it is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def closed_loop(
    requests: int, workers: int, ask: Callable[[int, int], Awaitable[int]]
) -> int:
    """Ask for every request once, `workers` at a time, in the order of their numbers.

    Args:
        requests: How many in all.
        workers: How many at once.
        ask: Sends request n, from 0, which is due at the nanosecond given, and returns when it is
            answered, with the nanosecond of the answer: the worker's next request is due then.
            What it raises ends the loop: the others are cancelled.

    Returns:
        Nanoseconds from before the first request to after the last answer.
    """
    numbers = iter(range(requests))

    async def work() -> None:
        due_ns = started_ns
        for number in numbers:  # shared: each number is taken by one worker
            due_ns = await ask(number, due_ns)

    started_ns = time.monotonic_ns()
    tasks = [asyncio.ensure_future(work()) for _ in range(workers)]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return time.monotonic_ns() - started_ns
