"""Something of ours fails that never should: an exception, an exit, the last write of a run."""

from __future__ import annotations

import shlex
import stat
import sys
from collections.abc import Callable
from functools import partial

from tests.faults.fault import Fault, fault_of
from tests.faults.limits import NOISY
from tests.faults.machine import in_mount, no_mounts, shell
from tests.faults.processes import plugin
from tests.integration.desk import Desk, Done

_GROUP = "we fail ourselves"
_MEASURED = ("journal", "record", "reply", "log")


def patched(lines: str, command: str) -> str:
    """A line of bash whose `benchsuite run` begins with these lines of Python."""
    indented = "".join(f"    {line}\n" for line in lines.splitlines())
    return (
        "mkdir step; cat > step/sitecustomize.py <<'END'\n"
        "import sys\n"
        "if 'run' in sys.orig_argv:\n"
        f"{indented}"
        "END\n"
        f"export PYTHONPATH=$PWD/step:$PYTHONPATH; {command}"
    )


def _in_drive(error: str) -> Callable[[Desk], Done]:
    """Makes a fault: `error` is raised once a turn has been measured."""
    return shell(
        patched(
            "from benchsuite.drive.driver import Driver\n"
            "true, seen = Driver._step, []\n"
            "async def step(self, one):\n"
            "    if seen:\n"
            f"        raise {error}\n"
            "    seen.append(one)\n"
            "    await true(self, one)\n"
            "Driver._step = step\n",
            "benchsuite run short.yaml",
        )
    )


def _in_thread(error: str) -> Callable[[Desk], Done]:
    """Makes a fault: `error` is raised in a thread that counts lines for us."""
    return shell(
        patched(
            "import benchsuite.pipeline.markers as markers\n"
            "def count(*given):\n"
            f"    raise {error}\n"
            "markers.count_markers = count\n",
            "sed -i 's/^gates:/  - source_markers: {as: m, folder: here, files: [x.c],"
            " pattern: x}\\ngates:/' short.yaml; mkdir src; echo x > src/x.c;"
            ' printf \'[deployments.own]\\nserver = "embedded"\\n[deployments.own.source]\\n'
            'here = "src"\\n\' > benchsuite.toml; benchsuite run short.yaml -d own',
        )
    )


_FILLED = patched(
    "import os\n"
    "from benchsuite.store.records import RunFolder\n"
    "true = RunFolder.write_record\n"
    "def write(self, record):\n"
    "    try:\n"
    "        with open('small/filler', 'wb', buffering=0) as filler:\n"
    "            while filler.write(bytes(4096)):\n"
    "                pass\n"
    "    except OSError:\n"
    "        pass\n"
    "    return true(self, record)\n"
    "RunFolder.write_record = write\n",
    "benchsuite run short.yaml --out small/r; c=$?;"
    " benchsuite report small/r/*/ --format markdown; cp -r small/r seen; exit $c",
)
"""The run folder's disk has its last byte taken just before the record is written."""


def _pytest_in_suite(desk: Desk) -> Done:
    """A suite's server is a wrapper that runs pytest, with a noisy scenario, before it serves."""
    inner = desk.folder / "inner"
    inner.mkdir()
    (inner / "noisy.yaml").write_text(NOISY.replace("idle: 30", "idle: 0.1"))
    words = [sys.executable, "-m", "pytest", "-q", *plugin(), "-p", "no:cacheprovider"]
    words += ["--benchsuite-server", "embedded", "noisy.yaml"]
    server = desk.folder / "llama-server"
    server.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" --port "*)\n'
        f"  (cd {shlex.quote(str(inner))} && {shlex.join(words)} > ../inner.txt 2>&1) ;;\n"
        "esac\n"
        f'exec {shlex.quote(sys.executable)} -m benchsuite.server.embedded "$@"\n'
    )
    server.chmod(server.stat().st_mode | stat.S_IXUSR)
    (desk.folder / "outer.yaml").write_text(NOISY.replace("idle: 30", "idle: 0.1"))
    suites = desk.folder / "ci" / "suites"
    suites.mkdir(parents=True)
    (suites / "noisy.yaml").write_text(
        f"title: noisy\nscenarios:\n  - {desk.folder / 'outer.yaml'}\n"
    )
    done = desk.run("ci", "noisy", "--server", "./llama-server")
    return Done(done.code, f"{(desk.folder / 'inner.txt').read_text()}\n{done.out}", done.err)


_fault = partial(fault_of, _GROUP)

FAULTS: tuple[Fault, ...] = (
    _fault(
        "exception-in-run",
        "An exception of ours between two turns.",
        _in_drive("RuntimeError('oops')"),
        (5,),
        r"RuntimeError: oops",
        keeps=("journal", "reply", "log"),
    ),
    _fault(
        "exit-in-run",
        "SystemExit with code 0 between two turns.",
        _in_drive("SystemExit(0)"),
        (5,),
        r"SystemExit",
        keeps=("journal", "reply", "log"),
    ),
    _fault(
        "exception-in-worker",
        "An exception in a thread of ours.",
        _in_thread("RuntimeError('oops')"),
        (5,),
        r"RuntimeError: oops",
        keeps=("journal", "reply", "log"),
    ),
    _fault(
        "exit-in-worker",
        "SystemExit with code 0 in a thread of ours.",
        _in_thread("SystemExit(0)"),
        (5,),
        r"SystemExit",
        keeps=("journal", "reply", "log"),
    ),
    _fault(
        "disk-full-at-record",
        "The disk has its last byte taken just before the record is written.",
        in_mount("4m", _FILLED),
        (5,),
        r"small/r/.*No space left",
        r"killed|before its record was written",
        keeps=("journal", "reply", "log"),
        unable=no_mounts,
    ),
    _fault(
        "pytest-in-suite",
        "A suite that holds the machine has a server that runs pytest with a noisy scenario.",
        _pytest_in_suite,
        (0, 3),
        r"2 passed, 1 skipped",
        keeps=_MEASURED,
        slow=True,
    ),
)
