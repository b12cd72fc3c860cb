"""Secrets of conversations in a reply, others' and one's own; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchsuite.client.reply import Reply
from benchsuite.drive.driver import Served
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement

_SOURCE = "reply content"


def measure_leaks(
    batch: Sequence[Served],
    secrets: Mapping[str, str],
    labels: dict[str, str],
    variant: str,
    trial: int,
) -> tuple[Measurement, list[str]]:
    """The secrets that replies give away, counted, and a sentence for each such reply.

    Args:
        batch: The replies.
        secrets: By session.
        labels: Of the measurement.
        variant: Name of the variant.
        trial: From 1.
    """
    found, warnings = 0, []
    for served in batch:
        names = leaks_in(served.reply, served.labels.get("session"), secrets)
        found += len(names)
        if names:
            warnings.append(leak_words(served, names))
    return leaks_measured(found, labels, variant, trial), warnings


def leaks_measured(count: int, labels: dict[str, str], variant: str, trial: int) -> Measurement:
    """The measurement of so many secrets given away."""
    unit = CATALOGUE["leaks"].unit
    return Measurement("leaks", count, unit, variant, trial, labels, source=_SOURCE)


def leak_words(served: Served, names: Sequence[str]) -> str:
    """A sentence about a reply with the secrets of these sessions."""
    return f"{served.words}: the reply has the secret of session {' and '.join(names)}"


def measure_own(
    served: Served, secrets: Mapping[str, str], variant: str, trial: int
) -> Measurement | None:
    """Whether the reply to a session that has a secret says it; None for any other request."""
    secret = secrets.get(served.labels.get("session", ""))
    if secret is None:
        return None
    said = int(secret.casefold() in _said(served.reply))
    unit = CATALOGUE["own_secrets"].unit
    return Measurement("own_secrets", said, unit, variant, trial, served.labels, source=_SOURCE)


def leaks_in(reply: Reply, session: str | None, secrets: Mapping[str, str]) -> list[str]:
    """The sessions whose secret a reply contains without being theirs.

    Args:
        reply: Text and copies are searched, upper and lower case alike.
        session: Whose reply it is; None for a request outside any session.
        secrets: By session.
    """
    text = _said(reply)
    return [
        name for name, secret in secrets.items() if name != session and secret.casefold() in text
    ]


def _said(reply: Reply) -> str:
    """All that a reply says, its copies too, in lower case."""
    return "\n".join([reply.text, *(copy.text for copy in reply.copies)]).casefold()
