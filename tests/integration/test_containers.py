"""A server in a container: measured, told of, stopped and removed, whatever happens to us.

No container engine runs in every place where these tests do, so `docker` is the stand-in
`tests/servers/container_engine.py`: namespaces and cgroup of its own, detached from its client.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from tests.integration.desk import REPOSITORY, Desk, wait_until, wrapper
from tests.integration.engine import DEPLOYMENT, EMBEDDED, EngineDesk, no_namespaces
from tests.integration.test_lifecycle import SLOW

_WHY_NOT = no_namespaces()
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT)),
]

SHORT = """title: short
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 2}
  - {metric: kv_mib, equals: analytic}
"""


@pytest.fixture
def box(desk: Desk) -> EngineDesk:
    """A desk whose deployment `box` runs its server in a container."""
    found = EngineDesk(desk)
    (desk.folder / "short.yaml").write_text(SHORT)
    (desk.folder / "slow.yaml").write_text(SLOW)
    return found


def _values(record: dict[str, Any], name: str) -> list[float]:
    return [
        one["value"]
        for one in record["measurements"]
        if one["name"] == name and "device" not in one["labels"]
    ]


def _unmeasured(record: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in record["unmeasured"] if one["name"] == name)
    return found


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _idling(box: EngineDesk) -> subprocess.Popen[str]:
    """A run on `box` that has measured one turn and now idles."""
    process = box.desk.start("run", "slow.yaml", "-d", "box")
    assert wait_until(box.desk.has_reply)
    assert len(box.containers()) == 1
    return process


def test_scenario_b_in_a_container_is_as_on_the_host(box: EngineDesk) -> None:
    """The same KV memory and cached tokens as the baselines of `tiny`, and no container left."""
    done = box.desk.run("run", "scenarioB", "-d", "box", "--variant", "B", "--against", "tiny")
    assert done.code == 0, done.text
    record = box.desk.last_record()
    assert _values(record, "kv_mib") == [16.0]
    assert _values(record, "cached_tokens")[1:] == [1217] * 11
    identity = hashlib.sha256((box.registry / "images" / "llama.json").read_bytes()).hexdigest()
    assert record["info"]["image"] == f"sha256:{identity}"
    assert box.containers() == []
    assert box.processes() == []


def test_the_memory_is_that_of_the_server_and_not_of_the_client(box: EngineDesk) -> None:
    """It is what the kernel tells of the container's first process, and of its cgroup."""
    process = _idling(box)
    (name,) = box.containers()
    pid = box.state(name)["Pid"]
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    (record_folder,) = (box.desk.folder / ".benchsuite" / "runs").iterdir()

    def newest() -> float | None:
        lines = (record_folder / "samples.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines if '"kind":"memory"' in line]
        return found[-1]["reading"]["rss_bytes"] if found else None

    time.sleep(0.3)
    seen, real = newest(), sum(one.memory_info().rss for one in tree)
    children = psutil.Process(process.pid).children(recursive=True)
    clients = [one for one in children if any("docker" in word for word in one.cmdline())]
    client_bytes = sum(one.memory_info().rss for one in clients)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert seen is not None
    assert clients
    assert abs(seen - real) < 2 * 2**20
    assert abs(seen - client_bytes) > 8 * 2**20


def test_a_container_in_a_cgroup_of_its_own_has_its_memory_read(box: EngineDesk) -> None:
    """`cgroup_mib` where the engine makes a cgroup; else the reason names ours."""
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 0, done.text
    record = box.desk.last_record()
    found = _values(record, "cgroup_mib")
    if found:
        assert 10 < found[0] < 500
    else:
        assert "own cgroup" in _unmeasured(record, "cgroup_mib")["reason"]
    assert _values(record, "rss_mib")[0] > 20


def test_each_launch_has_a_container_of_its_own_name(box: EngineDesk) -> None:
    """Two runs never meet, and neither takes the other's container for its own."""
    names = []
    for _ in range(2):
        done = box.desk.run("run", "short.yaml", "-d", "box")
        assert done.code == 0, done.text
        words = box.desk.last_record()["launches"][0]["server"]["command"]
        names.append(words[words.index("--name") + 1])
    assert len(set(names)) == 2


def test_the_key_is_handed_on_by_name_and_written_nowhere(box: EngineDesk) -> None:
    """It is in the container's environment, and in no command, record, journal or log."""
    entry = box.desk.folder / "entry"
    entry.write_text(
        f'#!/bin/sh\necho "$LLAMA_API_KEY" >> {box.desk.folder}/keys\n'
        f'exec {" ".join(EMBEDDED)} "$@"\n'
    )
    entry.chmod(0o755)
    box.image("llama", [str(entry)])
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 0, done.text
    key = (box.desk.folder / "keys").read_text().split()[-1]
    assert re.fullmatch(r"benchsuite-key-[0-9a-f]{48}", key)
    (folder,) = (box.desk.folder / ".benchsuite" / "runs").iterdir()
    for path in folder.iterdir():
        assert key not in path.read_text()
    assert key not in done.text
    words = box.desk.last_record()["launches"][0]["server"]["command"]
    assert words[words.index("-e") + 1] == "LLAMA_API_KEY"


def test_a_server_that_was_not_given_its_key_is_warned_of(box: EngineDesk) -> None:
    """It works, and everyone on its network could use it."""
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert "was not given its key" not in done.text
    assert not box.desk.last_record()["launches"][0]["warnings"]
    box.declare(DEPLOYMENT.replace('"-e", "{key_env}", ', ""))
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 0, done.text
    assert "was not given its key" in " ".join(box.desk.last_record()["launches"][0]["warnings"])


def test_a_killed_run_leaves_no_container(box: EngineDesk) -> None:
    """`kill -9` of benchsuite: the guard has the engine remove what it does not descend from."""
    process = _idling(box)
    assert box.processes()
    process.kill()
    process.communicate(timeout=20)
    assert wait_until(lambda: box.containers() == [] and box.processes() == [], 10)


def test_a_run_killed_while_it_asks_for_the_help_leaves_no_container(box: EngineDesk) -> None:
    """A container that only answers a question is told to a guard, too."""
    box.image("llama", ["sleep", "300"])
    process = box.desk.start("run", "short.yaml", "-d", "box")
    assert wait_until(lambda: bool(box.containers()))
    process.kill()
    process.communicate(timeout=20)
    assert wait_until(lambda: box.containers() == [], 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_removes_its_container(box: EngineDesk, number: int) -> None:
    """Exit 130, and nothing is left by the time that benchsuite ends."""
    process = _idling(box)
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130, out
    assert box.containers() == []
    assert box.processes() == []


def test_a_container_whose_client_is_killed_is_stopped(box: EngineDesk) -> None:
    """The end of the client is the end of the launch, and it is told apart from a crash inside."""
    (box.desk.folder / "slow.yaml").write_text(SLOW.replace("idle: 60", "idle: 1.5"))
    process = _idling(box)
    for one in psutil.Process(process.pid).children(recursive=True):
        if "run" in one.cmdline():
            one.kill()
    out, _ = process.communicate(timeout=30)
    text = " ".join(out.split())
    assert process.returncode == 4, text
    assert "still ran, and was stopped" in text
    assert box.containers() == []


def test_a_crash_inside_is_told_with_its_assertion(box: EngineDesk) -> None:
    """Exit 4: the assertion from the log, the signal from the engine, and no container left."""
    server = wrapper(
        box.desk.folder / "llama-server",
        [],
        abort_on=("processing task", "/src/concat.cpp:165: GGML_ASSERT(a == b) failed"),
    )
    box.image("llama", [str(server)])
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 4, done.text
    assert "concat.cpp:165: GGML_ASSERT(a == b) failed" in done.text
    launch = box.desk.last_record()["launches"][0]
    assert launch["failure"]["kind"] == "crash"
    # a namespace's first process cannot send itself SIGABRT; abort() then ends it by SIGSEGV
    assert launch["failure"]["forensics"]["signal"] in (signal.SIGABRT, signal.SIGSEGV)
    assert box.containers() == []


def test_a_container_over_its_memory_limit_is_said_to_be(box: EngineDesk) -> None:
    """`OOMKilled` of the engine in words, instead of a bare signal 9."""
    image = box.registry / "images" / "llama.json"
    image.write_text(image.read_text()[:-1] + ', "oom_on": "processing task"}')
    done = box.desk.run("run", "slow.yaml", "-d", "box")
    assert done.code == 4, done.text
    assert "reached its memory limit (OOMKilled)" in done.text


def test_an_image_that_exits_at_once_is_a_failed_start(box: EngineDesk) -> None:
    """Exit 4 without waiting for the start limit, with its code and its last words."""
    script = 'case " $* " in *" --help "*) exec "$@";; esac; echo "no GPU for me"; exit 3'
    entry = ["sh", "-c", script, "sh"]
    box.image("llama", [*entry, *EMBEDDED])
    started = time.monotonic()
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 4, done.text
    assert "exited with code 3: no GPU for me" in done.text
    assert time.monotonic() - started < 30
    assert box.containers() == []


def test_an_image_that_never_answers_is_removed_at_the_limit(box: EngineDesk) -> None:
    """A first process without a handler is deaf to TERM, as in any container: it is killed."""
    script = 'case " $* " in *" --help "*) exec "$@";; esac; echo loading; exec sleep 300'
    box.image("llama", ["sh", "-c", script, "sh", *EMBEDDED])
    done = box.desk.run(
        *("run", "short.yaml", "-d", "box", "--start-limit", "10", "--stop-limit", "1")
    )
    assert done.code == 4, done.text
    assert "not healthy within 10 s of its launch; its last line: loading" in done.text
    assert box.desk.last_record()["launches"][0]["end"]["how"] == "forced"
    assert box.containers() == []
    assert box.processes() == []


def test_an_engine_that_does_not_run_is_the_machine_s_failure(box: EngineDesk) -> None:
    """Exit 5: it may run the next time."""
    program = box.desk.folder / "docker"
    program.write_text(
        '#!/bin/sh\necho "docker: Cannot connect to the Docker daemon at unix:///run/x.sock. Is the'
        ' docker daemon running?" >&2\nexit 125\n'
    )
    program.chmod(0o755)
    box.declare(DEPLOYMENT.replace('"docker"', '"./docker"'))
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 5, done.text
    assert "Cannot connect to the Docker daemon" in done.text


def test_an_image_that_is_not_there_is_named_before_anything_runs(box: EngineDesk) -> None:
    """Exit 2, at the deployment's line, with the engine's own words and what was asked."""
    box.declare(DEPLOYMENT.replace('"llama"', '"lama"'))
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 2, done.text
    assert "benchsuite.toml:1: the help of deployment 'box' could not be read" in done.text
    assert "pull access denied for lama" in done.text
    assert "docker run --name benchsuite-" in done.text


def test_a_help_that_is_none_is_said_with_what_was_asked(box: EngineDesk) -> None:
    """Exit 2: a wrong `help` is not taken for a server without flags."""
    box.declare(DEPLOYMENT + 'help = ["docker", "inspect", "nothing"]\n')
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 2, done.text
    assert "No such container: nothing" in done.text
    assert "say with 'help' how to ask for it" in done.text


def test_a_flag_that_the_image_lacks_is_refused(box: EngineDesk) -> None:
    """Flags are held against the help of what is in the image."""
    done = box.desk.run("run", "short.yaml", "-d", "box", "--set", "overlap-batches=true")
    assert done.code == 2, done.text
    assert "the server of deployment 'box' has no flag 'overlap-batches'" in done.text


def test_a_lost_race_for_the_port_is_run_again(box: EngineDesk) -> None:
    """The engine's word for a port that is taken leads to another launch on another port."""
    entry = box.desk.folder / "once"
    entry.write_text(
        "#!/bin/sh\n"
        f'if [ ! -e {box.desk.folder}/tried ] && ! echo " $* " | grep -q -- --help; then\n'
        f"  touch {box.desk.folder}/tried\n"
        '  echo "Error response from daemon: Bind for 127.0.0.1:1 failed: port is already'
        ' allocated"; exit 125\nfi\nexec ' + " ".join(EMBEDDED) + ' "$@"\n'
    )
    entry.chmod(0o755)
    box.image("llama", [str(entry)])
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 0, done.text
    assert (box.desk.folder / "tried").exists()


def test_a_log_command_gives_the_log_that_the_client_does_not(box: EngineDesk) -> None:
    """`docker logs -f` beside a client that says nothing: KV memory all the same."""
    quiet = DEPLOYMENT.replace('command = [\n  "docker"', 'command = [\n  "./quiet"')
    box.declare(quiet + 'engine = ["docker"]\nlog = ["docker", "logs", "-f", "{name}"]\n')
    program = box.desk.folder / "quiet"
    program.write_text('#!/bin/sh\necho client >&2\nexec docker "$@" 2>/dev/null\n')
    program.chmod(0o755)
    box.declare(
        quiet
        + 'engine = ["docker"]\nlog = ["docker", "logs", "-f", "{name}"]\n'
        + 'help = ["docker", "run", "--rm", "llama", "--help"]\n'
    )
    done = box.desk.run("run", "short.yaml", "-d", "box")
    assert done.code == 0, done.text
    (folder,) = (box.desk.folder / ".benchsuite" / "runs").iterdir()
    assert (folder / "client.default.1.log").read_text() == "client\n"
    assert _values(box.desk.last_record(), "kv_mib") == [2.0]


def test_restarts_use_one_container_after_another(box: EngineDesk) -> None:
    """A scenario that restarts its server gets a fresh container, and none is left."""
    (box.desk.folder / "again.yaml").write_text(SHORT.replace("gates:", "  - restart: {}\ngates:"))
    done = box.desk.run("run", "again.yaml", "-d", "box")
    assert done.code == 0, done.text
    assert _values(box.desk.last_record(), "rss_mib")[0] > 20
    assert box.containers() == []


def test_a_scenario_that_saves_slots_is_not_applicable(box: EngineDesk) -> None:
    """The container does not see our folder, so nothing is launched that could not save."""
    done = box.desk.run("run", "slot-state", "-d", "box")
    assert done.code == 3, done.text
    assert "does not share our folders" in done.text


def _declare_far(box: EngineDesk, stop: str) -> None:
    """A deployment behind ssh, with a stop command for what ssh leaves running."""
    model = box.desk.tiny_model()
    server = f"PYTHONPATH={REPOSITORY} {' '.join(EMBEDDED)}"
    box.declare(
        "[deployments.far]\n"
        f'command = ["ssh", "-o", "SendEnv={{key_env}}", "gpu1", "{server}", "--model", '
        '"{model}", "--host", "{host}", "--port", "{port}", "{flags}"]\n'
        f'stop = ["ssh", "gpu1", "{stop}"]\n'
        f'model_inside = "{model}"\n'
    )
    scenario = SHORT.replace("  - {metric: kv_mib, equals: analytic}\n", "")
    (box.desk.folder / "short.yaml").write_text(scenario)


def _far_servers(box: EngineDesk) -> list[psutil.Process]:
    model = str(box.desk.tiny_model())
    found = []
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if model in words and words[0] == sys.executable:
            found.append(one)
    return found


def test_a_server_on_another_host_is_driven_and_its_memory_not_applicable(
    box: EngineDesk,
) -> None:
    """Through ssh: the key by name, the model's path there, and a stop command for what stays."""
    _declare_far(box, "pkill -f '[-]-port {port}'")
    done = box.desk.run("run", "short.yaml", "-d", "far", STAND_IN_HOSTS="gpu1")
    assert done.code == 0, done.text
    record = box.desk.last_record()
    missing = _unmeasured(record, "rss_mib")
    assert missing["outcome"] == "not_applicable"
    assert "on another host" in missing["reason"]
    assert record["fingerprint"]["machine"] is None
    assert not record["launches"][0]["warnings"]
    assert _far_servers(box) == []
    done = box.desk.run("run", "short.yaml", "-d", "far")
    assert done.code == 2, done.text
    assert "connect to host gpu1 port 22: Connection refused" in done.text


def test_a_stop_command_that_fails_is_told_with_what_it_left_running(box: EngineDesk) -> None:
    """Exit 4: whatever is measured next would be measured beside a server that nobody ended."""
    _declare_far(box, "pkill -f -- --port {port}")  # one pattern too many, as pkill says
    try:
        done = box.desk.run(
            "run", "short.yaml", "-d", "far", "--stop-limit", "1", STAND_IN_HOSTS="gpu1"
        )
        assert done.code == 4, done.text
        assert "still answers at 127.0.0.1:" in done.text
        assert "'stop' failed: ssh exited with code" in done.text
    finally:
        for one in _far_servers(box):
            one.kill()


def test_a_restart_goes_no_further_beside_the_server_that_it_could_not_end(
    box: EngineDesk,
) -> None:
    """No second server is started, whose figures would be of a device shared with the first."""
    _declare_far(box, "pkill -f -- --port {port}")
    short = (box.desk.folder / "short.yaml").read_text()
    (box.desk.folder / "again.yaml").write_text(short.replace("gates:", "  - restart: {}\ngates:"))
    try:
        done = box.desk.run(
            "run", "again.yaml", "-d", "far", "--stop-limit", "1", STAND_IN_HOSTS="gpu1"
        )
        assert done.code == 4, done.text
        assert len(_far_servers(box)) == 1
        failure = box.desk.last_record()["launches"][0]["failure"]
        assert failure["step"] == "restarting"
        assert "still answers at 127.0.0.1:" in failure["message"]
    finally:
        for one in _far_servers(box):
            one.kill()


def test_a_killed_run_ends_what_ssh_has_left(box: EngineDesk) -> None:
    """`kill -9` of benchsuite: the guard runs the stop command."""
    _declare_far(box, "pkill -f '[-]-port {port}'")
    box.desk.env["STAND_IN_HOSTS"] = "gpu1"
    process = box.desk.start("run", "slow.yaml", "-d", "far")
    assert wait_until(box.desk.has_reply)
    assert len(_far_servers(box)) == 1
    process.kill()
    process.communicate(timeout=20)
    assert wait_until(lambda: _far_servers(box) == [], 10)


def test_a_container_that_someone_else_runs_is_observed(box: EngineDesk) -> None:
    """Its log is the engine's, its memory that of its process; it is left as it was."""
    model = box.desk.tiny_model()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ["--host", "127.0.0.1", "--port", str(port), "--model", "/srv/model.gguf"]
    start = ["docker", "run", "-d", "--name", "theirs", "--network", "host"]
    start += ["-v", f"{model}:/srv/model.gguf:ro", "llama", *place, "-lv", "4", "--parallel", "1"]
    subprocess.run(start, env=box.desk.env, check=True, capture_output=True)
    try:
        assert wait_until(lambda: _answers(port))
        box.declare(
            f'[deployments.live]\nurl = "http://127.0.0.1:{port}"\n'
            'observe = { container = "theirs" }\n'
        )
        done = box.desk.run("run", "short.yaml", "-d", "live")
        pid = box.state("theirs")["Pid"]
        assert psutil.Process(pid).is_running()
    finally:
        subprocess.run(["docker", "rm", "-f", "theirs"], env=box.desk.env, capture_output=True)
    assert done.code == 0, done.text
    record = box.desk.last_record()
    assert len(_values(record, "kv_mib")) == 1
    assert _values(record, "rss_mib")[0] > 10
    assert box.processes() == []
