"""tracer.lax beside jax.lax: values and gradients, eager and compiled."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tracer.lax as ours
from tests.compare_with_jax import FLOATS, check, inputs
from tests.sampling import one_in

jax = pytest.importorskip("jax")
theirs = jax.lax if hasattr(jax, "lax") else None


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


AWKWARD = np.array([-np.inf, -2.5, -1.0, -0.5, -0.0, 0.0, 0.3, 1.0, 2.5, np.inf, np.nan])
INSIDE = np.array([-0.9, -0.5, -0.1, 0.2, 0.7])
POSITIVE = np.array([0.1, 0.5, 1.0, 1.5, 3.0, 20.0])

_UNARY = {
    "abs ceil cos erf erfc exp exp2 expm1 floor is_finite logistic neg sign sin square tanh "
    "bessel_i0e bessel_i1e atan asinh cbrt": AWKWARD,
    "acos asin atanh erf_inv tan": INSIDE,
    "acosh": 1 + POSITIVE,
    "cosh sinh": INSIDE,
    "digamma lgamma log log1p reciprocal rsqrt sqrt": POSITIVE,
}
UNARY = {name: x for names, x in _UNARY.items() for name in names.split()}


@pytest.mark.parametrize(("name", "dtype"), one_in(3, product(UNARY, FLOATS)))
def test_functions_of_one_array(name, dtype):
    x = UNARY[name]

    # Derivatives at infinities and kinks are conventions; they are compared in between.
    def program(lax, x):
        return getattr(lax, name)(x)

    check(program, ours, theirs, inputs([x], dtype), which=("compiled",), scale=8)
    inner = x[np.isfinite(x) & (np.abs(x) > 0.05)]
    scale = 64 if name.startswith("bessel") else 8
    check(program, ours, theirs, inputs([inner], dtype), which=("gradient",), scale=scale)
    check(program, ours, theirs, inputs([np.zeros((0, 3))], dtype), which=())


BINARY = "add sub mul div rem max min atan2 pow nextafter eq ne lt le gt ge complex".split()


@pytest.mark.parametrize(("name", "dtype"), one_in(3, product(BINARY, FLOATS)))
def test_functions_of_two_arrays(name, dtype):
    def program(lax, x, y):
        return getattr(lax, name)(x, y)

    x, y = np.meshgrid(AWKWARD, AWKWARD)
    check(program, ours, theirs, inputs([x, y], dtype), differentiates=False, scale=8)
    x, y = np.array([[0.5, 1.5, 2.0]]), np.array([[0.7], [3.5]])
    differentiates = name not in ("nextafter", "eq", "ne", "lt", "le", "gt", "ge")
    check(program, ours, theirs, inputs([x, y], dtype), differentiates=differentiates, scale=8)
    check(program, ours, theirs, inputs([x, np.array(2.25)], dtype), differentiates=differentiates)


INTEGERS = np.array([-7, -1, 0, 1, 2, 100])
INTEGER_PROGRAMS = {
    "and": lambda lax, x: lax.bitwise_and(x, x + x),
    "or": lambda lax, x: lax.bitwise_or(x, x + x),
    "xor": lambda lax, x: lax.bitwise_xor(x, x + x),
    "not": lambda lax, x: lax.bitwise_not(x),
    "count": lambda lax, x: lax.population_count(x),
    "clz": lambda lax, x: lax.clz(x),
    "left": lambda lax, x: lax.shift_left(x, abs(x)),
    "right": lambda lax, x: lax.shift_right_logical(x, abs(x)),
    "right arithmetic": lambda lax, x: lax.shift_right_arithmetic(x, abs(x)),
    "div": lambda lax, x: lax.div(x, x - x),
    "rem": lambda lax, x: lax.rem(x, x[::-1] + x - x),
    "integer_pow": lambda lax, x: lax.integer_pow(x, 3),
    "mulhi": lambda lax, x: lax.mulhi(x * x * x, x[::-1]),
    "reduce_and": lambda lax, x: lax.reduce_and(x, (0,)),
    "reduce_or": lambda lax, x: lax.reduce_or(x, (0,)),
    "reduce_xor": lambda lax, x: lax.reduce_xor(x, (0,)),
    "reduce_and none": lambda lax, x: lax.reduce_and(x[:0], (0,)),
    "reduce_xor bool": lambda lax, x: lax.reduce_xor(x > 0, (0,)),
    "reduce_sum": lambda lax, x: lax.reduce_sum(x, (0,)),
    "sign": lambda lax, x: lax.sign(x),
    "neg": lambda lax, x: lax.neg(x),
    "bitcast": lambda lax, x: lax.bitcast_convert_type(x, np.int8 if x.itemsize > 1 else np.uint8),
    "convert": lambda lax, x: lax.convert_element_type(x, np.uint8),
    "sort": lambda lax, x: lax.sort(x),
    "cummax": lambda lax, x: lax.cummax(x, reverse=True),
    "top_k": lambda lax, x: lax.top_k(x, 3),
}


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("name", one_in(3, INTEGER_PROGRAMS))
def test_integers(name, dtype):
    x = INTEGERS.astype(dtype)
    if name == "mulhi" and dtype in ("int64", "uint64"):
        x = x * np.array(2, dtype) ** 40
    check(INTEGER_PROGRAMS[name], ours, theirs, [x])


ROWS = np.array([[3.0, np.nan, -1.0, 2.0], [0.0, -0.0, np.inf, -np.inf], [1.0, 1.0, 1.0, 2.0]])


def _of(x, value):
    return x.dtype.type(value)


PROGRAMS = {
    "clamp": (lambda lax, x, y: lax.clamp(lax.full_like(x, -0.5), x, abs(y)), [(4, 3), (4, 3)]),
    "clamp scalars": (lambda lax, x: lax.clamp(x[0], x, x[0]), [ROWS[2]]),
    "select": (lambda lax, x, y: lax.select(x > 0, x, y), [(5,), (5,)]),
    "select_n": (
        lambda lax, i, x, y: lax.select_n(i, x, y, x * y),
        [np.array([0, 1, 2, 1, 0], np.int32), (5,), (5,)],
    ),
    "select_n scalar": (lambda lax, x, y: lax.select_n(x[0] > 0, x, y), [(5,), (5,)]),
    "integer_pow": (lambda lax, x: lax.integer_pow(x, 7), [INSIDE]),
    "integer_pow negative": (lambda lax, x: lax.integer_pow(x, -3), [INSIDE]),
    "integer_pow 0": (lambda lax, x: lax.integer_pow(x, 0), [AWKWARD]),
    "pow integer": (lambda lax, x: lax.pow(x, 3), [INSIDE]),
    "pow integers": (lambda lax, x, n: lax.pow(x, n), [POSITIVE[:3], np.array([2, -1, 0])]),
    "round": (lambda lax, x: lax.round(x), [AWKWARD]),
    "round even": (lambda lax, x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), [AWKWARD]),
    "conj": (lambda lax, x: lax.conj(lax.complex(x, x)), [(4,)]),
    "conj of reals": (lambda lax, x: lax.conj(x), [(4,)]),
    "real imag": (
        lambda lax, x: lax.real(lax.complex(x, 2 * x)) * lax.imag(lax.complex(x, x)),
        [(4,)],
    ),
    "max complex": (lambda lax, x: lax.max(lax.complex(x, x), lax.complex(x, -x)), [(4,)]),
    "polygamma": (
        lambda lax, x: lax.polygamma(_of(x, 2), x) + lax.polygamma(_of(x, 0), x),
        [POSITIVE[2:]],
    ),
    "reduce_precision": (lambda lax, x: lax.reduce_precision(x, 5, 3), [AWKWARD]),
    "reduce_precision inside": (lambda lax, x: lax.reduce_precision(x * x, 5, 3), [POSITIVE]),
    "bitcast": (lambda lax, x: lax.bitcast_convert_type(x, np.uint16), [AWKWARD]),
    "bitcast back": (
        lambda lax, x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, np.uint8), x.dtype),
        [AWKWARD],
    ),
    "convert": (lambda lax, x: lax.convert_element_type(x, np.int32), [AWKWARD]),
    "barrier": (lambda lax, x: lax.optimization_barrier((x, {"a": x + 1})), [(3,)]),
    "broadcast": (lambda lax, x: lax.broadcast(x, (2, 0, 3)), [(4,)]),
    "broadcast_in_dim": (lambda lax, x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), [(2, 1)]),
    "broadcast_to_rank": (lambda lax, x: lax.broadcast_to_rank(x, 3), [(4,)]),
    "reshape": (lambda lax, x: lax.reshape(x, (3, 4), (1, 0)), [(2, 6)]),
    "collapse": (lambda lax, x: lax.collapse(x, 1, 3), [(2, 3, 4, 5)]),
    "collapse all": (lambda lax, x: lax.collapse(x, -2), [(2, 3, 4)]),
    "squeeze": (lambda lax, x: lax.squeeze(x, (0, -1)), [(1, 3, 1)]),
    "expand_dims": (lambda lax, x: lax.expand_dims(x, (0, -1)), [(2, 3)]),
    "transpose": (lambda lax, x: lax.transpose(x, (2, 0, 1)), [(2, 3, 4)]),
    "concatenate": (lambda lax, x, y: lax.concatenate([x, y, x], 1), [(2, 3), (2, 0)]),
    "stack": (lambda lax, x, y: lax.stack([x, y], -1), [(2, 3), (2, 3)]),
    "unstack": (lambda lax, x: lax.unstack(x, 1), [(2, 3)]),
    "split": (lambda lax, x: lax.split(x, (1, 0, 2), -1), [(2, 3)]),
    "tile": (lambda lax, x: lax.tile(x, (2, 0)), [(2, 3)]),
    "tile more": (lambda lax, x: lax.tile(x, (1, 3)), [(2, 3)]),
    "pad": (lambda lax, x, v: lax.pad(x, v, [(1, 2, 0), (-1, 1, 2)]), [(2, 4), np.array(2.5)]),
    "pad away": (lambda lax, x, v: lax.pad(x, v, [(-1, -1, 1)]), [(3,), np.array(2.5)]),
    "pad none": (lambda lax, x, v: lax.pad(x, v, [(2, 1, 3)]), [(0,), np.array(2.5)]),
    "rev": (lambda lax, x: lax.rev(x, (1, 0)), [(2, 3)]),
    "iota": (
        lambda lax, x: x * lax.iota(x.dtype, 4) + lax.broadcasted_iota(x.dtype, (3, 4), 0),
        [(4,)],
    ),
    "full": (lambda lax, x: lax.full((2, 3), 1.5, x.dtype) + lax.full_like(x, 2), [(2, 3)]),
    "slice": (lambda lax, x: lax.slice(x, (1, 0), (4, 5), (2, 3)), [(5, 6)]),
    "slice empty": (lambda lax, x: lax.slice(x, (1, 0), (1, 5)), [(5, 6)]),
    "slice_in_dim": (lambda lax, x: lax.slice_in_dim(x, -4, None, 3, -1), [(5, 6)]),
    "index_in_dim": (lambda lax, x: lax.index_in_dim(x, -2, 1, False), [(5, 6)]),
    "dynamic_slice": (
        lambda lax, x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 3)),
        [(5, 6), np.array([-1, 9])],
    ),
    "dynamic_slice array": (
        lambda lax, x, i: lax.dynamic_slice(x, i, (2, 3)),
        [(5, 6), np.array([-9, 2], np.int32)],
    ),
    "dynamic_slice no negative": (
        lambda lax, x, i: lax.dynamic_slice(x, i, (2, 3), allow_negative_indices=False),
        [(5, 6), np.array([-1, 2], np.int32)],
    ),
    "dynamic_slice_in_dim": (
        lambda lax, x, i: lax.dynamic_slice_in_dim(x, i, 2, -1),
        [(5, 6), np.array(-2, np.int8)],
    ),
    "dynamic_index_in_dim": (
        lambda lax, x, i: lax.dynamic_index_in_dim(x, i, 0, False),
        [(5, 6), np.array(4, np.uint8)],
    ),
    "dynamic_update_slice": (
        lambda lax, x, y, i: lax.dynamic_update_slice(x, y, (i, i)),
        [(5, 6), (2, 2), np.array(-1)],
    ),
    "dynamic_update_in_dim": (
        lambda lax, x, y, i: lax.dynamic_update_slice_in_dim(x, y, i, -1),
        [(5, 6), (5, 2), np.array(5)],
    ),
    "dynamic_update_index": (
        lambda lax, x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 1),
        [(5, 6), (5,), np.array(-3)],
    ),
    "dot": (lambda lax, x, y: lax.dot(x, y), [(4, 3), (3,)]),
    "dot matrices": (
        lambda lax, x, y: lax.dot(x, y, precision=lax.Precision.HIGHEST),
        [(4, 3), (3, 5)],
    ),
    "dot none": (lambda lax, x, y: lax.dot(x, y), [(4, 0), (0, 5)]),
    "dot_general": (
        lambda lax, x, y: lax.dot_general(x, y, (((3, 1), (0, 2)), ((0,), (1,)))),
        [(2, 3, 4, 5), (5, 2, 3, 6)],
    ),
    "dot_general wide": (
        lambda lax, x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), None, np.float64),
        [(2, 3), (3, 4)],
    ),
    "batch_matmul": (lambda lax, x, y: lax.batch_matmul(x, y), [(2, 3, 4), (2, 4, 5)]),
    "conv": (lambda lax, x, k: lax.conv(x, k, (1, 2), "SAME"), [(2, 3, 5, 6), (4, 3, 3, 2)]),
    "conv padding": (
        lambda lax, x, k: lax.conv_with_general_padding(
            x, k, (1, 1), [(1, 2), (-1, 3)], (1, 2), (2, 1)
        ),
        [(2, 3, 5, 6), (4, 3, 2, 2)],
    ),
    "conv_general": (
        lambda lax, x, k: lax.conv_general_dilated(
            x, k, (2,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=2
        ),
        [(2, 7, 4), (3, 2, 6)],
    ),
    "conv numbers": (
        lambda lax, x, k: lax.conv_general_dilated(
            x,
            k,
            (1,),
            "SAME",
            dimension_numbers=lax.conv_dimension_numbers(x.shape, k.shape, ("NWC", "WIO", "CNW")),
        ),
        [(2, 7, 4), (3, 4, 6)],
    ),
    "conv_transpose": (
        lambda lax, x, k: lax.conv_transpose(x, k, (2, 3), "SAME"),
        [(2, 4, 3, 2), (3, 2, 2, 5)],
    ),
    "conv_transpose valid": (
        lambda lax, x, k: lax.conv_transpose(x, k, (2,), "VALID", (2,), transpose_kernel=True),
        [(2, 4, 5), (3, 2, 5)],
    ),
    "conv_transpose pairs": (
        lambda lax, x, k: lax.conv_transpose(x, k, (2,), [(1, 0)]),
        [(2, 4, 5), (3, 5, 2)],
    ),
    "conv_transpose consistent": (
        lambda lax, x, k: lax.conv_transpose(x, k, (2,), [(1, 0)], use_consistent_padding=True),
        [(2, 4, 5), (3, 5, 2)],
    ),
    "patches": (
        lambda lax, x: lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "SAME"),
        [(2, 3, 5, 6)],
    ),
    "patches nhwc": (
        lambda lax, x: lax.conv_general_dilated_patches(
            x, (2, 3), (1, 2), "VALID", dimension_numbers=("NHWC", "OIWH", "NHWC")
        ),
        [(2, 5, 6, 3)],
    ),
    "reduce_sum": (lambda lax, x: lax.reduce_sum(x, (2, 0)), [(2, 3, 4)]),
    "reduce_prod": (lambda lax, x: lax.reduce_prod(x, (1,)), [(2, 3)]),
    "reduce_max": (lambda lax, x: lax.reduce_max(x, (1,)), [(3, 4)]),
    "reduce_min": (lambda lax, x: lax.reduce_min(x, ()), [(3, 4)]),
    "argmax": (lambda lax, x: lax.argmax(x, 1, np.int16), [ROWS]),
    "argmin": (lambda lax, x: lax.argmin(x, 0, np.int32), [ROWS]),
    "cumsum": (lambda lax, x: lax.cumsum(x, 1, reverse=True), [(2, 5)]),
    "cumprod": (lambda lax, x: lax.cumprod(x), [(4, 2)]),
    "cummax": (lambda lax, x: lax.cummax(x, 1), [(2, 5)]),
    "cummin": (lambda lax, x: lax.cummin(x, 1, True), [(2, 5)]),
    "cumlogsumexp": (lambda lax, x: lax.cumlogsumexp(x, 1, True), [(2, 5)]),
    "select_n outside": (
        lambda lax, i, x, y: lax.select_n(i, x, y, x * y),
        [np.array([0, -1, 7], np.int32), (3,), (3,)],
    ),
    "reduce add": (lambda lax, x: lax.reduce(x, _of(x, 0), lax.add, (0, 2)), [(2, 3, 4)]),
    "reduce add more": (
        lambda lax, x: lax.reduce(x, _of(x, 1.5), lambda x, y: y + x, (0,)),
        [(2, 3)],
    ),
    "reduce lambda": (
        lambda lax, x: lax.reduce(x, _of(x, 0), lambda x, y: lax.add(x, y) + x * y, (1,)),
        [(2, 5)],
    ),
    "reduce max": (lambda lax, x: lax.reduce(x, _of(x, -np.inf), lax.max, (1,)), [(2, 5)]),
    "reduce pair": (
        lambda lax, x: lax.reduce(
            (x, 2 * x),
            (_of(x, 0), _of(x, 0)),
            lambda x, y: (x[0] + y[0], lax.max(x[1], y[1])),
            (1,),
        ),
        [(2, 5)],
    ),
    "reduce none": (
        lambda lax, x: lax.reduce(x, _of(x, 1.5), lambda x, y: x * y + 0 * x, (1,)),
        [(2, 0)],
    ),
    "reduce_window": (
        lambda lax, x: lax.reduce_window(x, _of(x, 0), lax.add, (2, 3), (1, 2), "SAME"),
        [(4, 7)],
    ),
    "reduce_window prod": (
        lambda lax, x: lax.reduce_window(
            x, _of(x, 1), lax.mul, (2, 3), (1, 2), [(1, 0), (2, 1)], (2, 1), (1, 2)
        ),
        [(4, 7)],
    ),
    "reduce_window start": (
        lambda lax, x: lax.reduce_window(
            x, _of(x, 1.5), lambda x, y: x * y, (2, 3), (1, 2), [(1, 0), (2, 1)], (2, 1), (1, 2)
        ),
        [(4, 7)],
    ),
    "reduce_window function": (
        lambda lax, x: lax.reduce_window(
            x, _of(x, 0), lambda x, y: x + y + x * y, (2, 3), (1, 2), "SAME", (2, 1), (1, 2)
        ),
        [(4, 7)],
    ),
    "reduce_window pair": (
        lambda lax, x: lax.reduce_window(
            (x, x),
            (_of(x, 0), _of(x, 0)),
            lambda x, y: (x[0] + y[0], lax.max(x[1], y[1])),
            (3,),
            (1,),
            "SAME",
        ),
        [(7,)],
    ),
    "reduce_window max": (
        lambda lax, x: lax.reduce_window(x, _of(x, -np.inf), lax.max, (3,), (1,), "SAME_LOWER"),
        [(7,)],
    ),
    "sort": (lambda lax, x: lax.sort(x, 0), [(5, 3)]),
    "sort awkward": (lambda lax, x: lax.sort(x), [ROWS]),
    "sort several": (lambda lax, x, y: lax.sort((x, y, x * y), 0, num_keys=2), [ROWS.T, (4, 3)]),
    "sort_key_val": (lambda lax, x, y: lax.sort_key_val(x, y), [(5,), (5,)]),
    "top_k": (lambda lax, x: lax.top_k(x, 2, axis=0), [(5, 3)]),
    "top_k awkward": (lambda lax, x: lax.top_k(x, 3), [ROWS]),
    "approx_max_k": (lambda lax, x: lax.approx_max_k(x, 2), [(3, 8)]),
    "approx_min_k": (lambda lax, x: lax.approx_min_k(x, 2, 0), [(8, 3)]),
    "igamma": (lambda lax, a, x: lax.igamma(a, x), [POSITIVE, POSITIVE[::-1].copy()]),
    "igammac": (lambda lax, a, x: lax.igammac(a, x), [POSITIVE, POSITIVE[::-1].copy()]),
    "betainc": (
        lambda lax, x: lax.betainc(lax.full_like(x, 1.5), lax.full_like(x, 2.5), x),
        [INSIDE[3:]],
    ),
    "zeta": (lambda lax, q: lax.zeta(lax.full_like(q, 3.5), q), [POSITIVE]),
    "fft": (lambda lax, x: lax.fft(lax.complex(x, x), lax.FftType.FFT, (4, 6)), [(2, 4, 6)]),
    "rfft": (lambda lax, x: lax.fft(x, "RFFT", (6,)), [(4, 6)]),
    "irfft": (lambda lax, x: lax.fft(lax.complex(x, 0 * x), "IRFFT", (5,)), [(4, 3)]),
}
NO_GRADIENTS = {
    "zeta",
    "clamp scalars",
    "reduce_precision",
    "integer_pow 0",
    "round",
    "round even",
    "sort awkward",
    "sort several",
    "top_k awkward",
    "select_n outside",
    "reduce_window start",
    "reduce_window prod",
    "reduce_window function",
    "reduce_window pair",
    "max complex",
    "bitcast back",
    "reduce none",
    "cummax",
    "cummin",
    "irfft",
}


@pytest.mark.parametrize(("name", "dtype"), one_in(5, product(PROGRAMS, FLOATS)))
def test_programs(name, dtype):
    program, shapes = PROGRAMS[name]
    differentiates = name not in NO_GRADIENTS
    check(program, ours, theirs, inputs(shapes, dtype), differentiates=differentiates, scale=16)


def _rows(lax):
    return lax.GatherDimensionNumbers((1,), (0,), (0,))


def _windows(lax):
    return lax.GatherDimensionNumbers((1, 2), (), (0, 1))


def _batched(lax):
    return lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))


PLACES = np.array([[2], [0], [-1], [9]])
CORNERS = np.array([[0, 1], [3, 3], [-1, 0], [4, 0]], np.int32)
GATHERS = {
    "rows": (_rows, PLACES, (1, 3), (5, 3)),
    "windows": (_windows, CORNERS, (2, 2), (5, 4)),
    "batched": (_batched, np.array([[[0]], [[3]], [[9]]]), (1, 1), (3, 4)),
    "none": (_rows, PLACES[:0], (1, 3), (5, 3)),
}


@pytest.mark.parametrize("mode", [None, "fill", "clip"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", GATHERS)
def test_gather(name, dtype, mode):
    numbering, indices, sizes, shape = GATHERS[name]

    def program(lax, x):
        return lax.gather(x, indices, numbering(lax), sizes, mode=mode)

    # Where the mode is a promise that is broken, JAX gives no gradient to what it clamps to.
    check(program, ours, theirs, inputs([shape], dtype), differentiates=mode is not None)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_gather_fills_integers(dtype):
    x = np.arange(15).reshape(5, 3).astype(dtype)
    check(lambda lax, x: lax.gather(x, PLACES, _rows(lax), (1, 3)), ours, theirs, [x])
    if dtype != "bool":
        check(
            lambda lax, x: lax.gather(x, PLACES, _rows(lax), (1, 3), mode="fill", fill_value=7),
            ours,
            theirs,
            [x],
        )


SCATTERS = {
    "rows": (((1,), (0,), (0,)), PLACES, (4, 3), (5, 3)),
    "same rows": (((1,), (0,), (0,)), PLACES[[0, 0, 1, 0]], (4, 3), (5, 3)),
    "windows": (((1, 2), (), (0, 1)), CORNERS, (4, 2, 2), (5, 4)),
    "batched": (((), (1,), (1,), (0,), (0,)), np.array([[[0]], [[3]], [[9]]]), (3, 1), (3, 4)),
}


SCATTER_CASES = [
    (name, function, mode)
    for name in SCATTERS
    for function in "scatter scatter_add scatter_sub scatter_mul".split()
    for mode in (None, "drop", "clip")
    # Which of several updates of a place stays is not defined.
    if function != "scatter" or (name != "same rows" and mode != "clip")
]


@pytest.mark.parametrize(("name", "function", "mode"), SCATTER_CASES)
def test_scatter(name, function, mode):
    axes, indices, new, shape = SCATTERS[name]
    is_unique = name != "same rows" and mode != "clip"

    def program(lax, x, updates):
        numbering = lax.ScatterDimensionNumbers(*axes)
        return getattr(lax, function)(
            x, indices, updates, numbering, mode=mode, unique_indices=is_unique
        )

    # JAX refuses the gradient of products where indices may repeat.
    differentiates = function != "scatter_mul" or is_unique
    check(program, ours, theirs, inputs([shape, new], "float64"), differentiates=differentiates)


@pytest.mark.parametrize("function", ["scatter_max", "scatter_min"])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatter_of_extremes(name, function):
    axes, indices, new, shape = SCATTERS[name]

    def program(lax, x, updates):
        return getattr(lax, function)(x, indices, updates, lax.ScatterDimensionNumbers(*axes))

    check(program, ours, theirs, inputs([shape, new], "float32"), differentiates=False)


@pytest.mark.parametrize("mode", [None, "drop", "clip"])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatter_apply(name, mode):
    axes, indices, shape_of_updates, shape = SCATTERS[name]

    def program(lax, x):
        return lax.scatter_apply(
            x,
            indices,
            lambda element: 3 * element + 1,
            lax.ScatterDimensionNumbers(*axes),
            update_shape=shape_of_updates,
            mode=mode,
        )

    check(program, ours, theirs, inputs([shape], "float64"), differentiates=False)


def _positive(x):
    return x @ x.mT + 4 * np.eye(x.shape[-1], dtype=x.dtype)


def _triangle(lax, x):
    n = x.shape[-1]
    return x * np.tri(n, dtype=x.dtype) + 3 * np.eye(n, dtype=x.dtype)


def _reflectors(lax, x):
    """Take any vectors, and the scales with which they are reflections."""
    return x, 2 / (1 + (np.tril(np.ones((5, 4), x.dtype), -1) * x * x).sum(axis=-2))


NO_DERIVATIVE_IN_JAX = {
    "householder_product",
    "ormqr",
    "ormqr from the right",
    "qr with pivots",
    "hessenberg",
    "schur",
    "schur form",
    "symmetric_product",
    "tridiagonal",
    "tridiagonal above",
}
MATRICES = {
    "cholesky": (lambda lax, x: lax.linalg.cholesky(_positive(x)), [(2, 4, 4)]),
    "cholesky mean": (lambda lax, x: lax.linalg.cholesky(_positive(x) + x * 0.1), [(4, 4)]),
    "eigh": (lambda lax, x: abs(lax.linalg.eigh(x + x.mT)[0]), [(4, 4)]),
    "eigh values": (lambda lax, x: lax.linalg.eigh(x)[1], [(2, 4, 4)]),
    "lu": (lambda lax, x: lax.linalg.lu(x), [(2, 4, 3)]),
    "permutation": (
        lambda lax, x: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(x)[1], 5),
        [(2, 5, 5)],
    ),
    "qr": (lambda lax, x: [abs(y) for y in lax.linalg.qr(x, full_matrices=False)], [(2, 5, 3)]),
    "qr with pivots": (
        lambda lax, x: lax.linalg.qr(x, pivoting=True, full_matrices=False),
        [(2, 5, 3)],
    ),
    "hessenberg": (lambda lax, x: lax.linalg.hessenberg(x), [(2, 4, 4)]),
    "schur": (lambda lax, x: lax.linalg.schur(x), [(2, 4, 4)]),
    "schur form": (lambda lax, x: lax.linalg.schur(x, compute_schur_vectors=False), [(4, 4)]),
    "tridiagonal": (lambda lax, x: lax.linalg.tridiagonal(x), [(2, 4, 4)]),
    "tridiagonal above": (lambda lax, x: lax.linalg.tridiagonal(x, lower=False), [(4, 4)]),
    "householder_product": (
        lambda lax, x: lax.linalg.householder_product(*_reflectors(lax, x)),
        [(2, 5, 4)],
    ),
    "ormqr": (
        lambda lax, x, c: lax.linalg.ormqr(*_reflectors(lax, x), c, transpose=True),
        [(5, 4), (5, 2)],
    ),
    "ormqr from the right": (
        lambda lax, x, c: lax.linalg.ormqr(*_reflectors(lax, x), c, left=False),
        [(2, 5, 4), (2, 3, 5)],
    ),
    "tridiagonal_solve": (
        lambda lax, d, b: lax.linalg.tridiagonal_solve(d, 3 * d * d, d * d * d, b),
        [(2, 5), (2, 5, 3)],
    ),
    "tridiagonal_solve with exchanges": (
        lambda lax, d, b: lax.linalg.tridiagonal_solve(3 * d, d * d, d, b),
        [(6,), (6, 2)],
    ),
    "svd values": (lambda lax, x: lax.linalg.svd(x, compute_uv=False), [(2, 5, 3)]),
    "svd": (
        lambda lax, x: [abs(y) for y in lax.linalg.svd(x, full_matrices=False)],
        [(5, 3)],
    ),
    "triangular_solve": (
        lambda lax, a, b: lax.linalg.triangular_solve(_triangle(lax, a), b, lower=True),
        [(2, 3, 3), (2, 4, 3)],
    ),
    "triangular_solve left": (
        lambda lax, a, b: lax.linalg.triangular_solve(
            _triangle(lax, a), b, left_side=True, lower=True, transpose_a=True, unit_diagonal=True
        ),
        [(3, 3), (3, 4)],
    ),
    "symmetric_product": (
        lambda lax, a, c: lax.linalg.symmetric_product(
            a, c + c.mT, alpha=2.0, beta=0.5, symmetrize_output=True
        ),
        [(3, 2), (3, 3)],
    ),
}


@pytest.mark.parametrize(("name", "dtype"), one_in(3, product(MATRICES, FLOATS)))
def test_linear_algebra(name, dtype):
    program, shapes = MATRICES[name]
    differentiates = name not in NO_DERIVATIVE_IN_JAX
    check(program, ours, theirs, inputs(shapes, dtype), differentiates=differentiates, scale=64)


def test_what_has_no_factor_is_nan():
    x = np.array([[1.0, 2.0], [2.0, 1.0]])
    check(lambda lax, x: lax.linalg.cholesky(x), ours, theirs, [x], differentiates=False)


CONTROL = {
    "scan": (
        lambda lax, x: lax.scan(lambda c, y: (c * y + 1, c), x[0], x, reverse=True, unroll=2),
        [(5, 3)],
    ),
    "cond": (lambda lax, x: lax.cond(x[0] > 0, lambda x: x * x, lambda x: 3 * x, x), [(4,)]),
    "switch": (lambda lax, x: lax.switch(7, [lambda x: x, lambda x: x * x], x), [(4,)]),
    "fori_loop": (lambda lax, x: lax.fori_loop(0, 5, lambda i, x: x * x[::-1] + i, x), [(4,)]),
    "while_loop": (
        lambda lax, x: lax.while_loop(lambda x: (x < 9).all(), lambda x: 2 * x, abs(x) + 1),
        [(4,)],
    ),
    "map": (lambda lax, x: lax.map(lambda x: x * x.sum(), x, batch_size=2), [(5, 3)]),
    "associative_scan": (
        lambda lax, x: lax.associative_scan(lax.mul, x, reverse=True, axis=1),
        [(2, 5)],
    ),
    "stop_gradient": (lambda lax, x: x * lax.stop_gradient(x), [(4,)]),
}


@pytest.mark.parametrize(("name", "dtype"), one_in(3, product(CONTROL, FLOATS)))
def test_control_flow(name, dtype):
    program, shapes = CONTROL[name]
    differentiates = name != "while_loop"
    check(program, ours, theirs, inputs(shapes, dtype), differentiates=differentiates, scale=64)


def _newton(lax, f, x, slope):
    return lax.while_loop(lambda x: abs(f(x)) > 1e-13, lambda x: x - f(x) / slope(x), x)


def _cube_root(lax, a):
    return lax.custom_root(
        lambda x: x * x * x - a,
        1.0 + 0 * a,
        lambda f, x: _newton(lax, f, x, lambda x: 3 * x * x),
        lambda g, y: y / g(1.0),
    )


def test_custom_root():
    check(_cube_root, ours, theirs, [np.array(5.0)], scale=100)
    import tracer

    second = tracer.grad(tracer.grad(lambda a: _cube_root(ours, a)))(5.0)
    wanted = jax.grad(jax.grad(lambda a: _cube_root(theirs, a)))(5.0)
    np.testing.assert_allclose(float(second), float(wanted), rtol=1e-9)
    _, forward = tracer.jvp(lambda a: _cube_root(ours, a), (5.0,), (1.0,))
    np.testing.assert_allclose(float(forward), 5 ** (-2 / 3) / 3, rtol=1e-9)


def test_custom_root_with_more():
    def program(lax, a):
        root, more = lax.custom_root(
            lambda x: {"r": x["r"] * x["r"] - a},
            {"r": a},
            lambda f, x: ({"r": a**0.5}, {"steps": a * 0 + 3}),
            lambda g, y: {"r": y["r"] / g({"r": 1.0})["r"]},
            has_aux=True,
        )
        return root["r"], more["steps"]

    check(program, ours, theirs, [np.array(5.0)])


def _system(lax, a, b, symmetric, module):
    def solve(f, b):
        # Richardson's iteration, in a loop that reverse mode cannot go through.
        step = lambda state: (state[0] + 0.1 * (b - f(state[0])), state[1] + 1)
        return lax.while_loop(lambda state: state[1] < 400, step, (b * 0, 0))[0]

    matrix = 3 * np.eye(3) + (a + a.mT if symmetric else a)
    return lax.custom_linear_solve(
        lambda x: matrix @ x, b, solve, None if symmetric else solve, symmetric=symmetric
    )


@pytest.mark.parametrize("symmetric", [False, True])
def test_custom_linear_solve(symmetric):
    import tracer
    import tracer.numpy as tnp

    a, b = inputs([(3, 3), (3,)], "float64")
    a = 0.3 * a
    check(lambda lax, a, b: _system(lax, a, b, symmetric, None), ours, theirs, [a, b], scale=1000)
    one = lambda a: _system(ours, a, tnp.asarray(b), symmetric, None).sum()
    other = lambda a: _system(theirs, a, jax.numpy.asarray(b), symmetric, None).sum()
    _, found = tracer.jvp(one, (a,), (a,))
    _, wanted = jax.jvp(other, (a,), (a,))
    np.testing.assert_allclose(float(found), float(wanted), rtol=1e-9)
    second = tracer.grad(lambda t: tracer.grad(lambda s: one(s * a))(t))(1.0)
    wanted = jax.grad(lambda t: jax.grad(lambda s: other(s * a))(t))(1.0)
    np.testing.assert_allclose(float(second), float(wanted), rtol=1e-8)


def test_names_and_defaults_are_jaxs():
    import inspect

    for name in ours.__all__:
        assert hasattr(theirs, name), name
        function = getattr(ours, name)
        if not inspect.isfunction(function) or name in OTHER_NAMES:
            continue
        found = _defaults(function)
        wanted = _defaults(getattr(theirs, name))
        assert list(found) == [key for key in wanted if key in found], name
        for key, default in found.items():
            assert str(default) == str(wanted[key]) or key in OTHER_DEFAULTS.get(name, ()), (
                name,
                key,
            )


OTHER_NAMES = {"nextafter", "random_gamma_grad"}  # x1, x2 there, and *args
OTHER_DEFAULTS = {
    # JAX has a marker of its own, or requires what has a default here.
    "round": ("rounding_method",),
    "conv_general_dilated": ("window_strides", "padding"),
    "fori_loop": ("unroll",),
    "rng_bit_generator": ("algorithm",),
}


def _defaults(function):
    import inspect

    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is not p.VAR_POSITIONAL}
