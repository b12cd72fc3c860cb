"""What we hand to CI services is valid by their own schemas, and retries exit 5 alone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema import Draft7Validator

from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.suite_plan import plan_suite
from benchsuite.report.formats import FORMATS
from benchsuite.scenario.suite import load_suite
from benchsuite.scenario.workspace import load_workspace

ROOT = Path(__file__).parents[2]
CI = ROOT / "ci"
RUN = CI / "github" / "run.sh"
GITLAB = CI / "gitlab" / "benchsuite.gitlab-ci.yml"


def problems(schema: str, document: Any) -> list[str]:
    """What a published schema has against a document."""
    checker = Draft7Validator(get_builtin_schema(f"vendor.{schema}"))
    return [f"{list(error.path)}: {error.message}" for error in checker.iter_errors(document)]


class _Loader(yaml.SafeLoader):
    """Reads YAML as the services do: `on` is a word."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, how) for tag, how in found if first in "tTfF" or not tag.endswith(":bool")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(path: Path) -> Any:
    """A YAML file as the services read it."""
    return yaml.load(path.read_text(), _Loader)


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (CI / "github" / "action.yml", "github-actions"),
        *((path, "github-workflows") for path in sorted((CI / "github" / "workflows").iterdir())),
        (GITLAB, "gitlab-ci"),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_templates_are_valid(path: Path, schema: str) -> None:
    """By the schema that SchemaStore or GitLab publishes."""
    document = read(path)
    if schema == "gitlab-ci":
        document = {"benchsuite": document[".benchsuite"]}  # hidden jobs are hardly checked
    assert problems(schema, document) == []
    spoilt = json.loads(json.dumps(document).replace('"using"', '"usign"'))
    spoilt.update({"jobs": 3, "benchsuite": 4})
    assert problems(schema, spoilt)


def test_no_input_is_part_of_a_script() -> None:
    """An expression inside a script would run whatever an input holds."""
    for path in (CI / "github").rglob("*.yml"):
        document = read(path)
        steps = document.get("runs", {}).get("steps", [])
        steps += [step for job in document.get("jobs", {}).values() for step in job["steps"]]
        assert steps
        assert all("${{" not in step.get("run", "") for step in steps), path


def test_gitlab_retries_exit_5_alone() -> None:
    """Any other retry would hide a flaky server."""
    assert read(GITLAB)[".benchsuite"]["retry"] == {"max": 1, "exit_codes": [5]}


@pytest.mark.parametrize(
    ("codes", "calls", "code"),
    [
        ([0], ["ci pr"], 0),
        ([1], ["ci pr"], 1),
        ([3], ["ci pr"], 3),
        ([4], ["ci pr"], 4),
        ([2], ["ci pr"], 2),
        ([5, 0], ["ci pr", "ci pr --machine-failed"], 0),
        ([5, 1], ["ci pr", "ci pr --machine-failed"], 1),
        ([5, 5], ["ci pr", "ci pr --machine-failed"], 5),
    ],
)
def test_github_retries_exit_5_once(
    tmp_path: Path, codes: list[int], calls: list[str], code: int
) -> None:
    """The second call runs only what the machine failed; its code is the step's."""
    stand_in = tmp_path / "benchsuite"
    (tmp_path / "codes").write_text("".join(f"{one}\n" for one in codes))
    stand_in.write_text(
        f'#!/usr/bin/env bash\ncd {tmp_path}\necho "$@" >> calls\n'
        'read -r code < codes; sed -i 1d codes; exit "$code"\n'
    )
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SUITE": "pr",
        "SERVER": "",
        "ARGS": "",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    done = subprocess.run(["bash", str(RUN)], env=environ, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "calls").read_text().splitlines() == calls
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"


def test_arguments_and_server_are_handed_on(tmp_path: Path) -> None:
    """Arguments are split at white space and never expanded; the server is one word."""
    stand_in = tmp_path / "benchsuite"
    stand_in.write_text(f'#!/usr/bin/env bash\nprintf "%s\\n" "$@" > {tmp_path}/words\n')
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SUITE": "pr",
        "SERVER": "a b/llama-server",
        "ARGS": "--quiet  --set x=$HOME",
    }
    assert subprocess.run(["bash", str(RUN)], env=environ).returncode == 0
    assert (tmp_path / "words").read_text().splitlines() == [
        "ci", "pr", "--quiet", "--set", "x=$HOME", "--server", "a b/llama-server",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["pr", "nightly"])
def test_shipped_suites_mean_what_is_there(name: str) -> None:
    """Their scenarios, deployments and formats exist, and they write what the templates take."""
    import datetime as dt

    workspace = load_workspace(ROOT)
    suite = workspace.load_suite(workspace.locate_suite(name), dt.datetime.now(dt.UTC).date())
    jobs = plan_suite(workspace, suite, RunOptions(), FORMATS)
    assert len(jobs) == len({job.key for job in jobs})
    written = {output.format: output.path for output in suite.outputs}
    reports = read(GITLAB)[".benchsuite"]["artifacts"]["reports"]
    assert reports["junit"].endswith(f"/{written['junit']}")
    assert reports["metrics"].endswith(f"/{written['gitlab-metrics']}")


GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> {folder}/calls
case "$*" in
    *--paginate*) cat {folder}/found ;;
esac
"""


@pytest.mark.parametrize(
    ("found", "call"),
    [
        ("", "api --silent --method POST repos/o/r/issues/7/comments -F body=@c.md"),
        ("42\n43\n", "api --silent --method PATCH repos/o/r/issues/comments/42 -F body=@c.md"),
    ],
)
def test_one_comment_is_made_and_then_updated(tmp_path: Path, found: str, call: str) -> None:
    """The one that begins with the marker, by a bot; its text is read from the file."""
    (tmp_path / "gh").write_text(GH.format(folder=tmp_path))
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "found").write_text(found)
    (tmp_path / "c.md").write_text("<!-- benchsuite:pr -->\n### pass\n")
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GITHUB_REPOSITORY": "o/r",
        "NUMBER": "7",
        "COMMENT": "c.md",
    }
    script = ["bash", str(CI / "github" / "comment.sh")]
    done = subprocess.run(script, env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    listing, last = (tmp_path / "calls").read_text().splitlines()
    assert listing.startswith("api --paginate repos/o/r/issues/7/comments --jq ")
    assert last == call


def test_the_comment_is_handed_on_where_there_is_one(tmp_path: Path) -> None:
    """By the suite's name, also where that is a path; none is left from a call that ran nothing."""
    for code, told in ((0, True), (1, True), (2, False)):
        (tmp_path / "benchsuite").write_text(f"#!/usr/bin/env bash\nexit {code}\n")
        (tmp_path / "benchsuite").chmod(0o755)
        comment = tmp_path / ".benchsuite" / "ci" / "pr" / "comment.md"
        comment.parent.mkdir(parents=True, exist_ok=True)
        comment.write_text("x")
        output = tmp_path / f"output{code}"
        environ = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "SUITE": "ci/suites/pr.yaml",
            "GITHUB_OUTPUT": str(output),
        }
        subprocess.run(["bash", str(RUN)], env=environ, cwd=tmp_path)
        assert ("comment=.benchsuite/ci/pr/comment.md" in output.read_text()) is told


def test_the_suite_of_the_how_to_is_one(tmp_path: Path) -> None:
    """What docs/ci.md shows can be copied: the suite, and the quarantine below it."""
    import datetime as dt
    import re

    text = (ROOT / "docs" / "ci.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (suite,) = [block for block in blocks if block.startswith("title:")]
    (held,) = [block for block in blocks if block.startswith("quarantine:")]
    path = tmp_path / "pr.yaml"
    path.write_text(suite + held)
    read = load_suite(path, "pr.yaml", today=dt.date(2026, 12, 2))
    assert {output.format for output in read.outputs} <= set(FORMATS)
    assert len(read.entries) == 4
    assert read.quarantine[0].issue == "bug-31"
