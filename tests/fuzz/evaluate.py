"""Values of graphs: in float64 whatever their own types, and with rounding made visible.

How far a right program may be off is measured, not guessed (stochastic arithmetic, after Vignes'
CESTAC and Verrou): the graph is interpreted in float64 again with every computed value moved by a
random share of a rounding of the program's own type. Where that moves results much, they may
differ much: a sum that cancels, an ill-conditioned solve, a comparison of nearly equal numbers.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, interpret

Array = np.ndarray[Any, Any]
_INTERPRETER = importlib.import_module("tracer.ir.interpret")
_WIDE = {
    np.dtype("float16"): np.dtype("float64"),
    np.dtype("float32"): np.dtype("float64"),
    np.dtype("complex64"): np.dtype("complex128"),
}
_EXACT = frozenset(
    "abs negate broadcast_in_dim reshape transpose concatenate pad slice reverse gather select "
    "dynamic_slice dynamic_update_slice convert constant iota maximum minimum sort top_k real imag "
    "complex clamp sign floor ceil reduce_maximum reduce_minimum stop_gradient while case scan "
    "optimization_barrier small_call custom_vjp_call custom_jvp_call plain_call checkpoint "
    "checkpoint_name cumulative_maximum cumulative_minimum compare".split()
)
"""Ops that choose or move numbers, or run bodies: these round nothing themselves."""


def wide(dtype: Any) -> np.dtype[Any]:
    """Return the type of 64 bits a part that stands for another one."""
    return _WIDE.get(np.dtype(dtype), np.dtype(dtype))


def widened(graph: Graph) -> Graph:
    """Return a graph with float64 in place of smaller floating types, in its bodies too."""
    mapping: dict[Value, Value] = {}
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(_wide_type(value.type), value.node.source)
        for node in graph.nodes:
            builder.source = node.source
            assert node.op is not None
            params = {key: _wide_param(item) for key, item in node.params.items()}
            found = builder.add(node.op, tuple(mapping[v] for v in node.operands), params)
            results = found if isinstance(found, tuple) else (found,)
            mapping.update(zip(node.results, results, strict=True))
    return builder.finish([mapping[value] for value in graph.outputs])


def all_nodes(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph and of its bodies."""
    for node in graph.nodes:
        yield node
        for body in node.body_graphs:
            yield from all_nodes(body)


def _wide_type(type: ShapeDtype) -> ShapeDtype:
    return ShapeDtype(type.shape, wide(type.dtype))


def _wide_param(item: Any) -> Any:
    if isinstance(item, Graph):
        return widened(item)
    if isinstance(item, tuple):
        return tuple(map(_wide_param, item))
    if isinstance(item, np.dtype):
        return wide(item)
    return item.astype(wide(item.dtype)) if isinstance(item, np.ndarray) else item


def values(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Return what a graph computes in float64; the arrays are widened too.

    A graph that reads the bits of numbers is interpreted in its own types.
    """
    return in_own_dtypes(graph if reads_bits(graph) else widened(graph), arrays)


def reads_bits(graph: Graph) -> bool:
    """Tell whether a graph means something in its own dtypes only."""
    return any(node.name == "bitcast_convert" for node in all_nodes(graph))


def in_own_dtypes(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Return what a graph computes in the dtypes that it has."""
    given = [
        np.asarray(array).astype(type.dtype)
        for array, type in zip(arrays, graph.input_types, strict=True)
    ]
    with quiet():
        return [np.asarray(array) for array in interpret(graph, given)]


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of overflows and NaNs: they are compared."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


class Noise:
    """How far the results of a graph move by roundings of a type; more draws where asked.

    Most programs are right to a few roundings of their largest number, which `is_plainly_right`
    sees without any draw.
    """

    def __init__(
        self, graph: Graph, arrays: Sequence[Array], exact: Sequence[Array], dtype: str
    ) -> None:
        self.graph, self.exact = graph, exact
        self.arrays = [np.asarray(array) for array in arrays]
        self.eps = float(np.finfo(dtype).eps)
        self.draws = 0
        self.largest = [np.zeros(np.shape(array)) for array in exact]

    def draw(self, count: int, seed: int = 0) -> Noise:
        """Interpret the graph so many times more with moved values."""
        for _ in range(count):
            rng = np.random.default_rng([seed, self.draws])
            self.draws += 1
            moved = [_moved(a.astype(wide(a.dtype)), self.eps, rng) for a in self.arrays]
            with _noisy(self.eps, rng):
                found = values(self.graph, moved)
            with quiet():
                pairs = zip(self.largest, found, self.exact, strict=True)
                self.largest = [np.maximum(old, _distance(new, true)) for old, new, true in pairs]
        return self

    def is_plainly_right(self, found: Sequence[Any]) -> bool:
        """Tell whether results are equal but for a few roundings of their largest numbers."""
        roundings = _PLAIN[self.eps > _WIDE_EPS] * self.eps
        return len(found) == len(self.exact) and all(
            difference(array, true, roundings * _largest(true)) is None
            for array, true in zip(found, self.exact, strict=True)
        )

    def tolerance(self, position: int) -> Array:
        """Return how far each element of a result may be off."""
        moved, exact = self.largest[position], self.exact[position]
        if not moved.size:
            return moved
        finite = np.where(np.isfinite(moved), moved, 0)
        whole = float(np.sqrt(np.mean(finite**2)))
        size = np.where(np.isfinite(exact), np.abs(exact), 0)
        return 30 * moved + 20 * whole + 8 * self.eps * size + _tiny(self.eps)

    def has_digits(self, position: int) -> bool:
        """Tell whether roundings leave a result what it is, in nearly all elements.

        In a chaotic program (a recurrence of complex `tanh` meets its poles) any two roundings
        give any two numbers, some of them large: nothing can be compared.
        """
        moved, exact = self.largest[position], np.abs(self.exact[position])
        if not moved.size:
            return True
        with quiet():
            return bool(np.mean(moved > _LOST * exact) <= _LOST_SHARE)


_WIDE_EPS = 1e-10
"""Programs whose numbers have smaller roundings are interpreted in their own type."""
_ALIKE = 128
"""Alike terms of which a chain loses one rounding: several chains go side by side in vectors."""
_LOST, _LOST_SHARE = 0.1, 0.05
"""A result has no digits where more than this share of it moves by more than this of its size."""
_PLAIN = {True: 64.0, False: 1000.0}
"""Roundings of the largest number that pass without a look, in float32 and in float64."""


def _largest(array: Array) -> Any:
    finite = np.abs(array[np.isfinite(array)])
    return finite.max(initial=0.0)


def _tiny(eps: float) -> float:
    return 1e-30 if eps > _WIDE_EPS else 1e-200


def _distance(found: Array, true: Array) -> Array:
    """Return absolute differences: 0 for equal infinities and for NaN twice, infinite for one."""
    same = (found == true) | (np.isnan(found) & np.isnan(true))
    away = np.abs(np.subtract(found, true, dtype=_room(found)))
    return np.where(same, 0.0, np.where(np.isnan(away), np.inf, away))


def _room(array: Array) -> Any:
    return np.complex128 if array.dtype.kind == "c" else np.float64


def _moved(array: Array, eps: float, rng: np.random.Generator) -> Array:
    if array.dtype.kind not in "fc":
        return array
    factors = 1 + eps * rng.uniform(-1, 1, array.shape)
    return np.asarray(array * factors).astype(array.dtype)


@contextmanager
def _noisy(eps: float, rng: np.random.Generator) -> Iterator[None]:
    """Move all that is computed inside of the context, in bodies of loops too."""
    evaluate: Callable[..., list[Array]] = _INTERPRETER._evaluate

    def moved(node: Node, operands: list[Array], *others: Any) -> list[Array]:
        results = evaluate(node, operands, *others)
        if node.name in _EXACT:
            return results
        rounding = eps * _chain(node) if eps < _WIDE_EPS else eps
        return [_moved(array, rounding, rng) for array in results]

    _INTERPRETER._evaluate = moved
    try:
        yield
    finally:
        _INTERPRETER._evaluate = evaluate


def _chain(node: Node) -> float:
    """Return how many roundings the sums of a node may be off by, when their terms are alike.

    The interpreter sums in float64 as well, so for a program of float64 it is no better than what
    it judges: NumPy's product of 75,000 alike terms was 95 roundings off, and XLA's was 3. Its
    running sum of 70,001 was 1,900 off: it adds one after the other.
    """
    if node.name == "cumulative_add":
        return max(1.0, node.types[0].shape[node.params["axis"]] / _ALIKE)
    if node.name not in ("dot_general", "reduce_add"):
        return 1.0
    sizes = [operand.type.size for operand in node.operands]
    terms = math.prod(sizes) / max(1, node.results[0].type.size)
    terms = math.sqrt(terms) if len(sizes) == 2 else terms
    return max(1.0, terms / _ALIKE)


def difference(found: Any, true: Array, tolerance: Any) -> tuple[float, float] | None:
    """Return how far a result is off, or None where it is within its tolerance.

    Returns
    -------
    (relative, share) or None
        The largest difference by the largest true number, and the share of elements that are off.
    """
    found = np.asarray(found)
    if found.shape != true.shape:
        return float("inf"), 1.0
    if not found.size:
        return None
    with quiet():
        away = _distance(found.astype(wide(found.dtype)), true)
        bad = away > tolerance
        if not bad.any():
            return None
        finite = np.abs(true[np.isfinite(true)])
        scale = float(finite.max()) if finite.size and finite.max() else 1.0
        return float(away[bad].max() / scale), float(bad.mean())
