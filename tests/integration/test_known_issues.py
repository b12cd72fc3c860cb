"""Known issues on crashes that upstream's server has on a CPU: expected, passed, otherwise."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk, real_servers

pytestmark = pytest.mark.server

SCENARIO = """title: crashes that every build has
server: {{parallel: 1, ctx-size: 1024, threads: 1}}
steps:
  - complete: {{id: one, prompt: {{tokens: 20}}, max_tokens: 4}}
variants:
  B: {{}}
  K:
    flags: {flags}
gates:
  - {{metric: 'output_tokens{{request="one"}}', equals: 4}}
known_issues:
  - variant: K
    issue: bug-1
    expect: crash
    signature: '{signature}'
    reason: this build cannot do it
    expires: {expires}
"""
QUANTISED_V = "{cache-type-v: q8_0, flash-attn: off}"
NEEDS_FLASH = "[Vv] cache (quantization )?requires flash_attn"
NO_BATCH = "{batch-size: 0}"
LINE = SCENARIO[: SCENARIO.index("- variant")].count("\n") + 1


def run(
    desk: Desk,
    flags: str,
    signature: str,
    server: str = "embedded",
    expires: str = "2099-01-01",
    options: tuple[str, ...] = (),
) -> tuple[int, str]:
    """Exit code and output."""
    text = SCENARIO.format(flags=flags, signature=signature, expires=expires)
    (desk.folder / "crashes.yaml").write_text(text)
    done = desk.run("run", "crashes.yaml", "--server", server, *options)
    return done.code, done.text


@pytest.mark.parametrize("server", real_servers())
@pytest.mark.parametrize(
    ("flags", "signature"),
    [(QUANTISED_V, NEEDS_FLASH), (NO_BATCH, r"llama-context\.cpp:\d+: GGML_ASSERT\(")],
)
def test_an_expected_end_while_loading_passes(
    desk: Desk, server: str, flags: str, signature: str
) -> None:
    """A quantised V cache without flash attention ends the server; no batch at all asserts."""
    code, said = run(desk, flags, signature, server)
    assert code == 0, said
    assert "1 known issue" in said
    record = desk.last_record()
    assert [i["outcome"] for i in record["known_issues"]] == ["xfail"]
    failure = next(x["failure"] for x in record["launches"] if x["failure"])
    assert failure["kind"] == "start"
    assert not failure["healthy_before"]


def test_another_signature_is_exit_4(desk: Desk) -> None:
    """The server ends while loading, but not for the reason that is known."""
    code, said = run(desk, QUANTISED_V, "concat.cu:165")
    assert code == 4, said
    assert "failed otherwise: the server did not start" in said


def test_an_unexpected_pass_names_the_line_to_delete(desk: Desk) -> None:
    """K is healthy: exit 1."""
    code, said = run(desk, "{flash-attn: off}", NEEDS_FLASH)
    assert code == 1, said
    assert f"delete the entry at crashes.yaml:{LINE}" in said


def test_an_expired_entry_warns(desk: Desk) -> None:
    """`run` passes all the same, and says that `ci` would not."""
    code, said = run(desk, NO_BATCH, "GGML_ASSERT", expires="2026-01-31")
    assert code == 0, said
    assert f"warning: crashes.yaml:{LINE}: the known issue bug-1 of variant K expired on" in said
