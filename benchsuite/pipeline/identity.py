"""What a run is compared by, and what may have changed on purpose."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchsuite import __version__
from benchsuite.collect.machine import MACHINE_VARIABLE, machine_name, numerics_key
from benchsuite.model.plan import Plan
from benchsuite.model.record import Fingerprint, Info, Launch, ModelFacts
from benchsuite.units import format_number

_GIT_SECONDS = 2.0


def fingerprint_of(
    plan: Plan, launches: Sequence[Launch], environ: Mapping[str, str], machine: str | None
) -> Fingerprint:
    """The match keys of a run; a key that the servers did not tell is None.

    Args:
        plan: What was run.
        launches: What answered; the first that tells its devices and features decides.
        environ: For `$BENCHSUITE_MACHINE`.
        machine: `--machine`; None where not given.
    """
    keys = [numerics_key(one.server.devices, one.server.cpu_features) for one in launches]
    numerics = next((key for key in keys if key is not None), None)
    command = plan.deployment.command
    elsewhere = plan.deployment.attached or (command is not None and command.elsewhere)
    if elsewhere and machine is None and MACHINE_VARIABLE not in environ:
        name = None  # it runs on a machine that we know nothing of
    else:
        decides = next((one for one in launches if one.server.device_models), None)
        gpus = () if decides is None else decides.server.device_models.values()
        name = machine or machine_name(environ, tuple(gpus))
    return Fingerprint(
        deployment=plan.deployment.name,
        scenario=plan.scenario.name,
        seed=plan.seed,
        numerics=numerics,
        machine=name if numerics is not None else None,
    )


def info_of(plan: Plan, launches: Sequence[Launch], commit: str | None) -> Info:
    """What people change on purpose, as it was in this run.

    Args:
        plan: What was run.
        launches: What answered.
        commit: Of the user's repository; None where there is none.
    """
    first = launches[0].server if launches else None
    flags = {
        one.variant: {
            name: ",".join(value) if isinstance(value, tuple) else value
            for name, value in one.server.flags.items()
            if value is not None
        }
        for one in launches
    }
    return Info(
        build=None if first is None else first.build,
        server="" if first is None else f"{first.kind} {first.path}",
        model="" if first is None else model_words(first.model),
        flags=flags,
        env={} if first is None else dict(first.env),
        commit=commit,
        kernel=f"{platform.system()} {platform.release()}",
        benchsuite=__version__,
        image="" if first is None else first.image,
    )


def model_words(model: ModelFacts) -> str:
    """A model in words: file name, size, and what its blocks hash to."""
    words = [Path(model.path).name or model.name or ""]
    if model.size_bytes is not None:
        words.append(f"{format_number(model.size_bytes / 1e6, 1)} MB")
    if model.sampled_sha256 is not None:
        words.append(f"sha256/sampled {model.sampled_sha256[:12]}")
    return ", ".join(word for word in words if word)


def commit_of(folder: Path) -> str | None:
    """The commit of the git repository that holds `folder`; None where there is none."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return None
    return _git(folder, "rev-parse", "HEAD") or None


def has_edits(folder: Path) -> bool:
    """Whether tracked files of the git repository of `folder` differ from its commit."""
    if commit_of(folder) is None:
        return False
    return _git(folder, "status", "--porcelain", "--untracked-files=no") != ""


def _git(folder: Path, *words: str) -> str | None:
    """What a git command prints, without blanks at its ends; None where it fails or takes long."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
