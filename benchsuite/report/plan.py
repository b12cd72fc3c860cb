"""A plan in words, for people who want to know what a run would do before it does it."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from benchsuite.gate.words import rule_words
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import parse_selector
from benchsuite.model.deployment import OWN_MODEL_FLAGS
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.scenario import (
    CompleteStep,
    ConcurrentlyStep,
    DamageStep,
    EmbeddingStep,
    GateSpec,
    IdleStep,
    KnownIssue,
    LoadStep,
    LogprobsStep,
    PromptSpec,
    RequestSpec,
    RequestValue,
    RestartStep,
    SessionSpec,
    SlotStep,
    SnapshotStep,
    SourceMarkersStep,
    Step,
    SweepStep,
    TurnStep,
    When,
)
from benchsuite.report.layout import safe_lines
from benchsuite.report.load_words import load_in_words, sweep_in_words
from benchsuite.server.behind import Behind
from benchsuite.units import format_number

_WIDTH = 80
_TEXT_SHOWN = 40


def render_plan(
    plan: Plan,
    commands: Mapping[str, Sequence[str]] | None = None,
    behind: Behind | None = None,
) -> str:
    """The plan in words, with a newline at its end.

    Args:
        plan: What would be done.
        commands: The exact server command of each variant; None leaves them out.
        behind: How the server of a command is reached; None where there is no such command.
    """
    scenario = plan.scenario
    lines = [*_wrap(f"{scenario.name}: {scenario.title}", "", "  "), f"  {scenario.path}"]
    if scenario.description:
        lines += ["", *_wrap(scenario.description, "  ")]
    lines += ["", f"Server: {_server(plan)}"]
    lines += [] if behind is None else _behind(behind)
    if plan.seed or plan.trials > 1:
        lines.append(f"  {_count(plan.trials, 'trial')} of each variant, seed {plan.seed}")
    lines += ["", "Sessions:"] if scenario.sessions else []
    for session in scenario.sessions.values():
        lines += _wrap(_session(session), "  ", "     ")
    lines += ["", "Steps:", *_steps(plan)]
    lines += ["", "Variants:"]
    for variant in plan.variants:
        lines += _variant(plan, variant)
    if plan.gates:
        lines += ["", "Gates:"]
        for number, gate in enumerate(plan.gates, 1):
            lines += _wrap(f"{number}. {gate_in_words(gate)}", "  ", "     ")
            lines += _wrap(gate.why, "     ")
    else:
        lines += ["", "Gates: none; such a run is inconclusive"]
    if scenario.known_issues:
        lines += ["", "Known issues:"]
        for issue in scenario.known_issues:
            lines += _wrap(known_issue_in_words(issue), "  ", "     ")
            lines += _wrap(issue.reason, "     ")
    for name, command in (commands or {}).items():
        lines += ["", f"Command of variant {name}:", f"  {shlex.join(command)}"]
    return safe_lines("\n".join(lines)) + "\n"


def gate_in_words(gate: GateSpec) -> str:
    """A gate as one line: metric, rule, and where it applies."""
    text = f"{gate.metric} {rule_words(gate, _unit(gate.metric))}"
    if gate.variants is not None:
        text += f", in {_listed('variant', gate.variants)}"
    facts = when_in_words(gate.when)
    if facts:
        text += f", when {facts}"
    if gate.needs is not None:
        text += f", needs {'a launched server' if gate.needs == 'launched' else gate.needs}"
    if gate.level == "advise":
        text += " (advice)"
    return text


def known_issue_in_words(issue: KnownIssue) -> str:
    """A known issue as one line: who fails how, where, and until when."""
    how = "crashes" if issue.expect == "crash" else "fails"
    text = f"{issue.issue}: variant {issue.variant} {how}"
    if issue.gate is not None:
        text += f" {issue.gate}"
    if issue.signature:
        text += f" with /{issue.signature}/"
    builds = issue.builds
    if builds.first is not None and builds.first == builds.last:
        text += f", on build b{builds.first}"
    elif builds.first is not None or builds.last is not None:
        ends = ["" if end is None else f"b{end}" for end in (builds.first, builds.last)]
        text += f", on builds {'..'.join(ends)}"
    if issue.commit is not None:
        text += f", on commit {issue.commit}"
    if issue.backend is not None:
        text += f", with backend {issue.backend}"
    if issue.deployment is not None:
        text += f", on deployment {issue.deployment}"
    return text if issue.expires is None else f"{text}; expires on {issue.expires}"


def when_in_words(when: When) -> str:
    """The facts that a gate asks for; empty where it asks for none."""
    facts = []
    if when.attention is not None:
        facts.append(f"attention is {when.attention.replace('_', ' ')}")
    if when.sliding_window is not None:
        facts.append(f"the model has {'a' if when.sliding_window else 'no'} sliding window")
    if when.recurrent is not None:
        facts.append(f"the model has {'a' if when.recurrent else 'no'} recurrent state")
    if when.analytic is not None:
        word = "tells" if when.analytic else "does not tell"
        facts.append(f"the model file {word} what its memory must be")
    if when.backend is not None:
        facts.append(f"backend {when.backend} is used")
    if when.deployment is not None:
        facts.append(f"the deployment is {when.deployment}")
    return " and ".join(facts)


def step_in_words(step: Step) -> str:
    """One step as one line."""
    if isinstance(step, TurnStep):
        return (
            f"session {step.session}: user message {prompt_in_words(step.user)}, "
            f"up to {_count(step.max_tokens, 'token')} of reply{_may_fail(step)}{_warm_up(step)}"
        )
    if isinstance(step, CompleteStep):
        pinned = "" if step.slot is None else f", on slot {step.slot}"
        return (
            f"complete {step.id}: prompt {prompt_in_words(step.prompt)}, "
            f"up to {_count(step.max_tokens, 'token')} of reply{pinned}"
            f"{_request(step.request)}{_may_fail(step)}{_warm_up(step)}"
        )
    if isinstance(step, SweepStep):
        return f"sweep {sweep_in_words(step)}; of each: {step_in_words(step.load)}"
    if isinstance(step, LoadStep):
        prefix = "" if step.prefix is None else prompt_in_words(step.prefix)
        request = _request(step.request)
        return load_in_words(step, prompt_in_words(step.prompt), prefix, request)
    if isinstance(step, LogprobsStep):
        beside = "" if step.at_once == 1 else f", {step.at_once} requests at once"
        return (
            f"logprobs {step.id}: prompt {prompt_in_words(step.prompt)}, "
            f"{_count(step.tokens, 'position')}, the likeliest {step.top} tokens at most{beside}"
        )
    if isinstance(step, EmbeddingStep):
        return f"embedding {step.id}: prompt {prompt_in_words(step.prompt)}"
    if isinstance(step, IdleStep):
        return f"idle for {format_number(step.seconds, 3)} s"
    if isinstance(step, SnapshotStep):
        return f"snapshot {step.name}"
    if isinstance(step, SlotStep):
        place = {"save": f" to {step.file}", "restore": f" from {step.file}", "erase": ""}
        return f"{step.name}: {step.action} slot {step.id}{place[step.action]}{_may_fail(step)}"
    if isinstance(step, DamageStep):
        to = "" if step.to is None else f" as {step.to}"
        return f"damage saved file {step.file}{to}: {step.how}"
    if isinstance(step, RestartStep):
        return "restart the server with the same flags"
    if isinstance(step, SourceMarkersStep):
        return (
            f"{step.name}: count lines that match '{step.pattern}' in {', '.join(step.files)} of "
            f"source folder '{step.folder}'"
        )
    return f"{len(step.branches)} branches at the same time"


def _warm_up(step: TurnStep | CompleteStep) -> str:
    return "; warm-up, not timed" if step.warm_up else ""


def _may_fail(step: TurnStep | CompleteStep | SlotStep) -> str:
    return ", may fail" if step.may_fail else ""


def prompt_in_words(prompt: PromptSpec) -> str:
    """A prompt as a few words: `of 600 tokens (seed 7)`, or the text itself, cut."""
    if prompt.tokens is not None:
        return f"of {_count(prompt.tokens, 'token')} (seed {prompt.seed})"
    text = prompt.text or ""
    shown = text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 3]}..."
    return repr(shown)


def _server(plan: Plan) -> str:
    deployment = plan.deployment
    if not plan.scenario.needs_server:
        return f"deployment {deployment.name}; no step needs a server, so none is started"
    if deployment.url is not None:
        named = deployment.model_name
        words = "" if named is None else f", its model {named}"
        return f"deployment {deployment.name}, attached to {deployment.url}{words}"
    if deployment.command is not None:
        words = shlex.join(deployment.command.argv)
        return f"deployment {deployment.name}, started by: {words}"
    server = deployment.server or "the first llama-server found"
    model = deployment.model or _own_model(plan) or "the tiny model"
    return f"deployment {deployment.name}, {server} with {model}"


def _behind(behind: Behind) -> Iterator[str]:
    """How the server behind a command is stopped, seen and read."""
    stop = shlex.join(behind.stop) if behind.stop else "the signal TERM to the command"
    yield f"  asked to stop by: {stop}"
    kill = shlex.join(behind.kill) if behind.kill else "the signal KILL to the command"
    yield f"  ended by force, also if benchsuite is killed, by: {kill}"
    yield f"  log: {shlex.join(behind.log) if behind.log else 'what the command prints'}"
    if behind.container is not None:
        yield f"  memory: of container {behind.container} ({shlex.join(behind.engine)} inspect)"
    elif behind.elsewhere:
        yield "  memory: cannot be seen, since the server runs on another host"
    elif behind.pidfile is not None:
        yield f"  memory: of the process in {behind.pidfile}"
    elif behind.process is not None:
        yield f"  memory: of the process that matches '{behind.process}'"
    else:
        yield "  memory: cannot be seen; name its 'container', 'pidfile' or 'process'"


def _own_model(plan: Plan) -> str | None:
    """The model that the server finds by its own flags, in words; None where it is given a file."""
    for variant in plan.variants:
        for flag in OWN_MODEL_FLAGS:
            value = variant.flags.get(flag)
            if value is not None:
                named = plan.deployment.model_name
                which = "the model" if named is None else f"model {named}"
                return f"{which} of --{flag} {value}"
    return None


def _session(session: SessionSpec) -> str:
    system = (
        "no system message"
        if session.system is None
        else f"system message {prompt_in_words(session.system)}"
    )
    pinned = "" if session.slot is None else f", pinned to slot {session.slot}"
    return f"{session.name}: {system}{pinned}{_request(session.request)}"


def _request(request: RequestSpec) -> str:
    fields: dict[str, RequestValue] = {}
    if request.cache_prompt is not None:
        fields["cache_prompt"] = request.cache_prompt
    if request.temperature:
        fields["temperature"] = request.temperature
    fields.update(request.extra)
    shown = [f"{name} {_json_word(value)}" for name, value in fields.items()]
    return f" ({', '.join(shown)})" if shown else ""


def _json_word(value: RequestValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _steps(plan: Plan) -> Iterator[str]:
    # seeds are shifted alike in every variant
    steps = plan.variants[0].steps if plan.variants else plan.scenario.steps
    for number, step in enumerate(steps, 1):
        yield from _wrap(f"{number}. {step_in_words(step)}", "  ", "     ")
        if isinstance(step, ConcurrentlyStep):
            for branch in step.branches:
                for place, member in enumerate(branch):
                    mark = "     - " if place == 0 else "       "
                    yield from _wrap(step_in_words(member), mark, "         ")


def _variant(plan: Plan, variant: VariantPlan) -> Iterator[str]:
    spec = plan.scenario.variants[variant.name]
    title = f": {spec.title}" if spec.title else ""
    yield from _wrap(f"{variant.name}{title}", "  ", "     ")
    if variant.not_applicable is not None:
        yield from _wrap(f"not applicable: {variant.not_applicable}", "     ")
        return
    for name, overlay in spec.sessions.items():
        if overlay.slot is not None:
            yield f"     session {name} pinned to slot {overlay.slot}"
        if overlay.request is not None:
            words = f"session {name} with other request fields{_request(overlay.request)}"
            yield from _wrap(words, "     ", "       ")
    for note in variant.notes:
        yield from _wrap(f"--{note}", "     ", "       ")


def _unit(selector: str) -> str:
    metric = CATALOGUE.get(parse_selector(selector).name)
    return "" if metric is None else metric.unit


def _listed(word: str, names: Sequence[str]) -> str:
    return f"{word}{'' if len(names) == 1 else 's'} {', '.join(names)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _wrap(text: str, indent: str, later: str | None = None) -> list[str]:
    return textwrap.wrap(
        safe_lines(text.expandtabs()),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )
