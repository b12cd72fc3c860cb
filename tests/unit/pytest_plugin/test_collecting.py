"""Which files are scenarios, which items they have, and what is handed to pytest-benchmark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchsuite.gate.judge import judge
from benchsuite.model.limits import Limits
from benchsuite.model.record import Measurement, NotApplicable
from benchsuite.pytest_plugin import _LIMITS
from benchsuite.pytest_plugin.benchmark import latencies
from benchsuite.pytest_plugin.collect import _key_of, _keys
from benchsuite.pytest_plugin.distributed import scope_of
from benchsuite.pytest_plugin.recognise import is_scenario, looks_like_scenario
from benchsuite.scenario.load import load_scenario
from benchsuite.store.baselines import Baselines
from tests.unit.store.run_example import record

SHIPPED = sorted((Path(__file__).parents[3] / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_result_has_an_item_and_every_item_a_result(path: Path) -> None:
    """What is collected from a file is what a run of it judges."""
    scenario = load_scenario(path)
    variants = tuple(NotApplicable(name, "not here") for name in scenario.variants)
    seen = msgspec.structs.replace(record({}), launches=(), digests={}, not_applicable=variants)
    judged = [_key_of(gate) for gate in judge(scenario, seen, Baselines("tiny", scenario.name, {}))]
    assert list(_keys(scenario)) == judged


def test_every_limit_is_an_option() -> None:
    """Named there by themselves: the plugin loads nothing of ours until it is asked."""
    assert sorted(_LIMITS) == sorted(Limits.__struct_fields__)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_look_like_scenarios(path: Path) -> None:
    """Each file that we ship is recognised by its content, also with one key misspelt."""
    text = path.read_text()
    assert looks_like_scenario(text)
    for key in ("steps", "sessions", "gates"):
        assert looks_like_scenario(text.replace(f"\n{key}:", f"\n{key}x:"))


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  web: {image: x}\n",
        "trigger: [main]\npool: {vmImage: x}\nsteps:\n- script: make\n",
        "steps:\n- name: x\nvariants: {a: 1}\n",
        "on: push\njobs:\n  a:\n    steps: []\n    server: x\n    sessions: y\n",
        "- a\n- b\n",
        "",
    ],
)
def test_files_of_others_do_not(text: str) -> None:
    """Compose files, pipelines and workflows are no scenarios."""
    assert not looks_like_scenario(text)


def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    """A file in another encoding, or far too large, is somebody else's."""
    (tmp_path / "latin.yaml").write_bytes(b"steps: \xff\nsessions:\ngates:\n")
    (tmp_path / "large.yaml").write_text("steps:\nsessions:\ngates:\n" + "#" * (2 << 20))
    assert not is_scenario(tmp_path / "latin.yaml", tmp_path, [])
    assert not is_scenario(tmp_path / "large.yaml", tmp_path, [])
    assert not is_scenario(tmp_path / "none.yaml", tmp_path, [])


def test_items_of_a_scenario_stay_together() -> None:
    """A scenario's items are one piece of work; tests of others are each their own."""
    one = 'scenarios/a.yaml::B::kv_mib{device="CPU"}[equals 1 MiB]'
    assert scope_of(one) == scope_of("scenarios/a.yaml::run") == "scenarios/a.yaml"
    assert scope_of("tests/test_x.py::test_a[b.yaml]") == "tests/test_x.py::test_a[b.yaml]"


def test_times_of_launches_are_told_in_seconds() -> None:
    """Every launch is a round; requests, counts and rates are none of it."""
    seen = msgspec.structs.replace(
        record({}),
        measurements=(
            Measurement("ttft_ms", 20.0, "ms", "B", 1),
            Measurement("ttft_ms", 30.0, "ms", "B", 2),
            Measurement("ttft_ms", 5.0, "ms", "B", 1, {"session": "A", "turn": "1"}),
            Measurement("ttft_ms", 8.0, "ms", "B", 1, {"step": "storm"}),
            Measurement("decode_tokens_per_second", 99.0, "tokens/s", "B", 1),
            Measurement("cached_tokens", 7, "tokens", "B", 1),
        ),
    )
    found = {(one.name, *one.labels.values()): one.seconds for one in latencies(seen)}
    assert found == {
        ("ttft_ms",): [pytest.approx(0.02), pytest.approx(0.03)],
        ("ttft_ms", "storm"): [pytest.approx(0.008)],
    }
