"""Two servers measured in one run: what was asked, both sides as run records, what was decided."""

from __future__ import annotations

from typing import Literal

import msgspec

from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import GateResult, Verdict

AB_SCHEMA = 1
"""Version of the record of `benchsuite ab`. 1: first."""

AB_KIND: Literal["ab"] = "ab"
"""`kind` in the record, which tells it from a run's."""

Side = Literal["baseline", "candidate"]

BASELINE: Side = "baseline"
CANDIDATE: Side = "candidate"
SIDES: tuple[Side, ...] = (BASELINE, CANDIDATE)
"""In the order of the odd pairs; even pairs go the other way round."""


def opposite(side: Side) -> Side:
    """The side that a side is compared with."""
    return BASELINE if side == CANDIDATE else CANDIDATE


def left_out_words(side: Side, reason: str) -> str:
    """Why a side leaves a variant out that only the other side cannot run, by that one's reason."""
    return f"on the {opposite(side)} side: {reason}"


MEMORY_PAIRS = 3
"""With fewer launches a side, memory is not decided."""


class AbRules(msgspec.Struct, frozen=True):
    """By what two sides are judged where no gate of the scenario says otherwise."""

    latency_percent: float = 10.0  # how much worse latency may be
    memory_percent: float = 5.0  # how much more memory may be taken; both must be exceeded
    memory_mib: float = 4.0
    cosine: float = 0.999  # the least likeness of log-probabilities and embeddings
    # asked for with --pairs: all of them run; None ends as soon as everything is decided
    pairs: int | None = None
    exact: bool = False  # --exact: only what one pair decides is asked for; the rest advises


class Turn(msgspec.Struct, frozen=True):
    """One launch in its place in the order of all."""

    pair: int  # from 1; the `trial` of what it measured
    side: Side
    variant: str


class AbRecord(msgspec.Struct, frozen=True):
    """Everything that was seen of two servers in one run of one scenario.

    Each side is a run record whose trials are the pairs, with the gates that it was judged by
    alone; `gates` are the candidate's against the baseline side, its own limits among them.
    """

    schema_version: int
    kind: Literal["ab"]
    id: str
    started_at: str  # UTC, ISO 8601
    wall_seconds: float
    rules: AbRules
    baseline: RunRecord
    candidate: RunRecord
    turns: tuple[Turn, ...] = ()  # in the order in which they were taken
    # what differs between the sides, in words: `build b10092 -> b10434`; empty for an A/A run
    differs: tuple[str, ...] = ()
    ended: str = ""  # why no further pair was run, in words
    gates: tuple[GateResult, ...] = ()
    verdict: Verdict | None = None
    interrupted: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return self.candidate.scenario

    @property
    def pairs(self) -> int:
        """How many pairs were begun."""
        return max((turn.pair for turn in self.turns), default=0)

    def side(self, side: Side) -> RunRecord:
        """One side's record."""
        return self.baseline if side == BASELINE else self.candidate
