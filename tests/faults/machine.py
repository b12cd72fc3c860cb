"""The machine fails: disks, folders, limits, clocks, and what a shell leaves a program with."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.faults.fault import Fault, fault_of
from tests.integration.desk import REPOSITORY, Desk, Done

_GROUP = "the machine fails"
_LIMIT_SECONDS = 120
_SCENARIO = """\
title: two short turns
sessions:
  A: {system: {tokens: 60, seed: 1}}
steps:
  - turn: {session: A, user: {tokens: 10, seed: 2}, max_tokens: 4}
  - turn: {session: A, user: {tokens: 10, seed: 3}, max_tokens: 4}
gates:
  - metric: 'cached_tokens{session="A",turn="1"}'
    equals: 0
  - metric: 'cached_tokens{session="A",turn="2"}'
    min: 50
"""
_BENCHSUITE = f"{shlex.quote(sys.executable)} -m benchsuite"
_MEASURED = ("journal", "record", "reply", "log")


def in_shell(desk: Desk, command: str, **env: str) -> Done:
    """Run a line of bash in the desk's folder; `benchsuite` in it is the one that is tested."""
    done = subprocess.run(
        ["bash", "-c", f'benchsuite() {{ {_BENCHSUITE} "$@"; }}\n{command}'],
        cwd=desk.folder,
        env={**desk.env, **env},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_SECONDS,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def shell(command: str, **env: str) -> Callable[[Desk], Done]:
    """Makes a fault: a line of bash beside a short scenario, `short.yaml`."""

    def make(desk: Desk) -> Done:
        desk.tiny_model()
        (desk.folder / "short.yaml").write_text(_SCENARIO)
        return in_shell(desk, command, **env)

    return make


def in_mount(size: str, command: str) -> Callable[[Desk], Done]:
    """As `shell`, with a small file system of its own mounted at `small`."""

    def make(desk: Desk) -> Done:
        place = shlex.quote(str(desk.folder / "small"))
        lines = f"mkdir {place}; mount -t tmpfs -o size={size} tmpfs {place}; {command}"
        quoted = shlex.quote(f'benchsuite() {{ {_BENCHSUITE} "$@"; }}\n{lines}')
        return shell(f"unshare -m bash -c {quoted}")(desk)

    return make


def no_mounts() -> str | None:
    """Why no file system can be mounted here."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "needs Linux and unshare"
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"],
        capture_output=True,
        timeout=10,
    )
    return None if tried.returncode == 0 else "needs the right to mount a file system"


_fault = partial(fault_of, _GROUP)

_FILL = "head -c 100000 /dev/zero > small/x; "
_READ_ONLY = "mount -o remount,ro small; "

_SECOND = "super().now(tz).replace(hour=12, minute=0, second=0, microsecond=0)"
_STEPPED = (
    "mkdir step; cat > step/sitecustomize.py <<'END'\n"
    "import datetime\n"
    "class Stepped(datetime.datetime):\n"
    "    looks = 0\n"
    "    @classmethod\n"
    "    def now(cls, tz=None):\n"
    "        Stepped.looks += 1\n"
    "        hours = -1 if Stepped.looks > 3 else 0\n"
    "        return super().now(tz) + datetime.timedelta(hours=hours)\n"
    "datetime.datetime = Stepped\n"
    "END\n"
)
"""The wall clock of Python, an hour back from the fourth look on."""

_STILL = _STEPPED.replace("super().now(tz) + datetime.timedelta(hours=hours)", _SECOND)

_OTHER_USER = "54321"
_AS_OTHER = f"setpriv --reuid {_OTHER_USER} --regid {_OTHER_USER} --clear-groups"


def as_other_user(command: str) -> Callable[[Desk], Done]:
    """As `shell`, in a folder of a user who has no processes but these: limits count all of one."""
    place = (
        "mkdir home; cp -r short.yaml $XDG_CACHE_HOME/benchsuite home/; chmod -R 777 small home;"
        " mount --bind home /mnt; cd /mnt"
    )
    own = f"HOME=/mnt XDG_CACHE_HOME=/mnt BENCHSUITE_LOCKS=/mnt/locks {_AS_OTHER}"
    inner = shlex.quote(f'benchsuite() {{ {_BENCHSUITE} "$@"; }}\n{command}')
    return in_mount("1m", f"{_open_python()}{place}; {own} bash -c {inner}")


def _open_python() -> str:
    """Lets others read a Python below a folder that only root may enter; in its own mounts."""
    base = Path(sys.base_prefix)
    closed = [one for one in base.parents if not one.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return ""
    return (
        f"mkdir python; mount --bind {base} python; mount -t tmpfs -o mode=755 tmpfs {closed[-1]};"
        f" mkdir -p {base}; mount --bind python {base}; "
    )


def no_other_user() -> str | None:
    """Why nothing can be run as another user here."""
    with tempfile.TemporaryDirectory() as folder:
        line = f"cd {folder}; {_open_python()}{_AS_OTHER} sh -c '{_BENCHSUITE} --version'"
        asked = ["unshare", "-m", "bash", "-c", line]
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        if no_mounts() is None and shutil.which("setpriv") is not None:
            done = subprocess.run(asked, env=env, capture_output=True, timeout=30)
            if done.returncode == 0:
                return None
    return "needs the rights of root, setpriv, and a Python that others may read"


FAULTS: tuple[Fault, ...] = (
    _fault(
        "disk-full-at-start",
        "the disk of the run folder has no byte left",
        in_mount(
            "16k", "head -c 100000 /dev/zero > small/x; benchsuite run short.yaml --out small/r"
        ),
        (5,),
        r"small/r",
        r"No space left",
        r"free space",
        unable=no_mounts,
    ),
    _fault(
        "disk-full-in-run",
        "the disk of the run folder fills while the run goes",
        in_mount("24k", "benchsuite run short.yaml --out small/r"),
        (5,),
        r"small/r/.*No space left",
        r"free space",
        unable=no_mounts,
    ),
    _fault(
        "file-size-limit",
        "`ulimit -f` ends the journal",
        shell("ulimit -f 4; benchsuite run short.yaml"),
        (5,),
        r"samples\.jsonl.*File too large",
    ),
    _fault(
        "full-device-for-json",
        "`--json` goes to a full device",
        shell("benchsuite run short.yaml --json - > /dev/full"),
        (5,),
        r"standard output: .*No space left",
        keeps=_MEASURED,
    ),
    _fault(
        "full-device-for-output",
        "what is printed goes to a full device",
        shell("benchsuite run short.yaml > /dev/full"),
        (5,),
        r"standard output: .*No space left",
        keeps=_MEASURED,
    ),
    _fault(
        "junit-into-full-disk",
        "the JUnit file's disk is full",
        in_mount(
            "16k",
            _FILL + "benchsuite run short.yaml --junit small/junit.xml",
        ),
        (5,),
        r"junit\.xml.*No space left",
        keeps=_MEASURED,
        unable=no_mounts,
    ),
    _fault(
        "report-into-full-disk",
        "a report of a stored run does not fit",
        in_mount(
            "16k",
            "benchsuite run short.yaml > out.txt; "
            + _FILL
            + "benchsuite report last --to small/run.html",
        ),
        (5,),
        r"run\.html.*No space left",
        keeps=_MEASURED,
        unable=no_mounts,
    ),
    _fault(
        "read-only-work-folder",
        "the work folder is mounted read-only",
        in_mount(
            "1m", "cp short.yaml small/; " + _READ_ONLY + "cd small; benchsuite run short.yaml"
        ),
        (5,),
        r"Read-only file system",
        r"--out",
        unable=no_mounts,
    ),
    _fault(
        "baselines-not-writable",
        "the baselines' folder is mounted read-only when a run is accepted",
        in_mount(
            "1m",
            "printf 'baselines = \"small/b\"\\n' > benchsuite.toml; mkdir small/b; "
            + _READ_ONLY
            + "benchsuite run short.yaml > out.txt; benchsuite accept last --reason first",
        ),
        (5,),
        r"small/b.*Read-only file system",
        keeps=_MEASURED,
        unable=no_mounts,
    ),
    _fault(
        "run-folder-is-a-file",
        "`.benchsuite` is a file",
        shell("echo x > .benchsuite; benchsuite run short.yaml"),
        (5,),
        r"\.benchsuite",
        r"Not a directory|File exists",
    ),
    _fault(
        "run-folder-is-a-loop",
        "`.benchsuite` is a link to itself",
        shell("ln -s .benchsuite .benchsuite; benchsuite run short.yaml"),
        (5,),
        r"\.benchsuite",
        r"Too many levels of symbolic links|File exists",
    ),
    _fault(
        "scenario-is-a-loop",
        "the scenario is a link to itself",
        shell("ln -s loop.yaml loop.yaml; benchsuite run ./loop.yaml"),
        (2,),
        r"loop\.yaml",
    ),
    _fault(
        "no-home",
        "there is no HOME",
        shell("unset HOME XDG_CACHE_HOME; benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "home-is-empty",
        "HOME is empty",
        shell("unset XDG_CACHE_HOME; HOME= benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "home-does-not-exist",
        "HOME names nothing that can be made",
        shell("unset XDG_CACHE_HOME; HOME=/proc/nowhere benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "home-is-a-file",
        "HOME is a file",
        shell("unset XDG_CACHE_HOME; HOME=$PWD/short.yaml benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "64-descriptors",
        "only 64 files may be open",
        shell("ulimit -n 64; benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "64-descriptors-32-requests",
        "only 64 files may be open, and 32 requests go on at the same time",
        shell(
            "cat >> short.yaml <<'END'\n"
            "  - metric: 'requests_failed{step=\"many\"}'\n"
            "    equals: 0\n"
            "END\n"
            "sed -i 's/^gates:/  - load: {as: many, requests: 64, concurrency: 32,"
            " prompt: {tokens: 8, seed: 1}, max_tokens: 1}\\ngates:/' short.yaml;"
            " ulimit -n 64; benchsuite run short.yaml --set parallel=4 --set ctx-size=4096"
        ),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "12-descriptors",
        "only 12 files may be open",
        shell("ulimit -n 12; benchsuite run short.yaml"),
        (5,),
        r"Too many open files",
    ),
    _fault(
        "2-processes",
        "the user may have 2 processes, a shell and benchsuite",
        as_other_user("ulimit -u 2; benchsuite run short.yaml"),
        (5,),
        r"Resource temporarily unavailable",
        r"check that processes can be started|ulimit -u",
        unable=no_other_user,
    ),
    _fault(
        "6-processes",
        "the user may have 6 processes and threads, too few for a server",
        as_other_user("ulimit -u 6; benchsuite run short.yaml"),
        (4, 5),
        r"[Rr]esource temporarily unavailable|thread",
        unable=no_other_user,
    ),
    _fault(
        "git-is-read-only",
        "the git repository that it runs in is mounted read-only",
        in_mount(
            "2m",
            "cp short.yaml small/; cd small; git init -q .;"
            " git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x; cd ..;"
            f" {_READ_ONLY} cd small; benchsuite run short.yaml --out ../runs --json ../run.json;"
            ' c=$?; grep -o \'"commit": *"[0-9a-f]*"\' ../run.json; exit $c',
        ),
        (0,),
        r"PASS|pass",
        r'"commit": ?"[0-9a-f]{7,}"',
        keeps=_MEASURED,
        unable=no_mounts,
    ),
    _fault(
        "little-memory",
        "the address space is limited to 300 MB, too little for the server",
        shell("ulimit -v 300000; benchsuite run short.yaml"),
        (4, 5),
        r"memory|allocate",
    ),
    _fault(
        "no-proc",
        "/proc is empty",
        in_mount("1m", "mount -t tmpfs tmpfs /proc; benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
        unable=no_mounts,
    ),
    _fault(
        "names-of-many-scripts",
        "folder, scenario and model have spaces and letters of other scripts",
        shell(
            "mkdir 'wörk ☂ 文'; cp short.yaml 'wörk ☂ 文/';"
            " for m in $XDG_CACHE_HOME/benchsuite/tiny-*.gguf; do break; done; cp $m"
            " 'wörk ☂ 文/mödel 1.gguf'; cd 'wörk ☂ 文';"
            " benchsuite run short.yaml --model 'mödel 1.gguf'"
        ),
        (0, 3),
        keeps=_MEASURED,
    ),
    _fault(
        "long-path",
        "the work folder's path has 1,200 characters",
        shell(
            "for n in 1 2 3 4 5 6; do d=$(printf 'x%.0s' {1..200}); mkdir $d; cp short.yaml $d/;"
            " cd $d; done; benchsuite run short.yaml"
        ),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "two-runs-in-one-folder",
        "two runs go on in one folder at the same time",
        shell(
            "benchsuite run short.yaml > one.txt 2>&1 & benchsuite run short.yaml; c=$?; wait $!;"
            " o=$?; [ $o = 0 ] || { cat one.txt; exit $o; };"
            " [ $(ls .benchsuite/runs/*/record.json | wc -l) = 2 ] && exit $c"
        ),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "no-temporary-folder",
        "TMPDIR names nothing",
        shell("TMPDIR=/nowhere benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "ascii-locale",
        "the locale is C without UTF-8, and a title has other letters",
        shell(
            "sed -i 's/two short/zwei kürzere ☂/' short.yaml; LC_ALL=C PYTHONUTF8=0"
            " PYTHONCOERCECLOCALE=0 PYTHONIOENCODING= benchsuite run short.yaml"
        ),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "ascii-json",
        "the locale is C without UTF-8, and JSON goes to stdout",
        shell(
            "sed -i 's/two short/zwei kürzere ☂/' short.yaml; LC_ALL=C PYTHONUTF8=0"
            " PYTHONCOERCECLOCALE=0 benchsuite run short.yaml --json -"
        ),
        (0,),
        r"kürzere",
        keeps=_MEASURED,
    ),
    _fault(
        "stdout-closed",
        "stdout is closed",
        shell("benchsuite run short.yaml >&-"),
        (0,),
        keeps=_MEASURED,
    ),
    _fault(
        "stderr-closed",
        "stderr is closed",
        shell("benchsuite run short.yaml 2>&-"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "all-streams-closed",
        "stdin, stdout and stderr are closed",
        shell("benchsuite run short.yaml <&- >&- 2>&-"),
        (0,),
        keeps=_MEASURED,
    ),
    _fault(
        "stdin-closed",
        "stdin is closed",
        shell("benchsuite run short.yaml <&-"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "reader-leaves",
        "the reader of what is printed leaves after a line",
        shell("benchsuite run short.yaml | head -1; exit ${PIPESTATUS[0]}"),
        (0, 5),
        keeps=_MEASURED,
    ),
    _fault(
        "reader-of-json-is-gone",
        "the reader of `--json` is gone",
        shell("benchsuite run short.yaml --json - | true; exit ${PIPESTATUS[0]}"),
        (5,),
        keeps=_MEASURED,
    ),
    _fault(
        "reader-is-slow",
        "the reader of what is printed stops for five seconds",
        shell("benchsuite run short.yaml --json - | (sleep 5; cat); exit ${PIPESTATUS[0]}"),
        (0,),
        keeps=_MEASURED,
    ),
    _fault(
        "no-git",
        "git is not there",
        shell(
            'mkdir bin; ln -s "$(command -v bash)" bin/; PATH=$PWD/bin benchsuite run short.yaml'
        ),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "git-hangs",
        "git never answers",
        shell(
            "mkdir bin .git; printf '#!/bin/sh\\nexec sleep 600\\n' > bin/git; chmod +x bin/git;"
            " PATH=$PWD/bin:$PATH benchsuite run short.yaml"
        ),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "run-folder-removed",
        "the run's folder is removed while the run goes",
        shell(
            "benchsuite run short.yaml --trials 3 & p=$!;"
            " until ls .benchsuite/runs/*/server.*.log; do sleep 0.05; done > found.txt 2>&1;"
            " until rm -rf .benchsuite/runs; do :; done 2>> found.txt; wait $p"
        ),
        (5,),
        r"\.benchsuite/runs",
    ),
    _fault(
        "binary-replaced",
        "the server's file is replaced between two launches",
        shell(
            "cat > llama-server <<'END'\n"
            f"#!{sys.executable}\n"
            "import os, runpy, sys\n"
            "if '--port' in sys.argv:\n"
            "    os.replace('new', sys.argv[0])\n"
            "runpy.run_module('benchsuite.server.embedded', run_name='__main__')\n"
            "END\n"
            "printf '#!/bin/sh\\nexit 3\\n' > new; chmod +x new llama-server;"
            " benchsuite run short.yaml --server ./llama-server --trials 2"
        ),
        (4,),
        r"trial 2: the server did not start: exited with code 3",
        keeps=_MEASURED,
    ),
    _fault(
        "clock-steps-back",
        "the clock goes back by an hour in the middle of a run",
        shell(_STEPPED + " PYTHONPATH=$PWD/step:$PYTHONPATH benchsuite run short.yaml --trials 2"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "clock-stands-still",
        "two runs begin in the same second by the clock",
        shell(
            _STILL + "export PYTHONPATH=$PWD/step:$PYTHONPATH;"
            " benchsuite run short.yaml && benchsuite run short.yaml &&"
            " [ $(ls .benchsuite/runs/*/record.json | wc -l) = 2 ]"
        ),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "memory-runs-out",
        "the process gets no more memory while it reads a scenario",
        shell(
            "mkdir step; cat > step/sitecustomize.py <<'END'\n"
            "import benchsuite.scenario.nodes as nodes\n"
            "def none(*given):\n"
            "    raise MemoryError\n"
            "nodes.parse_nodes = none\n"
            "END\n"
            " PYTHONPATH=$PWD/step:$PYTHONPATH benchsuite run short.yaml"
        ),
        (5,),
        r"no memory is left for benchsuite",
        r"ulimit -v",
    ),
    _fault(
        "history-is-a-folder",
        "where the history file belongs lies a folder",
        shell("mkdir -p .benchsuite/history.sqlite; benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
    ),
    _fault(
        "locks-cannot-be-made",
        "the folder of device locks is a file",
        shell("echo x > locks; BENCHSUITE_LOCKS=$PWD/locks benchsuite run short.yaml"),
        (5,),
        r"lock of device",
        r"BENCHSUITE_LOCKS",
    ),
    _fault(
        "temporary-folder-is-full",
        "TMPDIR has no byte left",
        in_mount("16k", _FILL + "TMPDIR=$PWD/small benchsuite run short.yaml"),
        (0,),
        r"PASS|pass",
        keeps=_MEASURED,
        unable=no_mounts,
    ),
    _fault(
        "model-cache-is-full",
        "the tiny model does not fit where models are kept",
        in_mount("64k", "XDG_CACHE_HOME=$PWD/small HOME=$PWD/small benchsuite run short.yaml"),
        (0,),
        r"warning: the tiny model is kept in",
        keeps=_MEASURED,
        unable=no_mounts,
    ),
    _fault(
        "out-is-a-file",
        "--out names a file",
        shell("benchsuite run short.yaml --out short.yaml"),
        (5,),
        r"short\.yaml",
        r"Not a directory|File exists|folder",
    ),
    _fault(
        "baselines-are-a-file",
        "the baselines' folder is a file",
        shell(
            "echo x > baselines; benchsuite run short.yaml > out.txt;"
            " benchsuite accept last --reason first"
        ),
        (5,),
        r"baselines",
        r"Not a directory|File exists|folder",
    ),
    _fault(
        "journal-cut",
        "a record is lost and its journal cut in the middle of a line",
        shell(
            "benchsuite run short.yaml > out.txt; cd .benchsuite/runs/*; rm record.json;"
            " truncate -s -700 samples.jsonl; benchsuite report . --format markdown"
        ),
        (0,),
        r"killed during .*before its record was written",
        r"ends in line",
        keeps=("journal", "reply"),
    ),
)
