"""The embedded server honours each of its flags, or refuses it by name."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchsuite.server.embedded_flags import OPTIONS
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, launch, wait_until_healthy
from benchsuite.server.tiny_model import tiny_model
from tests.integration.server_under_test import (
    ask,
    embedded,
    is_healthy,
    needs_embedded,
)

pytestmark = [pytest.mark.server, needs_embedded]

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)

BARE = ("--ctx-size", "512", "-lv", "5", "-t", "1")  # two threads on a busy machine crawl


class Seen(NamedTuple):
    """What a run of the server showed."""

    props: dict[str, Any]
    params: dict[str, Any]
    log: str
    answers: dict[str, Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


def look(
    model: Path,
    folder: Path,
    flags: tuple[str, ...],
    ask_for: Callable[[LaunchedServer], dict[str, Any]] = lambda _: {},
) -> Seen:
    """Start the server with the flags, ask it, and read its log."""
    with Guard() as guard:
        server = launch(
            embedded(), flags, model=str(model), log_path=folder / "log", env={}, guard=guard
        )
        try:
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 30))
            props = ask(server, "/props")[1]
            answers = ask_for(server)
        finally:
            server.stop(5)
    log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    return Seen(props, props["default_generation_settings"]["params"], log, answers)


def complete(server: LaunchedServer, **fields: Any) -> Any:
    body = {"prompt": "ba be bo da de do", "temperature": 0, **fields}
    return ask(server, "/completion", body)[1]


CHAT = [{"role": "user", "content": "ba"}, {"role": "assistant", "content": "be"}]


def questions(server: LaunchedServer) -> dict[str, Any]:
    return {
        "first": complete(server),
        "again": complete(server),
        "metrics": ask(server, "/metrics")[0],
        "slots": ask(server, "/slots")[0],
        "save": ask(server, "/slots/0?action=save", {"filename": "a.bin"})[0],
        "template": ask(server, "/apply-template", {"messages": CHAT})[1].get("prompt"),
        "second key": ask(server, "/props", key="k2")[0],
    }


# flag with its value -> what it shows; nothing of it may show without the flags
TOGETHER: dict[tuple[str, ...], Callable[[Seen], object]] = {
    ("-t", "3"): lambda s: "n_threads = 3 " in s.log,
    ("-tb", "4"): lambda s: "n_threads_batch = 4" in s.log,
    ("-c", "3072"): lambda s: "n_ctx                 = 3072" in s.log,
    ("-n", "5"): lambda s: s.answers["first"]["tokens_predicted"] == 5,
    ("-b", "128"): lambda s: "n_batch               = 128" in s.log,
    ("-ub", "64"): lambda s: "n_ubatch              = 64" in s.log,
    ("--keep", "7"): lambda s: s.answers["first"]["generation_settings"]["n_keep"] == 7,
    ("-fa", "on"): lambda s: "flash_attn            = enabled" in s.log,
    ("--rope-scaling", "yarn"): lambda s: "custom YaRN scaling" in s.log,
    ("--rope-scale", "2"): lambda s: "freq_scale            = 0.5" in s.log,
    ("--rope-freq-base", "5000"): lambda s: "freq_base             = 5000" in s.log,
    ("-ctk", "q8_0"): lambda s: "K (q8_0)" in s.log,
    ("-ctv", "q4_0"): lambda s: "V (q4_0)" in s.log,
    ("-lm", "none"): lambda s: "load_mode = mmap" not in s.log,
    ("--fit", "off"): lambda s: "fitting params" not in s.log,
    ("--seed", "9"): lambda s: s.params["seed"] == 9,
    ("--ignore-eos",): lambda s: s.params["ignore_eos"] is True,
    ("--temp", "0.25"): lambda s: s.params["temperature"] == 0.25,
    ("--top-k", "7"): lambda s: s.params["top_k"] == 7,
    ("--top-p", "0.5"): lambda s: s.params["top_p"] == 0.5,
    ("--min-p", "0.25"): lambda s: s.params["min_p"] == 0.25,
    ("--repeat-last-n", "99"): lambda s: s.params["repeat_last_n"] == 99,
    ("--repeat-penalty", "1.5"): lambda s: s.params["repeat_penalty"] == 1.5,
    ("--presence-penalty", "0.5"): lambda s: s.params["presence_penalty"] == 0.5,
    ("--frequency-penalty", "0.5"): lambda s: s.params["frequency_penalty"] == 0.5,
    ("-ctxcp", "3"): lambda s: "context checkpoints enabled, max = 3," in s.log,
    ("-cms", "100"): lambda s: "min spacing = 100" in s.log,
    ("-cram", "55"): lambda s: "size limit: 55 MiB" in s.log,
    ("-no-kvu",): lambda s: "kv_unified            = false" in s.log,
    ("--no-cache-idle-slots",): lambda s: "idle slots will be saved" not in s.log,
    ("--no-warmup",): lambda s: "warming up the model" not in s.log,
    ("-np", "3"): lambda s: s.props["total_slots"] == 3,
    ("-a", "other"): lambda s: s.props["model_alias"] == "other",
    ("--no-ui",): lambda s: s.props["ui"] is False,
    ("--api-key", "k2"): lambda s: s.answers["second key"] == 200,
    ("--threads-http", "5"): lambda s: "using 5 threads for HTTP" in s.log,
    ("--no-cache-prompt",): lambda s: s.answers["again"]["timings"]["cache_n"] == 0,
    ("--cache-reuse", "6"): lambda s: "reuse chunks with size > 6" in s.log,
    ("--metrics",): lambda s: s.answers["metrics"] == 200,
    ("--props",): lambda s: s.props["endpoint_props"] is True,
    ("--no-slots",): lambda s: s.answers["slots"] == 501,
    ("--slot-save-path", "."): lambda s: s.answers["save"] == 200,
    ("--reasoning-budget", "0"): lambda s: "reasoning budget: tokens=0" in s.log,
    ("--chat-template", TEMPLATE): lambda s: "[user] ba" in s.answers["template"],
    ("--no-prefill-assistant",): lambda s: s.answers["template"].count("assistant") == 2,
}
EXCLUDES_OTHERS = ("--cache-reuse",)  # works on cached prompts only, which --no-cache-prompt ends


@pytest.fixture(scope="module")
def bare(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return look(model, tmp_path_factory.mktemp("bare"), BARE, questions)


@pytest.fixture(scope="module")
def flagged(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("flagged")
    flags = [
        str(folder) if word == "." else word
        for flag in TOGETHER
        if flag[0] not in EXCLUDES_OTHERS
        for word in flag
    ]
    return look(model, folder, ("-lv", "5", *flags), questions)


@pytest.mark.parametrize("flag", [f for f in TOGETHER if f[0] not in EXCLUDES_OTHERS], ids=" ".join)
def test_a_flag_shows_its_effect_and_only_with_the_flag(
    flag: tuple[str, ...], bare: Seen, flagged: Seen
) -> None:
    """Given among many others, each flag does what llama-server does for it."""
    assert TOGETHER[flag](flagged)
    assert not TOGETHER[flag](bare)


def test_chunks_of_cached_prompts_are_reused(model: Path, tmp_path: Path) -> None:
    """--cache-reuse reaches the slots."""
    seen = look(model, tmp_path, (*BARE, "--cache-reuse", "6", "--no-warmup"), questions)
    assert TOGETHER["--cache-reuse", "6"](seen)


def test_context_shift_slot_similarity_and_sleep(model: Path, tmp_path: Path) -> None:
    """With shifting, generation passes the context's end; the similarity is the one asked for."""

    def questions(server: LaunchedServer) -> dict[str, Any]:
        complete(server, n_predict=1)
        complete(server, n_predict=1)
        long = complete(server, n_predict=300, ignore_eos=True)
        end = time.monotonic() + 10
        while not ask(server, "/props")[1]["is_sleeping"] and time.monotonic() < end:
            time.sleep(0.05)
        return {"long": long, "asleep": ask(server, "/props")[1]["is_sleeping"]}

    flags = (*BARE, "-np", "2", "--context-shift", "-sps", "0.7")
    seen = look(model, tmp_path, (*flags, "--sleep-idle-seconds", "1"), questions)
    assert seen.answers["long"]["tokens_predicted"] == 300
    assert "(> 0.700 thold)" in seen.log
    assert seen.answers["asleep"] is True


def test_the_legacy_template_engine(model: Path, tmp_path: Path) -> None:
    """--no-jinja falls back to a built-in template, as llama-server does."""

    def question(server: LaunchedServer) -> dict[str, Any]:
        return {"text": ask(server, "/apply-template", {"messages": CHAT})[1]["prompt"]}

    seen = look(model, tmp_path, (*BARE, "--no-jinja", "--no-warmup"), question)
    assert "user\nba<|im_end|>\n" in seen.answers["text"]


def test_embeddings(model: Path, tmp_path: Path) -> None:
    """--embedding and --pooling give one vector for a text."""

    def question(server: LaunchedServer) -> dict[str, Any]:
        return {"reply": ask(server, "/embedding", {"content": "ba be"})}

    seen = look(model, tmp_path, (*BARE, "--embedding", "--pooling", "mean"), question)
    status, reply = seen.answers["reply"]
    assert status == 200
    assert len(reply[0]["embedding"]) == 1


def test_a_draft_model(model: Path, tmp_path: Path) -> None:
    """The draft's flags reach the speculative decoder."""
    flags = (
        *("-md", str(model), "--spec-type", "draft-simple", "-ctkd", "q8_0", "-ctvd", "q8_0"),
        *("--spec-draft-n-max", "5", "--spec-draft-n-min", "2", "--spec-draft-p-min", "0.5"),
        *("-ngld", "0", "-np", "1", "--no-warmup"),
    )
    seen = look(model, tmp_path, (*BARE, *flags), lambda s: {"reply": complete(s, n_predict=20)})
    assert "loading draft model" in seen.log
    assert "n_max=5, n_min=2, p_min=0.500000" in seen.log
    assert "gpu_layers=0, cache_k=q8_0, cache_v=q8_0" in seen.log
    assert seen.answers["reply"]["timings"]["draft_n"] > 0


def test_without_a_number_of_slots_there_are_four_and_one_pool(bare: Seen) -> None:
    """As llama-server: automatic means 4 slots and a unified cache."""
    assert bare.props["total_slots"] == 4
    assert "kv_unified            = true" in bare.log


def test_the_memory_table_is_printed_at_the_end(bare: Seen) -> None:
    """The log is complete: nothing is lost on the way out."""
    assert "memory breakdown" in bare.log
    assert bare.log.rindex("cleaning up before exit") < bare.log.rindex("memory breakdown")


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*embedded().argv, *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    "flag",
    ["--device", "--rpc", "--override-kv", "--log-file", "--kv-unified-per-slot", "--nonsense"],
)
def test_a_flag_that_cannot_be_honoured_is_refused_by_name(flag: str) -> None:
    """Exit code 1, llama-server's words, nothing started."""
    done = run("-m", "x.gguf", flag, "1")
    assert done.returncode == 1
    assert f"error: invalid argument: {flag}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_value_is_refused_with_the_flags_usage() -> None:
    """What was found and what is expected."""
    done = run("-fa", "perhaps")
    assert done.returncode == 1
    assert "error while handling argument \"-fa\": 'perhaps' is none of on," in done.stderr
    assert "--flash-attn [on|off|auto]" in done.stderr


def test_a_variable_of_a_flag_that_cannot_be_honoured_is_refused() -> None:
    """A flag is not ignored for coming from the environment."""
    done = run("-m", "x.gguf", LLAMA_ARG_RPC="host:1")
    assert done.returncode == 1
    assert '"LLAMA_ARG_RPC"' in done.stderr


def test_a_failed_load_ends_with_1_and_no_traceback(tmp_path: Path) -> None:
    """The log says why; Python says nothing."""
    (tmp_path / "bad.gguf").write_bytes(b"this is no model")
    done = run("-m", str(tmp_path / "bad.gguf"), "--port", "0")
    assert done.returncode == 1
    assert "error loading model" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_version_and_devices_are_answered() -> None:
    """As a llama-server would, so that lookup and flag check treat it alike."""
    assert "--ctx-size N" in run("--help").stdout
    assert "xllamacpp" in run("--version").stdout
    assert run("--list-devices").stdout.startswith("Available devices:")


def test_it_runs_as_a_module_too() -> None:
    """`python -m benchsuite.server.embedded` is the same program."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchsuite.server.embedded", "--help"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == run("--help").stdout


def test_starting_imports_little() -> None:
    """Help needs neither the library nor any slow module."""
    done = subprocess.run(
        [sys.executable, "-S", "-X", "importtime", embedded().argv[-1], "--help"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "benchsuite.server.embedded_flags" in imported
    assert not imported & {"xllamacpp", "argparse", "dataclasses", "msgspec", "typing", "pathlib"}


def test_every_flag_sets_an_attribute_of_the_library(tmp_path: Path) -> None:
    """No option is declared that this xllamacpp does not know."""
    values = {
        "--slot-save-path": str(tmp_path),
        "--chat-template-file": __file__,
        "--api-key-file": __file__,
        "--tensor-split": "1,2",
        "--fit-target": "10,20",
    }
    # read as a program, for the library is not to be loaded into this process
    code = (
        "import json, sys\n"
        "from benchsuite.server import embedded, embedded_flags\n"
        "module = embedded._load_library()\n"
        "values = json.loads(sys.argv[1])\n"
        "for option in embedded_flags.OPTIONS:\n"
        "    value = True\n"
        "    if option.read is not None:\n"
        "        for text in (values.get(option.names[-1], '1'), 'on', 'none', 'f16'):\n"
        "            try:\n"
        "                value = option.read(text)\n"
        "                break\n"
        "            except (ValueError, TypeError):\n"
        "                continue\n"
        "        else:\n"
        "            sys.exit(f'no value for {option.names}')\n"
        "    option.put(module.CommonParams(), module, value)\n"
        "    if option.negatives:\n"
        "        option.put(module.CommonParams(), module, False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(values)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-800:]
    assert len(OPTIONS) > 70
