"""The flags of one launch: scenario default < deployment < variant < overlay < --set.

What the scenario needs exactly, or at least, is held against the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchsuite.errors import FlagError
from benchsuite.metrics.kv_formula import AUTOMATIC_SLOTS
from benchsuite.model.deployment import Deployment
from benchsuite.model.scenario import FlagNeed, FlagValue, Scenario, VariantSpec
from benchsuite.scenario.flags import FlagTable, show_value
from benchsuite.scenario.reach import Reach, refuse_ours
from benchsuite.scenario.words import remedy

DEFAULT_CONTEXT = 4096
"""Context of a slot where neither scenario nor deployment names one, in tokens; a launched
server always gets one, since llama-server may otherwise choose it by free memory."""

_PARALLEL, _CONTEXT = "parallel", "ctx-size"
_SEEN_FROM_OUTSIDE = frozenset({_PARALLEL, _CONTEXT})
"""Flags whose effect `/props` of an attached server tells."""


class _Choice(msgspec.Struct, frozen=True):
    """A flag's value and where it came from."""

    value: FlagValue
    origin: str  # in words


class Resolver:
    """Resolves the flags of each variant of one scenario on one deployment.

    Args:
        scenario: Says what it needs.
        deployment: Says what the server is given.
        table: The flags of the build.
        sets: `--set` flags; several of one flag repeat it.
        reach: What the scenario's flags may name; beside it and in the working directory if None.

    Raises:
        UsageError: A flag of the scenario names a file outside.
        FlagError: A flag that the build lacks, that is given twice, or that is ours to set.
    """

    def __init__(
        self,
        scenario: Scenario,
        deployment: Deployment,
        table: FlagTable,
        sets: Sequence[tuple[str, FlagValue]],
        reach: Reach | None = None,
    ) -> None:
        self._scenario = scenario
        folder = Path.cwd().resolve()
        self._reach = Reach(folder, folder) if reach is None else reach
        self._deployment = deployment
        self._table = table
        self._needs: dict[str, FlagNeed] = {}
        for word, need in scenario.server.items():
            where = f"{scenario.path}:{need.line}"
            name, normal = self._held(word, _wanted(need), where)
            if name in self._needs:
                raise FlagError(f"flag '{name}' is named twice under 'server'", where=where)
            self._needs[name] = msgspec.structs.replace(need, **{need.kind: _as_kind(need, normal)})
        _refuse_unread(deployment, table)
        # the server reads these too, below its command line: they are the deployment's word
        variables: dict[str, FlagValue] = {
            name: value for name, value in deployment.env.items() if _is_flag(name, table)
        }
        self._deployed: dict[str, FlagValue] = {
            **self._layer(variables, lambda _: deployment.source),
            **self._layer(deployment.flags, self._place),
        }
        self._sets = self._merge_sets(sets)

    def refuse_sets(self, variant: VariantSpec, overlay: dict[str, FlagValue]) -> None:
        """Refuse `--set` on a flag that a variant names: it would undo what is compared.

        Raises:
            FlagError: So it is.
        """
        for word in (*variant.flags, *overlay):
            if word in self._table and (name := self._table.canonical(word)) in self._sets:
                raise FlagError(
                    f"--set {name}: variant '{variant.name}' sets this flag itself",
                    where=f"{self._scenario.path}:{variant.line}",
                    hint="choose other variants with --variant, or change the scenario",
                )

    def resolve(
        self, variant: VariantSpec, overlay: dict[str, FlagValue]
    ) -> tuple[dict[str, FlagValue], tuple[str, ...]]:
        """The flags of one variant by canonical name, and one note for each: where it came from.

        Raises:
            FlagError: A flag contradicts what the scenario needs, or the build lacks it.
        """
        deployment = f"deployment '{self._deployment.name}'"
        chosen: dict[str, _Choice] = {}
        for name, need in self._needs.items():
            if need.kind == "default":
                chosen[name] = _Choice(need.default, "the scenario's default")
        for name, value in self._deployed.items():
            where = self._place_of(name, self._deployment.flags, "")
            self._hold_exact(name, value, f"{deployment} sets", where)
            chosen[name] = _Choice(value, deployment)
        for name, need in self._needs.items():
            if need.kind == "exact":
                chosen[name] = _Choice(need.exact, "needed exactly by the scenario")
        line = f"{self._scenario.path}:{variant.line}"
        authored = self._layer(variant.flags, lambda _: line, held=True)
        for name, value in authored.items():
            chosen[name] = _Choice(value, f"variant '{variant.name}'")
        prefix = f"{self._scenario.name}.{variant.name}."
        for name, value in self._layer(overlay, lambda w: self._place(f"{prefix}{w}")).items():
            where = self._place_of(name, overlay, prefix)
            self._hold_exact(name, value, f"the overlay of {deployment} sets", where)
            chosen[name] = _Choice(value, f"overlay of {deployment}")
        for name, value in self._sets.items():
            self._hold_exact(name, value, "--set gives", None)
            chosen[name] = _Choice(value, "--set")
        # slots first: what is needed for each of them is a multiple
        for name, need in sorted(self._needs.items(), key=lambda item: item[1].per == "slot"):
            if need.kind == "min" and name not in authored:
                chosen[name] = self._at_least(name, need, chosen.get(name), _slots(chosen))
        slots = _slots(chosen)
        if _CONTEXT not in chosen and _CONTEXT in self._table:
            total = str(DEFAULT_CONTEXT * slots)
            chosen[_CONTEXT] = _Choice(total, f"not given: {DEFAULT_CONTEXT} for each slot")
        flags: dict[str, FlagValue] = {
            name: choice.value for name, choice in chosen.items() if choice.value is not None
        }
        notes = tuple(
            f"{name} {show_value(choice.value)}: {choice.origin}" for name, choice in chosen.items()
        )
        return flags, notes

    def _place(self, word: str) -> str:
        """Where a flag of the deployment, or with its prefix of an overlay, was written."""
        return self._deployment.places.get(word, self._deployment.source)

    def _place_of(self, name: str, flags: dict[str, FlagValue], prefix: str) -> str:
        word = next((w for w in flags if self._table.canonical(w) == name), name)
        return self._place(f"{prefix}{word}")

    def _layer(
        self,
        flags: dict[str, FlagValue],
        where_of: Callable[[str], str],
        *,
        held: bool = False,
    ) -> dict[str, FlagValue]:
        layer: dict[str, FlagValue] = {}
        for word, value in flags.items():
            where = where_of(word)
            name, normal = (self._held if held else self._normalise)(word, value, where)
            if name in layer:
                raise FlagError(f"'{word}' is flag '{name}', which is given already", where=where)
            layer[name] = normal
        return layer

    def _merge_sets(self, sets: Sequence[tuple[str, FlagValue]]) -> dict[str, FlagValue]:
        merged: dict[str, FlagValue] = {}
        for word, value in sets:
            name, normal = self._normalise(word, value, "--set")
            before = merged.get(name)
            if before is None or normal is None:
                merged[name] = normal
                continue
            many = (*_many(before), *_many(normal))
            merged[name] = self._normalise(word, many, "--set")[1]
        return merged

    def _held(self, word: str, value: FlagValue, where: str) -> tuple[str, FlagValue]:
        """As `_normalise`, of the scenario, which may not give or name everything."""
        name, normal = self._normalise(word, value, where)
        flag = self._table.find(word)[0]
        return name, self._reach.flag(flag, name, normal, where=where)

    def _normalise(self, word: str, value: FlagValue, where: str) -> tuple[str, FlagValue]:
        try:
            name, normal = self._table.normalise(word, value)
        except FlagError as error:
            raise FlagError(
                error.message,
                where=where if where != "built in" else None,
                hint=error.hint,
                unknown_to_build=error.unknown_to_build,
            ) from None
        refuse_ours(name, normal, where)
        return name, normal

    def _hold_exact(self, name: str, value: FlagValue, who: str, where: str | None) -> None:
        need = self._needs.get(name)
        if need is None or need.kind != "exact" or need.exact == value:
            return
        line = f"{self._scenario.path}:{need.line}"
        raise FlagError(
            f"{who} {name} {show_value(value)}, but scenario '{self._scenario.name}' needs exactly "
            f"{show_value(need.exact)} ({line})",
            where=where if where != "built in" else None,
            hint=f"take {name} out there, or write '{name}: {{default: "
            f"{show_value(need.exact)}}}' in the scenario if its claim holds for any value",
        )

    def _at_least(self, name: str, need: FlagNeed, found: _Choice | None, slots: int) -> _Choice:
        least = (need.min or 0) * (slots if need.per == "slot" else 1)
        words = f"at least {least}"
        if need.per == "slot":
            words = f"at least {need.min} for each of {slots} slots"
        if found is None or found.value is None:
            return _Choice(str(least), f"the scenario needs {words}")
        line = f"{self._scenario.path}:{need.line}"
        try:
            number = int(found.value) if isinstance(found.value, str) else -1
        except ValueError:
            raise FlagError(
                f"{found.origin} gives {name} {show_value(found.value)}, but scenario "
                f"'{self._scenario.name}' needs a number, {words} ({line})"
            ) from None
        if number >= least:
            return found
        if name == _PARALLEL and number < 0 and least <= AUTOMATIC_SLOTS:
            return found
        if found.origin == "--set":
            raise FlagError(
                f"--set gives {name} {number}, but scenario '{self._scenario.name}' needs {words} "
                f"({line})"
            )
        return _Choice(
            str(least), f"raised from {number} of {found.origin}: the scenario needs {words}"
        )


def _wanted(need: FlagNeed) -> FlagValue:
    if need.kind == "min":
        return str(need.min)
    return need.exact if need.kind == "exact" else need.default


def _as_kind(need: FlagNeed, normal: FlagValue) -> FlagValue | int:
    return need.min if need.kind == "min" else normal


def _many(value: FlagValue) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def _slots(chosen: dict[str, _Choice]) -> int:
    choice = chosen.get(_PARALLEL)
    value = None if choice is None else choice.value
    if isinstance(value, str) and value.isdecimal() and 0 < len(value) < 10 and int(value) > 0:
        return int(value)
    return AUTOMATIC_SLOTS


_FLAG_VARIABLE = "LLAMA_ARG_"


def _is_flag(variable: str, table: FlagTable) -> bool:
    return variable.startswith(_FLAG_VARIABLE) and variable in table


def _refuse_unread(deployment: Deployment, table: FlagTable) -> None:
    """Refuse a variable that this build would pass over without a word, such as a mistyped one."""
    for variable in deployment.env:
        if variable.startswith(_FLAG_VARIABLE) and variable not in table:
            known = table.variables
            raise FlagError(
                f"{table.build} reads no variable '{variable}'"
                f"{remedy(variable, known, 'variables')}",
                where=deployment.source if deployment.source != "built in" else None,
                unknown_to_build=True,
            )


def canonical_needs(scenario: Scenario, table: FlagTable | None) -> dict[str, FlagNeed]:
    """What the scenario needs, by canonical name where the table has the flag."""
    if table is None:
        return dict(scenario.server)
    return {
        table.canonical(word) if word in table else word: need
        for word, need in scenario.server.items()
    }


def attached_flags(
    scenario: Scenario, variant: VariantSpec, table: FlagTable | None = None
) -> tuple[dict[str, FlagValue], tuple[str, ...], str | None]:
    """What to check of a running server, in words too, and why a variant cannot run on it.

    The flags are requirements, never given: what is needed exactly, and what the variant sets.
    Minima are in words only, since the needs are checked beside the flags; defaults are the
    server's own. A table knows other spellings; a word that it lacks stays as it is.
    """
    flags: dict[str, FlagValue] = {}
    for word, need in scenario.server.items():
        if need.kind == "exact" and need.exact is not None:
            name, value = _spelled(word, need.exact, table)
            flags[name] = value
    given = dict(_spelled(word, value, table) for word, value in variant.flags.items())
    flags.update({name: value for name, value in given.items() if value is not None})
    notes = [f"{name} {show_value(value)}: to be checked" for name, value in flags.items()]
    for name, need in canonical_needs(scenario, table).items():
        if need.kind == "min" and name not in flags:
            each = " a slot" if need.per == "slot" else ""
            notes.append(f"{name} at least {need.min}{each}: to be checked")
    unseen = [name for name in given if name not in _SEEN_FROM_OUTSIDE]
    reason = None
    if unseen:
        reason = f"it sets {', '.join(unseen)}, which a running server cannot be given"
    return flags, tuple(notes), reason


def _spelled(word: str, value: FlagValue, table: FlagTable | None) -> tuple[str, FlagValue]:
    if table is None or word not in table:
        return word, value
    return table.normalise(word, value)
