"""A plan holds fully resolved flags, and digests change only with what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchsuite.errors import ConfigError, FlagError, UsageError
from benchsuite.model.deployment import Deployment
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.scenario import FlagValue, Scenario, TurnStep
from benchsuite.scenario.flags import FlagTable, parse_help
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.plan import make_plan, parse_set
from benchsuite.scenario.workspace import tiny_deployment

HELP = Path(__file__).parents[2] / "fixtures" / "help" / "b10434.txt"

TEXT = """title: t
server:
  parallel: 2
  ctx-size: {min: 4096, per: slot}
  cache-ram: {default: 0}
sessions:
  A: {system: {tokens: 60, seed: 7}}
steps:
  - turn: {session: A, user: {tokens: 4, seed: 1}}
  - turn: {session: A, user: {text: hello}}
variants:
  B: {}
  U: {flags: {kv-unified: true}}
  P: {sessions: {A: {slot: 1}}}
  S: {flags: {swa-full: true}}
gates:
  - {metric: kv_mib, equals: baseline}
  - {metric: kv_mib, same_as: {variant: B}, variants: [U]}
  - {metric: kv_mib, same_as: {variant: U}, variants: [S]}
  - {metric: 'slot{session="A",turn="1"}', equals: 1, variants: [P]}
"""


MORE = """
-hft,  --hf-token TOKEN                 Hugging Face access token
-mu,   --model-url MODEL_URL            model download url
"""
"""Lines of the same help that the fixture leaves out."""


def table() -> FlagTable:
    return parse_help(HELP.read_text() + MORE, "llama-server b10434")


def scenario(text: str = TEXT) -> Scenario:
    return parse_scenario(text, display="s.yaml")


def deployment(**changes: Any) -> Deployment:
    return Deployment(name="mine", **changes)


def plan(text: str = TEXT, where: Deployment | None = None, **options: Any) -> Plan:
    chosen = where or tiny_deployment()
    return make_plan(scenario(text), chosen, None if chosen.attached else table(), **options)


def first(text: str = TEXT, where: Deployment | None = None, **options: Any) -> VariantPlan:
    return plan(text, where, **options).variants[0]


def digests(text: str, **options: Any) -> dict[str, str]:
    return {variant.name: variant.digest for variant in plan(text, **options).variants}


def test_flags_come_from_all_layers() -> None:
    """Needs, deployment and variant are merged; the minimum is multiplied by the slots."""
    found = {variant.name: variant.flags for variant in plan().variants}
    base = {"cache-ram": "0", "n-gpu-layers": "0", "parallel": "2", "ctx-size": "8192"}
    assert found["B"] == base
    assert found["U"] == {**base, "kv-unified": "on"}


def test_each_flag_has_a_note_of_its_origin() -> None:
    """The reader sees why a flag has its value."""
    notes = first(sets=[("ctk", "q8_0")]).notes
    assert "ctx-size 8192: the scenario needs at least 4096 for each of 2 slots" in notes
    assert "n-gpu-layers 0: deployment 'tiny'" in notes
    assert "cache-type-k q8_0: --set" in notes


@pytest.mark.parametrize(
    ("flags", "sets", "name", "value"),
    [
        ({}, [], "cache-ram", "0"),
        ({"cram": "512"}, [], "cache-ram", "512"),  # beats the default, by any of its names
        ({"cram": "512"}, [("cache-ram", "1024")], "cache-ram", "1024"),
        ({}, [("cache-ram", None)], "cache-ram", None),
        ({"ctx-size": "16384"}, [], "ctx-size", "16384"),  # more than the minimum stays
        ({"ctx-size": "512"}, [], "ctx-size", "8192"),  # less is raised
        ({"ctx-size": "0"}, [], "ctx-size", "8192"),  # the model's own is not a promise
        ({"np": "2"}, [], "parallel", "2"),  # agreeing with an exact need is fine
        ({}, [("lora", "a"), ("lora", "b")], "lora", ("a", "b")),
    ],
)
def test_order_of_layers(
    flags: dict[str, FlagValue], sets: list[tuple[str, FlagValue]], name: str, value: FlagValue
) -> None:
    """scenario default < deployment < variant < --set, and `min` is met."""
    assert first(where=deployment(flags=flags), sets=sets).flags.get(name) == value


def test_a_raised_minimum_is_noted() -> None:
    """The deployment's own value is named."""
    notes = first(where=deployment(flags={"ctx-size": "512"})).notes
    assert any(n.startswith("ctx-size 8192: raised from 512 of deployment 'mine'") for n in notes)


def test_a_server_always_gets_a_context() -> None:
    """Without one llama-server may choose it by free memory."""
    text = TEXT.replace("  ctx-size: {min: 4096, per: slot}\n", "")
    assert first(text).flags["ctx-size"] == "8192"
    assert first(text.replace("  parallel: 2\n", "")).flags["ctx-size"] == "16384"


@pytest.mark.parametrize(
    ("where", "sets", "sentence"),
    [
        (
            deployment(flags={"parallel": "4"}, source="b.toml:3"),
            [],
            "deployment 'mine' sets parallel 4, but scenario 'scenario' needs exactly 2 (s.yaml:3)",
        ),
        (deployment(), [("np", "4")], "--set gives parallel 4, but scenario 'scenario' needs"),
        (
            deployment(),
            [("c", "512")],
            "--set gives ctx-size 512, but scenario 'scenario' needs at",
        ),
        (deployment(), [("kvu", "false")], "--set kv-unified: variant 'U' sets this flag itself"),
        (deployment(), [("host", "0.0.0.0")], "flag 'host' is set by benchsuite"),
        (
            deployment(flags={"hf-token": "hf_1"}),
            [],
            "flag 'hf-token' is not taken: it is a secret",
        ),
        (deployment(), [("hft", "hf_1")], "flag 'hf-token' is not taken"),
        (deployment(), [("mu", "https://u:p@h/m")], "flag 'model-url' holds a URL with a secret"),
        (deployment(flags={"model": "x"}), [], "flag 'model' is set by benchsuite: name the model"),
        (
            deployment(flags={"np": "2", "parallel": "2"}),
            [],
            "'parallel' is flag 'parallel', which",
        ),
        (deployment(flags={"ctx-size": "big"}), [], "deployment 'mine' gives ctx-size big, but"),
        (deployment(flags={"kv-offload": "8"}), [], "flag 'kv-offload' is a switch"),
    ],
)
def test_contradictions_are_refused(
    where: Deployment, sets: list[tuple[str, FlagValue]], sentence: str
) -> None:
    """Who wants what, and where it was said."""
    with pytest.raises(FlagError) as caught:
        plan(where=where, sets=sets)
    assert caught.value.message.startswith(sentence)
    assert not caught.value.unknown_to_build


def test_an_exact_conflict_says_how_to_resolve_it() -> None:
    """The hint can be typed."""
    where = deployment(flags={"parallel": "4"}, source="b.toml:3")
    with pytest.raises(FlagError) as caught:
        plan(where=where)
    assert str(caught.value).startswith("b.toml:3: ")
    assert "'parallel: {default: 2}'" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "where", "sets", "place"),
    [
        (TEXT.replace("cache-ram", "cache-rom"), deployment(), [], "s.yaml:5: "),
        (TEXT.replace("kv-unified", "kv-unifeid"), deployment(), [], "s.yaml:13: "),
        (TEXT, deployment(flags={"x-y": "1"}, source="b.toml:3"), [], "b.toml:3: "),
        (TEXT, deployment(), [("x-y", "1")], "--set: "),
    ],
)
def test_a_flag_that_the_build_lacks_is_an_error_where_it_was_written(
    text: str, where: Deployment, sets: list[tuple[str, FlagValue]], place: str
) -> None:
    """It names the build, so that a bisection can skip it."""
    with pytest.raises(FlagError) as caught:
        plan(text, where, sets=sets)
    assert str(caught.value).startswith(f"{place}llama-server b10434 has no flag")
    assert caught.value.unknown_to_build


def test_overlays_come_between_variant_and_set() -> None:
    """A deployment fills in a variant."""
    where = deployment(overlays={"scenario": {"U": {"kvu": "false", "sps": "0.5"}}})
    found = plan(where=where).variants[1].flags
    assert (found["kv-unified"], found["slot-prompt-similarity"]) == ("off", "0.5")
    with pytest.raises(ConfigError, match="unknown variant 'X'"):
        plan(where=deployment(overlays={"scenario": {"X": {}}}))


def test_requirements_make_variants_not_applicable() -> None:
    """A missing overlay, flag or device is a reason, not an error."""
    text = TEXT.replace(
        "  P: {sessions",
        "  O: {require: {overlay: true}}\n  F: {require: {flag: new-thing}}\n"
        "  G: {require: {device: CUDA}}\n  P: {sessions",
    )
    found = {v.name: v.not_applicable for v in plan(text, devices=["CPU"]).variants}
    assert found["O"] == (
        "deployment 'tiny' has no overlay for it ([deployments.tiny.overlays.scenario.O])"
    )
    assert found["F"] == "llama-server b10434 has no flag 'new-thing'"
    assert found["G"] == "no device of kind CUDA; there is CPU"
    assert found["B"] is None
    assert plan(text).variants[4].not_applicable is None  # devices unknown: to be seen
    filled = deployment(overlays={"scenario": {"O": {"swa-full": "true"}}})
    assert plan(text, filled).variants[2].flags["swa-full"] == "on"


@pytest.mark.parametrize(
    ("chosen", "names", "gates"),
    [
        ([], ["B", "U", "P", "S"], 4),
        (["B"], ["B"], 1),
        (["U"], ["B", "U"], 2),
        (["S"], ["B", "U", "S"], 3),  # compared with U, which is compared with B
        (["P", "B"], ["B", "P"], 2),
    ],
)
def test_a_chosen_variant_brings_those_it_is_compared_with(
    chosen: list[str], names: list[str], gates: int
) -> None:
    """In the scenario's order; gates of variants that do not run are left out."""
    found = plan(variants=chosen)
    assert [variant.name for variant in found.variants] == names
    assert len(found.gates) == gates


def test_sessions_are_overlaid() -> None:
    """The pinned variant has its slot, the others do not."""
    found = {v.name: v.sessions["A"].slot for v in plan().variants}
    assert found == {"B": None, "U": None, "P": 1, "S": None}


def test_the_seed_shifts_every_made_prompt_alike() -> None:
    """Seed 0 leaves them; written texts stay; equal prompts stay equal; the digest ignores it."""
    plain, shifted = first(), first(seed=3)
    prompts = []
    for variant in (plain, shifted):
        step = variant.steps[0]
        assert isinstance(step, TurnStep)
        system = variant.sessions["A"].system
        assert system is not None
        prompts.append((system.seed, step.user.seed))
    assert prompts[0] == (7, 1)
    assert prompts[1][0] - prompts[0][0] == prompts[1][1] - prompts[0][1] != 0
    assert plain.steps[1] == shifted.steps[1]
    assert plain.digest == shifted.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("title: t\n", "title: other\ndescription: d\ntags: [x]\n"),
        ("  B: {}\n", "\n\n  B: {title: named}\n"),
        ("equals: baseline", "max: 3"),
        ("parallel: 2", "np: 2"),
    ],
)
def test_digests_ignore_how_it_is_told_and_judged(old: str, new: str) -> None:
    """Titles, tags, gates, lines and spellings of slots do not make a baseline stale."""
    assert digests(TEXT) == digests(TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("parallel: 2", "parallel: 3", "BUPS"),
        ("min: 4096", "min: 8192", "BUPS"),
        ("{default: 0}", "{default: 1}", "BUPS"),
        ("seed: 7", "seed: 8", "BUPS"),
        ("text: hello", "text: hi", "BUPS"),
        ("{text: hello}}", "{text: hello}, max_tokens: 3}", "BUPS"),
        ("{kv-unified: true}", "{kv-unified: false}", "U"),
        ("{A: {slot: 1}}", "{A: {slot: 0}}", "P"),
    ],
)
def test_digests_change_with_what_is_measured(old: str, new: str, changed: str) -> None:
    """And only in the variants that it changes."""
    before, after = digests(TEXT), digests(TEXT.replace(old, new))
    assert {name for name in before if before[name] != after[name]} == set(changed)


def test_digests_ignore_deployment_and_set() -> None:
    """What people change on purpose is what the gate is there to judge."""
    where = deployment(flags={"ctk": "q8_0", "ctx-size": "65536"})
    assert digests(TEXT) == digests(TEXT, where=where)
    assert digests(TEXT) == digests(TEXT, sets=[("cache-type-v", "q8_0")])


def test_digests_are_pinned() -> None:
    """Committed baselines hold digests; a change here makes each of them stale."""
    assert digests(TEXT)["U"][:16] == "9814fc0413636f62"


def test_a_running_server_is_given_nothing() -> None:
    """Needs are kept to be checked; a variant of flags cannot be had from it."""
    found = plan(where=deployment(url="http://h:1"))
    base, unified, pinned, _ = found.variants
    assert base.flags == {"parallel": "2"}
    assert base.notes[-1] == "ctx-size at least 4096 a slot: to be checked"
    assert base.not_applicable is None
    assert pinned.not_applicable is None
    assert unified.not_applicable == "it sets kv-unified, which a running server cannot be given"
    with pytest.raises(UsageError, match="flags of a running server cannot be set"):
        plan(where=deployment(url="http://h:1"), sets=[("np", "2")])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"variants": ["X"]}, "no variant 'X' in scenario 'scenario'; variants are: B, U, P, S"),
        ({"trials": 0}, "--trials 0: expected at least 1"),
        ({"seed": -1}, "--seed -1: expected at least 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], sentence: str) -> None:
    """Each is a usage error."""
    with pytest.raises(UsageError) as caught:
        plan(**options)
    assert caught.value.message == sentence


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("ctk=q8_0", ("ctk", "q8_0")),
        ("--swa-full", ("--swa-full", "true")),
        ("cache-ram=null", ("cache-ram", None)),
        ("override-kv=a=int:3", ("override-kv", "a=int:3")),
    ],
)
def test_set_options_are_parsed(text: str, parsed: tuple[str, FlagValue]) -> None:
    """FLAG=VALUE, FLAG alone, FLAG=null."""
    assert parse_set(text) == parsed


def test_a_set_option_without_a_flag_is_refused() -> None:
    """There must be something before the equals sign."""
    with pytest.raises(UsageError, match="expected FLAG=VALUE"):
        parse_set("=3")


def test_steps_for_servers_of_our_own_do_not_apply_to_others() -> None:
    """Nobody's slots are erased and nobody's server is restarted."""
    text = TEXT.replace(
        "variants:\n",
        "  - slot: {action: erase, id: 0, as: gone}\n  - restart: {}\nvariants:\n",
        1,
    )
    assert first(text).not_applicable is None
    theirs = first(text, deployment(url="http://127.0.0.1:1"))
    assert theirs.not_applicable is not None
    assert "(slot, restart) are only for a server that benchsuite starts" in theirs.not_applicable


def test_counting_markers_needs_no_flags() -> None:
    """Neither a build nor its help is asked for."""
    text = "title: t\nsteps:\n  - source_markers: {as: a, pattern: x, files: '*.c'}\n"
    found = make_plan(scenario(text), deployment(), None)
    assert not found.scenario.needs_server
    assert found.variants[0].flags == {}


def rpc_plan(no_rpc: str | None, **changes: Any) -> dict[str, VariantPlan]:
    text = TEXT.replace("gates:\n", "  R: {require: {device: RPC}}\ngates:\n", 1)
    flags = parse_help(f"{HELP.read_text()}\n--rpc SERVERS    servers (host:port)\n", "b10434")
    found = make_plan(scenario(text), deployment(**changes), flags, no_rpc=no_rpc)
    return {variant.name: variant for variant in found.variants}


def test_an_rpc_server_is_started_only_for_variants_that_need_it() -> None:
    """R gets one where one can be started, and says why where none can; the others never do."""
    found = rpc_plan(None)
    assert [name for name, variant in found.items() if variant.rpc] == ["R"]
    assert found["R"].device == "RPC"
    refused = rpc_plan("no ggml-rpc-server was found")["R"]
    assert refused.not_applicable == "no device of kind RPC: no ggml-rpc-server was found"


def test_an_rpc_server_that_runs_already_is_used_as_it_is() -> None:
    """A deployment that gives its own `rpc` flag needs none started."""
    given = rpc_plan("none can be started", flags={"rpc": "10.0.0.2:50052"})["R"]
    assert given.not_applicable is None
    assert not given.rpc


def test_an_automatic_number_of_slots_meets_a_minimum_that_it_exceeds() -> None:
    """-1 makes four; a scenario that needs two leaves it, one that needs eight does not."""
    text = TEXT.replace("  parallel: 2\n", "  parallel: {min: 2}\n")
    where = deployment(flags={"np": "-1"})
    assert first(text, where).flags["parallel"] == "-1"
    assert first(text.replace("{min: 2}", "{min: 8}"), where).flags["parallel"] == "8"


def test_a_conflict_names_the_line_of_the_flag() -> None:
    """Not that of the deployment: of an overlay, that of its flag."""
    places = {"np": "b.toml:7", "scenario.U.parallel": "b.toml:12"}
    with pytest.raises(FlagError) as caught:
        plan(where=deployment(flags={"np": "4"}, source="b.toml:3", places=places))
    assert str(caught.value).startswith("b.toml:7: deployment 'mine' sets parallel 4")
    overlays: dict[str, dict[str, dict[str, FlagValue]]] = {"scenario": {"U": {"parallel": "4"}}}
    with pytest.raises(FlagError) as caught:
        plan(where=deployment(overlays=overlays, source="b.toml:3", places=places))
    assert str(caught.value).startswith("b.toml:12: the overlay of deployment 'mine' sets parallel")


@pytest.mark.parametrize(
    ("parallel", "context"),
    [("np", "c"), ("LLAMA_ARG_N_PARALLEL", "LLAMA_ARG_CTX_SIZE"), ("--parallel", "--ctx-size")],
)
def test_needs_of_running_servers_are_known_by_any_spelling(parallel: str, context: str) -> None:
    """They are checked by their canonical names, so an alias must not escape the check."""
    text = TEXT.replace("  parallel: 2\n", f"  {parallel}: 2\n")
    text = text.replace("  ctx-size: ", f"  {context}: ")
    found = plan(text, where=deployment(url="http://h:1"), names=table())
    assert found.variants[0].flags == {"parallel": "2"}
    assert found.variants[0].notes[-1] == "ctx-size at least 4096 a slot: to be checked"
    assert {"parallel", "ctx-size"} <= set(found.needs)
    assert {"parallel", "ctx-size"} <= set(plan(text).needs)


def test_a_variable_that_the_build_does_not_read_is_refused() -> None:
    """It would be passed over without a word, as a mistyped one is."""
    with pytest.raises(FlagError, match="reads no variable 'LLAMA_ARG_N_PARALEL'; did you mean 'L"):
        plan(where=deployment(env={"LLAMA_ARG_N_PARALEL": "4"}))


def test_flags_in_a_deployments_environment_count_as_its_flags() -> None:
    """The server reads them, so they beat a scenario's default, and may contradict its needs."""
    env = {"LLAMA_ARG_CACHE_RAM": "512", "LLAMA_ARG_NO_KV_OFFLOAD": "1", "OMP_NUM_THREADS": "2"}
    assert first(where=deployment(env=env)).flags["cache-ram"] == "512"
    both = deployment(env=env, flags={"cram": "64"})
    assert first(where=both).flags["cache-ram"] == "64"
    with pytest.raises(FlagError, match="'mine' sets parallel 4, but scenario 'scenario' needs"):
        plan(where=deployment(env={"LLAMA_ARG_N_PARALLEL": "4"}))
    with pytest.raises(FlagError, match="flag 'host' is set by benchsuite"):
        plan(where=deployment(env={"LLAMA_ARG_HOST": "0.0.0.0"}))
