"""Lines of a source folder are counted, and what cannot be counted is a sentence, never 0."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchsuite.collect.source_markers import MarkerCount, count_markers, glob_expression
from benchsuite.model.deployment import Deployment
from benchsuite.model.scenario import SourceMarkersStep
from benchsuite.pipeline.markers import measure_markers

_CHILD = "benchsuite.collect.source_markers"
_ENDLESS = "(a+)+b"


def _write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_lines_count_and_not_mentions(tmp_path: Path) -> None:
    """Two mentions on one line are one; the last line needs no newline."""
    folder = _write(tmp_path, a_dot_c="HOOK HOOK\nnothing\nHOOK", sub__b_dot_c="x HOOK\r\n")
    assert count_markers(folder, ["*.c"], r"HOOK$") == MarkerCount(3, 2)


def test_links_binary_files_and_version_control_are_left_out(tmp_path: Path) -> None:
    """A loop of links ends, and a build's objects hold no source."""
    folder = _write(tmp_path, src__a_dot_c="HOOK\n", _dot_git__c_dot_c="HOOK\n")
    (folder / "src" / "loop").symlink_to(folder)
    (folder / "src" / "link.c").symlink_to(folder / "src" / "a.c")
    (folder / "src" / "object.c").write_bytes(b"\0\1HOOK\n")
    assert count_markers(folder, ["**/*.c"], "HOOK") == MarkerCount(1, 1)


def test_a_line_of_several_megabytes_counts_once(tmp_path: Path) -> None:
    """It is looked at in pieces, so that a huge file needs no memory of its size."""
    folder = _write(tmp_path, a_dot_c="HOOK" + " " * 2_500_000 + "HOOK\nHOOK\n")
    assert count_markers(folder, ["a.c"], "HOOK") == MarkerCount(2, 1)


def test_no_file_at_all_is_told(tmp_path: Path) -> None:
    """A glob that matches nothing must not make a hook count of 0."""
    folder = _write(tmp_path, a_dot_c="HOOK\n")
    found = count_markers(folder, ["*.cu"], "HOOK")
    assert found == f"no file of text under {tmp_path} matches *.cu"


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    """What cannot be listed may hold markers."""
    found = count_markers(tmp_path / "gone", ["*.c"], "HOOK")
    assert isinstance(found, str)
    assert "cannot be read" in found


def test_a_pattern_without_end_is_given_up(tmp_path: Path) -> None:
    """Python cannot stop a search from within, so a process of its own is ended."""
    folder = _write(tmp_path, a_dot_c="a" * 60 + "\n")
    found = count_markers(folder, ["*.c"], _ENDLESS, limit_s=1.0)
    assert isinstance(found, str)
    assert "took longer than 1 s" in found


def _counting(parent: psutil.Process) -> psutil.Process:
    """The process that counts below another, once it has begun."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for one in parent.children():
            if _CHILD in one.cmdline():
                return one
        time.sleep(0.02)
    raise AssertionError("nothing counts")


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is guarded there")
def test_a_count_ends_where_we_are_killed(tmp_path: Path) -> None:
    """However long its pattern would take."""
    folder = _write(tmp_path, a_dot_c="a" * 60 + "\n")
    words = (
        f"import pathlib, {_CHILD} as m; "
        f"m.count_markers(pathlib.Path({str(folder)!r}), ['*.c'], {_ENDLESS!r})"
    )
    with subprocess.Popen([sys.executable, "-c", words]) as asking:
        child = _counting(psutil.Process(asking.pid))
        asking.kill()
    child.wait(30)  # raises where it is still there; well below its own limit


def test_a_count_ends_by_itself_where_nobody_ends_it(tmp_path: Path) -> None:
    """In the middle of a search."""
    _write(tmp_path, a_dot_c="a" * 60 + "\n")
    asked = {"folder": str(tmp_path), "globs": ["*.c"], "pattern": _ENDLESS, "limit_s": 0.5}
    done = subprocess.run(
        [sys.executable, "-m", _CHILD, json.dumps(asked)], capture_output=True, timeout=60
    )
    assert done.returncode == 1
    assert b"Timeout" in done.stderr


def test_a_count_that_is_cancelled_holds_nothing_up(tmp_path: Path) -> None:
    """Its thread, for which the loop waits at its end, ends before its time."""
    folder = _write(tmp_path, a_dot_c="a" * 60 + "\n")
    step = SourceMarkersStep(name="m", pattern=_ENDLESS, files=("*.c",), folder="here", line=1)
    own = Deployment(name="own", sources={"here": str(folder)})

    async def cancelled() -> psutil.Process:
        task = asyncio.create_task(measure_markers(step, own, "B", 1))
        child = await asyncio.to_thread(_counting, psutil.Process())
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return child

    began = time.monotonic()
    child = asyncio.run(cancelled())
    assert not child.is_running()
    assert time.monotonic() - began < 50  # its own limit is 60 s


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("*.cu", "ggml/cuda/concat.cu", True),
        ("*.cu", "concat.cuh", False),
        ("src/*.cpp", "src/llama.cpp", True),
        ("src/*.cpp", "src/models/a.cpp", False),
        ("src/**/*.cpp", "src/models/a.cpp", True),
        ("src/**/*.cpp", "src/a.cpp", True),
        ("**/kv-?.h", "a/b/kv-1.h", True),
        ("src/**", "src/a/b.c", True),
        ("a.c", "axc", False),
    ],
)
def test_globs(glob: str, path: str, matches: bool) -> None:
    """A star stays within a folder, two of them do not, and a bare name is one in any folder."""
    assert (re.fullmatch(glob_expression(glob), path) is not None) == matches
