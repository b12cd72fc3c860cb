"""All faults, gathered from the modules of this package; each module's are in its `FAULTS`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

import tests.faults
from tests.faults.fault import Fault

_NOT_FAULTS = frozenset({"__main__", "every", "fault", "faulty", "table"})


def every_fault() -> tuple[Fault, ...]:
    """Every fault, in the order of modules and of each module's `FAULTS`.

    Raises:
        ValueError: Two faults have one name.
    """
    found: list[Fault] = []
    for module in sorted(one.name for one in pkgutil.iter_modules(tests.faults.__path__)):
        if module not in _NOT_FAULTS:
            found += getattr(importlib.import_module(f"tests.faults.{module}"), "FAULTS", ())
    names = [fault.name for fault in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"several faults have one name: {', '.join(twice)}")
    return tuple(found)


def share_of(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """The share that is made as tests: of each group the first, third, fifth, ... that is not slow.

    It is the same at each run of a commit, has something of every group, and takes three minutes;
    `python -m tests.faults` makes all.
    """
    groups: dict[str, list[Fault]] = {}
    for fault in faults:
        if not fault.slow:
            groups.setdefault(fault.group, []).append(fault)
    return tuple(fault for group in groups.values() for fault in group[::2])
