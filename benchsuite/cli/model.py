"""`benchsuite model`: make the tiny model where the user wants it."""

from __future__ import annotations

from pathlib import Path

import click

from benchsuite.errors import MachineError, UsageError


@click.group()
def command() -> None:
    """Make the tiny model."""


@command.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that holds something else.")
def tiny(path: Path, force: bool) -> None:
    """Write the tiny model to PATH, a file or a folder.

    It is 5 MB, made of random weights, and the same byte for byte on every machine.
    """
    from benchsuite.server.tiny_model import (
        TINY_SHA256,
        TINY_SIZE_BYTES,
        is_tiny_model,
        write_tiny_model,
    )

    try:
        file = path / "tiny.gguf" if path.is_dir() else path
        there = is_tiny_model(file)
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
            write_tiny_model(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MachineError(
            f"the tiny model cannot be written to {path}: {reason}",
            hint="give a path in a folder that can be written, with 6 MB free",
        ) from error
    click.echo(f"{file}{' (already there)' if there else ''}")
    click.echo(f"{TINY_SIZE_BYTES} bytes, sha256 {TINY_SHA256}")
