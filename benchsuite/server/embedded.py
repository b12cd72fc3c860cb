"""The embedded server: llama.cpp's own server out of xllamacpp, as a program of its own.

    python -m benchsuite.server.embedded -m MODEL [llama-server's flags]

It listens on HTTP and prints the log that llama-server prints. A flag that it cannot honour is
refused by name, with llama-server's words and exit code 1. Seen with xllamacpp 2026.10.11549:
`LLAMA_API_KEY` is ignored, so it is read here; `n_parallel` is 1 where llama-server means auto;
the constructor holds the interpreter's lock while it loads, so termination keeps its default
action until it returns; a failed load is a RuntimeError.

Quick to start (about 30 ms before the model is read), so imports stay few.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib.machinery import PathFinder

if not __package__:  # run by path: this very benchsuite, not another that is installed
    _ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120  # pathlib costs start-up time
    sys.path.insert(0, _ROOT)
    from benchsuite.server import embedded_args, embedded_flags

    sys.path.remove(_ROOT)
else:
    from benchsuite.server import embedded_args, embedded_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence
    from typing import Any

_KEY = "LLAMA_API_KEY"
_DEFAULT_PORT = 8080  # as llama-server's; xllamacpp's own default is any free one


def main(arguments: Sequence[str], environ: MutableMapping[str, str]) -> int:
    """Serve until asked to stop; the exit code.

    Args:
        arguments: The command line without the program.
        environ: The environment; the API key is taken out of it.
    """
    try:
        asked = embedded_args.parse(embedded_flags.OPTIONS, arguments, environ, _say)
        environ.pop(_KEY, None)
        options = [option for option, _ in asked]
        if embedded_flags.HELP in options:
            print(embedded_flags.help_text())
            return 0
        module = _load_library()
        if module is None:
            _say("error: xllamacpp is not installed; type: pip install 'benchsuite[server]'")
            return 1
        if embedded_flags.VERSION in options:
            _print_version(module)
            return 0
        if embedded_flags.LIST_DEVICES in options:
            _print_devices(module)
            return 0
        params = _parameters(module, asked)
    except embedded_args.BadArgumentError as error:
        _say(str(error))
        return 1
    return _serve(module, params)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _load_library() -> Any:
    """xllamacpp's extension module without the package around it, which costs 10 ms more."""
    spec = PathFinder.find_spec("xllamacpp")
    if spec is None or spec.submodule_search_locations is None:
        return None
    package = type(sys)("xllamacpp")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["xllamacpp"] = package
    import xllamacpp.xllamacpp

    module = xllamacpp.xllamacpp
    package.__dict__.update({name: vars(module)[name] for name in dir(module) if name[0] != "_"})
    return module


def _parameters(module: Any, asked: Sequence[tuple[embedded_args.Option, object]]) -> Any:
    params = module.CommonParams()
    params.n_parallel = -1
    params.port = _DEFAULT_PORT
    # what llama-server's parser sets where the user does not (build 11434)
    params.default_template_kwargs = {"preserve_reasoning": "true"}
    for option, value in asked:
        try:
            option.put(params, module, value)
        except (AttributeError, TypeError, ValueError, OverflowError, AssertionError) as error:
            name = option.names[-1]
            raise embedded_args.BadArgumentError(
                f"error: invalid argument: {name}: this xllamacpp does not take it: {error}"
            ) from None
    if not params.model.path:
        raise embedded_args.BadArgumentError("error: --model is required")
    return params


def _serve(module: Any, params: Any) -> int:
    try:
        server = module.Server(params)
    except RuntimeError:  # the log has said why
        return 1
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda which, _: received.append(which))
    if sys.platform == "win32":
        import time

        signal.signal(signal.SIGBREAK, lambda which, _: received.append(which))
        while not received:
            time.sleep(0.05)
    else:
        # The handler must run although other threads may get the signal: Python's own C handler
        # writes to this pipe from whichever thread it is in, and that wakes the read below.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        while not received:
            os.read(reader, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # asked twice: leave at once
    del server  # ends the loop, waits for requests in flight, prints the memory table
    return 0  # by the usual way out: the log is written by a thread that ends with the process


def _print_version(module: Any) -> None:
    from importlib.metadata import version

    build = module.BUILD_INFO
    print(f"version: {build['build_number']} ({build['commit']}), xllamacpp {version('xllamacpp')}")
    print(f"built with {build['compiler']} for {build['build_target']}")


def _print_devices(module: Any) -> None:
    print("Available devices:")
    shown = 0
    for device in module.get_device_info():
        if device["type"] == module.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU:
            continue
        total, free = (device[key] // (1024 * 1024) for key in ("memory_total", "memory_free"))
        print(f"  {device['name']}: {device['description']} ({total} MiB, {free} MiB free)")
        shown += 1
    if not shown:
        print("  (none)")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
