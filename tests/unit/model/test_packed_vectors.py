"""Vectors keep every bit of a 32-bit float."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchsuite.model.vectors import pack_floats, pack_ids, unpack_floats, unpack_ids


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_floats_come_back(values: list[float]) -> None:
    """What went in comes out."""
    assert list(unpack_floats(pack_floats(values))) == values


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_ids_come_back(ids: list[int]) -> None:
    """Also where they are left out, since they count from 0."""
    assert list(unpack_ids(pack_ids(ids), len(ids))) == ids


def test_the_bytes_are_little_endian_and_a_count_is_left_out() -> None:
    """1.0 is 0x3f800000; ids 0, 1, 2 need no bytes."""
    assert pack_floats([1.0]) == b"\x00\x00\x80\x3f"
    assert pack_ids([0, 1, 2]) == b""
    assert pack_ids([1]) == b"\x01\x00\x00\x00"
