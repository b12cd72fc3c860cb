"""`benchsuite init` from what it is pointed at to the files that it writes.

A server that runs is asked what it is, and sent a short conversation of two turns, since over HTTP
nothing else tells what its model reuses. A program is asked for its `--help` only, and a model file
read: nothing is started for long, downloaded or loaded.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.collect.log_follower import LogFollower
from benchsuite.errors import UsageError
from benchsuite.metrics.kv_formula import AUTOMATIC_SLOTS
from benchsuite.model.deployment import ADHOC, OWN_MODEL_FLAGS, ROUTER_FLAGS, TINY
from benchsuite.model.record import ModelFacts
from benchsuite.pipeline.identity import model_words
from benchsuite.pipeline.inspect_server import check_url
from benchsuite.pipeline.keys import api_key
from benchsuite.pipeline.waking import wake
from benchsuite.report.first_config import (
    FirstLook,
    Reuse,
    render_config,
    render_first_scenario,
)
from benchsuite.scenario.command_line import CommandLine, read_command_line, split_command
from benchsuite.scenario.config import CONFIG_NAME, find_config, parse_config
from benchsuite.scenario.flags import OFF, ON, FlagTable, parse_help
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.plan import make_plan
from benchsuite.scenario.prompts import exact_prompt
from benchsuite.server.gguf_facts import read_model_facts
from benchsuite.server.locate import EMBEDDED, ServerBinary, locate, read_help
from benchsuite.store.files import write_atomic

FIRST = "first"
"""Name of the scenario that is written."""

_SCENARIO = Path("scenarios") / f"{FIRST}.yaml"
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_LOAD_SECONDS = 120.0
_NO_TEXT = ("embedding", "embeddings", "reranking", "rerank")


class InitOptions(msgspec.Struct, frozen=True):
    """What `benchsuite init` is pointed at; None where not given."""

    url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    ca: str | None = None
    log: str | None = None
    server: str | None = None
    model: str | None = None
    model_name: str | None = None
    name: str | None = None
    command: tuple[str, ...] = ()


class Written(msgspec.Struct, frozen=True):
    """The two files, not written yet."""

    look: FirstLook
    config: str
    scenario: str


def first_files(options: InitOptions, environ: Mapping[str, str]) -> Written:
    """Look at the server that is meant, and make both files.

    Raises:
        UsageError: The options contradict each other, or what they name cannot be used.
        ServerError: The server does not answer as one.
    """
    _refuse_mixtures(options)
    table = None
    if options.url is not None:
        look = _look_at_running(options, environ)
    elif options.command:
        look, table = _look_at_command(options, environ)
    else:
        look, table = _look_at_program(options, environ)
    made = Written(look, render_config(look), render_first_scenario(look))
    # what we write must pass our own checks
    config = parse_config(Path.cwd() / CONFIG_NAME, made.config)
    scenario = parse_scenario(made.scenario, FIRST, str(_SCENARIO))
    make_plan(scenario, config.deployments[look.name], table)
    return made


def write_files(made: Written, folder: Path, *, force: bool) -> tuple[Path, ...]:
    """Write both files, or neither where one is there already.

    Raises:
        UsageError: A configuration or scenario is there, and `force` is not given.
        MachineError: They cannot be written.
    """
    config, scenario = folder / CONFIG_NAME, folder / _SCENARIO
    found = find_config(folder)
    there = [path for path in (config, scenario) if path.exists()]
    if found is not None and found not in there:
        there.insert(0, found)
    if there and not force:
        raise UsageError(
            f"there is already {' and '.join(str(path) for path in there)}",
            hint="--print shows what would be written, to be copied from; --force replaces "
            f"{CONFIG_NAME} and {_SCENARIO} here",
        )
    write_atomic(scenario, made.scenario.encode())
    write_atomic(config, made.config.encode())
    return config, scenario


def _refuse_mixtures(options: InitOptions) -> None:
    ways = [
        word
        for word, given in (
            ("--url", options.url is not None),
            ("--server", options.server is not None),
            ("a command line", bool(options.command)),
        )
        if given
    ]
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} name different servers; give one of them")
    if options.url is None:
        for word, given in (
            ("--api-key-env", options.api_key_env),
            ("--api-key-file", options.api_key_file),
            ("--ca", options.ca),
            ("--log", options.log),
        ):
            if given is not None:
                raise UsageError(f"{word} is for a running server; name it with --url")
    elif options.model is not None:
        raise UsageError("--model is for a server that is started; a running one has its model")
    if options.command and options.model is not None:
        raise UsageError("--model and a command line both name the model; give one of them")


# a program, alone or with its command line


def _look_at_program(
    options: InitOptions, environ: Mapping[str, str]
) -> tuple[FirstLook, FlagTable]:
    binary, table = _ask(options.server, environ)
    return _look(options, binary, table, options.server, CommandLine(model=options.model)), table


def _look_at_command(
    options: InitOptions, environ: Mapping[str, str]
) -> tuple[FirstLook, FlagTable]:
    env, program, arguments = split_command(options.command)
    binary, table = _ask(program, environ)
    return _look(options, binary, table, program, read_command_line(arguments, env, table)), table


def _ask(server: str | None, environ: Mapping[str, str]) -> tuple[ServerBinary, FlagTable]:
    binary = locate(server, None, environ)
    build = "the embedded server" if binary.kind == EMBEDDED else binary.path
    return binary, parse_help(read_help(binary, environ), build)


def _look(
    options: InitOptions,
    binary: ServerBinary,
    table: FlagTable,
    server: str | None,
    given: CommandLine,
) -> FirstLook:
    flags = given.flags
    own = [name for name in flags if name in OWN_MODEL_FLAGS]
    if any(name in ROUTER_FLAGS for name in own) and options.model_name is None:
        raise UsageError(
            f"--{own[0]} starts a router, which serves several models",
            hint="say which one is meant: --model-name NAME",
        )
    no_text = next((name for name in _NO_TEXT if flags.get(name) == ON), None)
    if no_text is not None:
        raise UsageError(
            f"with --{no_text} the server generates no text, which the first scenario needs",
            hint="write a scenario with an 'embedding' step instead",
        )
    if given.model is not None and own:
        raise UsageError(f"the command line names a model and --{own[0]}; give one of them")
    facts = None if given.model is None else read_model_facts(Path(given.model).expanduser())
    return FirstLook(
        name=_name(options, given.model or options.model_name),
        seen=_seen_of_program(binary, table, facts),
        server=server,
        model=given.model,
        model_name=options.model_name,
        flags=flags,
        switches=tuple(name for name in flags if table.find(name)[0].arity == 0),
        env=given.env,
        left_out=given.left_out,
        had_key=any(word.startswith("--api-key") for word, _ in given.left_out),
        slot_tokens=_slot_tokens(flags, facts),
        caches_prompts=flags.get("cache-prompt") != OFF,
        attention=None if facts is None else facts.attention,
    )


def _seen_of_program(
    binary: ServerBinary, table: FlagTable, facts: ModelFacts | None
) -> tuple[str, ...]:
    seen = [f"{binary.path} ({binary.why}): {len(table.flags)} flags in its help."]
    if facts is not None:
        words = [model_words(facts), facts.architecture or "no architecture told"]
        if facts.attention is not None:
            words.append(f"{facts.attention.replace('_', ' ')} attention")
        if facts.n_ctx_train is not None:
            words.append(f"trained for {facts.n_ctx_train} tokens")
        seen.append(f"Its model: {', '.join(words)}.")
    return tuple(seen)


def _slot_tokens(flags: Mapping[str, object], facts: ModelFacts | None) -> int | None:
    """Tokens of one slot if all were as large; None where the flags leave it to benchsuite."""
    total = _whole(flags.get("ctx-size"))
    if total == 0 and facts is not None:
        total = facts.n_ctx_train
    if total is None or total <= 0:
        return None
    slots = _whole(flags.get("parallel"))
    return total // (slots if slots is not None and slots > 0 else AUTOMATIC_SLOTS)


def _whole(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, str) else None
    except ValueError:
        return None


# a server that runs


def _look_at_running(options: InitOptions, environ: Mapping[str, str]) -> FirstLook:
    url = check_url(options.url or "")
    key = api_key(options.api_key_env, environ, options.api_key_file)
    return asyncio.run(_visit(options, url, key))


async def _visit(options: InitOptions, url: str, key: str | None) -> FirstLook:
    client = LlamaClient(
        url, api_key=key, idle_seconds=_LOAD_SECONDS, model=options.model_name, ca=options.ca
    )
    try:
        props, said = await wake(client, options.model_name)
        look = FirstLook(
            name=_name(options, props.model),
            url=url,
            model_name=options.model_name,
            api_key_env=options.api_key_env,
            api_key_file=options.api_key_file,
            ca=options.ca,
            log=options.log,
            slot_tokens=props.n_ctx_slot,
        )
        look = msgspec.structs.replace(look, reuse=await _try_reuse(client, look.sizes[0]))
    finally:
        await client.aclose()
    seen = [f"{url}: llama-server {props.build or 'of a build that it does not tell'}"]
    told = (
        None if props.model is None else f"model {props.model}",
        None if props.total_slots is None else f"{props.total_slots} slots",
        None if props.n_ctx_slot is None else f"{props.n_ctx_slot} tokens of context each",
        "no /metrics: counts are not checked against it"
        if props.metrics_enabled is False
        else None,
    )
    seen.extend(words for words in told if words is not None)
    return msgspec.structs.replace(
        look,
        seen=(f"{', '.join(seen)}.", *(f"When it was looked at, {one}." for one in said)),
        kv_mib=None if options.log is None else _logged_kv(options.log, options.model_name),
    )


async def _try_reuse(client: LlamaClient, system_tokens: int) -> Reuse:
    """Send a conversation of two turns, in a text that nobody has sent before."""
    seed = random.getrandbits(48)
    texts = [
        await exact_prompt(tokens, seed + number, client.tokenise)
        for number, tokens in enumerate((system_tokens, 24, 24))
    ]
    fields = {"max_tokens": 16, "temperature": 0}
    messages = [
        {"role": "system", "content": texts[0]},
        {"role": "user", "content": texts[1]},
    ]
    first = await client.chat(messages, fields)
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": texts[2]},
    ]
    second = await client.chat(messages, fields)
    return Reuse(system_tokens, second.prompt_tokens, second.cached_tokens)


def _logged_kv(path: str, model_name: str | None) -> float | None:
    if not Path(path).is_file():
        raise UsageError(f"--log names a file that is not there: {path}")
    log = LogFollower(path, model_name or "")
    log.close()
    total = log.facts().kv_total
    return None if total is None else total.mib


def _name(options: InitOptions, model: str | None) -> str:
    """The deployment's name: as given, else made of the model's."""
    if options.name is not None:
        if options.name in (TINY, ADHOC):
            raise UsageError(f"--name {options.name}: this deployment is built in; choose another")
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", options.name) is None:
            raise UsageError(f"--name '{options.name}': expected letters, digits, '_', '-' and '.'")
        return options.name
    stem = (model or "").replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", _PART.sub("", stem)).strip("-_")[:40]
    return "mine" if stem in ("", TINY, ADHOC) else stem
