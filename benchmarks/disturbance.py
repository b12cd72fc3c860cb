"""What our streaming client costs: CPU seconds for 1,000 tokens, against a plain httpx reader.

    python benchmarks/disturbance.py [--seconds S] [--rounds N] [--streams N] [--peer AIPERF]

Both read the same load (50 tokens a second a stream, in phase) in turn, in one process; the ratio
should be at most 1.2. All figures are medians over the rounds. `--peer` names the command aiperf of
an environment of its own, which reads the same load once: ours should be at most a tenth of its CPU
seconds, its start with them. Exits with 1 where a floor is missed.
"""

from __future__ import annotations

import argparse
import statistics

from peer import aiperf
from streams import READERS, Load, paced_server, read

RATIO = 1.2
PEER_RATIO = 0.1


def main() -> int:
    """Print the figures; 1 where a floor is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of one load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--peer", metavar="AIPERF", help="path of the command aiperf")
    options = parser.parse_args()
    costs: dict[str, list[float]] = {reader: [] for reader in READERS}
    with paced_server() as url:
        for reader in READERS:
            read(url, reader, Load(2, 50, False, 0.2))  # not counted: loads what is loaded late
        load = Load(options.streams, 50, False, options.seconds)
        for number in range(options.rounds):
            for reader in READERS if number % 2 else reversed(READERS):
                seen = read(url, reader, load)
                costs[reader].append(seen.cpu_seconds / seen.tokens * 1000)
        peer = aiperf(url, options.peer, load) if options.peer else None
    plain, ours = (statistics.median(costs[reader]) for reader in READERS)
    pairs = zip(costs["ours"], costs["plain"], strict=True)
    ratio = statistics.median(o / p for o, p in pairs)
    print(
        f"CPU seconds for 1,000 tokens: ours {ours:.4f}, plain {plain:.4f}, ratio {ratio:.2f} "
        f"(at most {RATIO}; {options.rounds} rounds)"
    )
    missed = ratio > RATIO
    if peer is not None:
        theirs = peer.cpu_seconds / peer.tokens * 1000
        missed |= ours / theirs > PEER_RATIO
        print(
            f"CPU seconds for 1,000 tokens: aiperf {theirs:.4f}, ours {ours / theirs:.3f} of it "
            f"(at most {PEER_RATIO})"
        )
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
