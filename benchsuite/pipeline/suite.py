"""`benchsuite ci`: a suite's runs one after the other, its result, and every output.

A run that fails does not keep the next from being made. The result and the outputs are written
before the first run and after each, what is ahead as not run, so that a job that is killed leaves
what it has and nothing that says pass.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchsuite.errors import BenchsuiteError, ExitCode, UsageError
from benchsuite.gate.verdict import outcome_word, worst_code
from benchsuite.model.record import RunRecord
from benchsuite.model.suite import SUITE_SCHEMA, Suite, SuiteResult, SuiteRun
from benchsuite.pipeline.command import read_options
from benchsuite.pipeline.identity import commit_of, has_edits
from benchsuite.pipeline.run import Finished, run_scenario
from benchsuite.pipeline.suite_outputs import GitHub, write_outputs
from benchsuite.pipeline.suite_plan import Job, plan_suite, prepare_jobs
from benchsuite.report.diff import Diff, diff
from benchsuite.report.formats import FORMATS
from benchsuite.report.layout import safe, safe_lines, style_for
from benchsuite.report.progress import make_progress
from benchsuite.report.sources import baseline_changes
from benchsuite.report.suite import render_suite
from benchsuite.report.terminal import render_run
from benchsuite.scenario.suite import RESULT_NAME
from benchsuite.scenario.workspace import Workspace, load_workspace
from benchsuite.store.records import read_record
from benchsuite.store.suites import read_suite_result, write_suite_result

NOT_RUN = "not run"
_AHEAD = "the suite ended before this run, or has not come to it; run it again"
_MACHINE = frozenset({int(ExitCode.MACHINE_FAILED)})


def ci_command(word: str, given: Mapping[str, Any]) -> int:
    """Run the suite meant by `word` and return its exit code.

    Args:
        word: A suite's stem or path.
        given: The command's other options.

    Raises:
        UsageError: Something cannot be run as written; nothing has run.
    """
    workspace = load_workspace()
    today = dt.datetime.now(dt.UTC).date()
    suite = workspace.load_suite(workspace.locate_suite(word), today)
    out = given.get("results")
    folder = workspace.suite_results(suite.name) if out is None else Path(out).absolute()
    jobs = plan_suite(workspace, suite, read_options(given), FORMATS)
    codes = _again(given)
    asked = _asked_of_all(given)
    kept = {} if codes is None else _kept(folder / RESULT_NAME, suite, codes, asked)
    fresh = [job for job in jobs if job.key not in kept]
    if codes is not None and not fresh:
        raise UsageError(
            f"no run of suite '{suite.name}' {_asked(codes)}, so there is nothing to run again"
        )
    ready = {job.key: job for job in prepare_jobs(workspace, fresh, os.environ)}
    base = given.get("base")
    changes = None if base is None else diff(*baseline_changes(base, workspace.baselines))
    running = _Running(workspace, suite, folder, asked, changes, quiet=given["quiet"])
    with GitHub(os.environ, sys.stdout) as github:
        result = running.run([ready.get(job.key, job) for job in jobs], kept)
        places = {run.run: run.place for run in result.runs if run.run is not None}
        github.tell(running.records(result), running.recordless(result), workspace, places)
    sys.stdout.write(render_suite(result, style_for(sys.stdout, os.environ)))
    sys.stdout.write(f"results in {workspace.display(folder)}\n")
    sys.stdout.flush()
    return result.exit_code


def _again(given: Mapping[str, Any]) -> frozenset[int] | None:
    """Exit codes of the runs that are to be made again; None means a whole suite."""
    if given.get("machine_failed"):
        return _MACHINE
    if given.get("failed"):
        return frozenset(int(code) for code in ExitCode if code != ExitCode.PASS)
    return None


def _asked(codes: frozenset[int]) -> str:
    return "was failed by the machine" if len(codes) == 1 else "failed"


def _asked_of_all(given: Mapping[str, Any]) -> tuple[str, ...]:
    """What the command line asks of every run, as it would be typed."""
    words = [f"--{key} {given[key]}" for key in ("server", "machine") if given.get(key)]
    return (*words, *(f"--set {one}" for one in given.get("sets", ())))


def _kept(
    path: Path, suite: Suite, codes: frozenset[int], asked: tuple[str, ...]
) -> dict[tuple[object, ...], SuiteRun]:
    """Runs of the last result that need not be made again, with their records."""
    last = read_suite_result(path)
    if last is None and codes == _MACHINE:
        return {}  # it failed before anything was decided, so everything is due again
    if last is None:
        raise UsageError(
            f"suite '{suite.name}' has no last result to run again from",
            where=str(path),
            hint=f"run all of it: benchsuite ci {suite.name}",
        )
    now = commit_of(Path.cwd())
    if last.commit != now:
        raise UsageError(
            f"the last result of suite '{suite.name}' is of commit {last.commit}, this is {now}; "
            "what passed then says nothing of now",
            hint=f"run all of it: benchsuite ci {suite.name}",
        )
    if codes != _MACHINE and has_edits(Path.cwd()):
        raise UsageError(
            "files of this repository were edited since its commit, so what passed at the last "
            f"result of suite '{suite.name}' may say nothing of now",
            hint=f"commit them, or run all of it: benchsuite ci {suite.name}",
        )
    if last.asked != asked:
        then, today = (" ".join(words) or "no option" for words in (last.asked, asked))
        raise UsageError(
            f"the last result of suite '{suite.name}' was made with {then}, now it is {today}",
            hint="give the same options, or run all of it",
        )
    return {
        run.key: msgspec.structs.replace(run, carried=True)
        for run in last.runs
        if run.exit_code not in codes and run.outcome != NOT_RUN
    }


class _Running:
    """A suite while it is run."""

    def __init__(
        self,
        workspace: Workspace,
        suite: Suite,
        folder: Path,
        asked: tuple[str, ...],
        changes: Diff | None,
        *,
        quiet: bool,
    ) -> None:
        self.workspace = workspace
        self.asked = asked
        self.changes = changes
        self.suite = suite
        self.folder = folder
        self.quiet = quiet
        self.commit = commit_of(Path.cwd())
        self.started_at = dt.datetime.now(dt.UTC)
        self.started_s = time.monotonic()
        self._records: dict[str, RunRecord] = {}

    def run(self, jobs: Sequence[Job], kept: Mapping[tuple[object, ...], SuiteRun]) -> SuiteResult:
        """Make every run that is not kept, and write what came of them after each."""
        runs: list[SuiteRun] = []
        stopped = ""
        ahead = [_unmade(job, int(ExitCode.INTERRUPTED), NOT_RUN, _AHEAD) for job in jobs]
        # older files must not be taken for this one's
        self._write(self._result(ahead))
        for number, job in enumerate(jobs, 1):
            if job.key in kept:
                runs.append(self._carried(job, kept[job.key]))
                continue
            why = stopped or self._out_of_time()
            if why:
                code = ExitCode.INTERRUPTED if stopped else ExitCode.INCONCLUSIVE
                runs.append(_unmade(job, int(code), NOT_RUN, why))
                continue
            runs.append(self._made(job))
            if runs[-1].exit_code == ExitCode.INTERRUPTED:
                stopped = "the suite was interrupted before this run; run it again"
            # no verdict to trust if it ends here
            self._write(self._result([*runs, *ahead[number:]]))
        result = self._result(runs)
        self._write(result)
        return result

    def records(self, result: SuiteResult) -> list[RunRecord]:
        """The records of a result's runs, in their order."""
        return [self._records[run.run] for run in result.runs if run.run in self._records]

    def recordless(self, result: SuiteResult) -> list[SuiteRun]:
        """The runs of a result that have no record."""
        return [run for run in result.runs if run.run not in self._records]

    def _out_of_time(self) -> str:
        budget, spent = self.suite.budget_s, time.monotonic() - self.started_s
        if budget is None or spent < budget:
            return ""
        return f"the suite's budget of {budget:g} s was spent after {spent:.0f} s; raise 'budget'"

    def _made(self, job: Job) -> SuiteRun:
        if isinstance(job.prepared, BenchsuiteError):
            return self._faulty(job, job.prepared, 0.0)
        assert job.prepared is not None
        began = time.monotonic()
        progress = make_progress(os.environ, quiet=self.quiet)
        try:
            done = run_scenario(job.prepared, os.environ, progress)
        except BenchsuiteError as error:
            return self._faulty(job, error, time.monotonic() - began)
        except Exception as error:  # noqa: BLE001  # the other runs of the suite are still due
            words = f"benchsuite itself failed: {type(error).__name__}: {error}"
            return self._faulty(job, BenchsuiteError(words), time.monotonic() - began)
        self._print(done)
        self._records[done.record.id] = done.record
        verdict = done.record.verdict
        code = int(ExitCode.MACHINE_FAILED) if verdict is None else verdict.exit_code
        reasons = () if verdict is None else verdict.reasons
        made = _unmade(job, code, outcome_word(code), reasons[0] if reasons else "")
        return msgspec.structs.replace(
            made,
            run=done.record.id,
            folder=_relative(done.folder, self.folder),
            wall_seconds=done.record.wall_seconds,
        )

    def _faulty(self, job: Job, error: BenchsuiteError, seconds: float) -> SuiteRun:
        code = int(error.exit_code)
        words = f"{error} ({error.hint})" if error.hint else str(error)
        where = f"{job.scenario.name} on {job.deployment}"
        sys.stderr.write(safe_lines(f"error: {where}: {words}") + "\n")
        made = _unmade(job, code, outcome_word(code), words)
        return msgspec.structs.replace(made, wall_seconds=seconds)

    def _carried(self, job: Job, run: SuiteRun) -> SuiteRun:
        """A run of the last result under the policy of today, its record read again."""
        if run.run is not None and run.folder is not None:
            path = (self.folder / run.folder).resolve()
            self._records[run.run] = msgspec.structs.replace(
                read_record(path), policy=job.entry.policy
            )
        return msgspec.structs.replace(run, policy=job.entry.policy, place=job.place)

    def _result(self, runs: Sequence[SuiteRun]) -> SuiteResult:
        return SuiteResult(
            schema_version=SUITE_SCHEMA,
            suite=self.suite.name,
            path=self.suite.path,
            title=self.suite.title,
            started_at=self.started_at.isoformat(),
            wall_seconds=time.monotonic() - self.started_s,
            commit=self.commit,
            runs=tuple(runs),
            exit_code=suite_code(runs),
            asked=self.asked,
        )

    def _write(self, result: SuiteResult) -> None:
        write_suite_result(self.folder / RESULT_NAME, result)
        records, others = self.records(result), self.recordless(result)
        root = self.workspace.config.root
        write_outputs(self.suite, self.folder, records, others, root, self.changes)

    def _print(self, done: Finished) -> None:
        if done.warning is not None:
            sys.stderr.write(f"warning: {safe(done.warning)}\n")
        stored = self.workspace.display(done.folder)
        style = style_for(sys.stdout, os.environ)
        text = render_run(done.record, done.baselines, stored=stored, style=style)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def suite_code(runs: Sequence[SuiteRun]) -> int:
    """The exit code of a suite: the worst that counts; 3 where nothing that blocks was decided."""
    code = worst_code([run.counted_code for run in runs])
    decided = any(run.policy == "block" and run.exit_code == ExitCode.PASS for run in runs)
    return int(ExitCode.INCONCLUSIVE) if code == ExitCode.PASS and not decided else code


def _unmade(job: Job, code: int, outcome: str, reason: str) -> SuiteRun:
    entry = job.entry
    return SuiteRun(
        scenario=job.scenario.name,
        deployment=job.deployment,
        variants=entry.variants,
        sets=entry.sets,
        trials=entry.trials,
        seed=entry.seed,
        policy=entry.policy,
        place=job.place,
        exit_code=code,
        outcome=outcome,
        reason=reason,
    )


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
