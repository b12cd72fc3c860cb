"""The limit of a step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from benchsuite.errors import ServerHangError
from benchsuite.model.limits import limit_hint, limit_struck


@asynccontextmanager
async def step_in_time(seconds: float | None, doing: Callable[[], str]) -> AsyncIterator[None]:
    """Let what is inside take so long at most.

    Args:
        seconds: None: any time.
        doing: Tells in words what is under way.

    Raises:
        ServerHangError: It took longer: a step waits for nothing but the server.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired() or seconds is None:
            raise
        raise ServerHangError(
            f"{limit_struck('step', seconds)} during {doing()}", hint=limit_hint("step")
        ) from error
