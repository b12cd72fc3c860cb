"""Models in several files: all parts are the model, and a real server serves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.desk import Desk, real_servers
from tests.split_models import split_model

pytestmark = pytest.mark.server

SCENARIO = """title: reuse
server: {parallel: {default: 1}, ctx-size: {default: 1024}}
sessions: {A: {system: {tokens: 50, seed: 1}}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - turn: {session: A, user: {tokens: 8, seed: 1}, max_tokens: 2}
gates:
  - {metric: 'cached_tokens{session="A",turn="2"}', min: 50, when: {attention: full}}
  - {metric: kv_mib, equals: analytic, when: {analytic: true}}
"""


@pytest.mark.parametrize("small_first", [False, True])
def test_a_split_model_is_run_and_known_by_all_its_parts(desk: Desk, *, small_first: bool) -> None:
    """KV is as the first part's metadata make it; another last part is another model."""
    (desk.folder / "scenarios").mkdir()
    (desk.folder / "scenarios" / "reuse.yaml").write_text(SCENARIO)
    whole = desk.tiny_model()
    first = split_model(whole, desk.folder, "big", parts=3, small_first=small_first)
    words = ("run", "reuse", "--server", real_servers()[0], "--model", first.name)
    done = desk.run(*words)
    assert done.code == 0, done.text
    assert [gate["outcome"] for gate in desk.last_record()["gates"]] == ["pass", "pass"]
    model = desk.last_record()["launches"][0]["server"]["model"]
    sizes = [path.stat().st_size for path in desk.folder.glob("big-*.gguf")]
    assert model["size_bytes"] == sum(sizes) > whole.stat().st_size
    assert model["attention"] == "full"
    last = desk.folder / "big-00003-of-00003.gguf"
    content = bytearray(last.read_bytes())
    content[-1] ^= 0xFF
    last.write_bytes(content)
    desk.run(*words)
    changed = desk.last_record()["launches"][0]["server"]["model"]
    assert changed["sampled_sha256"] != model["sampled_sha256"]


def test_a_missing_part_is_named_before_anything_is_started(desk: Desk) -> None:
    """So is a part that is not the first."""
    first = split_model(desk.tiny_model(), desk.folder, "big", parts=3, small_first=False)
    Path(desk.folder / "big-00002-of-00003.gguf").rename(desk.folder / "elsewhere.gguf")
    for command in (("run", "scenarioB", "--model"), ("inspect", "model")):
        done = desk.run(*command, first.name)
        assert done.code == 2, done.text
        assert "part 2, big-00002-of-00003.gguf, is not beside it" in done.text
        done = desk.run(*command, "big-00003-of-00003.gguf")
        assert done.code == 2, done.text
        assert "give its first part, big-00001-of-00003.gguf" in done.text
    assert not (desk.folder / ".benchsuite").exists()
