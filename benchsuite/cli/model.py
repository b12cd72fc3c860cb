"""`benchsuite model`: make a tiny model where the user wants it."""

from __future__ import annotations

from pathlib import Path

import click

from benchsuite.cli.examples import examples
from benchsuite.errors import MachineError, UsageError
from benchsuite.server.tiny.kinds import DEFAULT_KIND, KINDS


@click.group()
def command() -> None:
    """Make a tiny model."""


@command.command(
    epilog=examples("benchsuite model tiny tiny.gguf", "benchsuite model tiny models/ --kind swa")
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default=DEFAULT_KIND,
    help=f"What its memory is, {DEFAULT_KIND} if not given. "
    + "; ".join(f"{kind.name}: {kind.about}" for kind in KINDS.values())
    + ".",
)
@click.option("--force", is_flag=True, help="Replace a file that holds something else.")
def tiny(path: Path, kind: str, force: bool) -> None:
    """Write a tiny model to PATH, a file or a folder.

    It is 1 to 6 MB, made of random weights, and the same byte for byte on every machine.
    """
    from benchsuite.server.tiny_model import is_tiny_model, write_tiny_model

    wanted = KINDS[kind]
    name = "tiny.gguf" if kind == DEFAULT_KIND else f"tiny-{kind}.gguf"
    try:
        file = path / name if path.is_dir() else path
        there = is_tiny_model(file, kind)
        if not there:
            if file.is_dir():
                raise UsageError(
                    f"{file} is a folder", hint="give the path of a file inside or beside it"
                )
            if file.exists() and not force:
                raise UsageError(
                    f"{file} exists and is not the tiny model",
                    hint="give another path, or --force to replace it",
                )
            if not file.parent.is_dir():
                raise UsageError(
                    f"there is no folder {file.parent}", hint=f"make it: mkdir -p {file.parent}"
                )
            write_tiny_model(file, kind)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MachineError(
            f"the tiny model cannot be written to {path}: {reason}",
            hint="give a path in a folder that can be written, with 7 MB free",
        ) from error
    click.echo(f"{file}{' (already there)' if there else ''}")
    click.echo(f"{wanted.size_bytes} bytes, sha256 {wanted.sha256}")
