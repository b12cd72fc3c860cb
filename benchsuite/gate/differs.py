"""What differs between a baseline and a run, in words: what people change on purpose."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.model.record import Info
from benchsuite.store.baselines import lasting_flags, server_name

_UNSET = "not set"


def differences(baseline: Info, candidate: Info, variant: str | None = None) -> tuple[str, ...]:
    """What differs, each in words: `build b10092 -> b10434`, `cache-type-k f16 -> q8_0`.

    Args:
        baseline: What was the case when the reference was measured.
        candidate: What is the case now.
        variant: Whose flags to compare; None compares those of every variant that both have,
            naming the variant where not all differ alike.
    """
    words = [
        _change(name, before, after)
        for name, before, after in (
            ("build", baseline.build or "unknown", candidate.build or "unknown"),
            ("server", server_name(baseline.server), server_name(candidate.server)),
            ("model", baseline.model or "unknown", candidate.model or "unknown"),
            ("benchsuite", baseline.benchsuite or "unknown", candidate.benchsuite or "unknown"),
        )
        if before != after
    ]
    words += _flag_words(baseline, candidate, variant)
    words += [f"env {change}" for change in _changes(baseline.env, candidate.env)]
    return tuple(words)


def _flag_words(baseline: Info, candidate: Info, variant: str | None) -> list[str]:
    if variant is not None:
        before, after = baseline.flags.get(variant), candidate.flags.get(variant)
        if before is None or after is None:
            return []  # the other side knows no such variant, so nothing can be said of its flags
        return _changes(lasting_flags(before), lasting_flags(after))
    both = [v for v in candidate.flags if v in baseline.flags]
    found: dict[str, list[str]] = {}
    for name in both:
        for change in _flag_words(baseline, candidate, name):
            found.setdefault(change, []).append(name)
    return [
        change if len(names) == len(both) else f"{change} (variant {', '.join(names)})"
        for change, names in found.items()
    ]


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [
        _change(key, before.get(key, _UNSET), after.get(key, _UNSET))
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def _change(name: str, before: str, after: str) -> str:
    return f"{name} {before} -> {after}"


def cause_words(differs: Sequence[str]) -> str:
    """A clause on the likely cause of a change, to be put right behind its sentence."""
    if not differs:
        return ", though build, model, flags and environment are those of the baseline"
    shown = ", ".join(differs[:3])
    return f" with {shown}" + (f" and {len(differs) - 3} more" if len(differs) > 3 else "")
