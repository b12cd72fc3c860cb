"""Where a curve of throughput against level bends; pure.

By the rule of Kneedle (Satopaa, Albrecht, Irwin and Raghavan, "Finding a 'Kneedle' in a haystack:
detecting knee points in system behavior", ICDCS workshops 2011), offline and without smoothing:
level and throughput are scaled to 0..1 over what was tried, and the knee is the level at which
scaled throughput is farthest above scaled level. Throughput is first made non-decreasing (its
maximum so far), since what it loses past saturation says nothing of where it bent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

FEWEST = 3
"""Levels below which nothing bends."""

FLAT = 0.1
"""Of the highest throughput: where all levels lie within it, the curve has only its flat part."""

LEAST_BEND = 0.15
"""Of the scaled height: a curve that rises less above the straight line has no knee in range."""


class Knee(msgspec.Struct, frozen=True):
    """A knee, or why there is none."""

    level: float | None  # one of those tried; None where there is no knee
    why: str  # a sentence: how far it bends, or why it does not


def find_knee(points: Sequence[tuple[float, float]]) -> Knee:
    """The knee of a curve.

    Args:
        points: Level and throughput, in any order; levels differ and are above 0.
    """
    curve = sorted(points)
    if len(curve) < FEWEST:
        return Knee(None, f"{len(curve)} levels are too few for a knee: {FEWEST} are needed")
    levels = [level for level, _ in curve]
    heights: list[float] = []
    for _, height in curve:
        heights.append(max(height, heights[-1]) if heights else height)
    low, high = heights[0], heights[-1]
    if high <= 0:
        return Knee(None, "nothing was served at any level")
    if high - low < FLAT * high:
        return Knee(
            None,
            f"throughput is within {FLAT:.0%} at all levels: it bends at {levels[0]:g} or below",
        )
    above = [
        (height - low) / (high - low) - (level - levels[0]) / (levels[-1] - levels[0])
        for level, height in zip(levels, heights, strict=True)
    ]
    most = max(above)
    if most < LEAST_BEND:
        return Knee(None, f"throughput still grows with the level up to {levels[-1]:g}")
    level = levels[above.index(most)]
    return Knee(level, f"{most:.2f} of the scaled height above the straight line (Kneedle)")
