"""Identity and kind of a model file, from its GGUF header alone.

An own reader, since importing gguf imports numpy and costs 150 to 220 ms, and since gguf's reader
builds every array: here big vocabularies are stepped over and a hostile header allocates nothing.
Reads versions 2 and 3 in both byte orders, and models split into parts.

`sampled_sha256` is the SHA-256 over, for each part in order: the part's size in bytes as decimal
digits and a line feed; the header with metadata and tensor list, from byte 0 to where the last
tensor's entry ends; then of the rest either all of it, where it is 256 KiB or less, or 64 blocks
of 4096 bytes, the first at its start, the last at its end, the others spaced evenly between
(block i begins i * (length - 4096) // 63 bytes in). It tells models, quantisations and edits of
metadata apart in milliseconds; a change of a few weights can escape it.

Must not know what a server is, nor import numpy.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import struct
from pathlib import Path

from benchsuite.errors import ConfigError
from benchsuite.model.record import ModelFacts


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Architectures by what their cache holds, from the source of build 11434: `llm_arch_is_recurrent`,
# `llm_arch_is_hybrid`, `create_memory`, and where each model sets `swa_type`.
_RECURRENT = _names("mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7")
_HYBRID = _names("""
    jamba falcon-h1 plamo2 granitehybrid lfm2 lfm2moe nemotron_h nemotron_h_moe qwen3next
    kimi-linear bailingmoe3 kimi-k3 glm5-next qwen35 qwen35moe qwen4exp deepseek4 minimax-01
    """)
_SLIDING_ALWAYS = _names("""
    gemma2 gemma3n gemma4 cohere2 cohere2moe gpt-oss exaone-moe step35 mimo2 granite_swa
    muse-glimmer spark2_5 maple dots3note
    """)
_SLIDING_IF_DECLARED = _names("gemma3 olmo2 plamo3 smallthinker laguna afmoe mellum")
# These ignore a declared window: phi3 and qwen2moe files often carry one.
_FULL = _names("""
    llama deci falcon grok gpt2 gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2
    qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe plamo codeshell orion
    internlm2 minicpm minicpm3 gemma starcoder2 xverse command-r dbrx olmo olmoe openelm arctic
    deepseek deepseek2 chatglm glm4 glm4moe bitnet jais jais2 nemotron exaone granite granitemoe
    chameleon plm bailingmoe bailingmoe2 dots1 arcee ernie4_5 ernie4_5-moe hunyuan-moe
    hunyuan-dense smollm3 seed_oss grovemoe apertus minimax-m2 cogvlm pangu-embedded mistral3
    mistral4 paddleocr maincoder talkie
    """)
# Encoders, diffusion models and parts of models keep no cache between tokens.
_CACHELESS = _names("""
    clip bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert
    wavtokenizer-dec gemma-embedding dream llada llada-moe rnd1 clef t5 t5encoder
    """)

_BLOCKS = 64
_BLOCK_BYTES = 4096

_MOST_KEYS = 100_000
_MOST_TENSORS = 1_000_000
_MOST_STRINGS = 20_000_000  # in one array; the largest vocabularies have 300,000
_MOST_KEY_BYTES = 65_535  # what gguf allows
_MOST_TEXT_BYTES = 1_000_000
_MOST_DIMENSIONS = 4

_TEXTS = frozenset(["general.architecture", "general.name"])

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""Metadata type -> its struct code."""

_PART_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")

_LOOKALIKES = (
    (b"PK\x03\x04", "a zip archive, as PyTorch saves", "convert it with convert_hf_to_gguf.py"),
    (b"lmgg", "GGML, the format before GGUF", "fetch or convert the model as GGUF"),
    (b"fmgg", "GGMF, a format before GGUF", "fetch or convert the model as GGUF"),
    (b"tjgg", "GGJT, a format before GGUF", "fetch or convert the model as GGUF"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file itself: git lfs pull"),
    (b"\x7fELF", "a program", "give the model file, not the server"),
    (b"\x1f\x8b", "gzip", "unpack it first"),
    (b"<", "a web page", "fetch the model again: the download brought an error page"),
)


def read_model_facts(path: Path) -> ModelFacts:
    """What a model file is, from its header, metadata and sampled blocks.

    Args:
        path: A GGUF file; of a split model, its first part.

    Returns:
        The facts; `size_bytes` and `sampled_sha256` cover all parts of a split model.
        `attention` is None where the architecture is not known and the file does not declare it.

    Raises:
        ConfigError: The file is missing, unreadable, no GGUF, cut short or hostile, or is not the
            first part of a split model, or another part is missing.
    """
    digest = hashlib.sha256()
    first = _read_part(path, digest)
    size_bytes = first.size_bytes
    parts = first.number("split.count") or 1
    if parts > 1:
        part = first.number("split.no") or 0
        if part != 0:
            raise ConfigError(
                f"part {part + 1} of {parts} of a split model",
                where=str(path),
                hint=f"give its first part, {_part_path(path, 0, parts).name}",
            )
        for part in range(1, parts):
            size_bytes += _read_part(_other_part(path, part, parts), digest).size_bytes
    architecture = first.text("general.architecture")
    return ModelFacts(
        path=str(path),
        size_bytes=size_bytes,
        sampled_sha256=digest.hexdigest(),
        architecture=architecture,
        attention=_attention(first, architecture) if architecture else None,
        n_ctx_train=first.number(f"{architecture}.context_length") if architecture else None,
        name=first.text("general.name"),
    )


def _attention(header: _Header, architecture: str) -> str | None:
    """`full`, `sliding_window`, `recurrent`, `hybrid`, or None where nothing tells."""
    window = header.number(f"{architecture}.attention.sliding_window")
    for kind, members in (
        ("recurrent", _RECURRENT),
        ("hybrid", _HYBRID),
        ("sliding_window", _SLIDING_ALWAYS),
        ("full", _FULL),
        (None, _CACHELESS),
    ):
        if architecture in members:
            return kind
    if architecture in _SLIDING_IF_DECLARED:
        return "sliding_window" if window else "full"
    if architecture == "llama4":  # chunks of 8192 unless the window is declared as 0
        return "full" if window == 0 else "sliding_window"
    if architecture == "exaone4":  # only the model of 64 layers slides
        layers = header.number("exaone4.block_count")
        return None if layers is None else "sliding_window" if layers == 64 else "full"
    return _declared_attention(header, architecture, window)


def _declared_attention(header: _Header, architecture: str, window: int | None) -> str | None:
    """What an architecture that we do not know says of itself."""
    prefixes = [f"{architecture}.{kind}." for kind in ("ssm", "wkv", "kda", "shortconv")]
    if any(key.startswith(prefix) for key in header.keys for prefix in prefixes):
        heads = header.number(f"{architecture}.attention.head_count")
        kv_heads = header.number(f"{architecture}.attention.head_count_kv")
        if heads is None:
            return None
        return "recurrent" if heads == 0 or kv_heads == 0 else "hybrid"
    return "sliding_window" if window else None


def _part_path(path: Path, part: int, parts: int) -> Path:
    match = _PART_NAME.fullmatch(path.name)
    stem = match[1] if match else path.stem
    return path.with_name(f"{stem}-{part + 1:05}-of-{parts:05}.gguf")


def _other_part(path: Path, part: int, parts: int) -> Path:
    other = _part_path(path, part, parts)
    if parts > 99_999 or _PART_NAME.fullmatch(path.name) is None:
        raise ConfigError(
            f"the first of {parts} parts of a split model, but its name does not end in "
            f"'-00001-of-{parts:05}.gguf'",
            where=str(path),
            hint="llama-server finds the other parts by that name: rename it back",
        )
    if not other.exists():
        raise ConfigError(
            f"the first of {parts} parts of a split model, and part {part + 1}, {other.name}, "
            "is not beside it",
            where=str(path),
            hint="put all parts into one folder",
        )
    return other


def _read_part(path: Path, digest: hashlib._Hash) -> _Header:
    """Read one file's header, and feed its size, header and samples to `digest`."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(
                f"a {'folder' if stat.S_ISDIR(mode) else 'device'} where a model file was expected",
                where=str(path),
                hint="give the .gguf file itself",
            )
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes == 0:
                raise ConfigError(
                    "an empty file where a GGUF model was expected",
                    where=str(path),
                    hint="fetch the model again",
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                header = _Header(content, path)
                digest.update(f"{size_bytes}\n".encode())
                digest.update(content[: header.end])
                for start, end in _samples(header.end, size_bytes):
                    digest.update(content[start:end])
                return header
    except FileNotFoundError as error:
        raise ConfigError(
            "no such model file", where=str(path), hint="check the path, or leave --model out"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"a model file that cannot be read: {reason}", where=str(path)) from error


def _samples(start: int, size_bytes: int) -> list[tuple[int, int]]:
    """Begin and end of each sampled block of a file whose header ends at `start`."""
    length = size_bytes - start
    if length <= _BLOCKS * _BLOCK_BYTES:
        return [(start, size_bytes)]
    begins = [start + i * (length - _BLOCK_BYTES) // (_BLOCKS - 1) for i in range(_BLOCKS)]
    return [(begin, begin + _BLOCK_BYTES) for begin in begins]


class _Header:
    """The header of one open GGUF file: where each key's value lies, and where the header ends.

    Values that matter are taken while the file is mapped; everything else is stepped over.
    """

    def __init__(self, content: mmap.mmap, path: Path) -> None:
        self.size_bytes = len(content)
        self.keys: dict[str, int | str | None] = {}  # largest number of an array; None: other kinds
        self._content = content
        self._path = path
        self._at = 0
        self._doing = "the header"
        try:
            self._read()
        except (struct.error, OverflowError) as error:
            raise self._cut_short() from error
        finally:
            del self._content

    def number(self, key: str) -> int | None:
        """The integer of a key (of an array its largest), or None."""
        value = self.keys.get(key)
        return value if isinstance(value, int) else None

    def text(self, key: str) -> str | None:
        """The string of a key, or None."""
        value = self.keys.get(key)
        return value if isinstance(value, str) else None

    def _read(self) -> None:
        content = self._content
        if content[:4] != b"GGUF":
            raise self._no_gguf()
        self._at = 4
        self._order = "<"
        version = self._take("I")
        if version & 0xFFFF == 0:  # a small number in the other byte order
            self._order = ">"
            self._at = 4
            version = self._take("I")
        if version not in (2, 3):
            raise ConfigError(
                f"GGUF version {version} where 2 or 3 was expected",
                where=str(self._path),
                hint="convert the model anew: llama-server does not read this version either",
            )
        tensors, keys = self._take("Q"), self._take("Q")
        self._limit("tensors", tensors, _MOST_TENSORS, 24)
        self._limit("metadata keys", keys, _MOST_KEYS, 13)
        for number in range(keys):
            self._doing = f"metadata key {number + 1} of {keys}"
            key = self._string(_MOST_KEY_BYTES)
            self._doing = f"metadata key '{key}'"
            value = self._value(key, self._take("I"))
            self.keys.setdefault(key, value)
        last_tensor = 0  # offset from where the data begin
        for number in range(tensors):
            self._doing = f"tensor {number + 1} of {tensors}"
            self._string(_MOST_KEY_BYTES)
            dimensions = self._take("I")
            if dimensions > _MOST_DIMENSIONS:
                raise self._absurd(f"a tensor of {dimensions} dimensions")
            self._skip(8 * dimensions + 4)
            last_tensor = max(last_tensor, self._take("Q"))
        self.end = self._at
        self._doing = "the data of its tensors"
        self._skip(last_tensor)

    def _value(self, key: str, kind: int) -> int | str | None:
        if kind in _SCALARS:
            value = self._take(_SCALARS[kind])
            return None if isinstance(value, float) else int(value)
        if kind == _STRING:
            if key in _TEXTS:
                return self._string(_MOST_TEXT_BYTES)
            self._skip(self._take("Q"))
            return None
        if kind == _ARRAY:
            return self._array(self._take("I"), self._take("Q"))
        raise self._absurd(f"a value of type {kind}")

    def _array(self, kind: int, count: int) -> int | None:
        """Step over an array; the largest of a short one of integers, else None."""
        if kind in _SCALARS:
            code = _SCALARS[kind]
            begin = self._at
            self._skip(count * struct.calcsize(f"={code}"))
            if code in "?fd" or not 0 < count <= 4096:
                return None
            numbers = struct.unpack_from(f"{self._order}{count}{code}", self._content, begin)
            return int(max(numbers))
        if kind != _STRING:
            raise self._absurd(f"an array of values of type {kind}")
        self._limit("strings", count, _MOST_STRINGS, 8)
        # the one loop that is long: 250,000 tokens take about 40 ms
        content, at = self._content, self._at
        length_at = struct.Struct(f"{self._order}Q").unpack_from
        for _ in range(count):
            at += 8 + length_at(content, at)[0]
        self._at = at
        self._skip(0)
        return None

    def _take(self, code: str) -> int:
        taken = struct.Struct(self._order + code)
        value: int = taken.unpack_from(self._content, self._at)[0]
        self._at += taken.size
        return value

    def _string(self, most_bytes: int) -> str:
        length = self._take("Q")
        if length > most_bytes:
            raise self._absurd(f"a string of {length} bytes")
        begin = self._at
        self._skip(length)
        return self._content[begin : self._at].decode("utf-8", "replace")

    def _skip(self, length: int) -> None:
        self._at += length
        if self._at > self.size_bytes:
            raise self._cut_short()

    def _limit(self, what: str, count: int, most: int, least_bytes: int) -> None:
        """Refuse a count before anything is done that often."""
        if count > most:
            raise self._absurd(f"{count} {what}")
        if count * least_bytes > self.size_bytes - self._at:
            raise self._cut_short()

    def _cut_short(self) -> ConfigError:
        return ConfigError(
            f"a GGUF file that is cut short: it has {self.size_bytes} bytes, and "
            f"{self._doing} needs more",
            where=str(self._path),
            hint="fetch the model again",
        )

    def _absurd(self, found: str) -> ConfigError:
        return ConfigError(
            f"a damaged GGUF header: {self._doing} has {found}",
            where=str(self._path),
            hint="fetch the model again",
        )

    def _no_gguf(self) -> ConfigError:
        first = self._content[:32]
        what, remedy = "an unknown format", "give a .gguf file"
        if first[8:10] == b'{"':
            what, remedy = "safetensors", "convert it with convert_hf_to_gguf.py"
        for magic, lookalike, its_remedy in _LOOKALIKES:
            if first.startswith(magic):
                what, remedy = lookalike, its_remedy
        return ConfigError(
            f"no GGUF file: its first bytes are {bytes(first[:8])!r} ({what}) where b'GGUF' was "
            "expected",
            where=str(self._path),
            hint=remedy,
        )
