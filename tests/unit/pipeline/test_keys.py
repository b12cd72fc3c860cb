"""Keys come from a variable or a file, are hidden from then on, and no error shows them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchsuite.errors import ConfigError
from benchsuite.model.deployment import Deployment
from benchsuite.pipeline.keys import api_key, key_of, key_warnings
from benchsuite.redact import HIDDEN, redact

KEY = "a-key-of-the-tests-1"


def test_a_key_is_hidden_from_when_it_is_read(tmp_path: Path) -> None:
    """From a variable, or the first line of a file that is not blank."""
    file = tmp_path / "key"
    file.write_text(f"\ufeff\n  \n {KEY} \r\nand more\n")
    assert api_key("K", {"K": KEY}) == KEY
    assert api_key(None, {}, str(file)) == KEY
    assert redact(f"Bearer {KEY}") == f"Bearer {HIDDEN}"
    assert KEY not in repr(key_of(Deployment("x", api_key_file=str(file)), {}))
    assert api_key(None, {}) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"two words-1234\n", "a space"),
        (b"\xff\xfe", "not UTF-8 text"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    """Without a word of what it holds."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        api_key(None, {}, str(file))
    assert said in str(caught.value)
    assert "1234" not in f"{caught.value} {caught.value.hint}"


def test_a_key_has_one_source() -> None:
    """Which of two was meant nobody can tell."""
    with pytest.raises(ConfigError, match="named twice"):
        api_key("K", {"K": KEY}, "file")


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
def test_what_is_unsafe_is_said(tmp_path: Path) -> None:
    """A file that others may read, a way in clear, a key that is too short to be hidden."""
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    open_ = Deployment("x", url="http://gpu1:8080", api_key_file=str(file))
    readable, clear = sorted(key_warnings(open_, KEY))
    assert readable.startswith("other users may read")
    assert "chmod 600" in readable
    assert "in clear to gpu1" in clear
    file.chmod(0o600)
    safe = Deployment("x", url="https://gpu1", api_key_file=str(file))
    assert key_warnings(safe, KEY) == ()
    assert key_warnings(Deployment("x", url="http://127.0.0.1:1"), KEY) == ()
    assert "fewer than 8" in key_warnings(Deployment("x", url="https://h"), "abc")[0]
