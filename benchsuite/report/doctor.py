"""A machine's diagnosis, as text for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.model.machine import Diagnosis, Grade, MachineFinding, Noise
from benchsuite.report.json import REPORT_SCHEMA, document
from benchsuite.report.layout import Style, cells, columns, cut, pad, safe, wrap
from benchsuite.units import format_number

_COLOURS: dict[Grade, str] = {"ok": "green", "warn": "yellow", "unknown": "dim"}
_GRADE = 9  # columns
_INDENT = "    "


def render_diagnosis_json(found: Diagnosis, code: int) -> bytes:
    """The diagnosis with its exit code and a newline at its end."""
    body: dict[str, Any] = msgspec.to_builtins(found, str_keys=True)
    fit = None if found.failed else not found.unfit
    head = {"schema_version": REPORT_SCHEMA, "fit": fit, "exit_code": code}
    return document({**head, **body})


def render_diagnosis(found: Diagnosis, style: Style | None = None) -> str:
    """The same for people: facts, noise, and one line that says it.

    Args:
        found: What was found.
        style: None is plain text of 80 columns.
    """
    look = style or Style()
    lines = [look.paint("is this machine fit to measure?", "bold")]
    lines += [*wrap(safe(f"{found.machine}, {found.kernel}"), look.width), ""]
    width = max((cells(one.fact) for one in found.findings), default=0)
    for one in found.findings:
        lines += _finding_lines(one, width, look)
    lines += ["", *_noise_lines(found, look), "", *_verdict_lines(found, look)]
    return "\n".join(lines) + "\n"


def _finding_lines(one: MachineFinding, width: int, look: Style) -> list[str]:
    told = f"{one.value}: {one.sentence}" if one.value else one.sentence
    head = f"{pad(one.fact, width)}  "
    indent = " " * (_GRADE + cells(head))
    text = wrap(safe(told), look.width, indent)
    first = pad(one.grade, _GRADE) + head + text[0].strip()
    lines = [look.paint(first[:_GRADE], _COLOURS[one.grade]) + first[_GRADE:], *text[1:]]
    if one.remedy and one.grade != "unknown":
        word = "better: " if one.grade == "warn" else "best: "
        lines += wrap(safe(f"{word}{one.remedy}"), look.width, indent)
    return lines


def _noise_lines(found: Diagnosis, look: Style) -> list[str]:
    if found.failed:
        return wrap(safe(f"noise could not be measured: {found.failed}"), look.width)
    if not found.noise:
        why = found.no_noise or "nothing was measured"
        return wrap(f"noise was not measured: {why}", look.width)
    rows = [
        ("A/A launches", "median", "CV", *(f"{n} pairs" for n in found.noise[0].smallest_found))
    ]
    rows += [_noise_row(one) for one in found.noise]
    made = columns(rows, (34, 18, 8, *([9] * (len(rows[0]) - 3))))
    text = [cut("".join(row).rstrip(), look.width) for row in made]
    launches = 2 * found.pairs
    about = (
        f"smallest regression that so many pairs find here with a probability of 80%, from "
        f"{launches} launches ({found.pairs} pairs) of one server: {found.server}"
    )
    return [look.paint(text[0], "dim"), *text[1:], *wrap(safe(about), look.width, _INDENT)]


def _noise_row(one: Noise) -> tuple[str, ...]:
    unit = f" {one.unit}" if one.unit else ""
    found = [
        "unknown" if value is None else f"{format_number(value, 1)}%"
        for value in one.smallest_found.values()
    ]
    spread = "unknown" if one.cv_percent is None else f"{format_number(one.cv_percent, 1)}%"
    return (one.metric, f"{format_number(one.median, 2)}{unit}", spread, *found)


def _verdict_lines(found: Diagnosis, look: Style) -> list[str]:
    if found.failed:
        lines = [
            look.paint("UNKNOWN", "red") + "  whether it is fit could not be found out (exit 5)"
        ]
        return [*lines, *wrap(safe(found.hint), look.width, _INDENT)] if found.hint else lines
    unfit = found.unfit
    unknown = [one.fact for one in found.findings if one.grade == "unknown"]
    lines = []
    if unknown:
        lines += wrap(f"cannot be read here: {', '.join(unknown)}", look.width)
    if not unfit:
        about = "" if found.noise else ", as far as its facts tell"
        return [
            *lines,
            look.paint("FIT", "green") + f"  nothing that was read speaks against it{about}",
        ]
    kinds = list(dict.fromkeys(kind for one in unfit for kind in one.strikes))
    words = f"to measure {' and '.join(kinds)}: {', '.join(one.fact for one in unfit)} (exit 3)"
    label = "NOT FIT"
    made = wrap(f"{label}  {words}", look.width)
    return [*lines, look.paint(label, "yellow") + made[0].removeprefix(label), *made[1:]]
