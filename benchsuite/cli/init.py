"""`benchsuite init`: a first configuration and scenario for one's own server."""

from __future__ import annotations

import click

from benchsuite.cli.examples import examples


@click.command(
    "init",
    epilog=examples(
        "benchsuite init -- ./llama-server -m model.gguf -c 32768 -np 4",
        "benchsuite init --url http://127.0.0.1:8080",
        "benchsuite init --server embedded",
    ),
)
@click.option("--url", metavar="URL", help="Look at a running server; two short requests are sent.")
@click.option("--api-key-env", metavar="NAME", help="Variable that holds its key.")
@click.option("--api-key-file", metavar="FILE", help="Or the file whose first line is the key.")
@click.option("--ca", metavar="FILE", help="Certificates (PEM) that its https is verified by.")
@click.option("--log", metavar="FILE", help="The running server's log.")
@click.option("--server", metavar="PATH", help="Look at a llama-server program.")
@click.option("--model", metavar="PATH", help="The model (GGUF) that it serves.")
@click.option("--model-name", metavar="NAME", help="The model meant, by a router's name for it.")
@click.option("--name", metavar="NAME", help="Of the deployment; made of the model's if left out.")
@click.option("--print", "to_stdout", is_flag=True, help="Print both files, write none.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@click.argument("command_line", nargs=-1, metavar="[-- COMMAND...]")
def command(
    url: str | None,
    api_key_env: str | None,
    api_key_file: str | None,
    ca: str | None,
    log: str | None,
    server: str | None,
    model: str | None,
    model_name: str | None,
    name: str | None,
    to_stdout: bool,
    force: bool,
    command_line: tuple[str, ...],
) -> None:
    """Write a first benchsuite.toml and scenarios/first.yaml for one's own server.

    COMMAND is the command line that starts the server; its flags are checked by its own --help,
    and keys in it are left out. Without anything, the first llama-server found is looked at.
    """
    import os
    from pathlib import Path

    from benchsuite.pipeline.init import FIRST, InitOptions, first_files, write_files
    from benchsuite.report.layout import safe, safe_lines

    options = InitOptions(
        url, api_key_env, api_key_file, ca, log, server, model, model_name, name, command_line
    )
    made = first_files(options, os.environ)
    if to_stdout:
        click.echo(safe_lines(made.config))
        click.echo(f"# scenarios/{FIRST}.yaml")
        click.echo(safe_lines(made.scenario), nl=False)
        return
    for path in write_files(made, Path.cwd(), force=force):
        click.echo(f"wrote {path.relative_to(Path.cwd())}")
    for sentence in made.look.seen:
        click.echo(safe(sentence))
    for word, why in made.look.left_out:
        click.echo(safe(f"left out: {word} ({why})"))
    click.echo(f"next: benchsuite run {FIRST} -d {made.look.name}")
