"""The part of a launch that talks to the server.

Imported only once a server has been started: importing httpx takes about as long as a small
server needs to load, so neither waits for the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from benchsuite.client.api import LlamaClient
from benchsuite.collect.explain import Explained, explain_requests
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.watch import Watch
from benchsuite.drive.driver import Driver, Hooks, Load, OtherStep
from benchsuite.drive.prompts import PromptBook
from benchsuite.drive.served import Climber
from benchsuite.errors import BenchsuiteError, ConnectionLostError
from benchsuite.logform.facts import LogFacts
from benchsuite.model.load import SweepSummary
from benchsuite.model.plan import VariantPlan
from benchsuite.model.record import ServerFacts
from benchsuite.model.scenario import SweepStep
from benchsuite.pipeline.load_percentiles import measure_percentiles
from benchsuite.pipeline.load_so_far import figures_so_far
from benchsuite.pipeline.memory_slope import measure_slopes, measure_speeds
from benchsuite.pipeline.sweep import SweepClimber
from benchsuite.pipeline.vectors import LaunchVectors
from benchsuite.scenario.templates import KEY_VARIABLE
from benchsuite.server.launch import LaunchedServer, wait_until_healthy

_EXPLAINING_FAULTS = (
    BenchsuiteError,
    OSError,
    LookupError,
    ArithmeticError,
    AttributeError,
    TypeError,
    ValueError,
    RuntimeError,  # RecursionError too: what a server answers may be nested without end
    MemoryError,
)
"""Whatever goes wrong there, what was measured is kept."""
_EXPLAIN_SECONDS = 20.0


async def wait_for(
    server: LaunchedServer, client: LlamaClient, log: LogFollower, limit: float
) -> None:
    """Wait until a launched server is healthy; raises as `wait_until_healthy`."""
    await wait_until_healthy(server, partial(_is_healthy, client), limit, partial(_evidence, log))


async def drive(
    variant: VariantPlan,
    prompts: PromptBook,
    client: LlamaClient,
    watch: Watch,
    tell: Callable[[str], None],
    other: Callable[[OtherStep], Awaitable[None]],
    vectors: LaunchVectors,
    *,
    chat_by_template: bool,
    step_seconds: float | None = None,
) -> None:
    """Take the variant's steps under the eyes of `watch`.

    Args:
        variant: What to do.
        prompts: Where texts come from.
        client: The server.
        watch: Takes replies, quiet points and snapshots.
        tell: Told of each step in words.
        other: Does the steps that are more than requests.
        vectors: What vector steps go along, and what takes their vectors.
        chat_by_template: As of `Driver`.
        step_seconds: Likewise.

    Raises:
        ServerError: Whatever a request or the watch found.
    """
    watch.secrets = {
        name: spec.secret for name, spec in variant.sessions.items() if spec.secret is not None
    }

    async def loaded(load: Load) -> None:
        await watch.loaded(load)
        for found in measure_percentiles(load, variant.name, watch.trial):
            watch.add(found)

    def cut(load: Load) -> None:
        try:
            watch.cut(load, figures_so_far(load, watch))
        except _EXPLAINING_FAULTS as error:  # what ended the load is what counts
            watch.warnings.append(f"how far {load.words} came is not told: {error}")

    def kept(summary: SweepSummary) -> None:
        watch.sweeps.append(summary)
        watch.warnings += summary.warnings

    def climb(step: SweepStep) -> Climber:
        return SweepClimber(
            step, variant.name, watch.trial, watch.add, kept, capped=client.is_paced
        )

    hooks = Hooks(
        tell,
        watch.served,
        watch.quiet,
        watch.snapshot,
        loaded,
        other,
        vectors.take,
        sending=watch.sending,
        refused=watch.refused,
        climb=climb,
        cut=cut,
    )
    driver = Driver(
        client,
        prompts,
        hooks,
        chat_by_template=chat_by_template,
        references=vectors.references,
        step_seconds=step_seconds,
    )
    try:
        tell("preparing prompts")
        await driver.prepare(variant.sessions, variant.steps)
        await watch.start()
        await driver.run(variant.steps)
        watch.conclude()
        loads = [one.name for one in watch.loads if not one.stage]
        for found in measure_slopes(
            watch.growth, variant.name, watch.trial, observed=watch.sees_memory, steps=loads
        ):
            watch.add(found)
        for found in measure_speeds(watch.speeds, variant.name, watch.trial, steps=loads):
            watch.add(found)
    finally:
        await watch.stop()


async def warn_if_open(server: LaunchedServer, watch: Watch, idle_seconds: float) -> None:
    """Warn of a command's server that answers without the key, since it was not handed on."""
    client = LlamaClient(server.url, api_key=None, idle_seconds=idle_seconds)
    try:
        await client.props()
    except BenchsuiteError:
        return  # refused, as it should be
    finally:
        await client.aclose()
    watch.warnings.append(
        f"the server answers whoever reaches {server.host}:{server.port}, for it was not given its "
        f"key: have the command hand on the variable {{key_env}} ({KEY_VARIABLE})"
    )


async def explain(
    client: LlamaClient, watch: Watch, log: LogFollower | None, facts: ServerFacts
) -> Explained:
    """Why prompts were evaluated again; to be asked once every step is done and measured.

    Nothing that goes wrong here may cost a run what it measured: it becomes a warning.
    """
    try:
        async with asyncio.timeout(_EXPLAIN_SECONDS):
            if log is not None:
                log.poll()
            seen = None if log is None else log.facts()
            return await explain_requests(client, watch.asked, seen, facts, foreign=watch.foreign)
    except TimeoutError:
        why = f"the server took longer than {_EXPLAIN_SECONDS:g} s"
    except _EXPLAINING_FAULTS as error:
        why = str(error) or type(error).__name__
    return Explained(warnings=(f"why prompts were evaluated again is not told: {why}",))


async def measure_excess(client: LlamaClient, watch: Watch) -> None:
    """Cached tokens that nothing before can have left; to be asked once every step is done.

    What goes wrong here costs this metric only: it becomes a warning, and a gate on it fails as
    missing.
    """
    try:
        async with asyncio.timeout(_EXPLAIN_SECONDS):
            await watch.measure_excess()
            return
    except TimeoutError:
        why = f"the server took longer than {_EXPLAIN_SECONDS:g} s"
    except (BenchsuiteError, OSError) as error:
        why = str(error) or type(error).__name__
    watch.warnings.append(f"excess_cached_tokens is not measured: {why}")


def _evidence(log: LogFollower) -> LogFacts:
    log.poll()
    return log.facts()


async def _is_healthy(client: LlamaClient) -> bool:
    try:
        return await client.healthy()
    except ConnectionLostError:  # not listening yet; the process itself is watched meanwhile
        return False
