"""A `load` step from what was read, with what cannot be together refused."""

from __future__ import annotations

from typing import Literal

from benchsuite.model.load import MOST_DISTINCT, Api, Arrivals, Length, Think
from benchsuite.model.sample import DatasetSpec
from benchsuite.model.scenario import LoadStep, PromptSpec
from benchsuite.scenario.build import PromptBook, build_request
from benchsuite.scenario.kinds import Found, Problems
from benchsuite.scenario.load_shape import MAX_LOAD_REQUESTS
from benchsuite.units import parse_quantity

MANY = 1_000_000_000
"""Requests of a step of which nobody knows before: a closed loop by time, or a whole file."""

SOURCES = ("dataset", "trace")
"""Keys that name a file of requests."""

_MADE = ("same", "distinct", "prefix", "prefix_share", "turns", "api")
"""Keys that a file leaves no choice."""


def build_load(
    found: Found,
    line: int,
    name: str,
    prompts: PromptBook,
    problems: Problems,
    max_tokens: int,
) -> LoadStep:
    """The step; what is wrong with it goes to `problems`.

    Args:
        found: Of the step.
        line: Of the step.
        name: Of the step.
        prompts: Those declared.
        problems: Takes what is wrong.
        max_tokens: Output limit where the step gives none.
    """
    return _LoadBuilder(found, line, name, prompts, problems).build(max_tokens)


def requests_after_warm_up(step: LoadStep) -> int:
    """How many requests a step will measure; `MANY` where the server decides it."""
    counts = [] if step.requests is None else [step.requests]
    seconds = step.duration
    source = step.source
    if source is not None and source.sample is not None:
        once = step.requests is None and seconds is None
        counts += [source.sample] if once or source.is_timed else []
    arrivals = step.arrivals
    warm_up = step.warm_up
    if arrivals is not None and arrivals.kind != "trace":
        if seconds is not None:
            counts.append(arrivals.before(seconds, seconds) * step.turns)
        if seconds is not None or arrivals.kind != "ramp":  # one without is refused
            warm_up += arrivals.before(step.warm_up_seconds, seconds or 0.0) * step.turns
    return max(0, min(counts) - warm_up) if counts else MANY


class _LoadBuilder:
    """Reads one step."""

    def __init__(
        self, found: Found, line: int, name: str, prompts: PromptBook, problems: Problems
    ) -> None:
        self._found = found
        self._line = line
        self._name = name
        self._prompts = prompts
        self._problems = problems

    def build(self, max_tokens: int) -> LoadStep:
        plain = self._found.plain
        requests: int | None = plain("requests")
        duration: float | None = plain("duration")
        source = self._source()
        ends = self._is_given("requests", "duration", *SOURCES)
        if requests is None and duration is None and not ends:
            self._say("how long is it? give 'requests', 'duration' or both")
        arrivals = self._arrivals(duration)
        workers = self._users(requests, open_loop=arrivals is not None)
        turns: int = plain("turns", 1)
        chats = turns > 1 or (source is not None and source.format in ("messages", "sharegpt"))
        api: Api = plain("api", "chat" if chats else "completion")
        if turns > 1 and api != "chat":
            self._say(f"'turns' make a chat, and api is {api}; write 'api: chat'", "api")
        if api == "embedding":
            for key in ("max_tokens", "output_tokens", "request"):
                if self._is_given(key):
                    self._say(f"an embedding generates nothing; leave '{key}' out", key)
        if arrivals is None and plain("in_flight") is not None:
            self._say(
                "'in_flight' limits an open loop, and this one is closed: 'concurrency' is its "
                "limit; give a 'rate', or leave 'in_flight' out",
                "in_flight",
            )
        if turns == 1 and arrivals is not None and plain("think") is not None:
            self._say(
                "a user of an open loop asks once, so nobody thinks; give 'turns', or leave "
                "'think' out",
                "think",
            )
        count, seconds = self._warm_up(requests, duration)
        seed: int = plain("seed", 0)
        prompt, lengths = self._prompt(seed)
        if plain("prefix_share") is not None and "prefix" not in self._found.value:
            self._say("'prefix_share' is a share of the users who have a 'prefix'; give one")
        if self._is_given("max_tokens") and self._is_given("output_tokens"):
            self._say("give one of 'max_tokens' and 'output_tokens'", "output_tokens")
        step = LoadStep(
            name=self._name,
            requests=requests,
            concurrency=workers,
            prompt=prompt,
            prefix=self._prompts.resolve(self._found.get("prefix")),
            same=bool(plain("same", False)),
            max_tokens=plain("max_tokens", max_tokens),
            request=build_request(self._found.get("request"), self._problems),
            warm_up=count,
            duration=duration,
            arrivals=arrivals,
            in_flight=plain("in_flight"),
            think=self._think(),
            turns=turns,
            prefix_share=plain("prefix_share", 100.0) / 100,
            prompt_tokens=lengths,
            output_tokens=self._length("output_tokens"),
            distinct=plain("distinct"),
            api=api,
            timeout=plain("timeout"),
            warm_up_seconds=seconds,
            seed=seed,
            source=source,
            line=self._line,
        )
        self._check_texts(step)
        return step

    def _users(self, requests: int | None, *, open_loop: bool) -> int:
        words = [key for key in ("concurrency", "users") if self._is_given(key)]
        if len(words) == 2:
            self._say("'users' and 'concurrency' are one thing; give one of them", "users")
        workers: int = self._found.plain("users") or self._found.plain("concurrency", 1)
        if open_loop and words:
            self._say(
                f"'rate' or 'arrivals' make an open loop, whose users do not wait for each other, "
                f"and '{words[0]}' a closed one; leave one out ('in_flight' limits an open loop)",
                words[0],
            )
            return 1
        if requests is not None and workers > requests:
            self._say(f"concurrency {workers} is above the {requests} requests in all")
        return workers

    def _source(self) -> DatasetSpec | None:
        """The file that requests come from; what has no place beside it is a problem."""
        written = [key for key in SOURCES if self._is_given(key)]
        for key in written:
            closed = ("rate", "arrivals", "concurrency", "users", "think") if key == "trace" else ()
            for other in (*_MADE, *closed):
                if self._is_given(other):
                    what = "says what is sent" if other in _MADE else "says when each request comes"
                    self._say(f"the file of '{key}' {what}; leave '{other}' out", other)
        inner = self._found.get(written[0]) if written else None
        if inner is None or inner.value is None:
            return None
        default = "messages" if written[0] == "dataset" else "mooncake"
        given = {key: one.value for key, one in inner.value.items() if one.value is not None}
        spec = DatasetSpec(**{"file": "", "format": default, **given, "line": inner.line})
        if spec.max_chars is not None and spec.min_chars > spec.max_chars:
            self._problems.say(
                inner.line,
                f"load '{self._name}': min_chars {spec.min_chars} is above max_chars "
                f"{spec.max_chars}",
            )
        return spec

    def _arrivals(self, duration: float | None) -> Arrivals | None:
        if self._is_given("trace"):
            return Arrivals("trace")
        rate: float | None = self._found.plain("rate")
        written = self._found.plain("arrivals")
        if written is None:
            return None if rate is None else Arrivals("constant", rate)
        if isinstance(written, str):
            if rate is None and not self._is_given("rate"):
                self._say(f"arrivals are '{written}', but how many? give a 'rate'", "arrivals")
            kind: Literal["constant", "poisson"] = "poisson" if written == "poisson" else "constant"
            return Arrivals(kind, rate or 1.0)
        word, inner = written
        if rate is not None:
            self._say(f"'{word}' has rates of its own; leave 'rate' out", "rate")
        if word == "bursts":
            return Arrivals("bursts", size=inner.plain("size", 1), every=inner.plain("every", 1.0))
        if duration is None and not self._is_given("duration"):
            self._say("a ramp goes over the step's duration; give a 'duration'", "arrivals")
        return Arrivals("ramp", inner.plain("from", 1.0), inner.plain("to", 1.0))

    def _think(self) -> Think | None:
        written = self._found.plain("think")
        if written is None:
            return None
        if isinstance(written, float):
            return Think("fixed", written)
        word, inner = written
        if word == "exponential":
            return Think("exponential", inner.plain("mean", 1.0))
        low, high = inner.plain("min", 0.0), inner.plain("max", 0.0)
        if low > high > 0:
            self._say(f"'think': min {low:g} is above max {high:g}", "think")
        return Think("uniform", low, high)

    def _length(self, key: str) -> Length | None:
        written = self._found.plain(key)
        if written is None:
            return None
        word, inner = written
        low, high = inner.plain("min", 1), inner.plain("max", 1)
        median = float(inner.plain("median", low))
        if {"min", "max"} <= inner.value.keys() and low > high:
            self._say(f"'{key}': min {low} is above max {high}", key)
        elif word == "log_normal" and "median" in inner.value and not low <= median <= high:
            self._say(f"'{key}': the median {median:g} is outside {low} to {high}", key)
        if word == "uniform":
            return Length("uniform", low, high)
        return Length("log_normal", low, high, median, inner.plain("sigma", 1.0))

    def _prompt(self, seed: int) -> tuple[PromptSpec, Length | None]:
        given = [key for key in ("prompt", "prompt_tokens", *SOURCES) if self._is_given(key)]
        if len(given) != 1:
            count = " and ".join(f"'{key}'" for key in given) if given else "none"
            self._problems.say(
                self._line,
                "step 'load': expected one of 'prompt', 'prompt_tokens', 'dataset' or 'trace', "
                f"found {count}",
            )
        lengths = self._length("prompt_tokens")
        if lengths is not None:
            return PromptSpec(tokens=lengths.high, seed=seed, line=self._line), lengths
        return self._prompts.resolve(self._found.get("prompt")) or PromptSpec(), None

    def _warm_up(self, requests: int | None, duration: float | None) -> tuple[int, float]:
        """So many first requests, and seconds: one of the two is 0."""
        written = self._found.plain("warm_up")
        if written is None:
            return 0, 0.0
        what = f"expected a whole number of requests, or a time such as 5 s, found '{written.text}'"
        if written.text.isascii() and written.text.isdigit() and len(written.text) < 10:
            count = int(written.text)
            if count > MAX_LOAD_REQUESTS:
                self._problems.say(written.line, f"'warm_up' of step 'load': {what}")
            elif requests is not None and count >= requests:
                self._say(f"warm_up {count} leaves none of the {requests} requests to measure")
            return count, 0.0
        try:
            seconds = parse_quantity(written.text, "s")
        except ValueError:
            seconds = -1.0
        if seconds < 0 or not written.text.rstrip()[-1:].isalpha():
            self._problems.say(written.line, f"'warm_up' of step 'load': {what}")
            return 0, 0.0
        if duration is not None and seconds >= duration:
            self._say(f"warm_up of {seconds:g} s leaves nothing of the {duration:g} s to measure")
        return 0, seconds

    def _check_texts(self, step: LoadStep) -> None:
        if step.texts > MOST_DISTINCT:
            self._say(
                f"{step.texts} different prompts are too many to make and keep (at most "
                f"{MOST_DISTINCT}); give 'distinct: 1000' or so, and they are sent in turn",
                "requests",
            )
        if self._is_given("distinct") and (step.same or step.prompt.tokens is None):
            self._say(
                "'distinct' is for prompts of so many tokens that are not the same", "distinct"
            )

    def _is_given(self, *keys: str) -> bool:
        """Whether a key stands in the file, right or wrong."""
        return any(key in self._found.value for key in keys)

    def _say(self, sentence: str, key: str = "") -> None:
        at = self._found.value[key].line if key in self._found.value else self._line
        self._problems.say(at, f"load '{self._name}': {sentence}")
