"""What a loop carries, kept by a host function while it runs and handed back when it runs again.

`loop` is the loop's number in the program, `inside` those of the loops around it, the outermost
first.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tracer.ir import Batching, Cost, HostFunction, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.batch import spread_leading
from tracer.ops.rules import as_tuple, moved_bytes, whole_axes

Array = np.ndarray[Any, Any]
_NUMBER = ShapeDtype((), np.int32)
_NO_VALUE = NotDifferentiable("its result is no value of the program", zero=True)


def _restored(
    *carry: Array, function: HostFunction, loop: int, inside: tuple[int, ...]
) -> tuple[Any, ...]:
    return (np.int32(0), *function.function(loop, inside, carry))


def _is_due(*, function: HostFunction, loop: int, is_over: bool) -> Any:
    return np.int32(function.function(loop, is_over)[0])


def _saved(*carry: Array, function: HostFunction, loop: int, inside: tuple[int, ...]) -> Any:
    function.function(loop, inside, carry)
    return np.int32(0)


def _lower(evaluate: Any, b: Any, types: Types, *operands: Any, **params: Any) -> Any:
    call = partial(evaluate, **params)

    def run(*arrays: Array) -> tuple[Any, ...]:
        found = call(*arrays)
        return found if isinstance(found, tuple) else (found,)

    return b.host_call(types, operands, run, has_effect=True)


def _cost(operands: Types, results: Types, **_: Any) -> Cost:
    return Cost(0, moved_bytes(operands, results), 0)


def _batch(operands: tuple[Value, ...], batching: Batching, **params: Any) -> Any:
    """Keep the arrays of all elements together."""
    found = batching.op(*operands, **params)
    if not any(batching.batched):
        return found
    number, *carry = as_tuple(found)
    number = spread_leading(number, batching.size)
    return (number, *carry) if carry else number


def _record(name: str, doc: str, infer: Any, evaluate: Any, vjp: NotDifferentiable) -> Op:
    return Op(
        name,
        doc=doc,
        infer=infer,
        evaluate=evaluate,
        lower=partial(_lower, evaluate),
        vjp=vjp,
        axes=whole_axes,
        cost=_cost,
        pure=False,
        effect=True,
        calls_host=True,
        batch=_batch,
    )


restore_carry: Op = _record(
    "restore_carry",
    "What a loop carried when it was kept last, or its operands if it was not: the results behind "
    "the first, which is a number that means nothing.",
    lambda *types, **_: (_NUMBER, *types),
    _restored,
    NotDifferentiable("loops are kept in finished programs only"),
)

checkpoint_due: Op = _record(
    "checkpoint_due",
    "Counts a trip of a loop, or its end (`is_over`). 1 if what it carries is to be kept, else 0.",
    lambda **_: _NUMBER,
    _is_due,
    _NO_VALUE,
)

save_carry: Op = _record(
    "save_carry",
    "Keeps what a loop carries. The result is a number that means nothing.",
    lambda *_, **__: _NUMBER,
    _saved,
    _NO_VALUE,
)

__all__ = ["checkpoint_due", "restore_carry", "save_carry"]
