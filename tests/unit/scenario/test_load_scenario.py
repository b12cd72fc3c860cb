"""A scenario file gives frozen types, or every problem at its line with the word to write."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from benchsuite.errors import ScenarioError
from benchsuite.metrics.select import parse_selector
from benchsuite.model.scenario import (
    CompleteStep,
    ConcurrentlyStep,
    FlagNeed,
    Growth,
    IdleStep,
    LoadStep,
    Regression,
    SameAs,
    Scenario,
    SnapshotStep,
    TurnStep,
    When,
)
from benchsuite.scenario.load import load_scenario, parse_scenario, schema

FIXTURES = Path(__file__).parents[2] / "fixtures" / "scenarios"
SHIPPED = Path(__file__).parents[3] / "scenarios"

HEAD = """title: t
sessions:
  A: {}
  B: {}
steps:
  - turn: {session: A, user: {tokens: 4}}
  - turn: {session: B, user: {tokens: 4}}
  - turn: {session: A, user: {tokens: 4}}
  - complete: {id: one, prompt: {text: hello}}
  - snapshot: loaded
"""
VARIANTS = "variants:\n  B: {}\n  U: {flags: {kv-unified: true}}\n"
HEAD_LINES = HEAD.count("\n")


def problems(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, display="s.yaml")
    return list(caught.value.problems)


def gate_problem(gate: str, variants: str = VARIANTS) -> str:
    """The only problem of a file with this gate, without its place."""
    found = problems(f"{HEAD}{variants}gates:\n  - {gate}\n")
    assert len(found) == 1, found
    line = HEAD_LINES + variants.count("\n") + 2
    assert found[0].startswith(f"s.yaml:{line}: ")
    return found[0].removeprefix(f"s.yaml:{line}: ")


def gates_of(gate: str) -> Scenario:
    return parse_scenario(f"{HEAD}{VARIANTS}gates:\n  - {gate}\n")


def test_everything_that_a_file_can_say() -> None:
    """Each key of the language arrives in its type."""
    found = load_scenario(FIXTURES / "everything.yaml", "everything.yaml")
    assert found.name == "everything"
    assert found.tags == ("m0", "nightly")
    assert found.server["parallel"] == FlagNeed(exact="2", line=5)
    assert found.server["ctx-size"] == FlagNeed(min=4096, kind="min", per="slot", line=6)
    assert found.server["cache-ram"] == FlagNeed(default="0", kind="default", line=7)
    assert found.server["flash-attn"].exact == "on"
    assert found.server["lora"].exact == ("a.gguf", "b.gguf")
    assert found.server["mmproj"] == FlagNeed(exact=None, line=10)
    session = found.sessions["A"]
    assert session.system is not None
    assert (session.system.tokens, session.system.seed) == (600, 7)
    assert session.slot == 1
    assert session.request.cache_prompt is False
    assert session.request.extra == {"top_k": 3, "stop": "x", "ignore_eos": True, "min_p": 0.5}
    turn, complete, both, idle, short, snapshot = found.steps
    assert isinstance(turn, TurnStep)
    assert turn.user.tokens == 600  # the named prompt
    assert isinstance(complete, CompleteStep)
    assert (complete.id, complete.prompt.text, complete.slot) == ("one", "hello", 0)
    assert isinstance(both, ConcurrentlyStep)
    assert [len(branch) for branch in both.branches] == [1, 2]
    assert isinstance(idle, IdleStep)
    assert isinstance(short, IdleStep)
    assert (idle.seconds, short.seconds) == (0.5, 0.25)
    assert isinstance(snapshot, SnapshotStep)
    assert found.variants["U"].flags == {"kv-unified": "on", "lora": None}
    assert found.variants["U"].sessions["A"].slot == 0
    assert found.variants["O"].require.overlay
    assert found.variants["O"].require.flag == "swa-full"
    assert [gate.equals_baseline for gate in found.gates] == [True] + [False] * 6
    assert (found.gates[1].min, found.gates[1].max) == (0.0, 96.0)
    assert found.gates[1].when == When(deployment="tiny")
    assert found.gates[2].same_as == SameAs(variant="B")
    assert found.gates[3].same_as == SameAs(session="A")
    assert found.gates[4].regression == Regression(5.0, 16.0)
    assert found.gates[5].equals == "baseline"  # quoted: the word itself
    assert found.gates[6].equals == 1.0
    assert found.gates[4].level == "advise"
    assert found.gates[4].needs == "linux"


@pytest.mark.parametrize("metric", ["kv_mib", "rs_mib", "kv_cells"])
def test_a_gate_may_compare_with_the_model_file(metric: str) -> None:
    """`equals: analytic` is a rule of its own, where the model file tells the value."""
    (gate,) = gates_of(f"{{metric: {metric}, equals: analytic, when: {{analytic: true}}}}").gates
    assert gate.equals_analytic
    assert (gate.equals, gate.equals_baseline) == (None, False)
    assert gate.when == When(analytic=True)


def test_a_text_may_really_be_the_word() -> None:
    """In quotes, as for 'baseline'; without them it is a rule that text cannot hold."""
    (gate,) = gates_of("{metric: 'text{request=\"one\"}', equals: 'analytic'}").gates
    assert (gate.equals, gate.equals_analytic) == ("analytic", False)


def test_a_file_without_variants_has_one() -> None:
    """There is always something to run."""
    assert list(parse_scenario(HEAD).variants) == ["default"]


def test_every_problem_is_named_in_one_go() -> None:
    """Problems of different parts are collected and sorted by line."""
    found = load_problems("broken.yaml")
    assert found == [
        "broken.yaml:1: unknown key 'titel' in the scenario; did you mean 'title'?",
        (
            "broken.yaml:3: unknown key 'mim' in flag 'ctx-size'; did you mean 'min'? "
            "(valid keys: exact, min, default, per)"
        ),
        (
            "broken.yaml:5: 'tokens' of prompt 'p': expected a whole number of at least 1, at most "
            "1000000, found '0x10'"
        ),
        "broken.yaml:7: unknown prompt 'q'; prompts are: p",
        "broken.yaml:9: unknown session 'C'; sessions are: A",
        "broken.yaml:10: unknown step 'trun'; did you mean 'turn'?",
        (
            "broken.yaml:11: 'max_tokens' of step 'turn': expected a whole number of at least 1, "
            "at most 1000000, found 'many'"
        ),
        "broken.yaml:14: unknown session 'D' in variant 'V'; sessions are: A",
    ]


def load_problems(name: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(FIXTURES / name, name)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n", "s.yaml:1: the scenario: expected a mapping, found a list"),
        ("title: t\n", "s.yaml:1: the scenario: 'steps' is missing"),
        (
            "title: t\nsteps: 3\ngates: [{metric: 'text{request=\"x\"}', equals: y}]\n",
            "s.yaml:2: 'steps' of the scenario: expected a list, found '3'",
        ),
        ("title: t\nsteps: []\n", "s.yaml:2: 'steps' of the scenario: needs at least 1 step"),
        (
            HEAD + "  - idle: soon\n",
            (
                f"s.yaml:{HEAD_LINES + 1}: step 'idle': 'soon' is not a number; expected a number "
                "such as 0.5 or 500 ms (above 0 and at most 3600)"
            ),
        ),
        (
            HEAD + "  - idle: -1\n",
            (
                f"s.yaml:{HEAD_LINES + 1}: step 'idle': expected a number such as 0.5 or 500 ms "
                "(above 0 and at most 3600), found '-1'"
            ),
        ),
        (
            HEAD + "  - snapshot: end\n",
            f"s.yaml:{HEAD_LINES + 1}: snapshot 'end' is taken in every",
        ),
        (
            HEAD + "  - snapshot: loaded\n",
            f"s.yaml:{HEAD_LINES + 1}: snapshot 'loaded' was taken on",
        ),
        (
            HEAD + "  - complete: {id: one, prompt: {text: x}}\n",
            f"s.yaml:{HEAD_LINES + 1}: id 'one' was used on line 9 already",
        ),
        (
            HEAD + "  - complete: {id: two, prompt: {text: x, tokens: 3}}\n",
            (
                f"s.yaml:{HEAD_LINES + 1}: 'prompt' of step 'complete': expected one of 'tokens' "
                "or 'text', found both"
            ),
        ),
        (
            HEAD + "  - turn: {session: A, user: {text: x}}\n    idle: 1\n",
            f"s.yaml:{HEAD_LINES + 1}: step 6 of 'steps' of the scenario: expected one step",
        ),
        (
            HEAD + "  - concurrently:\n    - turn: {session: A, user: {text: x}}\n"
            "    - [{turn: {session: A, user: {text: x}}}]\n",
            f"s.yaml:{HEAD_LINES + 3}: session 'A' has turns in branches 1 and 2; a session's",
        ),
        (
            HEAD + "  - concurrently: [{idle: 1}, {idle: 2}]\n",
            f"s.yaml:{HEAD_LINES + 1}: unknown step 'idle'; steps are: turn, complete",
        ),
        (HEAD + "variants: {}\n", f"s.yaml:{HEAD_LINES + 1}: 'variants' of the scenario: needs at"),
        (HEAD + "variants: {a/b: }\n", f"s.yaml:{HEAD_LINES + 1}: variant 'a/b' in 'variants' of"),
        (
            HEAD + "server: {parallel: 1, np: 1}\n",
            f"s.yaml:{HEAD_LINES + 1}: flag 'parallel' was given on line {HEAD_LINES + 1} already",
        ),
        (
            HEAD + "server: {parallel: 2}\nvariants: {P: {sessions: {A: {slot: 2}}}}\n",
            (
                f"s.yaml:{HEAD_LINES + 2}: session 'A' is pinned to slot 2; with parallel 2 slots "
                "are 0 to 1"
            ),
        ),
        (
            HEAD + "variants: {P: {sessions: {A: {request: {n_predict: 3}}}}}\n",
            f"s.yaml:{HEAD_LINES + 1}: request field 'n_predict' is set by 'max_tokens' of the",
        ),
        (
            HEAD.replace("  B: {}\n", "  B: {}\n  C: {}\n"),
            "s.yaml:5: session 'C' is never used by a step; remove it",
        ),
        (HEAD + "prompts: {p: {tokens: 3}}\n", "s.yaml:11: prompt 'p' is never used; remove it"),
        (HEAD + "<<: 3\n", "s.yaml:11: merge key '<<' in the scenario is not supported"),
    ],
)
def test_one_problem_is_one_sentence(text: str, expected: str) -> None:
    """Each mistake gives exactly one problem, which says where and what."""
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_a_name_that_cannot_be_a_folder_is_refused() -> None:
    """The stem names folders of runs and baselines."""
    with pytest.raises(ScenarioError, match="names the scenario"):
        parse_scenario(HEAD, name="my scenario")


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        ("{metric: kv_mb, equals: baseline}", "unknown metric 'kv_mb'; did you mean 'kv_mib'?"),
        ("{metric: 'kv_mib{', equals: baseline}", "selector 'kv_mib{': after the name comes"),
        (
            "{metric: 'kv_mib{devise=\"CPU\"}', equals: baseline}",
            "unknown label 'devise' of metric 'kv_mib'; did you mean 'device'?",
        ),
        (
            "{metric: text, same_as: {variant: B}}",
            (
                "selector 'text' names no labels, but 'text' is measured with session, turn or "
                'request or copy, request; write for example text{session=~".*",turn=~".*"}'
            ),
        ),
        (
            "{metric: 'cached_tokens{session=\"A\"}', equals: baseline}",
            "selector 'cached_tokens{session=\"A\"}' names session, but",
        ),
        (
            '{metric: \'cached_tokens{session="C",turn="1"}\', equals: 1}',
            "unknown session 'C'; sessions are: A, B",
        ),
        (
            '{metric: \'cached_tokens{session="B",turn="2"}\', equals: 1}',
            "there is no turn 2: session 'B' has 1",
        ),
        (
            '{metric: \'cached_tokens{session="A",turn="3"}\', equals: 1}',
            "there is no turn '3'; turns are: 1, 2",
        ),
        ("{metric: 'text{request=\"on\"}', equals: x}", "no 'complete' step has the id 'on'"),
        (
            "{metric: 'anon_mib{at=\"laoded\"}', max: 1}",
            (
                "no 'snapshot' step makes 'laoded'; did you mean 'loaded'? (snapshots: ready, end, "
                "loaded)"
            ),
        ),
        (
            "{metric: 'anon_mib{at=~\"x.*\"}', max: 1}",
            "selector 'anon_mib{at=~\"x.*\"}' selects nothing that the steps will make",
        ),
        ("{metric: kv_mib}", "the gate has no rule; give one of equals, min, max, same_as"),
        ("{metric: kv_mib, equals: 3, max: 4}", "the gate has several rules (equals, max)"),
        ("{metric: kv_mib, regression: {worse_than: 5%}}", "'kv_mib' is quantised and has no"),
        ("{metric: 'anon_mib{at=\"end\"}', equals: baseline}", "'anon_mib' is memory and never"),
        ("{metric: 'ttft_ms{request=\"one\"}', same_as: {variant: B}}", "'ttft_ms' is latency and"),
        ("{metric: 'text{request=\"one\"}', min: 3}", "'text' is text and has no min"),
        ("{metric: kv_mib, min: 5, max: 4}", "min 5 is above max 4; nothing can meet both"),
        ("{metric: kv_mib, max: 5 s}", "'max': '5 s' is not in MiB; expected a number in MiB"),
        (
            "{metric: kv_mib, equals: basline}",
            (
                "'equals': 'basline' is not a number; expected a number in MiB, 'baseline' or "
                "'analytic'"
            ),
        ),
        (
            "{metric: 'slot{request=\"one\"}', equals: basline}",
            "'equals': 'basline' is not a number; expected a number or 'baseline'",
        ),
        (
            "{metric: n_ctx_slot, equals: analytic}",
            (
                "'n_ctx_slot' cannot be told from the model file; 'equals: analytic' is for "
                "'kv_mib', 'rs_mib' and 'kv_cells'; write 'equals: baseline', or a value"
            ),
        ),
        (
            "{metric: 'anon_mib{at=\"end\"}', equals: analytic}",
            "'anon_mib' cannot be told from the model file",
        ),
        (
            "{metric: 'kv_mib{device=~\".*\"}', equals: analytic}",
            (
                "the model file tells only the total of 'kv_mib', and 'kv_mib{device=~\".*\"}' "
                "selects parts; write 'metric: kv_mib'"
            ),
        ),
        (
            "{metric: decode_tokens_per_second, regression: {worse_than: 100%}}",
            "'decode_tokens_per_second' cannot fall by more than 100%",
        ),
        ("{metric: kv_mib, max: 1e999}", "'max': '1e999' is too large"),
        ("{metric: kv_mib, same_as: {variant: C}}", "unknown variant 'C'; variants are: B, U"),
        (
            "{metric: kv_mib, same_as: {variant: B}, variants: [B]}",
            "variant 'B' would be compared with itself only",
        ),
        (
            "{metric: kv_mib, same_as: {}}",
            "'same_as' names neither a variant nor a session or request",
        ),
        ("{metric: kv_mib, same_as: {session: A}}", "'same_as: {session}' needs a selector"),
        (
            '{metric: \'slot{session="A",turn="1"}\', same_as: {session: A}}',
            "session 'A' would be compared with itself only",
        ),
        (
            '{metric: \'slot{session="A",turn="2"}\', same_as: {session: B}}',
            "session 'B' has no turn 2",
        ),
        ("{metric: kv_mib, max: 5, variants: []}", "'variants' of gate 1 of 'gates'"),
        ("{metric: kv_mib, max: 5, variants: [X]}", "unknown variant 'X'; variants are: B, U"),
        ("{metric: kv_mib, max: 5, variants: [B, B]}", "variant 'B' is named twice"),
        (
            "{metric: kv_mib, max: 5, when: {attention: ful}}",
            (
                "'attention' of 'when' of gate 1 of 'gates' of the scenario: 'ful' is unknown; did "
                "you mean 'full'?"
            ),
        ),
        ("{metric: kv_mib, max: 5, level: warn}", "'level' of gate 1 of 'gates' of the scenario"),
        ("{metric: kv_mib, max: 5, near_tie: 1}", "unknown key 'near_tie' in gate 1"),
        (
            "{metric: 'anon_mib{at=\"end\"}', regression: {worse_than: 5 MiB}}",
            "'worse_than' of 'regression' of gate 1",
        ),
    ],
)
def test_impossible_gates_are_refused(gate: str, expected: str) -> None:
    """A gate that could never hold, or never fail, is one problem at its line."""
    assert gate_problem(gate).startswith(expected)


def test_the_only_variant_has_nothing_to_be_compared_with() -> None:
    """same_as needs a second variant."""
    gate = "{metric: kv_mib, same_as: {variant: B}}"
    assert "with itself only" in gate_problem(gate, "variants: {B: {}}\n")


def test_units_of_limits_are_converted() -> None:
    """A limit may be written in any unit of its kind."""
    assert gates_of("{metric: kv_mib, max: 1.5 GiB}").gates[0].max == 1536
    assert gates_of("{metric: 'ttft_ms{request=\"one\"}', max: 2 s}").gates[0].max == 2000


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_load_and_meet_the_schema(path: Path) -> None:
    """What is shipped is right in both eyes, ours and an editor's."""
    scenario = load_scenario(path)
    assert scenario.description
    assert all(gate.why for gate in scenario.gates)
    validator = Draft202012Validator(schema())
    assert [e.message for e in validator.iter_errors(yaml.safe_load(path.read_text()))] == []


def _labels_of_concurrent_requests(scenario: Scenario) -> list[dict[str, str]]:
    turns: Counter[str] = Counter()
    together = []
    for step in scenario.steps:
        branches = step.branches if isinstance(step, ConcurrentlyStep) else ((step,),)
        for request in (one for branch in branches for one in branch):
            if isinstance(request, CompleteStep):
                labels = {"request": request.id}
            elif isinstance(request, TurnStep):
                turns[request.session] += 1
                labels = {"session": request.session, "turn": str(turns[request.session])}
            else:
                continue
            if isinstance(step, ConcurrentlyStep):
                together.append(labels)
    return together


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_claim_only_what_holds_anywhere(path: Path) -> None:
    """No absolute memory outside the tiny deployment, no equality of text from concurrency."""
    scenario = load_scenario(path)
    together = _labels_of_concurrent_requests(scenario)
    for gate in scenario.gates:
        if "_mib{at" in gate.metric and (gate.max or gate.min):
            assert gate.when.deployment == "tiny"
        if gate.metric.startswith("text"):
            selector = parse_selector(gate.metric)
            for labels in together:
                named = [m for m in selector.matchers if m.label in labels]
                assert not named or not all(m.accepts(labels[m.label]) for m in named)


def test_the_schema_is_valid_and_refuses_what_the_loader_refuses() -> None:
    """The schema is made of the same declaration: unknown keys, steps and words are errors."""
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    everything = yaml.safe_load((FIXTURES / "everything.yaml").read_text())
    assert validator.is_valid(everything)
    broken = yaml.safe_load((FIXTURES / "broken.yaml").read_text())
    assert len(list(validator.iter_errors(broken))) >= 5


LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "  ", "    ", "  - ", "    - "]),
        st.sampled_from(
            [
                "title",
                "steps",
                "turn",
                "idle",
                "sessions",
                "A",
                "gates",
                "metric",
                "variants",
                "max",
            ]
        ),
        st.sampled_from(["", "A", "3", "[A, 3]", "{tokens: 4}", "kv_mib", "'x{'", "null"]),
    ),
    max_size=12,
)


@given(LINES)
def test_any_yaml_gives_a_scenario_or_problems(lines: list[tuple[str, str, str]]) -> None:
    """No shape of file makes the loader fail in another way."""
    text = "".join(f"{indent}{key}: {value}\n" for indent, key, value in lines)
    named: tuple[str, ...] = ()
    try:
        parse_scenario(text, display="s.yaml")
    except ScenarioError as error:
        named = error.problems
    assert all(problem.startswith("s.yaml:") for problem in named)


STEPS = """title: t
server: {parallel: 2}
steps:
  - complete: {id: one, prompt: {text: hello}, may_fail: true}
  - slot: {action: save, id: 0, file: a.bin, as: kept}
"""


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("slot: {action: save, id: 0, as: b}", "step 'slot': 'save' needs a 'file'"),
        ("slot: {action: erase, id: 0, file: x, as: b}", "'file': erase has no file; remove it"),
        ("slot: {action: erase, id: 0, as: kept}", "name 'kept' was used on line 5 already"),
        ("damage: {file: c.bin, how: garbage}", "no step has saved 'c.bin'"),
        (
            "slot: {action: restore, id: 0, file: ../../x, as: b}",
            "'file' of step 'slot': expected a file name without folders",
        ),
        ("damage: {file: a.bin, how: garbage, to: /etc/x}", "expected a file name without folders"),
        ("restart: {now: true}", "unknown key 'now' in step 'restart'"),
        (
            "source_markers: {as: m, pattern: '(', files: '*.c'}",
            "'(' is no regular expression: missing )",
        ),
        (
            "source_markers: {as: m, pattern: x, files: ../*.c}",
            "expected a glob with forward slashes, inside the folder",
        ),
    ],
)
def test_steps_that_could_not_be_done_are_refused(step: str, expected: str) -> None:
    """Before anything starts, at their line."""
    found = problems(f"{STEPS}  - {step}\n")
    assert len(found) == 1, found
    assert found[0].startswith("s.yaml:6: ")
    assert expected in found[0]


def test_a_gate_names_a_step_by_its_name() -> None:
    """An unknown one is an error with the known ones."""
    gate = "gates:\n  - {metric: 'slot_tokens{step=\"kpt\"}', min: 1}\n"
    assert "no step is called 'kpt'; did you mean 'kept'?" in problems(STEPS + gate)[0]
    assert parse_scenario(STEPS + gate.replace("kpt", "kept")).saves_slots


@pytest.mark.parametrize(
    ("same", "expected"),
    [
        ("{request: tow}", "no 'complete' step has the id 'tow'; did you mean 'two'?"),
        ("{request: one, session: A}", "write one gate for each"),
        ("{request: two}", None),
    ],
)
def test_another_request_can_be_the_reference(same: str, expected: str | None) -> None:
    """`same_as: {request: ID}` compares with another 'complete' step."""
    text = HEAD.replace("steps:\n", "steps:\n  - complete: {id: two, prompt: {text: hi}}\n")
    text += f"gates:\n  - {{metric: 'text{{request=\"one\"}}', same_as: {same}}}\n"
    if expected is None:
        assert parse_scenario(text).gates[0].same_as == SameAs(request="two")
    else:
        assert expected in problems(text)[0]


LOADED = (
    "title: t\nsessions:\n  A: {secret: bebo}\n  B: {secret: dazo}\nsteps:\n"
    "  - load: {as: many, requests: 8, concurrency: 2, prompt: {tokens: 9, seed: 3}}\n"
    "  - complete: {id: c, prompt: {tokens: 9}, request: {n_cmpl: 3}}\n"
    "  - turn: {session: A, user: {tokens: 9}}\n"
    "  - turn: {session: B, user: {tokens: 9}}\n"
    "  - snapshot: used\n"
)


def loaded(text: str) -> str:
    """The only problem of a file with more lines, without its place."""
    found = problems(text)
    assert len(found) == 1, found
    return found[0].split(": ", 1)[1]


def test_loads_copies_secrets_and_growth() -> None:
    """Each arrives in its type, and gates know the series that they make."""
    gates = (
        "gates:\n"
        "  - {metric: 'requests_failed{step=\"many\"}', equals: 0}\n"
        '  - {metric: \'text{copy="3",request="c"}\', equals: x}\n'
        "  - {metric: 'anon_mib{at=\"used\"}', growth: {since: ready, min: -1, max: 2 GiB}}\n"
    )
    found = parse_scenario(LOADED + gates)
    load = found.steps[0]
    assert isinstance(load, LoadStep)
    assert (load.name, load.requests, load.concurrency, load.same) == ("many", 8, 2, False)
    assert [load.prompt_of(i).seed for i in range(3)] == [3, 4, 5]
    assert found.sessions["A"].secret == "bebo"
    assert found.gates[2].growth == Growth("ready", -1.0, 2048.0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("concurrency: 2", "concurrency: 9", "load 'many': concurrency 9 is above the 8 requests"),
        ("B: {secret: dazo}", "B: {secret: Beb}", "the secret of session 'B' is part of that of"),
        ("secret: dazo", "secret: ' '", "the secret of session 'B' is empty"),
        ("n_cmpl: 3", "n_cmpl: many", "'n_cmpl' is a whole number of completions"),
        ("n_cmpl: 3", "n_cmpl: 3, n: 2", "'n' and 'n_cmpl' are two names of one field"),
        ("secret: bebo", "request: {n: 2}", "'n' asks for several replies, and a conversation"),
    ],
)
def test_what_a_load_or_copy_cannot_mean_is_refused(old: str, new: str, expected: str) -> None:
    """Before anything starts, at its line."""
    assert loaded(LOADED.replace(old, new)).startswith(expected)


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        (
            "{metric: 'requests_failed{step=\"lots\"}', equals: 0}",
            "no step is called 'lots'",
        ),
        (
            '{metric: \'text{copy="4",request="c"}\', equals: x}',
            "no 'complete' step asks for copy '4'",
        ),
        (
            "{metric: 'text{request=\"c\"}', same_as: {request: d}}",
            "no 'complete' step has the id 'd'",
        ),
        (
            "{metric: 'anon_mib{at=\"used\"}', growth: {since: uesd, max: 1}}",
            "no 'snapshot' step makes 'uesd'; did you mean 'used'?",
        ),
        (
            "{metric: 'anon_mib{at=\"used\"}', growth: {since: used, max: 1}}",
            "snapshot 'used' would be compared with itself only",
        ),
        ("{metric: 'anon_mib{at=\"used\"}', growth: {since: ready}}", "'growth' has no limit"),
        (
            "{metric: 'anon_mib{at=\"used\"}', growth: {since: ready, min: 2, max: 1}}",
            "min 2 is above max 1; nothing can meet both",
        ),
        ("{metric: kv_mib, growth: {since: ready, max: 1}}", "'growth' is from one snapshot to"),
    ],
)
def test_gates_on_loads_copies_and_growth_are_checked(gate: str, expected: str) -> None:
    """A gate that could never hold, or never fail, is one problem."""
    assert loaded(f"{LOADED}gates:\n  - {gate}\n").startswith(expected)
