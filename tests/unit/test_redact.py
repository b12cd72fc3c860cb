"""Secrets are hidden however they are written, and nothing else is."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite import redact as module
from benchsuite.errors import ServerLiedError
from benchsuite.redact import (
    HIDDEN,
    Key,
    beginning,
    beginning_of_bytes,
    hide_in_file,
    is_secret_name,
    learn,
    learn_environment,
    new_key,
    redact,
    redact_bytes,
    redact_json,
    secret_in_url,
)

SECRET = "sk-9\"/+\\ä<&'x="


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    module.forget()
    yield
    module.forget()


@pytest.mark.parametrize("key", ["k" + "3f9a" * 8, "k1" + "ab9" * 200, "own"])
def test_a_secret_across_a_cut_is_hidden_whole(key: str) -> None:
    """However often it stands before the cut, since what is hidden is shorter than what was."""
    if key == "own":
        key = str(new_key())
    learn(key)
    for before in (0, 30, 55, 79, 4080):
        text = "x" * before + f"{key} " * 9
        for most in (80, 600, 4096):
            shown = beginning(text, most)
            assert len(shown) <= most
            for piece in (key[:16], key[-16:]):
                assert piece not in shown
                if len(text) > most:
                    assert piece.encode() not in beginning_of_bytes(text.encode(), most)
            assert HIDDEN in shown or before >= most - len(HIDDEN)


def _written(secret: str) -> dict[str, str]:
    """The forms in which a server or a library may write a secret."""
    quoted = urllib.parse.quote(secret, safe="")
    basic = base64.b64encode(f"me:{secret}".encode()).decode()
    return {
        "plain": secret,
        "header": f"Authorization: Bearer {secret}",
        "URL": f"http://h/?x={quoted}",
        "lower": quoted.lower() if secret.islower() else quoted,
        "JSON": json.dumps({"error": secret}),
        "raw JSON": json.dumps({"error": secret}, ensure_ascii=False),
        "JSON in JSON": json.dumps(json.dumps(secret)),
        "slashes": json.dumps(secret).replace("/", "\\/"),
        "HTML": html.escape(secret),
        "basic": f"Basic {basic}",
        "basic, other user": base64.b64encode(f"mee:{secret}".encode()).decode(),
        "URL-safe": base64.urlsafe_b64encode(f"meee:{secret}".encode()).decode(),
    }


@pytest.mark.parametrize("secret", [SECRET, "hf_abcdefgh12345678", "benchsuite-key-" + "5be0" * 12])
@pytest.mark.parametrize("form", _written("x"))
def test_a_secret_is_hidden_in_every_form(secret: str, form: str) -> None:
    """In text and in bytes; what stands before stays."""
    learn(secret)
    text = f"before {_written(secret)[form]} after"
    hidden = redact(text)
    assert HIDDEN in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith("after")
    for other in _written(secret).values():
        assert other not in hidden
    assert secret.encode() not in redact_bytes(text.encode())


@given(st.text(st.characters(codec="utf-8"), min_size=8), st.text(), st.text())
def test_any_secret_leaves_any_text(secret: str, before: str, after: str) -> None:
    """Also as JSON, which stays JSON and keeps its numbers."""
    module.forget()
    learn(secret)
    assert HIDDEN in redact(before + secret + after)
    event = {"ns": 12345678, "text": before + secret + after}
    read = json.loads(redact_json(json.dumps(event).encode()))
    assert read["ns"] == 12345678
    if not set(secret) <= set(HIDDEN):
        assert secret not in read["text"].replace(HIDDEN, "")


def test_a_key_of_digits_does_not_break_numbers() -> None:
    """Only texts of JSON are touched."""
    learn("123456789")
    assert redact_json(b'{"ns":1234567890,"t":"k 123456789"}') == (
        b'{"ns":1234567890,"t":"k (hidden)"}'
    )


def test_what_holds_no_secret_is_the_same_object() -> None:
    """So that the usual case costs a search and no more."""
    learn("hf_abcdefgh12345678")
    data = b'{"text":"nothing here"}'
    assert redact_json(data) is data
    assert redact_bytes(data) is data


def test_a_short_key_is_hidden_behind_its_header_only() -> None:
    """`secret` everywhere else may be the name of a metric."""
    assert not learn("secret")
    assert redact("own_secrets of Bearer secret; api_key: secret") == (
        f"own_secrets of Bearer {HIDDEN}; api_key: {HIDDEN}"
    )


def test_random_keys_are_known_without_being_learnt(tmp_path: Path) -> None:
    """Another process may have made them, and been killed."""
    key = new_key()
    assert redact(f"key {key}.") == f"key {HIDDEN}."
    log = tmp_path / "server.log"
    log.write_text(f"key {key}.\n")
    assert hide_in_file(log) == 1
    assert log.read_text() == f"key {'*' * len(key)}.\n"


@pytest.mark.parametrize("chunk", [1, 7, 16, 1000])
def test_a_log_keeps_its_size(tmp_path: Path, chunk: int) -> None:
    """Also where a secret lies across two reads."""
    secret = "hf_abcdefgh12345678"
    learn(secret)
    log = tmp_path / "server.log"
    text = f"a {secret} b {secret}{secret} c\n"
    log.write_text(text)
    assert hide_in_file(log, chunk_bytes=chunk) >= 3
    assert log.read_text() == text.replace(secret, "*" * len(secret))
    assert hide_in_file(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *[(name, True) for name in ("HF_TOKEN", "LLAMA_API_KEY", "my_api_key", "DB_PASS")],
        *[(name, True) for name in ("PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "apiKey", "API_KEYS")],
        *[(name, True) for name in ("hf-token", "X-Amz-Signature", "X-Amz-Credential", "sig")],
        *[(name, False) for name in ("HF_TOKEN_PATH", "API_KEY_FILE", "MAX_TOKENS", "KEYMAP")],
        *[(name, False) for name in ("SSH_AUTH_SOCK", "AWS_ACCESS_KEY_ID", "BYPASS", "PWD", "")],
        *[(name, False) for name in ("TOKENIZERS_PARALLELISM", "cache-type-k", "COMPASS")],
    ],
)
def test_secrets_are_told_by_their_names(name: str, secret: bool) -> None:
    """By whole words, and not where the name says that the value is a path."""
    assert is_secret_name(name) is secret


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("https://user:pw@h/x", "https://(hidden)@h/x"),
        ("https://ghp_abc@h/x", "https://(hidden)@h/x"),
        ("https://h/x?token=abc&y=1", "https://h/x?token=(hidden)&y=1"),
        ("https://h/m.gguf?X-Amz-Signature=ab#f", "https://h/m.gguf?X-Amz-Signature=(hidden)#f"),
        ("http://h/?a=1&api_key=k", "http://h/?a=1&api_key=(hidden)"),
    ],
)
def test_secrets_of_urls_are_hidden_unlearnt(url: str, hidden: str) -> None:
    """By where they stand."""
    assert redact(f"see {url} there") == f"see {hidden} there"
    assert secret_in_url(url) is not None


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "ssh://me@host/x", "https://h/?n=1", "x"])
def test_other_urls_stay(url: str) -> None:
    """A user of ssh is no secret."""
    assert redact(url) == url
    assert secret_in_url(url) is None


def test_an_environment_teaches_what_looks_like_a_secret() -> None:
    """Words and paths are no secrets, whatever the variable is called."""
    words = {"TOKEN": "postgres", "MY_KEY": "/root/a1b2c3d4", "A": "a1b2c3d4"}
    learn_environment({"HF_TOKEN": "hf_1234567890", **words})
    text = "hf_1234567890 postgres /root/a1b2c3d4 a1b2c3d4"
    assert redact(text) == text.replace("hf_1234567890", HIDDEN)


def test_errors_and_representations_show_no_secret() -> None:
    """An error may hold what the server said; a traceback with locals shows representations."""
    learn("hf_1234567890")
    error = ServerLiedError("it said hf_1234567890", where="hf_1234567890", hint="hf_1234567890")
    assert "hf_1234567890" not in f"{error} {error.message} {error.where} {error.hint}"
    assert "abc" not in repr(Key("abc"))
    assert f"{Key('abc')}" == "abc"
