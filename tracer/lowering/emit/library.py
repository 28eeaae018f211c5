"""Library calls: LAPACK, cuSOLVER, and algorithms of a device's compiler."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import (
    add,
    compare,
    dynamic_slice,
    dynamic_update_slice,
    reshape,
    splat,
)
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import VERSION, hlo, ir, require_lapack

_INT32 = np.dtype(np.int32)
_FFI_API_VERSION, _TEXT_API_VERSION = 4, 1
_PARALLEL_SINCE = (0, 10)
"""Since then jaxlib spreads a batch over XLA's threads and blocks one of them until all is done:
as many such calls at a time as there are threads wait for ever (seen with two on two threads)."""


def lapack(
    b: ModuleContext,
    routine: str,
    dtype: np.dtype[Any],
    operands: Sequence[Operand],
    results: Sequence[ShapeDtype],
    flags: Mapping[str, str],
    *,
    alias: Mapping[int, int],
    by_columns: bool = True,
) -> tuple[Operand, ...]:
    """Emit a LAPACK call; `alias` maps operands to the results that take their buffers.

    Matrices are handed over by columns, as LAPACK wants them, or, without `by_columns`, as they
    are: by rows.
    """
    call = functools.partial(
        _lapack_call, b, routine, dtype, flags=flags, alias=alias, by_columns=by_columns
    )
    leading = max(x.type.ndim for x in operands) - 2
    if VERSION < _PARALLEL_SINCE or math.prod(operands[0].shape[:leading]) == 1:
        return call(operands, results)
    return _one_by_one(b, call, operands, results, leading, alias)


def _one_by_one(
    b: ModuleContext,
    call: Callable[[Sequence[Operand], Sequence[ShapeDtype]], tuple[Operand, ...]],
    operands: Sequence[Operand],
    results: Sequence[ShapeDtype],
    leading: int,
    alias: Mapping[int, int],
) -> tuple[Operand, ...]:
    """Emit a loop over the leading axes that calls LAPACK for one matrix at a time.

    A result that takes over an operand's buffer starts as that operand and is read from.
    """
    count = math.prod(operands[0].shape[:leading])
    sources = {result: operand for operand, result in alias.items()}
    flat = [_joined(x.type, leading, count) for x in operands]
    joined = [reshape(b, type, x) for type, x in zip(flat, operands, strict=True)]
    made = [_joined(type, leading, count) for type in results]
    start = [
        joined[sources[i]] if i in sources else splat(b, 0, type) for i, type in enumerate(made)
    ]
    rest = [x for i, x in enumerate(joined) if i not in alias]
    counter = ShapeDtype((), _INT32)
    carry = [splat(b, 0, counter), *start, *rest]
    types = [b.tensor_type(x.type) for x in carry]
    loop = hlo.WhileOp(types, [x.raw for x in carry])
    _while_below(b, loop.cond.blocks.append(*types), count)
    body = loop.body.blocks.append(*types)
    with ir.InsertionPoint(body):
        place, *values = [Operand(raw) for raw in body.arguments]
        stored, others = values[: len(made)], iter(values[len(made) :])
        given = [stored[alias[i]] if i in alias else next(others) for i in range(len(flat))]
        found = call(
            [_element(b, x, place) for x in given],
            [type.with_shape(type.shape[1:]) for type in made],
        )
        updated = [
            _with_element(b, x, value, place) for x, value in zip(stored, found, strict=True)
        ]
        following = add(place, splat(b, 1, counter))
        hlo.return_([x.raw for x in (following, *updated, *values[len(made) :])])
    return tuple(
        reshape(b, type, Operand(raw)) for type, raw in zip(results, loop.results[1:], strict=False)
    )


def _while_below(b: ModuleContext, block: Any, count: int) -> None:
    """Emit the condition of a loop whose first value counts."""
    with ir.InsertionPoint(block):
        place = Operand(block.arguments[0])
        hlo.return_([compare(b, "LT", place, splat(b, count, place.type)).raw])


def _element(b: ModuleContext, x: Operand, place: Operand) -> Operand:
    shape = x.shape[1:]
    zero = splat(b, 0, place.type)
    element = dynamic_slice(b, x, [place, *[zero] * len(shape)], (1, *shape))
    return reshape(b, x.type.with_shape(shape), element)


def _with_element(b: ModuleContext, x: Operand, value: Operand, place: Operand) -> Operand:
    zero = splat(b, 0, place.type)
    update = reshape(b, x.type.with_shape((1, *x.shape[1:])), value)
    return dynamic_update_slice(b, x, update, [place, *[zero] * (len(x.shape) - 1)])


def _lapack_call(
    b: ModuleContext,
    routine: str,
    dtype: np.dtype[Any],
    operands: Sequence[Operand],
    results: Sequence[ShapeDtype],
    *,
    flags: Mapping[str, str],
    alias: Mapping[int, int],
    by_columns: bool,
) -> tuple[Operand, ...]:
    byte = ir.IntegerType.get_unsigned(8)
    return library_call(
        b,
        require_lapack()(routine, dtype),
        operands,
        results,
        {name: ir.IntegerAttr.get(byte, ord(flag)) for name, flag in flags.items()},
        alias=alias,
        by_columns=by_columns,
    )


def library_call(
    b: ModuleContext,
    target: str,
    operands: Sequence[Operand],
    results: Sequence[ShapeDtype],
    attributes: Mapping[str, Any],
    *,
    alias: Mapping[int, int],
    by_columns: bool = True,
) -> tuple[Operand, ...]:
    """Emit the call of a library's routine that XLA knows by the name `target`.

    Matrices are arrays of as many axes as the operand with the most; `alias` maps operands to
    the results that take their buffers.
    """
    rank = max(x.type.ndim for x in operands)
    op = hlo.CustomCallOp(
        [b.tensor_type(type) for type in results],
        [x.raw for x in operands],
        call_target_name=ir.StringAttr.get(target),
        has_side_effect=ir.BoolAttr.get(False),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _FFI_API_VERSION),
        backend_config=ir.DictAttr.get(dict(attributes)),
        called_computations=ir.ArrayAttr.get([]),
        operand_layouts=ir.ArrayAttr.get(
            [_layout(x.type.ndim, rank, by_columns) for x in operands]
        ),
        result_layouts=ir.ArrayAttr.get([_layout(type.ndim, rank, by_columns) for type in results]),
        output_operand_aliases=ir.ArrayAttr.get(
            [
                hlo.OutputOperandAlias.get(
                    output_tuple_indices=[result] if len(results) > 1 else [],
                    operand_index=operand,
                    operand_tuple_indices=[],
                )
                for operand, result in alias.items()
            ]
        ),
    )
    return tuple(Operand(raw) for raw in op.results)


def compiler_call(
    b: ModuleContext,
    target: str,
    operands: Sequence[Operand],
    results: Sequence[ShapeDtype],
    configuration: str = "",
) -> tuple[Operand, ...]:
    """Emit the call of an algorithm of the device's compiler."""
    op = hlo.CustomCallOp(
        [b.tensor_type(type) for type in results],
        [x.raw for x in operands],
        call_target_name=ir.StringAttr.get(target),
        has_side_effect=ir.BoolAttr.get(False),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _TEXT_API_VERSION),
        backend_config=ir.StringAttr.get(configuration),
        called_computations=ir.ArrayAttr.get([]),
    )
    return tuple(Operand(raw) for raw in op.results)


def _joined(type: ShapeDtype, leading: int, count: int) -> ShapeDtype:
    """Return the type with its leading axes merged into one."""
    return type.with_shape((count, *type.shape[leading:]))


def _layout(ndim: int, rank: int, by_columns: bool) -> Any:
    """Return a layout, minor to major; matrices are arrays of full rank."""
    order = list(range(ndim - 1, -1, -1))
    if ndim == rank and by_columns:
        order[:2] = order[1::-1]
    return ir.DenseIntElementsAttr.get(np.array(order, np.int64), type=ir.IndexType.get())
