"""`benchsuite doctor`: is this machine fit to measure?"""

from __future__ import annotations

import click

from benchsuite.cli.examples import examples
from benchsuite.cli.options import lock_options


@click.command(
    "doctor",
    epilog=examples(
        "benchsuite doctor",
        "benchsuite doctor --pairs 10 --server ./llama-server",
        "benchsuite doctor --no-server --json",
    ),
)
@click.option("--server", metavar="PATH", help="The llama-server to launch.")
@click.option("--model", metavar="PATH", help="The model (GGUF) to serve; the tiny one by default.")
@click.option(
    "--pairs", type=click.IntRange(2), metavar="N", help="Pairs of launches; 5 by default."
)
@click.option("--quick", is_flag=True, help="Three pairs.")
@click.option("--no-server", is_flag=True, help="Launch nothing; the machine's facts alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@lock_options
def command(
    server: str | None,
    model: str | None,
    pairs: int | None,
    quick: bool,
    no_server: bool,
    as_json: bool,
    lock_limit: float | None,
    no_wait: bool,
) -> int:
    """Say whether this machine is fit to measure, and what would improve it.

    Reads CPU clocks, load from others, steal time, swap, control-group limits, memory pressure,
    heat, GPU clocks and timers over a second, then launches the tiny model twice a pair and says
    the smallest regression that 5, 10 and 20 pairs would find here. Exits 0 where it is fit, 3
    where it is not, 5 where that could not be found out.
    """
    import os
    import sys

    from benchsuite.errors import UsageError
    from benchsuite.pipeline.command import given_limits
    from benchsuite.pipeline.doctor import DEFAULT_PAIRS, QUICK_PAIRS, diagnose, exit_code
    from benchsuite.pipeline.machine import load
    from benchsuite.report.doctor import render_diagnosis, render_diagnosis_json
    from benchsuite.report.layout import safe_json, style_for
    from benchsuite.report.progress import make_progress

    if no_server and (quick or pairs is not None or server is not None or model is not None):
        raise UsageError("--no-server launches nothing: leave out --quick, --pairs and the server")
    if quick and pairs is not None:
        raise UsageError("--quick is --pairs 3; leave one of them out")
    found = diagnose(
        pairs=None if no_server else pairs or (QUICK_PAIRS if quick else DEFAULT_PAIRS),
        server=server,
        model=model,
        environ=os.environ,
        limits=given_limits({"lock_limit": lock_limit, "no_wait": no_wait}),
        progress=make_progress(os.environ, quiet=as_json or not sys.stderr.isatty()),
        gpus=load,
    )
    if as_json:
        click.echo(safe_json(render_diagnosis_json(found, exit_code(found))), nl=False)
    else:
        click.echo(render_diagnosis(found, style_for(sys.stdout, os.environ)), nl=False)
    return int(exit_code(found))
