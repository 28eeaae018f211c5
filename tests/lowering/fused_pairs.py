"""Element-wise ops and pairs of them that XLA fuses, each in a fusion of its own, many a program.

The registry says which ops there are. Each fusion reads a row of its own of the operands: of equal
inner ops XLA would make one, which it then stores.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import lowering, ops
from tracer.errors import TracerError
from tracer.ir import Builder, Graph, Op, ShapeDtype, Value, registry

Array = np.ndarray[Any, Any]
CONSTANTS = (0.0, 1.0, -1.0, 2.0, 0.5, math.pi)
SIZES = (1003, 64, 4097, 100, 1000, 255, 31, 7)
_PARAMETERS: dict[str, dict[str, Any]] = {"polygamma": {"order": 1}}


@dataclass(frozen=True)
class Case:
    """What is computed from x and y, and a name for it."""

    name: str
    of: Callable[[Value, Value], Value]


def _takes(op: Op, arity: int, dtype: np.dtype[Any]) -> bool:
    type = ShapeDtype((2,), dtype)
    try:
        found = op.infer(*[type] * arity, **_PARAMETERS.get(op.name, {}))
    except (TracerError, TypeError):
        return False
    return found == type


def elementwise(arity: int, dtype: np.dtype[Any]) -> list[Callable[..., Value]]:
    """Return the element-wise ops that take some operands of a dtype and return one of it."""
    return [
        _named(op)
        for _, op in sorted(registry().items())
        if op.fusion == "loop" and op.reuses == tuple(range(arity)) and _takes(op, arity, dtype)
    ]


def _named(op: Op) -> Callable[..., Value]:
    def apply(*operands: Value) -> Value:
        return op(*operands, **_PARAMETERS.get(op.name, {}))

    apply.__name__ = op.name
    return apply


def single(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield every op alone, with the other operand and with constants at either place."""
    for f in elementwise(1, dtype):
        yield Case(f"{f.__name__}(x)", lambda x, y, f=f: f(x))
    for f in elementwise(2, dtype):
        yield Case(f"{f.__name__}(x, y)", lambda x, y, f=f: f(x, y))
        yield from _with_constants(f, None)


def pairs(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield every op of every op of one operand."""
    first, second = elementwise(1, dtype), elementwise(2, dtype)
    for f, g in itertools.product(first, first):
        yield Case(f"{g.__name__}({f.__name__}(x))", lambda x, y, f=f, g=g: g(f(x)))
    for f, g in itertools.product(first, second):
        names = f"{g.__name__}({f.__name__}(x), y)", f"{g.__name__}(y, {f.__name__}(x))"
        yield Case(names[0], lambda x, y, f=f, g=g: g(f(x), y))
        yield Case(names[1], lambda x, y, f=f, g=g: g(y, f(x)))
        yield from _with_constants(g, f)


def _with_constants(g: Callable[..., Value], f: Callable[..., Value] | None) -> Iterator[Case]:
    inner = "x" if f is None else f"{f.__name__}(x)"

    def operand(x: Value) -> Value:
        return x if f is None else f(x)

    for c in CONSTANTS:
        yield Case(f"{g.__name__}({inner}, {c})", lambda x, y, c=c: g(operand(x), _full(x, c)))
        yield Case(f"{g.__name__}({c}, {inner})", lambda x, y, c=c: g(_full(x, c), operand(x)))


def complex_forms(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield the ops of complex numbers of which one part is a constant."""
    wide = np.dtype(np.result_type(dtype, np.complex64))
    for f in elementwise(1, wide):
        for c in CONSTANTS:
            for part in (ops.real, ops.imag):
                name = f"{part.name}({f.__name__}"
                yield Case(
                    f"{name}({c} + xj))",
                    lambda x, y, f=f, c=c, part=part: part(f(ops.complex(_full(x, c), x))),
                )
                yield Case(
                    f"{name}(x + {c}j))",
                    lambda x, y, f=f, c=c, part=part: part(f(ops.complex(x, _full(x, c)))),
                )
    for c, part in itertools.product(CONSTANTS, (ops.real, ops.imag)):
        yield Case(
            f"{part.name}(power({c} + xj, y + 0.5j))",
            lambda x, y, c=c, part=part: part(
                ops.power(ops.complex(_full(x, c), x), ops.complex(y, _full(y, 0.5)))
            ),
        )


def converted(cases: Iterator[Case], dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield cases that compute in a narrower dtype."""
    for case in cases:

        def of(x: Value, y: Value, case: Case = case) -> Value:
            narrow = case.of(ops.convert(x, dtype=dtype), ops.convert(y, dtype=dtype))
            return ops.convert(narrow, dtype=x.dtype)

        yield Case(f"{dtype} {case.name}", of)


def _full(like: Value, value: float) -> Value:
    return ops.constant(value=np.full(like.shape, value, like.dtype))


def operands(count: int, size: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return a row for each case of everyday numbers, large, small, negative and special ones."""
    rng = np.random.default_rng(size)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, 1e-3])
    arrays = []
    for turn in (0, 3):
        scale = 10.0 ** rng.integers(-2, 2, (count, size))
        rows = rng.normal(size=(count, size)) * scale
        places = rng.integers(0, size, (count, min(size, 10)))
        rows[np.arange(count)[:, None], places] = np.roll(special, turn)[: places.shape[1]]
        arrays.append(rows.astype(dtype))
    return arrays[0], arrays[1]


def program(cases: list[Case], size: int, dtype: np.dtype[Any]) -> Graph:
    """Return the program whose result for each case is of the case's own row."""
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype((len(cases), size), dtype)) for _ in "xy")

        def row(z: Value, i: int) -> Value:
            cut = ops.slice(z, start=(i, 0), limit=(i + 1, size), strides=(1, 1))
            return ops.reshape(cut, shape=(size,))

        return builder.finish([case.of(row(x, i), row(y, i)) for i, case in enumerate(cases)])


def run(cases: list[Case], size: int, dtype: np.dtype[Any], width: int) -> list[Array]:
    """Return the result of each case, computed with vectors of a width."""
    graph = program(cases, size, dtype)
    executable = lowering.compile_graph(graph, options={"xla_cpu_prefer_vector_width": width})
    buffers = [lowering.to_device(x) for x in operands(len(cases), size, dtype)]
    results = [np.array(lowering.to_host(found)) for found in executable(*buffers)]
    # Each kernel is memory maps of its own, of which a process has 65,530.
    lowering.clear_cache()
    return results


def units_apart(x: Array, y: Array) -> Array:
    """Return how many numbers of the dtype lie between two arrays; NaNs are equal."""
    kind = f"i{x.dtype.itemsize}"
    least = np.iinfo(kind).min
    first, second = (z.view(kind).astype(np.float64) for z in (x, y))
    # Negative numbers are ordered the other way round.
    first, second = (np.where(z < 0, float(least) - z, z) for z in (first, second))
    return np.where(np.isnan(x) & np.isnan(y), 0.0, np.abs(first - second))


def differing(cases: list[Case], size: int, dtype: np.dtype[Any], units: float) -> list[str]:
    """Return the cases whose values differ between vectors of 256 and 512 bits."""
    wide, narrow = (run(cases, size, dtype, width) for width in (512, 256))
    told = []
    for case, one, other in zip(cases, wide, narrow, strict=True):
        apart = units_apart(one, other)
        if (apart > units).any():
            i = int(np.argmax(apart))
            told.append(
                f"{case.name}, {dtype}, size {size}: element {i} is {one[i]!r} with 512 bits and "
                f"{other[i]!r} with 256, {int((apart > units).sum())} differ"
            )
    return told
