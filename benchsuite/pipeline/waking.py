"""Brings a server's model into memory on purpose, and says so.

A router lists its models and loads one when it is first asked for it; a server with
`--sleep-idle-seconds` lets its model go and loads it again at the next request.
"""

from __future__ import annotations

from benchsuite.client.api import LlamaClient
from benchsuite.client.models import ServedModel
from benchsuite.client.props import Props
from benchsuite.errors import RequestRefusedError
from benchsuite.pipeline.models import unknown_to_router, unnamed_router

_NOT_THERE = (404, 501)


async def wake(client: LlamaClient, model: str | None) -> tuple[Props, tuple[str, ...]]:
    """Have the server load its model where it is not in memory, and ask what it is.

    Args:
        client: Of the server, waiting as long as a load may take.
        model: A router's name for the model, which the client sends too; None: no router is meant.

    Returns:
        The properties of what answers requests, and one sentence for each thing that was loaded.

    Raises:
        ConfigError: A router without a model named, or that has none of the name.
        ServerError: The server does not answer, or cannot load the model.
    """
    said: list[str] = []
    if model is not None:
        listed = await _models(client)
        states = {name: one.state for one in listed for name in (one.name, *one.aliases)}
        is_router = any(one.state is not None for one in listed)
        if is_router and model not in states:
            raise unknown_to_router(client.base_url, model, sorted(states))
        if is_router and states[model] not in ("loaded", "sleeping"):
            said.append(
                f"model '{model}' was {states[model]}: the router was asked to load it for this run"
            )
    props = await client.props()
    if props.is_router:
        raise unnamed_router(client.base_url, [one.name for one in await _models(client)])
    if props.is_sleeping:
        await client.tokenise("a")  # `/slots` wakes it too, and may be off
        props = await client.props()
        said.append(
            "the server was asleep and was woken for this run: its model was loaded anew, so its "
            "slots and its prompt cache began empty"
        )
    return props, tuple(said)


async def _models(client: LlamaClient) -> tuple[ServedModel, ...]:
    try:
        return await client.served_models()
    except RequestRefusedError as error:
        if error.status in _NOT_THERE:
            return ()
        raise
