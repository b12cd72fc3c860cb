"""Where a launched server saves its slots: a fresh folder of the run, unless a flag names one."""

from __future__ import annotations

from pathlib import Path

from benchsuite.errors import ConfigError
from benchsuite.model.plan import VariantPlan
from benchsuite.model.scenario import DamageStep, FlagValue, Scenario
from benchsuite.server.saved_slots import SavedSlots

FLAG = "slot-save-path"


def refuse_damage(scenario: Scenario, variant: VariantPlan) -> None:
    """Refuse to spoil files in a folder that is not the run's own.

    Raises:
        ConfigError: The scenario would.
    """
    for step in scenario.steps:
        if isinstance(step, DamageStep) and FLAG in variant.flags:
            raise ConfigError(
                f"step 'damage' spoils files only in the run's own folder, but {FLAG} is set",
                where=f"{scenario.path}:{step.line}",
                hint=f"leave {FLAG} out: a scenario that saves slots gets a folder by itself",
            )


def folder_for(scenario: Scenario, flags: dict[str, FlagValue], place: Path) -> SavedSlots | None:
    """A fresh folder where slots are saved; None where none are, or a flag names one.

    Args:
        scenario: Whose steps save slots, or do not.
        flags: Of the launch.
        place: The folder to make.

    Raises:
        MachineError: It cannot be made.
    """
    if not scenario.saves_slots or FLAG in flags:
        return None
    return SavedSlots(place)


def saving(saved: SavedSlots | None) -> list[str]:
    """The arguments that make a server save its slots there; none where nothing is saved."""
    return [] if saved is None else [f"--{FLAG}", str(saved.folder)]
