"""The tiny model: 5 MB of random weights that every machine makes byte for byte alike.

It stands in for a real model where only the server is under test. Its greedy text is printable
words, depends on what the KV cache holds, and its four layers at F16 KV weigh 16.00 MiB at 8192
cells (4 layers * 4 heads * 32 * 2 bytes * K and V).

Why the same bytes: weights come from SHAKE-256 of the tensor's name, one byte each, and are odd
integers times a power of two, which F16 holds exactly. No floating-point arithmetic is done, and
the tensors are handed to `gguf` as bytes, so neither its nor numpy's version, nor the machine's
byte order or maths library, can change them.

The scales were chosen by measuring 60 prompts of 150 words on build 10434, as shares of the
logits' standard deviation (4.6 here): between the top two logits 0.32; mean change of that gap by
micro-batch or flash attention 0.002, 99th percentile 0.007. Tried and rejected: gentler attention
(half the noise, but a changed word no longer changes every text); sharper attention (noise grows
as fast as the effect of a word); heavy-tailed logits by one-hot output rows (gaps and noise both
grow fourfold); F32 weights (twice the size, no less noise).

Must not know what a server is; imports gguf, and with it numpy, only when the file must be made.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchsuite.errors import MachineError
from benchsuite.model.tiny_words import TINY_WORDS

if TYPE_CHECKING:
    import gguf

TINY_SHA256 = "84a2ae46551589eba6a3fd2b17b7c5f58df1c8eee0eabf6d2f886a89ca8d5a30"
"""SHA-256 of the whole file."""
TINY_SIZE_BYTES = 5_586_560
"""Size of the whole file."""

CACHE_VARIABLE = "BENCHSUITE_CACHE"
"""Environment variable that names the cache folder."""

_SEED = "benchsuite tiny 1"
_LAYERS = 4
_EMBEDDING = 256
_HEADS = 8
_KV_HEADS = 4
_HEAD_SIZE = _EMBEDDING // _HEADS
_FEED_FORWARD = 512
_CONTEXT = 32768

# ChatML as written by llama-server's own template for it, so builds that match templates by their
# text and builds that run them as jinja render the same. Each turn begins and ends with a special
# token: a reply tokenises as a part of the next prompt exactly as it was generated.
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6  # as in gguf.TokenType
_END_OF_TURN = 4


def tiny_model(cache_dir: Path | None = None, *, say: Callable[[str], None] | None = None) -> Path:
    """The path of the tiny model, made on first use and checked by its hash on every other.

    Args:
        cache_dir: Where it is kept; None means `$BENCHSUITE_CACHE`, else the user's cache folder.
        say: Told, in one sentence, why a temporary folder is used where the cache folder cannot
            be written; None makes it a warning.

    Returns:
        An absolute path, whose file was whole a moment ago.

    Raises:
        MachineError: No folder can be written, or the model came out different here.
    """
    folder = (cache_dir or _cache_folder()).absolute()
    path = folder / _file_name()
    if is_tiny_model(path):
        return path
    try:
        _make_in(folder, path)
    except OSError as error:
        reason = f"{folder} cannot be written ({error.strerror or error})"
    else:
        return path

    user = os.getuid() if hasattr(os, "getuid") else "user"
    spare = Path(tempfile.gettempdir()) / f"benchsuite-{user}"
    path = spare / _file_name()
    told = f"the tiny model is kept in {spare}, since {reason}"
    if say is None:
        warnings.warn(told, RuntimeWarning, stacklevel=2)
    else:
        say(told)
    if is_tiny_model(path):
        return path
    try:
        _make_in(spare, path)
    except OSError as error:
        raise MachineError(
            f"no folder for the tiny model: {reason}, and neither can {spare} "
            f"({error.strerror or error})",
            hint=f"set {CACHE_VARIABLE} to a folder that can be written, with 6 MB free",
        ) from error
    return path


def write_tiny_model(path: Path) -> None:
    """Make the tiny model at `path`, replacing what is there, whole or not at all.

    Args:
        path: The file; its folder exists.

    Raises:
        OSError: The file cannot be written.
        MachineError: gguf cannot be imported, or other bytes came out than on every other machine.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        _write(part)
        with part.open("rb+") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if found != TINY_SHA256:
            raise _different(found)
        try:
            part.replace(path)
        except PermissionError:
            # Windows: a running server holds the file that another process just made
            if not is_tiny_model(path):
                raise
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def is_tiny_model(path: Path) -> bool:
    """Whether `path` is a file that holds exactly the tiny model; takes about 5 ms if it is."""
    try:
        if not path.is_file() or path.stat().st_size != TINY_SIZE_BYTES:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == TINY_SHA256
    except OSError:
        return False


def tiny_words(seed: int, count: int) -> str:
    """A prompt of `count` random words, one token each, every one with a space before it.

    Args:
        seed: Any integer; the same prompt for the same seed on every machine, for ever.
        count: How many words.
    """
    drawn = hashlib.shake_256(f"{_SEED} words {seed}".encode()).digest(2 * count)
    numbers = struct.unpack(f"<{count}H", drawn)
    return "".join(" " + TINY_WORDS[number % len(TINY_WORDS)] for number in numbers)


def _file_name() -> str:
    return f"tiny-{TINY_SHA256[:12]}.gguf"


def _cache_folder() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("benchsuite", appauthor=False))


def _make_in(folder: Path, path: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(None, f"{path.name} is a folder")
    write_tiny_model(path)


def _different(found: str) -> MachineError:
    from importlib.metadata import version

    return MachineError(
        f"the tiny model came out with sha256 {found} where {TINY_SHA256} was expected, made by "
        f"gguf {version('gguf')} and numpy {version('numpy')}",
        hint="install gguf 0.17.0 or 0.19.0, which make the right bytes, and report the versions",
    )


def _write(path: Path) -> None:
    """Write header, metadata and tensors with gguf's own writer."""
    try:
        import gguf
    except ImportError as error:
        raise MachineError(
            f"the tiny model cannot be made: gguf cannot be imported ({error})",
            hint="reinstall gguf and numpy: python -m pip install --force-reinstall gguf numpy",
        ) from error

    tokens = _vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    try:
        writer.add_name("benchsuite tiny")
        writer.add_context_length(_CONTEXT)
        writer.add_embedding_length(_EMBEDDING)
        writer.add_block_count(_LAYERS)
        writer.add_feed_forward_length(_FEED_FORWARD)
        writer.add_head_count(_HEADS)
        writer.add_head_count_kv(_KV_HEADS)
        writer.add_layer_norm_rms_eps(2.0**-17)  # about 1e-5, exact
        writer.add_rope_dimension_count(_HEAD_SIZE)
        writer.add_vocab_size(len(tokens))
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([text for text, _, _ in tokens])
        writer.add_token_scores([score for _, _, score in tokens])
        writer.add_token_types([kind for _, kind, _ in tokens])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(_END_OF_TURN)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(False)
        writer.add_add_space_prefix(False)
        writer.add_chat_template(_CHAT_TEMPLATE)
        _add_tensors(writer, len(tokens))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _vocabulary() -> list[tuple[str, int, float]]:
    """Token texts, kinds and scores, the words last.

    SentencePiece tokenisers join neighbours, best score first, where the result is a token. Every
    beginning of a word is one, longer ones better, so each word is reached by joins and no other
    join exists. Characters outside printable ASCII fall to the 256 byte tokens.
    """
    tokens = [
        ("<unk>", _UNKNOWN, 0.0),
        ("<s>", _CONTROL, 0.0),
        ("</s>", _CONTROL, 0.0),
        ("<|im_start|>", _USER_DEFINED, 0.0),
        ("<|im_end|>", _CONTROL, 0.0),
    ]
    tokens += [(f"<0x{byte:02X}>", _BYTE, 0.0) for byte in range(256)]
    tokens += [(chr(code), _NORMAL, -1000.0 - code) for code in range(33, 127)]
    tokens += [("▁", _NORMAL, -1200.0), ("\n", _NORMAL, -1201.0)]
    beginnings = {"▁" + word[:length] for word in TINY_WORDS for length in (1, 2, 3)}
    tokens += [
        (text, _NORMAL, 10.0 * len(text) - 100.0)
        for text in sorted(beginnings, key=lambda text: (len(text), text))
    ]
    tokens += [("▁" + word, _NORMAL, -1.0) for word in TINY_WORDS]
    return tokens


def _add_tensors(writer: gguf.GGUFWriter, tokens: int) -> None:
    """Add every tensor; the numbers are powers of two, `_random` says of what."""
    kv_size = _KV_HEADS * _HEAD_SIZE
    ones = struct.pack("<f", 1.0) * _EMBEDDING

    def random(name: str, rows: int, columns: int, power: int) -> None:
        _add(writer, name, "F16", _random(name, rows * columns, power), rows)

    random("token_embd.weight", tokens, _EMBEDDING, -7)
    for layer in range(_LAYERS):
        block = f"blk.{layer}."
        _add(writer, block + "attn_norm.weight", "F32", ones)
        # a softmax over scores with a deviation near 2.7: sharp enough that one word matters
        random(block + "attn_q.weight", _EMBEDDING, _EMBEDDING, -10)
        random(block + "attn_k.weight", kv_size, _EMBEDDING, -11)
        random(block + "attn_v.weight", kv_size, _EMBEDDING, -11)
        random(block + "attn_output.weight", _EMBEDDING, _EMBEDDING, -11)
        _add(writer, block + "ffn_norm.weight", "F32", ones)
        random(block + "ffn_gate.weight", _FEED_FORWARD, _EMBEDDING, -11)
        random(block + "ffn_up.weight", _FEED_FORWARD, _EMBEDDING, -11)
        random(block + "ffn_down.weight", _EMBEDDING, _FEED_FORWARD, -12)
    _add(writer, "output_norm.weight", "F32", ones)
    # Only words are ever said: a stray byte makes chat replies fail with a 500, an end of turn
    # makes them shorter than asked. Others stay at logit 0, where words reach 10 to 15.
    silent = bytes(2 * _EMBEDDING * (tokens - len(TINY_WORDS)))
    said = _random("output.weight", len(TINY_WORDS) * _EMBEDDING, -9)
    _add(writer, "output.weight", "F16", silent + said, tokens)


def _add(
    writer: gguf.GGUFWriter, name: str, kind: str, content: bytes, rows: int | None = None
) -> None:
    """Add a tensor of little-endian bytes; `rows` None means a vector."""
    import gguf
    import numpy as np

    array = np.frombuffer(content, np.uint8)  # bytes, so that no byte order is ever applied
    if rows is not None:
        array = array.reshape(rows, -1)
    writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType[kind])


def _random(name: str, count: int, power: int) -> bytes:
    """`count` F16 numbers in little-endian order: odd integers of -255 to 255 times 2**power."""
    halves = [struct.pack("<e", (2 * byte - 255) * 2.0**power) for byte in range(256)]
    drawn = hashlib.shake_256(f"{_SEED} {name}".encode()).digest(count)
    numbers = bytearray(2 * count)
    numbers[0::2] = drawn.translate(bytes(half[0] for half in halves))
    numbers[1::2] = drawn.translate(bytes(half[1] for half in halves))
    return bytes(numbers)
