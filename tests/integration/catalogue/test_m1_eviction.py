"""m1-eviction: it passes on a healthy server, and finds a host cache that gives nothing back."""

from __future__ import annotations

import pytest

from tests.integration.desk import Desk, wrapper

pytestmark = pytest.mark.server


def test_it_passes_on_tiny(desk: Desk) -> None:
    """Evictions, refusals and a full unified cache leave a healthy server as it was."""
    done = desk.run("run", "m1-eviction", "--server", "embedded")
    assert done.code == 0, done.text


def test_a_host_cache_that_gives_nothing_back_fails(desk: Desk) -> None:
    """Its flag is given and the cache is off all the same: what was evicted is evaluated again."""
    server = wrapper(desk.folder / "llama-server", ["--cache-ram", "0"])
    done = desk.run("run", "m1-eviction", "--variant", "H", "--server", str(server))
    assert done.code == 1, done.text
    assert 'cached_tokens{session=~"A|B|C",turn="2"} >= 340' in done.text


def test_fewer_threads_change_nothing(desk: Desk) -> None:
    """The gates stand on gaps that another order of sums does not close."""
    server = wrapper(desk.folder / "llama-server", ["--threads", "1"])
    done = desk.run("run", "m1-eviction", "--variant", "H", "--server", str(server))
    assert done.code == 0, done.text
