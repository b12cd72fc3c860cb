"""What is fuzzed: for each target how its inputs are made, and what must hold of every one.

A check returns where an input was read or refused in words, and raises where something else
happened: an exception of another type, a refusal without its place, a round trip that changes.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, NamedTuple, get_args

import msgspec

from benchsuite.client.body import (
    ChatParts,
    CompletionParts,
    completion_reply,
    copies_asked,
    read_timings,
)
from benchsuite.client.fields import expect_object, read_piece
from benchsuite.client.health import parse_health
from benchsuite.client.models import parse_models
from benchsuite.client.prometheus import parse_metrics
from benchsuite.client.props import parse_props
from benchsuite.client.reply import Stamps
from benchsuite.client.slots import parse_slots
from benchsuite.client.sse import Event, EventReader
from benchsuite.client.vectors import read_embedding, read_position
from benchsuite.errors import BenchsuiteError, ScenarioError, ServerLiedError, UsageError
from benchsuite.logform.reader import LogReader
from benchsuite.metrics.select import format_series, parse_selector
from benchsuite.model.deployment import Deployment
from benchsuite.model.record import Fingerprint, Measurement, RunRecord
from benchsuite.model.sample import DatasetFormat, DatasetSpec, TraceFormat
from benchsuite.report.formats import FORMATS, Entry, ReportInput
from benchsuite.scenario.config import parse_config
from benchsuite.scenario.datasets.pieces import BrokenFileError, elements
from benchsuite.scenario.datasets.read import read_sample
from benchsuite.scenario.flags import parse_help
from benchsuite.scenario.load import load_scenario
from benchsuite.scenario.plan import make_plan, parse_set
from benchsuite.scenario.suite import load_suite
from benchsuite.server.gguf_facts import read_model_facts
from benchsuite.server.gguf_shape import read_model_shape
from benchsuite.store.baselines import load_baselines
from benchsuite.store.commits import decode_journal
from benchsuite.store.decode import series_lines
from benchsuite.store.floats import decode_record, encode_record
from benchsuite.store.merge import Merge
from benchsuite.store.records import read_journal, read_record
from benchsuite.store.trees import MemoryTree
from benchsuite.store.vectors import read_run_vectors, read_stored_vectors
from benchsuite.units import parse_quantity
from tests.fuzz.mutations import mutate_bytes, mutate_lines, mutate_value
from tests.unit.server.gguf_example import Header

REPOSITORY = Path(__file__).parents[2]
FIXTURES = REPOSITORY / "tests" / "fixtures"
CORPUS = Path(__file__).parent / "corpus"

Make = Callable[[Random, Sequence[bytes], Sequence[bytes]], bytes]
Check = Callable[[bytes, Path], None]


class Target(NamedTuple):
    """One reader of outside data."""

    name: str
    parser: str  # which of the parsers that are counted it belongs to
    seeds: Callable[[], list[bytes]]  # good inputs
    words: tuple[bytes, ...]  # what its grammar is made of
    makes: tuple[Make, ...]  # each makes a case of a seed, of others and of words
    check: Check  # of an input, with a folder of its own to put it into


PARSERS = ("scenarios", "logs", "sse", "replies", "journals", "baselines", "selectors")
"""What the million is counted over; targets of `others` come on top."""


# scenarios, suites and benchsuite.toml

_PLACE = re.compile(r"[^\n:]+(?::[1-9]\d*)?: \S")


def _at_lines(error: ScenarioError) -> None:
    """Every problem has its place, and text of its own."""
    for problem in error.problems:
        assert _PLACE.match(problem), f"a problem without its place: {problem[:200]!r}"


def _check_scenario(data: bytes, folder: Path) -> None:
    file = folder / "scenario.yaml"
    file.write_bytes(data)
    try:
        scenario = load_scenario(file, "scenario.yaml")
    except ScenarioError as error:
        _at_lines(error)
        return
    try:
        make_plan(scenario, Deployment(name="tiny", model="tiny.gguf"), _TABLE)
    except UsageError as error:
        assert str(error), "no words"


def _check_suite(data: bytes, folder: Path) -> None:
    file = folder / "suite.yaml"
    file.write_bytes(data)
    try:
        load_suite(file, "suite.yaml", today=dt.date(2026, 12, 1))
    except ScenarioError as error:
        _at_lines(error)


def _check_config(data: bytes, folder: Path) -> None:
    try:
        parse_config(folder / "benchsuite.toml", data.decode("utf-8", "replace"))
    except UsageError as error:
        assert str(error).startswith(str(folder)), str(error)[:200]


def _as_yaml(random: Random, seed: bytes) -> bytes:
    """A mutated value in YAML's flow style, which JSON is."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    value = _PARSED.get(seed)
    if value is None:
        try:
            value = _PARSED[seed] = yaml.load(seed, Loader=loader)
        except (yaml.YAMLError, RecursionError):  # what was found before
            return mutate_bytes(random, seed, [seed], ())
    return mutate_value(random, json.loads(json.dumps(value, default=str)))


_PARSED: dict[bytes, Any] = {}


def _yaml_value(random: Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    return _as_yaml(random, random.choice(seeds[:_SMALL]))


_SMALL = 12
"""Of so many seeds, the smallest, structure is mutated."""


def _lines(random: Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    return mutate_lines(random, random.choice(seeds), seeds, words)


def _bytes(random: Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    return mutate_bytes(random, random.choice(seeds), seeds, words)


def _value(random: Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """A mutated JSON value."""
    seed = random.choice(seeds)
    try:
        return mutate_value(random, json.loads(seed))
    except (ValueError, RecursionError):
        return mutate_bytes(random, seed, seeds, words)


def _value_in_line(random: Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Lines of JSON, of which one is mutated by its value."""
    lines = random.choice(seeds).split(b"\n")
    at = random.randrange(len(lines))
    prefix = b"data: " if lines[at].startswith(b"data: ") else b""
    try:
        lines[at] = prefix + mutate_value(random, json.loads(lines[at][len(prefix) :]))
    except (ValueError, RecursionError):
        return mutate_lines(random, b"\n".join(lines), seeds, words)
    return b"\n".join(lines)


def _files(pattern: str) -> list[bytes]:
    found = sorted((p.read_bytes() for p in REPOSITORY.glob(pattern) if p.is_file()), key=len)
    assert found, pattern
    return found


_YAML_WORDS = (
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!python/object:os.system",
    b"!!int 3",
    b"---\n",
    b"...\n",
    b"%YAML 1.1\n",
    b"? ",
    b"|\n  ",
    b">-\n",
    b"{a: ",
    b"[a, ",
    b"\t",
    b"# ",
    b"~",
    b"on",
    b"0x10",
    b"1_000",
    b"100%",
    b"5 GiB",
    b"1e309 MiB",
    b"steps:",
    b"gates:",
    b"sessions:",
    b"turn",
    b"load",
    b"- {}",
)


# logs


def _pieces(data: bytes) -> Iterator[bytes]:
    """The bytes in pieces; the same for the same bytes."""
    random = Random(zlib.crc32(data))
    most = random.choice((3, 40, 700, 5000))
    at = 0
    while at < len(data):
        size = random.randrange(1, most + 1)
        yield data[at : at + size]
        at += size


def _check_log(data: bytes, folder: Path) -> None:
    whole, parts = LogReader(), LogReader("model" if len(data) % 5 == 0 else "")
    whole.feed(data)
    first = whole.finish()
    assert whole.facts() == first or _repr(whole.facts()) == _repr(first)
    for number, piece in enumerate(_pieces(data)):
        parts.feed(piece)
        if number == 3:
            parts.facts()
            parts.keep_events()
    second = parts.finish()
    _ = (whole.launches, whole.timings, whole.reuses, whole.events)
    _ = (parts.launches, parts.timings, parts.reuses, parts.events)
    msgspec.json.encode(first)
    if len(data) % 5:
        one, two = (msgspec.structs.replace(facts, timings=()) for facts in (first, second))
        assert _sorted(one) == _sorted(two), "facts differ with the split"
        if not any(timing.instance for timing in whole.timings):
            # else lines that name no slot may be anyone's
            # and which of several equal lines of decoding is meant, depends on what has come
            timed, again = (
                sorted(
                    (repr(t.slot), repr(t.task), t.prompt_ms, t.prompt_tokens) for t in r.timings
                )
                for r in (whole, parts)
            )
            assert timed == again, "timings differ with the split"


def _repr(value: object) -> str:
    return repr(value)  # NaN equals itself here


def _sorted(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")  # whatever order dicts were filled in


# server-sent events


def _check_sse(data: bytes, folder: Path) -> None:
    whole = EventReader()
    events = whole.feed(data)
    parts = EventReader()
    found: list[Event] = []
    for piece in _pieces(data):
        found += parts.feed(piece)
    assert found == events, "events differ with the split"
    assert (parts.comments, parts.pending) == (whole.comments, whole.pending)
    completion, chat = CompletionParts(1 + len(data) % 2), ChatParts()
    for event in events:
        try:
            body = msgspec.json.decode(event.data.encode())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # as the client does, which refuses the stream there
        for take in (completion.take, chat.take):
            _lied(lambda take=take, body=body: take(expect_object(body, "an event")))  # type: ignore[misc]
    _lied(lambda: completion.reply(_STAMPS, ()))
    _lied(lambda: chat.reply(_STAMPS, ()))


_STAMPS = Stamps(1, 2, 3, 4, 5, 6)


def _lied(read: Callable[[], object]) -> None:
    try:
        msgspec.json.encode(read())
    except ServerLiedError as error:
        assert str(error), "no words"
        assert len(str(error)) < 2000, "a message as long as the lie"


# replies


def _check_reply(data: bytes, folder: Path) -> None:
    for one in parse_metrics(data.decode("utf-8", "replace")).series:
        assert one.value == one.value
    parse_metrics(data.decode("utf-8", "replace")).counters()
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for parse in (parse_health, parse_props, parse_models, parse_slots):
        msgspec.json.encode(parse(body))
    _lied(lambda: read_piece(body, "token"))
    if not isinstance(body, dict):
        return
    copies_asked(body)
    _lied(lambda: completion_reply(body, "text", _STAMPS, ()))
    _lied(lambda: read_timings(body, "reply"))
    _lied(lambda: read_position(body, "reply"))
    _lied(lambda: read_embedding(body, "reply"))
    chat, completion = ChatParts(), CompletionParts(1)
    _lied(lambda: chat.take(body))
    _lied(lambda: chat.reply(_STAMPS, ()))
    _lied(lambda: completion.take(body))
    _lied(lambda: completion.reply(_STAMPS, ()))


_EMBEDDING = json.dumps(
    {"object": "list", "data": [{"embedding": [0.1, -0.2, None, 1e-9], "index": 0}]}
).encode()
_POSITION = json.dumps(
    {
        "content": "a",
        "completion_probabilities": [
            {
                "id": 1,
                "token": "a",
                "top_logprobs": [
                    {"id": 1, "token": "a", "logprob": -0.1, "bytes": [97]},
                    {"id": 2, "token": "b", "logprob": None, "bytes": [98]},
                ],
            }
        ],
    }
).encode()
_MODELS = json.dumps(
    {"data": [{"id": "m", "aliases": ["n"], "status": {"value": "loaded"}}, {"id": "o"}]}
).encode()
_OTHER_REPLIES = (_EMBEDDING, _POSITION, _MODELS)


# journals and records


def _check_journal(data: bytes, folder: Path) -> None:
    file = folder / "samples.jsonl"
    file.write_bytes(data)
    record = None
    try:
        read_journal(file)
        record = read_record(folder)
    except BenchsuiteError as error:
        _in_words(error, folder)
    finally:
        file.unlink()
    if record is not None:
        _check_kept(record, data)


def _check_record(data: bytes, folder: Path) -> None:
    file = folder / "record.json"
    file.write_bytes(data)
    record = None
    try:
        record = read_record(file)
    except BenchsuiteError as error:
        _in_words(error, folder)
    finally:
        file.unlink()
    if record is not None:
        _check_kept(record, data)


def _in_words(error: BenchsuiteError, folder: Path) -> None:
    assert str(error).startswith(str(folder)), f"no place: {str(error)[:200]}"
    assert len(str(error)) < 5000, "a message as long as the file"


def _check_kept(record: RunRecord, data: bytes) -> None:
    if b'"not finite": ' in data:
        return  # a mapping that looks like our own form of NaN, spelled as we never do
    again = decode_record(encode_record(record), RunRecord)
    assert _repr(again) == _repr(record), "the record changes when it is written and read"
    if zlib.crc32(data) % 8 == 0:  # a report takes longer than the reading
        names = [name for name in FORMATS if name != "html"]
        FORMATS[names[zlib.crc32(data) // 8 % len(names)]].render(
            ReportInput((Entry(record),), Path("/project"))
        )


def _check_run_vectors(data: bytes, folder: Path) -> None:
    file = folder / "vectors.jsonl"
    file.write_bytes(data)
    try:
        read_run_vectors(folder)
    except BenchsuiteError as error:
        _in_words(error, folder)
    finally:
        file.unlink()


# baselines


_PRINT = Fingerprint("tiny", "s", 0, "cpu", "desk")


def _check_baseline(data: bytes, folder: Path) -> None:
    tree = MemoryTree("baselines", {"tiny/s/config.json": data, "tiny/s/machine.x.json": data})
    try:
        load_baselines([tree], "tiny", "s", _PRINT)
    except BenchsuiteError as error:
        assert re.match(r"baselines/tiny/s/[a-z.]+json:[1-9]", str(error)), str(error)[:200]
        assert len(str(error)) < 3000, "a message as long as the file"
        return
    series_lines(data)
    _check_merge(tree)


def _check_merge(tree: MemoryTree) -> None:
    """What `accept` makes of it can be read again, and accepting again changes nothing."""
    files: dict[str, bytes | OSError] = dict(tree._files)
    for attempt in range(2):
        merge = Merge(_MERGED, MemoryTree("baselines", files), "config", None, "reason")
        try:
            merge.prepare(drop_missing=True)
        except BenchsuiteError:
            return
        changes = merge.changes()
        assert not (attempt and changes), "a second accept changes the baseline"
        for path, content in changes.items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = content
        load_baselines([MemoryTree("baselines", files)], "tiny", "s", _PRINT)


def _merged() -> RunRecord:
    from tests.unit.store.run_example import record

    made = record({"launch_count": [1]})
    one = Measurement("cached_tokens", 3, "tokens", "B", 1, {"session": "A", "turn": "1"})
    return msgspec.structs.replace(made, measurements=(*made.measurements, one))


_MERGED = _merged()


def _check_stored_vectors(data: bytes, folder: Path) -> None:
    from benchsuite.store.vectors import _path

    tree = MemoryTree("baselines", {_path("tiny", "s", "cpu", "B"): data})
    try:
        read_stored_vectors([tree], "tiny", _PRINT, "B", "digest")
    except BenchsuiteError as error:
        assert str(error).startswith("baselines/"), str(error)[:200]
        assert len(str(error)) < 3000, "a message as long as the file"


def _check_commit(data: bytes, folder: Path) -> None:
    try:
        decode_journal(data, "commit:1")
    except BenchsuiteError as error:
        assert str(error).startswith("commit:1"), str(error)[:200]


# selectors, and other words of a command line

_SELECTORS = (
    b"launch_count",
    b'cached_tokens{session="B",turn=~"1|2"}',
    b'kv_mib{device="CUDA0"}',
    b'kv_mib{device!="a\\"b",at=~".*",x!~"[a-z]+"}',
    b'a { b = "c" , d="" , }',
    b'text{session="\\\\"}',
)
_SELECTOR_WORDS = (
    b"{",
    b"}",
    b'="',
    b'=~"',
    b'!~"',
    b'!="',
    b'"',
    b",",
    b"\\",
    b"\n",
    b"(?P<a>",
    b"(?i)",
    b"[",
    b"{1000}",
    b"(a|b)*",
    b"\\1",
    b"\\d+",
    b" ",
)


def _check_selector(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "surrogateescape" if len(data) % 2 else "replace")
    try:
        selector = parse_selector(text)
    except ValueError as error:
        assert str(error), "no words"
        assert type(error) is ValueError, type(error)
    else:
        assert parse_selector(text) == selector
        labels = {matcher.label: matcher.value for matcher in selector.matchers}
        again = parse_selector(format_series(selector.name, labels))
        assert again.name == selector.name
        assert {m.label: m.value for m in again.matchers} == labels
        assert again.accepts(selector.name, labels), "a series that does not select itself"
    # any label survives writing and reading
    labels = {"session": text, "turn": text[::-1]}
    again = parse_selector(format_series("cached_tokens", labels))
    assert again.accepts("cached_tokens", labels), "a label that is lost"


def _selector_text(random: Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """A selector put together of its parts."""
    parts = [b"cached_tokens", b"kv_mib", b"device", b"turn", b"CUDA0", b"1|2", b".*", *words]
    return b"".join(random.choice(parts) for _ in range(random.randrange(12)))


def _check_set(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "replace")
    try:
        name, value = parse_set(text)
        _TABLE.normalise(name, "" if value is None else value)
        _TABLE.argv({name: value})
    except UsageError as error:
        assert str(error), "no words"
    for unit in ("MiB", "s", "%", "tokens"):
        try:
            number = parse_quantity(text, unit)
            assert abs(number) >= 0
        except ValueError as error:
            assert "is " in str(error), str(error)[:200]


_TABLE = parse_help((FIXTURES / "help" / "b10434.txt").read_text())
_SETS = (
    b"cache-type-k=q8_0",
    b"--ctx-size=4096",
    b"no-kv-unified",
    b"flash-attn=on",
    b"12 MiB",
    b"5%",
    b"250 ms",
    b"1.5e3 GiB",
    b"parallel=null",
)


def _check_help(data: bytes, folder: Path) -> None:
    table = parse_help(data.decode("utf-8", "replace"))
    try:
        table.normalise("ctx-size", "1")
    except UsageError as error:
        assert str(error)


# model files


def _check_gguf(data: bytes, folder: Path) -> None:
    file = folder / "model.gguf"
    file.write_bytes(data)
    for read in (read_model_shape, read_model_facts):
        try:
            read(file)
        except BenchsuiteError as error:
            assert str(folder) in str(error), str(error)[:200]


def _gguf_seeds() -> list[bytes]:
    made = []
    for order in "<>":
        header = Header(order)
        header.text("general.architecture", "llama").number("llama.block_count", 2)
        header.number("llama.attention.head_count", 4).number("llama.attention.head_count_kv", 2)
        header.number("llama.embedding_length", 64).number("llama.context_length", 512)
        header.value("llama.attention.sliding_window", 16).texts("tokenizer.ggml.tokens", ["a"])
        header.value("llama.attention.head_count_list", [1, 2]).value("x", 1.5).value("y", True)
        made.append(header.content())
    return made


# chats and traces


class _InPieces(io.BytesIO):
    """A file of which each read brings as much as it likes."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._rest = _pieces(data)

    def read(self, size: int | None = -1, /) -> bytes:
        return next(self._rest, b"")


def _cut(stream: BinaryIO) -> list[object]:
    found: list[object] = []
    try:
        found.extend((piece.line, piece.raw) for piece in elements(stream))
    except BrokenFileError as error:
        found.append(error.line)
    return found


def _check_dataset(data: bytes, folder: Path) -> None:
    assert _cut(_InPieces(data)) == _cut(io.BytesIO(data)), "elements differ with the split"
    file = folder / "rows"
    file.write_bytes(data)
    for form in (*get_args(DatasetFormat), *get_args(TraceFormat)):
        spec = DatasetSpec("rows", form, sample=3, skip_bad=len(data) % 4)
        try:
            sample = read_sample(file, spec)
        except UsageError as error:
            assert str(error).startswith("rows"), str(error)[:200]
            assert len(str(error)) < 2000, "a message as long as the file"
            continue
        assert 1 <= len(sample.rows) <= 3
        assert sample == read_sample(file, spec), "another sample of the same file"
        msgspec.json.encode(sample)


TARGETS: tuple[Target, ...] = (
    Target(
        "scenario",
        "scenarios",
        lambda: _files("scenarios/*.yaml") + _files("tests/fixtures/scenarios/*.yaml"),
        _YAML_WORDS,
        (_yaml_value, _yaml_value, _lines, _bytes),
        _check_scenario,
    ),
    Target(
        "suite",
        "scenarios",
        lambda: _files("ci/suites/*.yaml") + _files("tests/fuzz/corpus/suite/everything.*"),
        (*_YAML_WORDS, b"quarantine:", b"outputs:", b"scenarios:", b"2026-12-31", b"2026-02-30"),
        (_yaml_value, _lines, _bytes),
        _check_suite,
    ),
    Target(
        "config",
        "scenarios",
        lambda: _files("tests/fuzz/corpus/config/everything.*"),
        (b"[", b"]", b"[[", b"= ", b'"""', b"'''", b"{", b"1979-05-27", b"inf", b"nan", b"0xff"),
        (_lines, _bytes),
        _check_config,
    ),
    Target(
        "log",
        "logs",
        lambda: (
            _files("tests/fixtures/logs/*.log")
            + _files("tests/fixtures/events/*.log")
            + _files("tests/fixtures/backtraces/*.txt")
        ),
        (
            b"GGML_ASSERT(",
            b"prompt eval time =",
            b"slot launch_slot_: id  0 | task 1 | processing task\n",
            b"loading model",
            b'{"type":"log","msg":"',
            b"KV buffer size =",
            b"CUDA error: ",
            b"#1 0x0000",
            b"current device: 0",
            b"cache state: ",
            b"memory breakdown",
            b" | ",
            b"[48087] ",
        ),
        (_lines, _bytes),
        _check_log,
    ),
    Target(
        "sse",
        "sse",
        lambda: _files("tests/fixtures/http/*/*stream*.txt"),
        (
            b"data: ",
            b"event: ",
            b":",
            b"\r",
            b"\r\n\r\n",
            b"\n\n",
            b"error: {}",
            b"data: [DONE]\n\n",
        ),
        (_value_in_line, _lines, _bytes),
        _check_sse,
    ),
    Target(
        "reply",
        "replies",
        lambda: (
            _files("tests/fixtures/http/*/*.json")
            + _files("tests/fixtures/http/*/metrics.txt")
            + list(_OTHER_REPLIES)
        ),
        (b"llamacpp:", b'{le="', b"# TYPE", b"1e+06", b'"timings":', b'"usage":', b'"id_slot":'),
        (_value, _value, _bytes),
        _check_reply,
    ),
    Target(
        "journal",
        "journals",
        lambda: _files("tests/fixtures/schemas/journal.*.jsonl"),
        (b'"kind":"begin"', b'"kind":"launch"', b'{"not finite":"nan"}', b"\n"),
        (_value_in_line, _value_in_line, _lines, _bytes),
        _check_journal,
    ),
    Target(
        "record",
        "journals",
        lambda: _files("tests/fixtures/schemas/record.*.json"),
        (b'{"not finite":"nan"}', b'"schema_version"'),
        (_value, _value, _bytes),
        _check_record,
    ),
    Target(
        "run-vectors",
        "journals",
        lambda: _files("tests/fixtures/schemas/vectors.*.jsonl"),
        (b'"set"', b'"schema_version"'),
        (_value_in_line, _lines, _bytes),
        _check_run_vectors,
    ),
    Target(
        "baseline",
        "baselines",
        lambda: (
            _files("tests/fixtures/schemas/baseline.*.json")
            + _files("tests/fuzz/corpus/baseline/machine.*")
        ),
        (b'"metrics"', b'"quantum"', b'"interval"', b'"refreshed"', b"<<<<<<< "),
        (_value, _value, _lines, _bytes),
        _check_baseline,
    ),
    Target(
        "stored-vectors",
        "baselines",
        lambda: _files("tests/fixtures/schemas/stored-vectors.*.jsonl"),
        (b'"set"', b'"schema"', b"<<<<<<< "),
        (_value_in_line, _lines, _bytes),
        _check_stored_vectors,
    ),
    Target(
        "commit",
        "baselines",
        lambda: _files("tests/fixtures/schemas/commit.*.json"),
        (b'"files"', b'"before"', b"..", b"\\"),
        (_value, _bytes),
        _check_commit,
    ),
    Target(
        "selector",
        "selectors",
        lambda: list(_SELECTORS),
        _SELECTOR_WORDS,
        (_selector_text, _bytes),
        _check_selector,
    ),
    Target("set", "selectors", lambda: list(_SETS), (b"=", b"--", b"null"), (_bytes,), _check_set),
    Target(
        "help",
        "others",
        lambda: _files("tests/fixtures/help/*.txt"),
        (b"--", b"-", b", ", b"(env: ", b"[", b"{a,b}", b"N  "),
        (_lines,),
        _check_help,
    ),
    Target(
        "dataset",
        "others",
        lambda: _files("scenarios/data/*") + _files("tests/fuzz/corpus/dataset/prompts.*"),
        (b'{"messages":[', b'{"from":"human","value":"', b'"hash_ids":[', b"\x1f\x8b", b"},{"),
        (_value_in_line, _value, _lines, _bytes),
        _check_dataset,
    ),
    Target("gguf", "others", _gguf_seeds, (b"GGUF", b"\xff" * 8), (_bytes,), _check_gguf),
)
