"""Calls whose program is made already: they read no argument longer than they must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.compilation import function
from tracer.errors import DTypeError, RangeError

pytestmark = pytest.mark.xla
X = np.arange(6, dtype=np.float32)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let no call be read slowly from now on."""

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the call was read slowly")

    return lambda: monkeypatch.setattr(function, "read_call", never)


ARGUMENTS: dict[str, Any] = {
    "arrays": (tnp.asarray(X), tnp.asarray(X)),
    "numpy": (X, X),
    "numpy and an array": (X, tnp.asarray(X)),
    "a float": (X, 0.5),
    "an int": (X, 3),
    "a bool": (X, True),
    "a complex number": (X, 2j),
    "a scalar of numpy": (X, np.float64(0.5)),
    "a small float of numpy": (X, ml_dtypes.bfloat16(0.5)),
    "big-endian": (X.astype(">f4"), X),
    "strides": (X[::-2], X[::2]),
}


@pytest.mark.parametrize("args", ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_a_second_call_is_read_quickly(args: Any, quick: Callable[[], None]) -> None:
    compiled = tracer.compile(lambda x, y: 2 * x + y)
    first = compiled(*args)
    quick()
    second = compiled(*args)
    assert second.type is first.type
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(compiled(*args), 2 * np.asarray(args[0]) + args[1])


def test_so_are_containers_keywords_and_static_arguments(quick: Callable[[], None]) -> None:
    compiled = tracer.compile(
        lambda p, k, *, scale: (p["a"] + p["b"][0]) * scale * k, static_argnums=1
    )
    args, keywords = ({"a": X, "b": [tnp.asarray(X)]}, 3), {"scale": 0.5}
    first = compiled(*args, **keywords)
    quick()
    np.testing.assert_array_equal(compiled(*args, **keywords), first)


def test_arrays_after_numpy_are_as_quick_as_before(quick: Callable[[], None]) -> None:
    compiled = tracer.compile(lambda x, y: x + y)
    compiled(X, X)
    quick()
    x = tnp.asarray(X)
    np.testing.assert_array_equal(compiled(x, x), X + X)
    assert (x._signature, x._signature) in compiled._flat_programs


def test_numbers_and_scalars_of_numpy_have_programs_of_their_own() -> None:
    compiled = tracer.compile(lambda x, y: x + y)
    for _ in range(2):
        assert compiled(X, 1.0).dtype == np.float32
        assert compiled(X, np.float64(1)).dtype == np.float64
        assert compiled(X, 1).dtype == np.float32
        assert compiled(X, True).dtype == np.float32


def test_numpy_may_be_changed_as_soon_as_a_call_returns() -> None:
    compiled, x = tracer.compile(lambda x: x + 1), X.copy()
    for number in range(3):
        x[:] = number
        result = compiled(x)
        x[:] = -1
        assert result.tolist() == [number + 1] * 6


def test_donated_numpy_is_kept() -> None:
    compiled, x = tracer.compile(lambda x: x + 1, donate_argnums=0), X.copy()
    for _ in range(3):
        np.testing.assert_array_equal(compiled(x), X + 1)
    np.testing.assert_array_equal(x, X)


def test_what_must_be_looked_at_still_is(tmp_path: Path) -> None:
    compiled = tracer.compile(lambda x, y: x + y)
    compiled(X, 1)
    compiled(X, X)
    with pytest.raises(DTypeError, match="masked"):
        compiled(np.ma.MaskedArray(X, X > 2), 1)
    with pytest.raises(RangeError, match=r"argument args\[1\] is the Python integer"):
        compiled(X, 2**70)
    with pytest.raises(DTypeError, match=r"argument args\[0\] is not an array"):
        compiled(X.astype(str), X)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(compiled(mapped, X), X + X)
