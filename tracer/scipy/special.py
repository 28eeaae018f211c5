"""Special functions: `tracer.scipy.special`, as `scipy.special`.

Integers become float64. Floats of 16 bits stay 16 bits, where SciPy makes float32 or float64 of
them, depending on the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axes,
    reshape,
    scalar,
)
from tracer.array.dispatch import apply, compound
from tracer.ir import Op
from tracer.numpy.bessel import i0, i0e, i1, i1e
from tracer.numpy.elementwise import logaddexp
from tracer.numpy.reductions import Axis, kept_shape, reduce
from tracer.numpy.ufunc import (
    Binary,
    Unary,
    binary,
    compare,
    full_like,
    select,
    unary,
)
from tracer.scipy.bessel_first import bernoulli, bessel_jn
from tracer.scipy.beta_function import log_beta
from tracer.scipy.dilogarithm import spence
from tracer.scipy.divergences import boxcox, boxcox1p, kl_div
from tracer.scipy.factorials import (
    beta,
    comb,
    factorial,
    gamma,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    polygamma,
    zeta,
)
from tracer.scipy.faddeeva import dawsn, erfcx, fresnel, wofz
from tracer.scipy.floats import aligned_floats, floats
from tracer.scipy.gauss import hyp2f1
from tracer.scipy.harmonics import sph_harm_y
from tracer.scipy.hypergeometric import hyp1f1
from tracer.scipy.incomplete import betainc, gammainc, gammaincc
from tracer.scipy.integrals import exp1, expi, expn, sici
from tracer.scipy.normal import log_ndtr, ndtr, ndtri
from tracer.scipy.owen import owens_t


def _special(name: str, op: Op, summary: str) -> Unary:
    return unary(name, lambda x: apply(op, floats(name, x)), summary, returns="Floats.")


def _gammaln(x: Array) -> Array:
    x = floats("gammaln", x)
    is_end = compare(x, full_like(x, -math.inf), "EQ")  # where SciPy's is that end, too
    return select(is_end, x, apply(ops.lgamma, x))


erf = _special("erf", ops.erf, "Error function.")
erfc = _special("erfc", ops.erfc, "One minus the error function, exact for large arguments.")
erfinv = _special("erfinv", ops.erf_inv, "Inverse of the error function.")
gammaln = unary("gammaln", _gammaln, ops.lgamma.doc, returns="Floats.")
digamma = psi = _special("digamma", ops.digamma, "Derivative of the logarithm of gamma.")
expit = _special("expit", ops.logistic, "Logistic function, 1 / (1 + exp(-x)).")


def _logit(x: Array) -> Array:
    """Take log(x) - log(1 - x), and near a half, where they cancel, one logarithm of the ratio."""
    x = floats("logit", x)
    is_near = apply(
        ops.and_, compare(x, full_like(x, 0.3), "GT"), compare(x, full_like(x, 0.7), "LT")
    )
    near = tnp.where(is_near, x, 0.5)
    argument = select(is_near, (2 * near - 1) / (1 - near), -x)
    logarithm = apply(ops.log_plus_one, argument)
    return select(is_near, logarithm, apply(ops.log, x) - logarithm)


def _log_expit(x: Array) -> Array:
    x = floats("log_expit", x)
    less = apply(ops.negate, x)
    return apply(ops.negate, logaddexp(less, full_like(x, 0)))


def _entr(x: Array) -> Array:
    x = floats("entr", x)
    value = apply(ops.negate, _x_log(x, x, ops.log, 0.0))
    return select(compare(x, full_like(x, 0), "LT"), full_like(x, -math.inf), value)


def _x_log(x: Array, y: Array, logarithm: Op, pole: float) -> Array:
    """Return x * log(y), and 0 where x is 0; where also log(y) is not finite, so is the gradient.

    The logarithm is finite between `pole` and infinity.
    """
    above = compare(y, full_like(y, pole), "GT")
    is_regular = apply(ops.and_, above, compare(y, full_like(y, math.inf), "LT"))
    # NaN in y stays NaN.
    is_regular = apply(ops.or_, is_regular, compare(y, y, "NE"))
    at_limit = apply(ops.and_, compare(x, full_like(x, 0), "EQ"), apply(ops.not_, is_regular))
    safe = select(at_limit, full_like(y, pole + 1), y)
    return apply(ops.multiply, x, apply(logarithm, safe))


logit = unary("logit", _logit, "Inverse of expit, log(x / (1 - x)).", returns="Floats.")
log_expit = unary("log_expit", _log_expit, "Logarithm of expit.", returns="Floats.")
entr = unary("entr", _entr, "-x log(x), 0 at 0 and -inf below.", returns="Floats.")


def _special_binary(name: str, body: Callable[[Array, Array], Array], summary: str) -> Binary:
    def aligned(x: Array, y: Array) -> Array:
        return body(*aligned_floats(name, x, y))

    beyond = promotion.float_ufunc_dtype
    return binary(name, aligned, summary, returns="Floats.", beyond=beyond)


def _rel_entr(x: Array, y: Array) -> Array:
    zero = full_like(x, 0)
    both = apply(ops.and_, compare(x, zero, "GT"), compare(y, zero, "GT"))
    one = full_like(x, 1)
    safe_x, safe_y = select(both, x, one), select(both, y, one)
    ratio = apply(ops.divide, safe_x, safe_y)
    is_normal = apply(ops.and_, compare(ratio, zero, "GT"), apply(ops.is_finite, ratio))
    apart = apply(ops.subtract, apply(ops.log, safe_x), apply(ops.log, safe_y))
    logarithm = select(is_normal, apply(ops.log, select(is_normal, ratio, one)), apart)
    value = apply(ops.multiply, safe_x, logarithm)
    at_zero = apply(ops.and_, compare(x, zero, "EQ"), compare(y, zero, "GE"))
    value = select(both, value, select(at_zero, zero, full_like(x, math.inf)))
    is_nan = apply(ops.or_, compare(x, x, "NE"), compare(y, y, "NE"))
    return select(is_nan, full_like(x, math.nan), value)


xlogy = _special_binary(
    "xlogy", lambda x, y: _x_log(x, y, ops.log, 0.0), "x * log(y), and 0 where x is 0."
)
xlog1py = _special_binary(
    "xlog1py",
    lambda x, y: _x_log(x, y, ops.log_plus_one, -1.0),
    "x * log1p(y), and 0 where x is 0.",
)
betaln = _special_binary("betaln", log_beta, "Logarithm of the beta function.")
rel_entr = _special_binary("rel_entr", _rel_entr, "x log(x / y), the terms of a divergence.")


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Logarithm of the sum of exponentials, without overflow.

    Parameters
    ----------
    a : array_like
        Real numbers.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    b : array_like, optional
        Factors of the exponentials.
    keepdims : bool
        Keep the axes with size one.
    return_sign : bool
        Return also the sign of the sum, and the logarithm of its absolute value. Without it the
        logarithm of a negative sum is NaN.
    where : array_like of bool, optional
        Which elements count, as in JAX.

    Returns
    -------
    Array of floats, or two of them for `return_sign`
        log(sum(b * exp(a))).
    """
    x = as_array(a)
    if where is not None:
        x = tnp.where(where, convert(x, promotion.division_dtype(x.dtype)), -math.inf)
    arrays = (x,) if b is None else (x, as_array(b))
    ndim = max(array.ndim for array in arrays)
    axes = normalize_axes(axis, ndim)
    if return_sign:
        return _signed_logsumexp(*arrays, axes=axes, keepdims=as_keepdims(keepdims))
    return _logsumexp(*arrays, axes=axes, keepdims=as_keepdims(keepdims))


@compound
def _signed_logsumexp(
    x: Array, factor: Array | None = None, /, *, axes: tuple[int, ...], keepdims: bool
) -> tuple[Array, Array]:
    total, largest, shape = _scaled_sum(x, factor, axes)
    size = apply(ops.add, apply(ops.log, apply(ops.abs, total)), largest)
    results = size, apply(ops.sign, total)
    if keepdims or not axes:
        return results
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    return reshape(results[0], kept), reshape(results[1], kept)


@compound
def _logsumexp(
    x: Array, factor: Array | None = None, /, *, axes: tuple[int, ...], keepdims: bool
) -> Array:
    total, largest, shape = _scaled_sum(x, factor, axes)
    result = apply(ops.add, apply(ops.log, total), largest)
    if keepdims or not axes:
        return result
    return reshape(result, tuple(n for axis, n in enumerate(shape) if axis not in axes))


def _scaled_sum(
    x: Array, factor: Array | None, axes: tuple[int, ...]
) -> tuple[Array, Array, tuple[int, ...]]:
    """Return the sum of exponentials less the largest, that largest one, and the whole shape."""
    dtype = promotion.division_dtype(x.dtype)
    if factor is not None:
        dtype = promotion.division_dtype(promotion.promote_types(dtype, factor.dtype))
        shape = broadcast_shape("logsumexp", x.shape, factor.shape)
        x, factor = broadcast(x, shape), broadcast(convert(factor, dtype), shape)
    x = convert(x, dtype)
    largest = finite_max(x, axes)
    terms = apply(ops.exponential, apply(ops.subtract, x, broadcast(largest, x.shape)))
    if factor is not None:
        terms = apply(ops.multiply, terms, factor)
    return reduce(ops.reduce_add, terms, axes, True), largest, x.shape


def finite_max(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the largest elements with the axes kept, 0 where they are infinite or there are none.

    Gradients do not flow through: subtracting it and adding it back cancels exactly.
    """
    if any(x.shape[axis] == 0 for axis in axes):
        return broadcast(scalar(0, x.dtype), kept_shape(x.shape, axes))
    largest = apply(ops.stop_gradient, reduce(ops.reduce_maximum, x, axes, True))
    return select(apply(ops.is_finite, largest), largest, full_like(largest, 0))


def softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """Exponentials divided by their sum over axes (all by default), without overflow.

    Parameters
    ----------
    x : array_like
        Real numbers.
    axis : int or tuple of int, optional
        Axes over which the result sums to one.

    Returns
    -------
    Array of floats, the shape of `x`
        exp(x) / sum(exp(x)).
    """
    array = as_array(x)
    return _softmax(array, axes=normalize_axes(axis, array.ndim))


@compound
def _softmax(x: Array, *, axes: tuple[int, ...]) -> Array:
    x = convert(x, promotion.division_dtype(x.dtype))
    shifted = apply(ops.subtract, x, broadcast(finite_max(x, axes), x.shape))
    terms = apply(ops.exponential, shifted)
    total = reduce(ops.reduce_add, terms, axes, True)
    return apply(ops.divide, terms, broadcast(total, x.shape))


def log_softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """Logarithm of `softmax`, exact where that vanishes; the parameters are the same."""
    array = as_array(x)
    return _log_softmax(array, axes=normalize_axes(axis, array.ndim))


@compound
def _log_softmax(x: Array, *, axes: tuple[int, ...]) -> Array:
    x = convert(x, promotion.division_dtype(x.dtype))
    shifted = apply(ops.subtract, x, broadcast(finite_max(x, axes), x.shape))
    total = reduce(ops.reduce_add, apply(ops.exponential, shifted), axes, True)
    return apply(ops.subtract, shifted, broadcast(apply(ops.log, total), x.shape))


__all__ = [
    "bernoulli",
    "bessel_jn",
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "comb",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "expn",
    "factorial",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "hyp1f1",
    "hyp2f1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "poch",
    "polygamma",
    "psi",
    "rel_entr",
    "sici",
    "softmax",
    "spence",
    "sph_harm_y",
    "wofz",
    "xlog1py",
    "xlogy",
    "zeta",
]
