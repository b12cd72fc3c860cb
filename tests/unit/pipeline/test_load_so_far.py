"""What a load had come to that was cut: figures in words, never measurements."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply, Stamps
from benchsuite.collect.watch import Watch
from benchsuite.drive.driver import Hooks, Load
from benchsuite.drive.load import run_load
from benchsuite.drive.prompts import PromptBook
from benchsuite.model.scenario import LoadStep, PromptSpec
from benchsuite.pipeline.load_so_far import figures_so_far
from benchsuite.report.load_table import load_tables
from tests.unit.collect.test_load_seen import one
from tests.unit.gate import gate_example as example


class Breaking:
    """Serves ten requests, and then something goes wrong."""

    is_paced = False

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self._served = 0
        self.hangs = asyncio.Event()  # instead, where there is no error

    async def tokenise(self, text: str) -> list[int]:
        raise AssertionError(text)

    async def complete(self, prompt: str, fields: dict[str, Any]) -> Reply:
        if self._served == 10:
            if self._error is not None:
                raise self._error
            self.hangs.set()
            await asyncio.sleep(60)
        self._served += 1
        stamps = Stamps(0, 0, first_token_ns=2_000_000, end_ns=3_000_000)
        return msgspec.structs.replace(one().reply, stamps=stamps)


@pytest.mark.parametrize("error", [None, RuntimeError("crash")], ids=["interrupted", "fault"])
def test_a_load_that_is_cut_leaves_what_it_came_to(error: Exception | None) -> None:
    """In the record and its table, marked, and as no measurement that a gate could judge."""
    server: Any = Breaking(error)  # serves ten
    watch = Watch(
        cast(LlamaClient, server),
        "B",
        1,
        log=None,
        pids=None,
        keep=lambda *_, **__: None,
        owned=True,
    )

    async def quiet(*_: object) -> None:
        pass

    def cut(load: Load) -> None:
        watch.cut(load, figures_so_far(load, watch))

    hooks = Hooks(
        lambda _: None, lambda _: None, quiet, quiet, quiet, quiet, lambda _: None, cut=cut
    )
    step = LoadStep("s", 99, 1, PromptSpec(text="x"))

    async def drive() -> None:
        load = asyncio.ensure_future(run_load(step, server, PromptBook(), hooks))
        if error is None:
            await server.hangs.wait()
            load.cancel()
        await load

    with pytest.raises(asyncio.CancelledError if error is None else RuntimeError):
        asyncio.run(drive())
    assert watch.measurements == []
    (summary,) = watch.loads
    assert (summary.cut, summary.measured, summary.sent) == (True, 10, 11)
    (warning,) = watch.warnings
    assert warning.startswith("load s was cut short after ")
    run = example.record(("B",), 1)
    (launch,) = run.launches
    run = msgspec.structs.replace(
        run, launches=(msgspec.structs.replace(launch, loads=(summary,)),)
    )
    (table,) = load_tables(run)
    assert table.title == "load s (variant B, cut short)"
    assert table.counts.startswith("10 requests after warm-up, of 11 sent in all, 0 failed")
    assert table.notes[0].startswith("so far, and judged by nothing: requests_failed 0")
    assert 'ttft_ms{quantile="0.5"} 2 ms (2 to 2)' in table.notes[0]
