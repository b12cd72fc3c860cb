"""One peer, aiperf, under the same load: what it costs, and how late its arrival stamps are.

It runs from an environment of its own (`pip install aiperf`), with a tokenizer of three words that
is written here, so that nothing is fetched. Its raw export holds the arrival of each piece of a
stream in nanoseconds of `time.perf_counter_ns`, which is CLOCK_MONOTONIC on Linux, and the id that
it sent as `X-Request-ID`; so its records pair with the paced server's log. All its streams are in
phase, since every request has the same body.
"""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from streams import Load


class PeerSeen(NamedTuple):
    """What aiperf cost and saw."""

    late_ns: list[int]  # of each token but a stream's first four
    cpu_seconds: float  # of all its processes, its start with them
    tokens: int


def aiperf(url: str, program: str, load: Load) -> PeerSeen:
    """Drive one load of `load.streams` requests with aiperf.

    Args:
        url: Of the paced server.
        program: Path of the command.
        load: Not staggered.
    """
    httpx.get(f"{url}/log", trust_env=False)  # forgets what was there
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_tokenizer(folder)
        before = _cpu_seconds()
        subprocess.run(
            [
                program, "profile", "-m", "paced", "--url", url, "--endpoint-type", "chat",
                "--streaming", "--tokenizer", name, "--concurrency", str(load.streams),
                "--request-count", str(load.streams), "--synthetic-input-tokens-mean", "8",
                "--output-tokens-mean", str(load.tokens),
                "--extra-inputs", json.dumps({"paced": {"rate": load.rate}}),
                "--export-level", "raw", "--ui", "none", "--artifact-dir", str(folder / "out"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        cpu = _cpu_seconds() - before
        records = (folder / "out" / "profile_export_raw.jsonl").read_text().splitlines()
    log = httpx.get(f"{url}/log", trust_env=False, timeout=60).json()
    late: list[int] = []
    for record in map(json.loads, records):
        arrived = [
            piece["perf_ns"]
            for piece in record["responses"]
            if any('"content"' in packet["value"] for packet in piece["packets"])
        ]
        sent = log[record["metadata"]["x_request_id"]]["sent_ns"]
        if len(arrived) != len(sent):
            raise SystemExit(f"aiperf: {len(arrived)} tokens of {len(sent)} seen")
        late += [theirs - ours for theirs, ours in zip(arrived, sent, strict=True)][4:]
    return PeerSeen(late, cpu, load.streams * load.tokens)


def _cpu_seconds() -> float:
    """Of every process that we started and that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write_tokenizer(folder: Path) -> None:
    words = ["<unk>", "word", "text"]
    model = {
        "type": "WordLevel",
        "vocab": {word: number for number, word in enumerate(words)},
        "unk_token": "<unk>",
    }
    told: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None,
        "decoder": None, "model": model,
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(told))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>",
            "bos_token": "<unk>", "eos_token": "<unk>"}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(kind))
