"""Files of chats and traces are read whole, checked line by line, and sampled by seed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.errors import UsageError
from benchsuite.model.sample import DatasetSpec
from benchsuite.scenario.datasets.pieces import elements
from benchsuite.scenario.datasets.read import read_sample

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), _JSON, max_size=3), max_size=6), st.booleans())
def test_an_array_is_cut_into_exactly_its_elements(rows: list[object], spaced: bool) -> None:
    """Whatever text and nesting they have, and however the file is laid out."""
    raw = json.dumps(rows, ensure_ascii=spaced, indent=2 if spaced else None).encode()
    assert [json.loads(piece.raw) for piece in elements(io.BytesIO(raw))] == rows


def _chats(path: Path, count: int) -> Path:
    lines = [{"messages": [{"role": "user", "content": f"question {i}"}]} for i in range(count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    """And another for another; the digest is the file's."""
    path = _chats(tmp_path / "chats.jsonl", 200)
    one, two, other = (
        read_sample(path, DatasetSpec("chats.jsonl", "messages", sample=10, seed=seed))
        for seed in (1, 1, 2)
    )
    assert one == two
    assert one.rows != other.rows
    assert len({row.number for row in one.rows}) == 10
    assert one.seen == 200
    assert one.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_bad_line_is_named_and_counted_where_it_may_be(tmp_path: Path) -> None:
    """An error by default; never left out silently, in gzip files too."""
    path = tmp_path / "chats.jsonl.gz"
    good = b'{"messages":[{"role":"user","content":"hi"}]}\n'
    path.write_bytes(gzip.compress(good + b'\n{"messages":[]}\n' + good))
    with pytest.raises(UsageError, match=r"chats.jsonl.gz:3: no message of 'user'"):
        read_sample(path, DatasetSpec("chats.jsonl.gz", "messages"))
    sample = read_sample(path, DatasetSpec("chats.jsonl.gz", "messages", skip_bad=1))
    assert (len(sample.rows), sample.bad) == (2, 1)
    assert "chats.jsonl.gz:3" in sample.first_bad
    assert sample.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_trace_keeps_its_times_and_scales_its_blocks(tmp_path: Path) -> None:
    """Arrivals count from the first; a smaller block scales prompt and output alike."""
    path = tmp_path / "trace.jsonl"
    path.write_text(
        '{"timestamp": 1000, "input_length": 700, "output_length": 64, "hash_ids": [1, 2]}\n'
        '{"timestamp": 1500, "input_length": 512, "output_length": 1, "hash_ids": [1]}\n'
    )
    first, second = read_sample(path, DatasetSpec("trace.jsonl", "mooncake")).rows
    assert (first.at_ns, second.at_ns) == (0, 500_000_000)
    assert (first.tokens_at(512), first.tokens_at(16)) == (700, 16 + 6)
    assert (first.output_at(16), second.output_at(16)) == (2, 1)


def test_a_trace_out_of_order_is_refused(tmp_path: Path) -> None:
    """Arrivals that go back are an error at their line."""
    path = tmp_path / "trace.jsonl"
    path.write_text('{"at_s": 1, "prompt": "a"}\n{"at_s": 0.5, "prompt": "b"}\n')
    with pytest.raises(UsageError, match=r"trace.jsonl:2: it arrives 0.5 s before"):
        read_sample(path, DatasetSpec("trace.jsonl", "prompts"))


@pytest.mark.parametrize("text", ["[{}", "{}", '[{"a": "', "[{} {}]", "[1]", "[{}] x", ""])
def test_a_file_that_is_no_array_is_refused(tmp_path: Path, text: str) -> None:
    """At its line, and not read as an empty one."""
    path = tmp_path / "chats.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"chats.json(:1)?: "):
        read_sample(path, DatasetSpec("chats.json", "sharegpt"))


def _chat_line(number: int) -> str:
    said = {"role": "user", "content": f"question {number} " * 40}
    return json.dumps({"messages": [said]}) + "\n"


def _element(number: int) -> str:
    said = {"from": "human", "value": f"[question] {number} " * 40}
    return ("[" if number == 0 else ",") + json.dumps({"conversations": [said]}) + "\n"


def _trace_line(number: int) -> str:
    blocks = list(range(number, number + 90))
    row = {"timestamp": number, "input_length": 90 * 512, "output_length": 1, "hash_ids": blocks}
    return json.dumps(row) + "\n"


_FORMS: dict[str, tuple[DatasetSpec, Callable[[int], str], str]] = {
    "messages": (DatasetSpec("f", "messages", sample=20), _chat_line, ""),
    "sharegpt": (DatasetSpec("f", "sharegpt", sample=20), _element, "]"),
    "mooncake": (DatasetSpec("f", "mooncake", sample=20), _trace_line, ""),
}


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_memory_is_of_the_sample_not_of_the_file(tmp_path: Path, form: str, packed: bool) -> None:
    """A file of 8 MB is read in less than 3 MiB."""
    spec, line, end = _FORMS[form]
    path = tmp_path / "f"
    count = 8_000_000 // len(line(10_000))
    with gzip.open(path, "wt", compresslevel=1) if packed else path.open("w") as file:
        for number in range(count):
            file.write(line(number))
        file.write(end)
    tracemalloc.start()
    try:
        sample = read_sample(path, spec)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (sample.seen, len(sample.rows)) == (count, 20)
    assert peak_bytes < 3 * 2**20


def test_every_chat_is_as_likely_to_be_drawn(tmp_path: Path) -> None:
    """Of 40 seeds with 10 of 40 chats each chat is in some samples and not in all."""
    path = _chats(tmp_path / "chats.jsonl", 40)
    times = [0] * 41
    for seed in range(40):
        for row in read_sample(path, DatasetSpec("c", "messages", sample=10, seed=seed)).rows:
            times[row.number] += 1
    assert sum(times) == 400
    # binomial with n = 40 and p = 1/4: outside of 1 to 23 once in 90,000 for each chat
    assert all(1 <= count <= 23 for count in times[1:])


def test_a_trace_may_count_from_1970(tmp_path: Path) -> None:
    """Seven days are counted from its first request."""
    path = tmp_path / "trace.jsonl"
    begin, day = 1_790_000_000.0, 86_400.0

    def write(*after: float) -> None:
        lines = [json.dumps({"at_s": begin + at, "prompt": "a", "max_tokens": 1}) for at in after]
        path.write_text("\n".join(lines))

    write(0, 1.5, 6.9 * day)
    sample = read_sample(path, DatasetSpec("t", "prompts"))
    assert [row.at_ns for row in sample.rows][:2] == [0, 1_500_000_000]
    write(0, 1.5, 8 * day)
    with pytest.raises(UsageError, match=r"it arrives 8 days after the trace's first request"):
        read_sample(path, DatasetSpec("t", "prompts"))


def test_an_array_in_utf_16_is_told_so(tmp_path: Path) -> None:
    """What other programs save by default."""
    path = tmp_path / "chats.json"
    path.write_text("[{}]", encoding="utf-16")
    with pytest.raises(UsageError, match="save it as UTF-8"):
        read_sample(path, DatasetSpec("t", "sharegpt"))
