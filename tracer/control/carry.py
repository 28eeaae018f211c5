"""The carry of a loop: it must leave a step with the structure, shapes and dtypes it came with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tracer import tree
from tracer.control.bodies import Arguments, Body, check_same
from tracer.ir import ShapeDtype
from tracer.numpy.convert import convert
from tracer.numpy.promotion import weak_dtype


def settle_carry(
    init: Arguments, trace: Callable[[Sequence[ShapeDtype]], Body]
) -> tuple[Arguments, Body]:
    """Trace the body of a loop, letting Python numbers in the carry take the body's dtype.

    `while_loop(lambda x: x < 9, lambda x: 1.5 * x, 1)` carries float64, although 1 is an integer.
    """
    while True:
        body = trace(init.types)
        types = body.graph.output_types[: len(init.arrays)]
        promoted = [_promotes(init, i, type) for i, type in enumerate(types)]
        if not any(promoted):
            return init, body
        init = replace(
            init,
            arrays=[
                convert(array, types[i].dtype) if i < len(promoted) and promoted[i] else array
                for i, array in enumerate(init.arrays)
            ],
            # A number that took a dtype keeps it: so this ends.
            weak=[
                None if i < len(promoted) and promoted[i] else cls
                for i, cls in enumerate(init.weak)
            ],
        )


def _promotes(init: Arguments, position: int, type: ShapeDtype) -> bool:
    cls = init.weak[position]
    if cls is None or type is init.arrays[position].type or type.shape != ():
        return False
    return weak_dtype(type.dtype, cls) == type.dtype


def check_carry(
    name: str, init: Arguments, structure: tree.Structure, types: Sequence[ShapeDtype]
) -> None:
    """Raise unless a step returns the carry as it came; see `check_same` for the errors."""
    check_same(
        name,
        ("the carry", init.structure, init.types),
        ("the carry that the body returns", structure, types),
        init.paths,
        "return the carry with the structure, shapes and dtypes it came with; convert with "
        "astype, in the body or before the loop",
    )


__all__ = ["check_carry", "settle_carry"]
