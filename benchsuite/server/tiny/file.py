"""What every tiny model's file shares: vocabulary, chat template, and weights from a fixed seed.

Why the same bytes everywhere: weights come from SHAKE-256 of the tensor's name, one byte each, and
are odd integers times a power of two, which F16 holds exactly. No floating-point arithmetic is
done, and the tensors are handed to `gguf` as bytes, so neither its nor numpy's version, nor the
machine's byte order or maths library, can change them.

Imports gguf, and with it numpy, only when a file must be made.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchsuite.errors import MachineError
from benchsuite.model.tiny_words import TINY_WORDS

if TYPE_CHECKING:
    import gguf

SEED = "benchsuite tiny 1"
"""What all weights and prompts are drawn from; another one makes other models."""

CONTEXT = 32768
"""Tokens that each model says it was trained on."""

RMS_EPSILON = 2.0**-17
"""About 1e-5, exact."""

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


@contextmanager
def new_file(path: Path, architecture: str, name: str) -> Iterator[gguf.GGUFWriter]:
    """gguf's own writer; header, metadata and tensors are written when the block ends well.

    Args:
        path: The file; its folder exists.
        architecture: As llama.cpp names it.
        name: Of the model.

    Raises:
        MachineError: gguf cannot be imported.
        OSError: The file cannot be written.
    """
    try:
        import gguf
    except ImportError as error:
        raise MachineError(
            f"the tiny model cannot be made: gguf cannot be imported ({error})",
            hint="reinstall gguf and numpy: python -m pip install --force-reinstall gguf numpy",
        ) from error
    writer = gguf.GGUFWriter(path, architecture)
    try:
        writer.add_name(name)
        yield writer
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def add_vocabulary(writer: gguf.GGUFWriter) -> int:
    """Add the vocabulary that all kinds share, with the chat template; its size in tokens."""
    tokens = _vocabulary()
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
    return len(tokens)


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


class Tensors:
    """Adds tensors to a file.

    Shapes are as numpy has them, rows before columns: the reverse of ggml's, so the last number is
    how long the vectors are that a matrix multiplies.
    """

    def __init__(self, writer: gguf.GGUFWriter) -> None:
        self._writer = writer

    def random(self, name: str, shape: tuple[int, ...], power: int) -> None:
        """F16 numbers with a deviation of 147.8 * 2**power."""
        self._add(name, "F16", _random(name, _count(shape), power, "<e"), shape)

    def random_f32(self, name: str, shape: tuple[int, ...], power: int) -> None:
        """The same as F32, for the tensors that llama.cpp computes with as they are."""
        self._add(name, "F32", _random(name, _count(shape), power, "<f"), shape)

    def same(self, name: str, count: int, value: float = 1.0) -> None:
        """A vector of one F32 value; 1 for the scales of norms that only normalise."""
        self._add(name, "F32", struct.pack("<f", value) * count, (count,))

    def filled(self, name: str, shape: tuple[int, ...], value: Callable[[int], float]) -> None:
        """F32 rows that are all alike: `value` of each column."""
        row = b"".join(struct.pack("<f", value(column)) for column in range(shape[-1]))
        self._add(name, "F32", row * (_count(shape) // shape[-1]), shape)

    def embedding(self, tokens: int, size: int) -> None:
        """The vector of each token, with a deviation of 1.15."""
        self.random("token_embd.weight", (tokens, size), -7)

    def output(self, tokens: int, size: int, power: int) -> None:
        """Norm and output matrix, by which only words are ever said.

        A stray byte makes chat replies fail with a 500, an end of turn makes them shorter than
        asked. Others stay at logit 0, where words reach 10 to 15.
        """
        self.same("output_norm.weight", size)
        silent = bytes(2 * size * (tokens - len(TINY_WORDS)))
        said = _random("output.weight", len(TINY_WORDS) * size, power, "<e")
        self._add("output.weight", "F16", silent + said, (tokens, size))

    def _add(self, name: str, kind: str, content: bytes, shape: tuple[int, ...]) -> None:
        import gguf
        import numpy as np

        array = np.frombuffer(content, np.uint8)  # bytes, so that no byte order is ever applied
        if len(shape) > 1:
            array = array.reshape(*shape[:-1], -1)
        self._writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType[kind])


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _random(name: str, count: int, power: int, form: str) -> bytes:
    """`count` little-endian numbers, each an odd integer of -255 to 255 times 2**power."""
    numbers = [struct.pack(form, (2 * byte - 255) * 2.0**power) for byte in range(256)]
    width = struct.calcsize(form)
    drawn = hashlib.shake_256(f"{SEED} {name}".encode()).digest(count)
    content = bytearray(width * count)
    for place in range(width):
        content[place::width] = drawn.translate(bytes(number[place] for number in numbers))
    return bytes(content)
