"""Read a tree of products as one contraction over named axes.

`(A @ B).T @ v`, `c * (A @ B)`, `w[:, None] * X`, `reduce_sum(A @ B, 1)` and `(A @ B)[2, 2]` are all
sums of products of leaves whose axes have names, like an einsum. This form no longer says in which
order the products are taken. Between the products a tree may hold transposes, reshapes by axes of
size one, broadcasts, sums, scalings and slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import ml_dtypes

from tracer import ops
from tracer.ir import Node, Op, Value
from tracer.ops.product import free_axes
from tracer.ops.reduce import kept_axes
from tracer.ops.rules import dtype_kind, is_float, is_inexact
from tracer.optimizer.rewrite.simplify import constant_value

MAXIMUM_FACTORS = 32
_SMALLEST_RANGE = 1e38


@dataclass(frozen=True)
class Place:
    """Where along one axis of a value the elements lie that an index of the product means.

    Index i of `label` is element `start + stride * i`; without a label it is the one at `start`.
    """

    label: int | None
    start: int = 0
    stride: int = 1


Places = tuple[Place, ...]
ONE = Place(None)


@dataclass(frozen=True)
class Factor:
    """A leaf of the product: a value, the place of each of its axes, and a number for the value."""

    value: Value
    places: Places
    number: int

    @property
    def labels(self) -> tuple[int, ...]:
        """Names of the axes, in order; axes of which one element is taken have none."""
        return tuple([place.label for place in self.places if place.label is not None])


@dataclass(frozen=True)
class Scalar:
    """A number that multiplies the product, or divides it."""

    value: Value | int
    divides: bool = False


@dataclass(frozen=True)
class Product:
    """The sum, over every label that is not kept, of the product of the factors.

    `nodes` are those that compute it as written, the root last; `kept` are the labels of the
    root's axes that are longer than one.
    """

    factors: tuple[Factor, ...]
    scalars: tuple[Scalar, ...]
    kept: tuple[int, ...]
    sizes: Mapping[int, int]
    nodes: tuple[Node, ...]

    @property
    def root(self) -> Node:
        """The node whose result the product is."""
        return self.nodes[-1]

    @property
    def multiplies_matrices(self) -> bool:
        """Tell whether a general product is among the nodes."""
        return any(node.op is ops.dot_general for node in self.nodes)


class Reader:
    """Reads one tree from its root towards the leaves.

    Parameters
    ----------
    uses : mapping of Value to int
        How often each value is read, outputs included. A result that others need too is a leaf.
    numbers : dict of Value to int
        Numbers of the leaves of all trees; extended here.
    inlined : frozenset of Value
        Results to read through anyway.
    instead : mapping of Value to Value, optional
        Leaves in whose place others are read.
    """

    def __init__(
        self,
        uses: Mapping[Value, int],
        numbers: dict[Value, int],
        inlined: frozenset[Value] = frozenset(),
        instead: Mapping[Value, Value] | None = None,
    ) -> None:
        self.uses = uses
        self.instead = instead or {}
        self.numbers = numbers
        self.inlined = inlined
        self.sizes: dict[int, int] = {}
        self.factors: list[Factor] = []
        self.scalars: list[Scalar] = []
        self.nodes: list[Node] = []

    def read(self, root: Node) -> Product:
        """Return the product that `root` computes, of at most `MAXIMUM_FACTORS` factors."""
        (type,) = root.types
        places = tuple(map(self.fresh, type.shape))
        stack = [(root.results[0], places, True)]
        while stack:
            value, where, is_own = stack.pop()
            value = self.instead.get(value, value)
            is_full = len(self.factors) + len(stack) >= MAXIMUM_FACTORS - 1
            opened = None
            if not is_full:
                opened = self._operands(value, where, is_own, value.node is root)
            if opened is None:
                self._add_leaf(value, where)
            else:
                stack.extend(reversed(opened))
        kept = tuple([place.label for place in places if place.label is not None])
        nodes = tuple(reversed(self.nodes))
        scalars = tuple(self._all_scalars(kept))
        return Product(tuple(self.factors), scalars, kept, self.sizes, nodes)

    def fresh(self, size: int) -> Place:
        """Return a new label for an axis; one of a single element needs none."""
        if size == 1:
            return ONE
        label = len(self.sizes)
        self.sizes[label] = size
        return Place(label)

    def _operands(
        self, value: Value, places: Places, is_own: bool, is_root: bool
    ) -> list[tuple[Value, Places, bool]] | None:
        """Return what a node's result is the product of, or None for a leaf."""
        node = value.node
        reader = _READERS.get(node.op) if node.op is not None else None
        if reader is None:
            return None
        is_own = (is_own and (is_root or self.uses[value] == 1)) or value in self.inlined
        # A view costs nothing, so also one that others read is looked through.
        if not is_own and node.op not in VIEWS:
            return None
        parts = reader(self, node, places)
        if parts is not None and is_own:
            self.nodes.append(node)
        return None if parts is None else [(part, where, is_own) for part, where in parts]

    def _add_leaf(self, value: Value, places: Places) -> None:
        if value.type.size == 1:
            constant = constant_value(value)
            if constant is None or constant.item() != 1:
                self.scalars.append(Scalar(value))
        else:
            number = self.numbers.setdefault(value, len(self.numbers))
            self.factors.append(Factor(value, places, number))

    def _all_scalars(self, kept: tuple[int, ...]) -> list[Scalar]:
        """Add the sizes of the axes that are summed although no factor has them."""
        named = {label for factor in self.factors for label in factor.labels}
        lonely = [self.sizes[n] for n in range(len(self.sizes)) if n not in named and n not in kept]
        return self.scalars + [Scalar(size) for size in lonely]


Parts = list[tuple[Value, Places]]


def _read_product(reader: Reader, node: Node, places: Places) -> Parts:
    x, y = node.operands
    params = node.params
    left, right = [ONE] * x.type.ndim, [ONE] * y.type.ndim
    batch = len(params["lhs_batch"])
    for i, j, place in zip(params["lhs_batch"], params["rhs_batch"], places, strict=False):
        left[i] = right[j] = place
    for i, j in zip(params["lhs_contracting"], params["rhs_contracting"], strict=True):
        left[i] = right[j] = reader.fresh(x.shape[i])
    rows = free_axes(x.type.ndim, params["lhs_batch"], params["lhs_contracting"])
    columns = free_axes(y.type.ndim, params["rhs_batch"], params["rhs_contracting"])
    for i, place in zip(rows, places[batch:], strict=False):
        left[i] = place
    for j, place in zip(columns, places[batch + len(rows) :], strict=True):
        right[j] = place
    return [(x, tuple(left)), (y, tuple(right))]


def _read_transpose(reader: Reader, node: Node, places: Places) -> Parts:
    (x,) = node.operands
    by_axis = dict(zip(node.params["permutation"], places, strict=True))
    return [(x, tuple(by_axis[axis] for axis in range(x.type.ndim)))]


def _read_reshape(reader: Reader, node: Node, places: Places) -> Parts | None:
    (x,) = node.operands
    shape = node.types[0].shape
    long = [place for place, size in zip(places, shape, strict=True) if size != 1]
    if [size for size in x.shape if size != 1] != [size for size in shape if size != 1]:
        return None
    remaining = iter(long)
    return [(x, tuple(ONE if size == 1 else next(remaining) for size in x.shape))]


def _read_broadcast(reader: Reader, node: Node, places: Places) -> Parts:
    (x,) = node.operands
    shape, dimensions = node.params["shape"], node.params["dimensions"]
    targets = zip(x.shape, dimensions, strict=True)
    return [(x, tuple(places[d] if n == shape[d] else ONE for n, d in targets))]


def _read_sum(reader: Reader, node: Node, places: Places) -> Parts:
    (x,) = node.operands
    axes = node.params["axes"]
    where = dict(zip(kept_axes(x.type.ndim, axes), places, strict=True))
    where |= {axis: reader.fresh(x.shape[axis]) for axis in axes}
    return [(x, tuple(where[axis] for axis in range(x.type.ndim)))]


def _read_multiply(reader: Reader, node: Node, places: Places) -> Parts:
    return [(operand, places) for operand in node.operands]


def _read_divide(reader: Reader, node: Node, places: Places) -> Parts | None:
    above, below = node.operands
    divisor = below.node.operands[0] if below.node.op is ops.broadcast_in_dim else below
    if divisor.type.size != 1 or not is_inexact(below.dtype):
        return None
    reader.scalars.append(Scalar(divisor, divides=True))
    return [(above, places)]


def _read_negate(reader: Reader, node: Node, places: Places) -> Parts | None:
    if dtype_kind(node.types[0].dtype) == "u":
        return None
    reader.scalars.append(Scalar(-1))
    return [(node.operands[0], places)]


def _read_slice(reader: Reader, node: Node, places: Places) -> Parts:
    (x,) = node.operands
    parameters = zip(places, node.params["start"], node.params["strides"], x.shape, strict=True)
    where = tuple(
        ONE if n == 1 else Place(place.label, start + stride * place.start, stride * place.stride)
        for place, start, stride, n in parameters
    )
    return [(x, where)]


VIEWS = frozenset({ops.transpose, ops.reshape, ops.broadcast_in_dim})
_READERS: dict[Op, Callable[[Reader, Node, Places], Parts | None]] = {
    ops.dot_general: _read_product,
    ops.transpose: _read_transpose,
    ops.reshape: _read_reshape,
    ops.broadcast_in_dim: _read_broadcast,
    ops.reduce_add: _read_sum,
    ops.multiply: _read_multiply,
    ops.divide: _read_divide,
    ops.negate: _read_negate,
    ops.slice: _read_slice,
}


def is_read(node: Node) -> bool:
    """Tell whether a node can be the root of a tree."""
    return node.op in _READERS and node.op not in VIEWS


def is_readable(product: Product) -> bool:
    """Tell whether a product may be computed in another order at all.

    float16 and float8 are left alone: what is finite in one order may overflow in another.
    """
    if not product.nodes or not product.factors or 0 in product.sizes.values():
        return False
    dtype = product.root.types[0].dtype
    return not is_float(dtype) or float(ml_dtypes.finfo(dtype).max) > _SMALLEST_RANGE  # type: ignore[no-untyped-call] # no types
