"""How late our arrival stamps are, against a server that stamps each token as it writes it.

    python benchmarks/accuracy.py [--seconds S] [--rounds N] [--peer AIPERF]

Streams of 50 tokens a second, 8 and 64 of them, in phase (all at one moment, as a batch of a real
server sends them) and staggered, are read by a plain httpx reader that stamps what it has parsed
and by ours, in turn. Prints for each case the lateness of both, median and 99th percentile, and
their ratio, which should be at most 0.5; and the error of our time to first token, from the
request's last byte to the first token's, which should be at most 0.3 ms in the median. All figures
are medians over the rounds. `--peer` names the command aiperf of an environment of its own, which
reads the cases in phase once each, for comparison. Exits with 1 where a floor is missed.
"""

from __future__ import annotations

import argparse
import statistics

from peer import aiperf
from streams import READERS, Load, Seen, paced_server, percentile, read

RATIO = 0.5
TTFT_MS = 0.3
CASES = [(8, False), (8, True), (64, False), (64, True)]


def _figures(rounds: list[Seen], share: float) -> list[float]:
    return [percentile(seen.late_ns, share) for seen in rounds]


def main() -> int:
    """Print the figures; 1 where a floor is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of one load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", metavar="AIPERF", help="path of the command aiperf")
    options = parser.parse_args()
    missed = False
    with paced_server() as url:
        for reader in READERS:
            read(url, reader, Load(2, 50, False, 0.2))  # not counted: loads what is loaded late
        for streams, staggered in CASES:
            load = Load(streams, 50, staggered, options.seconds)
            rounds: dict[str, list[Seen]] = {reader: [] for reader in READERS}
            for number in range(options.rounds):
                for reader in READERS if number % 2 else reversed(READERS):
                    rounds[reader].append(read(url, reader, load))
            case = f"{streams:2} streams {'staggered' if staggered else 'in phase '}"
            for words, share in (("median", 0.5), ("p99", 0.99)):
                plain, ours = (_figures(rounds[reader], share) for reader in READERS)
                ratio = statistics.median(o / p for o, p in zip(ours, plain, strict=True))
                missed |= ratio > RATIO
                print(
                    f"{case}, {words:6}: ours {statistics.median(ours):.3f} ms late, plain "
                    f"{statistics.median(plain):.3f} ms, ratio {ratio:.2f} (at most {RATIO})"
                )
            errors = [
                statistics.median(map(abs, seen.ttft_error_ns)) / 1e6 for seen in rounds["ours"]
            ]
            error = statistics.median(errors)
            missed |= error > TTFT_MS
            print(f"{case}, TTFT  : {error:.3f} ms wrong in the median (at most {TTFT_MS})")
            if options.peer and not staggered:
                late = aiperf(url, options.peer, load).late_ns
                print(
                    f"{case}, aiperf: {percentile(late, 0.5):.3f} ms late in the median, "
                    f"p99 {percentile(late, 0.99):.3f} ms"
                )
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
