"""The gradient of scan: a scan in the opposite direction over what the forward steps keep.

A forward step keeps only the values that its backward step reads (the residuals). Those that depend
on constants alone are computed once, outside the loop. Slices are read again from the original.
Only the rest is stacked. Source: the partial evaluation and transposition of scan in JAX
(jax/_src/lax/control_flow/loops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer import ops
from tracer.ir import Graph, Node, Op, Value
from tracer.ops.bodies import inline
from tracer.ops.helpers import builder_at_source, full
from tracer.ops.scan_segments import segment_size, segmented_scan

Cotangents = tuple[Value | None, ...]
Flags = Sequence[bool]


def linearize_scan(
    scan: Op,
    rules: Any,
    active: Flags,
    wanted: Flags,
    *operands: Value,
    body: Graph,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Emit the scan so that it keeps its residuals; return its results and its pull-back.

    See `Op.linearize`; `scan` is the record itself, `params` are the loop's length and direction.
    """
    flags, seeds = _activity(rules, body, active, wanted, num_consts, num_carry)
    wrt, seeded = _positions(flags), _positions(seeds)
    carry = range(num_consts, num_consts + num_carry)
    free = [i for i in range(len(body.inputs)) if i not in carry]
    drops = _large_results(rules, body, num_consts, num_carry, params["length"])
    halves = rules.pull_back(body, wrt, seeded, free=free, drops=drops)
    plan = _Plan(body, halves, wrt, seeded, num_consts, num_carry)
    counts: dict[str, Any] = {"num_consts": num_consts, "num_carry": num_carry}
    size = _segment_size(plan, params["length"]) if rules.scans_are_segmented() else None
    if size is not None:
        types = [value.type for value in operands]
        segmented = segmented_scan(types, size=size, body=body, **counts, **params)
        return _linearize_segments(rules, segmented, active, wanted, operands)
    results = scan(*operands, body=plan.forward_body, **counts, **params)
    own = len(body.outputs)
    invariants = inline(plan.prologue, operands[:num_consts])

    def pull_back(g: Cotangents) -> Cotangents:
        given = {i: _or_zeros(g[i], results[i]) for i in seeded}
        stacks = [results[num_carry + i] for i in plan.stack_positions]
        backward = plan.backward_operands(operands, invariants, stacks, given)
        found = scan(
            *backward,
            body=plan.backward_body,
            num_consts=len(plan.const_reads) + len(invariants),
            num_carry=len(plan.slots) + len(plan.summed),
            length=params["length"],
            reverse=not params["reverse"],
        )
        return plan.cotangents(found, len(operands))

    return tuple(results[:own]), pull_back


def _large_results(
    rules: Any, body: Graph, num_consts: int, num_carry: int, length: int
) -> Callable[[Node], bool] | None:
    """Return a test for values of a step that are too large to be kept; None: all are kept.

    They are larger than the carry, from which the step computes them, and those of all steps are
    large together.
    """
    threshold: int | None = rules.large_bytes()
    if threshold is None:
        return None
    carry = body.input_types[num_consts : num_consts + num_carry]
    limit = max(threshold // length, sum(type.nbytes for type in carry))
    return lambda node: max(type.nbytes for type in node.types) > limit


def _segment_size(plan: _Plan, length: int) -> int | None:
    carry = plan.body.input_types[plan.num_consts : plan.num_consts + plan.num_carry]
    kept = sum(value.type.nbytes for value in plan.kept)
    return segment_size(length, sum(type.nbytes for type in carry), kept)


def _linearize_segments(
    rules: Any, segmented: Graph, active: Flags, wanted: Flags, operands: Sequence[Value]
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Emit the scan in segments; see `scan_segments`. Loops within a step are not cut again."""
    wrt, seeded = _positions(active), _positions(wanted)
    with rules.segment_scans(False):
        halves = rules.pull_back(segmented, wrt, seeded)
    outputs = inline(halves.forward, operands)
    own = len(segmented.outputs)

    def pull_back(g: Cotangents) -> Cotangents:
        seeds = [_or_zeros(g[i], outputs[i]) for i in seeded]
        read = [operands[i] for i in halves.inputs]
        found = inline(halves.backward, [*read, *outputs[own:], *seeds])
        by_operand = dict(zip(wrt, found, strict=True))
        return tuple(by_operand.get(i) for i in range(len(operands)))

    return tuple(outputs[:own]), pull_back


def _positions(flags: Flags) -> tuple[int, ...]:
    return tuple(i for i, flag in enumerate(flags) if flag)


def _or_zeros(cotangent: Value | None, value: Value) -> Value:
    return full(0, value.type) if cotangent is None else cotangent


def _activity(
    rules: Any, body: Graph, active: Flags, wanted: Flags, num_consts: int, num_carry: int
) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Find the body's inputs that need a cotangent and its outputs that may get one.

    A carry is active if it enters active or if any step makes it so; wanted likewise, backwards.
    Both sets only grow, so each loop ends after at most `num_carry` rounds.
    """
    carry = slice(num_consts, num_consts + num_carry)
    varied = list(active)
    while True:
        outputs = rules.active_outputs(body, varied)
        grown = [a or b for a, b in zip(varied[carry], outputs[:num_carry], strict=True)]
        if grown == varied[carry]:
            break
        varied[carry] = grown
    seeds = [a and b for a, b in zip(outputs, wanted, strict=True)]
    while True:
        useful = rules.wanted_inputs(body, varied, seeds)
        grown = [
            seed or (use and may)
            for seed, use, may in zip(seeds, useful[carry], outputs, strict=False)
        ]
        if grown == seeds[:num_carry]:
            return tuple(useful), tuple(seeds)
        seeds[:num_carry] = grown


@dataclass(frozen=True)
class _Plan:
    """How one body's two halves become the bodies of two scans.

    `halves` is the body's `PullBack`; `wrt` are positions of body inputs, `seeded` positions of
    body outputs. "Slots" are the carries whose cotangent travels backwards through the loop.
    """

    body: Graph
    halves: Any
    wrt: tuple[int, ...]
    seeded: tuple[int, ...]
    num_consts: int
    num_carry: int

    @cached_property
    def residuals(self) -> tuple[Value, ...]:
        values: tuple[Value, ...] = self.halves.forward.outputs[len(self.body.outputs) :]
        return values

    @cached_property
    def const_reads(self) -> list[int]:
        return [i for i in self.halves.inputs if i < self.num_consts]

    @cached_property
    def slice_reads(self) -> list[int]:
        return [i for i in self.halves.inputs if i >= self.num_consts + self.num_carry]

    @cached_property
    def invariant(self) -> list[Value]:
        """Residuals that depend on the constants alone."""
        forward = self.halves.forward
        varying = set(forward.inputs[self.num_consts :])
        for node in forward.nodes:
            if any(value in varying for value in node.operands):
                varying.update(node.results)
        return [value for value in self.residuals if value not in varying]

    @cached_property
    def prologue(self) -> Graph:
        """Computes the invariant residuals from the constants."""
        forward = self.halves.forward
        fixed, nodes = forward.inputs[: self.num_consts], forward.nodes
        return Graph(fixed, self.invariant, nodes, with_effects=False)

    @cached_property
    def kept(self) -> list[Value]:
        """Values of the forward half that every step stacks for its backward step."""
        forward, last = self.halves.forward, self.num_consts + self.num_carry
        carries = [forward.inputs[i] for i in self.halves.inputs if self.num_consts <= i < last]
        return carries + [value for value in self.residuals if value not in self.invariant]

    @cached_property
    def forward_body(self) -> Graph:
        forward, own = self.halves.forward, self.halves.forward.outputs[: len(self.body.outputs)]
        known = own[self.num_carry :]
        new = [value for value in self.kept if value not in known]
        return Graph(forward.inputs, [*own, *new], forward.nodes)

    @cached_property
    def stack_positions(self) -> list[int]:
        """Where in the stacked results of the forward scan the kept values are."""
        stacks = self.forward_body.outputs[self.num_carry :]
        return [stacks.index(value) for value in self.kept]

    @cached_property
    def slots(self) -> list[int]:
        arriving = {i - self.num_consts for i in self.wrt}
        return [i for i in range(self.num_carry) if i in arriving or i in self.seeded]

    @cached_property
    def summed(self) -> list[int]:
        """Constants whose cotangent is summed over the steps."""
        return [i for i in self.wrt if i < self.num_consts]

    @cached_property
    def backward_body(self) -> Graph:
        """(constants read, invariants; slots, sums; slices read, kept, cotangents of results)."""
        forward, inputs = self.halves.forward, self.body.inputs
        with builder_at_source() as builder:
            fixed = [*(forward.inputs[i] for i in self.const_reads), *self.invariant]
            values = {value: builder.input(value.type) for value in fixed}
            slots = {i: builder.input(self.body.outputs[i].type) for i in self.slots}
            sums = [builder.input(inputs[i].type) for i in self.summed]
            moving = [*(forward.inputs[i] for i in self.slice_reads), *self.kept]
            values |= {value: builder.input(value.type) for value in moving}
            stacked = [i for i in self.seeded if i >= self.num_carry]
            seeds = slots | {i: builder.input(self.body.outputs[i].type) for i in stacked}
            reads = [*(forward.inputs[i] for i in self.halves.inputs), *self.residuals]
            operands = [values[v] for v in reads] + [seeds[i] for i in self.seeded]
            found = dict(zip(self.wrt, inline(self.halves.backward, operands), strict=True))
            slices = [found[i] for i in self.wrt if i >= self.num_consts + self.num_carry]
            arrived = [
                _or_zeros(found.get(self.num_consts + i), self.body.outputs[i]) for i in self.slots
            ]
            totals = [ops.add(total, found[i]) for total, i in zip(sums, self.summed, strict=True)]
            return builder.finish([*arrived, *totals, *slices])

    def backward_operands(
        self,
        operands: Sequence[Value],
        invariants: Sequence[Value],
        stacks: Sequence[Value],
        given: dict[int, Value],
    ) -> list[Value]:
        """Return the operands of the backward scan, in the order of `backward_body`."""
        return [
            *(operands[i] for i in self.const_reads),
            *invariants,
            *(_or_zeros(given.get(i), self.body.outputs[i]) for i in self.slots),
            *(full(0, self.body.inputs[i].type) for i in self.summed),
            *(operands[i] for i in self.slice_reads),
            *stacks,
            *(given[i] for i in self.seeded if i >= self.num_carry),
        ]

    def cotangents(self, found: Sequence[Value], count: int) -> Cotangents:
        """Sort the results of the backward scan by the operand they belong to."""
        sliced = [i for i in self.wrt if i >= self.num_consts + self.num_carry]
        owners = [*(self.num_consts + i for i in self.slots), *self.summed, *sliced]
        by_operand = dict(zip(owners, found, strict=True))
        return tuple(by_operand.get(i) for i in range(count))


__all__ = ["linearize_scan"]
