"""A first `benchsuite.toml` and a first scenario for a server that was looked at; pure."""

from __future__ import annotations

import json
import re

import msgspec

from benchsuite.model.scenario import FlagValue
from benchsuite.report.layout import safe, wrap
from benchsuite.units import format_number

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 98


class Reuse(msgspec.Struct, frozen=True):
    """What a running server reused of a conversation's first turn in its second."""

    system_tokens: int
    prompt_tokens: int | None  # of the second turn; None where the reply did not say
    cached_tokens: int | None


class FirstLook(msgspec.Struct, frozen=True):
    """What was found out about one server."""

    name: str  # of the deployment to be
    seen: tuple[str, ...] = ()  # sentences for the comment
    server: str | None = None  # as written; None looks one up
    url: str | None = None  # of a running one
    model: str | None = None  # as written
    model_name: str | None = None  # a router's
    api_key_env: str | None = None
    api_key_file: str | None = None  # as written
    ca: str | None = None  # as written
    log: str | None = None  # of a running one
    flags: dict[str, FlagValue] = {}
    switches: tuple[str, ...] = ()  # those of the flags that take no value
    env: dict[str, str] = {}
    left_out: tuple[tuple[str, str], ...] = ()  # flag or variable, and why
    had_key: bool = False  # whether the command line held an API key
    slot_tokens: int | None = None  # context of one slot; None: not known
    caches_prompts: bool = True  # False where `cache-prompt` is off
    attention: str | None = None  # of the model file; None: not known
    reuse: Reuse | None = None  # of a running one
    kv_mib: float | None = None  # as a running one's log tells

    @property
    def sizes(self) -> tuple[int, int]:
        """Tokens of the system prompt, and the context that the scenario needs of one slot."""
        room = self.slot_tokens
        if room is None or room >= 1024:
            return 600, 1024
        return (160, 512) if room >= 512 else (40, 256)


def render_config(look: FirstLook) -> str:
    """The text of `benchsuite.toml`."""
    lines = [
        "# Written by 'benchsuite init'. Here stand the servers to be measured; scenarios say what",
        "# is done to them. 'benchsuite show first -d NAME' prints what a run would do.",
        "",
        "# Where things lie, beside this file unless said otherwise:",
        '# scenarios = "scenarios"',
        '# baselines = "baselines"          # to be committed; written by `benchsuite accept` only',
        '# runs = ".benchsuite/runs"',
        "",
    ]
    for sentence in look.seen:
        lines += _comment(sentence)
    lines.append(f"[deployments.{_key(look.name)}]")
    lines += _running(look) if look.url is not None else _launched(look)
    return "\n".join(lines).rstrip("\n") + "\n"


def _launched(look: FirstLook) -> list[str]:
    lines = []
    if look.server is None:
        lines.append(
            '# server = "PATH"   # the first of: $LLAMA_SERVER_BIN_PATH, PATH, wheel, embedded'
        )
    else:
        lines.append(f"server = {_text(look.server)}")
    if look.model is not None:
        lines.append(f"model = {_text(look.model)}")
    elif look.model_name is None and not _finds_model(look):
        lines.append('# model = "model.gguf"   # without it the tiny model is served')
    if look.model_name is not None:
        lines.append(f"model_name = {_text(look.model_name)}   # of the router's models")
    if look.env:
        lines.append(
            f"env = {{ {', '.join(f'{_key(k)} = {_text(v)}' for k, v in look.env.items())} }}"
        )
    for word, why in look.left_out:
        lines += _comment(f"left out: {word} ({why})")
    lines += [
        "",
        "# llama-server's long names without dashes. A scenario's defaults give way to these; what",
        "# it needs exactly must not contradict them. Beyond these, benchsuite gives host, port, a",
        "# random key, --metrics, --slots, --fit off and the verbosity that prints KV memory.",
        f"[deployments.{_key(look.name)}.flags]",
    ]
    lines += [f"{_key(name)} = {_value(look, name)}" for name in look.flags]
    if not look.flags:
        lines.append("# ctx-size = 32768   # of all slots together")
    if look.had_key:
        lines += [
            "",
            "# The command line held an API key, which is not written here. To measure the server",
            "# that runs already, instead of starting one like it, put its key into a variable:",
            f"# [deployments.{_key(look.name)}-running]",
            '# url = "http://127.0.0.1:8080"',
            '# api_key_env = "LLAMA_KEY"   # the variable that holds the key',
        ]
    return lines


def _running(look: FirstLook) -> list[str]:
    lines = [f"url = {_text(look.url or '')}"]
    if look.model_name is not None:
        lines.append(f"model_name = {_text(look.model_name)}   # sent as `model` of every request")
    if look.api_key_env is not None:
        lines.append(f"api_key_env = {_text(look.api_key_env)}   # the variable that holds its key")
    elif look.api_key_file is not None:
        lines.append(f"api_key_file = {_text(look.api_key_file)}   # its first line is the key")
    else:
        lines.append(
            '# api_key_env = "LLAMA_KEY"   # the variable that holds its key, if it has one'
        )
    if look.ca is not None:
        lines.append(f"ca = {_text(look.ca)}   # PEM file that its certificate is verified by")
    lines.append("# requests_per_second = 20    # at most; 0 lifts the cap")
    if look.log is not None:
        lines.append(f"observe = {{ log = {_text(look.log)} }}   # pid = N adds its memory")
    else:
        lines += _comment(
            "With its log and process, KV memory, slots and memory are measured too; without them"
            " they are not applicable, and counted:"
        )
        lines.append('# observe = { log = "server.log", pid = 1234 }')
    return lines


def render_first_scenario(look: FirstLook) -> str:
    """The text of `scenarios/first.yaml`."""
    system, needed = look.sizes
    return f"""title: a conversation of two turns, and one prompt three times
tags: [first]
server:
  # at least so many tokens for each slot; the deployment decides the rest
  ctx-size: {{min: {needed}, per: slot}}
prompts:
  # texts of exactly so many tokens on the model at hand; another seed is another text
  system: {{tokens: {system}, seed: 1}}
  same: {{tokens: 60, seed: 4}}
sessions:
  A: {{system: system}}
steps:
  - turn: {{session: A, user: {{tokens: 24, seed: 2}}, max_tokens: 16}}
  - turn: {{session: A, user: {{tokens: 24, seed: 3}}, max_tokens: 16}}
  # the first of these is evaluated, the others find it in the cache
  - complete: {{id: cold, prompt: same, max_tokens: 16}}
  - complete: {{id: warm, prompt: same, max_tokens: 16}}
  - complete: {{id: again, prompt: same, max_tokens: 16}}
gates:
{_cached_gate(look, system)}  - metric: 'text{{request="again"}}'
    same_as: {{request: warm}}
    why: greedy text of the same prompt in the same state must be the same
{_kv_gate(look)}
# Once a run looks right, `benchsuite accept last --reason "first"` makes it the baseline, and gates
# such as these hold later runs to it:
#  - {{metric: kv_mib, equals: baseline}}
#  - {{metric: 'cached_tokens{{session="A",turn="2"}}', equals: baseline}}
#  - {{metric: 'anon_mib{{at="end"}}', regression: {{worse_than: 5%, and_by: 16 MiB}}}}
#  - {{metric: ttft_ms, regression: {{worse_than: 10%}}}}
"""


def _cached_gate(look: FirstLook, system: int) -> str:
    head = '  - metric: \'cached_tokens{session="A",turn="2"}\'\n'
    if not look.caches_prompts:
        return f"{head}    equals: 0\n    why: this deployment turns the prompt cache off\n"
    why = "    why: the second turn must reuse the system prompt\n"
    found = look.reuse
    if found is not None and found.cached_tokens is not None:
        if found.cached_tokens >= found.system_tokens:
            told = (
                f"  # in a trial, {found.cached_tokens} of {found.prompt_tokens} tokens of the"
                " second turn were cached\n"
            )
            return f"{told}{head}    min: {system}\n{why}"
        return (
            f"  # in a trial, {found.cached_tokens} of {found.prompt_tokens} tokens of the second"
            f" turn were cached,\n  # fewer than the {found.system_tokens} of its system prompt: a"
            " sliding window, recurrent state, other clients,\n  # or a cache that is off; so only"
            f" models with full attention are held to it\n{head}    min: {system}\n"
            f"    when: {{attention: full}}\n{why}"
        )
    note = ""
    if look.attention not in (None, "full"):
        kind = look.attention.replace("_", " ") if look.attention else ""
        note = (
            f"  # this model ({kind}) reuses from checkpoints, which flags and builds change: see\n"
            "  # what a run measures before you set a limit without 'when'\n"
        )
    return f"{note}{head}    min: {system}\n    when: {{attention: full}}\n{why}"


def _kv_gate(look: FirstLook) -> str:
    if look.url is None:
        held = {"recurrent": ("rs_mib",), "hybrid": ("kv_mib", "rs_mib")}
        return "".join(
            f"  - metric: {metric}\n    equals: analytic\n    when: {{analytic: true}}\n"
            "    why: it must weigh what the model file and the flags make of it\n"
            for metric in held.get(look.attention or "", ("kv_mib",))
        )
    if look.kv_mib is None:
        return ""
    return (
        f"  # as its log told when this was written\n  - metric: kv_mib\n"
        f"    equals: {format_number(look.kv_mib, 2)}\n"
        "    why: more KV memory means fewer slots or less context on the same device\n"
    )


def _finds_model(look: FirstLook) -> bool:
    return any(name.startswith(("hf-", "models-", "model-url", "docker-")) for name in look.flags)


def _value(look: FirstLook, name: str) -> str:
    value = look.flags[name]
    if isinstance(value, tuple):
        return f"[{', '.join(_text(one) for one in value)}]"
    if value is None:
        return "[]"
    if name in look.switches:
        return "true" if value == "on" else "false"
    return value if re.fullmatch(r"0|-?[1-9]\d{0,15}", value) else _text(value)


def _text(value: str) -> str:
    """A TOML string; JSON's escapes are all TOML's too, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _comment(sentence: str) -> list[str]:
    return [f"# {line}" for line in wrap(safe(sentence), _WIDTH)]
