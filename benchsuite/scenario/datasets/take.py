"""A scenario with what loads and sweeps read of files, looked up where they may be, and read once.

A file is looked up from the scenario file's folder, and held to what that may name (`Reach`): a
scenario from elsewhere sends no other file's text to a server.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from benchsuite.errors import UsageError
from benchsuite.model.sample import DatasetFormat, Sample
from benchsuite.model.scenario import LoadStep, Scenario, Step, SweepStep
from benchsuite.scenario.datasets.read import read_sample
from benchsuite.scenario.workspace import Workspace

MOST_MADE_TOKENS = 32_000_000
"""Of all texts made for hash ids together; they are kept while a run goes, some 5 bytes a token."""


def with_samples(workspace: Workspace, scenario: Scenario) -> Scenario:
    """The scenario with the rows that its loads and sweeps send; as it is where none names a file.

    Raises:
        UsageError: A file is not there, lies elsewhere, cannot be read, or more of it is unusable
            than may be.
    """

    def read(step: Step) -> Step:
        if isinstance(step, SweepStep):
            return msgspec.structs.replace(step, load=read(step.load))
        if not isinstance(step, LoadStep) or step.source is None:
            return step
        return msgspec.structs.replace(step, sample=_read(workspace, scenario, step))

    return msgspec.structs.replace(scenario, steps=tuple(map(read, scenario.steps)))


def _read(workspace: Workspace, scenario: Scenario, step: LoadStep) -> Sample:
    spec = step.source
    if spec is None:
        raise AssertionError("a load step without a file")
    where = f"{scenario.path}:{spec.line}"
    key = "dataset" if spec.format in get_args(DatasetFormat) else "trace"
    path = workspace.reach(scenario.path).file(spec.file, where=where, key=f"'file' of '{key}'")
    if not path.is_file():
        what = "no such file" if not path.exists() else "this is no file"
        raise UsageError(
            f"{what}: {path}",
            where=where,
            hint="'file' is looked up from the scenario file's folder",
        )
    sample = read_sample(path, spec, workspace.display(path))
    made = sum(1 for row in sample.rows if row.blocks)
    made += len({one for row in sample.rows for one in row.blocks})
    if made * spec.block > MOST_MADE_TOKENS:
        raise UsageError(
            f"the texts of its hash ids would have {made * spec.block} tokens, more than "
            f"{MOST_MADE_TOKENS}",
            where=where,
            hint="give a lower 'block', such as 'block: 32', or a 'sample'",
        )
    return sample
