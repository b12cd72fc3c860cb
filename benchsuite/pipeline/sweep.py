"""Decides on the levels of a sweep, and measures what it came to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchsuite.collect.load import held_back_ms
from benchsuite.collect.requests import CLIENT_CLOCK
from benchsuite.drive.served import Stage
from benchsuite.drive.spans import Spans
from benchsuite.drive.sweep import stage_name
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.percentiles import ranks_of
from benchsuite.model.load import Objective, StageSummary, StageVerdict, SweepSummary
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.model.scenario import SweepStep
from benchsuite.stats.knee import find_knee
from benchsuite.stats.level_search import LevelList, LevelSearch
from benchsuite.stats.objectives import quantile_meets

BELOW_OFFERED = 0.9
"""Open loop: where less than this share of the offered rate is served, the server may be
over-saturated; it is where the backlog grew too."""

BACKLOG_GROWTH = 1.5
"""The backlog at the end of the schedule over that at half of it; steady growth makes it 2."""

GROWS = 1.05
SLOWS = 1.3
"""Closed loop: of a level at least `WIDE` times another, throughput must grow by more than `GROWS`;
where it does not and the median of `e2e_ms` is more than `SLOWS` times the other's, with intervals
that do not meet, the server is over-saturated."""
WIDE = 1.5

MOST_CPU = 0.9
"""Of one core: where our one process takes more, it may be what is measured."""

LATE_SHARE = 0.1
"""Of the tightest latency objective: where we sent later than that at p95, we were the limit."""

_NS_PER_MS = 1e6
_NS = 1e9
_TO_FIRST_TOKEN = ("ttft_ms", "ttft_from_due_ms")
GOODPUT, HIGHEST, KNEE = "goodput_requests_per_second", "highest_load", "knee_load"


class SweepClimber:
    """The course of one sweep.

    Args:
        step: What was asked.
        variant: Name of the variant.
        trial: From 1.
        add: Takes measurements.
        keep: Takes the summary at the end.
        capped: Whether a cap of the request rate may hold requests back.
    """

    def __init__(
        self,
        step: SweepStep,
        variant: str,
        trial: int,
        add: Callable[[Measurement | Unmeasured], None],
        keep: Callable[[SweepSummary], None],
        *,
        capped: bool = False,
    ) -> None:
        self._step = step
        self._variant = variant
        self._trial = trial
        self._add = add
        self._keep = keep
        self._capped = capped
        self._search: LevelList | LevelSearch = LevelList(step.values)
        if step.search is not None:
            low, high = step.search
            self._search = LevelSearch(low, high, is_whole=step.over == "concurrency")
        self._stages: list[Stage] = []
        self._summaries: list[StageSummary] = []
        self._held_levels: list[float] = []  # at which the cap held requests back
        self._ours: dict[float, str] = {}  # level -> why it tells of us and not of the server

    def next(self) -> float | None:
        """The next level; of a list none follows an over-saturated or a capped one."""
        is_over = self._lowest_saturated is not None or self._lowest_held is not None
        if self._step.values and is_over:
            return None
        return self._search.next()

    async def take(self, stage: Stage) -> None:
        """Judge a stage."""
        held = self._held(stage)
        ours = held or ("" if _nothing(stage) else self._client_doubt(stage))
        if ours:
            self._ours[stage.level] = ours
        saturated = "" if ours else self._saturation(stage)
        verdict, why = self._verdict(stage, ours)
        self._stages.append(stage)
        name = stage_name(stage.level)
        self._summaries.append(StageSummary(name, stage.level, verdict, why, saturated))
        if held:
            self._held_levels.append(stage.level)
        will_do = not ours and verdict == "met" and not saturated
        self._search = self._search.after(stage.level, will_do=will_do)
        labels = {"stage": name, "step": self._step.name}
        goodput = _goodput(stage)
        if not self._step.objectives:
            self._missing(GOODPUT, "the sweep has no objectives", labels)
        elif ours:
            self._missing(GOODPUT, ours, labels)
        elif goodput is None:
            none = "no request of it was served after its warm-up"
            self._missing(GOODPUT, _nothing(stage) or none, labels)
        else:
            source = f"{CLIENT_CLOCK}, {stage.load.tally.good} requests met every objective"
            self._measured(GOODPUT, goodput, source, labels)

    def finish(self) -> None:
        """Measure the sweep as a whole, and keep its summary."""
        step, labels = self._step, {"step": self._step.name}
        # an over-saturated server answers those soon whom it lets in: it does not carry the level
        carried = [one for one in self._summaries if one.verdict == "met" and not one.saturated]
        if carried:
            best = max(carried, key=lambda one: one.level)
            source = (
                f"highest of {len(self._summaries)} levels driven that met the objectives without "
                "over-saturation"
            )
            stage = next(one for one in self._stages if one.level == best.level)
            goodput = _goodput(stage)
            higher = [one.level for one in self._stages if one.level > best.level]
            limit = self._ours.get(min(higher), "") if higher else ""
            if limit:
                why = f"it is at least {best.level:g}: at {min(higher):g} {limit}"
                self._missing(HIGHEST, why, labels)
                self._missing(GOODPUT, why, labels)
            elif goodput is None:
                self._measured(HIGHEST, best.level, source, labels)
                self._missing(GOODPUT, f"stage {best.stage} served nothing", labels)
            else:
                self._measured(HIGHEST, best.level, source, labels)
                self._measured(GOODPUT, goodput, f"stage {best.stage}", labels)
        else:
            why = "the sweep has no objectives"
            if step.objectives:
                tried = "; ".join(
                    f"{one.stage} over-saturated: {one.saturated}"
                    if one.saturated
                    else f"{one.stage} {one.verdict}: {one.why}"
                    for one in self._summaries
                )
                of_all = " without over-saturation" if self._lowest_saturated is not None else ""
                why = f"no level driven met the objectives{of_all} ({tried})"
            self._missing(HIGHEST, why, labels)
            self._missing(GOODPUT, why, labels)
        below = min(self._ours, default=None)
        driven = [
            one
            for one in self._stages
            if (below is None or one.level < below) and not _nothing(one)
        ]
        knee = find_knee([(one.level, _rate(one)) for one in driven])
        if knee.level is None:
            limit = "" if below is None else f"; at {below:g} {self._ours[below]}"
            self._missing(KNEE, f"{knee.why}{limit}", labels)
        else:
            self._measured(KNEE, knee.level, knee.why, labels)
        self._keep(
            SweepSummary(
                step.name, step.over, tuple(self._summaries), self._ended(), self._warnings()
            )
        )

    @property
    def _lowest_saturated(self) -> float | None:
        return min((one.level for one in self._summaries if one.saturated), default=None)

    @property
    def _lowest_held(self) -> float | None:
        return min(self._held_levels, default=None)

    def _ended(self) -> str:
        search = self._search
        saturated, held = self._lowest_saturated, self._lowest_held
        over = "" if saturated is None else f"the server is over-saturated at {saturated:g}"
        if held is not None:
            over = f"the cap of the request rate held requests back at {held:g}"
        if not isinstance(search, LevelSearch):
            stopped = len(self._stages) < len(self._step.values)
            return (
                f"{over}; the levels above were not driven"
                if stopped
                else (over or self._all_driven())
            )
        if search.worst is None:
            return f"{search.high:g} is the highest level asked for, and it met the objectives"
        missed = ""
        if search.worst not in (saturated, held):
            missed = f"the objectives were not surely met at {search.worst:g}"
        found = f"{search.best:g} met them" if search.best else "no level met the objectives"
        return ", ".join(filter(None, (over, missed, found)))

    def _all_driven(self) -> str:
        ours = f"; our own client limited {len(self._ours)} of them" if self._ours else ""
        return f"all levels were driven{ours}"

    def _warnings(self) -> tuple[str, ...]:
        said = []
        for one in self._summaries:
            if one.saturated:
                said.append(
                    f"sweep {self._step.name}: the server is over-saturated at {one.stage}: "
                    f"{one.saturated}; the sweep goes no higher"
                )
            if one.verdict is None and one.level in self._ours:
                said.append(f"sweep {self._step.name}: {one.stage}: {self._ours[one.level]}")
            if one.verdict == "uncertain":
                higher = "" if self._step.values else "; the search goes no higher"
                said.append(
                    f"sweep {self._step.name}: whether {one.stage} meets the objectives is "
                    f"uncertain: {one.why}{higher}"
                )
        sample = self._step.load.sample
        sent = sum(one.load.tally.sent for one in self._stages)
        if sample is not None and sent > len(sample.rows):
            said.append(
                f"sweep {self._step.name}: {sent} requests were sent of {len(sample.rows)} that "
                f"{sample.spec.file} gives: what later stages sent again may have been cached"
            )
        return tuple(said)

    def _held(self, stage: Stage) -> str:
        """Why the stage tells of the cap and not of the server; empty where it does not."""
        held_ms = held_back_ms(stage.load) if self._capped else None
        if held_ms is None:
            return ""
        return (
            f"the cap of the request rate held requests back, {held_ms:.3g} ms on average "
            "(requests_per_second of the deployment sets it)"
        )

    def _verdict(self, stage: Stage, ours: str) -> tuple[StageVerdict | None, str]:
        nothing = _nothing(stage)
        if not self._step.objectives:
            return None, nothing or ours or "no objectives"
        if nothing or ours:
            return "uncertain", nothing or ours
        found = [(one, *_judge(one, stage)) for one in self._step.objectives]
        missed = [f"{one.words}: {why}" for one, verdict, why in found if verdict == "not met"]
        if missed:
            return "not met", "; ".join(missed)
        unsure = [f"{one.words}: {why}" for one, verdict, why in found if verdict == "uncertain"]
        if unsure:
            return "uncertain", "; ".join(unsure)
        return "met", "; ".join(f"{one.words}: {why}" for one, _, why in found)

    def _client_doubt(self, stage: Stage) -> str:
        if stage.cpu_share > MOST_CPU:
            return f"our own client was the limit: it took {stage.cpu_share:.0%} of a core"
        behind = stage.load.tally.fell_behind
        if behind:
            return f"our own client was the limit: tokens of {behind} replies waited for it"
        limits = [one.limit for one in self._step.objectives if one.quantile is not None]
        late = stage.load.tally.lateness
        if not limits or not len(late):
            return ""
        late_ms = late.at_rank(-(-95 * len(late) // 100)) / _NS_PER_MS
        if late_ms > LATE_SHARE * min(limits):
            return f"our own client was the limit: it sent {late_ms:.3g} ms late at p95"
        return ""

    def _saturation(self, stage: Stage) -> str:
        return _open_saturation(stage) if stage.load.is_open else self._closed_saturation(stage)

    def _closed_saturation(self, stage: Stage) -> str:
        known = [one for one in self._stages if one.level not in self._ours]
        lower = [one for one in known if one.level * WIDE <= stage.level]
        if not lower:
            return ""
        best = max(lower, key=_rate)
        before, now = best.load.tally.spans["e2e_ms"], stage.load.tally.spans["e2e_ms"]
        grew = _growth(before, now)
        if _rate(stage) > GROWS * _rate(best) or grew is None or grew <= SLOWS:
            return ""
        return (
            f"{_rate(stage):.3g} requests a second after {_rate(best):.3g} at {best.level:g}, and "
            f"a median of {(now.median or 0) / _NS_PER_MS:.3g} ms after "
            f"{(before.median or 0) / _NS_PER_MS:.3g} ms"
        )

    def _measured(self, name: str, value: float, source: str, labels: dict[str, str]) -> None:
        unit = CATALOGUE[name].unit
        self._add(Measurement(name, value, unit, self._variant, self._trial, labels, source=source))

    def _missing(self, name: str, why: str, labels: dict[str, str]) -> None:
        self._add(
            Unmeasured(name, self._variant, why, "inconclusive", trial=self._trial, labels=labels)
        )


def _nothing(stage: Stage) -> str:
    """That no request counts, in words; empty where one does."""
    tally = stage.load.tally
    if not tally.sent:
        return "no request was sent: none was due before the stage ended"
    if not tally.served_after + tally.failed_after:
        return f"no request was sent after the {tally.sent} of its warm-up"
    return ""


def _judge(objective: Objective, stage: Stage) -> tuple[StageVerdict, str]:
    tally = stage.load.tally
    failed = tally.failed_after
    if objective.quantile is None:
        ended = tally.served_after + failed
        if not ended:
            return "uncertain", "no request ended after the warm-up"
        share = failed / ended
        return ("met" if share <= objective.limit else "not met"), f"{failed} of {ended} requests"
    pace_doubt = tally.pace_doubt(objective.metric)
    if pace_doubt:
        return "uncertain", pace_doubt
    spans = tally.spans[objective.metric]
    late, said = failed, []
    if failed:
        said.append(f"{failed} of {tally.served_after + failed} requests brought no reply")
    if objective.metric in _TO_FIRST_TOKEN and stage.load.tokenless_after:
        late += stage.load.tokenless_after
        said.append(f"{stage.load.tokenless_after} replies had no token")
    if objective.metric == "itl_ms" and tally.served_after:
        # so many gaps as served requests have on average, so that its share is one of requests
        late = max(late, -(-failed * len(spans) // tally.served_after))
    at_rank = partial(_ms_at, spans)
    verdict, why = quantile_meets(objective.quantile, objective.limit, len(spans), late, at_rank)
    untold = tally.lacking("tpot_ms") if objective.metric == "tpot_ms" else 0
    if untold:  # at whatever pace they were made
        late += untold
        other, _ = quantile_meets(objective.quantile, objective.limit, len(spans), late, at_rank)
        verdict = verdict if verdict == other else "uncertain"
        said.append(f"the tokens of {untold} replies came at one moment")
    return verdict, ", ".join((why, *said))


def _ms_at(spans: Spans, rank: int) -> float:
    return spans.at_rank(rank) / _NS_PER_MS


def _growth(before: Spans, now: Spans) -> float | None:
    """A median over another; None where their intervals meet, or either has too few values."""
    if not len(before) or not len(now):
        return None
    high, low = ranks_of(0.5, len(before)).high, ranks_of(0.5, len(now)).low
    if high is None or low is None or now.at_rank(low) <= before.at_rank(high):
        return None
    return (now.median or 0.0) / (before.median or 1.0)


def _open_saturation(stage: Stage) -> str:
    rate, asked = _rate(stage), stage.load.asked_per_second or stage.level
    grew = stage.backlog_end >= max(2.0, BACKLOG_GROWTH * stage.backlog_half)
    if rate >= BELOW_OFFERED * asked or not grew:
        return ""
    return (
        f"{rate:.3g} requests a second of {asked:g} offered, and {stage.backlog_half} waited "
        f"at half of the schedule, {stage.backlog_end} at its end"
    )


def _rate(stage: Stage) -> float:
    """Requests served a second, 0 where none was."""
    served = stage.load.tally.served_after
    return served * _NS / stage.load.counted_ns if served else 0.0


def _goodput(stage: Stage) -> float | None:
    load = stage.load
    return load.tally.good * _NS / load.counted_ns if load.tally.served_after else None
