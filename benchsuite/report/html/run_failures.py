"""How launches failed, with the log around it, and the commands that do it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from benchsuite.model.ab import SIDES, AbRecord
from benchsuite.model.record import Failure, Launch, RunRecord
from benchsuite.report.failures import forensic_words
from benchsuite.report.html.blocks import Block, Facts, Fold, Lines, Listing, Words
from benchsuite.report.html.limits import Limits

_ERROR_LINE = re.compile(
    r"assert|error|fail|abort|fatal|exception|terminate|signal|out of memory|CUDA", re.IGNORECASE
)


def failure_blocks(record: RunRecord, limits: Limits, of: str = "") -> Iterator[Block]:
    """Each launch that failed, with what is left of it; the first one's open.

    Args:
        record: With its launches.
        limits: How much is shown.
        of: Said before each, where the record is one side of two.
    """
    failed = [(launch, launch.failure) for launch in record.launches if launch.failure is not None]
    for number, (launch, failure) in enumerate(failed):
        expected = launch.variant in record.excused
        head = f"{of}variant {launch.variant}, trial {launch.trial}: {failure.message}"
        head = head[0].upper() + head[1:]
        yield Words(head + (" (expected)" if expected else ""), "dim" if expected else "bad")
        blocks = tuple(_remains(launch, failure, limits))
        yield Fold("What is left of it, and its log", blocks, is_open=number == 0)


def _remains(launch: Launch, failure: Failure, limits: Limits) -> Iterator[Block]:
    """What is left of a server that failed."""
    left = failure.forensics
    how = ""
    if left is not None and left.exit_code is not None:
        how = f"exit code {left.exit_code}"
    elif left is not None and left.signal is not None:
        how = f"signal {left.signal}"
    pairs = (
        ("kind", failure.kind),
        ("step", failure.step),
        ("how it ended", how),
        ("hint", failure.hint or ""),
        ("unknown because of it", ", ".join(failure.unknowable)),
    )
    yield Facts(tuple((name, value) for name, value in pairs if value))
    told = tuple(forensic_words(failure))
    if told:
        yield Listing(told)
    if left is not None and left.backtrace:
        yield Lines("Backtrace, innermost first", left.backtrace[: limits.lines])
    if failure.last_lines:
        last = failure.last_lines[-limits.lines :]
        marked = frozenset(i for i, line in enumerate(last) if _is_error(line))
        place = f", {launch.log}" if launch.log else ""
        yield Lines(f"Last lines of the server's log{place}", last, marked)
    elif left is not None and left.errors:
        yield Lines("Lines of the log that report an error", left.errors)


def _is_error(line: str) -> bool:
    return _ERROR_LINE.search(line[:4000]) is not None


def command_blocks(
    command: str, record: RunRecord, other: RunRecord | None, stored: str
) -> Iterator[Block]:
    """What to type to see it again.

    Args:
        command: Of the whole run.
        record: Whose servers are launched.
        other: The baseline side of a run of two.
        stored: Where the run lies.
    """
    yield Lines("The run; add what else it was given (--variant, --set)", (command,))
    yield from _server_commands(record, "" if other is None else "candidate side, ")
    if other is not None:
        yield from _server_commands(other, "baseline side, ")
    pairs = [("scenario file", record.scenario_path), ("stored in", stored)]
    yield Facts(tuple((name, value) for name, value in pairs if value))


def _server_commands(record: RunRecord, of: str) -> Iterator[Block]:
    """The exact command of each server, variants with the same one together."""
    seen: dict[tuple[str, ...], list[str]] = {}
    for launch in record.launches:
        if launch.server.command:
            words = [f"{k}={v}" for k, v in launch.server.env.items()]
            command = ("env", *words) if words else ()
            names = seen.setdefault(_without_port((*command, *launch.server.command)), [])
            if launch.variant not in names:
                names.append(launch.variant)
    for exact, variants in seen.items():
        word = "variant" if len(variants) == 1 else "variants"
        head = f"The server alone, {of}{word} {', '.join(variants)}; its port changes by launch"
        yield Lines(head, (shlex.join(exact),))


def _without_port(command: Sequence[str]) -> tuple[str, ...]:
    """A command whose port, another one each launch, is llama-server's default."""
    kept = list(command)
    for i, word in enumerate(kept[:-1]):
        if word == "--port":
            kept[i + 1] = "8080"
    return tuple(kept)


def run_command(record: RunRecord) -> str:
    """The command that does the same again."""
    words = ["benchsuite", "run", record.scenario, "-d", record.fingerprint.deployment]
    if record.fingerprint.deployment == "adhoc":
        words = words[:3]
    server = next((one.server for one in record.launches if one.server.path), None)
    if server is not None and server.kind == "binary":
        words += ["--server", server.path]
    elif server is not None and server.kind == "attached":
        words += ["--url", server.path]
    if server is not None and record.fingerprint.deployment == "adhoc" and server.model.path:
        words += ["--model", server.model.path]
    if record.trials != 1:
        words += ["--trials", str(record.trials)]
    if record.fingerprint.seed:
        words += ["--seed", str(record.fingerprint.seed)]
    if record.duration is not None:
        words += ["--duration", record.duration]
    return shlex.join(words)


def ab_command(record: AbRecord) -> str:
    """The command that compares the same two servers again."""
    words = ["benchsuite", "ab", record.scenario]
    deployment = record.candidate.fingerprint.deployment
    if deployment != "adhoc":
        words += ["-d", deployment]
    for side in SIDES:
        own = record.side(side)
        server = next((one.server for one in own.launches if one.server.path), None)
        if server is not None and server.kind == "binary":
            words += [f"--{side}-server", server.path]
    if record.pairs:
        words += ["--pairs", str(record.pairs)]
    return shlex.join(words)
