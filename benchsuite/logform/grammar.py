"""The forms of memory lines, each a pure function from a message to what it says.

Known forms: one number in MiB with two decimals (`MB` before 2024). Anything else is left to the
caller, who reports it as unreadable rather than guess.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import msgspec

from benchsuite.logform.facts import Buffer, KvBuffer, KvSize, RsBuffer, RsSize, TableRow
from benchsuite.logform.lines import is_prose

# a message may be pasted behind a short foreign timestamp
_START = r"(?:^|^.{0,80}?[\s|>\]])"
_MIB = r"(?P<mib>\d{1,12}\.\d\d) (?:MiB|MB)"
_COUNT = r"\d{1,15}"
_SIZE = r"\d{1,12}\.\d+"
_DEVICE = r"(?P<device>\S+(?: \([^)]*\))?)"

_CELLS = (
    rf"\(\s*(?P<cells>{_COUNT}) cells,\s*(?P<layers>{_COUNT}) layers,\s*"
    rf"(?P<seqs>{_COUNT})(?:/\s*(?P<streams>{_COUNT}))? seqs\)"
)
_TYPES = (
    rf",\s*K \((?P<kt>[^)]+)\):\s*(?P<k>{_SIZE}) MiB,"
    rf"\s*V \((?P<vt>[^)]+)\):\s*(?P<v>{_SIZE}) MiB"
)

_KV_BUFFER = re.compile(
    _START + r"(?P<function>\w+):\s+(?:\[\w+\]\s+)?"
    rf"{_DEVICE}(?: +[A-Za-z][\w-]*)*? +KV buffer(?: \(stream (?P<stream>\w+)\))? size\s*=\s*"
    rf"{_MIB}(?P<note>\s*\([^)]*\))?\s*$"
)
_KV_SIZE = re.compile(
    _START + rf"(?P<function>\w*kv_cache\w*):\s+(?:\[\w+\]\s+)?size\s*=\s*{_MIB}\s*"
    rf"(?:{_CELLS}(?:{_TYPES})?|,.*$|$)"
)
_SELF_SIZE = re.compile(
    _START + rf"\w+:\s+(?:KV|kv) self size\s*=\s*{_MIB}"
    rf"(?:{_TYPES}"
    r"|(?P<latent>,\s*c\^KV \(.*)|,.*|\s*$)"
)
_RS_BUFFER = re.compile(_START + rf"\w+:\s+{_DEVICE} +RS buffer size\s*=\s*{_MIB}\s*$")
_RS_SIZE = re.compile(
    _START + rf"\w*recurrent\w*:\s+size\s*=\s*{_MIB}\s*"
    rf"\(\s*(?P<cells>{_COUNT}) cells,\s*(?P<layers>{_COUNT}) layers,\s*(?P<seqs>{_COUNT}) seqs"
)
_BUFFER = re.compile(
    _START + r"(?P<function>\w+):\s+(?:(?P<device>\S+)\s+)?(?:(?P<kind>[A-Za-z][\w -]*?) )?"
    rf"buffer (?:total )?size\s*=\s*{_MIB}"
)
_CREATING = re.compile(r"creating\s+(?P<name>\S.*?) KV cache")
_QUOTED = re.compile(r'["{\\]')
_LIKE = re.compile(r"(?:KV|kv) buffer.*size|(?:KV|kv) buffer\s*=|(?:KV|kv) self size")
_GLUED = ("KV buffer", "self size", " size =")
_TORN = re.compile(r"[^:]{0,40}size\s*=\s*\d{1,12}(?:\.\d+)? Mi?B\s*$")
_LIKE_RS = re.compile(r"RS buffer.*size|recurrent\w*:\s+size\s*=")

_LIKE_SIZE = re.compile(r"kv_cache\w*:\s+(?:\[\w+\]\s+)?size\s*=")
_FUNCTION = re.compile(r"\S+: ")
_KV_WORD = re.compile(r"\bKV\b")
_AMOUNT = re.compile(r"\d ?(?:[KMG]i?B|bytes)\b")
_NEAR = 200
"""A claim stands within so many characters of a line's beginning."""

_CACHES = {"non-SWA": "full", "SWA": "swa", "main": "full", "lightning-indexer": "indexer"}
_KINDS = {"": "model", "LoRA": "lora"}
_VISION = frozenset({"alloc_compute_meta", "clip_model_loader", "warmup"})


class Grammar(NamedTuple):
    """What one memory line says."""

    kind: Literal["kv_buffer", "kv_size", "self_size", "rs_buffer", "rs_size", "buffer", "cache"]
    value: Any
    latent: bool = False  # ik_llama's self size of a latent (`c^KV`) cache


def parse_memory(text: str) -> Grammar | None:
    """What a line about KV, recurrent state or another buffer says; None for any other line."""
    if any(text.count(mark) > 1 for mark in _GLUED):
        return None  # two lines in one: neither is read
    if "KV buffer" in text:
        return _parse_kv_buffer(text)
    if "self size" in text:
        return _parse_self_size(text)
    if "KV cache, size" in text:
        creating = _CREATING.search(text)
        return None if creating is None else Grammar("cache", cache_label(creating["name"]))
    if "buffer" in text:
        return _parse_buffer(text)
    if "cache" in text or "recurrent" in text:
        return _parse_size(text)
    return None


def cache_label(name: str) -> str:
    """The `cache` label for llama.cpp's name of one of several caches: `non-SWA` is `full`."""
    name = " ".join(name.split())
    for ending, label in _CACHES.items():
        if name == ending or name.endswith(" " + ending):
            return label if name == ending or label == "indexer" else _slug(name)
    return _slug(name)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def looks_like_kv(text: str, *, loading: bool) -> bool:
    """Whether a line that no form takes still claims a KV size, and is not prose or quoted.

    Args:
        text: The message.
        loading: The context is being made, where any amount of memory for KV counts; later only
            lines in the wording of a known form do.
    """
    if text.startswith("# "):
        return False
    match = _LIKE.search(text) or (_claims_amount(text) if loading else None)
    if match is None:
        match = _LIKE_SIZE.search(text)
        return match is not None and _QUOTED.search(text) is None
    return match.start() < _NEAR and _QUOTED.search(text, 0, match.start()) is None


def looks_like_rs(text: str) -> bool:
    """Whether a line that no form takes still claims the size of recurrent state."""
    match = _LIKE_RS.search(text, 0, _NEAR)
    return match is not None and _QUOTED.search(text, 0, match.start()) is None


def is_torn(text: str) -> bool:
    """Whether a line is the end of one that other output tore: `fer size = 64.00 MiB`."""
    return _TORN.match(text) is not None and not is_prose(text)


def _claims_amount(text: str) -> re.Match[str] | None:
    """`function: ... KV ... 16 MiB`: where KV stands."""
    match = _KV_WORD.search(text, 0, _NEAR)
    if match is None or _FUNCTION.match(text) is None or not _AMOUNT.search(text, match.end()):
        return None
    return match


def _parse_kv_buffer(text: str) -> Grammar | None:
    match = _KV_BUFFER.search(text)
    if match is None:
        return None
    device, mib = match["device"], float(match["mib"])
    if "recurrent" in match["function"]:  # early 2025: recurrent state under the name of KV
        return Grammar("rs_buffer", RsBuffer(device, mib))
    cache = "indexer" if "indexer" in (match["note"] or "") else ""
    return Grammar("kv_buffer", KvBuffer(device, mib, cache=cache, stream=match["stream"]))


def _parse_self_size(text: str) -> Grammar | None:
    match = _SELF_SIZE.search(text)
    if match is None:
        return None
    size = _size(match)
    if "recurrent" in text.split(":", 1)[0]:
        return Grammar("rs_size", RsSize(size.mib))
    return Grammar("self_size", size, latent=match["latent"] is not None)


def _parse_size(text: str) -> Grammar | None:
    match = _RS_SIZE.search(text)
    if match is not None:
        cells, layers, seqs = (int(match[name]) for name in ("cells", "layers", "seqs"))
        return Grammar("rs_size", RsSize(float(match["mib"]), cells, layers, seqs))
    match = _KV_SIZE.search(text)
    if match is None:
        return None
    size = _size(match)
    if match["cells"] is None:
        return Grammar("kv_size", size)
    return Grammar(
        "kv_size",
        KvSize(
            size.mib,
            cells=int(match["cells"]),
            layers=int(match["layers"]),
            seqs=int(match["seqs"]),
            # mid 2025 printed no streams: there was one
            streams=int(match["streams"] or 1),
            k_type=size.k_type,
            k_mib=size.k_mib,
            v_type=size.v_type,
            v_mib=size.v_mib,
        ),
    )


def _size(match: re.Match[str]) -> KvSize:
    mib = float(match["mib"])
    if match["k"] is None:
        return KvSize(mib)
    return KvSize(
        mib,
        k_type=match["kt"],
        k_mib=float(match["k"]),
        v_type=match["vt"],
        v_mib=float(match["v"]),
    )


def _parse_buffer(text: str) -> Grammar | None:
    match = _RS_BUFFER.search(text)
    if match is not None:
        return Grammar("rs_buffer", RsBuffer(match["device"], float(match["mib"])))
    match = _BUFFER.search(text)
    if match is None:
        return None
    kind, device = match["kind"] or "", match["device"] or ""
    if kind.lower() == "kv":
        return None
    if " total size" in text:  # 2023: `compute buffer total size`, no device
        device, kind = "", device
    if match["function"] in _VISION:
        kind = "vision"
    elif kind.endswith("state"):
        kind = "state"
    return Grammar("buffer", Buffer(_KINDS.get(kind, kind), device, float(match["mib"])))


_REST_CELLS = re.compile("^" + _CELLS)
_REST_TYPE = re.compile(rf"^(?P<which>[KV]) \((?P<type>[^)]+)\):\s*(?P<mib>{_SIZE}) MiB")


def parse_size_rest(size: KvSize, text: str) -> KvSize:
    """`size` with what a broken-off part of its line adds."""
    text = text.strip()
    match = _REST_CELLS.match(text)
    if match is not None:
        return msgspec.structs.replace(
            size,
            cells=int(match["cells"]),
            layers=int(match["layers"]),
            seqs=int(match["seqs"]),
            streams=int(match["streams"] or 1),
        )
    match = _REST_TYPE.match(text)
    if match is None:
        return size
    if match["which"] == "K":
        return msgspec.structs.replace(size, k_type=match["type"], k_mib=float(match["mib"]))
    return msgspec.structs.replace(size, v_type=match["type"], v_mib=float(match["mib"]))


_TABLE_ROW = re.compile(
    r"\|\s+- (?P<device>\S.*?)\s+\|\s+"
    rf"(?:(?P<total>-?{_COUNT}) = *(?P<free>-?{_COUNT}) \+ \(\s*)?"
    rf"(?P<self>-?{_COUNT}) =\s*(?P<model>-?{_COUNT}) \+\s*(?P<context>-?{_COUNT})"
    rf" \+\s*(?P<compute>-?{_COUNT})\s*"
    rf"(?:\) \+\s*(?P<unaccounted>-?{_COUNT})\s*)?(?:\||$)"
)
_WRAP_MIB = 2**44
"""2**64 bytes in MiB: builds before 2026-03 printed a negative remainder as unsigned."""


def parse_table_row(text: str) -> TableRow | None:
    """One row of the memory table; None for its header and any other line."""
    match = _TABLE_ROW.search(text)
    if match is None:
        return None
    unaccounted = match["unaccounted"]
    return TableRow(
        device=match["device"],
        self_mib=int(match["self"]),
        model_mib=int(match["model"]),
        context_mib=int(match["context"]),
        compute_mib=int(match["compute"]),
        total_mib=None if match["total"] is None else int(match["total"]),
        free_mib=None if match["free"] is None else int(match["free"]),
        unaccounted_mib=None if unaccounted is None else _unwrap(int(unaccounted)),
    )


def _unwrap(mib: int) -> int:
    return mib - _WRAP_MIB if mib > _WRAP_MIB // 2 else mib


def read_table(record: object) -> tuple[TableRow, ...] | None:
    """The rows of a `fit_memory_breakdown` record of `--log-jsonl` (build 11434)."""
    if not isinstance(record, dict) or record.get("type") != "fit_memory_breakdown":
        return None
    data = record.get("data")
    rows = data.get("rows") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        return None
    found = []
    for row in rows:
        if not isinstance(row, dict):
            continue
        number = {key: value for key, value in row.items() if type(value) is int}
        found.append(
            TableRow(
                device=str(row.get("name", "")),
                self_mib=number.get("self", 0),
                model_mib=number.get("model", 0),
                context_mib=number.get("context", 0),
                compute_mib=number.get("compute", 0),
                total_mib=number.get("total"),
                free_mib=number.get("free"),
                unaccounted_mib=number.get("unaccounted"),
            )
        )
    return tuple(found)
