"""The op record and its registry. One op is one record; no other file keeps a list of op names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tracer.errors import VerifyError
from tracer.ir.combining import Merge, Piece, Response
from tracer.ir.types import AxisRule, Cost, ShapeDtype

# Values and graphs are made of nodes, which hold ops, so graph.py imports this file.
Value: TypeAlias = Any
Graph: TypeAlias = Any
Types = tuple[ShapeDtype, ...]
Fusion = Literal["loop", "view", "reduce", "opaque"]
"""How XLA treats the op: "loop" ops are computed inside their consumers and need no memory of
their own, a "view" (reshape) shares its operand's memory, "reduce" ops take producers in but store
their result, "opaque" ops read and write memory (library calls, sorts, loops)."""


@dataclass(frozen=True)
class NotDifferentiable:
    """Said in place of a vjp: the op has no derivative, for this reason.

    With `zero=True` the derivative is zero almost everywhere (floor, comparisons, integer
    results), so gradients stop silently, as in JAX; otherwise asking for one is an error, whose
    message ends with `mend`: what to write instead.
    """

    reason: str
    zero: bool = False
    mend: str = "wrap its operands in tracer.stop_gradient if no gradient should flow through it"


def same_params(operands: tuple[Value, ...], chunk: Chunk, **params: Any) -> Any:
    """Emit the op on slices of its operands: nothing in the parameters depends on the sizes."""
    return chunk.op(*operands, **params)


def never(**_: Any) -> bool:
    """Say no, whatever the parameters."""
    return False


def always(**_: Any) -> bool:
    """Say yes, whatever the parameters."""
    return True


@dataclass(frozen=True)
class Chunk:
    """One slice of an op along a labelled axis, for `Op.slice` rules.

    Attributes
    ----------
    op : Op
        The op that is sliced.
    label : label
        The axis, by its name in the op's axis rule.
    start : Value
        First index of the slice along the label, a scalar int32 or int64.
    size : int
        Elements in the slice; blocks along a label of `AxisRule.steps`, and `start` counts these.
    operand_types, result_types : tuple of ShapeDtype
        The types of the whole, unsliced op.
    rule : AxisRule
        The op's axis rule.
    """

    op: Op
    label: Any
    start: Value
    size: int
    operand_types: Types
    result_types: Types
    rule: AxisRule

    @property
    def result_axis(self) -> int:
        """Axis of the first result that is sliced."""
        return self.rule.results[0].index(self.label)

    @property
    def result_size(self) -> int:
        """Elements of the first result's slice along the label."""
        steps = self.rule.steps.get(self.label)
        if steps is None:
            return self.size
        return self.size * (self.result_types[0].shape[self.result_axis] // steps)


@dataclass(frozen=True)
class Batching:
    """One more parallel axis for an op, in front, for `Op.batch` rules.

    Attributes
    ----------
    op : Op
        The op that is batched.
    size : int
        Elements along the new axis.
    batched : tuple of bool
        For each operand whether it has the axis.
    batch_graph : callable
        `(graph, batched inputs, size, wanted outputs) -> (graph, batched outputs)`: the same for
        a body. Outputs flagged as wanted are given the axis also if they do not depend on it.
    """

    op: Op
    size: int
    batched: tuple[bool, ...]
    batch_graph: Callable[..., tuple[Graph, tuple[bool, ...]]]


@dataclass(frozen=True, eq=False)
class Op:
    """One operation of the vocabulary, complete.

    Parameters
    ----------
    name : str
        StableHLO's name where it has one.
    doc : str
        What it computes and the source of its definition.
    infer : callable
        `(*operand types, **params) -> ShapeDtype | tuple of ShapeDtype`; raises `ShapeError` or
        `DTypeError`. A tuple means an op with several results.
    evaluate : callable
        `(*numpy arrays, **params) -> array | tuple of arrays`: the meaning, in NumPy.
    lower : callable
        `(builder, result types, *operands, **params) -> operand | tuple`, with the StableHLO
        builder that the lowering room passes in.
    vjp : callable or NotDifferentiable
        `(g, out, *operands, **params) -> tuple of (Value or None), one for each operand`. For an
        op with several results `g` and `out` are tuples, and entries of `g` may be None.
    axes : callable
        `(operand types, result types, **params) -> AxisRule`.
    cost : callable
        `(operand types, result types, **params) -> Cost`.
    slice : callable
        `(operand slices, chunk, **params) -> Value | tuple`: emit the op on one slice.
    reuses : tuple of int
        Operands that are read in the order in which the (first) result is written, each element
        before it: the result may take over the buffer of one that has as many bytes.
    fusion : {"loop", "view", "reduce", "opaque"}
        How XLA materialises it; see `Fusion`.
    tests_equality : callable
        `(**params) -> bool`: the result depends on equality of the operands to the last digit, so a
        recomputed operand must not meet a value derived from its first computation.
    commutes : callable
        `(**params) -> bool`: the two operands may change places, bit for bit.
    pure : bool
        False for ops that must not be removed, merged or computed again.
    effect : bool
        True for ops that act on the world outside of the program: they are kept although nothing
        needs their result, and run exactly as often as they are written.
    calls_host : bool
        True for ops that call Python while the program runs.
    known_as : str
        The op that users know, of which a pass makes this one; empty: its own name.
    linearize : callable, optional
        For ops that hold bodies or whose gradient wants more of them than their results, in
        place of `vjp`: `(rules, active, wanted, *operands, **params) -> (results, pull_back)`.
        It emits the op so that the backward pass finds what it needs, and returns
        `pull_back(g) -> tuple of (Value or None)`. `rules` is the
        differentiator (`autodiff.ReverseRules`, received so that ops need not import it),
        `active` tells for each operand whether its cotangent is asked for, `wanted` for each
        result whether a cotangent may come.
    expand : callable, optional
        `(*operands, **params) -> tuple of Value`: the op written with other ops. For ops that
        only matter to differentiation; the passes and the lowering see the expansion.
    batch : callable, optional
        `(operands, batching, **params) -> Value | tuple`: emit the op on operands of which some
        have one more axis in front. Each result has that axis in front too, or its old type when
        it does not depend on it. None: the axis rule says it all, since a further leading axis
        leaves the parameters as they are.
    invariants : callable, optional
        For loops and branches: `(number of operands, **params) -> positions` of the operands that
        every run of the bodies is given unchanged.
    is_partitioned : bool
        False for what is a library's call to XLA: its partitioner gathers the operands and every
        device computes all of it, batches too.
    sink : callable, optional
        For loops and branches: `(operands, leaves, generator, **params) -> results`: emit the op
        with bodies that compute some of the invariants themselves, from `leaves`; see
        `ops.generator`.
    merge : Merge, optional
        How slices along an axis that goes come together. None, for the op that an axis rule names
        as a combiner: the op itself joins two partial results.
    neutral : callable, optional
        `(operand types, **params) -> tuple of scalars`, one for each operand: operands that hold it
        behind the end of a reduced axis give the same results as without these elements.
    response : Response, optional
        How the result changes when operands are shifted or multiplied. None: not known.
    repeats : bool
        True for ops whose real results XLA's CPU compiler computes in every kernel that reads them,
        though they take many operations.
    branches : bool
        True for ops of which an element is found by a branch: XLA's CPU compiler does not compute
        them twice within a kernel.
    jumps : tuple of int
        Operands near some value of which the smallest change may change the result by any amount
        (denominators, arguments of logarithms and roots, keys of sorts), although there is a
        derivative.
    pieces : callable, optional
        For ops that put arrays together or take them apart: `(operand types, result types, axis,
        constants, **params) -> sequence of Piece, or None`: which runs of operands are side by
        side along an axis of the result. `constants` are the operands that are known arrays, None
        for others. None as the answer: the axis rule says it all, or nothing does.
    """

    name: str
    doc: str
    infer: Callable[..., ShapeDtype | Types]
    evaluate: Callable[..., Any]
    lower: Callable[..., Any]
    vjp: Callable[..., tuple[Any, ...]] | NotDifferentiable
    axes: Callable[..., AxisRule]
    cost: Callable[..., Cost]
    slice: Callable[..., Any] = same_params
    reuses: tuple[int, ...] = ()
    fusion: Fusion = "opaque"
    tests_equality: Callable[..., bool] = never
    commutes: Callable[..., bool] = never
    pure: bool = True
    effect: bool = False
    calls_host: bool = False
    known_as: str = ""
    is_partitioned: bool = True
    linearize: Callable[..., Any] | None = None
    expand: Callable[..., tuple[Value, ...]] | None = None
    batch: Callable[..., Any] | None = None
    merge: Merge | None = None
    response: Response | None = None
    neutral: Callable[..., tuple[Any, ...]] | None = None
    pieces: Callable[..., Sequence[Piece] | None] | None = None
    invariants: Callable[..., Iterable[int]] | None = None
    sink: Callable[..., Sequence[Value]] | None = None
    vectors: tuple[str, ...] = ()
    jumps: tuple[int, ...] = ()
    repeats: bool = False
    branches: bool = False

    def __post_init__(self) -> None:
        """Enter the op into the registry."""
        if self.name in _OPS:
            raise VerifyError(f"op {self.name!r} is defined twice", mend="give it another name")
        _OPS[self.name] = self

    def __call__(self, *operands: Value, **params: Any) -> Any:
        """Add a node to the graph that is being built; returns its value, or a tuple of them."""
        return active_builder().add(self, operands, params)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class _Builders(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


BUILDERS = _Builders()
"""The builders that op records add their nodes to in this thread, the innermost last."""


def active_builder() -> Any:
    """Return the innermost active builder of this thread."""
    if not BUILDERS.stack:
        raise VerifyError(
            "an op record was called while no graph is being built",
            mend="call the function of tracer.numpy, or enter a Builder first",
        )
    return BUILDERS.stack[-1]


_OPS: dict[str, Op] = {}


def registry() -> Mapping[str, Op]:
    """Return all ops by name. Complete once `tracer.ops` is imported."""
    return _OPS
