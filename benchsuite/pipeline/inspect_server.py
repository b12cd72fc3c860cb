"""`benchsuite inspect server` from its URL to what the server said of itself.

Nothing is generated, loaded, woken or erased. A sleeping server is woken by `/slots`, and by
`/metrics` on 10092 and 10434 (not on 11549), while `/health` and `/props` let it sleep; a router
could load a model to answer. So these are not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from benchsuite.client.api import LlamaClient
from benchsuite.client.health import SOURCE as HEALTH
from benchsuite.client.health import Health
from benchsuite.client.prometheus import SOURCE as METRICS
from benchsuite.client.prometheus import Exposition
from benchsuite.client.props import SOURCE as PROPS
from benchsuite.client.props import Props
from benchsuite.client.slots import SOURCE as SLOTS
from benchsuite.client.slots import Slot
from benchsuite.errors import (
    ConfigError,
    ConnectionLostError,
    RequestRefusedError,
    ServerError,
    ServerHangError,
)
from benchsuite.model.record import Measurement
from benchsuite.pipeline.keys import api_key
from benchsuite.redact import secret_in_url
from benchsuite.report.inspect_server import Problem, ServerInspection, Unread

_UNITS = {"_tokens_seconds": "tokens/s", "_seconds_total": "s"}
_TOKENS = frozenset({"kv_cache_tokens", "n_tokens_max", "n_past_max"})
_Answer = TypeVar("_Answer")


def inspect_server(
    url: str,
    key_name: str | None,
    environ: Mapping[str, str],
    idle_seconds: float,
    ca: str | None = None,
    key_file: str | None = None,
) -> ServerInspection:
    """Ask a running server what it says of itself.

    Args:
        url: `http://host:port`, with the path of `--api-prefix` where it has one.
        key_name: The variable that holds its API key; None sends none.
        environ: Holds that variable.
        idle_seconds: How long a request may go without a byte.
        ca: PEM file that an https server's certificate is verified by; None: the public ones.
        key_file: The file that holds its key, where no variable does.

    Returns:
        What was read. A fault of the server is in it, not raised.

    Raises:
        ConfigError: The URL is none, the variable is not set, or the file holds no certificate.
    """
    checked = check_url(url)
    key = api_key(key_name, environ, key_file)
    return asyncio.run(_Inspector(checked, key, key_name or key_file, idle_seconds, ca).run())


def check_url(url: str) -> str:
    """The URL of a server, without a slash at its end.

    Raises:
        ConfigError: It is not of the form `http://host:port`.
    """
    if (what := secret_in_url(url)) is not None:
        raise ConfigError(
            f"the URL holds a secret ({what}), which is seen in the list of processes",
            hint="export the server's key, and name its variable with --api-key-env",
        )
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname
        # reading the port checks it
        wrong = wrong or parts.port == 0 or bool(parts.query or parts.fragment)
    except ValueError:
        wrong = True
    if wrong or any(character.isspace() for character in url):
        near = url if "://" in url else f"http://{url}"
        raise ConfigError(
            f"'{url}' is not the URL of a server; expected http://HOST:PORT",
            hint=f"type {near}" if near != url else "example: http://127.0.0.1:8080",
        )
    base = url.rstrip("/")
    if parts.path.rstrip("/") == "/v1":
        raise ConfigError(
            f"'{url}' is the address of the OpenAI interface, not of the server itself",
            hint=f"type {base.removesuffix('/v1')}",
        )
    return base


class _Inspector:
    """Asks one endpoint after the other and collects what came."""

    def __init__(
        self, url: str, key: str | None, key_name: str | None, idle: float, ca: str | None
    ) -> None:
        self._url = url
        self._key = key
        self._key_name = key_name
        self._idle = idle
        self._ca = ca
        self._problems: list[Problem] = []
        self._unread: list[Unread] = []
        self._notes: list[str] = []

    async def run(self) -> ServerInspection:
        """Ask `/health`, `/props`, `/slots` and `/metrics`."""
        client = LlamaClient(self._url, api_key=self._key, idle_seconds=self._idle, ca=self._ca)
        try:
            health, props = await self._greet(client)
            if props is None:
                state = "loading" if health.state == "loading" else "unreadable"
                return self._found(state, Props(), None, Exposition(), health)
            slots = await self._slots(client, props)
            seen = await self._metrics(client, props)
        finally:
            await client.aclose()
        state = "router" if props.is_router else "sleeping" if props.is_sleeping else "ready"
        return self._found(state, props, slots, seen, health)

    async def _greet(self, client: LlamaClient) -> tuple[Health, Props | None]:
        """Whether this is a llama-server that is ready, and its properties."""
        failed: ServerError | None = None
        health = Health("unknown")
        try:
            health = await client.health()
        except ServerHangError as error:
            self._fail(error)
            return health, None
        except ServerError as error:
            failed = error  # builds before January 2024 have no /health
        if health.state == "loading":
            hint = "ask again when it has loaded"
            self._problems.append(Problem("the server is still loading its model", hint))
            return health, None
        try:
            props = await client.props()
        except ServerError as error:
            # of two faults the first says more, unless the server itself is well
            self._fail(failed or error)
            return health, None
        if not props.recognised or (failed is None and health.state == "unknown"):
            path = HEALTH if props.recognised else PROPS
            self._problems.append(
                Problem(
                    f"{self._url}{path} answered with JSON that is not llama-server's",
                    "is this the address of a llama-server?",
                )
            )
            return health, None
        if failed is not None:
            self._notes.append("this build has no /health (it came in January 2024)")
        return health, props

    async def _slots(self, client: LlamaClient, props: Props) -> tuple[Slot, ...] | None:
        if props.is_router:
            self._skip(SLOTS, "each model behind a router has its own, and asking could load one")
            return None
        if props.is_sleeping:
            self._skip(SLOTS, "the server sleeps, and asking would wake it")
            return None
        remedy = "start it without --no-slots (builds of early 2025: with --slots)"
        return await self._ask(SLOTS, client.slots(), remedy)

    async def _metrics(self, client: LlamaClient, props: Props) -> Exposition:
        if props.is_router:
            self._skip(METRICS, "each model behind a router has its own, and asking could load one")
            return Exposition()
        if props.is_sleeping:
            self._skip(METRICS, "the server sleeps, and on many builds asking would wake it")
            return Exposition()
        seen = await self._ask(METRICS, client.exposition(), "start it with --metrics")
        if seen is None:
            return Exposition()
        if not seen.series and not seen.not_numbers:
            self._skip(METRICS, "it tells no metric")
        if any(one.name.endswith("_tokens_seconds") for one in seen.series):
            self._notes.append(
                "tokens per second are averages since the last look at /metrics, ours included"
            )
        self._notes += [f"/metrics gives no number for {name}" for name in seen.not_numbers]
        return seen

    async def _ask(
        self, path: str, asked: Awaitable[_Answer | None], remedy: str
    ) -> _Answer | None:
        """The answer of an endpoint that may be off or locked."""
        try:
            answer = await asked
        except ServerError as error:
            self._fail(error)
            return None
        if answer is None:
            self._unread.append(Unread(path, "it is off", remedy))
        return answer

    def _skip(self, path: str, why: str) -> None:
        self._unread.append(Unread(path, why, ""))

    def _fail(self, error: ServerError) -> None:
        hint = error.hint or ""
        if isinstance(error, RequestRefusedError) and error.status == 401 and self._key_name:
            hint = f"the key in ${self._key_name} is not this server's; see --api-key-env"
        elif isinstance(error, ConnectionLostError) and not hint:
            hint = "is the server running, and is this its address?"
        self._problems.append(Problem(str(error), hint))

    def _found(
        self,
        state: str,
        props: Props,
        slots: tuple[Slot, ...] | None,
        seen: Exposition,
        health: Health,
    ) -> ServerInspection:
        return ServerInspection(
            url=self._url,
            state=state,
            props=props,
            slots=slots,
            measurements=tuple(_measure(props, slots, seen, health)),
            unread=tuple(self._unread),
            notes=tuple(self._notes),
            problems=tuple(self._problems),
        )


def _measure(
    props: Props, slots: tuple[Slot, ...] | None, seen: Exposition, health: Health
) -> list[Measurement]:
    """Everything that has a number, each from the first source that tells it."""
    found: list[Measurement] = []

    def add(name: str, value: float | None, unit: str, source: str, **labels: str) -> None:
        if value is not None:
            number = int(value) if float(value).is_integer() else value
            found.append(Measurement(name, number, unit, "", labels=labels, source=source))

    number, context = props.total_slots, props.n_ctx_slot
    add("slots", number, "", PROPS)
    if number is None and slots is not None:
        add("slots", len(slots), "", SLOTS)
    add("n_ctx_slot", context, "tokens", PROPS)
    sizes = {slot.n_ctx for slot in slots or ()}
    if context is None and len(sizes) == 1:
        add("n_ctx_slot", sizes.pop(), "tokens", SLOTS)
    busy = [slot.is_busy for slot in slots or ()]
    if slots is not None and None not in busy:
        add("slots_busy", sum(one is True for one in busy), "", SLOTS)
    elif slots is None:
        add("slots_busy", health.slots_processing, "", HEALTH)
    for slot in slots or ():
        add("held_tokens", slot.held_tokens, "tokens", SLOTS, slot=str(slot.id))
        if slot.is_busy:
            add("cached_tokens", slot.cached_tokens, "tokens", SLOTS, slot=str(slot.id))
            add("evaluated_tokens", slot.evaluated_tokens, "tokens", SLOTS, slot=str(slot.id))
            add("output_tokens", slot.output_tokens, "tokens", SLOTS, slot=str(slot.id))
    for one in seen.series:
        add(one.name, one.value, _unit(one.name), METRICS, **one.labels)
    return found


def _unit(name: str) -> str:
    for ending, unit in _UNITS.items():
        if name.endswith(ending):
            return unit
    is_count = name.endswith("_total") and "token" in name
    return "tokens" if is_count or name in _TOKENS else ""
