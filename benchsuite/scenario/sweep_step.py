"""A `sweep` step: what it may say, and the step from what was read."""

from __future__ import annotations

from typing import Literal

from benchsuite.metrics.catalogue import FROM_DUE, LOAD_SPANS, OF_TOKENS
from benchsuite.model.load import QUANTILES, Objective, Over
from benchsuite.model.scenario import SweepStep
from benchsuite.scenario.build import PromptBook, items
from benchsuite.scenario.containers import Key, ListOf, Record
from benchsuite.scenario.kinds import Found, Kind, Problems, Quantity, Text
from benchsuite.scenario.load_shape import MAX_RATE, MAX_WORKERS, load_record
from benchsuite.scenario.load_step import build_load

MOST_STAGES = 64

_LEVEL = Quantity("", "8", at_most=MAX_RATE)
_QUANTILE_OF = {f"p{float(quantile) * 100:g}": quantile for quantile in QUANTILES}
_LIMITS = Record(
    {
        word: Key(Quantity("ms", "500 ms"), f"The {quantile} quantile is at most this.")
        for word, quantile in _QUANTILE_OF.items()
    },
    doc="Highest times by percentile.",
)
_OBJECTIVES = Record(
    {
        **{name: Key(_LIMITS, f"Of `{name}`.") for name in LOAD_SPANS if name not in ("wait_ms",)},
        "error_share": Key(
            Quantity("%", "1%", zero=True, at_most=100.0), "At most so many without a reply."
        ),
    },
    doc="What a stage must meet, all of it.",
)
_OWN = ("as", "concurrency", "users", "rate", "trace")


def sweep_record(name: Kind, prompt: Kind, request: Kind, max_tokens: Key) -> Record:
    """The record of a `sweep` step, of the kinds that all steps share."""
    load = load_record(name, prompt, request, max_tokens)
    keys = {key: value for key, value in load.keys.items() if key not in _OWN}
    keys["arrivals"] = Key(
        Text(("constant", "poisson")), "Over rates: how users come; constant unless given."
    )
    return Record(
        {
            "as": Key(name, 'Names it in labels: `knee_load{step="NAME"}`.', required=True),
            "load": Key(
                Record(keys, doc="The load of every stage, as of step `load` without its level."),
                "What each stage asks: a `load` without name and level.",
                required=True,
            ),
            "over": Key(
                Text(("concurrency", "rate")),
                "What changes: users of a closed loop, or users a second of an open one.",
                required=True,
            ),
            "values": Key(
                ListOf(_LEVEL, "level", at_least=1),
                "The levels, ascending; driven up to an over-saturated one.",
            ),
            "search": Key(
                Record(
                    {
                        "from": Key(_LEVEL, "Tried first.", required=True),
                        "to": Key(_LEVEL, "Never passed.", required=True),
                    },
                    doc="Levels double until one misses the objectives, then halve between.",
                ),
                "Find the highest level that meets the objectives.",
            ),
            "objectives": Key(_OBJECTIVES, "What a stage must meet; a search needs them."),
        },
        doc="A load at one level after the other: where it bends, and how much meets objectives.",
        exactly_one=("values", "search"),
    )


def build_sweep(
    found: Found, line: int, name: str, prompts: PromptBook, problems: Problems, max_tokens: int
) -> SweepStep | None:
    """The step; what is wrong with it goes to `problems`. None where it has no level or load.

    Args:
        found: Of the step.
        line: Of the step.
        name: Of the step.
        prompts: Those declared.
        problems: Takes what is wrong.
        max_tokens: Output limit where the load gives none.
    """
    over: Over = found.plain("over", "concurrency")
    values, search = _levels(found, line, name, over, problems)
    inner = found.get("load")
    levels = values or search
    if inner is None or not levels:
        return None
    whole = max(1, round(levels[-1]))
    at: dict[str, Found] = {over: Found(whole if over == "concurrency" else levels[-1], line)}
    if over == "concurrency" and "arrivals" in inner.value:
        problems.say(
            inner.value["arrivals"].line,
            f"sweep '{name}': 'arrivals' are of an open loop; write 'over: rate', or leave it out",
        )
        return None
    load = build_load(
        Found({**inner.value, **at}, inner.line), inner.line, name, prompts, problems, max_tokens
    )
    objectives = tuple(_objectives(found, name, over, problems))
    of_tokens = [one.metric for one in objectives if one.metric in OF_TOKENS]
    if load.api == "embedding" and of_tokens:
        problems.say(
            found.value["objectives"].line,
            f"sweep '{name}': an embedding has no '{of_tokens[0]}'; write 'e2e_ms'",
        )
    stated = found.value.get("objectives")
    if search is not None and (stated is None or stated.value == {}):
        where = found.value["search"] if stated is None else stated
        problems.say(
            where.line,
            f"sweep '{name}': a search needs 'objectives': expected at least one, found none; "
            "write for example 'objectives: {ttft_ms: {p95: 500 ms}}'",
        )
    return SweepStep(load, over, values, search, objectives, line)


def _levels(
    found: Found, line: int, name: str, over: Over, problems: Problems
) -> tuple[tuple[float, ...], tuple[float, float] | None]:
    def check(level: float, at: int) -> None:
        if over == "concurrency" and (level != int(level) or level > MAX_WORKERS):
            problems.say(
                at,
                f"sweep '{name}': expected a whole number of users from 1 to {MAX_WORKERS}, found "
                f"{level:g}",
            )

    read = [one for one in items(found.get("values")) if one.value is not None]
    values = tuple(float(one.value) for one in read)
    for one in read:
        check(one.value, one.line)
    if len(values) > MOST_STAGES:
        problems.say(line, f"sweep '{name}': {len(values)} levels; at most {MOST_STAGES}")
    for before, after, one in zip(values, values[1:], read[1:], strict=False):
        if after <= before:
            problems.say(
                one.line, f"sweep '{name}': levels ascend, and {after:g} follows {before:g}"
            )
    inner = found.get("search")
    if inner is None or inner.plain("from") is None or inner.plain("to") is None:
        return values, None
    low, high = float(inner.plain("from")), float(inner.plain("to"))
    for key in ("from", "to"):
        check(inner.plain(key), inner.value[key].line)
    if low > high:
        problems.say(inner.line, f"sweep '{name}': from {low:g} is above to {high:g}")
    return values, (low, high)


def _objectives(found: Found, name: str, over: Over, problems: Problems) -> list[Objective]:
    read: list[Objective] = []
    written = found.get("objectives")
    for metric, inner in ({} if written is None else written.value).items():
        if inner.value is None:
            continue
        if metric == "error_share":
            read.append(Objective(metric, None, inner.value / 100))
            continue
        if over == "concurrency" and metric in FROM_DUE:
            instead: Literal["ttft_ms", "e2e_ms"] = "ttft_ms" if "ttft" in metric else "e2e_ms"
            problems.say(
                inner.line,
                f"sweep '{name}': only an open loop has '{metric}'; write '{instead}'",
            )
        limits = {word: one.value for word, one in inner.value.items() if one.value is not None}
        if not inner.value:
            problems.say(inner.line, f"sweep '{name}': '{metric}' has no percentile; give p95")
        read += [Objective(metric, _QUANTILE_OF[word], limits[word]) for word in limits]
    return read
