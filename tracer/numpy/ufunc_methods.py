"""The methods of NumPy's ufuncs: `add.reduce`, `.accumulate`, `.reduceat`, `.outer`, `.at`.

The functions of this package are plain functions. Those of two arguments have these methods as
attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    broadcast,
    convert,
    normalize_axis,
    reduced_axes,
    reshape,
    scalar,
)
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Op, as_dtype
from tracer.numpy import arithmetic, elementwise, integers, logic
from tracer.numpy.associative import accumulated, reduce_by_halves
from tracer.numpy.cumulative import cumprod, cumsum
from tracer.numpy.elementwise import fmax, fmin
from tracer.numpy.extremes import max, min
from tracer.numpy.reduceat import all_bits, converted, reduce_runs
from tracer.numpy.reductions import (
    Axis,
    all,
    any,
    finish,
    operands_with,
    prod,
    refuse_out,
    start_value,
    sum,
)
from tracer.numpy.ufunc import Binary, is_nonzero, select
from tracer.numpy.ufunc_folds import (
    Along,
    Fold,
    Update,
    reduction,
    running,
    runs,
    update_in_turn,
)

Method = Callable[..., Any]


_OF_REDUCE = "Combine all elements along axes, the first by default."
_REDUCEAT = """Combine the elements of runs of an axis.

Run i is `array[indices[i] : indices[i + 1]]`, the last one to the end of the axis. Where that has
no elements, since the next index is not larger, it is `array[indices[i]]` alone.

Parameters
----------
array : array_like
    An array with an axis.
indices : array_like of int, one axis
    Where the runs begin. None is negative.
axis : int
    The axis.
dtype : dtype, optional
    Of the result; chosen as by `{name}.reduce`.
out : None
    Refused: arrays are not written in place.

Returns
-------
Array
    One element for each index in place of the axis. Traced indices out of bounds give NaN, the
    smallest signed or the largest unsigned integer, True, as `take`.

Raises
------
ArrayIndexError
    An index whose value is known is out of bounds.
ArgumentError
    `array` has no axis, or `axis` is not one axis.
DTypeError, ShapeError
    `indices` is no vector of integers.

Notes
-----
Known indices take time and memory in proportion to the elements. Traced ones, and known runs that
overlap much, take them to the elements times the indices; a memory limit has that in slices.

See Also
--------
numpy.ufunc.reduceat

Examples
--------
>>> import tracer.numpy as tnp
>>> tnp.add.reduceat(tnp.arange(8), [0, 4, 1, 5, 2, 6, 3, 7])
Array([ 6,  4, 10,  5, 14,  6, 18,  7])
"""


def _reduction(name: str, over_axes: Method, *, takes_dtype: bool, has_initial: bool) -> Method:
    def reduce(
        array: ArrayLike,
        axis: Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: Any = True,
    ) -> Array:
        refuse_out(out)
        x = as_array(array)
        options: dict[str, Any] = {"keepdims": keepdims}
        if takes_dtype:
            options["dtype"] = dtype
        elif dtype is not None:
            x = _as(name, x, dtype, is_logical=not has_initial)
        if has_initial:
            options["initial"] = initial
        elif initial is not None:
            raise ArgumentError(
                f"{name}.reduce does not take initial", mend=f"write {name}(initial, result)"
            )
        if where is not True:
            options["where"] = where
        return over_axes(x, axis, **options)  # type: ignore[no-any-return]

    return _documented(reduce, name, _OF_REDUCE)


def _running(name: str, along: Along) -> Method:
    def accumulate(array: ArrayLike, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        refuse_out(out)
        x = as_array(array)
        if not x.ndim:
            raise ArgumentError(f"{name}.accumulate of a 0-d array", mend="give an array with axes")
        return along(x, normalize_axis(axis, x.ndim), dtype)

    return _documented(accumulate, name, "Combine the elements up to each one along an axis.")


def _runs(name: str, over_axes: Method, *, takes_dtype: bool, has_initial: bool) -> Method:
    def over_axis(x: Array, axis: int) -> Array:
        return over_axes(x, axis, dtype=x.dtype) if takes_dtype else over_axes(x, axis)  # type: ignore[no-any-return]

    def reduceat(
        array: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Array:
        refuse_out(out)
        x = as_array(array)
        if takes_dtype:
            x = converted(x, dtype)
        else:
            x = _as(name, x, dtype, is_logical=not has_initial)
        return reduce_runs(name, over_axis, x, indices, axis, x.dtype)

    return _documented_runs(reduceat, name)


def _documented_runs(reduceat: Method, name: str) -> Method:
    reduceat.__qualname__ = f"{name}.reduceat"
    reduceat.__doc__ = _REDUCEAT.format(name=name)
    return reduceat


def _outer(name: str, function: Binary) -> Method:
    def outer(A: ArrayLike, B: ArrayLike, /) -> Array:  # noqa: N803 - NumPy's names
        x, y = as_array(A), as_array(B)
        return function(reshape(x, (*x.shape, *(1,) * y.ndim)), y)

    return _documented(outer, name, "Combine each element of one array with each of another.")


def _at(name: str, updated: Update) -> Method:
    def at(a: ArrayLike, indices: Any, b: ArrayLike, /) -> None:
        if not isinstance(a, Array):
            raise DTypeError(
                f"{name}.at changes an array of tracer, not a {type(a).__name__}",
                mend=f"use numpy.{name}.at, or a = tracer.numpy.array(a) first",
            )
        target = as_array(a)
        target[...] = updated(target, indices, b)

    return _documented(at, name, "Combine numbers with parts of an array, which then holds them.")


def _documented(method: Any, name: str, summary: str) -> Method:
    method.__qualname__ = f"{name}.{method.__name__}"
    method.__doc__ = f"{summary}\n\nSee Also\n--------\nnumpy.ufunc.{method.__name__}\n"
    return method  # type: ignore[no-any-return]


def _as(name: str, x: Array, dtype: Any, *, is_logical: bool) -> Array:
    wanted = x.dtype if dtype is None else as_dtype(dtype)
    if not is_logical:
        return convert(x, wanted)
    if dtype is not None and wanted.kind != "b":
        raise DTypeError(
            f"{name} gives truth values, not {wanted}", mend="use astype on the result"
        )
    return _truths(x)


def _running_extreme(name: str, op: Op, *, is_logical: bool = False) -> Along:
    def along(x: Array, axis: int, dtype: Any) -> Array:
        return _accumulate(_as(name, x, dtype, is_logical=is_logical), op=op, axis=axis)

    return along


@compound
def _truths(x: Array) -> Array:
    return is_nonzero(x)


@compound
def _accumulate(x: Array, *, op: Op, axis: int) -> Array:
    if x.dtype.kind != "b":
        return apply(op, x, axis=axis, reverse=False)
    numbers = apply(op, convert(x, as_dtype("int8")), axis=axis, reverse=False)
    return convert(numbers, x.dtype)


def _require_bits(name: str, x: Array) -> None:
    if name.startswith("bitwise") and x.dtype.kind not in "biu":
        raise DTypeError(f"{name} is not defined for {x.dtype}", mend="give bools or integers")


def _by_halves(name: str, function: Binary) -> Method:
    """Make the reduction of a function for which there is no op."""
    has_bits = name.startswith("bitwise")

    def over_axes(
        x: Array,
        axis: Axis,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        _require_bits(name, x)
        axes = reduced_axes(axis, x.ndim)
        is_empty = 0 in [x.shape[axis] for axis in axes]
        if initial is None and not has_bits and (is_empty or where is not None):
            raise ArgumentError(
                f"{name}.reduce of no elements, or with where, has no identity",
                mend="give initial=",
            )
        start = start_value(name, 0 if initial is None else initial, x.dtype)
        if initial is None and name == "bitwise_and":
            start = scalar(all_bits(x.dtype), x.dtype)
        _, *mask = operands_with(name, x, where)
        kept = _halved(x, start, *mask, function=function, axes=axes)
        kept = kept if initial is None else function(start, kept)
        return finish(kept, x.shape, axes, as_keepdims(keepdims))

    return over_axes


@compound
def _halved(
    x: Array,
    start: Array,
    where: Array | None = None,
    /,
    *,
    function: Binary,
    axes: tuple[int, ...],
) -> Array:
    if 0 in [x.shape[axis] for axis in axes]:
        rest = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        return broadcast(start, rest)
    if where is not None:
        x = select(broadcast(where, x.shape), x, broadcast(start, x.shape))
    return reduce_by_halves([x], axes, lambda *pair: [function(*pair)])[0]


def _in_pairs(name: str, function: Binary) -> Along:
    def along(x: Array, axis: int, dtype: Any) -> Array:
        x = _as(name, x, dtype, is_logical=False)
        _require_bits(name, x)
        return _accumulated(x, function=function, axis=axis)

    return along


@compound
def _accumulated(x: Array, *, function: Binary, axis: int) -> Array:
    return accumulated([x], axis, lambda *pair: [function(*pair)])[0]


def _attach(
    function: Any,
    over_axes: Method,
    along: Along,
    *,
    update: str | None = None,
    takes_dtype: bool = False,
    has_initial: bool = True,
) -> None:
    name = function.__name__
    function.reduce = _reduction(name, over_axes, takes_dtype=takes_dtype, has_initial=has_initial)
    function.accumulate = _running(name, along)
    function.reduceat = _runs(name, over_axes, takes_dtype=takes_dtype, has_initial=has_initial)
    _attach_pairs(function, update)


def _attach_pairs(function: Any, update: str | None = None) -> None:
    """Give a function the methods that need no axis; `update` is that of `x.at`, if there is."""
    name = function.__name__
    function.outer = _outer(name, function)
    if update is None:
        function.at = _at(name, update_in_turn(function))
    else:
        function.at = _at(name, lambda x, index, values: getattr(x.at[index], update)(values))


def _attach_loops(function: Any, dtype_of: Callable[[Dtype], Dtype], **options: Any) -> None:
    name, fold = function.__name__, Fold(function, dtype_of, **options)
    function.reduce = _documented(reduction(fold), name, _OF_REDUCE)
    function.accumulate = _running(name, running(fold))
    function.reduceat = _documented_runs(runs(fold), name)
    _attach_pairs(function, "subtract" if function is arithmetic.subtract else None)


def _only(
    kinds: str, name: str, rule: Callable[[Dtype], Dtype] = lambda dtype: dtype
) -> Callable[[Dtype], Dtype]:
    """Return the rule of a function for dtypes of these kinds; it refuses the others."""

    def dtype_of(dtype: Dtype) -> Dtype:
        if dtype.kind not in kinds:
            raise DTypeError(
                f"{name}.reduce, accumulate and reduceat are not defined for {dtype}",
                mend="convert it with astype first",
            )
        return rule(dtype)

    return dtype_of


def _counting(dtype: Dtype) -> Dtype:
    return as_dtype("int8") if dtype.kind == "b" else dtype


_REALS, _NUMBERS = "biufV", "iufcV"
"""Kinds of dtypes; V is that of bfloat16 and float8."""


def _attach_all_loops() -> None:
    floats, truth, wide = promotion.float_ufunc_dtype, as_dtype("bool"), as_dtype("float64")
    for function in (elementwise.logaddexp, integers.logaddexp2):
        rule = _only(_REALS, function.__name__, floats)
        _attach_loops(function, rule, identity=-math.inf, by_halves=True)
    hypot = _only(_REALS, "hypot", floats)
    _attach_loops(elementwise.hypot, hypot, identity=0, by_halves=True)
    _attach_loops(logic.logical_xor, lambda dtype: truth, identity=False, by_halves=True)
    _attach_loops(integers.gcd, _only("iu", "gcd"), identity=0)
    _attach_loops(integers.lcm, _only("iu", "lcm"))
    _attach_loops(arithmetic.subtract, _only(_NUMBERS, "subtract"))
    _attach_loops(arithmetic.divide, promotion.division_dtype)
    _attach_loops(arithmetic.power, _counting)
    _attach_loops(arithmetic.float_power, lambda dtype: promotion.promote_types(dtype, wide))
    for function in (arithmetic.floor_divide, arithmetic.remainder, arithmetic.fmod):
        _attach_loops(function, _only(_REALS, function.__name__, _counting))
    for function in (logic.left_shift, logic.right_shift):
        _attach_loops(function, _only("biu", function.__name__, _counting))
    for function in (elementwise.arctan2, elementwise.copysign, elementwise.nextafter):
        _attach_loops(function, _only(_REALS, function.__name__, floats))
    _attach_loops(integers.heaviside, _only(_REALS, "heaviside", floats))
    for function in (logic.equal, logic.not_equal, logic.less, logic.less_equal):
        _attach_loops(function, _only("b", function.__name__))
    for function in (logic.greater, logic.greater_equal):
        _attach_loops(function, _only("b", function.__name__))
    _attach_pairs(integers.ldexp)


def attach() -> None:
    """Give the functions their methods."""
    _attach(arithmetic.add, sum, cumsum, update="add", takes_dtype=True)
    _attach(arithmetic.multiply, prod, cumprod, update="multiply", takes_dtype=True)
    highest, lowest = ops.cumulative_maximum, ops.cumulative_minimum
    _attach(arithmetic.maximum, max, _running_extreme("maximum", highest), update="max")
    _attach(arithmetic.minimum, min, _running_extreme("minimum", lowest), update="min")
    both = _running_extreme("logical_and", lowest, is_logical=True)
    either = _running_extreme("logical_or", highest, is_logical=True)
    _attach(logic.logical_and, all, both, has_initial=False)
    _attach(logic.logical_or, any, either, has_initial=False)
    for function in (logic.bitwise_and, logic.bitwise_or, logic.bitwise_xor, fmax, fmin):
        name = function.__name__
        _attach(function, _by_halves(name, function), _in_pairs(name, function))
    _attach_all_loops()
