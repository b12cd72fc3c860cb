"""`benchsuite clean`: remove stored runs by age, number or size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from benchsuite.cli.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchsuite.store.retention import RunFolderSize

_SHOWN = 20


@click.command(
    "clean",
    epilog=examples(
        "benchsuite clean --older-than 30d --dry-run",
        "benchsuite clean --keep 50 --max-size 5GiB --yes",
    ),
)
@click.option("--older-than", metavar="AGE", help="Remove runs older than this: 30d, 12h.")
@click.option(
    "--keep",
    type=click.IntRange(0),
    metavar="N",
    help="Keep the newest N runs of each deployment and scenario.",
)
@click.option("--max-size", metavar="SIZE", help="Remove the oldest until at most this is left.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def command(
    older_than: str | None, keep: int | None, max_size: str | None, dry_run: bool, yes: bool
) -> int:
    """Remove stored runs by age, number or size; of several limits each one counts.

    Runs that a baseline of the working tree cites and runs in progress are never removed, nor is
    anything that is no run folder. Removed runs leave the history of `trend`.
    """
    import datetime as dt
    import sys

    from benchsuite.errors import ExitCode, MachineError, UsageError
    from benchsuite.report.layout import safe
    from benchsuite.scenario.workspace import load_workspace
    from benchsuite.store.history import stored_runs
    from benchsuite.store.retention import Limits, choose, cited_runs, remove, survey
    from benchsuite.units import MIB

    age, size = _quantity("--older-than", older_than, "s"), _quantity("--max-size", max_size, "MiB")
    workspace = load_workspace()
    runs_folder = workspace.runs
    cited = cited_runs(workspace.baselines)
    runs = survey(runs_folder, stored_runs(runs_folder), cited)
    shown = workspace.display(runs_folder)
    if not runs:
        click.echo(f"no runs in {shown}")
        return ExitCode.PASS
    click.echo(f"{_many(runs)} in {shown}, {_age(runs)}")
    for reason in dict.fromkeys(run.kept_because for run in runs if run.kept_because):
        count = sum(run.kept_because == reason for run in runs)
        click.echo(safe(f"{count} must stay: {reason}"))
    if age is None and keep is None and size is None:
        raise UsageError(
            "say which runs may go",
            hint="e.g. `benchsuite clean --older-than 30d`, `--keep 50` or `--max-size 5GiB`, "
            "first with --dry-run",
        )
    limits = Limits(age, keep, None if size is None else int(size * MIB))
    doomed, spared = choose(runs, limits, dt.datetime.now(dt.UTC))
    for run in spared:
        click.echo(safe(f"stays: {run.path.name} ({run.kept_because})"))
    if not doomed:
        click.echo("nothing to remove")
        return ExitCode.PASS
    for one in doomed[:_SHOWN]:
        click.echo(safe(f"  {one.run.path.name}  {_mib(one.run.size_bytes)}  {one.reason}"))
    if len(doomed) > _SHOWN:
        click.echo(f"  and {len(doomed) - _SHOWN} more")
    what = _many([one.run for one in doomed])
    if dry_run:
        click.echo(f"would remove {what}")
        return ExitCode.PASS
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"{what} would be removed", hint="add --yes, or --dry-run to only look")
    if not yes and not click.confirm(f"remove {what}?"):
        click.echo("nothing was removed")
        return ExitCode.PASS
    failed = {one.run.path: why for one in doomed if (why := remove(one.run)) is not None}
    click.echo(f"removed {_many([one.run for one in doomed if one.run.path not in failed])}")
    stored_runs(runs_folder)  # what is gone leaves the history too
    if failed:
        words = "; ".join(f"{path.name}: {why}" for path, why in failed.items())
        raise MachineError(f"could not remove {len(failed)} of {len(doomed)} runs: {words}")
    return ExitCode.PASS


def _quantity(option: str, text: str | None, unit: str) -> float | None:
    """An option's quantity; a plain number is refused, since its unit would be guessed."""
    from benchsuite.errors import UsageError
    from benchsuite.units import parse_quantity

    if text is None:
        return None
    examples = "30d or 12h" if unit == "s" else "5GiB or 500MiB"
    try:
        if text.strip()[-1:].isdigit():
            raise ValueError(f"'{text}' has no unit")
        value = parse_quantity(text, unit)
        if value < 0:
            raise ValueError(f"'{text}' is below 0")
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint=f"write it like {examples}") from error
    return value


def _many(runs: Sequence[RunFolderSize]) -> str:
    count = len(runs)
    return f"{count} run{'' if count == 1 else 's'}, {_mib(sum(r.size_bytes for r in runs))}"


def _mib(size_bytes: int) -> str:
    from benchsuite.units import MIB, format_number

    if size_bytes >= 1024 * MIB:
        return f"{format_number(size_bytes / MIB / 1024)} GiB"
    return f"{format_number(size_bytes / MIB)} MiB"


def _age(runs: Sequence[RunFolderSize]) -> str:
    first, last = runs[0].started_at, runs[-1].started_at
    return f"from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
