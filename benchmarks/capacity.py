"""How much one process of ours follows: 64 streams at 3,000 tokens a second, and 256 at most.

    python benchmarks/capacity.py [--seconds S] [--rounds N]

First 64 streams of together 3,000 tokens a second, in phase: our stamps should be at most 1 ms late
at the 99th percentile beyond those of a bare reader, which only takes bytes off sockets and stamps
them, and so shows what the server's own bursts and the machine cause. Exits with 1 where they are
later.

Then 256 staggered streams, faster and faster: followed is a rate whose stamps are at most 5 ms late
at the 99th percentile, every token of which the server could write at once, and whose last reply
was read within a second of its last token. Beyond it our own health is shown, as a run measures it.
"""

from __future__ import annotations

import argparse
import statistics

from streams import READERS, Load, OwnHealth, Seen, paced_server, percentile, read

BEYOND_MS = 1.0
FOLLOWED_MS = 5.0
BEHIND_NS = 1_000_000_000
PACED = 0.95
STREAMS = 256
RATES = (1000, 2000, 3000, 4000, 6000, 8000, 12000, 16000, 24000, 32000)


def _p99(seen: Seen) -> float:
    return percentile(seen.late_ns, 0.99)


def _beyond(url: str, seconds: float, rounds: int) -> bool:
    """Whether our stamps of 3,000 tokens a second are late beyond the bare reader's."""
    load = Load(64, 3000 / 64, False, seconds)
    figures: dict[str, list[float]] = {"bare": [], "ours": []}
    for number in range(rounds):
        for reader in figures if number % 2 else reversed(figures):
            figures[reader].append(_p99(read(url, reader, load)))
    excess = statistics.median(o - b for o, b in zip(figures["ours"], figures["bare"], strict=True))
    print(
        f"64 streams, 3,000 tokens/s, p99: ours {statistics.median(figures['ours']):.3f} ms late, "
        f"bare {statistics.median(figures['bare']):.3f} ms, beyond it {excess:.3f} ms "
        f"(at most {BEYOND_MS})"
    )
    return excess > BEYOND_MS


def _words(health: OwnHealth) -> str:
    """What a run would say of our part in it."""
    lag = "not known" if health.lag_ms is None else f"{health.lag_ms:.1f} ms"
    share = "not known" if health.cpu_share is None else f"{health.cpu_share:.0%}"
    return (
        f"  our health: event_loop_lag_ms {lag}, client_cpu_share {share}, send_lateness_ms at "
        f"most {health.send_late_ns / 1e6:.1f}, bytes waited to be looked at for at most "
        f"{health.behind_ns / 1e6:.0f} ms, sockets held up {health.held_up} times"
    )


def _search(url: str, reader: str, seconds: float, rounds: int) -> None:
    best = 0
    for rate in RATES:
        load = Load(STREAMS, rate / STREAMS, True, seconds)
        tries = [read(url, reader, load) for _ in range(rounds)]
        late = statistics.median(_p99(seen) for seen in tries)
        behind_ns = statistics.median(seen.behind_ns for seen in tries)
        share = statistics.median(seen.cpu_seconds / seen.wall_seconds for seen in tries)
        paced = statistics.median(seen.paced for seen in tries)
        blocked = max(seen.blocked for seen in tries)
        followed = late <= FOLLOWED_MS and behind_ns <= BEHIND_NS and not blocked
        print(
            f"{STREAMS} streams, {rate:6,} tokens/s, {reader}: p99 {late:.2f} ms late, through "
            f"{behind_ns / 1e6:.0f} ms after the last token, {share:.0%} of a core"
            + ("" if followed else ": not followed")
        )
        if not followed:
            for seen in tries:
                if seen.health is not None:
                    print(_words(seen.health))
            break
        if paced < PACED:
            print(f"the server wrote at {paced:.0%} of that pace: it is the limit, not the reader")
            break
        best = rate
    print(f"{STREAMS} streams, {reader}: {best:,} tokens/s followed at {FOLLOWED_MS:g} ms p99")


def main() -> int:
    """Print the figures; 1 where the floor is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of one load")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with paced_server() as url:
        for reader in (*READERS, "bare"):
            read(url, reader, Load(2, 50, False, 0.2))  # not counted: loads what is loaded late
        missed = _beyond(url, options.seconds, options.rounds)
        for reader in READERS:
            _search(url, reader, options.seconds, options.rounds)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
