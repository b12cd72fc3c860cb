"""Journals written before replies of a load were shortened read as those written since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from benchsuite.collect.load_seen import kept_of_load
from benchsuite.report.html.evidence import read_evidence
from tests.unit.collect.test_load_seen import one


def test_whole_and_shortened_replies_tell_the_same(tmp_path: Path) -> None:
    """Spans of requests, and what the chart of requests and server shows."""
    reply = one(token_ns=(5, 6), event_tokens=(1, 1)).reply
    stamps = msgspec.structs.replace(reply.stamps, sent_ns=1, first_token_ns=5_000_001, end_ns=9**9)
    reply = msgspec.structs.replace(reply, stamps=stamps)
    seen = []
    for name, kept in (("old", reply), ("new", kept_of_load(reply))):
        run = tmp_path / name
        run.mkdir()
        event: dict[str, Any] = {"kind": "reply", "variant": "v", "trial": 1, "reply": kept}
        event["labels"] = {"step": "s", "request": "1"}
        (run / "samples.jsonl").write_bytes(msgspec.json.encode(event) + b"\n")
        found = read_evidence(run)
        (spans,) = found.spans.values()
        (in_step,) = found.in_step.values()
        bins = [(p.at_s, p.bin.replies, p.bin.tokens, p.bin.high_ttft_ms) for p in in_step.placed()]
        seen.append((spans, bins, found.notes))
    assert seen[0] == seen[1]
    assert seen[0][1][0][1:] == (1, reply.output_tokens, 5.0)
