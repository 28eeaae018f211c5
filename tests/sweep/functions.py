"""The element-wise functions that the sweep compiles, and what they should give.

NumPy's ufuncs are found by themselves; the others are in tables here. Oracles compute in more
digits than the result has, where NumPy or SciPy can.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special as scipy_special

import tracer.numpy as tnp
from tests.sweep.compare import wide
from tests.sweep.values import BFLOAT16, INTEGERS
from tracer import nn
from tracer.scipy import special

Array = np.ndarray[Any, Any]
Oracle = Callable[..., Any]


@dataclass(frozen=True)
class Function:
    """A function of one or two arrays of one dtype.

    Attributes
    ----------
    name : str
        Module and name.
    arity : int
        Number of arrays.
    ours : callable
        Of arrays; one result or several.
    oracle : callable
        The same of NumPy arrays.
    exact : bool
        The oracle needs the dtype itself (neighbours, shifts).
    kinds : str
        Kinds of dtypes, of those "b", "i" and "u", "f", "c", that it is defined for.
    prepare : callable, optional
        Makes arguments lie in the domain.
    """

    name: str
    arity: int
    ours: Callable[..., Any]
    oracle: Oracle
    exact: bool = False
    kinds: str = "biufc"
    prepare: Callable[..., tuple[Array, ...]] = lambda *arrays: arrays

    def arguments(self, x: Array, y: Array) -> tuple[Array, ...]:
        """Return the arrays that it takes of a pair."""
        return self.prepare(*(x, y)[: self.arity])


def _not_negative(x: Array, y: Array) -> tuple[Array, Array]:
    """Integers have no negative powers."""
    if y.dtype in INTEGERS:
        y = np.where(y < 0, y.dtype.type(2), y)
    return x, y


def _small_exponents(x: Array, y: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        exponents = np.nan_to_num(np.asarray(y, np.float64), posinf=2000, neginf=-2000)
    return x, np.clip(exponents, -5000, 5000).astype(np.int32)


_EXACT = {"nextafter", "spacing", "frexp", "modf", "ldexp", "signbit", "copysign"}
_PREPARE = {"power": _not_negative, "ldexp": _small_exponents}
_NOT_OF = {
    # NumPy adds and multiplies bools as truth values, and so do we; these it refuses, or ours do.
    "ldexp": "iubc",
}


def _ufuncs() -> Iterator[Function]:
    seen: set[str] = set()
    for name in sorted(tnp.__all__):
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc) or ufunc.signature or ufunc.__name__ in seen:
            continue
        seen.add(ufunc.__name__)
        kinds = "".join(set("biufc") - set(_NOT_OF.get(ufunc.__name__, "")))
        yield Function(
            f"numpy.{ufunc.__name__}",
            ufunc.nin,
            getattr(tnp, name),
            ufunc,
            ufunc.__name__ in _EXACT,
            kinds,
            _PREPARE.get(ufunc.__name__, lambda *arrays: arrays),
        )


def _sinc(x: Array) -> Any:
    scaled = np.where(x == 0, np.asarray(1, x.dtype), x) * x.dtype.type(_pi(x))
    return np.where(x == 0, np.asarray(1, x.dtype), np.sin(scaled) / scaled)


def _pi(x: Array) -> Any:
    return np.longdouble("3.14159265358979323846264338327950288") if x.dtype.itemsize > 8 else np.pi


_NUMPY: dict[str, tuple[int, Callable[..., Any], Oracle, str]] = {
    "sinc": (1, tnp.sinc, _sinc, "f"),
    "angle": (1, tnp.angle, np.angle, "iufc"),
    "real": (1, tnp.real, np.real, "fc"),
    "imag": (1, tnp.imag, np.imag, "fc"),
    "round": (1, tnp.round, np.round, "iufc"),
    "round(1)": (1, lambda x: tnp.round(x, 1), lambda x: np.round(x, 1), "iu"),
    "fix": (1, tnp.fix, np.trunc, "f"),
    "nan_to_num": (1, tnp.nan_to_num, np.nan_to_num, "biufc"),
    "clip": (2, lambda x, y: tnp.clip(x, y, 1), lambda x, y: np.clip(x, y, 1), "iuf"),
    "where": (
        2,
        lambda x, y: tnp.where(x != y, x, y),
        lambda x, y: np.where(x != y, x, y),
        "biufc",
    ),
    "isclose": (2, tnp.isclose, np.isclose, "iu"),
    "isreal": (1, tnp.isreal, np.isreal, "biufc"),
    "iscomplex": (1, tnp.iscomplex, np.iscomplex, "biufc"),
    "isposinf": (1, tnp.isposinf, np.isposinf, "f"),
    "isneginf": (1, tnp.isneginf, np.isneginf, "f"),
}
_NUMPY_EXACT = {"nan_to_num"}


def _softplus(x: Array) -> Any:
    return np.logaddexp(x, x.dtype.type(0))


def _expit(x: Array) -> Any:
    one = x.dtype.type(1)
    return np.where(x >= 0, one / (one + np.exp(-x)), np.exp(x) / (one + np.exp(x)))


def _elu(x: Array) -> Any:
    return np.where(x > 0, x, np.expm1(np.where(x > 0, x.dtype.type(0), x)))


def _gelu_tanh(x: Array) -> Any:
    inner = np.sqrt(x.dtype.type(2) / x.dtype.type(_pi(x))) * (x + x.dtype.type(0.044715) * x**3)
    # 1 + tanh(u) is 2 / (1 + exp(-2 u)), without cancellation.
    return x * _expit(2 * inner)


def _erfc(x: Array) -> Any:
    """Return erfc with all digits far out, where SciPy's has the error of a rounded x * x."""
    wide = np.asarray(x, np.longdouble)
    far = np.where(wide > 1, wide, np.longdouble(1))
    tail = scipy_special.erfcx(far.astype(np.float64)) * np.exp(-far * far)
    return np.where(wide > 1, tail, scipy_special.erfc(wide.astype(np.float64)))


def _ndtr(x: Array) -> Any:
    wide = np.asarray(x, np.longdouble)
    return _erfc(-wide / np.sqrt(np.longdouble(2))) / 2


def _log_ndtr(x: Array) -> Any:
    above = np.where(x > 1, np.asarray(x, np.longdouble), np.longdouble(1))
    return np.where(x > 1, np.log1p(-_ndtr(-above)), scipy_special.log_ndtr(np.float64(x)))


def _gelu_erf(x: Array) -> Any:
    return x * _ndtr(x)


def _clipped(x: Array, low: float, high: float) -> Any:
    return np.clip(x, x.dtype.type(low), x.dtype.type(high))


def _selu(x: Array) -> Any:
    alpha, scale = map(x.dtype.type, ("1.6732632423543772848", "1.0507009873554804934"))
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, x.dtype.type(0))))


def _sparse_plus(x: Array) -> Any:
    inside = (_clipped(x, -1, 1) + 1) ** 2 / 4
    return np.where(x >= 1, x, inside)


def _squareplus(x: Array) -> Any:
    total = np.abs(x) + np.hypot(x, x.dtype.type(2))
    return np.where(x < 0, 4 / total, total) / 2


def _log1mexp(x: Array) -> Any:
    small = x < np.log(x.dtype.type(2))
    near = np.log(-np.expm1(-np.where(small, x, x.dtype.type(1))))
    return np.where(small, near, np.log1p(-np.exp(-x)))


_NN: dict[str, tuple[Callable[..., Any], Oracle]] = {
    "celu": (nn.celu, _elu),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: _clipped(x + 3, 0, 6) / 6),
    "hard_silu": (nn.hard_silu, lambda x: x * (_clipped(x + 3, 0, 6) / 6)),
    "hard_swish": (nn.hard_swish, lambda x: x * (_clipped(x + 3, 0, 6) / 6)),
    "hard_tanh": (nn.hard_tanh, lambda x: _clipped(x, -1, 1)),
    "identity": (nn.identity, lambda x: x),
    "log1mexp": (nn.log1mexp, _log1mexp),
    "mish": (nn.mish, lambda x: x * np.tanh(_softplus(x))),
    "relu6": (nn.relu6, lambda x: _clipped(x, 0, 6)),
    "selu": (nn.selu, _selu),
    "soft_sign": (nn.soft_sign, lambda x: x / (1 + np.abs(x))),
    "sparse_plus": (nn.sparse_plus, _sparse_plus),
    "sparse_sigmoid": (nn.sparse_sigmoid, lambda x: _clipped((x + 1) / 2, 0, 1)),
    "squareplus": (nn.squareplus, _squareplus),
    "swish": (nn.swish, lambda x: x * _expit(x)),
    "tanh": (nn.tanh, np.tanh),
    "relu": (nn.relu, lambda x: np.where((x > 0) | np.isnan(x), x, x.dtype.type(0))),
    "sigmoid": (nn.sigmoid, _expit),
    "silu": (nn.silu, lambda x: x * _expit(x)),
    "softplus": (nn.softplus, _softplus),
    "log_sigmoid": (nn.log_sigmoid, lambda x: -_softplus(-x)),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x >= 0, x, x.dtype.type(0.01) * x)),
    "elu": (nn.elu, _elu),
    "gelu": (nn.gelu, _gelu_tanh),
    "gelu(approximate=False)": (lambda x: nn.gelu(x, approximate=False), _gelu_erf),
}
NOT_ELEMENTWISE = {
    "nn": {
        "avg_pool",
        "batch_norm",
        "conv",
        "conv_general_dilated",
        "dot_product_attention",
        "dropout",
        "glu",
        "initializers",
        "layer_norm",
        "log_softmax",
        "logmeanexp",
        "logsumexp",
        "max_pool",
        "one_hot",
        "softmax",
        "standardize",
    },
    "special": {"log_softmax", "logsumexp", "softmax"}
    # Of several results, complex, or long to compile: tests/scipy/test_integrals.py.
    | {"dawsn", "erfcx", "fresnel", "owens_t", "sici", "wofz"}
    # Of whole numbers, or of four arguments.
    | {"bernoulli", "bessel_jn", "sph_harm_y"},
}
_BINARY_SPECIAL = {"betaln", "rel_entr", "xlog1py", "xlogy"}


def _zeta(x: Array) -> Any:
    """Return the sum itself, as XLA and JAX: SciPy continues it below 1."""
    return np.where(x < 1, np.nan, scipy_special.zeta(np.asarray(x, np.float64)))


_SPECIAL: dict[str, Oracle] = {
    "erfc": _erfc,
    "log_ndtr": _log_ndtr,
    "ndtr": _ndtr,
    "zeta": _zeta,
}
"""Oracles that are better than SciPy's, or differ from them."""


def _in_float64(function: Oracle) -> Oracle:
    return lambda *arrays: function(*(np.asarray(x, np.float64) for x in arrays))


def _others() -> Iterator[Function]:
    for name, (arity, ours, oracle, kinds) in _NUMPY.items():
        yield Function(f"numpy.{name}", arity, ours, oracle, name in _NUMPY_EXACT, kinds)
    for name, (ours, oracle) in _NN.items():
        yield Function(f"nn.{name}", 1, ours, oracle, kinds="f")
    for name in special.__all__:
        if name not in NOT_ELEMENTWISE["special"]:
            arity = 2 if name in _BINARY_SPECIAL else 1
            oracle = _SPECIAL.get(name) or _in_float64(getattr(scipy_special, name))
            yield Function(f"special.{name}", arity, getattr(special, name), oracle, kinds="f")


FUNCTIONS: tuple[Function, ...] = (*_ufuncs(), *_others())


def kind_of(dtype: np.dtype[Any]) -> str:
    return "f" if dtype == BFLOAT16 else dtype.kind


def takes(function: Function, dtype: np.dtype[Any]) -> bool:
    """Whether NumPy has the function for a dtype."""
    if kind_of(dtype) not in function.kinds:
        return False
    probe = np.ones(1, np.float32 if dtype == BFLOAT16 else dtype)
    try:
        _results(function, *function.arguments(probe, probe))
    except TypeError:
        return False
    return True


def wanted(function: Function, *arrays: Array) -> list[Array]:
    """Return the oracle's results, in more digits than the dtype's where there are more."""
    if function.exact:
        return _results(function, *arrays)
    if kind_of(arrays[0].dtype) in "fc":
        return _results(function, *map(wide, arrays))
    found = _results(function, *arrays)
    if not any(result.dtype.kind == "f" for result in found):
        return found
    # NumPy computes floats of 8 bit integers in float16: these come of float64.
    floats = _results(function, *(x.astype(np.float64) for x in arrays))
    pairs = zip(found, floats, strict=True)
    return [exact if plain.dtype.kind == "f" else plain for plain, exact in pairs]


def _results(function: Function, *arrays: Array) -> list[Array]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        results = function.oracle(*arrays)
    return [np.asarray(r) for r in (results if isinstance(results, tuple) else (results,))]


def result_dtypes(function: Function, dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """Return the dtypes that NumPy's results have; bfloat16 stays."""
    probe = np.ones(1, np.float32 if dtype == BFLOAT16 else dtype)
    found = [r.dtype for r in _results(function, *function.arguments(probe, probe))]
    return [BFLOAT16 if dtype == BFLOAT16 and d == np.float32 else d for d in found]


__all__ = ["FUNCTIONS", "NOT_ELEMENTWISE", "Function", "result_dtypes", "takes", "wanted"]
