"""Write a product in a chosen order, with op records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracer import ops
from tracer.ir import Value
from tracer.ops.helpers import reshape, spread
from tracer.optimizer.rewrite.chains.contraction_order import Contraction, Tree
from tracer.optimizer.rewrite.chains.cost import scaled_factor
from tracer.optimizer.rewrite.chains.product import Factor, Product, Scalar
from tracer.optimizer.rewrite.chains.sharing import Key, Subproducts
from tracer.optimizer.rewrite.match.einsum import expand, pair, sum_over

Named = tuple[Value, tuple[int, ...]]
"""A value and the labels of its axes."""
AvailableProducts = dict[Key, tuple[Value, tuple[int, ...]]]
"""Partial products that were written, with the places of their axes in the key's order."""


class Emitter:
    """Writes one product into the current builder.

    Parameters
    ----------
    product : Product
        What to compute.
    mapping : mapping of Value to Value
        Where its leaves are in the new graph.
    available : dict
        Partial products of this and other products; extended here.
    """

    def __init__(
        self, product: Product, mapping: Mapping[Value, Value], available: AvailableProducts
    ) -> None:
        self.product = product
        self.mapping = mapping
        self.available = available
        self.contraction = Contraction(product)
        self.names = Subproducts(product, self.contraction)
        self.scaled = scaled_factor(product, self.contraction)

    def emit(self, tree: Tree) -> Value:
        """Write the whole product and return the root's new value."""
        return reshape(self.emit_kept(tree), self.product.root.types[0].shape)

    def emit_kept(self, tree: Tree) -> Value:
        """Write the whole product, with the axes that are kept and no others."""
        value, axes, _ = self._tree(tree)
        value = value if self.scaled is not None else self._scaled(value)
        return self._ordered(value, axes)

    def known_result(self) -> Value | None:
        """Return the root's value when another chain has computed it, or None."""
        found = self._known(self.contraction.everything)
        if found is None:
            return None
        value, axes = found
        value = self._ordered(self._scaled(value), axes)
        return reshape(value, self.product.root.types[0].shape)

    def learn(self, value: Value) -> None:
        """Remember the root's value, which was computed as written."""
        shape = tuple(self.product.sizes[label] for label in self.product.kept)
        axes = set(self.product.kept)
        if not self.product.scalars and axes == _labels(self.product):
            named = (reshape(value, shape), self.product.kept)
            self._remember(self.contraction.everything, named)

    def _tree(self, tree: Tree) -> tuple[Value, tuple[int, ...], int]:
        if isinstance(tree, int):
            value, axes = self._factor(tree)
            if tree == self.scaled:
                value = self._scaled(value)
            return value, axes, 1 << tree
        left, right = self._members(tree[0]), self._members(tree[1])
        members = left | right
        found = self._known(members)
        if found is None:
            found = self._pair(tree, members)
            self._remember(members, found)
        return (*found, members)

    def _scaled(self, value: Value) -> Value:
        scalars = [
            replace(scalar, value=self.mapping[scalar.value])
            if isinstance(scalar.value, Value)
            else scalar
            for scalar in self.product.scalars
        ]
        return _scaled(value, scalars)

    def _members(self, tree: Tree) -> int:
        if isinstance(tree, int):
            return 1 << tree
        return self._members(tree[0]) | self._members(tree[1])

    def _pair(self, tree: tuple[Tree, Tree], members: int) -> Named:
        x, x_axes, _ = self._tree(tree[0])
        y, y_axes, _ = self._tree(tree[1])
        bits = self.contraction.axes(members)
        later = {label for label in self.product.sizes if bits >> label & 1}
        first = next((label for label in self.product.kept if label in later), None)
        if first in y_axes and first not in x_axes:
            # So the axes come out in the order of the result, and need no transpose.
            return pair((y, y_axes), (x, x_axes), later)
        return pair((x, x_axes), (y, y_axes), later)

    def _factor(self, position: int) -> Named:
        factor = self.product.factors[position]
        value = _taken(self.mapping[factor.value], factor, self.product.sizes)
        axes = factor.labels
        bits = self.contraction.axes(1 << position)
        kept = tuple(label for label in axes if bits >> label & 1)
        return sum_over(value, axes, kept), kept

    def _ordered(self, value: Value, axes: tuple[int, ...]) -> Value:
        """Put the axes in order and repeat along those that no factor has."""
        (type,) = self.product.root.types
        kept = self.product.kept
        shape = tuple(self.product.sizes[label] for label in kept)
        present = tuple(label for label in kept if label in axes)
        if axes != present:
            value = ops.transpose(value, permutation=tuple(map(axes.index, present)))
        return expand(value, present, type.with_shape(shape), kept)

    def _is_named(self, members: int) -> bool:
        """Tell whether a partial product can be shared: no number is multiplied into it."""
        return self.scaled is None or not members >> self.scaled & 1

    def _known(self, members: int) -> Named | None:
        if not self._is_named(members):
            return None
        key, order = self.names.of(members)
        if key not in self.available:
            return None
        value, places = self.available[key]
        return value, tuple(order[place] for place in places)

    def _remember(self, members: int, found: Named) -> None:
        if self._is_named(members):
            key, order = self.names.of(members)
            value, axes = found
            self.available[key] = (value, tuple(map(order.index, axes)))


def _labels(product: Product) -> set[int]:
    """Return the kept labels that some factor has."""
    return {n for factor in product.factors for n in factor.labels if n in product.kept}


def _taken(value: Value, factor: Factor, sizes: Mapping[int, int]) -> Value:
    """Return the elements of a leaf that the product reads, without axes of a single one."""
    places = factor.places
    counts = tuple(1 if p.label is None else sizes[p.label] for p in places)
    if counts != value.shape or any(p.start or p.stride != 1 for p in places):
        limits = tuple(
            p.start + (count - 1) * p.stride + 1 for p, count in zip(places, counts, strict=True)
        )
        value = ops.slice(
            value,
            start=tuple(p.start for p in places),
            limit=limits,
            strides=tuple(p.stride for p in places),
        )
    return reshape(value, tuple(sizes[label] for label in factor.labels))


def _scaled(value: Value, scalars: Sequence[Scalar]) -> Value:
    """Multiply by the numbers and divide by the divisors, which are joined first."""
    above = _joined([scalar for scalar in scalars if not scalar.divides], value)
    below = _joined([scalar for scalar in scalars if scalar.divides], value)
    if above is None:
        return value if below is None else ops.divide(value, spread(below, value.shape))
    factor = above if below is None else ops.divide(above, below)
    return ops.multiply(value, spread(factor, value.shape))  # type: ignore[no-any-return]


def _joined(scalars: list[Scalar], like: Value) -> Value | None:
    """Return the product of numbers, of shape (); None when there are none."""
    total: Value | None = None
    for scalar in scalars:
        number = scalar.value
        if isinstance(number, int):
            # Integers wrap around, as the sum that this counts would.
            number = ops.constant(value=np.asarray(number).astype(like.dtype))
        number = reshape(number, ())
        total = number if total is None else ops.multiply(total, number)
    return total
