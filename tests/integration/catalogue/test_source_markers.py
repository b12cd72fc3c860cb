"""source-markers: a lost hook fails, and no server is needed or looked for."""

from __future__ import annotations

from pathlib import Path

from tests.integration.desk import Desk


def _fork(desk: Desk, hooks: dict[str, int]) -> Path:
    """A source folder with so many hooks in each file, named by the deployment `fork`."""
    folder = desk.folder / "fork"
    for name, count in hooks.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("int x;\n" + "    FORK_HOOK(kv); // FORK_HOOK\n" * count)
    (desk.folder / "benchsuite.toml").write_text(
        f'[deployments.fork]\nserver = "{desk.folder}/none"\nsource = "fork"\n'
    )
    return folder


def test_twenty_hooks_pass_without_any_server(desk: Desk) -> None:
    """Lines count, not mentions; the deployment's server does not even exist."""
    _fork(desk, {"src/kv.cpp": 12, "ggml/cuda/concat.cu": 8, "notes.md": 5})
    done = desk.run("run", "source-markers", "-d", "fork")
    assert done.code == 0, done.text
    assert "no server" in done.text


def test_a_lost_hook_fails(desk: Desk) -> None:
    """A merge that drops one of twenty is told with both numbers."""
    _fork(desk, {"src/kv.cpp": 12, "ggml/cuda/concat.cu": 7})
    done = desk.run("run", "source-markers", "-d", "fork")
    assert done.code == 1, done.text
    assert "is 19, but must be 20; mend the source" in done.text


def test_hooks_may_move(desk: Desk) -> None:
    """Where they stand is not judged, and neither is what else the files say."""
    folder = _fork(desk, {"src/kv.cpp": 1, "src/other.h": 19})
    (folder / "src" / "more.cpp").write_text("// nothing of ours\n")
    done = desk.run("run", "source-markers", "-d", "fork")
    assert done.code == 0, done.text


def test_without_a_folder_it_is_not_applicable(desk: Desk) -> None:
    """Nothing applicable is inconclusive, never a pass."""
    done = desk.run("run", "source-markers")
    assert done.code == 3, done.text
    assert "names no source folder" in done.text


def test_a_folder_that_is_not_there_is_said_before(desk: Desk) -> None:
    """A folder that was named and is gone is a fault of the configuration."""
    (desk.folder / "benchsuite.toml").write_text('[deployments.fork]\nsource = "gone"\n')
    done = desk.run("run", "source-markers", "-d", "fork")
    assert done.code == 2, done.text
    assert "is not there" in done.text
