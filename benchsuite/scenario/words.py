"""How problems name the words that would have been right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from benchsuite.redact import redact

_LIST_UP_TO = 10
_LIST_BESIDE_NEAREST = 6


def remedy(word: str, valid: Iterable[str], what: str = "valid") -> str:
    """What to write instead of `word`, as the end of a sentence: `; did you mean 'load'?`.

    Args:
        word: What was found.
        valid: What would have been right, in the order to show.
        what: What the valid words are, for a short list: `sessions are A, B`.
    """
    known = list(valid)
    parts: list[str] = []
    by_case = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), by_case, n=1, cutoff=0.6)
    if near:
        parts.append(f"did you mean '{by_case[near[0]]}'?")
    if not known:
        parts.append(f"there are no {what}")
    elif len(known) <= (_LIST_BESIDE_NEAREST if near else _LIST_UP_TO):
        parts.append(f"{what}: {', '.join(known)}" if near else f"{what} are: {', '.join(known)}")
    if not parts:
        return ""
    return "; " + (f"{parts[0]} ({parts[1]})" if len(parts) == 2 else parts[0])


_LONGEST = 1000  # characters of a sentence


def shortened(sentence: str) -> str:
    """A sentence that quotes what a file says, without the middle of what is too long to read."""
    sentence = redact(sentence)
    left_out = len(sentence) - _LONGEST
    if left_out <= 0:
        return sentence
    return f"{sentence[:600]} ({left_out} characters left out) {sentence[-400:]}"
