"""Whether a repository was edited since its commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchsuite.pipeline.identity import has_edits


def test_edits_of_tracked_files_are_seen(tmp_path: Path) -> None:
    """Other files, such as stored runs, are no edits; nor is a folder without a repository."""
    assert not has_edits(tmp_path)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "a.yaml").write_text("1")
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "run.json").write_text("1")
    assert not has_edits(tmp_path)
    (tmp_path / "a.yaml").write_text("2")
    assert has_edits(tmp_path)
