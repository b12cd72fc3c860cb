"""Whether a YAML file is a scenario, told without loading it as YAML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_MOST_BYTES = 1 << 20  # as the loader takes at most
_KEY = re.compile(r"^([A-Za-z_]+) *:(?: |$)", re.MULTILINE)
_OURS = frozenset({"server", "prompts", "sessions", "variants", "gates", "known_issues"})


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
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return looks_like_scenario(text)


def looks_like_scenario(text: str) -> bool:
    """Whether a text has a scenario's shape at its top level: steps, and two things of ours.

    One key misspelt must not make a scenario vanish, so not all of them are asked for; pipelines
    of other programs that have `steps` at the top have at most one of the others.
    """
    keys = set(_KEY.findall(text))
    return ("steps" in keys and len(keys & _OURS) >= 2) or len(keys & _OURS) >= 3
