"""Deployments that start their server by a command: what is read, and what is wrong at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.errors import ConfigError
from benchsuite.model.deployment import Command
from benchsuite.scenario.config import load_config

DOCKER = """[deployments.box]
command = ["docker", "run", "--name", "{name}", "-p", "127.0.0.1:{port}:8080", "image", "{flags}"]
container = "{name}"
"""


def _load(folder: Path, text: str) -> Command:
    (folder / "benchsuite.toml").write_text(text)
    command = load_config(folder).deployments["box"].command
    assert command is not None
    return command


def _problems(folder: Path, text: str) -> str:
    (folder / "benchsuite.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(folder)
    return str(caught.value).replace(str(folder / "benchsuite.toml"), "FILE")


def test_a_container_needs_no_more_than_its_name(tmp_path: Path) -> None:
    """The engine is read off the command, and the server is on this host."""
    command = _load(tmp_path, DOCKER)
    assert command.engine == ("docker",)
    assert command.container == "{name}"
    assert command.host == "127.0.0.1"
    assert not command.elsewhere
    assert not command.shares_files


@pytest.mark.parametrize(
    ("first", "engine", "elsewhere"),
    [
        ('"sudo", "-n", "podman", "run"', ("sudo", "-n", "podman"), False),
        ('"ssh", "gpu1", "docker", "run"', ("ssh", "gpu1", "docker"), True),
        ('"/usr/bin/docker", "run"', ("/usr/bin/docker",), False),
    ],
)
def test_the_engine_may_be_called_through_others(
    tmp_path: Path, first: str, engine: tuple[str, ...], elsewhere: bool
) -> None:
    """Also on another host, whose memory is then not to be seen."""
    command = _load(tmp_path, DOCKER.replace('"docker", "run"', first))
    assert command.engine == engine
    assert command.elsewhere is elsewhere


@pytest.mark.parametrize(
    "words",
    [
        '"-e", "HF_TOKEN"',
        '"-e", "LLAMA_API_KEY=$LLAMA_API_KEY"',
        '"--api-key", "$KEY"',
        '"-e", "MODE=fast"',
        '"-e", "HF_TOKEN_PATH=/t"',
        '"-e", "MAX_TOKENS=5"',
        '"-e", "{key_env}"',
        '"--api-key-file", "/run/key"',
        '"--cache-type-k", "q8_0"',
        '"sh", "-c", "exec llama-server --api-key \\"$KEY\\""',
        '"-H", "Authorization: Bearer $KEY"',
        '"ssh://me@host"',
    ],
)
def test_a_secret_may_be_handed_on_by_its_name(tmp_path: Path, words: str) -> None:
    """A variable's name, or what a shell there puts in its place, shows nothing."""
    command = _load(tmp_path, DOCKER.replace('"image"', f'{words}, "image"'))
    assert "image" in command.argv


def test_a_program_with_a_slash_lies_beside_the_configuration(tmp_path: Path) -> None:
    """A bare word is looked up on PATH when it is started."""
    text = '[deployments.box]\ncommand = ["./start", "--port", "{port}", "{flags}"]\n'
    command = _load(tmp_path, text + 'stop = ["stop", "{name}"]\n')
    assert command.argv[0] == str(tmp_path / "start")
    assert command.stop == ("stop", "{name}")
    assert command.shares_files


def test_elsewhere_can_be_said_or_denied(tmp_path: Path) -> None:
    """`srun` may choose another host, and the owner knows whether it does."""
    text = '[deployments.box]\ncommand = ["srun", "llama-server", "--port", "{port}", "{flags}"]\n'
    assert _load(tmp_path, text).elsewhere
    assert not _load(tmp_path, text + "elsewhere = false\n").elsewhere


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"{flags}"]', '"x"]', "FILE:2: 'command' has no '{flags}': the server's flags"),
        ("{port}", "8080", "FILE:2: 'command' has no '{port}': the port where"),
        ("{port}", "{prot}", "FILE:2: 'command': unknown placeholder '{prot}'; did you mean"),
        ("image", "a={flags}", "FILE:2: 'command': 'a={flags}': {flags} becomes several words"),
        ('"docker", "run"', '"docker", "run", "-d"', "FILE:2: '-d': the client must stay"),
        ('"docker", "run"', '"docker", "run", "-itd"', "FILE:2: '-itd': the client must stay"),
        ('"image"', '"image", "--api-key", "k1"', "FILE:2: 'command' holds a secret (--api-key)"),
        ('"image"', '"-e", "HF_TOKEN=hf1", "image"', "FILE:2: 'command' holds a secret (HF_TOKEN)"),
        ('"image"', '"sh", "-c", "DB_PASS=x y", "image"', "holds a secret (DB_PASS)"),
        ('"image"', '"image", "--api_key", "k1"', "holds a secret (--api-key)"),
        ('"image"', '"image", "--api-key=k1"', "holds a secret (--api-key)"),
        ('"image"', '"image", "--api_key=k1"', "holds a secret (--api-key)"),
        ('"image"', '"image", "--hf-token", "hf1"', "holds a secret (--hf-token)"),
        ('"image"', '"image", "-hft", "hf1"', "holds a secret (-hft)"),
        ('"image"', '"sh", "-c", "exec x --api-key k1", "image"', "holds a secret (--api-key)"),
        ('"image"', '"-e", "hf_token=hf1", "image"', "holds a secret (hf_token)"),
        ('"image"', '"curl", "https://u:p@h/x", "image"', "a name or password before '@' of a URL"),
        ('"image"', '"curl", "https://h/x?sig=p", "image"', "holds a secret ('sig=' of a URL)"),
        ('"image"', '"-H", "Authorization: Bearer k1", "image"', "a header with a key"),
        ('container = "{name}"\n', "", "FILE:2: 'command' runs a container, and nothing says"),
        ('container = "{name}"', 'container = "box"', "FILE:3: 'container' is 'box' at every"),
        ('"--name", "{name}", ', "", "FILE:3: 'container' is '{name}', which 'command' does not"),
        ('container = "{name}"', 'container = "{nam}"', "FILE:3: 'container': unknown placeholder"),
        ('container = "{name}"', 'containr = "{name}"', "did you mean 'container'?"),
        ('container = "{name}"', 'container = "{name}"\nstop = "docker stop x"', "FILE:4: 'stop'"),
        ('container = "{name}"', 'container = "{name}"\nstop = ["x", "{model}"]', "not known here"),
        (
            'container = "{name}"',
            'container = "{name}"\nprocess = "a("',
            "not a regular expression",
        ),
        ('container = "{name}"', 'container = "{name}"\npidfile = "x"', "keep one"),
        (
            'container = "{name}"',
            'container = "{name}"\nserver = "x"',
            "does not go with 'command'",
        ),
        (
            'container = "{name}"',
            'container = "{name}"\nrpc = "auto"',
            "does not go with 'command'",
        ),
        ('container = "{name}"', 'container = "{name}"\nurl = "http://x"', "'command' is for a"),
        ('container = "{name}"', 'container = "{name}"\nelsewhere = 1', "expected true or false"),
        ('command = ["docker", "run"', 'xcommand = ["docker", "run"', "there is none"),
        ('["docker", "run"', '[1, "docker", "run"', "FILE:2: 'command': expected a list of texts"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Each with what would have been right."""
    assert old in DOCKER
    assert said in _problems(tmp_path, DOCKER.replace(old, new))


def test_a_pattern_for_a_process_of_another_host_is_refused(tmp_path: Path) -> None:
    """It would look for it on this one."""
    text = '[deployments.box]\ncommand = ["ssh", "gpu1", "x", "--port", "{port}", "{flags}"]\n'
    assert "is looked for on this machine" in _problems(tmp_path, text + 'process = "x"\n')


def test_an_engine_that_is_not_known_must_be_named(tmp_path: Path) -> None:
    """`container` alone does not say whom to ask."""
    text = DOCKER.replace('"docker", "run"', '"./start-container"')
    assert 'name it: engine = ["docker"]' in _problems(tmp_path, text)
    assert _load(tmp_path, text + 'engine = ["podman"]\n').engine == ("podman",)
