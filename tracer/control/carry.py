"""The carry of a loop: a step must return it with the same structure, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import as_array, convert
from tracer.array.promotion import weak_class, weak_dtype
from tracer.array.weak import Signature, WeakType, as_weak
from tracer.control.bodies import Arguments, Body, check_same
from tracer.ir import Value


def settle_carry(
    init: Arguments, trace: Callable[[Sequence[Signature]], Body]
) -> tuple[Arguments, Body]:
    """Trace the body of a loop, letting weak leaves of the carry take the body's dtype.

    `while_loop(lambda x: x < 9, lambda x: 1.5 * x, 1)` carries a weak float, although 1 is an
    integer, and `lambda x: y * x` the dtype of the array y.
    """
    while True:
        body = trace(init.signatures)
        arrays = [
            _promoted(array, output)
            for array, output in zip(init.arrays, body.outputs, strict=False)
        ]
        # Each leaf goes from bool to int, float, complex, and from weak to strong: so this ends.
        if all(new is old for new, old in zip(arrays, init.arrays, strict=False)):
            return init, body
        init = replace(init, arrays=[*arrays, *init.arrays[len(arrays) :]])


def _promoted(array: Array, output: Signature) -> Array:
    """Return a leaf of the carry in the dtype that a step gives it, if it may take that."""
    cls = weak_class(array)
    if cls is None or output is array._signature or output == array._signature:
        return array
    if output.shape != array.shape or weak_dtype(output.dtype, cls) != output.dtype:
        return array
    promoted = convert(as_array(array), output.dtype)
    return as_weak(promoted) if isinstance(output, WeakType) else promoted


_WHAT = "the carry", "the carry that the body returns"
_MEND = (
    "return the carry with the structure, shapes and dtypes it came with; convert with astype, in "
    "the body or before the loop"
)


def check_carry(
    name: str, init: Arguments, structure: tree.Structure, results: Sequence[Value]
) -> None:
    """Raise unless a step returns the carry as it came; see `check_same` for the errors."""
    types = [value.type for value in results]
    check_same(
        name,
        (_WHAT[0], init.structure, init.types),
        (_WHAT[1], structure, types),
        init.paths,
        _MEND,
        results,
    )


def check_nesting(name: str, before: Any, after: Any) -> None:
    """Raise unless a step returns a carry that is nested as it came."""
    first, second = map(tree.structure, (before, after))
    check_same(name, (_WHAT[0], first, ()), (_WHAT[1], second, ()), (), _MEND)


__all__ = ["check_carry", "check_nesting", "settle_carry"]
