"""A file of requests to a sample of it, in one pass and in memory of the sample's size.

A sample of n is drawn with a reservoir (algorithm R, Vitter 1985) over the requests that pass the
filters, in the order of the file, by a generator seeded with the sample's seed alone: the same
file, filters, n and seed give the same sample everywhere. It is sent in the order in which the
reservoir holds it, shuffled by the same generator, or in the file's.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from benchsuite.errors import UsageError
from benchsuite.model.load import seeded
from benchsuite.model.sample import MOST_ROWS, MOST_TEXT, DatasetSpec, Row, Sample
from benchsuite.scenario.datasets.pieces import BrokenFileError, Piece, elements, lines
from benchsuite.scenario.datasets.rows import BadRowError, read_row

_DAY_NS = 86_400_000_000_000
_MOST_NS = 7 * _DAY_NS
_GZIP = b"\x1f\x8b"


def read_sample(path: Path, spec: DatasetSpec, display: str | None = None) -> Sample:
    """Read a whole file, check all of it, and take what is asked.

    Args:
        path: The file; gzip is recognised by its first bytes.
        spec: What is asked of it.
        display: How errors name the file; as written in the scenario if None.

    Raises:
        UsageError: The file cannot be read, more of it is bad than may be, or nothing is left.
    """
    shown = spec.file if display is None else display
    try:
        with _opened(path) as (stream, digest):
            taking = _Taking(spec, shown)
            pieces = elements(stream) if spec.format == "sharegpt" else lines(stream)
            for piece in pieces:
                taking.take(piece)
            while stream.read(1 << 16):  # what follows is part of the digest
                pass
        return taking.sample(digest.hexdigest())
    except BrokenFileError as error:
        hint = _hint(spec, error.line)
        raise UsageError(error.message, where=f"{shown}:{error.line}", hint=hint) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"the gzip file is damaged: {error}", where=shown) from None
    except OSError as error:
        raise UsageError(
            f"the file cannot be read: {error.strerror or error}",
            where=shown,
            hint="'file' is looked up from the scenario file's folder",
        ) from None


def _hint(spec: DatasetSpec, line: int) -> str | None:
    if line > 1:
        return None
    other = "messages" if spec.format == "sharegpt" else "sharegpt"
    return f"is this a file of format '{spec.format}'? ('format: {other}' may be meant)"


class _Hashing(io.RawIOBase):
    """A file whose bytes are hashed as they are read, from first to last."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        chunk = self._file.read(len(view))
        view[: len(chunk)] = chunk
        self.digest.update(chunk)
        return len(chunk)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, hashlib._Hash]]:
    with path.open("rb") as file:
        hashing = _Hashing(file)
        buffered = io.BufferedReader(hashing, 1 << 20)
        if buffered.peek(2)[:2] == _GZIP:
            with gzip.GzipFile(fileobj=buffered, mode="rb") as unpacked:
                yield cast(BinaryIO, unpacked), hashing.digest
        else:
            yield buffered, hashing.digest


class _Taking:
    """The state of one pass."""

    def __init__(self, spec: DatasetSpec, shown: str) -> None:
        self._spec = spec
        self._shown = shown
        self._random = seeded(spec.seed, "dataset")
        self._rows: list[Row] = []
        self._text = 0
        self._seen = 0
        self._passed = 0
        self._filtered = 0
        self._bad = 0
        self._first_bad = ""
        self._first_ns: int | None = None  # of a trace's first good line
        self._last_ns = 0

    def take(self, piece: Piece) -> None:
        try:
            row = read_row(piece.raw, piece.number, self._spec)
            if row.at_ns is not None:
                self._check_time(row.at_ns)
        except BadRowError as error:
            self._refuse(piece, str(error))
            return
        self._seen += 1
        spec = self._spec
        if row.prompt is not None or row.messages:
            chars = row.chars
            if chars < spec.min_chars or (spec.max_chars is not None and chars > spec.max_chars):
                self._filtered += 1
                return
        self._passed += 1
        self._keep(row)
        if len(self._rows) > MOST_ROWS or self._text > MOST_TEXT:
            raise UsageError(
                f"more than {MOST_ROWS} requests or {MOST_TEXT} characters would be kept",
                where=f"{self._shown}:{piece.line}",
                hint="give 'sample: 1000' or so, or a lower 'max_chars'",
            )

    def _keep(self, row: Row) -> None:
        wanted = self._spec.sample
        if wanted is None or len(self._rows) < wanted:
            self._rows.append(row)
            self._text += row.chars
        elif not self._spec.is_timed:
            place = self._random.randrange(self._passed)
            if place < wanted:
                self._text += row.chars - self._rows[place].chars
                self._rows[place] = row

    def _check_time(self, at_ns: int) -> None:
        if at_ns < self._last_ns:
            raise BadRowError(
                f"it arrives {(self._last_ns - at_ns) / 1e9:g} s before the line above; expected "
                "arrivals in order, so sort the trace"
            )
        first_ns = at_ns if self._first_ns is None else self._first_ns
        if at_ns - first_ns > _MOST_NS:
            raise BadRowError(
                f"it arrives {(at_ns - first_ns) / _DAY_NS:.3g} days after the trace's first "
                "request; expected at most 7 days"
            )
        self._first_ns = first_ns
        self._last_ns = at_ns

    def _refuse(self, piece: Piece, sentence: str) -> None:
        place = f"{self._shown}:{piece.line}"
        if self._spec.format == "sharegpt":
            sentence = f"element {piece.number}: {sentence}"
        self._bad += 1
        self._first_bad = self._first_bad or f"{place}: {sentence}"
        if self._bad <= self._spec.skip_bad:
            return
        hint = "mend or remove it, or give 'skip_bad: 10' to leave out so many"
        if self._spec.skip_bad:
            hint = f"{self._bad} are bad, and 'skip_bad: {self._spec.skip_bad}' allows no more"
        raise UsageError(sentence, where=place, hint=hint)

    def sample(self, sha256: str) -> Sample:
        spec = self._spec
        rows = self._rows
        if not rows:
            raise UsageError(
                f"no request is left of {self._seen} ({self._filtered} left out by their length, "
                f"{self._bad} unusable)",
                where=self._shown,
            )
        if spec.is_timed:
            first_ns = rows[0].at_ns or 0
            rows = [msgspec.structs.replace(r, at_ns=(r.at_ns or 0) - first_ns) for r in rows]
        elif spec.order == "file":
            rows.sort(key=lambda row: row.number)
        else:
            self._random.shuffle(rows)
        return Sample(
            spec,
            sha256,
            tuple(rows),
            self._seen,
            self._filtered,
            self._bad,
            self._first_bad,
        )
