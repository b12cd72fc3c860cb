"""The tiny models are the same on every machine, made once, and never half there."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.errors import UsageError
from benchsuite.server.gguf_facts import read_model_facts
from benchsuite.server.tiny.kinds import KINDS
from benchsuite.server.tiny_model import (
    CACHE_VARIABLE,
    TINY_SHA256,
    TINY_SIZE_BYTES,
    is_tiny_model,
    tiny_model,
    tiny_words,
    write_tiny_model,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, made once for all tests that only read it."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_tiny_model(path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_are_the_ones_of_every_machine(tmp_path: Path, kind: str) -> None:
    """Hash and size of every kind are those that are written down, and it is 1 to 6.2 MB."""
    path = tmp_path / "model.gguf"
    write_tiny_model(path, kind)
    content = path.read_bytes()
    assert len(content) == KINDS[kind].size_bytes
    assert hashlib.sha256(content).hexdigest() == KINDS[kind].sha256
    assert is_tiny_model(path, kind)
    assert 1_000_000 <= len(content) <= 6_200_000


def test_the_default_kind_keeps_its_bytes(model: Path) -> None:
    """Baselines and prompts with wide gaps were made with it."""
    assert TINY_SHA256 == "84a2ae46551589eba6a3fd2b17b7c5f58df1c8eee0eabf6d2f886a89ca8d5a30"
    assert model.stat().st_size == TINY_SIZE_BYTES == 5_586_560
    assert is_tiny_model(model)


def test_each_kind_is_another_model(model: Path, tmp_path: Path) -> None:
    """Kinds lie side by side in the cache, and none is taken for another."""
    paths = {kind: tiny_model(tmp_path, kind=kind) for kind in KINDS}
    assert len({path.name for path in paths.values()}) == len(KINDS)
    assert len({path.read_bytes() for path in paths.values()}) == len(KINDS)
    assert not is_tiny_model(model, "mha")
    assert paths["tiny"].name == f"tiny-{TINY_SHA256[:12]}.gguf"


@pytest.mark.parametrize(
    ("kind", "attention"),
    [
        ("tiny", "full"),
        ("mha", "full"),
        ("swa", "sliding_window"),
        ("recurrent", "recurrent"),
        ("hybrid", "hybrid"),
        ("mla", "full"),
        ("draft", "full"),
        ("embedding", None),
    ],
)
def test_a_kind_is_what_its_header_says(tmp_path: Path, kind: str, attention: str | None) -> None:
    """Our own reader of GGUF headers knows each for what it is."""
    assert read_model_facts(tiny_model(tmp_path, kind=kind)).attention == attention


def test_an_unknown_kind_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    """And nothing is written."""
    with pytest.raises(UsageError, match="unknown kind of tiny model 'gpt'") as refused:
        tiny_model(tmp_path, kind="gpt")
    assert all(kind in (refused.value.hint or "") for kind in KINDS)
    assert list(tmp_path.iterdir()) == []


def test_it_is_made_in_well_under_ten_seconds_and_kept(tmp_path: Path) -> None:
    """The second call finds the file of the first."""
    first = tiny_model(tmp_path)
    made = first.stat().st_mtime_ns
    assert tiny_model(tmp_path) == first
    assert first.stat().st_mtime_ns == made
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    """A cache that was cut, or changed in one byte, is never served."""
    path = tiny_model(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    damaged = {"truncated": bytes(content[:-5]), "changed": bytes(content), "empty": b""}
    path.write_bytes(damaged[damage])
    assert not is_tiny_model(path)
    assert is_tiny_model(tiny_model(tmp_path))


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each writes its own part and renames it."""
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(tiny_model(tmp_path))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert is_tiny_model(found[0])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_replaced_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where the folder should be."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setenv(CACHE_VARIABLE, str(blocked))
    said: list[str] = []
    path = tiny_model(say=said.append)
    assert is_tiny_model(path)
    assert str(path).startswith(str(tmp_path / "tmp"))
    assert "cannot be written" in said[0]


def test_a_cached_model_imports_neither_gguf_nor_numpy(model: Path, tmp_path: Path) -> None:
    """They cost more than a server's start."""
    (tmp_path / f"tiny-{TINY_SHA256[:12]}.gguf").write_bytes(model.read_bytes())
    script = (
        "import sys, pathlib\n"
        "from benchsuite.server.tiny_model import tiny_model\n"
        f"tiny_model(pathlib.Path({str(tmp_path)!r}))\n"
        "print(sorted({'gguf', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.strip() == "[]"


def test_prompts_of_its_words_stay_the_same() -> None:
    """Fixtures hold seeds only."""
    assert tiny_words(1, 3) == tiny_words(1, 3)
    assert tiny_words(1, 30) != tiny_words(2, 30)
    assert tiny_words(5, 4).count(" ") == 4


def test_the_command_writes_it_and_knows_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder gets `tiny.gguf`; the hash is printed; a second call changes nothing."""
    assert run_command_line(["model", "tiny", str(tmp_path)]) == 0
    assert TINY_SHA256 in capsys.readouterr().out
    before = (tmp_path / "tiny.gguf").stat().st_mtime_ns
    time.sleep(0.01)
    assert run_command_line(["model", "tiny", str(tmp_path / "tiny.gguf")]) == 0
    assert "already there" in capsys.readouterr().out
    assert (tmp_path / "tiny.gguf").stat().st_mtime_ns == before


def test_the_command_replaces_nothing_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another file stays unless --force is given."""
    other = tmp_path / "mine.gguf"
    other.write_text("mine")
    assert run_command_line(["model", "tiny", str(other)]) == 2
    assert "--force" in capsys.readouterr().err
    assert other.read_text() == "mine"
    assert run_command_line(["model", "tiny", str(other), "--force"]) == 0
    assert is_tiny_model(other)


@pytest.mark.parametrize(("place", "code"), [("missing/tiny.gguf", 2), ("file/tiny.gguf", 2)])
def test_the_command_names_a_place_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, code: int
) -> None:
    """No folder, or a file in its place."""
    (tmp_path / "file").write_text("")
    assert run_command_line(["model", "tiny", str(tmp_path / place)]) == code
    assert place.split("/")[0] in capsys.readouterr().err


def test_the_command_writes_any_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder gets `tiny-KIND.gguf`; a kind is not taken for another."""
    assert run_command_line(["model", "tiny", str(tmp_path), "--kind", "swa"]) == 0
    assert KINDS["swa"].sha256 in capsys.readouterr().out
    file = tmp_path / "tiny-swa.gguf"
    assert is_tiny_model(file, "swa")
    assert run_command_line(["model", "tiny", str(file), "--kind", "mla"]) == 2
    assert is_tiny_model(file, "swa")


def test_the_command_lists_kinds_where_one_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A usage error, exit 2."""
    assert run_command_line(["model", "tiny", str(tmp_path), "--kind", "gpt"]) == 2
    told = capsys.readouterr().err
    assert "gpt" in told
    assert all(kind in told for kind in KINDS)
    assert list(tmp_path.iterdir()) == []
