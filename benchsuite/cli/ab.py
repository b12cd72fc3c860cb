"""`benchsuite ab`: two servers in one run, launch by launch."""

from __future__ import annotations

from typing import Any

import click

from benchsuite.cli.completing import complete_scenario
from benchsuite.cli.examples import examples
from benchsuite.cli.options import limit_options


@click.command(
    "ab",
    epilog=examples(
        "benchsuite ab scenarioB --baseline-server ./main/llama-server \\",
        "  --candidate-server ./build/llama-server",
        "benchsuite ab scenarioB --candidate-set cache-type-k=q8_0",
        "benchsuite ab scenarioB --baseline-deployment prod \\",
        "  --candidate-deployment next",
    ),
)
@click.argument("scenario", shell_complete=complete_scenario)
@click.option("-d", "--deployment", metavar="NAME", help="A deployment, of both sides.")
@click.option("--baseline-deployment", metavar="NAME", help="The baseline's own deployment.")
@click.option("--candidate-deployment", metavar="NAME", help="The candidate's own deployment.")
@click.option("--server", metavar="PATH", help="The llama-server of both sides.")
@click.option("--baseline-server", metavar="PATH", help="The llama-server to compare with.")
@click.option("--candidate-server", metavar="PATH", help="The llama-server under test.")
@click.option("--model", metavar="PATH", help="The model (GGUF) of both sides.")
@click.option("--baseline-model", metavar="PATH", help="The baseline's own model.")
@click.option("--candidate-model", metavar="PATH", help="The candidate's own model.")
@click.option("--variant", "variants", multiple=True, metavar="V", help="Only this variant.")
@click.option("--set", "sets", multiple=True, metavar="FLAG=VALUE", help="A flag of both sides.")
@click.option("--baseline-set", multiple=True, metavar="FLAG=VALUE", help="The baseline's own.")
@click.option("--candidate-set", multiple=True, metavar="FLAG=VALUE", help="The candidate's own.")
@click.option(
    "--pairs",
    type=click.IntRange(1),
    metavar="N",
    help="Run so many pairs of launches; default: until all is decided, 10 at most.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Judge exact values, texts and cosines only; one pair unless --pairs says otherwise.",
)
@click.option(
    "--tolerance",
    default="10%",
    show_default=True,
    metavar="PERCENT",
    help="How much worse latency may be where no gate of the scenario says it.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Other texts, same sizes.")
@click.option("--machine", metavar="NAME", help="Name of a pool of equal machines.")
@limit_options
@click.option("--out", metavar="DIR", help="Folder of runs; default .benchsuite/runs.")
@click.option("--json", "json_to", metavar="FILE|-", help="Write the record as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress; results only.")
def command(scenario: str, **given: Any) -> int:
    """Compare a candidate with a baseline server, in pairs of fresh launches taken in turn.

    Sides differ in server, model, deployment or flags; two equal sides are an A/A run. Exact
    values, texts and cosines are decided by the first pair, memory by three, latency after 5 or
    10. Stored baselines are not read, and everything blocks: with fewer --pairs than that, what is
    not decided is inconclusive. --exact leaves memory and latency out. Exit codes: 0 pass, 1 worse
    or changed, 2 usage, 3 inconclusive, 4 a server failed, 5 the machine failed, 130 interrupted.
    """
    from benchsuite.pipeline.ab_command import ab_command

    return ab_command(scenario, given)
