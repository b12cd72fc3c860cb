"""One session's conversation as it grows."""

from __future__ import annotations

from benchsuite.model.scenario import SessionSpec


class Conversation:
    """The messages of one session so far, and how many turns it has had.

    Args:
        spec: The session.
        system: Text of its system prompt; None sends none.
    """

    def __init__(self, spec: SessionSpec, system: str | None) -> None:
        self.spec = spec
        self.turns = 0
        self._messages: list[dict[str, str]] = []
        if system is not None:
            self._messages.append({"role": "system", "content": system})

    def ask(self, user: str) -> list[dict[str, str]]:
        """The messages of the next turn; the conversation itself grows when it is answered."""
        return [*self._messages, {"role": "user", "content": user}]

    def answered(self, user: str, assistant: str) -> None:
        """Keep a finished turn."""
        self._messages.append({"role": "user", "content": user})
        self._messages.append({"role": "assistant", "content": assistant})
        self.turns += 1

    def skipped(self) -> None:
        """A turn was refused: it counts, and leaves nothing in the conversation."""
        self.turns += 1
