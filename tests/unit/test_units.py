"""Quantities are read with their units and printed as people write them."""

from __future__ import annotations

import pytest

from benchsuite.units import format_number, format_value, parse_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("16 MiB", "MiB", 16.0),
        ("16", "MiB", 16.0),
        ("1.5GiB", "MiB", 1536.0),
        ("512 KiB", "MiB", 0.5),
        ("5%", "%", 5.0),
        ("250 ms", "s", 0.25),
        ("2 min", "s", 120.0),
        ("1e3", "tokens", 1000.0),
        ("-3", "tokens", -3.0),
    ],
)
def test_quantities_convert_to_the_unit_wanted(text: str, unit: str, value: float) -> None:
    """A bare number is in the unit wanted already."""
    assert parse_quantity(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit"), [("many", "MiB"), ("5 MB", "MiB"), ("5 s", "MiB"), ("5%", "MiB"), ("", "s")]
)
def test_what_does_not_convert_is_refused(text: str, unit: str) -> None:
    """MB is no MiB, and seconds are no size."""
    with pytest.raises(ValueError, match="is not"):
        parse_quantity(text, unit)


def test_what_no_float_holds_is_refused() -> None:
    """A limit of infinity would hold for everything."""
    with pytest.raises(ValueError, match="'1e999 MiB' is too large"):
        parse_quantity("1e999 MiB", "MiB")


def test_numbers_have_no_zeros_to_spare() -> None:
    """Two decimals at most; whole numbers have none."""
    assert [format_number(n) for n in (16.0, 12.25, 0.126, -0.5)] == ["16", "12.25", "0.13", "-0.5"]
    assert format_number(float("nan")) == "nan"
    assert [format_number(n) for n in (0.001, -0.004, 0.0)] == ["0.001", "-0.004", "0"]
    assert format_value(16.0, "MiB") == "16 MiB"
    assert format_value("text") == "text"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.999, "0.999"), (0.99951, "0.9995"), (0.9999996, "0.9999996"), (0.98951, "0.99"), (1, "1")],
)
def test_numbers_just_below_one_are_told_from_it(value: float, text: str) -> None:
    """A cosine of 0.999 must not read as 1."""
    assert format_number(value) == text
