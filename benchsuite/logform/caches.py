"""What the lines of one context's caches sum to, and whether they agree; pure."""

from __future__ import annotations

import msgspec

from benchsuite.logform.facts import KvBuffer, KvSize, RsBuffer, RsSize, Total

_HALF_QUANTUM = 0.005
_EPSILON = 1e-6
_LATENT_PADDING_MIB = 0.1
"""ik_llama: a latent cache's buffer exceeds its self size by hundredths a device (0.03 seen)."""


class Cache:
    """The lines of one cache: its buffers, then the line that sums them."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.buffers: list[KvBuffer] | list[RsBuffer] = []
        self.size: KvSize | RsSize | None = None
        self.latent = False
        self.sums_all = False  # its size line is `KV self size`, which sums all caches
        self.size_line = ""

    @property
    def printed_mib(self) -> float:
        return sum(buffer.mib for buffer in self.buffers)

    @property
    def is_probe(self) -> bool:
        """All buffers are 0.00 MiB though the cache has a size, or has none yet."""
        if not self.buffers or self.printed_mib > 0:
            return False
        return self.size is None or self.size.mib > _HALF_QUANTUM * (len(self.buffers) + 1)

    @property
    def is_decoy(self) -> bool:
        """A `size = 0.00 MiB (..., 0 layers, ...)` line with no buffer (DSV4 models)."""
        return not self.buffers and self.size is not None and self.size.mib == 0


class Sum(msgspec.Struct, frozen=True):
    """What the caches of a context weigh together."""

    total: Total | None
    probed: bool
    unreadable: list[str]
    notes: list[str]


def sum_caches(caches: list[Cache], *, one_load: bool = False, settled: bool = True) -> Sum:
    """Sum caches by their buffers, checked against their size lines.

    Args:
        caches: Of one context, in order.
        one_load: They must be those of one load; draft contexts were once made for each slot.
        settled: Lines were seen that stand around the KV lines of a load. Without them, as in
            what grep picked out, several caches may be those of several loads.
    """
    unreadable: list[str] = []
    notes: list[str] = []
    real = [cache for cache in caches if not (cache.is_probe or cache.is_decoy)]
    probed = any(cache.is_probe for cache in caches)
    if one_load:
        unreadable += _mixed_loads(real, settled=settled)
    with_buffers = any(cache.buffers for cache in real)
    mib, terms = 0.0, 0
    for cache in real:
        printed, count = cache.printed_mib, len(cache.buffers)
        if cache.size is None:
            mib, terms = mib + printed, terms + count
            continue
        size = cache.size.mib
        if isinstance(cache.size, KvSize) and not _parts_agree(cache.size):
            unreadable.append(
                f"K and V do not make the size that they are part of: {cache.size_line}"
            )
        excess = printed - size
        if not cache.buffers:
            if with_buffers:
                unreadable.append(f"a size line without a buffer line: {cache.size_line}")
            mib, terms = mib + size, terms + 1
        elif abs(excess) <= _HALF_QUANTUM * (count + 1) + _EPSILON:
            mib, terms = mib + printed, terms + count
        elif any(buffer.device.startswith("Meta(") for buffer in cache.buffers):
            # tensor split (#23792): the buffer line is one device's share
            notes.append(
                f"buffers of {printed:.2f} MiB are one device's share of {size:.2f} MiB "
                f"(tensor split), the size line counts: {cache.size_line}"
            )
            mib, terms = mib + size, terms + 1
        elif cache.latent and 0 < excess <= _LATENT_PADDING_MIB * count:
            notes.append(
                f"buffers of {printed:.2f} MiB hold padding beyond {size:.2f} MiB (ik_llama), "
                f"the buffers count: {cache.size_line}"
            )
            mib, terms = mib + printed, terms + count
        else:
            unreadable.append(
                f"buffers sum to {printed:.2f} MiB but the size line says {size:.2f} MiB: "
                f"{cache.size_line}"
            )
    total = Total(round(mib, 2), terms) if real and not unreadable else None
    return Sum(total, probed, unreadable, notes)


def _parts_agree(size: KvSize) -> bool:
    """Whether K and V, where they are printed, make the size."""
    if size.k_mib is None or size.v_mib is None:
        return True
    return abs(size.k_mib + size.v_mib - size.mib) <= 3 * _HALF_QUANTUM + _EPSILON


def _mixed_loads(caches: list[Cache], *, settled: bool) -> list[str]:
    """Why these caches cannot all be those of one load; empty where they can."""
    if sum(cache.sums_all for cache in caches) > 1:
        line = caches[-1].size_line
        return [f"the KV of more than one load, and nothing tells where the last begins: {line}"]
    unnamed = [cache for cache in caches if cache.size is not None and not cache.label]
    if len(unnamed) > 1 and not settled:
        line = unnamed[-1].size_line
        return [f"several caches, and nothing tells whether they are of one load: {line}"]
    return []
