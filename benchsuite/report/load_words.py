"""A load step in one line; pure."""

from __future__ import annotations

from benchsuite.model.load import Arrivals, Length, Think
from benchsuite.model.scenario import LoadStep, SweepStep
from benchsuite.units import format_number


def load_in_words(step: LoadStep, prompt: str, prefix: str, request: str) -> str:
    """What a load step does.

    Args:
        step: The step.
        prompt: Its prompt in words.
        prefix: Its prefix in words; empty without one.
        request: Further fields of its requests in words; empty without any.
    """
    parts = [_long(step), _pace(step)]
    if step.turns > 1:
        parts.append(f"{step.turns} turns each")
    if step.think is not None:
        parts.append(f"thinking {_think(step.think)}")
    if prefix:
        share = "" if step.prefix_share >= 1 else f" for {step.prefix_share:.0%} of the users"
        parts.append(f"prefix {prefix}{share}, then {_prompt(step, prompt)}")
    else:
        parts.append(_prompt(step, prompt))
    if step.api != "embedding":
        limit = f"up to {_count(step.max_tokens, 'token')}"
        if step.output_tokens is not None:
            limit = f"up to {_length(step.output_tokens)}"
        unsaid = "" if step.source is None else " where the file says none"
        parts.append(f"{limit} of reply{unsaid}{request}")
    if step.api != "completion":
        parts.append(f"over {step.api}")
    if step.timeout is not None:
        parts.append(f"given up after {format_number(step.timeout, 3)} s")
    warm_up = ""
    if step.warm_up:
        warm_up = f"; the first {_count(step.warm_up, 'request')} are warm-up, not timed"
    elif step.warm_up_seconds:
        shown = format_number(step.warm_up_seconds, 3)
        warm_up = f"; the first {shown} s are warm-up, not timed"
    return f"load {step.name}: {', '.join(parts)}{warm_up}"


def sweep_in_words(step: SweepStep) -> str:
    """The levels and objectives of a sweep."""
    levels = ", ".join(f"{level:g}" for level in step.values)
    if step.search is not None:
        levels = f"searched from {step.search[0]:g} to {step.search[1]:g}"
    goals = "; ".join(one.words for one in step.objectives)
    return f"{step.name} over {step.over}: {levels}{f' ({goals})' if goals else ''}"


def _long(step: LoadStep) -> str:
    words = [] if step.requests is None else [_count(step.requests, "request")]
    if step.duration is not None:
        words.append(f"for {format_number(step.duration, 3)} s")
    return " or ".join(words) or "each request once"


def _pace(step: LoadStep) -> str:
    if step.arrivals is None:
        return f"{step.concurrency} at once"
    limit = "" if step.in_flight is None else f", at most {step.in_flight} at once"
    if step.source is not None and step.source.is_timed:
        speed = step.source.speed
        faster = "" if speed == 1 else f", at {format_number(speed, 3)} times its speed"
        return f"when the trace says{faster}{limit}"
    return f"{arrivals_in_words(step.arrivals)}{limit}"


def arrivals_in_words(arrivals: Arrivals) -> str:
    """A schedule in words: `200 a second (poisson)`."""
    if arrivals.kind == "bursts":
        return f"{arrivals.size} at once every {format_number(arrivals.every, 3)} s"
    if arrivals.kind == "ramp":
        return f"from {format_number(arrivals.rate)} to {format_number(arrivals.to)} a second"
    return f"{format_number(arrivals.rate)} a second ({arrivals.kind})"


def _think(think: Think) -> str:
    low = format_number(think.low, 3)
    if think.kind == "uniform":
        return f"{low} to {format_number(think.high, 3)} s"
    return f"{low} s" if think.kind == "fixed" else f"{low} s on average (exponential)"


def _prompt(step: LoadStep, prompt: str) -> str:
    if step.sample is not None:
        due = step.rows_due
        return step.sample.words + ("" if due is None else f", {due} of them due in that time")
    if step.source is not None:
        return f"requests of {step.source.file}"
    if step.prompt_tokens is not None:
        return f"{_count(step.texts, 'prompt')} of {_length(step.prompt_tokens)}"
    if step.prompt.tokens is None or step.same:
        return f"prompt {prompt}, the same for all"
    if step.texts == step.requests:
        return f"prompt {prompt} and on, one each"
    return f"prompt {prompt} and on, {_count(step.texts, 'text')} in turn"


def _length(length: Length) -> str:
    bounds = f"{length.low} to {length.high} tokens"
    if length.kind == "uniform":
        return bounds
    return f"{bounds} (log-normal, median {format_number(length.median)})"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
