"""Sizes to and from text."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.errors import ArgumentError
from tracer.units import format_bytes, parse_bytes, parse_flags, parse_share


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ("4GB", 4_000_000_000),
        ("4GiB", 2**32),
        ("512 MB", 512_000_000),
        ("1.5e3kB", 1_500_000),
        ("1.5KB", 1500),
        ("0.1GB", 100_000_000),
        (".5 MiB", 2**19),
        ("2TB", 2 * 10**12),
        ("2TiB", 2**41),
        ("3KiB", 3072),
        ("17", 17),
        (" 17 B ", 17),
        ("1.9B", 1),
        (17, 17),
        (np.int64(17), 17),
    ],
)
def test_parse_bytes(size: int | str, wanted: int) -> None:
    parsed = parse_bytes(size)
    assert parsed == wanted
    assert type(parsed) is int


@pytest.mark.parametrize(
    "size",
    [
        "",
        "GB",
        "1.5",
        "4 gb",
        "4 XB",
        "-4GB",
        "0",
        "0GB",
        "0.4B",
        "nan",
        "inf",
        "4GB 5GB",
        "1e",
        "٤GB",
    ]
    + [0, -1, True, np.bool_(True), None, 1.5, float("nan"), float("inf"), b"4GB", [4]],
)
def test_parse_bytes_refuses(size: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_bytes(size)
    assert repr(size) in caught.value.what
    assert "512MB" in caught.value.mend
    assert "GiB" in caught.value.mend


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (2**32, "4.29 GB"),
        (1_600_000_000, "1.6 GB"),
        (10**15, "1000 TB"),
        (-1500, "-1.5 kB"),
    ],
)
def test_format_bytes(size: int, wanted: str) -> None:
    assert format_bytes(size) == wanted


@given(st.integers(1, 10**16))
def test_format_reads_back_within_half_a_percent(size: int) -> None:
    assert abs(parse_bytes(format_bytes(size)) - size) <= 0.005 * size


@given(st.integers(1, 10**16))
def test_exact_sizes_read_back(size: int) -> None:
    assert parse_bytes(str(size)) == parse_bytes(size) == size


def test_parse_flags() -> None:
    flags = "--tensor_size_threshold=1GB  --tensor_split_size=500MB"
    wanted = {"tensor_size_threshold": 10**9, "tensor_split_size": 5 * 10**8}
    assert parse_flags(flags) == wanted
    assert parse_flags("--tensor_split_size=8") == {"tensor_split_size": 8}
    assert parse_flags("") == {}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--tensor_size_treshold=1GB", "did you mean --tensor_size_threshold=SIZE?"),
        ("--xla_dump_to=/tmp", "--tensor_split_size=SIZE"),
        ("tensor_split_size=1GB", "--tensor_split_size=SIZE"),
        ("--tensor_split_size", "--tensor_split_size=SIZE"),
        ("--tensor_split_size=1GB --tensor_split_size=2GB", "once"),
        ("--tensor_split_size=big", "512MB"),
        ("--tensor_split_size=", "512MB"),
    ],
)
def test_parse_flags_refuses(flags: str, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_flags(flags)
    assert said in caught.value.mend


@pytest.mark.parametrize(("size", "wanted"), [(4e9, 4_000_000_000), (1.0, 1), (np.float64(8), 8)])
def test_whole_floats_are_sizes(size: float, wanted: int) -> None:
    found = parse_bytes(size)
    assert found == wanted
    assert type(found) is int


@pytest.mark.parametrize("size", [1.5, float("inf"), float("nan"), -1.0, "1e400GB", 2**63, 1e300])
def test_what_no_memory_has_is_refused(size: Any) -> None:
    with pytest.raises(ArgumentError):
        parse_bytes(size)


def test_percentages_are_shares() -> None:
    assert parse_share("50%") == Fraction(1, 2)
    assert parse_share(" .5 % ") == Fraction(1, 200)
    for text in ("0%", "101%", "-5%", "%", "50", "1e1%"):
        with pytest.raises(ArgumentError, match="percentage"):
            parse_share(text)


def test_thousands_of_digits_are_no_size() -> None:
    """Python makes no number of them."""
    for read, text in ((parse_bytes, "9" * 5000), (parse_share, "9" * 5000 + "%")):
        with pytest.raises(ArgumentError):
            read(text)
