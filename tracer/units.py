"""Byte sizes as people write them. Only this file uses GB and the like; elsewhere bytes are int."""

from __future__ import annotations

import difflib
import operator
import re
from fractions import Fraction
from typing import Any

from tracer.errors import ArgumentError

_PREFIXES = "KMGT"
_UNITS: dict[str, int] = (
    {"": 1, "B": 1, "kB": 1000}
    | {f"{prefix}B": 1000 ** (i + 1) for i, prefix in enumerate(_PREFIXES)}
    | {f"{prefix}iB": 1024 ** (i + 1) for i, prefix in enumerate(_PREFIXES)}
)
# Python makes no numbers of more than some thousand digits.
_WHOLE, _PART = r"\d{1,999}(?:\.\d{0,999})?", r"\.\d{1,999}"
_SIZE = re.compile(rf"\s*({_WHOLE}(?:[eE][+-]?\d{{1,3}})?|{_PART})\s*([A-Za-z]*)\s*", re.ASCII)
_SHARE = re.compile(rf"\s*({_WHOLE}|{_PART})\s*%\s*", re.ASCII)
_LARGEST = 2**63 - 1
_FLAGS = ("tensor_size_threshold", "tensor_split_size", "program_cache_size")
_MEND = (
    "give a positive number of bytes: an int, or a string such as '512MB', '4 GB', '1.5GiB' "
    "(B, kB, KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB powers of 1024)"
)


def parse_bytes(size: float | str) -> int:
    """Return a size in bytes.

    Parameters
    ----------
    size : int, float or str
        A whole number of bytes, such as 4e9, or a string with a unit: powers of 1000 (kB or KB, MB,
        GB, TB) or of 1024 (KiB, MiB, GiB, TiB). Digits without a unit are bytes, and a whole
        number. With a unit, fractions of a byte are dropped, so that a limit never grows.

    Returns
    -------
    int
        Bytes, at least 1.

    Raises
    ------
    ArgumentError
        Anything else: zero, a negative number, NaN, a bool, a unit not named above, a fraction
        without a unit, or 2**63 and more.

    Examples
    --------
    >>> from tracer.units import parse_bytes
    >>> parse_bytes("4GB"), parse_bytes("4 GiB"), parse_bytes("1.5e3kB"), parse_bytes(512)
    (4000000000, 4294967296, 1500000, 512)
    """
    number = _parse_text(size) if isinstance(size, str) else _as_integer(size)
    if number < 1:
        raise ArgumentError(f"a size of {size!r} is not positive", mend=_MEND)
    if number > _LARGEST:
        raise ArgumentError(f"a size of {size!r} is more than any memory has", mend=_MEND)
    return number


def parse_share(text: str) -> Fraction:
    """Return a percentage as a share.

    Raises
    ------
    ArgumentError
        It is no percentage above 0 and up to 100.

    Examples
    --------
    >>> from tracer.units import parse_share
    >>> parse_share("12.5%")
    Fraction(1, 8)
    """
    match = _SHARE.fullmatch(text)
    share = Fraction(match[1]) / 100 if match else Fraction(0)
    if not 0 < share <= 1:
        raise ArgumentError(
            f"{text!r} is not a percentage above 0 and up to 100", mend="give one such as '80%'"
        )
    return share


def _parse_text(size: str) -> int:
    match = _SIZE.fullmatch(size)
    if match is None or match[2] not in _UNITS:
        raise ArgumentError(f"{size!r} is not a size in bytes", mend=_MEND)
    # Exact: 0.1GB must be 100000000, which floats do not promise.
    number = Fraction(match[1]) * _UNITS[match[2]]
    if not match[2] and number.denominator != 1:
        raise ArgumentError(f"{size!r} has no unit, and bytes are whole numbers", mend=_MEND)
    return int(number)


def _as_integer(size: Any) -> int:
    if isinstance(size, bool):
        raise ArgumentError(f"{size!r} is not a size in bytes", mend=_MEND)
    try:
        return int(size) if isinstance(size, float) and size.is_integer() else operator.index(size)
    except TypeError as error:
        raise ArgumentError(f"{size!r} is not a size in bytes", mend=_MEND) from error


def format_bytes(size: int) -> str:
    """Return a size for people, in powers of 1000 and to three digits.

    Parameters
    ----------
    size : int
        Bytes; negative ones (differences) keep their sign.

    Returns
    -------
    str
        Such as "4.29 GB".

    Examples
    --------
    >>> from tracer.units import format_bytes
    >>> format_bytes(2**32), format_bytes(999), format_bytes(0), format_bytes(-1500)
    ('4.29 GB', '999 B', '0 B', '-1.5 kB')
    """
    if abs(size) < 1000:
        return f"{size} B"
    power = 1
    # 999.5 would round to 1000 in three digits.
    while power < len(_PREFIXES) and abs(size) >= 999.5 * 1000**power:
        power += 1
    number = size / 1000**power
    unit = ("k" + _PREFIXES[1:])[power - 1] + "B"
    return f"{number:.3g} {unit}" if abs(number) < 999.5 else f"{number:.0f} {unit}"


def parse_flags(flags: str) -> dict[str, int]:
    """Read the sizes out of a string of command-line flags, as the paper's XLA fork takes them.

    Parameters
    ----------
    flags : str
        Such as "--tensor_size_threshold=1GB --tensor_split_size=500MB".

    Returns
    -------
    dict of str to int
        Bytes by the flag's name without dashes; flags that are not given are absent.

    Raises
    ------
    ArgumentError
        An unknown flag, a repeated one, or a value that is no size.

    References
    ----------
    Artemev, An, Roeder, van der Wilk: Memory safe computations with XLA compiler (2022).

    Examples
    --------
    >>> from tracer.units import parse_flags
    >>> parse_flags("--tensor_size_threshold=1GB --tensor_split_size=500MB")
    {'tensor_size_threshold': 1000000000, 'tensor_split_size': 500000000}
    """
    values: dict[str, int] = {}
    for word in flags.split():
        name, has_value, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not has_value or name not in _FLAGS:
            raise ArgumentError(f"unknown flag {word!r}", mend=_flag_mend(name))
        if name in values:
            raise ArgumentError(f"flag --{name} is given twice", mend="give it once")
        values[name] = parse_bytes(value)
    return values


def _flag_mend(name: str) -> str:
    close = difflib.get_close_matches(name, _FLAGS, n=1)
    known = ", ".join(f"--{flag}=SIZE" for flag in _FLAGS)
    guess = f"did you mean --{close[0]}=SIZE? " if close else ""
    return f"{guess}the flags are {known}"


__all__ = ["format_bytes", "parse_bytes", "parse_flags", "parse_share"]
