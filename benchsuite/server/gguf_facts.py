"""Identity and kind of a model file, from its GGUF header alone.

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
import re
from pathlib import Path

from benchsuite.errors import ConfigError
from benchsuite.model.record import ModelFacts
from benchsuite.server.gguf_header import Header, open_gguf


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

_PART_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


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


def hash_parts(path: Path) -> tuple[tuple[str, str], ...]:
    """File name and SHA-256 of the whole content of each part of a model, in order.

    Reads every byte: some minutes for 100 GB, while `read_model_facts` takes milliseconds.

    Args:
        path: A GGUF file; of a split model, its first part.

    Raises:
        ConfigError: As `read_model_facts`; or a part cannot be read to its end.
    """
    with open_gguf(path) as (header, _):
        parts = header.number("split.count") or 1
    files = [path, *(_other_part(path, part, parts) for part in range(1, parts))]
    found = []
    for file in files:
        try:
            with file.open("rb") as stream:
                found.append((file.name, hashlib.file_digest(stream, "sha256").hexdigest()))
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", where=str(file)) from error
    return tuple(found)


def _attention(header: Header, architecture: str) -> str | None:
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


def _declared_attention(header: Header, architecture: str, window: int | None) -> str | None:
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


def _read_part(path: Path, digest: hashlib._Hash) -> Header:
    """Read one file's header, and feed its size, header and samples to `digest`."""
    with open_gguf(path) as (header, content):
        digest.update(f"{header.size_bytes}\n".encode())
        digest.update(content[: header.end])
        for start, end in _samples(header.end, header.size_bytes):
            digest.update(content[start:end])
        return header


def _samples(start: int, size_bytes: int) -> list[tuple[int, int]]:
    """Begin and end of each sampled block of a file whose header ends at `start`."""
    length = size_bytes - start
    if length <= _BLOCKS * _BLOCK_BYTES:
        return [(start, size_bytes)]
    begins = [start + i * (length - _BLOCK_BYTES) // (_BLOCKS - 1) for i in range(_BLOCKS)]
    return [(begin, begin + _BLOCK_BYTES) for begin in begins]
