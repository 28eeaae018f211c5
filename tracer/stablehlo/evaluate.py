"""From a module to ops: go through the operations of a function and apply the rule of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracer.array.array import Array, get_evaluator
from tracer.array.convert import broadcast
from tracer.array.dispatch import from_host
from tracer.array.recording import CONSTANT_SIZE, current_recording
from tracer.errors import Source, TracerError
from tracer.lowering import Module, Operation, Region
from tracer.stablehlo.table import RULES, Instruction
from tracer.stablehlo.triangles import Triangles


@dataclass
class Evaluator:
    """Evaluates the functions of a module on traced arrays.

    Attributes
    ----------
    module : Module
        The module; it has been found to be supported.
    values : dict of int to Array
        What the regions around have computed: bodies read it.
    large : dict of int to Array
        Constants of many elements: the program's inputs, each once.
    triangles : Triangles
        What LAPACK's results hold.
    has_lines : bool
        Nodes and errors name the module's lines; otherwise those of whoever evaluates it.
    pads_windows : bool
        Padded windows combine their start again, as the specification says. XLA leaves padding out.
    """

    module: Module
    values: dict[int, Array] = field(default_factory=dict)
    large: dict[int, Array] = field(default_factory=dict)
    triangles: Triangles = field(default_factory=Triangles)
    has_lines: bool = True
    pads_windows: bool = True

    def call(self, name: str, arrays: Sequence[Array]) -> list[Array]:
        """Evaluate a function, which sees its arguments only."""
        inner = replace(self, values={})
        return inner.run(self.module.functions[name], arrays)

    def run(self, region: Region, arrays: Sequence[Array]) -> list[Array]:
        """Evaluate a region within the active recording."""
        inner = replace(self, values=dict(self.values))
        inner.values.update(zip(region.arguments, arrays, strict=True))
        for operation in region.operations:
            inner._apply(operation)
        return [inner._value(number) for number in region.results]

    def _value(self, number: int) -> Array:
        constant = self.module.constants.get(number)
        return self.values[number] if constant is None else self._constant(number, constant)

    def _constant(self, number: int, value: np.ndarray[Any, Any]) -> Array:
        """Return a constant, made where it is read: so bodies hold their own."""
        if not any(value.strides):
            element = value[(0,) * value.ndim] if value.size else np.zeros((), value.dtype)
            return broadcast(from_host(np.array(element)), value.shape)
        if value.size <= CONSTANT_SIZE:
            return from_host(np.array(value))
        if number not in self.large:
            self.large[number] = get_evaluator().from_host(value, None)
        return self.large[number]

    def _apply(self, operation: Operation) -> None:
        if operation.results and operation.results[0] in self.module.constants:
            return
        operands = [self._value(number) for number in operation.operands]
        seen = Instruction(operation, self.module, self)
        with at(operation.source) if self.has_lines else nullcontext():
            results = RULES[operation.name](seen, *operands)
            results = [results] if isinstance(results, Array) else results
        found = tuple(array.type for array in results)
        assert found == operation.result_types, (
            f"the rule of {operation.name} made {found}, not {operation.result_types}"
        )
        self.values.update(zip(operation.results, results, strict=True))


@contextmanager
def at(source: Source | None) -> Iterator[None]:
    """Give the nodes that are made, and the errors that are raised, the module's line."""
    recording = current_recording()
    assert recording is not None
    builder = recording.builder
    previous, builder.source = builder.source, source
    try:
        yield
    except TracerError as error:
        if source is not None and not hasattr(error, "_is_placed"):
            error.where = source
            marked: Any = error
            marked._is_placed = True  # the innermost operation's line
        raise
    finally:
        builder.source = previous
