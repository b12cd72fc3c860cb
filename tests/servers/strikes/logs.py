"""The log is not what a log should be. Each strike adds to what the server itself writes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from tests.servers.strikes.strike import CHAT, Exchange, strike

_MIB = 1024 * 1024
_LINE = b"0.01.000.000 I srv  update_slots: all is as it was, and this line says nothing at all\n"


def _log() -> Path:
    return Path("/proc/self/fd/2").readlink()


@strike()
def log_deleted(exchange: Exchange) -> None:
    _log().unlink()
    exchange.pass_on()


@strike()
def log_truncated(exchange: Exchange) -> None:
    os.truncate(_log(), 0)
    exchange.pass_on()


@strike()
def log_rotated(exchange: Exchange) -> None:
    log = _log()
    log.rename(f"{log}.1")
    log.write_bytes(_LINE)
    exchange.pass_on()


@strike()
def log_becomes_a_folder(exchange: Exchange) -> None:
    log = _log()
    log.rename(f"{log}.1")
    log.mkdir()
    exchange.pass_on()


@strike(CHAT, 1)
def log_floods(exchange: Exchange) -> None:
    """50 MB/s for 4 s, while a request is served."""
    block = _LINE * (5_000_000 // len(_LINE))

    def flood() -> None:
        for _ in range(40):
            began = time.monotonic()
            os.write(2, block)
            time.sleep(max(0.1 - (time.monotonic() - began), 0))

    flooding = threading.Thread(target=flood)
    flooding.start()
    exchange.pass_on()
    exchange.connection.close()
    flooding.join()


@strike()
def log_outgrows_the_cap(exchange: Exchange) -> None:
    """As by a flood, without filling the disk: the file is sparse."""
    os.truncate(_log(), 1025 * _MIB)
    time.sleep(30)


@strike()
def log_not_utf8(exchange: Exchange) -> None:
    os.write(2, bytes(range(128, 256)) * 1000 + b"\n" + b"caf\xe9 \xff\xfe\xfa\n")
    exchange.pass_on()


@strike()
def log_of_nul_bytes(exchange: Exchange) -> None:
    os.write(2, b"\x00" * _MIB + b"\n")
    exchange.pass_on()


@strike()
def log_line_without_end(exchange: Exchange) -> None:
    for _ in range(100):
        os.write(2, b"x" * 1_000_000)
    exchange.pass_on()


@strike()
def log_in_colours(exchange: Exchange) -> None:
    os.write(
        2, b"\x1b[32m0.01.000.000\x1b[0m I \x1b[31mslot\x1b[0m all is red\x1b[2J\x1b]0;t\x07\n"
    )
    exchange.pass_on()


@strike()
def log_colours_then_dies(exchange: Exchange) -> None:
    exchange.die(
        signal.SIGABRT, b"\x1b[31m/src/llama-kv-cache.cpp:77: GGML_ASSERT(n == 1) failed\x1b[0m\n"
    )


@strike()
def log_goes_back_in_time(exchange: Exchange) -> None:
    os.write(2, b"9.59.59.999 I srv  update_slots: idle\n0.00.00.001 I srv  update_slots: idle\n")
    exchange.pass_on()


@strike()
def log_repeats_a_start(exchange: Exchange) -> None:
    os.write(2, b"0.00.00.001 I srv    load_model: loading model '/other.gguf'\n")
    exchange.pass_on()
