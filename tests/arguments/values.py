"""Arguments of the right calls, and wrong ones."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import tracer
import tracer.numpy as tnp

RNG = np.random.default_rng(7)
_HALF = RNG.normal(size=(4, 4))
X = _HALF @ _HALF.T + np.eye(4)
A = tnp.asarray(X)
V = np.array([0.5, -1.5, 2.0, 0.25])
W = np.array([0.1, 0.2, 0.3, 0.4])
I = np.array([2, 0, 3, 2])  # noqa: E741 - next to X, V, W
B = np.array([True, False, True, True])
Z = np.array([1 + 2j, 0.5, -1j, 2.0])
KEY = np.array([0, 5], np.uint32)
IMAGES, FILTERS = RNG.normal(size=(2, 3, 8, 8)), RNG.normal(size=(4, 3, 3, 3))
PIXELS, KERNEL = RNG.normal(size=(2, 8, 8, 3)), RNG.normal(size=(2, 2, 3, 4))


class Call(NamedTuple):
    """Arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(*args: Any, **kwargs: Any) -> Call:
    """Return the arguments."""
    return Call(args, kwargs)


def first(x: Any, *rest: Any) -> Any:
    """Return the first argument."""
    del rest
    return x


def summed(x: Any, *rest: Any) -> Any:
    """Return a number."""
    del rest
    return (x * x).sum()


class Odd:
    """Nothing that a function could take."""

    def __repr__(self) -> str:
        return "Odd()"


def _generator() -> Iterator[int]:
    yield 1
    yield 2


def _nested(depth: int) -> Any:
    found: Any = 1.0
    for _ in range(depth):
        found = [found]
    return found


_LOOP: list[Any] = [1]
_LOOP.append(_LOOP)

_SAME = [
    None,
    "abc",
    "i",
    "",
    "float33",
    b"ab",
    True,
    ...,
    NotImplemented,
    slice(None),
    int,
    type,
    np,
    99,
    -99,
    -1,
    0,
    2**40,
    2**63,
    -(2**63),
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    1 + 2j,
    fractions.Fraction(1, 2),
    decimal.Decimal("1.5"),
    np.datetime64("2020-01-01"),
    np.uint64(2**64 - 1),
    np.float64(2.0),
    np.bool_(True),
    np.longdouble(1.5),
    np.dtype("S3"),
    np.dtype(object),
    (),
    (0, 0),
    (-1, -1),
    (-2, 3),
    (99,),
    (None,),
    ("a", 1),
    ((1, 2), 3),
    (2**62, 2**62),
    tuple(range(70)),
    range(3),
]
_MADE: list[Callable[[], Any]] = [
    Odd,
    lambda: {"a": 1},
    lambda: {0: np.ones(3)},
    lambda: {1, 2},
    _generator,
    list,
    lambda: [[1, 2], [3]],
    lambda: [0.5, 1.5],
    lambda: [0, 1],
    lambda: ["1", "2"],
    lambda: ["abc", None],
    lambda: [(1, 2, 3)],
    lambda: _LOOP,
    lambda: _nested(200),
    lambda: bytearray(b"\x01\x02"),
    lambda: first,
    lambda: lambda: 1,
    lambda: lambda *args: None,
    lambda: lambda *args: ["x"],
    lambda: np.ones((2, 3, 4, 5)),
    lambda: np.ones(3),
    lambda: np.ones((2, 3)),
    lambda: np.array(2.5),
    lambda: np.array(1),
    lambda: np.array([1]),
    lambda: np.array([]),
    lambda: np.zeros((0, 4)),
    lambda: np.ones(4) * 1j,
    lambda: np.array([True, False]),
    lambda: np.array([5, -7, 2]),
    lambda: np.full(4, np.nan),
    lambda: np.int8([1, 2, 3, 4]),
    lambda: np.array([Odd()]),
    lambda: np.array(["a", "b"]),
    lambda: np.zeros(2, "i4,f8"),
    lambda: np.ma.array([1.0, 2.0], mask=[False, True]),
    lambda: tnp.asarray(1),
    lambda: tnp.asarray([0.5, 1.5]),
    lambda: tracer.ShapeDtype((4,), "float32"),
]
WRONG: list[Callable[[], Any]] = [*[lambda value=value: value for value in _SAME], *_MADE]
"""What a user may give by mistake: each makes a value, since some are used up or changed."""
