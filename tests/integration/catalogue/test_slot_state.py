"""slot-state: it passes on a healthy server, and finds a restore that reuses nothing."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk, wrapper

pytestmark = pytest.mark.server


def test_it_passes_on_tiny_and_leaves_no_saved_slots(desk: Desk) -> None:
    """Saved slots are as large as the KV cache; the run's folder keeps none of them."""
    done = desk.run("run", "slot-state", "--server", "embedded")
    assert done.code == 0, done.text
    (run,) = (desk.folder / ".benchsuite" / "runs").iterdir()
    assert sorted(path.name for path in run.iterdir()) == [
        "record.json",
        "samples.jsonl",
        "server.B.1.log",
        "server.U.1.log",
    ]


def test_broken_files_harm_no_slot(desk: Desk) -> None:
    """Each gets an error, and both slots serve on: on a healthy server `slot-damage` passes."""
    done = desk.run("run", "slot-damage", "--server", "embedded")
    assert done.code == 0, done.text


def test_a_neighbour_that_loses_its_tokens_is_found(desk: Desk) -> None:
    """A failed restore after which nothing is reused any more is no harmless one."""
    server = wrapper(desk.folder / "llama-server", ["--no-cache-prompt"])
    done = desk.run("run", "slot-damage", "--server", str(server))
    assert done.code == 1, done.text
    assert 'cached_tokens{request="neighbour-again"} >= 179' in done.text


def test_a_restore_that_reuses_nothing_fails(desk: Desk) -> None:
    """The restore reports all tokens, and the prompt is evaluated again all the same (#28194)."""
    server = wrapper(desk.folder / "llama-server", ["--no-cache-prompt"])
    done = desk.run("run", "slot-state", "--server", str(server))
    assert done.code == 1, done.text
    assert 'cached_tokens{request=~"after-restore|after-restore-afresh"} >= 199' in done.text
    assert "a restore that reports success and then reuses nothing" in done.text


def test_fewer_threads_change_nothing(desk: Desk) -> None:
    """How fast a server is does not matter to what it saves."""
    server = wrapper(desk.folder / "llama-server", ["--threads", "1"])
    done = desk.run("run", "slot-state", "--server", str(server))
    assert done.code == 0, done.text


def test_a_server_that_dies_is_no_error_reply(desk: Desk) -> None:
    """A step that may fail excuses an answer, not a death."""
    path = desk.folder / "large.yaml"
    path.write_text(
        "title: t\nserver: {parallel: 1, ctx-size: 1024}\nsteps:\n"
        "  - complete: {id: one, prompt: {tokens: 9}}\n"
        "  - complete: {id: two, prompt: {tokens: 9}, may_fail: true}\n"
        "gates:\n  - {metric: 'http_status{request=\"two\"}', equals: 200}\n"
    )
    server = wrapper(desk.folder / "llama-server", [], kill_at_request=2)
    done = desk.run("run", str(path), "--server", str(server))
    assert done.code == 4, done.text
    assert "died during request two" in done.text


def test_files_are_spoilt_only_in_a_folder_of_our_own(desk: Desk) -> None:
    """A folder that the user names may hold slots that are worth something."""
    done = desk.run("run", "slot-damage", "--set", f"slot-save-path={desk.folder}")
    assert done.code == 2, done.text
    assert "spoils files only in the run's own folder" in done.text
    assert not (desk.folder / ".benchsuite").exists()


def test_a_restart_goes_on_in_the_same_log(desk: Desk) -> None:
    """Also where names of variants differ in case only; KV is that of the last load."""
    path = desk.folder / "twice.yaml"
    path.write_text(
        "title: t\nserver: {parallel: 1, ctx-size: 1024}\nsteps:\n"
        "  - complete: {id: one, prompt: {tokens: 9}}\n"
        "  - restart: {}\n"
        "  - complete: {id: two, prompt: {tokens: 9}}\n"
        "variants: {B: {}, b: {}}\n"
        "gates:\n  - {metric: kv_mib, equals: analytic}\n"
        "  - {metric: 'cached_tokens{request=\"two\"}', equals: 0}\n"
    )
    done = desk.run("run", str(path), "--server", "embedded")
    assert done.code == 0, done.text
    (run,) = (desk.folder / ".benchsuite" / "runs").iterdir()
    logs = list(run.glob("*.log"))
    assert len(logs) == 2
    assert all(log.read_text().count("listening on http") == 2 for log in logs)
