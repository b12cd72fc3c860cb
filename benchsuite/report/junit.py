"""Runs as JUnit XML, in the form that Jenkins, GitLab and GitHub's viewers read.

A gate is a test case, its scenario the class. `failure`: what was measured is not what must hold.
`error`: nothing could be decided, or the server or the machine failed. `skipped`: it does not
count, and says why: not applicable, known issue, advice, quarantine. Stays within what Jenkins'
schema junit-10.xsd allows: no `file` of a test case, no `skipped` of `testsuites`.
"""

from __future__ import annotations

import datetime as dt
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from benchsuite.model.record import RunRecord
from benchsuite.model.suite import SuiteRun
from benchsuite.report.cases import Case, cases_of, one_line, unmade_case

# what XML 1.0 does not allow and `safe` lets stand
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMAND = re.compile(r"(^|[\n\r])(::|##\[)")
_ELEMENTS = {"fail": "failure", "error": "error", "quiet": "skipped"}


def render_junit(runs: Sequence[RunRecord], others: Sequence[SuiteRun] = ()) -> str:
    """The runs as one JUnit document.

    Args:
        runs: Judged.
        others: Runs of a suite that have no record; each is an error, or skipped where it only
            advises.
    """
    root = ET.Element("testsuites", {"name": "benchsuite"})
    taken: set[tuple[str, str]] = set()
    for record in runs:
        _add(root, _record_suite(record), _distinct(cases_of(record), taken))
    for run in others:
        name = f"{run.scenario} on {run.deployment}"
        suite = _element("testsuite", name=name, time="0.000")
        _add(root, suite, _distinct([unmade_case(run)], taken))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", _seconds(sum(float(suite.get("time", "0")) for suite in root)))
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _record_suite(record: RunRecord) -> ET.Element:
    started = dt.datetime.fromisoformat(record.started_at).astimezone(dt.UTC)
    suite = _element(
        "testsuite",
        name=f"{record.scenario} on {record.fingerprint.deployment}",
        time=_seconds(record.wall_seconds),
        timestamp=started.strftime("%Y-%m-%dT%H:%M:%S"),
        file=record.scenario_path,
    )
    properties = ET.SubElement(suite, "properties")
    verdict = record.verdict
    facts = {
        "run": record.id,
        "verdict": "not judged" if verdict is None else verdict.outcome,
        "exit_code": "" if verdict is None else str(verdict.exit_code),
        "policy": record.policy,
        "build": record.info.build or "",
        "server": record.info.server,
        "model": record.info.model,
        "commit": record.info.commit or "",
        "machine": record.fingerprint.machine or "",
        "benchsuite": record.info.benchsuite,
    }
    for name, value in facts.items():
        if value:
            properties.append(_element("property", name=name, value=value))
    return suite


def _add(root: ET.Element, suite: ET.Element, cases: Sequence[Case]) -> None:
    for key, weight in (("failures", "fail"), ("errors", "error"), ("skipped", "quiet")):
        suite.set(key, str(sum(case.weight == weight for case in cases)))
    suite.set("tests", str(len(cases)))
    for case in cases:
        element = _element("testcase", classname=case.scenario, name=case.name)
        element.set("time", "0.000")
        text = _text("\n".join(case.details))
        if case.weight == "pass":
            if text:
                ET.SubElement(element, "system-out").text = text
        else:
            told = f"{case.kind}: {case.message}" if case.kind else case.message
            what = _element(_ELEMENTS[case.weight], type=case.kind, message=told)
            what.text = _text(case.message) + (f"\n{text}" if text else "")
            element.append(what)
        suite.append(element)
    root.append(suite)


def _distinct(cases: Sequence[Case], taken: set[tuple[str, str]]) -> list[Case]:
    """The cases, each with a name that no other of the document has in its class."""
    import msgspec

    result = []
    for case in cases:
        name, count = case.name, 1
        while (case.scenario, name) in taken:
            count += 1
            name = f"{case.name} (run {count})"
        taken.add((case.scenario, name))
        result.append(msgspec.structs.replace(case, name=name))
    return result


def _element(tag: str, **attributes: str) -> ET.Element:
    return ET.Element(tag, {k: _text(one_line(v)) for k, v in attributes.items()})


def _text(text: str) -> str:
    """What XML may hold, and no line that GitHub would carry out where the file is printed."""
    allowed = _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return _COMMAND.sub(r"\1 \2", allowed)


def _seconds(value: float) -> str:
    return f"{value:.3f}"
