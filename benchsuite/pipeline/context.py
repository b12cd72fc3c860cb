"""What all launches of one run share, and what one launch brings home."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from benchsuite.drive.prompts import PromptBook
from benchsuite.errors import FlagError
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.record import Launch, Measurement, ModelFacts, Unmeasured
from benchsuite.model.scenario import FlagValue
from benchsuite.model.shape import ModelShape, UnknownMemory
from benchsuite.report.progress import Progress
from benchsuite.scenario.flags import FlagTable
from benchsuite.server.behind import Behind
from benchsuite.server.command import Filled, StartedBy, fill_command
from benchsuite.server.locate import ServerBinary
from benchsuite.store.journal import KIND_DOING, Keep
from benchsuite.store.records import RunFolder

if TYPE_CHECKING:
    from benchsuite.pipeline.stopping import Stop
    from benchsuite.pipeline.vectors import RunVectors

_OURS = (("verbosity", "4"), ("metrics", "true"), ("slots", "true"), ("fit", "off"))
"""Flags that a launched server gets where its build has them and nobody else set them: KV lines
are printed from verbosity 4 on, and fitting would choose the context by free memory."""

_PORT = re.compile(r"[0-9]{1,5}")


class RunContext(msgspec.Struct, frozen=True):
    """What all launches of one run share."""

    plan: Plan
    folder: RunFolder
    keep: Keep  # the journal
    progress: Progress
    prompts: PromptBook
    vectors: RunVectors
    stop: Stop  # whether, and why, the run is to end

    def keep_doing(self, words: str, variant: str, trial: int) -> None:
        """Write down what is begun now, so that a killed run tells where it was."""
        self.keep(KIND_DOING, words=words, variant=variant, trial=trial)


class Target(msgspec.Struct, frozen=True):
    """What is launched."""

    binary: ServerBinary
    table: FlagTable  # of the binary
    model: ModelFacts
    shape: ModelShape | UnknownMemory  # what the model's cache needs
    rpc: ServerBinary | None = None  # started for variants that need its device
    by: StartedBy | None = None  # the deployment's command, where that starts the server

    def flags(self, variant: VariantPlan) -> dict[str, FlagValue]:
        """The flags of one variant's server, ours included."""
        flags = dict(variant.flags)
        for word, value in _OURS:
            try:
                name = self.table.canonical(word)
            except FlagError:
                continue  # this build does not have it
            flags.setdefault(name, value)
        return flags

    def arguments(self, variant: VariantPlan) -> list[str]:
        """The command line of one variant's server, without model, host, port and key."""
        flags = self.flags(variant)
        flags.pop("port", None)
        return self.table.argv(flags)

    def command(self, variant: VariantPlan) -> list[str]:
        """What is typed to start one variant's server; the port is chosen at the launch."""
        port = self.port(variant)
        if self.by is not None:
            return list(self._filled(self.by, variant).argv)
        place = ["--host", "127.0.0.1", "--port", "PORT" if port is None else str(port)]
        model = [] if self.model_argument is None else ["--model", self.model_argument]
        rpc = ["--rpc", "127.0.0.1:PORT"] if variant.rpc else []
        return [*self.binary.argv, *rpc, *self.arguments(variant), *model, *place]

    def behind(self, variant: VariantPlan) -> Behind | None:
        """How the server behind a command's client is reached, with names for what is chosen."""
        return None if self.by is None else self._filled(self.by, variant).behind

    @property
    def model_argument(self) -> str | None:
        """The model's path as the server sees it; None where its command brings the model."""
        if self.by is not None and self.by.command.model_inside is not None:
            return self.by.command.model_inside
        return self.model.path or None

    def _filled(self, by: StartedBy, variant: VariantPlan) -> Filled:
        port = self.port(variant)
        return fill_command(
            by.command,
            by.deployment.name,
            self.arguments(variant),
            model=self.model_argument,
            name="benchsuite-NAME",
            port="PORT" if port is None else str(port),
        )

    def port(self, variant: VariantPlan) -> int | None:
        """The port that the variant asks for; None for any free one.

        Raises:
            FlagError: It is not a port.
        """
        port = variant.flags.get("port")
        if port is None:
            return None
        if not isinstance(port, str) or _PORT.fullmatch(port) is None or not 0 < int(port) < 65536:
            raise FlagError(f"port '{port}' is not a number between 1 and 65535")
        return int(port)


class Outcome(msgspec.Struct, frozen=True):
    """What one launch brought home."""

    launch: Launch
    measurements: tuple[Measurement, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
