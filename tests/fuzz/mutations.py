"""Makes hostile inputs of good ones: bytes, lines, JSON values and texts; the same for a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

WORDS: tuple[bytes, ...] = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",  # a surrogate, as no UTF-8 has it
    "\u202e\u2066evil\u2069".encode(),  # bidirectional controls
    "\u2028\u2029\x85\x0b\x0c".encode(),  # line ends of `str.splitlines` only
    "e\u0301\u0327\u0301".encode() * 40,
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\x1b[31m",
    b"9" * 25,
    b"1" * 5000,  # more digits than Python turns into a number
    b"1e400",
    b"-1",
    b"-0.0",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"[" * 2000,
    b'{"a":' * 1200,
    b'"' + b"A" * 20_000 + b'"',
    b"\\u0000",
    b"\\ud800",
    b"<<<<<<< ours\n",
    b"=HYPERLINK(1)",
    b"../../etc/passwd",
    "\u0661\u0662".encode(),  # digits that are not ASCII
)
"""What is put into any input."""

_RAW = (
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "9" * 25,
    "-" + "9" * 400,
    "1" * 5000,
    "1E+2",
    "-0",
    "0.1e-400",
    "18446744073709551616",
    "-9223372036854775809",
    '"\\ud800"',
    '"\\u0000"',
    "[" * 1500 + "]" * 1500,
    "[" * 480 + "]" * 480,
    "[" * 960 + "]" * 960,
    '{"a":' * 1500 + "1" + "}" * 1500,
)
"""JSON texts that `json.dumps` would not write, some of them no JSON."""

_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    10**30,
    10**400,
    0.5,
    -0.0,
    1e308,
    5e-324,
    "",
    " ",
    "x",
    "null",
    "nan",
    "0",
    "\x00",
    "\u202ex",
    "a\nb",
    "\ud83d\ude00",
    "../x",
    "=1+1",
    "A" * 5000,
    [],
    [[]],
    [None],
    [1, "a", None],
    {},
    {"": ""},
    {"not finite": "nan"},
    {"value": 1, "quantum": 0.01, "terms": 1},
)
"""What a JSON value is replaced by."""

_MARK = "\x01raw%d\x01"
_MOST_BYTES = 200_000
_MOST_PLACES = 2_000


def mutate_bytes(
    random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]
) -> bytes:
    """Change bytes in one to six ways."""
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = random.choice(_BYTE_WAYS)(random, data, others, words)
    return data[:_MOST_BYTES]


def _flip(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _set(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[random.randrange(len(changed))] = random.choice(b'\x00\xff\n\r\t "{}[]:,-|=\\#&*!')
    return bytes(changed)


def _insert_word(
    random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]
) -> bytes:
    word = random.choice(words if words and random.random() < 0.7 else WORDS)
    at = random.randrange(len(data) + 1)
    return data[:at] + word + data[at + random.choice((0, 0, len(word))) :]


def _noise(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.choice((1, 2, 4, 16))) + data[at:]


def _delete(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    begin, end = _range(random, len(data))
    return data[:begin] + data[end:]


def _repeat(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    begin, end = _range(random, min(len(data), 300))
    return data[:begin] + data[begin:end] * random.choice((2, 2, 3, 50)) + data[end:]


def _cut(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] if random.random() < 0.8 else data[at:]


def _splice(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    other = random.choice(others) if others else b""
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def _number(random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Replace a number by an extreme one."""
    digits = [at for at in range(len(data)) if 48 <= data[at] <= 57]
    if not digits:
        return data
    begin = end = random.choice(digits)
    while begin and 48 <= data[begin - 1] <= 57:
        begin -= 1
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    new = random.choice((b"0", b"-1", b"1e9", b"4294967296", b"9" * 30, b"1" * 4400, b"1.5", b""))
    return data[:begin] + new + data[end:]


def _range(random: Random, size: int) -> tuple[int, int]:
    begin = random.randrange(size + 1)
    return begin, min(size, begin + random.choice((1, 2, 8, 64, 512)))


_BYTE_WAYS: tuple[Callable[[Random, bytes, Sequence[bytes], Sequence[bytes]], bytes], ...] = (
    _flip,
    _set,
    _insert_word,
    _noise,
    _delete,
    _repeat,
    _cut,
    _splice,
    _number,
)


def mutate_lines(
    random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]
) -> bytes:
    """Delete, repeat, swap, indent, join and mix lines; some bytes too."""
    lines = data.split(b"\n")
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(lines)) if lines else 0
        way = random.randrange(8)
        if not lines or way == 0:
            other = random.choice(others).split(b"\n") if others else [b""]
            lines.insert(at, random.choice(other))
        elif way == 1:
            del lines[at : at + random.choice((1, 1, 2, 10))]
        elif way == 2:
            lines[at:at] = [lines[at]] * random.choice((1, 1, 2, 40))
        elif way == 3:
            to = random.randrange(len(lines))
            lines[at], lines[to] = lines[to], lines[at]
        elif way == 4:
            lines[at] = b" " * random.randrange(6) + lines[at].lstrip()
        elif way == 5:
            head, colon, _ = lines[at].partition(random.choice((b":", b"=", b"- ")))
            lines[at] = head + colon + b" " + random.choice(words or WORDS)
        elif way == 6 and at + 1 < len(lines):
            lines[at : at + 2] = [lines[at] + lines[at + 1]]
        else:
            lines[at] = mutate_bytes(random, lines[at], others, words)
    return b"\n".join(lines)[:_MOST_BYTES]


def mutate_value(random: Random, value: Any) -> bytes:
    """A JSON value with some nodes replaced, removed, repeated or renamed, as JSON or nearly so."""
    value = _copy(value)
    raws: list[str] = []
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        places = _places(value)
        if not places:
            return random.choice(_RAW).encode()
        if len(places) > _MOST_PLACES:
            break
        holder, key = random.choice(places)
        way = random.randrange(8)
        if way == 0:
            raws.append(random.choice(_RAW))
            holder[key] = _MARK % (len(raws) - 1)
        elif way == 1:
            del holder[key]
        elif way == 2 and isinstance(holder, list):
            holder[key:key] = [_copy(holder[key]) for _ in range(random.choice((1, 2, 30)))]
        elif way == 2:
            holder[random.choice(("", "x", "\x00", "schema", "a b", "A" * 300))] = _copy(
                holder[key]
            )
        elif way == 3:
            other, there = random.choice(places)
            if _has(other, there):
                holder[key] = _copy(other[there])
        elif way == 4:
            holder[key] = [holder[key]] if random.random() < 0.5 else {"value": holder[key]}
        else:
            holder[key] = _copy(random.choice(_VALUES))
    text = json.dumps(value, ensure_ascii=random.random() < 0.7)
    for number, raw in enumerate(raws):
        mark = _MARK % number
        text = text.replace(json.dumps(mark), raw, 1).replace(mark, "")
    return text.encode("utf-8", "surrogatepass")[:_MOST_BYTES]


def _copy(value: Any) -> Any:
    """A value that shares nothing with the other, so that no change makes a circle."""
    return json.loads(json.dumps(value))


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place below a value, as its holder and the key in it."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) <= _MOST_PLACES:
        holder = waiting.pop()
        if isinstance(holder, dict):
            found += [(holder, key) for key in holder]
            waiting += holder.values()
        elif isinstance(holder, list):
            found += [(holder, number) for number in range(len(holder))]
            waiting += holder
    return found
