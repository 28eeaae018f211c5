"""Types: what shape and dtype an abstract value of JAX has among the arrays of tracer."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from tracer.errors import Source, UnsupportedError
from tracer.ir import SUPPORTED_DTYPES, ShapeDtype


def is_key(dtype: Any) -> bool:
    """Tell whether a dtype of JAX is that of typed random keys."""
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


@functools.cache
def key_shape(dtype: Any) -> tuple[int, ...]:
    """Return the shape of the words (uint32) of one typed random key."""
    words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))
    return tuple(words.shape)


def physical_type(aval: Any, source: Source | None) -> ShapeDtype:
    """Return the type of the array that stands for a value of JAX.

    Random keys are their words, with the axes of these last. `float0`, the dtype of the tangents of
    integers, is bool, as in JAX's own programs.

    Raises
    ------
    UnsupportedError
        The value is no array (a token, a reference), or its dtype or shape is not supported.
    """
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None or type(aval).__name__ in ("AbstractRef", "AvalRef"):
        raise UnsupportedError(
            f"a value of JAX's type {aval} is no array",
            mend="write the function without tokens and mutable references (jax.new_ref)",
            where=source,
        )
    if not all(isinstance(size, int | np.integer) for size in shape):
        raise UnsupportedError(
            f"an array of the shape {shape}, whose sizes are not known",
            mend="use shapes with fixed sizes",
            where=source,
        )
    sizes = tuple(map(int, shape))
    if is_key(dtype):
        return ShapeDtype((*sizes, *key_shape(dtype)), "uint32")
    if dtype == jax.dtypes.float0:
        return ShapeDtype(sizes, "bool")
    if np.dtype(dtype) not in SUPPORTED_DTYPES:
        raise UnsupportedError(
            f"an array of dtype {dtype}",
            mend="convert it: tracer has " + ", ".join(SUPPORTED_DTYPES.values()),
            where=source,
        )
    return ShapeDtype(sizes, np.dtype(dtype))
