"""Activations made of pieces, and gated ones. Names and defaults are those of `jax.nn`."""

from __future__ import annotations

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import array_or_number, as_array, convert, normalize_axis
from tracer.array.dispatch import apply
from tracer.errors import ShapeError
from tracer.nn.activations import elu, sigmoid, softplus
from tracer.numpy import elementwise
from tracer.numpy.splitting import split
from tracer.numpy.ufunc import compare, full_like, select, unary
from tracer.scipy import tails


def _floats(x: Array) -> Array:
    return convert(x, promotion.division_dtype(x.dtype))


def _clipped(x: Array, low: float, high: float) -> Array:
    """Clip, with slope 0 at the bounds, as JAX's relu6."""
    above = select(compare(x, full_like(x, high), "GE"), full_like(x, high), x)
    return select(compare(x, full_like(x, low), "LE"), full_like(x, low), above)


def _relu6(x: Array) -> Array:
    return _clipped(_floats(x), 0.0, 6.0)


def _hard_sigmoid(x: Array) -> Array:
    x = _floats(x)
    shifted = _clipped(apply(ops.add, x, full_like(x, 3)), 0.0, 6.0)
    return apply(ops.divide, shifted, full_like(x, 6))


def _hard_silu(x: Array) -> Array:
    x = _floats(x)
    return apply(ops.multiply, x, _hard_sigmoid(x))


def _hard_tanh(x: Array) -> Array:
    one = full_like(x, 1)
    above = select(compare(x, one, "GT"), one, x)
    if x.dtype.kind in "bu":
        return above
    low = full_like(x, -1)
    return select(compare(x, low, "LT"), low, above)


def _soft_sign(x: Array) -> Array:
    x = _floats(x)
    return apply(ops.divide, x, apply(ops.add, apply(ops.abs, x), full_like(x, 1)))


def _sparse_plus(x: Array) -> Array:
    x = _floats(x)
    one = full_like(x, 1)
    root = apply(ops.add, x, one)
    middle = apply(ops.divide, apply(ops.multiply, root, root), full_like(x, 4))
    above = select(compare(x, one, "GE"), x, middle)
    return select(compare(x, full_like(x, -1), "LE"), full_like(x, 0), above)


def _sparse_sigmoid(x: Array) -> Array:
    x = _floats(x)
    # Extremes, not clamp: at the bounds their slope is one half, as in JAX.
    above = apply(ops.maximum, apply(ops.add, x, full_like(x, 1)), full_like(x, 0))
    inside = apply(ops.minimum, above, full_like(x, 2))
    return apply(ops.multiply, full_like(x, 0.5), inside)


def _mish(x: Array) -> Array:
    x = _floats(x)
    return apply(ops.multiply, x, apply(ops.tanh, softplus(x)))


def _selu(x: Array) -> Array:
    x = _floats(x)
    scaled = elu(x, 1.6732632423543772848170429916717)
    return apply(ops.multiply, full_like(x, 1.0507009873554804934193349852946), scaled)


def _log1mexp(x: Array) -> Array:
    return tails.log1mexp(_floats(x))


_RETURNS = "The dtype of `x`, float64 for integers."
relu6 = unary("relu6", _relu6, "min(max(x, 0), 6); derivative 0 at both.", returns=_RETURNS)
hard_sigmoid = unary("hard_sigmoid", _hard_sigmoid, "relu6(x + 3) / 6.", returns=_RETURNS)
hard_silu = hard_swish = unary("hard_silu", _hard_silu, "x * hard_sigmoid(x).", returns=_RETURNS)
hard_tanh = unary("hard_tanh", _hard_tanh, "x between -1 and 1, which are the bounds.")
soft_sign = unary("soft_sign", _soft_sign, "x / (|x| + 1).", returns=_RETURNS)
sparse_plus = unary(
    "sparse_plus", _sparse_plus, "0 below -1, x above 1, (x + 1)^2 / 4 between.", returns=_RETURNS
)
sparse_sigmoid = unary(
    "sparse_sigmoid",
    _sparse_sigmoid,
    "Derivative of sparse_plus: 0 below -1, 1 above 1, (x + 1) / 2 between.",
    returns=_RETURNS,
)
mish = unary("mish", _mish, "x * tanh(softplus(x)).", returns=_RETURNS)
selu = unary("selu", _selu, "Scaled elu, which keeps mean 0 and variance 1.", returns=_RETURNS)
log1mexp = unary(
    "log1mexp", _log1mexp, "log(1 - exp(-x)) for positive x, without cancelling.", returns=_RETURNS
)
tanh = elementwise.tanh


def identity(x: ArrayLike) -> Array:
    """Return x."""
    return as_array(x)


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return x where it is positive, elsewhere `alpha * (exp(x / alpha) - 1)`: smooth at 0."""
    array = _floats(as_array(x))
    is_positive = array > 0
    # The exponential of large numbers is not taken, so that its gradient is no NaN.
    scale = array_or_number(alpha)
    lower = scale * elementwise.expm1(elementwise.where(is_positive, 0, array) / scale)
    result: Array = elementwise.where(is_positive, array, lower)
    return result


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Return `(x + sqrt(x^2 + b)) / 2`, a smooth positive part without exponentials.

    The square may overflow where the root does not; below 0 the sum would cancel.
    """
    array = _floats(as_array(x))
    added = array_or_number(b)
    root = elementwise.sqrt(full_like(array, 0) + added)
    total = abs(array) + elementwise.hypot(array, root)
    result: Array = elementwise.where(array < 0, added / total, total) / 2
    return result


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Gated linear unit: the first half of an axis times the sigmoid of the second.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int
        The axis, of even size.

    Returns
    -------
    Array
        Half as large along the axis.

    Raises
    ------
    ShapeError
        The size of the axis is odd.

    References
    ----------
    Dauphin et al., Language Modeling with Gated Convolutional Networks, arXiv:1612.08083.
    """
    array = as_array(x)
    place = normalize_axis(axis, array.ndim)
    if array.shape[place] % 2:
        raise ShapeError(
            f"glu: axis {axis} has {array.shape[place]} elements, which is odd",
            mend="give an axis of even size",
        )
    first, second = split(array, 2, place)
    return first * sigmoid(second)
