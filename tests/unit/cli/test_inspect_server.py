"""`benchsuite inspect server` against servers of every era, locked, asleep, loading, and others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchsuite.cli.main import run_command_line
from tests.servers.scripted import Answer, scripted_server

RECORDED = Path(__file__).parents[2] / "fixtures" / "http"
OK = Answer(200, b'{"status":"ok"}')
OFF = Answer(501, b'{"error":{"code":501,"message":"no","type":"not_supported_error"}}')
LOADING = Answer(503, b'{"error":{"message":"Loading model","code":503}}')


def _json(body: Any) -> Answer:
    return Answer(200, json.dumps(body).encode())


def _recorded(build: str, slots: str = "slots_idle.json") -> dict[str, Answer]:
    folder = RECORDED / build
    return {
        "/health": OK,
        "/props": Answer(200, (folder / "props.json").read_bytes()),
        "/slots": Answer(200, (folder / slots).read_bytes()),
        "/metrics": Answer(200, (folder / "metrics.txt").read_bytes(), "text/plain"),
    }


OLD_2024 = {
    "/health": _json({"status": "ok", "slots_idle": 1, "slots_processing": 1}),
    "/props": _json(
        {
            "assistant_name": "",
            "default_generation_settings": {"n_ctx": 2048, "model": "llama-2-7b.gguf"},
            "total_slots": 2,
        }
    ),
    "/slots": _json(
        [
            {"id": 0, "id_task": 4, "state": 1, "n_ctx": 2048, "prompt": "x", "next_token": {}},
            {"id": 1, "id_task": -1, "state": 0, "n_ctx": 2048, "prompt": None, "next_token": {}},
        ]
    ),
    "/metrics": Answer(
        200,
        b"llamacpp:prompt_tokens_total 1215\nllamacpp:kv_cache_usage_ratio 0.25\n"
        b"llamacpp:kv_cache_tokens 512\nllamacpp:predicted_tokens_seconds nan\n",
        "text/plain",
    ),
}
OLD_2023 = {"/props": _json({"assistant_name": "", "default_generation_settings": {"n_ctx": 512}})}
ROUTER = {
    "/health": OK,
    "/props": _json(
        {"role": "router", "default_generation_settings": {"n_ctx": 0}, "build_info": "b11434-1"}
    ),
}


def _inspect(
    capsys: pytest.CaptureFixture[str], url: str, *words: str
) -> tuple[int, dict[str, Any]]:
    code = run_command_line(["inspect", "server", url, "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def _values(body: dict[str, Any]) -> dict[str, Any]:
    return {m["name"]: m["value"] for m in body["measurements"] if not m["labels"]}


@pytest.mark.parametrize("build", ["b10092", "b10434", "b11549_embedded"])
def test_recorded_builds_are_read(build: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Slots, context, counters, each with its source; KV memory is named as not visible."""
    with scripted_server(_recorded(build, "slots_busy.json")) as server:
        code, body = _inspect(capsys, server.url)
        assert run_command_line(["inspect", "server", server.url]) == 0
        text = capsys.readouterr().out
    assert code == 0
    assert (body["state"], body["slots"], body["n_ctx_slot"]) == ("ready", 2, 512)
    assert body["kv_unified"] is None
    assert _values(body)["slots_busy"] == 1
    assert _values(body)["n_tokens_max"] == 511
    assert ("prompt_tokens_cached_total" in _values(body)) == (build != "b10092")
    assert {m["source"] for m in body["measurements"]} == {"/props", "/slots", "/metrics"}
    assert "kv_mib" in [one["name"] for one in body["unmeasured"]]
    assert "kv_mib" not in _values(body)
    assert "inspect log" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    flat = " ".join(text.split())
    assert "busy slots 1 /slots" in flat
    assert 'prompt tokens cached, now{slot="1"} 159 tokens /slots' in flat


def test_a_server_of_2024_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Old field names, KV gauges; its build is unknown, and a rate of nothing is no number."""
    with scripted_server(OLD_2024) as server:
        code, body = _inspect(capsys, server.url)
    assert code == 0
    assert body["build"] is None
    values = _values(body)
    assert (values["slots"], values["slots_busy"], values["n_ctx_slot"]) == (2, 1, 2048)
    assert (values["kv_cache_usage_ratio"], values["kv_cache_tokens"]) == (0.25, 512)
    assert "predicted_tokens_seconds" not in values
    assert "/metrics gives no number for predicted_tokens_seconds" in body["notes"]


def test_a_server_without_health_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 2023: no /health, /slots or /metrics, no number of slots."""
    with scripted_server(OLD_2023) as server:
        code, body = _inspect(capsys, server.url)
    assert code == 0
    assert _values(body) == {"n_ctx_slot": 512}
    assert body["slots"] is None
    assert [one["endpoint"] for one in body["unread"]] == ["/slots", "/metrics"]


def test_busy_slots_come_from_health_where_slots_are_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Builds of 2024 count them there."""
    with scripted_server({**OLD_2024, "/slots": OFF}) as server:
        _, body = _inspect(capsys, server.url)
    busy = next(m for m in body["measurements"] if m["name"] == "slots_busy")
    assert (busy["value"], busy["source"]) == (1, "/health")


def test_what_is_off_names_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """Off is nothing unreadable."""
    with scripted_server({**_recorded("b10434"), "/slots": OFF, "/metrics": OFF}) as server:
        assert run_command_line(["inspect", "server", server.url]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "/metrics was not read: it is off; start it with --metrics" in text
    assert "/slots was not read: it is off; start it without --no-slots" in text


def test_an_answer_without_a_metric_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """As of a gateway that has a page for whatever it does not know."""
    page = Answer(200, b"<html>hi</html>", "text/html")
    with scripted_server({**_recorded("b10434"), "/metrics": page}) as server:
        assert run_command_line(["inspect", "server", server.url]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "/metrics was not read: it tells no metric" in text


def test_a_sleeping_server_is_not_woken(capsys: pytest.CaptureFixture[str]) -> None:
    """/health and /props let it sleep; /slots does not, nor /metrics on 10092 and 10434."""
    answers = _recorded("b10434")
    props = json.loads(answers["/props"].body) | {"is_sleeping": True}
    with scripted_server({**answers, "/props": _json(props)}) as server:
        code, body = _inspect(capsys, server.url)
    assert code == 0
    assert server.asked == ["/health", "/props"]
    assert body["state"] == "sleeping"
    assert "slots_busy" not in _values(body)
    assert "would wake it" in body["unread"][0]["reason"]


def test_a_router_is_asked_for_nothing_that_loads_a_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its own context of 0 stands for none."""
    with scripted_server(ROUTER) as server:
        code, body = _inspect(capsys, server.url)
    assert (code, body["state"], body["n_ctx_slot"]) == (0, "router", None)
    assert server.asked == ["/health", "/props"]


def test_a_key_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without, with a wrong, and with the right key; an unset variable is a usage error."""
    monkeypatch.setenv("GOOD", "k1")
    monkeypatch.setenv("WRONG", "k2")
    with scripted_server(_recorded("b10434"), key="k1") as server:
        code, body = _inspect(capsys, server.url)
        assert code == 4
        assert "--api-key-env" in body["hints"][0]
        assert "401" in body["unreadable"][0]
        code, body = _inspect(capsys, server.url, "--api-key-env", "WRONG")
        assert code == 4
        assert "$WRONG is not this server's" in body["hints"][0]
        code, body = _inspect(capsys, server.url, "--api-key-env", "GOOD")
        assert (code, body["unreadable"]) == (0, [])
        assert run_command_line(["inspect", "server", server.url, "--api-key-env", "NONE"]) == 2
    assert "'NONE'" in capsys.readouterr().err


def test_metrics_alone_may_be_locked(capsys: pytest.CaptureFixture[str]) -> None:
    """/props was public in 2024: what was read is printed, and the rest is unreadable."""
    locked = Answer(401, b'{"error":{"code":401,"message":"Invalid API Key"}}')
    with scripted_server({**OLD_2024, "/metrics": locked}) as server:
        code, body = _inspect(capsys, server.url)
    assert code == 4
    assert _values(body)["slots"] == 2
    assert "/metrics answered 401" in body["unreadable"][0]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"/health": LOADING}, "still loading"),
        ({"/health": Answer(503, b'{"status":"loading model"}')}, "still loading"),
        ({"/health": Answer(200, b"<html>", "text/html")}, "'<html>'"),
        ({"/health": OK, "/props": Answer(200, b"<html>", "text/html")}, "'<html>'"),
        ({"/health": _json({"status": "UP"}), "/props": _json({"a": 1})}, "not llama-server's"),
        ({"/health": OK, "/props": _json({"object": "list"})}, "not llama-server's"),
        ({"/health": _json({}), "/props": _json({"total_slots": 1})}, "not llama-server's"),
        ({"/health": OK, "/props": _json([1])}, "should be a JSON object"),
        ({**_recorded("b10434"), "/slots": _json({"slots": []})}, "should be a list of slots"),
        ({**_recorded("b10434"), "/slots": Answer(500, b'{"error":{"message":"x"}}')}, "500: x"),
        ({}, "answered 404"),
    ],
)
def test_what_is_unreadable_exits_4(
    answers: dict[str, Answer], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """For people and for programs, with the reason."""
    with scripted_server(answers) as server:
        code, body = _inspect(capsys, server.url)
        assert run_command_line(["inspect", "server", server.url]) == 4
    text = " ".join(capsys.readouterr().out.split())
    assert code == 4
    assert words in body["unreadable"][0]
    assert "unreadable: " in text
    assert words in text


def test_nobody_listening_exits_4(capsys: pytest.CaptureFixture[str]) -> None:
    """With the address."""
    code, body = _inspect(capsys, "http://127.0.0.1:1")
    assert code == 4
    assert "cannot connect to http://127.0.0.1:1" in body["unreadable"][0]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:8080", "type http://127.0.0.1:8080"),
        ("localhost", "type http://localhost"),
        ("ftp://127.0.0.1/", "expected http://HOST:PORT"),
        ("http://", "expected http://HOST:PORT"),
        ("http://[::1", "expected http://HOST:PORT"),
        ("http://host:99999", "expected http://HOST:PORT"),
        ("http://host:8080/?a=1", "expected http://HOST:PORT"),
        ("http://host:8080/v1/", "type http://host:8080"),
        ("", "expected http://HOST:PORT"),
    ],
)
def test_what_is_no_url_is_a_usage_error(
    url: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked, and the message says what to type."""
    assert run_command_line(["inspect", "server", url]) == 2
    assert words in capsys.readouterr().err


def test_hostile_text_is_made_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences of a server do not reach the terminal."""
    evil = "\x1b]0;title\x07"
    props = {"total_slots": 1, "model_path": evil, "build_info": evil}
    answers = {
        "/health": OK,
        "/props": _json(props),
        "/slots": Answer(500, json.dumps({"error": {"message": evil}}).encode()),
        "/metrics": Answer(200, f'x{{a="{evil}"}} 1\n'.encode(), "text/plain"),
    }
    with scripted_server(answers) as server:
        assert run_command_line(["inspect", "server", server.url]) == 4
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
