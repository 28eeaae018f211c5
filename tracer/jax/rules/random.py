"""Rules of random keys and bits, bit for bit those of JAX.

Keys are arrays of their words (`jax.random.key_data`). What a generator does with them is written
in JAX itself (`jax.extend.random`), so it is traced, and evaluated like any other function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.random
import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape, scalar
from tracer.array.dispatch import apply
from tracer.errors import UnsupportedError
from tracer.jax.rules.calls import evaluate_function
from tracer.jax.table import Equation, rule
from tracer.jax.types import key_shape
from tracer.lax.bits import as_bits
from tracer.numpy.bit_generators import encrypt, philox, threefry
from tracer.numpy.ufunc import full_like

_UINT32, _UINT64 = np.dtype("uint32"), np.dtype("uint64")


@functools.cache
def _generator(dtype: Any) -> Any:
    """Return JAX's record of the generator of a dtype of keys."""
    names: list[str] = []

    def look(keys: Any) -> Any:
        names.append(str(jax.random.key_impl(keys)))
        return keys

    jax.eval_shape(look, jax.ShapeDtypeStruct((), dtype))
    found = {
        "threefry2x32": jax.extend.random.threefry_prng_impl,
        "rbg": jax.extend.random.rbg_prng_impl,
        "unsafe_rbg": jax.extend.random.unsafe_rbg_prng_impl,
    }.get(names[0])
    if found is None:
        raise UnsupportedError(
            f"random keys of the generator {names[0]}",
            mend='use the default keys: jax.random.key(0), impl="threefry2x32"',
        )
    return found


def _only(equation: Equation, function: Callable[..., Any], *arrays: Array) -> Array:
    return evaluate_function(equation, function, *arrays)[0]


def _each(function: Callable[..., Any], ndim: int) -> Callable[..., Any]:
    for _ in range(ndim):
        function = jax.vmap(function)
    return function


@rule("random_seed", takes_keys=True)
def random_seed(equation: Equation, seeds: Array) -> Array:
    """Make keys of seeds."""
    seed = _generator(equation.original.outvars[0].aval.dtype).seed
    return _only(equation, _each(seed, seeds.ndim), seeds)


@rule("random_wrap", "random_unwrap", "random_clone", "random_consume", takes_keys=True)
def random_wrap(equation: Equation, words: Array) -> Array:
    """Return the words: keys are their words here."""
    return words


def _key_dtype(equation: Equation) -> Any:
    return equation.original.invars[0].aval.dtype


@rule("random_bits", takes_keys=True)
def random_bits(equation: Equation, keys: Array) -> Array:
    """Make random bits, an array for each key."""
    dtype = _key_dtype(equation)
    width, shape = int(equation.params["bit_width"]), tuple(equation.params["shape"])
    make = functools.partial(_generator(dtype).random_bits, bit_width=width, shape=shape)
    return _only(equation, _each(make, keys.ndim - len(key_shape(dtype))), keys)


@rule("random_split", takes_keys=True)
def random_split(equation: Equation, keys: Array) -> Array:
    """Make several keys of each."""
    dtype = _key_dtype(equation)
    make = functools.partial(_generator(dtype).split, shape=tuple(equation.params["shape"]))
    return _only(equation, _each(make, keys.ndim - len(key_shape(dtype))), keys)


@rule("random_fold_in", takes_keys=True)
def random_fold_in(equation: Equation, keys: Array, data: Array) -> Array:
    """Make keys of keys and numbers."""
    dtype = _key_dtype(equation)
    words = key_shape(dtype)
    shape = equation.result.shape[: equation.result.ndim - len(words)]
    keys = _spread(keys, len(words), shape)
    data = _spread(data, 0, shape)
    return _only(equation, _each(_generator(dtype).fold_in, len(shape)), keys, data)


def _spread(x: Array, inner: int, shape: Sequence[int]) -> Array:
    """Broadcast the axes in front of the last `inner` ones, as NumPy does."""
    outer = x.ndim - inner
    lead = (1,) * (len(shape) - outer)
    return broadcast(reshape(x, (*lead, *x.shape)), (*shape, *x.shape[outer:]))


@rule("threefry2x32")
def threefry2x32(equation: Equation, *words: Array) -> Sequence[Array]:
    """Hash pairs of words under a key."""
    shape = equation.result.shape
    first, second, x, y = (broadcast(word, shape) for word in words)
    return encrypt(first, second, x, y)


@rule("rng_bit_generator")
def rng_bit_generator(equation: Equation, state: Array) -> Sequence[Array]:
    """Make bits of a state by XLA's generators; "default" is the one of CPUs and GPUs."""
    words = state if state.dtype == _UINT64 else as_bits(reshape(state, (2, 2)), _UINT64)
    make = threefry if equation.params["algorithm"].name == "RNG_THREE_FRY" else philox
    dtype = np.dtype(equation.params["dtype"])
    shape = tuple(map(int, equation.params["shape"]))
    after, bits = make(words, shape=shape, width=8 * dtype.itemsize)
    return [reshape(as_bits(after, state.dtype), state.shape), bits]


@rule("iota_2x32_shape")
def iota_2x32_shape(equation: Equation) -> Sequence[Array]:
    """Count the elements of a shape, in two words."""
    shape = tuple(map(int, equation.params["shape"]))
    dtype = _UINT32 if math.prod(shape) <= 2**32 else _UINT64
    flat = broadcast(scalar(0, dtype), shape)
    for axis, size in enumerate(shape):
        if size > 1:
            index = apply(ops.iota, shape=shape, dtype=dtype, dimension=axis)
            stride = full_like(index, math.prod(shape[axis + 1 :]))
            flat = apply(ops.add, flat, apply(ops.multiply, index, stride))
    if dtype == _UINT32:
        return [full_like(flat, 0), flat]
    high = apply(ops.shift_right_logical, flat, full_like(flat, 32))
    return [convert(high, _UINT32), convert(flat, _UINT32)]
