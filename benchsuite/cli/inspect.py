"""`benchsuite inspect`: what a saved log or a running server says, what a model file needs."""

from __future__ import annotations

import click

from benchsuite.cli.examples import examples


@click.group("inspect")
def command() -> None:
    """Read what a server says or left behind, or what a model file needs."""


@command.command(
    "log",
    epilog=examples(
        "benchsuite inspect log server.log",
        "llama-server -m model.gguf 2>&1 | benchsuite inspect log - --json",
    ),
)
@click.argument("file", metavar="FILE|-")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def log(file: str, as_json: bool) -> int:
    """Show KV memory, slots, crash and failure that a llama-server log tells of.

    Takes any saved log, of any era, backend and fork that is known; `-` reads standard input.
    Exits 4 where KV memory is unreadable, and says why.
    """
    import os
    import sys

    from benchsuite.errors import ExitCode
    from benchsuite.pipeline.inspect import inspect_log
    from benchsuite.report.inspect import render_inspection, render_inspection_json
    from benchsuite.report.layout import safe_json, style_for

    found = inspect_log(file)
    if as_json:
        click.echo(safe_json(render_inspection_json(found)), nl=False)
    else:
        click.echo(render_inspection(found, style_for(sys.stdout, os.environ)), nl=False)
    return int(ExitCode.SERVER_FAILED if found.unreadable else ExitCode.PASS)


@command.command(
    "server",
    epilog=examples(
        "benchsuite inspect server http://127.0.0.1:8080",
        "benchsuite inspect server http://host:8080 --api-key-env KEY --json",
    ),
)
@click.argument("url", metavar="URL")
@click.option("--api-key-env", metavar="NAME", help="Variable that holds the server's key.")
@click.option("--api-key-file", metavar="FILE", help="Or the file whose first line is the key.")
@click.option("--ca", metavar="FILE", help="Certificates (PEM) that its https is verified by.")
@click.option(
    "--idle-limit",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds that a request may go without a byte.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def server(
    url: str,
    api_key_env: str | None,
    api_key_file: str | None,
    ca: str | None,
    idle_limit: float,
    as_json: bool,
) -> int:
    """Show what a running llama-server says of itself over HTTP.

    Reads /health, /props, /slots and /metrics of builds of any era; nothing is generated and a
    sleeping server is not woken. KV memory is not told over HTTP: see 'inspect log'. Exits 4
    where something is unreadable, and says why.
    """
    import os
    import sys

    from benchsuite.errors import ExitCode
    from benchsuite.pipeline.inspect_server import inspect_server
    from benchsuite.report.inspect_server import render_server, render_server_json
    from benchsuite.report.layout import safe_json, style_for

    found = inspect_server(url, api_key_env, os.environ, idle_limit, ca, api_key_file)
    if as_json:
        click.echo(safe_json(render_server_json(found)), nl=False)
    else:
        click.echo(render_server(found, style_for(sys.stdout, os.environ)), nl=False)
    return int(ExitCode.SERVER_FAILED if found.unreadable else ExitCode.PASS)


@command.command(
    "model",
    epilog=examples(
        "benchsuite inspect model model.gguf --ctx-size 32768 --parallel 4",
        "benchsuite inspect model model.gguf --cache-type-k q8_0 --cache-type-v q8_0",
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "-c",
    "--ctx-size",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    metavar="N",
    help="Context of all slots together, in tokens; 0, the default, is the model's own.",
)
@click.option(
    "-np",
    "--parallel",
    type=click.IntRange(-1, 256),
    default=-1,
    metavar="N",
    help="Slots; -1, the default, is llama-server's own choice: 4 with unified KV.",
)
@click.option("-ctk", "--cache-type-k", default="f16", metavar="TYPE", help="Of K; f16 by default.")
@click.option("-ctv", "--cache-type-v", default="f16", metavar="TYPE", help="Of V; f16 by default.")
@click.option("-kvu", "--kv-unified", is_flag=True, help="One KV buffer for all slots.")
@click.option("--swa-full", is_flag=True, help="Sliding layers keep the whole context.")
@click.option(
    "-b", "--batch-size", type=click.IntRange(1), default=2048, metavar="N", help="2048 by default."
)
@click.option(
    "-ub", "--ubatch-size", type=click.IntRange(1), default=512, metavar="N", help="512 by default."
)
@click.option(
    "-fa",
    "--flash-attn",
    type=click.Choice(["on", "off", "auto"]),
    default="auto",
    help="auto by default.",
)
@click.option("--hash", "whole", is_flag=True, help="Read every byte for each file's SHA-256.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def model(
    file: str,
    ctx_size: int,
    parallel: int,
    cache_type_k: str,
    cache_type_v: str,
    kv_unified: bool,
    swa_full: bool,
    batch_size: int,
    ubatch_size: int,
    flash_attn: str,
    whole: bool,
    as_json: bool,
) -> int:
    """Show what KV memory and recurrent state a model needs with llama-server's flags.

    Computed from the GGUF metadata, exact to the byte, without a server. Exits 4 where the model's
    cache is not known, and says why.
    """
    import os
    import sys

    from benchsuite.errors import ExitCode, UsageError
    from benchsuite.metrics.kv_formula import CacheSettings
    from benchsuite.pipeline.inspect_model import inspect_model
    from benchsuite.report.inspect_model import render_model, render_model_json
    from benchsuite.report.layout import safe_json, style_for

    if parallel == 0:
        raise UsageError("--parallel 0: expected 1 to 256 slots, or -1 for llama-server's choice")
    settings = CacheSettings(
        n_ctx=ctx_size,
        n_parallel=parallel,
        unified=kv_unified,
        type_k=cache_type_k,
        type_v=cache_type_v,
        swa_full=swa_full,
        n_batch=batch_size,
        n_ubatch=ubatch_size,
        flash_attention=flash_attn != "off",
    )
    found = inspect_model(file, settings, whole=whole)
    if as_json:
        click.echo(safe_json(render_model_json(found)), nl=False)
    else:
        click.echo(render_model(found, style_for(sys.stdout, os.environ)), nl=False)
    return int(ExitCode.SERVER_FAILED if found.unreadable else ExitCode.PASS)
