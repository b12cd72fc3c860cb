"""Ask whether what benchsuite depends on has known vulnerabilities.

    python ci/audit.py [PYTHON]

PYTHON is the interpreter whose packages are meant, .venv/bin/python unless given. pip-audit is put
into an environment of its own, and asks the service of pypi.org. It says "no known vulnerabilities"
where it was told of none because a mirror has no such service, so a package that is known to be
vulnerable is asked about first: unless that is found, nobody was asked.

Exit codes: 0 none known, or it could not be asked (said as `audit: could not ask: ...`);
1 something is known; 2 an error of use.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
KNOWN = "jinja2==3.1.2"
"""GHSA-h5c8-rqwp-cp95 (CVE-2024-22195), mended in 3.1.3."""

_TOOL = "pip-audit>=2.7,<3"
_SECONDS = 600
_OURS = {"benchsuite", "pip", "setuptools"}


class Answer(NamedTuple):
    """What pip-audit told."""

    vulnerable: tuple[str, ...] = ()  # each in words
    untold: tuple[str, ...] = ()  # packages of which it could not tell
    problem: str = ""  # why it told nothing at all


def read_answer(out: str, err: str) -> Answer:
    """What pip-audit's JSON says.

    Args:
        out: Its standard output.
        err: Its standard error, whose last line is the reason where there is no JSON.
    """
    start = out.find('{"dependencies"')
    try:
        told = json.loads(out[start:]) if start >= 0 else None
    except ValueError:
        told = None
    if told is None:
        lines = [line.strip() for line in err.splitlines() if line.strip()]
        return Answer(problem=lines[-1][:300] if lines else "pip-audit said nothing")
    vulnerable, untold = [], []
    for one in told["dependencies"]:
        if "skip_reason" in one:
            untold.append(one["name"])
        for vuln in one.get("vulns", ()):
            names = ", ".join([vuln["id"], *vuln.get("aliases", ())])
            mended = ", ".join(vuln.get("fix_versions", ())) or "no version"
            vulnerable.append(f"{one['name']} {one['version']}: {names}; mended in {mended}")
    return Answer(tuple(vulnerable), tuple(untold))


def verdict(control: Answer, answer: Answer | None) -> tuple[int, list[str]]:
    """Exit code and lines.

    Args:
        control: Of the package that is known to be vulnerable.
        answer: Of our own; None where they were not asked about.
    """
    if not control.vulnerable:
        why = control.problem or f"the service knows nothing of {KNOWN}, which is vulnerable"
        return 0, [f"audit: could not ask: {why}"]
    if answer is None or answer.problem:
        return 0, [f"audit: could not ask: {'' if answer is None else answer.problem}"]
    lines = [f"audit: vulnerable: {one}" for one in answer.vulnerable]
    if answer.untold:
        lines.append(f"audit: could not ask: about {', '.join(answer.untold)}")
    if not lines:
        lines.append("audit: no known vulnerabilities")
    return int(bool(answer.vulnerable)), lines


def _ask(tool: Path, requirements: Sequence[str]) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.txt")
        file.write_text("".join(f"{one}\n" for one in requirements))
        words = [str(tool), "-r", str(file), "--no-deps", "--disable-pip", "-f", "json"]
        try:
            done = subprocess.run(
                [*words, "--progress-spinner", "off"],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(problem=f"no answer within {_SECONDS} s")
    return read_answer(done.stdout, done.stderr)


def _tool(python: str) -> Path | str:
    """pip-audit in an environment of its own, or why there is none."""
    folder = ROOT / ".venv" / "audit"
    tool = folder / ("Scripts" if sys.platform == "win32" else "bin")
    if not any(tool.glob("pip-audit*")):
        pip = [str(tool / "python"), "-m", "pip", "install", "--quiet", _TOOL]
        for words in ([python, "-m", "venv", str(folder)], pip):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return (done.stderr.strip().splitlines() or ["no pip-audit"])[-1][:300]
    return tool / "pip-audit"


def main(argv: Sequence[str]) -> int:
    """Ask, and say."""
    if len(argv) > 1 or argv[:1] == ["--help"]:
        print(__doc__)
        return 2
    python = argv[0] if argv else str(ROOT / ".venv" / "bin" / "python")
    tool = _tool(python)
    if isinstance(tool, str):
        control, answer = Answer(problem=tool), None
    else:
        control, answer = _ask(tool, [KNOWN]), None
        if control.vulnerable:
            words = [python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            listed = json.loads(done.stdout)
            answer = _ask(
                tool, [f"{p['name']}=={p['version']}" for p in listed if p["name"] not in _OURS]
            )
    code, lines = verdict(control, answer)
    for line in lines:
        print(line, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
