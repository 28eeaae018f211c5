"""First weights of networks, with the names and defaults of `jax.nn.initializers`.

Each function but `zeros` and `ones` returns an initializer: a function of a key, a shape and a
dtype, that returns the weights. They are float64 by default, like all random numbers here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

from tracer import numpy as tnp
from tracer import random
from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_shape
from tracer.array.promotion import real_dtype
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype

Initializer = Callable[..., Array]
Axes = int | Sequence[int]

_TRUNCATED = 0.87962566103423978
"""Standard deviation of the normal distribution between -2 and 2."""
_TRUNCATED_COMPLEX = 0.95311164380491208
"""That of complex normal numbers of absolute value below 2."""


def zeros(key: ArrayLike, shape: Any, dtype: Any = float) -> Array:
    """Return zeros; the key is not used."""
    del key
    return tnp.zeros(shape, dtype)


def ones(key: ArrayLike, shape: Any, dtype: Any = float) -> Array:
    """Return ones; the key is not used."""
    del key
    return tnp.ones(shape, dtype)


def constant(value: ArrayLike, dtype: Any = float) -> Initializer:
    """Make an initializer of one value, or of an array that broadcasts to the shape.

    Parameters
    ----------
    value : array_like
        The value.
    dtype : dtype
        Of the weights, where the initializer is given none.
    """

    def init(key: ArrayLike, shape: Any, dtype: Any = dtype) -> Array:
        del key
        return tnp.full(shape, value, dtype)

    return init


def uniform(scale: float = 0.01, dtype: Any = float) -> Initializer:
    """Make an initializer of numbers equally distributed from 0 to `scale`.

    Parameters
    ----------
    scale : float
        The upper end.
    dtype : dtype
        Of the weights, where the initializer is given none.
    """

    def init(key: ArrayLike, shape: Any, dtype: Any = dtype) -> Array:
        return random.uniform(key, shape, dtype) * scale

    return init


def normal(stddev: float = 0.01, dtype: Any = float) -> Initializer:
    """Make an initializer of normal numbers.

    Parameters
    ----------
    stddev : float
        The standard deviation.
    dtype : dtype
        Of the weights, where the initializer is given none.
    """

    def init(key: ArrayLike, shape: Any, dtype: Any = dtype) -> Array:
        return random.normal(key, shape, dtype) * stddev

    return init


def truncated_normal(
    stddev: float = 0.01, dtype: Any = float, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Make an initializer of normal numbers between two bounds.

    Parameters
    ----------
    stddev : float
        The standard deviation before the ends are cut off.
    dtype : dtype
        Of the weights, where the initializer is given none.
    lower, upper : float
        The bounds, in standard deviations.
    """

    def init(key: ArrayLike, shape: Any, dtype: Any = dtype) -> Array:
        return random.truncated_normal(key, lower, upper, shape, dtype) * stddev

    return init


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = float,
) -> Initializer:
    """Make an initializer whose variance is `scale` divided by the number of weights of a unit.

    Parameters
    ----------
    scale : float
        A factor of the variance.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        Count the weights that go into a unit, those that go out, or their mean.
    distribution : {"truncated_normal", "normal", "uniform"}
        The distribution.
    in_axis, out_axis, batch_axis : int or sequence of int
        The axes of inputs, of outputs, and of independent units. All others are a window's.
    dtype : dtype
        Of the weights, where the initializer is given none.

    Returns
    -------
    callable
        `(key, shape, dtype) -> weights`.

    Raises
    ------
    ArgumentError
        No such mode or distribution.
    ShapeError
        Raised by the initializer: the shape has no such axes.

    Examples
    --------
    >>> import tracer
    >>> init = tracer.nn.initializers.variance_scaling(2.0, "fan_in", "normal", dtype="float32")
    >>> init(tracer.random.key(0), (128, 64)).dtype
    dtype('float32')
    """
    if not scale >= 0:
        raise ArgumentError(f"variance_scaling: scale is {scale}", mend="give a positive number")
    axes = [_axes(axis) for axis in (in_axis, out_axis, batch_axis)]
    if mode not in _MEANS:
        raise ArgumentError(f"variance_scaling: mode {mode!r}", mend=f"use one of {list(_MEANS)}")
    if distribution not in _DISTRIBUTIONS:
        raise ArgumentError(
            f"variance_scaling: distribution {distribution!r}",
            mend=f"use one of {list(_DISTRIBUTIONS)}",
        )

    def init(key: ArrayLike, shape: Any, dtype: Any = dtype) -> Array:
        sizes, wanted = as_shape(shape), as_dtype(dtype)
        fans = _fans(sizes, *axes)
        deviation = math.sqrt(scale / max(_MEANS[mode](*fans), 1e-300))
        return _DISTRIBUTIONS[distribution](key, sizes, wanted) * deviation

    return init


_MEANS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda inputs, outputs: inputs,
    "fan_out": lambda inputs, outputs: outputs,
    "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2,
    "fan_geo_avg": lambda inputs, outputs: math.sqrt(inputs * outputs),
}


def _fans(
    shape: tuple[int, ...],
    in_axis: tuple[int, ...],
    out_axis: tuple[int, ...],
    batch: tuple[int, ...],
) -> tuple[float, float]:
    """Return how many weights go into a unit, and how many go out."""
    try:
        inputs, outputs, units = (_size(shape, axes) for axes in (in_axis, out_axis, batch))
    except IndexError as error:
        raise ShapeError(
            f"variance_scaling: the shape {shape} has no axes {in_axis} and {out_axis}",
            mend="give two axes or more, or other in_axis and out_axis",
        ) from error
    window = math.prod(shape) / max(inputs * outputs * units, 1)
    return inputs * window, outputs * window


def _size(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return math.prod(shape[axis] for axis in axes)


def _axes(axes: Axes) -> tuple[int, ...]:
    return tuple(map(operator.index, (axes,) if is_index(axes) else cast("Sequence[int]", axes)))


def _truncated(key: ArrayLike, shape: tuple[int, ...], dtype: Any) -> Array:
    if dtype.kind != "c":
        return random.truncated_normal(key, -2, 2, shape, dtype) / _TRUNCATED
    return _disc(key, shape, dtype, lambda unit: -tnp.log1p(-(1 - math.exp(-4)) * unit)) / (
        _TRUNCATED_COMPLEX
    )


def _uniform(key: ArrayLike, shape: tuple[int, ...], dtype: Any) -> Array:
    if dtype.kind != "c":
        return random.uniform(key, shape, dtype, -1) * math.sqrt(3)
    return _disc(key, shape, dtype, lambda unit: 2 * unit)


def _disc(key: ArrayLike, shape: tuple[int, ...], dtype: Any, square: Any) -> Array:
    """Return complex numbers in all directions; `square` makes sizes of uniform numbers."""
    of_size, of_angle = random.split(key)
    part = real_dtype(dtype)
    size = tnp.sqrt(square(random.uniform(of_size, shape, part)))
    angle = 2 * math.pi * random.uniform(of_angle, shape, part)
    return (size * (tnp.cos(angle) + 1j * tnp.sin(angle))).astype(dtype)


_DISTRIBUTIONS: dict[str, Callable[..., Array]] = {
    "truncated_normal": _truncated,
    "normal": random.normal,
    "uniform": _uniform,
}

_SCALED_DOC = """Make an initializer of variance {variance}, {distribution}; see `variance_scaling`.

Parameters
----------
in_axis, out_axis, batch_axis : int or sequence of int
    The axes of inputs, of outputs, and of independent units.
dtype : dtype
    Of the weights, where the initializer is given none.

References
----------
{source}
"""


def _scaled(name: str, scale: float, mode: str, distribution: str, variance: str) -> Any:
    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = float
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    source = _SOURCES[name.partition("_")[0]]
    kind = "uniform" if distribution == "uniform" else "normal between -2 and 2 deviations"
    make.__doc__ = _SCALED_DOC.format(variance=variance, distribution=kind, source=source)
    return make


_SOURCES = {
    "glorot": "Glorot and Bengio, Understanding the difficulty of training deep networks, 2010.",
    "lecun": "LeCun et al., Efficient BackProp, 1998.",
    "he": "He et al., Delving Deep into Rectifiers, arXiv:1502.01852.",
}
_MEAN = "2 / (inputs + outputs)"
glorot_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", _MEAN)
glorot_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal", _MEAN)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", "1 / inputs")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", "1 / inputs")
he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", "2 / inputs")
he_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", "2 / inputs")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """Make an initializer of orthonormal columns, or rows where there are more columns.

    Parameters
    ----------
    scale : float
        A factor.
    column_axis : int
        The axis of the columns; all others are the rows.
    dtype : dtype
        Of the weights, where the initializer is given none.

    References
    ----------
    Saxe et al., Exact solutions to the nonlinear dynamics of learning, arXiv:1312.6120.
    """

    def init(key: ArrayLike, shape: Any, dtype: Any = dtype) -> Array:
        sizes = as_shape(shape)
        if len(sizes) < 2:
            raise ShapeError(
                f"orthogonal: the shape {sizes} has no rows and columns", mend="give two axes"
            )
        if 0 in sizes:
            return tnp.zeros(sizes, dtype)
        columns = sizes[column_axis]
        rest = [size for axis, size in enumerate(sizes) if axis != column_axis % len(sizes)]
        q = random.orthogonal(key, math.prod(rest), (), dtype, columns)
        return tnp.moveaxis(q.reshape((*rest, columns)), -1, column_axis) * scale

    return init


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """Make an initializer of convolutions that are orthogonal in the middle, and zero around it.

    Parameters
    ----------
    scale : float
        A factor.
    column_axis : int
        The axis of the columns of the matrix in the middle.
    dtype : dtype
        Of the weights, where the initializer is given none.

    References
    ----------
    Xiao et al., Dynamical Isometry and a Mean Field Theory of CNNs, arXiv:1806.05393.
    """

    def init(key: ArrayLike, shape: Any, dtype: Any = dtype) -> Array:
        sizes = as_shape(shape)
        if len(sizes) not in (3, 4, 5) or sizes[-1] < sizes[-2]:
            raise ShapeError(
                f"delta_orthogonal: the shape is {sizes}",
                mend="give one to three axes of a window, inputs, and as many outputs or more",
            )
        middle = tuple((size - 1) // 2 for size in sizes[:-2])
        matrix = orthogonal(scale, column_axis, dtype)(key, sizes[-2:], dtype)
        return tnp.zeros(sizes, dtype).at[middle].set(matrix)

    return init


__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
