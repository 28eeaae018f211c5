"""Blocks of arrays in storage, read while the program runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import (
    AxisRule,
    Batching,
    Chunk,
    Cost,
    Label,
    NotDifferentiable,
    Op,
    ShapeDtype,
    Value,
    as_dtype,
    storage,
)
from tracer.ir.host import Stop
from tracer.ir.op import Types
from tracer.ops import helpers

TIMES_MEMORY = 32
"""Times as long as reading memory; by this the planner prefers few passes over a file."""
_LEAST_RUN = 1 << 20
"""Bytes side by side from which on it is no loss to read a part of them."""
PLACE = np.dtype(np.int64)
"""Of the places where blocks begin: files have axes of more than 2**31 elements."""
_COUNT = ShapeDtype((), np.int64)
Shape = tuple[int, ...]


def _infer(
    handle: ShapeDtype, *starts: ShapeDtype, shape: Shape, whole: Shape, dtype: np.dtype[Any]
) -> ShapeDtype:
    return ShapeDtype(shape, as_dtype(dtype))


class _Stopped(Exception):
    """The program was asked to end."""


class _Reader:
    """A place in a program that reads an array, block after block, until it is stopped."""

    def __init__(self, shape: Shape, dtype: np.dtype[Any], devices: int = 1) -> None:
        self.shape, self.dtype, self.devices = shape, dtype, devices
        self.stop = Stop()

    def __call__(self, handle: Any, *starts: Any) -> tuple[np.ndarray[Any, Any]]:
        if self.stop.is_set:
            raise _Stopped
        places = tuple(int(start) for start in starts) or (0,) * len(self.shape)
        found = storage.find(int(handle)).read(places, self.shape, self)
        return (found.astype(self.dtype, copy=False),)  # Checks compute in more digits.


def _evaluate(*arrays: Any, shape: Shape, whole: Shape, dtype: np.dtype[Any]) -> Any:
    return _Reader(shape, dtype)(*arrays)[0]


def _lower(b: Any, types: Types, *operands: Any, shape: Shape, **_: Any) -> Any:
    reader = _Reader(shape, types[0].dtype, b.devices)
    return b.host_call(types, operands, reader, has_effect=False, stop=reader.stop)


def kept_axes(whole: Shape, dtype: np.dtype[Any]) -> frozenset[Label]:
    """Return the axes that are not cut: the inner ones of short rows.

    Elements are stored by rows: a part of each of many short rows is read row by row.
    """
    runs = [dtype.itemsize * math.prod(whole[axis:]) for axis in range(len(whole))]
    return frozenset(
        axis
        for axis, run in enumerate(runs)
        if run < _LEAST_RUN and any(size > 1 for size in whole[:axis])
    )


def _axes(operands: Types, results: Types, *, whole: Shape, **_: Any) -> AxisRule:
    axes = tuple(range(len(whole)))
    kept = kept_axes(whole, results[0].dtype)
    return AxisRule(((),) * len(operands), (axes,), whole=kept)


def _moved(starts: Sequence[Value], chunk: Chunk, axis: int, count: int) -> list[Value]:
    """Return where a slice of a block begins, one place for each axis."""
    places = list(starts) or [helpers.scalar(0, PLACE)] * count
    places[axis] = ops.add(places[axis], helpers.convert(chunk.start, PLACE))
    return places


def _slice(
    operands: tuple[Value, ...], chunk: Chunk, *, shape: Shape, whole: Shape, dtype: np.dtype[Any]
) -> Any:
    handle, *starts = operands
    axis = chunk.result_axis
    places = _moved(starts, chunk, axis, len(shape))
    shape = (*shape[:axis], chunk.size, *shape[axis + 1 :])
    return ops.read_stored(handle, *places, shape=shape, whole=whole, dtype=dtype)


def _cost(operands: Types, results: Types, **_: Any) -> Cost:
    """Count the block, once more while it is copied to the program, and the next, read ahead."""
    nbytes = results[0].nbytes
    return Cost(0, TIMES_MEMORY * nbytes, 2 * nbytes, packing=2 * nbytes)


def _each(
    op: Callable[..., Value], operands: Sequence[Value], batching: Batching, type: ShapeDtype
) -> Value:
    """Read or write for one element of the batch after the other, each with a result of a type."""
    found = []
    for i in range(batching.size):
        pairs = zip(operands, batching.batched, strict=True)
        result = op(*(_element(x, i) if flag else x for x, flag in pairs))
        found.append(helpers.reshape(result, (1, *type.shape)))
    if not found:
        return helpers.full(0, type.with_shape((0, *type.shape)))
    return ops.concatenate(*found, dimension=0)  # type: ignore[no-any-return]


def _element(x: Value, i: int) -> Value:
    rest = x.shape[1:]
    start, limit, strides = (i, *(0,) * len(rest)), (i + 1, *rest), (1,) * (len(rest) + 1)
    return helpers.reshape(ops.slice(x, start=start, limit=limit, strides=strides), rest)


def _batch_read(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    shape: Shape,
    whole: Shape,
    dtype: np.dtype[Any],
) -> Value:
    read = partial(ops.read_stored, shape=shape, whole=whole, dtype=dtype)
    return _each(read, operands, batching, ShapeDtype(shape, dtype))


def _batch_write(operands: tuple[Value, ...], batching: Batching, *, whole: Shape) -> Value:
    return _each(partial(ops.write_stored, whole=whole), operands, batching, _COUNT)


read_stored: Op = Op(
    "read_stored",
    doc="A block of an array in storage. The first operand is its number, the others are the "
    "places from which on it is read, one for each axis; without them all of it is read.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=NotDifferentiable("what is stored depends on no other value", zero=True),
    axes=_axes,
    cost=_cost,
    slice=_slice,
    calls_host=True,
    batch=_batch_read,
)


class _RowReader:
    """A place in a program that reads rows of an array, until it is stopped."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self.stop = dtype, Stop()

    def __call__(self, handle: Any, rows: Any) -> tuple[np.ndarray[Any, Any]]:
        if self.stop.is_set:
            raise _Stopped
        found = storage.find(int(handle)).rows(np.asarray(rows))
        return (found.astype(self.dtype, copy=False),)


def _lower_rows(b: Any, types: Types, *operands: Any, dtype: np.dtype[Any], **_: Any) -> Any:
    reader = _RowReader(dtype)
    return b.host_call(types, operands, reader, has_effect=False, stop=reader.stop)


def _rows_axes(operands: Types, results: Types, **_: Any) -> AxisRule:
    labels = tuple(range(results[0].ndim))
    places = labels[: operands[1].ndim]
    return AxisRule(((), places), (labels,), whole=frozenset(labels[len(places) :]))


def _rows_cost(operands: Types, results: Types, *, whole: Shape, dtype: np.dtype[Any]) -> Cost:
    """Count a page for each row, the rows, and what is read at once on the way to them."""
    row = dtype.itemsize * math.prod(whole[1:])
    nbytes = results[0].nbytes
    read = operands[1].size * max(row, storage.PAGE)
    buffers = nbytes + min(read, max(row, storage.AT_ONCE))
    return Cost(0, TIMES_MEMORY * read, buffers, packing=buffers)


def _batch_rows(
    operands: tuple[Value, ...], batching: Batching, *, whole: Shape, dtype: np.dtype[Any]
) -> Value:
    handle, rows = operands
    if not batching.batched[0]:  # The axis of the batch is one more axis of the indices.
        return ops.read_stored_rows(handle, rows, whole=whole, dtype=dtype)  # type: ignore[no-any-return]
    places = rows.shape[int(batching.batched[1]) :]
    read = partial(ops.read_stored_rows, whole=whole, dtype=dtype)
    return _each(read, operands, batching, ShapeDtype((*places, *whole[1:]), dtype))


read_stored_rows: Op = Op(
    "read_stored_rows",
    doc="Rows of an array in storage, its parts along the first axis. The first operand is its "
    "number, the second says which rows; those outside are the first or last one, as `gather` has "
    "it.",
    infer=lambda handle, rows, *, whole, dtype: ShapeDtype(
        (*rows.shape, *whole[1:]), as_dtype(dtype)
    ),
    evaluate=lambda *arrays, whole, dtype: _RowReader(dtype)(*arrays)[0],
    lower=_lower_rows,
    vjp=NotDifferentiable("what is stored depends on no other value", zero=True),
    axes=_rows_axes,
    cost=_rows_cost,
    calls_host=True,
    batch=_batch_rows,
)
READS = (read_stored, read_stored_rows)
"""The ops that read arrays in storage: the number of one is the first operand."""


class _Writer:
    """A place in a program that writes to an array, block after block, until it is stopped."""

    def __init__(self) -> None:
        self.stop = Stop()

    def __call__(self, handle: Any, block: Any, *starts: Any) -> tuple[np.ndarray[Any, Any]]:
        if self.stop.is_set:
            raise _Stopped
        places = tuple(int(start) for start in starts) or (0,) * block.ndim
        storage.find(int(handle)).write(places, block)
        return (np.array(block.size, _COUNT.dtype),)


def _write_axes(operands: Types, results: Types, *, whole: Shape) -> AxisRule:
    axes, kept = tuple(range(len(whole))), kept_axes(whole, operands[1].dtype)
    added: dict[Label, str] = {axis: "add" for axis in axes if axis not in kept}
    starts = ((),) * (len(operands) - 2)
    return AxisRule(((), axes, *starts), ((),), reduced=added, whole=kept)


def _write_slice(operands: tuple[Value, ...], chunk: Chunk, *, whole: Shape) -> Any:
    handle, block, *starts = operands
    places = _moved(starts, chunk, chunk.rule.operands[1].index(chunk.label), len(whole))
    return ops.write_stored(handle, block, *places, whole=whole)


def _lower_write(b: Any, types: Types, *operands: Any, **_: Any) -> Any:
    writer = _Writer()
    return b.host_call(types, operands, writer, has_effect=False, stop=writer.stop)


write_stored: Op = Op(
    "write_stored",
    doc="Writes a block to an array in storage, from the places on that the last operands say, one "
    "for each axis. The first operand is the array's number. The result is how many elements were "
    "written: once all are, the size of the array.",
    infer=lambda *operands, **_: _COUNT,
    evaluate=lambda *arrays, **_: _Writer()(*arrays)[0],
    lower=_lower_write,
    vjp=NotDifferentiable("its result is no value of the program", zero=True),
    axes=_write_axes,
    cost=lambda operands, results, **_: Cost(
        0, TIMES_MEMORY * operands[1].nbytes, 2 * operands[1].nbytes, packing=2 * operands[1].nbytes
    ),
    slice=_write_slice,
    calls_host=True,
    batch=_batch_write,
)

ACCESSES = (*READS, write_stored)
"""The ops that read or write them."""

__all__ = [
    "ACCESSES",
    "PLACE",
    "READS",
    "TIMES_MEMORY",
    "kept_axes",
    "read_stored",
    "read_stored_rows",
    "write_stored",
]
