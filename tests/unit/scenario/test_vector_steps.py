"""Steps that take vectors: what a file may say of them, and what a plan makes of it."""

from __future__ import annotations

import pytest

from benchsuite.errors import ScenarioError
from benchsuite.model.deployment import Deployment
from benchsuite.model.scenario import EmbeddingStep, LogprobsStep
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.plan import make_plan

TEXT = """title: t
steps:
  - logprobs: {id: one, prompt: {tokens: 9}}
  - embedding: {id: two, prompt: {tokens: 9, seed: 1}}
variants: {A: {}, B: {}, C: {}}
reference: B
gates:
  - {metric: 'logprob_cosine{against="B",request="one"}', min: 0.999}
  - {metric: 'embedding_cosine{against="stored",request="two"}', min: 0.999}
"""


def problems(text: str) -> list[str]:
    """Every problem of a file."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, display="s.yaml")
    return list(caught.value.problems)


def test_defaults_are_filled_in() -> None:
    """16 positions, the likeliest 1024 tokens, one request at a time."""
    scenario = parse_scenario(TEXT)
    one, two = scenario.steps
    assert isinstance(one, LogprobsStep)
    assert (one.tokens, one.top, one.at_once) == (16, 1024, 1)
    assert isinstance(two, EmbeddingStep)
    assert scenario.reference == "B"
    assert parse_scenario(TEXT.replace("reference: B\n", "").replace('"B"', '"A"')).reference == "A"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("reference: B", "reference: D", "s.yaml:6: unknown variant 'D'"),
        ("id: two", "id: one", "s.yaml:4: id 'one' was used on line 3 already"),
        ('against="B"', 'against="A"', "s.yaml:8: vectors are not compared with 'A'"),
        ('"stored",request="two"', '"stored",request="one"', "s.yaml:9: no 'embedding' step has"),
        ('request="two"', 'request="tow"', "s.yaml:9: no 'embedding' step has the id"),
        ("C: {}", "stored: {}", "s.yaml:5: a variant named 'stored'"),
        ("min: 0.999}", "regression: {worse_than: 1%}}", "has no tolerance"),
        ("{id: one, ", "{id: one, tokens: 0, ", "s.yaml:3"),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, words: str) -> None:
    """At its line, before anything starts."""
    found = problems(TEXT.replace(old, new, 1))
    assert words in found[0], found


def test_a_reference_without_vectors_is_refused() -> None:
    """It would promise an order of launches that nothing needs."""
    text = "title: t\nsteps: [{snapshot: x}]\nvariants: {A: {}}\nreference: A\n"
    assert "there is none" in problems(text)[0]


def test_the_reference_runs_first_and_always() -> None:
    """The others go along its tokens; `--variant C` runs it too."""
    where = Deployment(name="mine", url="http://127.0.0.1:1")
    scenario = parse_scenario(TEXT)
    order = [v.name for v in make_plan(scenario, where, None).variants]
    assert order == ["B", "A", "C"]
    order = [v.name for v in make_plan(scenario, where, None, variants=["C"]).variants]
    assert order == ["B", "C"]


def test_another_reference_is_another_measurement() -> None:
    """It changes every digest; a seed of the run shifts prompts."""
    where = Deployment(name="mine", url="http://127.0.0.1:1")
    plain = make_plan(parse_scenario(TEXT), where, None)
    other = TEXT.replace("reference: B", "reference: C").replace('"B"', '"C"')
    digests = {v.name: v.digest for v in plain.variants}
    for variant in make_plan(parse_scenario(other), where, None).variants:
        assert variant.digest != digests[variant.name]
    shifted = make_plan(parse_scenario(TEXT), where, None, seed=2).variants[0].steps[0]
    assert isinstance(shifted, LogprobsStep)
    assert shifted.prompt.seed != 0
