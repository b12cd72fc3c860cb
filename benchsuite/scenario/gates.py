"""Gates from what was read; rules that could never hold, or never fail, are problems."""

from __future__ import annotations

from dataclasses import dataclass

from benchsuite.metrics.catalogue import CATALOGUE, SLOPE, SLOPE_REQUESTS, SLOPES
from benchsuite.metrics.metric import Metric
from benchsuite.metrics.select import Selector, parse_selector
from benchsuite.model.scenario import (
    GateSpec,
    Growth,
    Regression,
    SameAs,
    SessionSpec,
    VariantSpec,
    When,
)
from benchsuite.patterns import SlowExpressionError
from benchsuite.scenario.build import items
from benchsuite.scenario.kinds import Found, Problems
from benchsuite.scenario.nodes import Scalar
from benchsuite.scenario.steps import Produced
from benchsuite.scenario.words import remedy
from benchsuite.units import parse_quantity

_RULES = ("equals", "min", "max", "same_as", "regression", "growth")
_BASELINE = "baseline"
_ANALYTIC = "analytic"
_NOISY = ("memory", "latency")


@dataclass(frozen=True)
class Declared:
    """What a gate may refer to."""

    sessions: dict[str, SessionSpec]
    variants: dict[str, VariantSpec]
    produced: Produced


def build_gates(
    found: Found | None, declared: Declared, problems: Problems
) -> tuple[GateSpec, ...]:
    """The gates in order; those that were wrong are left out, their problems noted."""
    return tuple(
        _Gate(item, declared, problems).build()
        for item in items(found)
        if isinstance(item.value, dict)
    )


def _example(metric: Metric) -> str:
    names = next((labels for labels in metric.labels if labels), ())
    return metric.name + "{" + ",".join(f'{name}=~".*"' for name in names) + "}"


def _label_sets(metric: Metric) -> str:
    return " or ".join(", ".join(labels) if labels else "no labels" for labels in metric.labels)


class _Gate:
    """One gate being built."""

    def __init__(self, found: Found, declared: Declared, problems: Problems) -> None:
        self.found = found
        self.declared = declared
        self.problems = problems
        self.text: str = found.plain("metric", "")
        self.line = found.value["metric"].line if "metric" in found.value else found.line
        self.selector: Selector | None = None
        self.metric: Metric | None = None

    def say(self, sentence: str, key: str | None = None) -> None:
        at = self.found.get(key) if key is not None else None
        self.problems.say(self.line if at is None else at.line, sentence)

    def build(self) -> GateSpec:
        self._selector()
        self._check_rules()
        variants = self._variants()
        spec = GateSpec(
            metric=self.text,
            equals_baseline=self._is_word(_BASELINE),
            equals_analytic=self._is_word(_ANALYTIC),
            equals=self._equals(),
            min=self._limit("min"),
            max=self._limit("max"),
            same_as=self._same_as(variants),
            regression=self._regression(),
            growth=self._growth(),
            variants=variants,
            when=self._when(),
            needs=self.found.plain("needs"),
            level=self.found.plain("level"),
            why=self.found.plain("why", ""),
            line=self.found.line,
        )
        if spec.min is not None and spec.max is not None and spec.min > spec.max:
            self.say(f"min {spec.min:g} is above max {spec.max:g}; nothing can meet both", "min")
        return spec

    # the selector

    def _selector(self) -> None:
        if not self.text:
            return
        try:
            selector = parse_selector(self.text)
        except ValueError as error:
            self.say(str(error))
            return
        metric = CATALOGUE.get(selector.name)
        if metric is None:
            hint = remedy(selector.name, CATALOGUE, "metrics")
            self.say(f"unknown metric '{selector.name}'{hint}")
            return
        self.selector, self.metric = selector, metric
        names = selector.label_names
        known = {name for labels in metric.labels for name in labels}
        for name in names:
            if name not in known:
                hint = remedy(name, sorted(known), f"labels of {metric.name}")
                self.say(f"unknown label '{name}' of metric '{metric.name}'{hint}")
                return
        if names not in metric.labels:
            self.say(
                f"selector '{self.text}' names {', '.join(names) or 'no labels'}, but "
                f"'{metric.name}' is measured with {_label_sets(metric)}; "
                f"write for example {_example(metric)}"
            )
            return
        try:
            self._check_matches(selector, names)
        except SlowExpressionError as error:
            self.say(f"selector '{self.text}': {error}; {error.hint}")
            self.selector = self.metric = None

    def _check_matches(self, selector: Selector, names: tuple[str, ...]) -> None:
        series = self.declared.produced.label_sets(names, selector.name)
        if self._short_slope(selector, names):
            return
        if series is None or any(selector.accepts(selector.name, labels) for labels in series):
            return
        if self._only_warm_up(selector, names):
            self.say(f"'{self.text}' selects a warm-up only, and its latency is not measured")
            return
        for matcher in selector.matchers:
            values = list(dict.fromkeys(labels[matcher.label] for labels in series))
            if matcher.operator == "=" and matcher.value not in values:
                self.say(self._no_such(matcher.label, matcher.value, values))
                return
        for matcher in selector.matchers:
            if matcher.label == "turn" and matcher.operator == "=":
                pinned = [m for m in selector.matchers if m.label == "session"]
                counts = [
                    f"session '{session}' has {count}"
                    for session, count in self.declared.produced.turns.items()
                    if all(m.accepts(session) for m in pinned)
                ]
                if counts:
                    self.say(f"there is no turn {matcher.value}: {', '.join(counts)}")
                    return
        self.say(f"selector '{self.text}' selects nothing that the steps will make")

    def _only_warm_up(self, selector: Selector, names: tuple[str, ...]) -> bool:
        """Whether a selector would select, were it not for the warm-ups."""
        warm_ups = (one for one in self.declared.produced.warm_ups if tuple(sorted(one)) == names)
        return any(selector.accepts(selector.name, labels) for labels in warm_ups)

    def _short_slope(self, selector: Selector, names: tuple[str, ...]) -> bool:
        """Whether a slope is asked for over too few requests, which is then a problem."""
        if selector.name not in SLOPES:
            return False
        needed = SLOPE_REQUESTS if selector.name == SLOPE else 2 * SLOPE_REQUESTS
        produced = self.declared.produced
        counts = {"": produced.measured + sum(produced.loads.values())}
        if names:
            counts = {
                name: count
                for name, count in produced.loads.items()
                if selector.accepts(selector.name, {"step": name})
            }
        for name, count in counts.items():
            if count < needed:
                place = f"load '{name}' has" if name else "the steps make"
                self.say(
                    f"'{selector.name}' needs at least {needed} requests after warm-up, and "
                    f"{place} {count}"
                )
                return True
        return False

    def _no_such(self, label: str, value: str, values: list[str]) -> str:
        if label == "session" and value in self.declared.sessions:
            return f"session '{value}' has no turn in the steps"
        selector = self.selector
        if label == "request" and selector is not None and "against" in selector.label_names:
            kind = "embedding" if selector.name == "embedding_cosine" else "logprobs"
            return f"no '{kind}' step has the id '{value}'{remedy(value, values, 'ids')}"
        if label == "step" and value in self.declared.produced.named and selector is not None:
            return f"step '{value}' has no {selector.name} (docs/load.md says what has one)"
        words = {
            "against": ("vectors are not compared with", "references"),
            "session": ("unknown session", "sessions"),
            "turn": ("there is no turn", "turns"),
            "request": ("no 'complete' step has the id", "ids"),
            "copy": ("no 'complete' step asks for copy", "copies"),
            "at": ("no 'snapshot' step makes", "snapshots"),
            "step": ("no step is called", "steps"),
            "stage": ("no sweep has the stage", "stages"),
            "quantile": ("there is no quantile", "quantiles"),
        }
        what, plural = words[label]
        return f"{what} '{value}'{remedy(value, values, plural)}"

    # the rule

    def _check_rules(self) -> None:
        given = [name for name in _RULES if name in self.found.value]
        if not given:
            self.say(
                "the gate has no rule; give one of equals, min, max, same_as, regression, growth"
            )
            return
        groups = {"limit" if name in ("min", "max") else name for name in given}
        if len(groups) > 1:
            self.say(f"the gate has several rules ({', '.join(given)}); write one gate for each")
            return
        metric = self.metric
        if metric is None:
            return
        rule = given[0]
        noisy = metric.assume in _NOISY
        if rule == "equals" and self._is_word(_ANALYTIC):
            self._check_analytic(metric)
        elif rule == "regression" and not noisy:
            self.say(
                f"'{metric.name}' is {metric.assume} and has no tolerance; "
                "write 'equals: baseline' instead of a regression rule",
                rule,
            )
        elif rule in ("equals", "same_as") and noisy:
            self.say(
                f"'{metric.name}' is {metric.assume} and never twice the same; "
                f"write 'regression' or 'max' instead of '{rule}'",
                rule,
            )
        elif rule in ("min", "max") and metric.assume == "text":
            self.say(
                f"'{metric.name}' is text and has no {rule}; write 'equals' or 'same_as'", rule
            )

    def _scalar(self, key: str) -> Scalar | None:
        found = self.found.get(key)
        return found.value if found is not None and isinstance(found.value, Scalar) else None

    def _is_word(self, word: str) -> bool:
        """Whether the gate says `equals: baseline`, or another word that is no value."""
        scalar = self._scalar("equals")
        if scalar is None:
            return False
        # a text metric may really equal the word, which is then written in quotes
        is_text = self.metric is not None and self.metric.assume == "text"
        return scalar.text == word and (scalar.plain or not is_text)

    def _check_analytic(self, metric: Metric) -> None:
        """Refuse `equals: analytic` where the model file does not tell the value."""
        told = [f"'{m.name}'" for m in CATALOGUE.values() if m.analytic]
        known = f"{', '.join(told[:-1])} and {told[-1]}"
        if not metric.analytic:
            self.say(
                f"'{metric.name}' cannot be told from the model file; 'equals: analytic' is for "
                f"{known}; write 'equals: baseline', or a value",
                "equals",
            )
        elif self.selector is not None and self.selector.label_names:
            self.say(
                f"the model file tells only the total of '{metric.name}', and '{self.text}' "
                f"selects parts; write 'metric: {metric.name}'",
                "equals",
            )

    def _equals(self) -> float | str | None:
        scalar = self._scalar("equals")
        if scalar is None or self.metric is None:
            return None
        if self._is_word(_BASELINE) or self._is_word(_ANALYTIC):
            return None
        if self.metric.assume == "text":
            return scalar.text
        return self._number("equals", scalar)

    def _limit(self, key: str) -> float | None:
        scalar = self._scalar(key)
        if scalar is None or self.metric is None or self.metric.assume == "text":
            return None
        return self._number(key, scalar)

    def _number(self, key: str, scalar: Scalar) -> float | None:
        assert self.metric is not None  # callers have looked
        unit = self.metric.unit
        try:
            return parse_quantity(scalar.text, unit)
        except ValueError as error:
            wanted = f"a number in {unit}" if unit else "a number"
            if key == "equals":
                wanted += ", 'baseline' or 'analytic'" if self.metric.analytic else " or 'baseline'"
            self.problems.say(scalar.line, f"'{key}': {error}; expected {wanted}")
            return None

    def _regression(self) -> Regression | None:
        found = self.found.get("regression")
        if found is None or self.metric is None:
            return None
        scalar = found.plain("and_by")
        by = None if scalar is None else self._number("and_by", scalar)
        if by is not None and by < 0:
            self.problems.say(scalar.line, "'and_by' must be at least 0")
        percent = found.plain("worse_than", 0.0)
        if self.metric.better == "higher" and percent >= 100:
            self.say(
                f"'{self.metric.name}' cannot fall by more than 100%, so the gate would never "
                "fail; write a 'worse_than' below 100%",
                "regression",
            )
        return Regression(worse_than_percent=percent, and_by=by)

    def _growth(self) -> Growth | None:
        found = self.found.get("growth")
        if found is None or self.metric is None or self.selector is None:
            return None
        if self.selector.label_names != ("at",):
            self.say(
                f"'growth' is from one snapshot to another, and '{self.text}' names none; "
                f'write for example anon_mib{{at="end"}}',
                "growth",
            )
            return None
        since = found.plain("since", "")
        known = self.declared.produced.snapshots
        if since and since not in known:
            hint = remedy(since, known, "snapshots")
            self.say(f"no 'snapshot' step makes '{since}'{hint}", "growth")
        elif all(name == since for name in known if self._takes(name)):
            self.say(f"snapshot '{since}' would be compared with itself only", "growth")
        limits = {}
        for key in ("min", "max"):
            scalar = found.plain(key)
            limits[key] = None if scalar is None else self._number(key, scalar)
        low, high = limits["min"], limits["max"]
        if found.plain("min") is None and found.plain("max") is None:
            self.say("'growth' has no limit; give min, max or both", "growth")
        elif low is not None and high is not None and low > high:
            self.say(f"min {low:g} is above max {high:g}; nothing can meet both", "growth")
        return Growth(since, low, high)

    def _takes(self, snapshot: str) -> bool:
        selector = self.selector
        return selector is not None and selector.accepts(selector.name, {"at": snapshot})

    # where it applies

    def _variants(self) -> tuple[str, ...] | None:
        found = self.found.get("variants")
        if found is None:
            return None
        names: list[str] = []
        for item in items(found):
            if item.value is None:
                continue
            if item.value not in self.declared.variants:
                hint = remedy(item.value, self.declared.variants, "variants")
                self.problems.say(item.line, f"unknown variant '{item.value}'{hint}")
            elif item.value in names:
                self.problems.say(item.line, f"variant '{item.value}' is named twice")
            else:
                names.append(item.value)
        return tuple(names)

    def _same_as(self, variants: tuple[str, ...] | None) -> SameAs | None:
        found = self.found.get("same_as")
        if found is None:
            return None
        variant, session = found.plain("variant"), found.plain("session")
        request = found.plain("request")
        if variant is None and session is None and request is None:
            if not any(value.value is None for value in found.value.values()):
                self.say("'same_as' names neither a variant nor a session or request", "same_as")
            return None
        if session is not None and request is not None:
            self.say("'same_as' names a session and a request; write one gate for each", "same_as")
            return None
        if variant is not None:
            self._check_other_variant(variant, session or request, variants)
        if session is not None:
            self._check_other_session(session, variant)
        if request is not None:
            self._check_other_request(request, variant)
        return SameAs(variant=variant, session=session, request=request)

    def _check_other_variant(
        self, variant: str, other: str | None, variants: tuple[str, ...] | None
    ) -> None:
        known = self.declared.variants
        if variant not in known:
            self.say(f"unknown variant '{variant}'{remedy(variant, known, 'variants')}", "same_as")
            return
        applies = list(known) if variants is None else list(variants)
        if other is None and applies and all(name == variant for name in applies):
            self.say(
                f"variant '{variant}' would be compared with itself only; "
                "name other variants in 'variants', or declare one",
                "same_as",
            )

    def _check_other_session(self, session: str, variant: str | None) -> None:
        sessions = self.declared.sessions
        if session not in sessions:
            hint = remedy(session, sessions, "sessions")
            self.say(f"unknown session '{session}'{hint}", "same_as")
            return
        if self.selector is None or self.metric is None:
            return
        if "session" not in self.selector.label_names:
            self.say(
                f"'same_as: {{session}}' needs a selector with a session; '{self.text}' names none",
                "same_as",
            )
            return
        series = (
            self.declared.produced.label_sets(self.selector.label_names, self.selector.name) or []
        )
        chosen = [labels for labels in series if self.selector.accepts(self.metric.name, labels)]
        others = [labels for labels in chosen if labels["session"] != session]
        if variant is None and chosen and not others:
            self.say(f"session '{session}' would be compared with itself only", "same_as")
        for labels in others:
            if {**labels, "session": session} not in series:
                self.say(f"session '{session}' has no turn {labels['turn']}", "same_as")

    def _check_other_request(self, request: str, variant: str | None) -> None:
        known = self.declared.produced.requests
        if request not in known:
            self.say(f"no 'complete' step has the id '{request}'{remedy(request, known, 'ids')}")
        elif self.selector is not None and self.metric is not None:
            if self.selector.label_names != ("request",):
                self.say(
                    f"'same_as: {{request}}' needs a selector of requests; '{self.text}' is none",
                    "same_as",
                )
                return
            chosen = [
                name for name in known if self.selector.accepts(self.metric.name, {"request": name})
            ]
            if variant is None and chosen == [request]:
                self.say(f"request '{request}' would be compared with itself only", "same_as")

    def _when(self) -> When:
        found = self.found.get("when")
        if found is None:
            return When()
        return When(
            attention=found.plain("attention"),
            sliding_window=found.plain("sliding_window"),
            recurrent=found.plain("recurrent"),
            analytic=found.plain("analytic"),
            backend=found.plain("backend"),
            deployment=found.plain("deployment"),
        )
