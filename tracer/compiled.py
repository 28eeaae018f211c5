"""From one traced call to a program that keeps its byte limit: the closed loop of planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracer import lowering, tree
from tracer.closed_loop import Compilers, Found
from tracer.ir import Graph, ShapeDtype
from tracer.numpy.array import Array
from tracer.optimizer.plan import Plan, timeline_of
from tracer.options import CompileOptions
from tracer.signature import Call


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled program with all that a call of it needs."""

    execute: lowering.Executable
    captured: tuple[Array, ...]
    output_types: tuple[ShapeDtype, ...]
    output_devices: tuple[lowering.Device, ...]
    out_tree: tree.Structure
    is_single: bool
    donated: tuple[int, ...]
    device: lowering.Device
    graph: Graph
    plan: Plan

    def captured_buffers(self) -> Sequence[Any]:
        """Return the buffers of the arrays that the function closed over."""
        return [array._buffer for array in self.captured]

    def unflatten(self, outputs: list[Array]) -> Any:
        """Return the outputs in the structure the function gave them."""
        return tree.unflatten(self.out_tree, outputs)

    def stablehlo(self) -> str:
        """Return the program's StableHLO text."""
        return lowering.stablehlo(self.graph, device=self.device)


def build_program(call: Call, options: CompileOptions, name: str) -> Program:
    """Trace, plan, compile and check one signature.

    Raises
    ------
    MemoryLimitError
        No program for it keeps the limit.
    """
    compilers = Compilers(call, options, name)
    found = compilers.compile()
    compiler, candidate, execute = found.compiler, found.candidate, found.execute
    traced, device = compiler.traced, compiler.device
    return Program(
        execute=execute,
        captured=tuple(traced.captured),
        output_types=traced.graph.output_types,
        output_devices=(device,) * len(traced.graph.outputs),
        out_tree=traced.out_tree,
        is_single=tree.is_leaf(traced.out_tree),
        donated=compiler.donated,
        device=device,
        graph=candidate.graph,
        plan=_plan(compilers, found),
    )


def _plan(
    compilers: Compilers,
    found: Found,
) -> Plan:
    compiler, candidate = found.compiler, found.candidate
    planner = compiler.planner
    mode_row = compilers.mode_row(compiler)
    rows = candidate.rows if mode_row is None else (mode_row, *candidate.rows)
    return Plan(
        limit_bytes=compilers.plain.planner.options.limit_bytes,
        peak_bytes=candidate.peak_bytes,
        baseline_peak_bytes=compilers.plain.planner.baseline_peak_bytes,
        compiled_bytes=found.nbytes,
        argument_bytes=sum(type.nbytes for type in candidate.graph.input_types),
        output_bytes=sum(type.nbytes for type in candidate.graph.output_types),
        passes=rows,
        loops=candidate.loops,
        timeline=timeline_of(candidate.graph, planner.options.donated),
        find_minimum=compilers.minimum_bytes,
    )
