"""Secrets of other conversations in a reply; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchsuite.client.reply import Reply
from benchsuite.drive.driver import Served
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement


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
            owners = " and ".join(names)
            warnings.append(f"{served.words}: the reply has the secret of session {owners}")
    unit = CATALOGUE["leaks"].unit
    measured = Measurement("leaks", found, unit, variant, trial, labels, source="reply content")
    return measured, warnings


def leaks_in(reply: Reply, session: str | None, secrets: Mapping[str, str]) -> list[str]:
    """The sessions whose secret a reply contains without being theirs.

    Args:
        reply: Text and copies are searched, upper and lower case alike.
        session: Whose reply it is; None for a request outside any session.
        secrets: By session.
    """
    text = "\n".join([reply.text, *(copy.text for copy in reply.copies)]).casefold()
    return [
        name for name, secret in secrets.items() if name != session and secret.casefold() in text
    ]
