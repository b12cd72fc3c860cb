"""Run records for tests of what is made of them."""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.gate.verdict import verdict
from benchsuite.model.record import (
    RECORD_SCHEMA,
    Failure,
    Fingerprint,
    Info,
    Launch,
    Measurement,
    NotApplicable,
    RunRecord,
    ServerFacts,
)
from benchsuite.model.verdict import GateResult

HOSTILE = (
    "<script>alert(1)</script>",
    "]]>",
    "\x1b[31mred\x1b[0m",
    "</textarea></title></style><svg onload=alert(1)>",
    "=cmd|' /C calc'!A0",
    "\t+1-1@SUM(1)",
    "\n   ::set-output name=a::b\n\t##[error]owned",
    "x ##[add-mask]y",
    "\u2028::error::owned",
    "\u2067bidi\u2069 \u200f",
    "\x00",
    "::error::it is mine",
    "\n::error file=x::it is mine\n",
    "%0A::error::it is mine",
    "\u202eevil\u202c",
    "x" * (1024 * 1024),
    "<![CDATA[ &amp; &lt; \ufffe \uffff \ud800",
    "|`*_[link](http://example.org) @someone <!-- --> </details>",
    "quo\"te' # and \\ $HOME `id`",
)
"""Texts that a model or a server may print."""


def gate(**changes: Any) -> GateResult:
    """A gate that passed, with changes."""
    plain = GateResult(
        metric='cached_tokens{turn="2"}',
        variant="B",
        rule="equals baseline",
        outcome="pass",
        level="block",
        expected="1217 tokens",
        observed="1217 tokens",
        reason="as the baseline",
        state="same",
        line=12,
        against="baseline",
    )
    return msgspec.structs.replace(plain, **changes)


def failed(**changes: Any) -> GateResult:
    """A gate that failed, with changes."""
    words = {"observed": "0 tokens", "reason": "0 is not 1217; nothing was reused"}
    return gate(**{"outcome": "fail", "state": "changed", **words, **changes})


def record(*gates: GateResult, require_all: bool = False, **changes: Any) -> RunRecord:
    """A judged run of variant B with these gates."""
    plain = RunRecord(
        schema_version=RECORD_SCHEMA,
        id="0a1b2c3d",
        started_at="2026-12-01T10:00:00+00:00",
        wall_seconds=12.5,
        scenario="scenarioB",
        scenario_path="scenarios/scenarioB.yaml",
        title="two sessions",
        digests={"B": "sha256:0"},
        fingerprint=Fingerprint(deployment="tiny", scenario="scenarioB", seed=0),
        info=Info(build="b10434", server="embedded"),
        trials=1,
        launches=(Launch("B", 1, "2026-12-01T10:00:00+00:00", ServerFacts(kind="embedded")),),
        measurements=(
            Measurement("cached_tokens", 1217, "tokens", "B", labels={"session": "A", "turn": "2"}),
            Measurement("kv_mib", 16.0, "MiB", "B"),
            Measurement("ttft_ms", 12.34, "ms", "B", labels={"session": "A", "turn": "2"}),
        ),
        gates=gates,
    )
    made = msgspec.structs.replace(plain, **changes)
    found = verdict(made, made.gates, require_all=require_all)
    return msgspec.structs.replace(made, verdict=found)


def crashed(message: str = "the server died") -> RunRecord:
    """A run whose only server crashed."""
    failure = Failure("crash", message, last_lines=(message,), healthy_before=True)
    launch = Launch(
        "B", 1, "2026-12-01T10:00:00+00:00", ServerFacts(kind="embedded"), failure=failure
    )
    unknown = gate(outcome="error", state=None, observed="", reason="unknown: the server crashed")
    return record(unknown, launches=(launch,))


def hostile(text: str) -> RunRecord:
    """A run that has a text wherever a server, a model or a file may have put one."""
    bad = failed(observed=text, expected=text, reason=text, why=text, differs=(text,))
    quiet = failed(
        metric="text", level="advise", observed=text, reason=text, quarantine=text, rule=text
    )
    failure = Failure("crash", text, hint=text, last_lines=(text,))
    launches = (
        Launch("B", 1, "2026-12-01T10:00:00+00:00", ServerFacts(kind="embedded"), failure=failure),
    )
    return record(
        bad,
        quiet,
        launches=launches,
        scenario_path=f"scenarios/{text[:50]}.yaml",
        info=Info(build=text, server=text, model=text),
        not_applicable=(NotApplicable("U", text),),
        measurements=(
            Measurement("cached_tokens", 1, "tokens", "B", labels={"session": text[:200]}),
            Measurement("text", text, "", "B", labels={"session": "A"}),
        ),
    )
