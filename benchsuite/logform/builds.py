"""Which builds of llama-server the log reader was tested with."""

from __future__ import annotations

from benchsuite.units import build_number

TESTED_BUILDS = (10068, 10092, 10434, 11434, 11549)
"""Builds whose logs, freshly made or recorded, are read in this project's tests."""


def beyond_tested(build: str | None) -> str | None:
    """A sentence if a build is newer than every one that was tested; None where it is not.

    Args:
        build: As the log or `/props` names it: `b11549-1a2b3c4`. None, and names without a number
            of llama.cpp's own (`b0-unknown`), tell nothing.
    """
    number = build_number(build)
    if number is None or number <= TESTED_BUILDS[-1]:
        return None
    return (
        f"build b{number} is newer than b{TESTED_BUILDS[-1]}, the newest that this reader of "
        "logs was tested with"
    )
