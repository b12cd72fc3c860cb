"""Steps from what was read, and the series that they will make."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from benchsuite.model.scenario import (
    AUTOMATIC_SNAPSHOTS,
    STORED,
    CompleteStep,
    ConcurrentlyStep,
    EmbeddingStep,
    IdleStep,
    LogprobsStep,
    PromptSpec,
    SessionSpec,
    SnapshotStep,
    Step,
    TurnStep,
)
from benchsuite.scenario.build import PromptBook, build_request, items
from benchsuite.scenario.kinds import Found, Problems
from benchsuite.scenario.words import remedy

DEFAULT_MAX_TOKENS = 16


@dataclass
class Produced:
    """What the steps of a file will label their measurements with."""

    turns: dict[str, int] = field(default_factory=dict)  # session -> number of its turns
    requests: dict[str, int] = field(default_factory=dict)  # id -> line
    logprobs: dict[str, int] = field(default_factory=dict)  # id of a logprobs step -> line
    embeddings: dict[str, int] = field(default_factory=dict)  # id of an embedding step -> line
    reference: str | None = ""  # variant that vectors are compared with; None: an unknown one
    snapshots: dict[str, int] = field(default_factory=lambda: dict.fromkeys(AUTOMATIC_SNAPSHOTS, 0))

    @property
    def vectors(self) -> dict[str, int]:
        """Id of a step that takes vectors -> line."""
        return {**self.logprobs, **self.embeddings}

    def label_sets(self, names: tuple[str, ...], metric: str) -> list[dict[str, str]] | None:
        """Every labelling of a metric with these label names that the steps will make.

        None where the steps do not decide it (devices, caches).
        """
        if names == ("session", "turn"):
            return [
                {"session": session, "turn": str(turn)}
                for session, count in self.turns.items()
                for turn in range(1, count + 1)
            ]
        if names == ("request",):
            return [{"request": name} for name in self.requests]
        if names == ("against", "request"):
            if self.reference is None:
                return None
            ids = self.embeddings if metric == "embedding_cosine" else self.logprobs
            return [
                {"against": against, "request": name}
                for against in (self.reference, STORED)
                for name in ids
            ]
        if names == ("at",):
            return [{"at": name} for name in self.snapshots]
        return None


class StepBuilder:
    """Builds steps in order, and counts what they produce.

    Args:
        sessions: Those declared.
        prompts: Those declared.
        problems: Takes what is wrong.
    """

    def __init__(
        self, sessions: dict[str, SessionSpec], prompts: PromptBook, problems: Problems
    ) -> None:
        self._sessions = sessions
        self._prompts = prompts
        self._problems = problems
        self.produced = Produced()

    def build(self, found: Found | None) -> tuple[Step, ...]:
        """The steps; those that were wrong are left out, their problems noted."""
        steps: list[Step] = []
        for item in items(found):
            if item.value is None:
                continue
            kind, inner = item.value
            step = self._step(kind, inner, item.line)
            if step is not None:
                steps.append(step)
        return tuple(steps)

    def _step(self, kind: str, found: Found, line: int) -> Step | None:
        if kind == "idle":
            return IdleStep(found.value, line)
        if kind == "snapshot":
            return self._snapshot(found.value, line)
        if kind == "concurrently":
            return self._concurrently(found, line)
        if kind == "logprobs":
            return self._logprobs(found, line)
        if kind == "embedding":
            name = self._vector_id(found, line, self.produced.embeddings)
            return EmbeddingStep(name, self._prompt(found), line=line)
        return self._request_step(kind, found, line)

    def _request_step(self, kind: str, found: Found, line: int) -> TurnStep | CompleteStep:
        return self._turn(found, line) if kind == "turn" else self._complete(found, line)

    def _snapshot(self, name: str, line: int) -> SnapshotStep:
        if name in AUTOMATIC_SNAPSHOTS:
            self._problems.say(line, f"snapshot '{name}' is taken in every launch; choose another")
        elif name in self.produced.snapshots:
            first = self.produced.snapshots[name]
            self._problems.say(line, f"snapshot '{name}' was taken on line {first} already")
        self.produced.snapshots.setdefault(name, line)
        return SnapshotStep(name, line)

    def _turn(self, found: Found, line: int) -> TurnStep:
        session = found.plain("session", "")
        if session:
            if session not in self._sessions:
                at = found.value["session"].line
                hint = remedy(session, self._sessions, "sessions")
                self._problems.say(at, f"unknown session '{session}'{hint}")
            self.produced.turns[session] = self.produced.turns.get(session, 0) + 1
        return TurnStep(
            session=session,
            user=self._prompts.resolve(found.get("user")) or PromptSpec(),
            max_tokens=found.plain("max_tokens", DEFAULT_MAX_TOKENS),
            line=line,
        )

    def _complete(self, found: Found, line: int) -> CompleteStep:
        name = self._unique_id(found, line)
        if name:
            self.produced.requests.setdefault(name, line)
        return CompleteStep(
            id=name,
            prompt=self._prompt(found),
            max_tokens=found.plain("max_tokens", DEFAULT_MAX_TOKENS),
            slot=found.plain("slot"),
            request=build_request(found.get("request"), self._problems),
            line=line,
        )

    def _logprobs(self, found: Found, line: int) -> LogprobsStep:
        name = self._vector_id(found, line, self.produced.logprobs)
        step = LogprobsStep(name, self._prompt(found), line=line)
        given = {key: found.plain(key, getattr(step, key)) for key in ("tokens", "top", "at_once")}
        return msgspec.structs.replace(step, **given)

    def _vector_id(self, found: Found, line: int, ids: dict[str, int]) -> str:
        name = self._unique_id(found, line)
        if name:
            ids.setdefault(name, line)
        return name

    def _unique_id(self, found: Found, line: int) -> str:
        """The step's id; a second use of one is a problem."""
        name: str = found.plain("id", "")
        first = self.produced.requests.get(name) or self.produced.vectors.get(name)
        if first is not None:
            self._problems.say(line, f"id '{name}' was used on line {first} already")
        return name

    def _prompt(self, found: Found) -> PromptSpec:
        return self._prompts.resolve(found.get("prompt")) or PromptSpec()

    def _concurrently(self, found: Found, line: int) -> ConcurrentlyStep:
        branches: list[tuple[TurnStep | CompleteStep, ...]] = []
        owner: dict[str, int] = {}
        for number, branch in enumerate(items(found), 1):
            members = branch.value if isinstance(branch.value, list) else [branch]
            steps = []
            for member in members:
                if member.value is None:
                    continue
                kind, inner = member.value
                step = self._request_step(kind, inner, member.line)
                steps.append(step)
                if isinstance(step, TurnStep) and step.session:
                    first = owner.setdefault(step.session, number)
                    if first != number:
                        self._problems.say(
                            member.line,
                            f"session '{step.session}' has turns in branches {first} and "
                            f"{number}; a session's turns go in order, so in one branch",
                        )
            if steps:
                branches.append(tuple(steps))
        return ConcurrentlyStep(tuple(branches), line)
