"""Where the program begins: signals first, since the rest takes a moment to import.

Knows nothing of the rest. What comes before, the interpreter's own start and `import signal`, is
not ours: a signal there ends it as the interpreter has it.
"""

from __future__ import annotations

import os
import signal

_INTERRUPTED = 130
ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that end us, by name, as not every system has them all."""


def main() -> None:
    """Run the command line; leave at once, with nothing done, where a signal comes before that."""
    for name in ENDING:
        number = getattr(signal, name, None)
        usual = (signal.SIG_DFL, signal.default_int_handler)
        if number is not None and signal.getsignal(number) in usual:  # not under nohup
            signal.signal(number, leave)
    from benchsuite.cli.main import main as run

    run()


def leave(number: int, frame: object) -> None:
    """The handler while nothing was started that would have to be ended."""
    os.write(2, b"interrupted\n")
    os._exit(_INTERRUPTED)
