"""Known issues from what was read; entries that could never be considered are problems."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

from benchsuite.model.scenario import BuildRange, KnownIssue, VariantSpec
from benchsuite.patterns import SlowExpressionError, found, problem_of
from benchsuite.scenario.build import items
from benchsuite.scenario.kinds import Found, Problems
from benchsuite.scenario.words import remedy

_HEALTHY = (
    "",
    "~",
    "load_tensors: loading model tensors, this can take a while... (mmap = true)",
    "llama_context: constructing llama_context",
    "0.01.002.003 I srv  update_slots: all slots are idle",
)
"""Lines of healthy servers: what matches one is no signature of a failure."""
_BUILDS = re.compile(r"(?:b?(?P<first>\d{1,9}))?(?P<range>\.\.)?(?:b?(?P<last>\d{1,9}))?")


def build_known_issues(
    found: Found | None,
    variants: Mapping[str, VariantSpec],
    gates: Found | None,
    problems: Problems,
) -> tuple[KnownIssue, ...]:
    """The known issues in order.

    Args:
        found: What was read of them; None where there are none.
        variants: Those declared.
        gates: What was read of the gates, whose selectors an entry may name.
        problems: Takes what is wrong.
    """
    selectors = [item.plain("metric", "") for item in items(gates) if isinstance(item.value, dict)]
    return tuple(
        _known_issue(item, variants, selectors, problems)
        for item in items(found)
        if isinstance(item.value, dict)
    )


def _known_issue(
    item: Found, variants: Mapping[str, VariantSpec], selectors: list[str], problems: Problems
) -> KnownIssue:
    def line_of(key: str) -> int:
        part = item.get(key)
        return item.line if part is None else part.line

    variant, gate, expect = item.plain("variant", ""), item.plain("gate"), item.plain("expect")
    if variant and variant not in variants:
        hint = remedy(variant, variants, "variants")
        problems.say(line_of("variant"), f"unknown variant '{variant}'{hint}")
    if gate is not None and expect == "crash":
        words = "'expect: crash' is about the whole launch; leave 'gate' out, or expect: fail"
        problems.say(line_of("gate"), words)
    elif gate is not None and gate not in selectors:
        hint = remedy(gate, dict.fromkeys(selectors), "gates")
        problems.say(line_of("gate"), f"no gate has the selector '{gate}'{hint}")
    if expect == "crash" and not item.plain("signature", "").strip():
        words = "a crash that is expected needs a 'signature', such as "
        problems.say(item.line, rf"{words}'concat\.cu:\d+: GGML_ASSERT'")
    return KnownIssue(
        variant=variant,
        issue=item.plain("issue", ""),
        expect=expect or "crash",
        signature=_signature(item.plain("signature", ""), line_of("signature"), problems),
        gate=gate,
        builds=_builds(item.plain("builds", ".."), line_of("builds"), problems),
        commit=item.plain("commit"),
        backend=item.plain("backend"),
        deployment=item.plain("deployment"),
        expires=read_date(item.plain("expires"), line_of("expires"), problems),
        reason=item.plain("reason", ""),
        line=item.line,
    )


def _signature(text: str, line: int, problems: Problems) -> str:
    problem = problem_of(text)
    if problem is not None:
        words = f"'signature': '{text}' is not a regular expression: {problem}"
        problems.say(line, words)
        return ""
    try:
        healthy = [line for line in _HEALTHY if text and found(text, line)]
    except SlowExpressionError as error:
        problems.say(line, f"'signature': {error}; {error.hint}")
        return ""
    if healthy:
        sentence = f"'signature': '{text}' matches what healthy servers print too"
        shown = f" ({healthy[0]!r})" if healthy[0] else ""
        problems.say(line, f"{sentence}{shown}; name the assertion or error that was printed")
    return text


def _builds(text: str, line: int, problems: Problems) -> BuildRange:
    match = _BUILDS.fullmatch(text.replace(" ", ""))
    known = match is not None and (match["first"] or match["last"] or match["range"])
    if match is None or not known or (match["last"] and not match["range"]):
        words = f"'builds': '{text}' is no range of builds; expected b10092..b10434, b10092.., "
        problems.say(line, f"{words}..b10434 or b10434")
        return BuildRange()
    first = int(match["first"]) if match["first"] else None
    last = int(match["last"]) if match["last"] else None
    if not match["range"]:
        last = first
    if first is not None and last is not None and first > last:
        problems.say(line, f"'builds': b{first} comes after b{last}; no build is in this range")
    return BuildRange(first, last)


def read_date(text: str | None, line: int, problems: Problems) -> str | None:
    """The value of an entry's `expires`; None where it is absent or wrong."""
    if text is None:
        return None
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is None:
            raise ValueError("it has another form")
        return dt.date.fromisoformat(text).isoformat()
    except ValueError as error:
        problems.say(line, f"'expires': '{text}' is no date ({error}); expected such as 2027-03-01")
        return None
