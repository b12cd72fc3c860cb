"""The audit tells apart what is vulnerable, what is not, and what nobody could be asked."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_audit = runpy.run_path(str(ROOT / "ci" / "audit.py"))
Answer, read_answer, verdict = _audit["Answer"], _audit["read_answer"], _audit["verdict"]

VULNERABLE = {
    "name": "jinja2",
    "version": "3.1.2",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-2"], "fix_versions": ["3.1.3"]}],
}
FINE = {"name": "click", "version": "8.1", "vulns": []}
SKIPPED = {"name": "httpx", "skip_reason": "Dependency not found on PyPI and could not be audited"}
FOUND = Answer(("jinja2 3.1.2: PYSEC-1, CVE-2; mended in 3.1.3",))


def told(*dependencies: object) -> object:
    """An answer from pip-audit's JSON of these."""
    return read_answer(json.dumps({"dependencies": dependencies, "fixes": []}), "")


def test_the_json_of_pip_audit_is_read() -> None:
    """As of pip-audit 2.9: what was skipped is not what is fine."""
    assert told(VULNERABLE) == FOUND
    assert told(FINE) == Answer()
    assert told(SKIPPED) == Answer(untold=("httpx",))
    refused = read_answer("", "Traceback\n\nrequests.exceptions.ConnectionError: no such host\n")
    assert refused == Answer(problem="requests.exceptions.ConnectionError: no such host")
    assert read_answer('{"dependencies": [', "cut").problem == "cut"


@pytest.mark.parametrize(
    ("control", "answer", "code", "line"),
    [
        (told(VULNERABLE), told(FINE), 0, "audit: no known vulnerabilities"),
        (told(VULNERABLE), told(FINE, VULNERABLE), 1, "audit: vulnerable: jinja2 3.1.2: PYSEC-1"),
        (told(VULNERABLE), told(FINE, SKIPPED), 0, "audit: could not ask: about httpx"),
        (told(SKIPPED), None, 0, "audit: could not ask: the service knows nothing of"),
        (told(FINE), None, 0, "audit: could not ask: the service knows nothing of"),
        (read_answer("", "no host"), None, 0, "audit: could not ask: no host"),
        (told(VULNERABLE), read_answer("", "reset"), 0, "audit: could not ask: reset"),
    ],
)
def test_only_what_is_known_to_be_vulnerable_fails(
    control: object, answer: object, code: int, line: str
) -> None:
    """And a service that knows nothing of a vulnerable package is one that was not asked."""
    found, lines = verdict(control, answer)
    assert found == code
    assert any(one.startswith(line) for one in lines), lines


def test_every_dependency_has_a_range() -> None:
    """Up to before a major version that was not tried; stubs follow their library."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    stubs = re.compile(r"(types-\w+|\w+-stubs)")
    for one in wanted:
        requirement = one.partition(";")[0].strip()
        ranged = re.fullmatch(r"[\w-]+(>=[\d.]+,<\d+|==[\d.]+)", requirement)
        assert ranged or stubs.fullmatch(requirement), requirement
