"""Steps from what was read, and the series that they will make."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE, FROM_DUE, LOAD_ONLY, OF_TOKENS, SWEEP_ONLY
from benchsuite.model.load import QUANTILES
from benchsuite.model.scenario import (
    AUTOMATIC_SNAPSHOTS,
    DEFAULT_FOLDER,
    STORED,
    CompleteStep,
    ConcurrentlyStep,
    DamageStep,
    EmbeddingStep,
    IdleStep,
    LoadStep,
    LogprobsStep,
    PromptSpec,
    RestartStep,
    SessionSpec,
    SlotStep,
    SnapshotStep,
    SourceMarkersStep,
    Step,
    SweepStep,
    TurnStep,
)
from benchsuite.scenario.build import PromptBook, build_request, copies_of, items
from benchsuite.scenario.kinds import Found, Problems
from benchsuite.scenario.load_step import build_load, requests_after_warm_up
from benchsuite.scenario.sweep_step import build_sweep
from benchsuite.scenario.words import remedy

DEFAULT_MAX_TOKENS = 16


@dataclass
class Produced:
    """What the steps of a file will label their measurements with."""

    turns: dict[str, int] = field(default_factory=dict)  # session -> number of its turns
    requests: dict[str, int] = field(default_factory=dict)  # id -> line
    copies: dict[str, int] = field(default_factory=dict)  # id -> completions, where several
    named: dict[str, int] = field(default_factory=dict)  # `as` -> line
    logprobs: dict[str, int] = field(default_factory=dict)  # id of a logprobs step -> line
    embeddings: dict[str, int] = field(default_factory=dict)  # id of an embedding step -> line
    # labels of turns and completes of warm-up, and how many others there are
    warm_ups: list[dict[str, str]] = field(default_factory=list)
    measured: int = 0
    loads: dict[str, int] = field(default_factory=dict)  # load -> requests after its warm-up
    open_loads: set[str] = field(default_factory=set)  # loads whose users come by a schedule
    embedding_loads: set[str] = field(default_factory=set)  # loads without tokens
    sweeps: dict[str, SweepStep] = field(default_factory=dict)
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
        latency = CATALOGUE[metric].assume == "latency"
        if names == ("session", "turn"):
            turns = [
                {"session": session, "turn": str(turn)}
                for session, count in self.turns.items()
                for turn in range(1, count + 1)
            ]
            return [one for one in turns if not (latency and one in self.warm_ups)]
        if names == ("request",):
            requests = [{"request": name} for name in self.requests]
            return [one for one in requests if not (latency and one in self.warm_ups)]
        if names == () and latency and ("request",) in CATALOGUE[metric].labels:
            return [{}] if self.measured else []  # the launch's median
        if names == ("copy", "request"):
            return [
                {"copy": str(copy), "request": name}
                for name, count in self.copies.items()
                for copy in range(1, count + 1)
            ]
        if "stage" in names:
            return self._stages(names, metric)
        if names == ("step",) and metric in SWEEP_ONLY:
            return [{"step": name} for name in self.sweeps]
        if names in (("step",), ("quantile", "step")) and metric in LOAD_ONLY:
            loads = [one for one in self.loads if metric not in FROM_DUE or one in self.open_loads]
            loads = [one for one in loads if self._has(one, metric)]
            if names == ("step",):
                return [{"step": name} for name in loads]
            return [{"quantile": q, "step": name} for name in loads for q in QUANTILES]
        if names == ("step",):
            return [{"step": name} for name in self.named if self._has(name, metric)]
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

    def _has(self, name: str, metric: str) -> bool:
        """Whether a load step may have a metric: embeddings have no tokens."""
        return metric not in OF_TOKENS or name not in self.embedding_loads

    def _stages(self, names: tuple[str, ...], metric: str) -> list[dict[str, str]] | None:
        """Labellings of stages; None where a search finds its levels itself."""
        found = []
        for name, step in self.sweeps.items():
            if metric in FROM_DUE and step.over != "rate":
                continue
            if not self._has(name, metric):
                continue
            if not step.values:
                return None
            stages = [{"stage": f"{level:.6g}", "step": name} for level in step.values]
            if "quantile" in names:
                stages = [{"quantile": q, **one} for one in stages for q in QUANTILES]
            found += stages
        return found


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
        self._files: set[str] = set()  # that slots were saved to, spoilt ones included
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
        if kind == "load":
            return self._load(found, line)
        if kind == "sweep":
            return self._sweep(found, line)
        if kind == "concurrently":
            return self._concurrently(found, line)
        if kind == "slot":
            return self._slot(found, line)
        if kind == "damage":
            return self._damage(found, line)
        if kind == "restart":
            return RestartStep(line)
        if kind == "source_markers":
            return self._source_markers(found, line)
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

    def _name(self, found: Found, line: int) -> str:
        name: str = found.plain("as", "")
        if name in self.produced.named:
            first = self.produced.named[name]
            self._problems.say(line, f"name '{name}' was used on line {first} already")
        elif name:
            self.produced.named[name] = line
        return name

    def _slot(self, found: Found, line: int) -> SlotStep:
        action, file = found.plain("action", "save"), found.plain("file")
        if action == "erase" and file is not None:
            self._problems.say(found.value["file"].line, "'file': erase has no file; remove it")
        elif action != "erase" and "file" not in found.value:
            self._problems.say(line, f"step 'slot': '{action}' needs a 'file'")
        if action == "save" and file is not None:
            self._files.add(file)
        return SlotStep(
            name=self._name(found, line),
            action=action,
            id=found.plain("id", 0),
            file=file,
            may_fail=found.plain("may_fail", False),
            line=line,
        )

    def _damage(self, found: Found, line: int) -> DamageStep:
        file, to = found.plain("file", ""), found.plain("to")
        if file and file not in self._files:
            hint = remedy(file, sorted(self._files), "files saved by then")
            self._problems.say(found.value["file"].line, f"no step has saved '{file}'{hint}")
        if to is not None:
            self._files.add(to)
        return DamageStep(file=file, how=found.plain("how", "truncate"), to=to, line=line)

    def _source_markers(self, found: Found, line: int) -> SourceMarkersStep:
        files = found.get("files")
        globs: tuple[str, ...] = ()
        if files is not None:
            many = files.value if isinstance(files.value, list) else [files]
            globs = tuple(one.value for one in many if one.value is not None)
        return SourceMarkersStep(
            name=self._name(found, line),
            pattern=found.plain("pattern", ""),
            files=globs,
            folder=found.plain("folder", DEFAULT_FOLDER),
            line=line,
        )

    def _turn(self, found: Found, line: int) -> TurnStep:
        session = found.plain("session", "")
        turn = self.produced.turns.get(session, 0) + 1
        if session:
            if session not in self._sessions:
                at = found.value["session"].line
                hint = remedy(session, self._sessions, "sessions")
                self._problems.say(at, f"unknown session '{session}'{hint}")
            self.produced.turns[session] = turn
        return TurnStep(
            session=session,
            user=self._prompts.resolve(found.get("user")) or PromptSpec(),
            max_tokens=found.plain("max_tokens", DEFAULT_MAX_TOKENS),
            may_fail=found.plain("may_fail", False),
            warm_up=self._warm_up(found, {"session": session, "turn": str(turn)}),
            line=line,
        )

    def _warm_up(self, found: Found, labels: dict[str, str]) -> bool:
        """Whether a request is one of warm-up; all others count as measured."""
        if found.plain("warm_up", False):
            self.produced.warm_ups.append(labels)
            return True
        self.produced.measured += 1
        return False

    def _complete(self, found: Found, line: int) -> CompleteStep:
        name = self._unique_id(found, line)
        if name:
            self.produced.requests.setdefault(name, line)
        request = build_request(found.get("request"), self._problems, several=True)
        copies = copies_of(request)
        if copies > 1 and name:
            self.produced.copies[name] = copies
        return CompleteStep(
            id=name,
            prompt=self._prompt(found),
            max_tokens=found.plain("max_tokens", DEFAULT_MAX_TOKENS),
            slot=found.plain("slot"),
            request=request,
            may_fail=found.plain("may_fail", False),
            warm_up=self._warm_up(found, {"request": name}),
            line=line,
        )

    def _load(self, found: Found, line: int) -> LoadStep:
        name = self._name(found, line)
        step = build_load(found, line, name, self._prompts, self._problems, DEFAULT_MAX_TOKENS)
        self.produced.loads[name] = requests_after_warm_up(step)
        if step.arrivals is not None:
            self.produced.open_loads.add(name)
        if step.api == "embedding":
            self.produced.embedding_loads.add(name)
        return step

    def _sweep(self, found: Found, line: int) -> SweepStep | None:
        name = self._name(found, line)
        step = build_sweep(found, line, name, self._prompts, self._problems, DEFAULT_MAX_TOKENS)
        if step is not None:
            self.produced.sweeps[name] = step
            if step.load.api == "embedding":
                self.produced.embedding_loads.add(name)
        return step

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
