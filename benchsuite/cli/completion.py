"""`benchsuite completion`: what a shell needs to complete benchsuite's words."""

from __future__ import annotations

import click

from benchsuite.cli.examples import examples

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    epilog=examples(
        "benchsuite completion bash >> ~/.bashrc",
        "benchsuite completion zsh >> ~/.zshrc",
        "benchsuite completion fish > ~/.config/fish/completions/benchsuite.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print what SHELL needs to complete commands, options, scenarios and deployments.

    bash must be 4.4 or later.
    """
    from click.shell_completion import get_completion_class

    from benchsuite.cli.main import COMPLETE_VARIABLE, group

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    made = kind(group, {}, "benchsuite", COMPLETE_VARIABLE)
    # `source()` would first look for a bash of its own
    click.echo(made.source_template % made.source_vars())
