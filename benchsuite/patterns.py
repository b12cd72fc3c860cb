"""Regular expressions that users write, searched in text that others may have written.

An expression that can match the same text in very many ways (`(a|a)*b`) would take for ever, and
nothing could stop it within Python's own `re`. So they are searched by the library `regex`, which
gives up after a time; it reads what `re` reads. Refusing expressions by their form was tried: what
takes too long is not told by form alone (`.*.*.*=` does on a long line, `(a+)+` need not).
"""

from __future__ import annotations

import functools
import re
import time
import warnings
from typing import Any

from benchsuite.errors import UsageError

LIMIT_SECONDS = 1.0
"""Of the processor, for one expression in one process: all that its searches took beyond what their
texts' lengths explain."""

_SECONDS_PER_CHARACTER = 1e-6
"""What a search may take that is not slow; `regex` needs some 10 ns for a plain expression."""

MOST_CHARACTERS = 1000
"""Of an expression."""

_SLOW_SECONDS = 0.01

_spent: dict[str, float] = {}  # expression -> seconds of slow searches


class SlowExpressionError(UsageError):
    """An expression that could not be decided in time; neither found nor not found."""


def problem_of(expression: str) -> str | None:
    """Why a text is no regular expression that we take, or None."""
    if len(expression) > MOST_CHARACTERS:
        return f"it has {len(expression)} characters, more than {MOST_CHARACTERS}"
    try:
        with warnings.catch_warnings():  # of what a later Python may read otherwise
            warnings.simplefilter("ignore")
            re.compile(expression)
            _compiled(expression)
    except RecursionError:
        return "it is nested too deeply"
    except (ValueError, re.error, OverflowError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


def found(expression: str, text: str, *, whole: bool = False) -> bool:
    """Whether the expression is found in the text, or matches all of it.

    Args:
        expression: One that has no `problem_of`.
        text: Of any length.
        whole: The whole text must match.

    Raises:
        SlowExpressionError: It was not decided within `LIMIT_SECONDS`.
    """
    pattern = _compiled(expression)
    search = pattern.fullmatch if whole else pattern.search
    explained = len(text) * _SECONDS_PER_CHARACTER
    left = LIMIT_SECONDS - _spent.get(expression, 0.0)
    began = time.thread_time()  # a machine that is busy makes no expression slow
    try:
        if left <= 0:
            raise TimeoutError
        return search(text, timeout=left + explained) is not None
    except (TimeoutError, MemoryError):
        _spent[expression] = LIMIT_SECONDS
        raise SlowExpressionError(
            f"the regular expression '{expression}' was not decided within {LIMIT_SECONDS:g} s on "
            f"a text of {len(text)} characters: it can match the same text in too many ways",
            hint="write it without repeats within repeats, and with fewer '.*'",
        ) from None
    finally:
        took = time.thread_time() - began - explained
        if took > _SLOW_SECONDS:
            _spent[expression] = _spent.get(expression, 0.0) + took


@functools.lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    import regex  # here, since most commands need none

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return regex.compile(expression, regex.VERSION0)
        except regex.error as error:
            raise ValueError(str(error)) from error
