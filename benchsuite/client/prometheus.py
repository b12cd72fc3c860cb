"""The text of `/metrics`, read into numbers; pure."""

from __future__ import annotations

import re

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^}]*\})?\s+(\S+)")


def parse_counters(text: str) -> dict[str, float]:
    """Each sample's value by name, the `llamacpp:` prefix left out; labels are ignored.

    Lines that are no samples (comments, blanks) are passed over; a sample whose value is no
    number is left out.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            found[match[1].removeprefix("llamacpp:")] = float(match[2])
        except ValueError:
            continue
    return found
