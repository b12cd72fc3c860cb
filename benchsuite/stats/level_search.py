"""Which level a sweep tries next: a list of them, or doubling and then halving; pure."""

from __future__ import annotations

import msgspec

CLOSE = 1.1
"""A search over rates ends where the lowest level that is too high is so many times the highest
that is not; one over whole numbers ends where nothing lies between them."""


class LevelSearch(msgspec.Struct, frozen=True):
    """What is known so far of the highest level that will do.

    Levels double from `low` until one will not do or `high` has been tried, then the middle
    between the highest that did and the lowest that did not is tried.
    """

    low: float  # tried first
    high: float  # never passed
    is_whole: bool  # levels are whole numbers
    best: float | None = None  # highest level that did
    worst: float | None = None  # lowest level that did not

    def next(self) -> float | None:
        """The level to try; None where there is nothing left to find."""
        if self.worst is None:
            if self.best is None:
                return self.low
            return None if self.best >= self.high else min(self.best * 2, self.high)
        if self.best is None:  # even the lowest did not
            return None
        if not self.is_whole:
            middle = (self.best * self.worst) ** 0.5
            return None if self.worst <= self.best * CLOSE else float(f"{middle:.3g}")
        middle = (self.best + self.worst) // 2
        return None if middle <= self.best else middle

    def after(self, level: float, *, will_do: bool) -> LevelSearch:
        """What is known once a level was tried."""
        if will_do:
            best = level if self.best is None else max(self.best, level)
            return msgspec.structs.replace(self, best=best)
        worst = level if self.worst is None else min(self.worst, level)
        return msgspec.structs.replace(self, worst=worst)


class LevelList(msgspec.Struct, frozen=True):
    """Levels to try one after the other, whatever they come to."""

    left: tuple[float, ...]  # ascending

    def next(self) -> float | None:
        """The level to try; None after the last."""
        return self.left[0] if self.left else None

    def after(self, level: float, *, will_do: bool) -> LevelList:  # as of a search
        """Go on to the next."""
        return LevelList(self.left[1:])
