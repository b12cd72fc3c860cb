"""Reports to render: the healthy run, one that fails, and one full of hostile text."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchsuite.model.record import Failure, Launch, Measurement, RunRecord, Unmeasured
from benchsuite.model.verdict import GateResult, Verdict
from benchsuite.report.formats import Entry, ReportInput
from benchsuite.store.records import read_record

GOLDEN = Path(__file__).parents[2] / "golden"
replace = msgspec.structs.replace

HOSTILE = (
    "<script>alert(1)</script>",
    "]]>",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "</textarea></title></style><svg onload=alert(1)>",
    "=cmd|' /C calc'!A0",
    "\t+1-1@SUM(1)",
    "\n   ::set-output name=a::b\n\t##[error]owned",
    "x ##[add-mask]y",
    "\u2028::error::owned",
    "\u2067bidi\u2069 \u200f",
    "a\x00b",
    "::error::owned",
    "\n::error file=a::owned",
    "\u202eevil\u2066",
    "| a | `b` ``` c",
    "@someone #12 https://example.com ![x](https://example.com/x.png)",
    "=HYPERLINK(1)",
    "x" * 2**20,
    "-->",
    "</details></td>",
    '"quoted" \\ \r\n # EOF\n',
    "</code>",
    "\n\n# heading\n- item",
)


def given(*records: RunRecord) -> ReportInput:
    """A report of these runs."""
    return ReportInput(tuple(Entry(one) for one in records), Path("/repo"))


def healthy() -> RunRecord:
    """A run that passed, with numbers, times and texts."""
    verdict = Verdict("pass", 0, (), {"pass": 3})
    return replace(read_record(GOLDEN / "pass" / "record.json"), verdict=verdict)


def gate(**fields: object) -> GateResult:
    """A blocking gate on KV memory that failed in variant B."""
    plain = GateResult(
        "kv_mib", "B", "equals baseline", "fail", "block", "16 MiB", "12.25 MiB", "why", "changed"
    )
    return replace(plain, against="baseline", **fields)


def failing(*gates: GateResult, run_id: str = "5eed0002") -> RunRecord:
    """The run with these gates, the verdict `fail`."""
    found = gates or (gate(),)
    verdict = Verdict("fail", 1, ("why",), {"fail": len(found)})
    return replace(healthy(), id=run_id, gates=found, verdict=verdict)


def hostile(text: str) -> RunRecord:
    """A failed run with this text everywhere that a server, a model or a file can put it."""
    record = healthy()
    launch = record.launches[0]
    broken = Launch(
        launch.variant, 2, launch.started_at, launch.server,
        failure=Failure("crash", text, hint=text, step=text, last_lines=(text,)),
    )  # fmt: skip
    return replace(
        record,
        title=text,
        scenario=text,
        fingerprint=replace(record.fingerprint, deployment=text, machine=text),
        info=replace(record.info, build=text, commit=text, model=text),
        launches=(*record.launches, broken),
        measurements=(
            *record.measurements,
            Measurement("text", text, "", text, labels={"request": text}),
            Measurement("ttft_ms", 12.5, "ms", text, labels={"request": text}, source=text),
        ),
        unmeasured=(Unmeasured("kv_mib", text, text, labels={"device": text}),),
        gates=(
            gate(
                expected=text, observed=text, reason=text, metric=text, variant=text,
                rule=text, differs=(text,),
            ),
            gate(expected=text, observed=text, reason=text, level="advise"),
        ),
        verdict=Verdict("fail", 1, (text,), {"fail": 1}),
        warnings=(text,),
    )  # fmt: skip
