"""Builder methods of control flow: loops, branches and optimization barriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tracer.ir import Graph, ShapeDtype
from tracer.lowering.devices.placement import sharding_attribute
from tracer.lowering.emit.base import BaseBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.emit.walk import lower_nodes
from tracer.lowering.settings import is_on
from tracer.lowering.shims import SMALL_LOOP_BYTES, VERSION, hlo, ir, sdy

if TYPE_CHECKING:
    from tracer.lowering.emit.builder import StableHloBuilder


class ControlBuilder(BaseBuilder):
    """Builder methods of ops whose parameters are Graphs, and of the barrier.

    Attributes
    ----------
    path : str
        Name of the node that is being lowered; see `walk.node_path`.
    mesh_axes : tuple of str
        The axes of the mesh that the program is meant for; empty for one device.
    barriers : list
        The barriers that were emitted.
    """

    def __init__(self, platform: str) -> None:
        super().__init__(platform)
        self.path = ""
        self.mesh_axes: tuple[str, ...] = ()
        self.barriers: list[Any] = []
        self._loops = 0
        self._is_on_parts = False

    def _lower_body(
        self,
        block: Any,
        name: str,
        body: Graph,
        operands: Sequence[Operand],
        types: Sequence[ShapeDtype] = (),
    ) -> None:
        """Lower a region; `types`: those that its results are handed on with, if others."""
        with ir.InsertionPoint(block):
            path = f"{self.path}/{name}/"
            results = lower_nodes(cast("StableHloBuilder", self), body, operands, path=path)
            if types:
                results = self._reshaped(types, results)
            hlo.return_([result.raw for result in results])

    def while_(
        self,
        types: Sequence[ShapeDtype],
        operands: Sequence[Operand],
        condition: Graph,
        body: Graph,
    ) -> tuple[Operand, ...]:
        """Emit `while` with the Graphs as its regions.

        What the body hands on unchanged goes in without axes of one element: where such an axis
        lies between others XLA's layouts differ outside and inside, and it copied the value.
        """
        kept = [x is y for x, y in zip(body.inputs, body.outputs, strict=True)]
        narrow = [_without_ones(t) if same else t for t, same in zip(types, kept, strict=True)]
        carry = [self.tensor_type(type) for type in narrow]
        op = hlo.WhileOp(carry, [x.raw for x in self._reshaped(narrow, operands)])
        self._loops += 1
        for name, region, graph, results in (
            ("condition", op.cond, condition, ()),
            ("body", op.body, body, narrow),
        ):
            block = region.blocks.append(*carry)
            with ir.InsertionPoint(block):
                arguments = self._reshaped(types, [Operand(raw) for raw in block.arguments])
            self._lower_body(block, name, graph, arguments, results)
        self._loops -= 1
        return tuple(self._reshaped(types, [Operand(raw) for raw in op.results]))

    def _reshaped(self, types: Sequence[ShapeDtype], values: Sequence[Operand]) -> list[Operand]:
        """Reshape values to types that differ from theirs by axes of one element at most."""
        return [
            x if x.shape == type.shape else self.reshape(type, x)
            for type, x in zip(types, values, strict=True)
        ]

    def case(
        self,
        types: Sequence[ShapeDtype],
        index: Operand,
        operands: Sequence[Operand],
        branches: Sequence[Graph],
    ) -> tuple[Operand, ...]:
        """Emit `case`; an index out of bounds takes the last branch."""
        op = hlo.CaseOp([self.tensor_type(type) for type in types], index.raw, len(branches))
        for number, (region, branch) in enumerate(zip(op.regions, branches, strict=True)):
            # Branches have no block arguments: they read the operands from outside.
            self._lower_body(region.blocks.append(), f"branches[{number}]", branch, operands)
        return tuple(Operand(raw) for raw in op.results)

    def shard(
        self,
        types: Sequence[ShapeDtype],
        operands: Sequence[Operand],
        body: Graph,
        count: int,
        operand_axes: Sequence[int | None],
        result_axes: Sequence[int | None],
    ) -> tuple[Operand, ...]:
        """Emit a body that each device of the mesh runs on its own part of the operands.

        The axes are those that the parts are cut along; None for operands that are given whole and
        results that all devices have. A program for one device computes all parts in turn.
        """
        if not self.mesh_axes:
            return self._in_turn(operands, body, count, operand_axes, result_axes)
        op = sdy.ManualComputationOp(
            [self.tensor_type(type) for type in types],
            [x.raw for x in operands],
            self._cut([x.type.ndim for x in operands], operand_axes),
            self._cut([type.ndim for type in types], result_axes),
            sdy.ManualAxesAttr.get([ir.StringAttr.get(name) for name in self.mesh_axes]),
        )
        block = op.body.blocks.append(*[self.tensor_type(type) for type in body.input_types])
        self._is_on_parts = True
        with ir.InsertionPoint(block):
            arguments = [Operand(raw) for raw in block.arguments]
            path = f"{self.path}/body/"
            results = lower_nodes(cast("StableHloBuilder", self), body, arguments, path=path)
            sdy.ReturnOp([result.raw for result in results])
        self._is_on_parts = False
        return tuple(Operand(raw) for raw in op.results_)

    def keep_nan(self, extreme: Operand, find_nan: Callable[[], Operand]) -> Operand:
        """Return a maximum or minimum with the NaNs that it has on one device.

        Where the partitioner cuts what it is taken of, devices join theirs in an all-reduce, and
        that of XLA:CPU compares with `<`, in one process and through gloo: a device's part with a
        NaN was dropped, all of it. Whether there was one is joined beside it.
        """
        type = extreme.type
        if not self.mesh_axes or self._is_on_parts or type.dtype.kind in "biu":
            return extreme
        return self.select(find_nan(), self.splat(np.nan, type), extreme)

    def _in_turn(
        self,
        operands: Sequence[Operand],
        body: Graph,
        count: int,
        operand_axes: Sequence[int | None],
        result_axes: Sequence[int | None],
    ) -> tuple[Operand, ...]:
        found = []
        for number in range(count):
            given = [
                x if axis is None else self._part(x, axis, number, count)
                for x, axis in zip(operands, operand_axes, strict=True)
            ]
            path = f"{self.path}/body/"
            found.append(lower_nodes(cast("StableHloBuilder", self), body, given, path=path))
        return tuple(
            parts[0] if axis is None else self.concatenate(parts, axis)
            for parts, axis in zip(zip(*found, strict=True), result_axes, strict=True)
        )

    def _part(self, x: Operand, axis: int, number: int, count: int) -> Operand:
        size = x.shape[axis] // count
        start, limit = [0] * len(x.shape), list(x.shape)
        start[axis], limit[axis] = number * size, (number + 1) * size
        return self.slice(x, start, limit, [1] * len(start))

    def _cut(self, ndims: Sequence[int], axes: Sequence[int | None]) -> Any:
        """Return Shardy's attribute of values that are cut along one axis each, or whole."""
        return sdy.TensorShardingPerValueAttr.get(
            [
                sharding_attribute([self.mesh_axes if i == axis else () for i in range(ndim)])
                for ndim, axis in zip(ndims, axes, strict=True)
            ]
        )

    def optimization_barrier(
        self, operands: Sequence[Operand], setting: str = "barriers of passes"
    ) -> tuple[Operand, ...]:
        """Emit `optimization_barrier`, if the setting that it belongs to is on (`settings`).

        XLA:CPU makes one function of a loop that touches less than a kilobyte, and its emitter of
        such functions ends the process at a barrier. So barriers that small are left out of loops.
        """
        small = sum(x.type.nbytes for x in operands) <= SMALL_LOOP_BYTES
        if (self._loops and small and self.platform == "cpu") or not is_on(setting):
            return tuple(operands)
        op = hlo.OptimizationBarrierOp([x.raw for x in operands])
        self.barriers.append(op)
        return tuple(Operand(raw) for raw in op.results)

    def kept_in_loop(self, x: Operand, varying: Operand) -> Operand:
        """Return an operand that XLA takes as changing from trip to trip, where `varying` does.

        What is computed from it stays in the loop; outside of loops it is the operand itself.
        """
        if not self._loops:
            return x
        return self.optimization_barrier((x, varying), "initial values in loops")[0]

    def stored_by_rows(self, x: Operand) -> Operand:
        """Return an operand that XLA stores with its last axis innermost.

        Behind a barrier a matrix may lie by columns, and from jaxlib 0.11 on that copies it twice:
        to columns, and back to rows for the library. A vector lies in one way. But what is written
        as a vector is no copy by XLA's blocked transpose: with 0.10.2 the gradient of a perceptron
        took 2.3 times as long (8,000 x 128 a trip; `python -m benchmarks.planner`). And where
        XLA's partitioner cuts the values, a vector cannot be cut as the matrix is, and is gathered.
        """
        if self.mesh_axes or VERSION < (0, 11):
            return self.optimization_barrier((x,), "operands by rows")[0]
        vector = self.reshape(x.type.with_shape((x.type.size,)), x)
        (stored,) = self.optimization_barrier((vector,), "operands by rows")
        return self.reshape(x.type, stored)


def _without_ones(type: ShapeDtype) -> ShapeDtype:
    return type.with_shape([n for n in type.shape if n != 1])
