"""Rules of reductions over sliding windows, and of what gradients make of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, scalar
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import vjp
from tracer.ir import Op
from tracer.lax.halves import of_elements
from tracer.numpy.ufunc import select
from tracer.ops.reduce import highest, lowest
from tracer.stablehlo import bodies
from tracer.stablehlo.rules.products import pairs
from tracer.stablehlo.rules.reductions import combiner_of, starts_with
from tracer.stablehlo.table import Instruction, rule

_KNOWN: dict[str, tuple[Op, Op, Callable[[np.dtype[Any]], Any]]] = {
    "add": (ops.reduce_window_add, ops.cumulative_add, lambda dtype: 0),
    "multiply": (ops.reduce_window_multiply, ops.cumulative_multiply, lambda dtype: 1),
    "maximum": (ops.reduce_window_maximum, ops.cumulative_maximum, lowest),
    "minimum": (ops.reduce_window_minimum, ops.cumulative_minimum, highest),
}
"""The reduction by a combiner, its form over whole axes, and what fills the padding."""
_OF_TRUTH = {"or": "maximum", "and": "minimum"}
_BOOL = np.dtype(bool)
_MOST_STEPS = 512
"""Windows of more elements are not written out one by one."""


def _windows(instruction: Instruction) -> dict[str, Any]:
    attributes = instruction.attributes
    sizes = attributes["window_dimensions"]
    ones = (1,) * len(sizes)
    return {
        "window_dimensions": sizes,
        "window_strides": attributes.get("window_strides", ones),
        "base_dilation": attributes.get("base_dilations", ones),
        "window_dilation": attributes.get("window_dilations", ones),
        "padding": pairs(attributes.get("padding"), len(sizes)),
    }


def _known_names(instruction: Instruction) -> list[str] | None:
    """Return the combiners, where all are known and the windows start with their identities."""
    (body,) = instruction.operation.regions
    names = bodies.combiners(body)
    if names is None:
        return None
    found = []
    for k, (name, type) in enumerate(zip(names, instruction.results, strict=True)):
        known = combiner_of(name, type.dtype)
        known = _OF_TRUTH.get(known, known) if type.dtype.kind == "b" else known
        start = instruction.known(len(names) + k)
        if known not in _KNOWN or not starts_with(start, _KNOWN[known][2]):
            return None
        found.append(known)
    return found


def _too_large(instruction: Instruction) -> str | None:
    steps = math.prod(instruction.attributes["window_dimensions"])
    if _known_names(instruction) is not None or steps <= _MOST_STEPS:
        return None
    return f"with a function, over windows of {steps} elements"


@rule("stablehlo.reduce_window", unless=_too_large)
def reduce_window(instruction: Instruction, *operands: Array) -> Sequence[Array]:
    """Reduce windows with a known op, or step by step with a function."""
    count = len(operands) // 2
    windows, names = _windows(instruction), _known_names(instruction)
    if names is None:
        return _step_by_step(instruction, operands[:count], operands[count:], windows)
    return [_of_known(name, x, windows) for name, x in zip(names, operands[:count], strict=True)]


def _of_known(name: str, x: Array, windows: dict[str, Any]) -> Array:
    reduction, running, _ = _KNOWN[name]
    whole = _whole_axis(x.shape, windows)
    if whole is not None:
        return apply(running, x, axis=whole[0], reverse=whole[1])
    return apply(reduction, x, **windows)


def _whole_axis(shape: tuple[int, ...], windows: dict[str, Any]) -> tuple[int, bool] | None:
    """Return the axis along which windows hold all elements up to each one, or from it on."""
    ones = (1,) * len(shape)
    names = "window_strides", "base_dilation", "window_dilation"
    if any(windows[name] != ones for name in names):
        return None
    sliding = [
        axis
        for axis, (size, padding) in enumerate(
            zip(windows["window_dimensions"], windows["padding"], strict=True)
        )
        if size != 1 or padding != (0, 0)
    ]
    if len(sliding) != 1 or windows["window_dimensions"][sliding[0]] != shape[sliding[0]]:
        return None
    (axis,) = sliding
    last = shape[axis] - 1
    found = {(last, 0): (axis, False), (0, last): (axis, True)}
    return found.get(windows["padding"][axis])


def _step_by_step(
    instruction: Instruction,
    arrays: Sequence[Array],
    starts: Sequence[Array],
    windows: dict[str, Any],
) -> list[Array]:
    """Combine the first elements of all windows with the second ones, and so on.

    Where a window is padded the specification combines its start again, and XLA nothing.
    """
    shape = instruction.result.shape
    (body,) = instruction.operation.regions

    def combine(*elements: Array) -> tuple[Array, ...]:
        return tuple(instruction.run(body, elements))

    joined = of_elements(combine, len(shape))
    padded = [_padded(x, start, windows) for x, start in zip(arrays, starts, strict=True)]
    present = None
    if _is_padded(windows) and not instruction.evaluator.pads_windows:
        there = broadcast(scalar(True, _BOOL), arrays[0].shape)
        present = _padded(there, scalar(False, _BOOL), windows)
    results: list[Array] = [broadcast(start, shape) for start in starts]
    for place in itertools.product(*map(range, windows["window_dimensions"])):
        seen = [_seen(x, place, shape, windows) for x in padded]
        new = joined(*results, *seen)
        if present is not None:
            is_there = _seen(present, place, shape, windows)
            new = [select(is_there, x, old) for x, old in zip(new, results, strict=True)]
        results = list(new)
    return results


def _is_padded(windows: dict[str, Any]) -> bool:
    return any(map(any, windows["padding"])) or any(n > 1 for n in windows["base_dilation"])


def _padded(x: Array, value: Array, windows: dict[str, Any]) -> Array:
    low, high = (tuple(pair[i] for pair in windows["padding"]) for i in (0, 1))
    interior = tuple(n - 1 for n in windows["base_dilation"])
    return apply(ops.pad, x, value, low=low, high=high, interior=interior)


def _seen(
    x: Array, place: tuple[int, ...], shape: tuple[int, ...], windows: dict[str, Any]
) -> Array:
    """Return the element at one place of every window."""
    strides = windows["window_strides"]
    start = [i * n for i, n in zip(place, windows["window_dilation"], strict=True)]
    limit = [
        first + (count - 1) * step + 1 if count else first
        for first, count, step in zip(start, shape, strides, strict=True)
    ]
    return apply(ops.slice, x, start=tuple(start), limit=tuple(limit), strides=strides)


_SELECTED = {"GE": ops.reduce_window_maximum, "LE": ops.reduce_window_minimum}


def _direction(instruction: Instruction) -> str | None:
    """Return "GE" or "LE", by which windows select their first largest or smallest element."""
    select, add = instruction.operation.regions
    if bodies.combiners(add) != ["add"] or len(select.operations) != 1:
        return None
    (operation,) = select.operations
    if operation.name != "stablehlo.compare" or operation.results != select.results:
        return None
    direction = str(operation.attributes["comparison_direction"])
    if operation.operands == select.arguments[::-1]:
        direction = {"GE": "LE", "LE": "GE"}.get(direction, "")
    elif operation.operands != select.arguments:
        return None
    return direction if direction in _SELECTED else None


def _unknown_selection(instruction: Instruction) -> str | None:
    if _direction(instruction) is not None:
        return None
    return "with bodies other than >= or <= and +"


@rule("stablehlo.select_and_scatter", unless=_unknown_selection)
def select_and_scatter(instruction: Instruction, x: Array, source: Array, start: Array) -> Array:
    """Give each window's value to the element that it selects: a gradient of ours."""
    direction = _direction(instruction)
    assert direction is not None
    _, pull_back = vjp(partial(apply, _SELECTED[direction], **_windows(instruction)), x)
    (result,) = pull_back(source)
    if starts_with(instruction.known(2), lambda dtype: 0):
        return result  # type: ignore[no-any-return]
    return apply(ops.add, broadcast(start, x.shape), result)
