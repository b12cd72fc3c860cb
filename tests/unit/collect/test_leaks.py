"""Secrets of other conversations are found in replies, one's own are not."""

from __future__ import annotations

import msgspec

from benchsuite.client.reply import Copy
from benchsuite.collect.leaks import leaks_in, measure_leaks, measure_own
from tests.unit.collect.test_explain import served

SECRETS = {"A": "bebo", "B": "dazo kise"}


def test_only_the_secrets_of_others_are_leaks() -> None:
    """A request outside any session has none of its own; case does not matter."""
    reply = served("r", "p", 0, reply=" nagi Bebo dazo").reply
    assert leaks_in(reply, "B", SECRETS) == ["A"]
    assert leaks_in(reply, "A", SECRETS) == []
    assert leaks_in(reply, None, SECRETS) == ["A"]


def test_every_copy_is_searched() -> None:
    """A leak may be in any of several completions."""
    reply = served("r", "p", 0, reply=" nagi").reply
    copies = (Copy(" nagi", 0, 2, 1, 0), Copy(" dazo kise", 0, 2, 2, 1))
    reply = msgspec.structs.replace(reply, copies=copies)
    assert leaks_in(reply, "A", SECRETS) == ["B"]


def test_leaks_are_counted_and_named() -> None:
    """The sum over a step's replies, and whose secret was in which."""
    batch = [served(str(i), "p", i, reply=text).served for i, text in enumerate((" bebo", " x"))]
    measured, warnings = measure_leaks(batch, SECRETS, {"step": "s"}, "B", 1)
    assert measured.value == 1
    assert warnings == ["request 0: the reply has the secret of session A"]


def test_ones_own_secret_is_looked_for_too() -> None:
    """1 where it is said, 0 where not; a request outside any session has none."""
    told = served("r", "p", 0, reply=" nagi Bebo").served
    told = msgspec.structs.replace(told, labels={"session": "A", "turn": "1"})
    found = measure_own(told, SECRETS, "B", 1)
    assert found is not None
    assert (found.name, found.value, found.labels) == ("own_secrets", 1, told.labels)
    silent = msgspec.structs.replace(told, labels={"session": "B", "turn": "1"})
    found = measure_own(silent, SECRETS, "B", 1)
    assert found is not None
    assert found.value == 0
    assert measure_own(served("r", "p", 0).served, SECRETS, "B", 1) is None
