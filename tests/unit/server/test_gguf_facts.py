"""A model file's facts come from its header, and a bad file is named for what it is."""

from __future__ import annotations

import hashlib
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchsuite.errors import ConfigError
from benchsuite.server.gguf_facts import hash_parts, read_model_facts
from benchsuite.server.tiny_model import TINY_SHA256, TINY_SIZE_BYTES, write_tiny_model
from tests.split_models import split_model
from tests.unit.server.gguf_example import Header


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_tiny_model(path)
    return path


def test_the_tiny_model_is_a_llama_with_full_attention(tiny: Path) -> None:
    """Size, name, architecture and kind; the same sampled hash each time."""
    facts = read_model_facts(tiny)
    assert (facts.architecture, facts.attention) == ("llama", "full")
    assert facts.size_bytes == TINY_SIZE_BYTES
    assert facts.name == "benchsuite tiny"
    assert facts.n_ctx_train == 32768
    assert facts.sampled_sha256 == read_model_facts(tiny).sampled_sha256


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [2, 3])
def test_both_byte_orders_and_versions_are_read(tmp_path: Path, order: str, version: int) -> None:
    """A big vocabulary is stepped over."""
    header = Header(order, version).text("general.architecture", "gemma3")
    header.texts("tokenizer.ggml.tokens", [f"token {i}" for i in range(5000)])
    header.number("gemma3.attention.sliding_window", 512)
    facts = read_model_facts_of(tmp_path, header)
    assert facts == ("gemma3", "sliding_window")


def read_model_facts_of(tmp_path: Path, header: Header) -> tuple[str | None, str | None]:
    """Architecture and attention of a header."""
    path = tmp_path / "m.gguf"
    path.write_bytes(header.content())
    facts = read_model_facts(path)
    return facts.architecture, facts.attention


@pytest.mark.parametrize(
    ("architecture", "keys", "attention"),
    [
        ("llama", {}, "full"),
        ("mamba", {}, "recurrent"),
        ("rwkv7", {}, "recurrent"),
        ("jamba", {}, "hybrid"),
        ("gpt-oss", {}, "sliding_window"),
        ("gemma3", {"attention.sliding_window": 1024}, "sliding_window"),
        ("gemma3", {}, "full"),
        ("somebodys-new-one", {}, None),
        ("somebodys-new-one", {"attention.sliding_window": 128}, "sliding_window"),
        ("somebodys-new-one", {"ssm.state_size": 16, "attention.head_count": 8}, "hybrid"),
        ("bert", {}, None),
    ],
)
def test_the_kind_of_attention_is_known_or_said_to_be_unknown(
    tmp_path: Path, architecture: str, keys: dict[str, int], attention: str | None
) -> None:
    """By architecture, else by what the file declares, else not at all."""
    header = Header().text("general.architecture", architecture)
    for key, value in keys.items():
        header.number(f"{architecture}.{key}", value)
    assert read_model_facts_of(tmp_path, header)[1] == attention


def test_a_change_of_metadata_is_another_model(tmp_path: Path) -> None:
    """The header is hashed whole."""
    one, other = tmp_path / "one.gguf", tmp_path / "other.gguf"
    one.write_bytes(Header().text("general.name", "a").content())
    other.write_bytes(Header().text("general.name", "b").content())
    assert read_model_facts(one).sampled_sha256 != read_model_facts(other).sampled_sha256


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"title: a scenario\n", "no GGUF file"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"<html>", "a web page"),
        (b"GGUF" + struct.pack("<I", 9), "GGUF version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "metadata keys"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "cut short"),
    ],
)
def test_a_file_that_is_no_model_is_named_for_what_it_is(
    tmp_path: Path, content: bytes, words: str
) -> None:
    """A hostile count allocates nothing; the message names the file."""
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        read_model_facts(path)
    assert "x.gguf" in str(caught.value)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    """Both are usage errors."""
    with pytest.raises(ConfigError, match="no such model file"):
        read_model_facts(tmp_path / "missing.gguf")
    with pytest.raises(ConfigError, match="a folder"):
        read_model_facts(tmp_path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_file_that_is_cut_anywhere_is_a_usage_error(
    tmp_path: Path, tiny: Path, data: st.DataObject
) -> None:
    """Never a traceback, and never taken for whole."""
    whole = tiny.read_bytes()
    length = data.draw(st.integers(1, 60_000) | st.integers(1, len(whole) - 600_000))
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:length])
    with pytest.raises(ConfigError):
        read_model_facts(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=1, max_size=300))
def test_random_bytes_after_the_magic_are_a_usage_error_or_facts(
    tmp_path: Path, content: bytes
) -> None:
    """Whatever stands there, nothing else is raised."""
    path = tmp_path / "random.gguf"
    path.write_bytes(b"GGUF" + content)
    try:
        facts = read_model_facts(path)
    except ConfigError:
        return
    assert facts.size_bytes == 4 + len(content)


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults")
def test_a_model_of_many_gigabytes_costs_some_pages(tiny: Path, tmp_path: Path) -> None:
    """A sparse file of 64 GiB: 64 blocks and the header are touched, a few pages each."""
    import resource

    huge = tmp_path / "huge.gguf"
    huge.write_bytes(tiny.read_bytes())
    with huge.open("r+b") as stream:
        stream.truncate(64 * 2**30)

    def faults() -> int:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_minflt + used.ru_majflt

    before = faults()
    facts = read_model_facts(huge)
    assert faults() - before < 2000  # of 16,777,216 pages
    assert facts.size_bytes == 64 * 2**30
    assert facts.sampled_sha256 != read_model_facts(tiny).sampled_sha256


def test_every_part_belongs_to_a_split_model(tiny: Path, tmp_path: Path) -> None:
    """Size and both hashes cover all of them; metadata come from the first."""
    first = split_model(tiny, tmp_path, "m", parts=3, small_first=True)
    facts = read_model_facts(first)
    files = sorted(tmp_path.glob("m-*.gguf"))
    assert facts.size_bytes == sum(file.stat().st_size for file in files)
    assert (facts.architecture, facts.attention) == ("llama", "full")
    assert hash_parts(first) == tuple(
        (file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files
    )
    files[2].unlink()
    for read in (read_model_facts, hash_parts):
        with pytest.raises(ConfigError, match=r"part 3, m-00003-of-00003\.gguf, is not beside it"):
            read(first)


def test_the_whole_hash_of_one_file_is_that_of_the_file(tiny: Path) -> None:
    """As sha256sum prints it."""
    assert hash_parts(tiny) == ((tiny.name, TINY_SHA256),)
