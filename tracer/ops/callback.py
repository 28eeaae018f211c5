"""Calls of Python functions while the program runs.

The functions are given NumPy arrays of their own: copies, which they may keep and change. Source of
the meaning, and of what a batch does: `jax.debug.callback`, `jax.pure_callback`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracer.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tracer.ir import Batching, Cost, HostFunction, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.batch import spread_leading
from tracer.ops.rules import as_tuple, moved_bytes, whole_axes

Array = np.ndarray[Any, Any]
Flags = tuple[tuple[bool, ...], ...]

_TOKEN = ShapeDtype((), np.int32)
_NO_TOKEN = np.int32(0)


def _elements(
    arrays: Sequence[Array], batch: tuple[int, ...], batched: Flags
) -> Iterator[list[Array]]:
    """Yield the arrays of each element of the batch, as copies.

    `batch` are the sizes of the axes that vmap has put in front, the outermost first; `batched`
    tells for each of them which arrays have it.
    """
    for index in np.ndindex(*batch):
        places = list(zip(index, batched, strict=True))
        yield [
            np.array(array[(*(i for i, flags in places if flags[k]), ...)])
            for k, array in enumerate(arrays)
        ]


def _evaluate_debug(
    *arrays: Array, function: HostFunction, ordered: bool, batch: tuple[int, ...], batched: Flags
) -> Any:
    for element in _elements(arrays, batch, batched):
        function.function(*element)
    return _NO_TOKEN


def _lower_debug(b: Any, types: Types, *operands: Any, **params: Any) -> Any:
    call = partial(_evaluate_debug, **params)

    def run(*arrays: Array) -> tuple[Any, ...]:
        return (call(*arrays),)

    return b.host_call(types, operands, run, has_effect=True, stop=params["function"].stop)


def _batch_debug(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    function: HostFunction,
    ordered: bool,
    batch: tuple[int, ...],
    batched: Flags,
) -> Any:
    if ordered:
        raise ArgumentError(
            f"{function.name} is ordered, and the elements of a batch have no order",
            mend="leave ordered=True out inside of vmap, or use tracer.map instead of vmap",
        )
    token = debug_callback(
        *operands,
        function=function,
        ordered=False,
        batch=(batching.size, *batch),
        batched=(batching.batched, *batched),
    )
    return spread_leading(token, batching.size)


def _copies_cost(operands: Types, results: Types, **_: Any) -> Cost:
    """Count what is read and written, and the copies: the function's arrays, and its results."""
    nbytes = moved_bytes(operands, results)
    return Cost(0, 2 * nbytes, nbytes, packing=nbytes)


debug_callback: Op = Op(
    "debug_callback",
    doc="Calls a Python function for what it does. The result is a number that means nothing. "
    "`ordered`: calls come in the order in which they are written. `batch` and `batched`: axes in "
    "front over whose elements the function is called one by one, and which operands have them.",
    infer=lambda *types, **_: _TOKEN,
    evaluate=_evaluate_debug,
    lower=_lower_debug,
    vjp=NotDifferentiable("its result is no value of the program", zero=True),
    axes=whole_axes,
    cost=_copies_cost,
    pure=False,
    effect=True,
    calls_host=True,
    batch=_batch_debug,
)


def _declared(
    shapes: tuple[tuple[int, ...], ...], dtypes: tuple[np.dtype[Any], ...]
) -> list[ShapeDtype]:
    return [ShapeDtype(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]


def _infer_pure(
    *_: ShapeDtype,
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[np.dtype[Any], ...],
    batch: tuple[int, ...],
    **__: Any,
) -> Types:
    return tuple(type.with_shape((*batch, *type.shape)) for type in _declared(shapes, dtypes))


def _evaluate_pure(
    *arrays: Array,
    function: HostFunction,
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[np.dtype[Any], ...],
    vmap_method: str | None,
    batch: tuple[int, ...],
    batched: Flags,
) -> tuple[Array, ...]:
    types = _declared(shapes, dtypes)
    found = [np.empty((*batch, *type.shape), type.dtype) for type in types]
    elements = _elements(arrays, batch, batched)
    for index, element in zip(np.ndindex(*batch), elements, strict=True):
        results = function.function(*element)
        for place, (result, type) in enumerate(zip(results, types, strict=True)):
            found[place][index] = _checked(function, place, len(types), result, type)
    return tuple(found)


def _checked(
    function: HostFunction, place: int, count: int, result: Any, type: ShapeDtype
) -> Array:
    """Return a result as an array of its declared type; Python's numbers take the dtype."""
    array = np.asarray(result, type.dtype if _fits(result, type.dtype) else None)
    which = "" if count == 1 else f" as result {place}"
    what = f"{function.name} returned {array.dtype}{list(array.shape)}{which}, not {type}"
    mend = "return arrays of exactly the shapes and dtypes that result_shape_dtypes says"
    if array.dtype != type.dtype:
        raise DTypeError(what, mend=mend)
    if array.shape != type.shape:
        raise ShapeError(what, mend=mend)
    return array


def _fits(result: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether a result is one of Python's numbers, and an array of the dtype can hold it."""
    if result.__class__ not in (bool, int, float, complex):
        return False
    if dtype.kind == "V":  # NumPy does not know how wide the small floats are
        return result.__class__ in (int, float)
    return np.result_type(dtype, result) == dtype


def _lower_pure(b: Any, types: Types, *operands: Any, **params: Any) -> Any:
    call = partial(_evaluate_pure, **params)
    return b.host_call(types, operands, call, has_effect=False)


def _batch_pure(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    function: HostFunction,
    shapes: tuple[tuple[int, ...], ...],
    vmap_method: str | None,
    batch: tuple[int, ...],
    batched: Flags,
    **params: Any,
) -> tuple[Value, ...]:
    size = batching.size
    if vmap_method is None:
        raise UnsupportedError(
            f"{function.name} does not say how it is called for a batch (vmap)",
            mend="give pure_callback vmap_method='sequential' (once for each element), "
            "'expand_dims' or 'broadcast_all' (once, with one more axis in front)",
        )
    if vmap_method == "sequential":
        batch, batched = (size, *batch), (batching.batched, *batched)
    else:
        # Axes of one element stand for those that an operand does not have.
        count = 1 if vmap_method == "expand_dims" else size
        operands = tuple(
            x if flag else spread_leading(x, count)
            for x, flag in zip(operands, batching.batched, strict=True)
        )
        shapes = tuple((size, *shape) for shape in shapes)
    found = pure_callback(
        *operands,
        function=function,
        shapes=shapes,
        vmap_method=vmap_method,
        batch=batch,
        batched=batched,
        **params,
    )
    return as_tuple(found)


pure_callback: Op = Op(
    "pure_callback",
    doc="The results of a Python function that depends on its operands alone, of the declared "
    "`shapes` and `dtypes`. `vmap_method`: what becomes of it in a batch; `batch` and `batched`: "
    "axes in front over whose elements the function is called one by one, and which operands "
    "have them.",
    infer=_infer_pure,
    evaluate=_evaluate_pure,
    lower=_lower_pure,
    vjp=NotDifferentiable(
        "it calls a Python function, whose derivative is not known",
        mend="give the derivative with tracer.custom_vjp or tracer.custom_jvp, or wrap its "
        "operands in tracer.stop_gradient",
    ),
    axes=whole_axes,
    cost=_copies_cost,
    pure=False,
    calls_host=True,
    batch=_batch_pure,
)

__all__ = ["debug_callback", "pure_callback"]
