"""Spans of time in little memory: exact while they are few, then counted in fine classes; pure."""

from __future__ import annotations

from array import array

EXACT = 10_000
"""Values up to which each is kept."""

_BITS = 8
RELATIVE_ERROR = 2.0 ** -(_BITS + 1)
"""At most so far a value of many may be from the one meant: half of a class, which is 1/256 of a
power of two or less (0.2%). Below 256 ns classes are single nanoseconds."""


class Spans:
    """Integer nanoseconds, of which ranks and quantiles are asked. What is below 0 counts as 0."""

    def __init__(self, *, exact: int = EXACT) -> None:
        self._most = exact
        self._values: array[int] | None = array("q")
        self._sorted = True
        self._classes: dict[int, int] = {}
        self._count = 0
        self._low = self._high = self._sum = 0

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    @property
    def is_exact(self) -> bool:
        """Whether every value was kept."""
        return self._values is not None

    @property
    def method(self) -> str:
        """How values are known, in words."""
        return "exact" if self.is_exact else f"within {RELATIVE_ERROR:.1%}"

    def add(self, span_ns: int) -> None:
        """Take one."""
        span_ns = max(0, span_ns)
        self._low = span_ns if not self._count else min(self._low, span_ns)
        self._high = max(self._high, span_ns)
        self._count += 1
        self._sum += span_ns
        if self._values is not None:
            self._values.append(span_ns)
            self._sorted = False
            if self._count > self._most:
                for value in self._values:
                    self._class(value)
                self._values = None
        else:
            self._class(span_ns)

    def _class(self, span_ns: int) -> None:
        key = _class_of(span_ns)
        self._classes[key] = self._classes.get(key, 0) + 1

    def at_rank(self, rank: int) -> int:
        """The value of a rank in ascending order, from 1.

        Raises:
            IndexError: There is no such rank.
        """
        if not 1 <= rank <= self._count:
            raise IndexError(f"rank {rank} of {self._count}")
        if self._values is not None:
            if not self._sorted:
                self._values = array("q", sorted(self._values))
                self._sorted = True
            return self._values[rank - 1]
        if rank in (1, self._count):
            return self._low if rank == 1 else self._high
        seen = 0
        for key in sorted(self._classes):
            seen += self._classes[key]
            if seen >= rank:
                return min(max(_middle_of(key), self._low), self._high)
        raise AssertionError("classes lack values")

    @property
    def mean(self) -> float | None:
        """None where there is nothing."""
        return self._sum / self._count if self._count else None

    @property
    def median(self) -> float | None:
        """Between the middle two of an even number; None where there is nothing."""
        return self.median_of(self._count)

    def median_of(self, count: int) -> float | None:
        """The median of so many, of which those that are not here are later than any.

        None where there is nothing, or a value that it needs is none of these.
        """
        if not self._count or count // 2 + 1 > self._count:
            return None
        low = self.at_rank((count + 1) // 2)
        return low if count % 2 else (low + self.at_rank(count // 2 + 1)) / 2


def _class_of(value: int) -> int:
    """Classes ascend with their values: power of two, then the first bits below it."""
    shift = max(0, value.bit_length() - _BITS - 1)
    return (shift << (_BITS + 1)) + (value >> shift)


def _middle_of(key: int) -> int:
    shift, head = key >> (_BITS + 1), key & ((1 << (_BITS + 1)) - 1)
    return (head << shift) + (((1 << shift) - 1) >> 1)
