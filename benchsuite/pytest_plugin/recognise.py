"""Whether a YAML file is a scenario, told without loading it as YAML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchsuite.regular import read_regular

_MOST_BYTES = 1 << 20  # as the loader takes at most
_KEY = re.compile(r"^([A-Za-z_]+) *:(?: |$)", re.MULTILINE)
_STEPS = "steps"
_TELLING = frozenset({"sessions", "gates", "known_issues"})
"""Beside steps, any of these is a scenario's."""
_OURS = (_STEPS, "server", "prompts", "variants", *sorted(_TELLING))
_NEAR = 0.8  # of difflib's ratio: one letter of five


def is_scenario(path: Path, root: Path, patterns: Sequence[str]) -> bool:
    """Whether pytest is to take a file for a scenario.

    Args:
        path: A file that ends like YAML.
        root: The folder that `patterns` are below.
        patterns: The user's own word for it, as of the ini option; where there are any, they
            alone decide, and a file that they name and that is no scenario is an error.
    """
    if patterns:
        return any(path in root.glob(pattern) for pattern in patterns)
    try:
        if path.stat().st_size > _MOST_BYTES:
            return False
        text = read_regular(path).decode("utf-8")
    except (OSError, ValueError):
        return False
    return looks_like_scenario(text)


def looks_like_scenario(text: str) -> bool:
    """Whether a text has a scenario's shape at its top level: steps and something to hold.

    A key misspelt must not make a scenario vanish, so one that is nearly ours counts, and steps are
    not asked for where three others are there. Pipelines of other programs have steps alone.
    """
    found = {name for key in set(_KEY.findall(text)) if (name := _nearest(key)) is not None}
    return (_STEPS in found and bool(found & _TELLING)) or len(found - {_STEPS}) >= 3


def _nearest(key: str) -> str | None:
    if key in _OURS:
        return key
    import difflib

    return next(iter(difflib.get_close_matches(key, _OURS, n=1, cutoff=_NEAR)), None)
