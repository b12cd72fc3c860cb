"""The embedded server with a log form that its own flags cannot ask for.

    embedded_log.py jsonl|colours [the embedded server's flags]

llama-server's `--log-jsonl` and the like set switches of llama.cpp's logger before the server
starts. xllamacpp exports those switches (2026.10.11549), so they are set through them. Exits 3
where it does not.
"""

import ctypes
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])

from benchsuite.server import embedded  # noqa: E402  # found by the line above

NO_SWITCH = 3


def set_form(form: str) -> bool:
    """Set one switch; False where this xllamacpp does not have it."""
    spec = PathFinder.find_spec("xllamacpp")
    if spec is None or spec.submodule_search_locations is None:
        return False
    folder = Path(next(iter(spec.submodule_search_locations)))
    file = next(folder.glob("xllamacpp*.so"), None)
    if file is None:
        return False
    library = ctypes.CDLL(str(file))
    try:
        if form == "jsonl":
            library["_Z20common_log_set_jsonlb"](ctypes.c_bool(True))
            return True
        main = library["_Z15common_log_mainv"]
        main.restype = ctypes.c_void_p
        logger = ctypes.c_void_p(main())
        library["_Z21common_log_set_colorsP10common_log10log_colors"](logger, ctypes.c_int(1))
        return True
    except AttributeError:
        return False


if __name__ == "__main__":
    if not set_form(sys.argv[1]):
        sys.exit(NO_SWITCH)
    sys.exit(embedded.main(sys.argv[2:], os.environ))
