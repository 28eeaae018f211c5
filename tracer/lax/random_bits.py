"""Random bits by XLA's generators, as `jax.lax.rng_bit_generator`."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, reshape
from tracer.errors import DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.lax.bits import as_bits
from tracer.numpy.bit_generators import philox, threefry
from tracer.numpy.creation import checked_shape


class RandomAlgorithm(Enum):
    """How bits are made; the default is Philox, as XLA's on CPUs and GPUs."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def rng_bit_generator(
    key: ArrayLike,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
) -> tuple[Array, Array]:
    """Return the key after, and random bits.

    `tracer.random` is the better choice for new programs: one key for one draw. Here the key moves
    on as the numbers are drawn.

    Parameters
    ----------
    key : Array of uint32, shape (4,), or uint64, shape (2,)
        A key and a counter.
    shape : int or tuple of int
        Of the result.
    dtype : dtype
        uint8, uint16, uint32 or uint64.
    algorithm : RandomAlgorithm
        Philox or Threefry.

    Returns
    -------
    new_key : Array, as `key`
        For the next call.
    bits : Array, shape `shape`
        The numbers that XLA makes on CPUs and GPUs, on every device.

    Raises
    ------
    DTypeError, ShapeError
        The key or the dtype is none of those.

    References
    ----------
    Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.

    Examples
    --------
    >>> from tracer import lax
    >>> import tracer.numpy as tnp
    >>> lax.rng_bit_generator(tnp.asarray([1, 2], dtype="uint64"), (2,))[1]
    Array([2100602697, 2847456232], dtype=uint32)
    """
    words, wanted = as_array(key), as_dtype(dtype)
    if wanted.kind != "u":
        raise DTypeError(
            f"lax.rng_bit_generator does not make dtype {wanted}",
            mend="use uint8, uint16, uint32 or uint64, and lax.bitcast_convert_type",
        )
    lengths = {as_dtype("uint32"): (4,), as_dtype("uint64"): (2,)}
    if words.shape != lengths.get(words.dtype):
        raise ShapeError(
            f"a key of lax.rng_bit_generator is uint32[4] or uint64[2], not {words.type}",
            mend="give four words of 32 bits, or two of 64; keys of tracer.random are for its "
            "own functions",
        )
    wide = as_dtype("uint64")
    state = words if words.dtype == wide else as_bits(reshape(words, (2, 2)), wide)
    make = threefry if RandomAlgorithm(algorithm) is RandomAlgorithm.RNG_THREE_FRY else philox
    after, bits = make(state, shape=checked_shape(shape), width=8 * wanted.itemsize)
    return reshape(as_bits(after, words.dtype), words.shape), bits
