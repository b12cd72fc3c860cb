"""What is looked at in each request of a load step as it comes, in bounded memory; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from benchsuite.client.reply import Reply
from benchsuite.collect.leaks import leak_words, leaks_in
from benchsuite.collect.reconcile import Totals, contradiction_in
from benchsuite.drive.served import Served

MOST_KEPT = 2000
"""Requests of a step, the last ones, whose slots are found and whose caches are explained."""
_MOST_LEAK_WARNINGS = 20
MOST_UNKNOWN = 1000
"""More requests of unknown slots than a server has slots say no more."""

_NOT_KEPT = frozenset({"content", "token_ns", "event_tokens", "sources"})


def kept_of_load(reply: Reply) -> dict[str, Any]:
    """What the journal keeps of a reply to a load step: there may be millions.

    Left out is what grows with each token and what no report reads: the stamp of each token (the
    first and the last stay), the content (the text stays), and which field told a count. Copies
    are left out where there are none.
    """
    names = (name for name in reply.__struct_fields__ if name not in _NOT_KEPT)
    return {name: value for name in names if (value := getattr(reply, name)) != ()}


class LoadSeen:
    """What the requests of one load step have shown.

    Args:
        secrets: By session.

    Attributes:
        last: The last requests served, `MOST_KEPT` at most.
        served: How many in all.
        failed: How many were not, for an error or a timeout.
        totals: Their token counts.
        leaks: Secrets that replies gave away.
        warnings: A sentence for each of the first replies that did.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self.last: deque[Served] = deque(maxlen=MOST_KEPT)
        self.served = 0
        self.failed = 0
        self.totals = Totals()
        self.leaks = 0
        self.warnings: list[str] = []

    def take(self, served: Served) -> str | None:
        """Take a reply; a sentence if its counts contradict each other."""
        self.last.append(served)
        self.served += 1
        self.totals.take(served.reply)
        names = leaks_in(served.reply, None, self._secrets)
        if names:
            self.leaks += len(names)
            if len(self.warnings) < _MOST_LEAK_WARNINGS:
                self.warnings.append(leak_words(served, names))
        problem = contradiction_in(served.reply)
        return None if problem is None else f"{served.words}: {problem}"

    @property
    def unknown(self) -> int:
        """Requests whose slots nobody looked for, as far as that matters."""
        return min(self.served - len(self.last) + self.failed, MOST_UNKNOWN)
