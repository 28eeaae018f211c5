"""The factory of element-wise records. Source of all definitions: StableHLO specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer.ir import NotDifferentiable, Op, Response, ShapeDtype
from tracer.ir.op import Types, always, never
from tracer.ops.rules import (
    elementwise_axes,
    elementwise_cost,
    is_float,
    require_kind,
    require_operand_count,
    require_same_dtypes,
    require_same_shapes,
    widened,
)

Vjp = Callable[..., tuple[Any, ...]] | NotDifferentiable
STEP = NotDifferentiable("piecewise constant: its derivative is zero almost everywhere", zero=True)
INTEGER = NotDifferentiable("it works on integers and truth values", zero=True)
FUNCTION = ("float32", "float64")
"""`Op.vectors` of a function that XLA has vector kernels for in both dtypes."""


def elementwise(
    name: str,
    arity: int,
    evaluate: Callable[..., Any],
    vjp: Vjp,
    *,
    doc: str,
    kinds: str = "iufc",
    flops: int = 1,
    dtype: Callable[[np.dtype[Any]], np.dtype[Any]] | None = None,
    lower_name: str | None = None,
    widen: bool = True,
    composed: Callable[..., Any] | None = None,
    commutes: bool = False,
    response: Response | None = None,
    vectors: tuple[str, ...] = (),
    jumps: tuple[int, ...] = (),
    repeats: bool = False,
) -> Op:
    """Make the record of an element-wise op on operands of one shape and dtype.

    Parameters
    ----------
    name : str
        Name of the op and of the builder method that lowers it, unless `lower_name` differs.
    arity : int
        Number of operands.
    evaluate : callable
        NumPy function.
    vjp : callable or NotDifferentiable
        See `Op.vjp`.
    doc : str
        What it computes.
    kinds : str
        Dtype kinds taken.
    flops : int
        Operations per element; transcendental functions count about 10 to 20.
    dtype : callable, optional
        Result dtype from the operands' dtype, when it differs.
    lower_name : str, optional
        Name of the builder method.
    widen : bool
        Evaluate 8 and 16 bit floats in float32, as XLA does, and round once.
    composed : callable, optional
        `(builder, *operands)`: lowers a function that StableHLO does not have.
    commutes : bool
        The operands may change places.
    response : Response, optional
        See `Op.response`.
    vectors : tuple of str
        See `Op.vectors`.
    jumps : tuple of int
        See `Op.jumps`.
    repeats : bool
        See `Op.repeats`.
    """
    method = lower_name or name

    def emit(b: Any, *operands: Any) -> Any:
        return getattr(b, method)(*operands) if composed is None else composed(b, *operands)

    def infer(*types: ShapeDtype) -> ShapeDtype:
        require_operand_count(name, types, arity)
        require_same_shapes(name, types)
        require_same_dtypes(name, types)
        require_kind(name, types[0], kinds)
        return types[0] if dtype is None else types[0].with_dtype(dtype(types[0].dtype))

    def evaluate_like(*arrays: np.ndarray[Any, Any]) -> Any:
        with np.errstate(all="ignore"):
            result = evaluate(*map(widened, arrays)) if widen else evaluate(*arrays)
            wanted = arrays[0].dtype if dtype is None else dtype(arrays[0].dtype)
            return np.asarray(result).astype(wanted, copy=False)

    def lower(b: Any, types: Types, *operands: Any) -> Any:
        # XLA knows only some functions of 8 bit floats, and computes those in float32 itself.
        if widen and is_float(operands[0].dtype) and operands[0].dtype.itemsize == 1:
            wide = ShapeDtype(types[0].shape, np.float32)
            return b.convert(types[0], emit(b, *(b.convert(wide, x) for x in operands)))
        return emit(b, *operands)

    return Op(
        name,
        doc=doc,
        infer=infer,
        evaluate=evaluate_like,
        lower=lower,
        vjp=vjp,
        axes=elementwise_axes,
        cost=elementwise_cost(flops),
        reuses=tuple(range(arity)),
        fusion="loop",
        commutes=always if commutes else never,
        response=response,
        vectors=vectors,
        jumps=jumps,
        repeats=repeats,
    )
