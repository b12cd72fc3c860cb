"""A server that prints its key and our token: neither is kept, printed, or in a command line."""

from __future__ import annotations

import base64
import json
import sys
import urllib.parse
from pathlib import Path

import pytest

from tests.integration.desk import Desk, wait_until

TOKEN = "hf_abc/def+12345678"

_LEAKING = """#!/bin/sh
case "$*" in *--help*) ;; *)
  printf '%s' "$LLAMA_API_KEY" > {told}
  echo "plain $LLAMA_API_KEY $HF_TOKEN"
  echo "header Authorization: Basic $(printf 'me:%s' "$LLAMA_API_KEY" | base64 -w0)"
  tr '\\0' ' ' < /proc/$$/cmdline >> {commands}; echo "$@" >> {commands}
  {last} ;;
esac
PYTHONPATH={path} exec {python} -m benchsuite.server.embedded "$@"
"""


def _forms(secret: str) -> list[bytes]:
    basic = base64.b64encode(f"me:{secret}".encode()).decode()
    quoted = urllib.parse.quote(secret, safe="")
    return [text.encode() for text in (secret, quoted, json.dumps(secret)[1:-1], basic)]


@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="its command line is read from /proc")
@pytest.mark.parametrize("last", ["", 'echo "error: bad key $LLAMA_API_KEY $HF_TOKEN"; exit 1'])
def test_what_a_server_tells_of_its_key_is_hidden(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory, last: str
) -> None:
    """Whether it serves, or dies with the key in its last words."""
    beside = tmp_path_factory.mktemp("beside")
    told, commands = beside / "key", beside / "commands"
    program = beside / "leaking"
    program.write_text(
        _LEAKING.format(
            told=told,
            commands=commands,
            last=last or ":",
            path=desk.env["PYTHONPATH"],
            python=sys.executable,
        )
    )
    program.chmod(0o755)
    done = desk.run(
        *("run", "scenarioB", "--variant", "B", "--server", str(program)),
        *("--json", "out.json", "--html", "out.html", "--junit", "out.xml"),
        HF_TOKEN=TOKEN,
    )
    assert done.code == (4 if last else 0), done.text
    key = told.read_text()
    assert len(key) > 40
    everything = [done.text.encode(), commands.read_bytes()]
    files = [path for path in desk.folder.rglob("*") if path.is_file()]
    everything += [path.read_bytes() for path in files]
    (log,) = [path for path in files if path.name.startswith("server.")]
    assert b"plain *****" in log.read_bytes()
    for secret in (key, TOKEN):
        for form in _forms(secret):
            assert not any(form in data for data in everything), form


_LONG = """title: t
variants:
  B: {}
steps:
  - complete: {id: one, prompt: {tokens: 30}, max_tokens: 4}
  - idle: 10 min
"""


@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="the key is read from /proc")
@pytest.mark.parametrize("leaking", [False, True])
def test_the_log_of_a_run_that_was_killed_tells_no_key(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory, leaking: bool
) -> None:
    """llama-server prints none; what a wrapper printed of it is hidden once the run is reported."""
    beside = tmp_path_factory.mktemp("beside")
    told, program = beside / "key", beside / "server"
    words = 'echo "plain $LLAMA_API_KEY"' if leaking else ":"
    program.write_text(
        f"""#!/bin/sh
case "$*" in *--help*) ;; *) printf '%s' "$LLAMA_API_KEY" > {told}; {words} ;; esac
PYTHONPATH={desk.env["PYTHONPATH"]} exec {sys.executable} -m benchsuite.server.embedded "$@"
"""
    )
    program.chmod(0o755)
    (desk.folder / "long.yaml").write_text(_LONG)
    run = desk.start("run", "long.yaml", "--server", str(program))
    try:
        assert wait_until(desk.has_reply, 60)
    finally:
        run.kill()
        run.communicate()
    key = told.read_text()
    assert len(key) > 40
    (folder,) = (desk.folder / ".benchsuite" / "runs").iterdir()
    (log,) = folder.glob("server.*.log")
    assert (key in log.read_text("utf-8", "replace")) is leaking
    done = desk.run("report", str(folder), "--format", "markdown")
    assert "killed" in done.text, done.text
    assert ("plain *****" in log.read_text("utf-8", "replace")) is leaking
    for path in desk.folder.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes(), path


def test_a_url_with_a_password_is_refused_without_showing_it(desk: Desk, tmp_path: Path) -> None:
    """On the command line and in a configuration."""
    url = "http://me:geheim12@127.0.0.1:1"
    for words in (("run", "scenarioB", "--url", url), ("inspect", "server", url)):
        done = desk.run(*words)
        assert done.code == 2
        assert "geheim12" not in done.text
    (tmp_path / "benchsuite.toml").write_text(f'[deployments.x]\nurl = "{url}"\n')
    done = desk.run("show", "scenarioB", "-d", "x")
    assert done.code == 2
    assert "benchsuite.toml:2: 'url' holds a secret" in done.text
    assert "geheim12" not in done.text
