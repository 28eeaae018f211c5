"""What a slice reads: the lines of the caches that hold it.

Slices of a few columns read every line of an array: two of five columns each, of 2,000,000 x 10
float32, take twice the traffic of all ten.
"""

from __future__ import annotations

import math

from tracer import ops
from tracer.ir import Node, Value


def unread_bytes(node: Node, value: Value, line_bytes: int) -> int:
    """Return the bytes that come with a slice of a stored value, as they share a line with it.

    Of a slice of short runs these are what lies between them, up to a line for each run. 0 for
    what is no slice, or not one of `value`.
    """
    if node.op not in (ops.slice, ops.dynamic_slice) or value is not node.operands[0]:
        return 0
    window = node.types[0]
    if value.type.nbytes <= line_bytes or not window.size:
        return 0
    run, row = _run(value.type.shape, window.shape)
    if run == row:
        return 0
    runs = window.size // run
    return runs * min((row - run) * window.dtype.itemsize, line_bytes)


def _run(shape: tuple[int, ...], window: tuple[int, ...]) -> tuple[int, int]:
    """Return how many elements of a window lie side by side, and how many from run to run."""
    axis = len(shape) - 1
    while axis >= 0 and shape[axis] == window[axis]:
        axis -= 1
    return math.prod(window[max(axis, 0) :]), math.prod(shape[max(axis, 0) :])


__all__ = ["unread_bytes"]
