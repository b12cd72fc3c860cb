"""A log file is followed while it grows, shrinks, or is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.collect.log_follower import LogFollower
from benchsuite.errors import MachineError

LAUNCH = b"slot launch_slot_: id  %d | task %d | processing task, is_child = 0\n"


def test_only_what_was_appended_is_read(tmp_path: Path) -> None:
    """Each look reads the new bytes, and lists grow."""
    path = tmp_path / "server.log"
    path.write_bytes(LAUNCH % (0, 1))
    follower = LogFollower(path)
    assert follower.poll() == len(LAUNCH % (0, 1))
    assert follower.poll() == 0
    with path.open("ab") as file:
        file.write(LAUNCH % (1, 2))
    follower.poll()
    assert [launch.task for launch in follower.reader.launches] == [1, 2]
    assert follower.warnings == []
    follower.close()


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """Nothing is read until it comes."""
    path = tmp_path / "late.log"
    follower = LogFollower(path)
    assert follower.poll() == 0
    assert follower.facts().bytes_read == 0
    path.write_bytes(LAUNCH % (0, 7))
    follower.poll()
    assert [launch.task for launch in follower.facts().launches] == [7]
    follower.close()


def test_a_truncated_file_is_read_again_and_said_so(tmp_path: Path) -> None:
    """The half line before is no part of the next."""
    path = tmp_path / "server.log"
    path.write_bytes(LAUNCH % (0, 1) + b"half a li" + b"x" * 200)
    follower = LogFollower(path)
    follower.poll()
    path.write_bytes(LAUNCH % (0, 2))
    follower.poll()
    assert [launch.task for launch in follower.reader.launches] == [1, 2]
    assert len(follower.warnings) == 1
    assert "shrank" in follower.warnings[0]
    follower.close()


def test_a_replaced_file_is_followed_on_and_said_so(tmp_path: Path) -> None:
    """What the old file still had is read first."""
    path = tmp_path / "server.log"
    path.write_bytes(LAUNCH % (0, 1))
    follower = LogFollower(path)
    follower.poll()
    with path.open("ab") as file:
        file.write(LAUNCH % (0, 2))
    path.rename(tmp_path / "server.log.1")
    path.write_bytes(LAUNCH % (0, 3))
    follower.poll()
    assert [launch.task for launch in follower.reader.launches] == [1, 2, 3]
    assert "was replaced" in follower.warnings[0]
    follower.close()


def test_a_removed_file_ends_quietly(tmp_path: Path) -> None:
    """What was read stays."""
    path = tmp_path / "server.log"
    path.write_bytes(LAUNCH % (0, 1))
    follower = LogFollower(path)
    follower.poll()
    path.unlink()
    assert follower.poll() == 0
    follower.close()
    assert len(follower.facts().launches) == 1


def test_closing_reads_the_rest_and_the_unfinished_line(tmp_path: Path) -> None:
    """The server has ended, so nothing more will come."""
    path = tmp_path / "server.log"
    path.write_bytes(LAUNCH % (0, 1))
    follower = LogFollower(path)
    follower.poll()
    with path.open("ab") as file:
        file.write((LAUNCH % (1, 5)).rstrip(b"\n"))
    assert [launch.task for launch in follower.facts().launches] == [1]
    follower.close()
    follower.close()
    assert [launch.task for launch in follower.facts().launches] == [1, 5]
    assert follower.poll() == 0


def test_a_large_log_is_read_in_one_look(tmp_path: Path) -> None:
    """Over many chunks."""
    path = tmp_path / "server.log"
    path.write_bytes(b"".join(LAUNCH % (0, task) for task in range(20_000)))
    follower = LogFollower(path)
    assert follower.poll() == path.stat().st_size
    assert len(follower.reader.launches) == 20_000
    follower.close()


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    """One sentence with the path, not the system's bare error."""
    path = tmp_path / "server.log"
    path.mkdir()
    with pytest.raises(MachineError, match=r"server\.log: the server's log cannot be read: Is a"):
        LogFollower(path).poll()
