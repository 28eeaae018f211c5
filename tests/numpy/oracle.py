"""How the tests of this room compare with NumPy: traced and interpreted, or eagerly on XLA."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir.interpret import interpret

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
NUMPY_DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)

_TOLERANCE = {"float16": 4e-3, "float32": 3e-6, "complex64": 3e-6}


def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return numbers with ties, zeros and both signs."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "u":
        return rng.integers(0, 6, shape).astype(dtype)
    if kind == "i":
        return rng.integers(-5, 6, shape).astype(dtype)
    values = rng.normal(size=shape) * 2
    if kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return np.asarray(values).astype(dtype)


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call NumPy without its warnings about domains and overflows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def interpreted(function: Callable[..., Any], *args: Any) -> list[np.ndarray[Any, Any]]:
    """Trace and run with the NumPy interpreter, which needs no compiler."""
    traced = trace(function, args)
    inputs = [np.asarray(array) for array in (*args, *traced.captured)]
    return [np.asarray(result) for result in quietly(interpret, traced.graph, inputs)]


def assert_same(result: Any, expected: Any, context: Any = "") -> None:
    """Compare dtype, shape and values."""
    got, want = np.asarray(result), np.asarray(expected)
    assert got.dtype == want.dtype, f"{context}: dtype {got.dtype}, NumPy {want.dtype}"
    assert got.shape == want.shape, f"{context}: shape {got.shape}, NumPy {want.shape}"
    tolerance = _TOLERANCE.get(want.dtype.name, 1e-12)
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=str(context))
    else:
        np.testing.assert_allclose(
            got, want, rtol=tolerance, atol=tolerance, equal_nan=True, err_msg=str(context)
        )


def numpy_twin(name: str) -> Callable[..., Any]:
    """Return NumPy's function of a name."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def our_function(name: str) -> Callable[..., Any]:
    """Return our function of a name."""
    found: Any = tnp
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]
