"""Compare the derivatives of a graph with finite differences, to any order.

The NumPy interpreter evaluates everything, so the check needs no backend. It uses random
directions: `<g, J t>` from differences is compared with `<J^T g, t>` from reverse mode, and `J t`
with forward mode. Source: `jax.test_util.check_grads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.autodiff.forward import jvp_graph
from tracer.autodiff.reverse import vjp_graph
from tracer.autodiff.sweep import inexact_positions
from tracer.errors import ArgumentError, GradientCheckError
from tracer.ir import Graph, ShapeDtype
from tracer.ir.interpret import interpret
from tracer.ops.rules import real_dtype

Array = np.ndarray[Any, Any]
# (step, tolerance) by bytes of the real dtype: the step is a little below the fifth root of the
# rounding error, where truncation (step**4, extrapolated) and cancellation balance.
_BY_SIZE = {8: (2e-4, 1e-6), 4: (3e-2, 1e-2), 2: (2e-1, 2e-1), 1: (5e-1, 5e-1)}
MODES = ("rev", "fwd")


def check_graph(
    graph: Graph,
    arrays: Sequence[Array],
    *,
    wrt: Sequence[int] | None = None,
    order: int = 2,
    modes: Sequence[str] = ("rev",),
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> None:
    """Check the derivatives of a graph at one point, up to `order`.

    Parameters
    ----------
    graph : Graph
        What is differentiated.
    arrays : sequence of np.ndarray
        The point: one array for each input.
    wrt : sequence of int, optional
        Positions of the inputs that change, all floating or complex; by default all such inputs.
    order : int
        1 checks gradients, 2 also gradients of gradients, and so on.
    modes : sequence of {"rev", "fwd"}
        Which derivatives to compare with the differences.
    eps : float, optional
        Step of the central differences; by default it suits the coarsest dtype of the inputs.
    atol, rtol : float, optional
        Tolerances; by default they suit that dtype.

    Raises
    ------
    GradientCheckError
        A derivative differs from the difference.
    ArgumentError
        `order` is below 1 or a mode is unknown.
    """
    if order < 1 or not modes or not set(modes) <= set(MODES):
        raise ArgumentError(
            f"check_grads got order {order} and modes {tuple(modes)}",
            mend=f"give an order of 1 or more and modes among {MODES}",
        )
    for mode in modes:
        given = [np.asarray(array) for array in arrays]
        rng = np.random.default_rng(0)
        derivative = graph
        places = inexact_positions(graph.input_types) if wrt is None else tuple(wrt)
        for level in range(1, order + 1):
            check = _Check(derivative, given, places, mode, rng)
            if not check.wrt or not check.outputs:
                break
            check.compare(level, eps=eps, atol=atol, rtol=rtol)
            places += tuple(range(len(given), len(check.operands)))
            derivative, given = check.derivative, check.operands


class _Check:
    """One comparison of one graph's derivative in random directions."""

    def __init__(
        self,
        graph: Graph,
        arrays: list[Array],
        wrt: tuple[int, ...],
        mode: str,
        rng: np.random.Generator,
    ) -> None:
        self.graph, self.arrays, self.wrt, self.mode = graph, arrays, wrt, mode
        self.outputs = inexact_positions(graph.output_types)
        self.tangents = [_random(graph.inputs[i].type, rng) for i in self.wrt]
        self.cotangents = [_random(graph.outputs[i].type, rng) for i in self.outputs]
        differentiate = vjp_graph if mode == "rev" else jvp_graph
        self.derivative = differentiate(graph, self.wrt, self.outputs)
        self.operands = arrays + (self.cotangents if mode == "rev" else self.tangents)

    def compare(
        self, order: int, *, eps: float | None, atol: float | None, rtol: float | None
    ) -> None:
        """Raise unless derivative and difference agree."""
        sizes = [real_dtype(self.graph.inputs[i].dtype).itemsize for i in self.wrt]
        step, tolerance = _BY_SIZE[min(sizes)]
        wanted = self._difference(step if eps is None else eps)
        results = interpret(self.derivative, self.operands)
        if self.mode == "rev":
            found = _inner(self.tangents, results)
        else:
            found = _inner(self.cotangents, results[-len(self.outputs) :])
        atol = tolerance if atol is None else atol
        rtol = tolerance if rtol is None else rtol
        if not np.isclose(found, wanted, atol=atol, rtol=rtol):
            raise GradientCheckError(
                f"the {self.mode} derivative of order {order} is {found:.9g} in a random "
                f"direction, the finite difference is {wanted:.9g} (atol {atol:g}, rtol {rtol:g})",
                mend="look for a wrong rule (custom_vjp, an op's vjp); near a kink or a pole of "
                "the function, check at another point; for rounding, use float64",
            )

    def _difference(self, step: float) -> float:
        """Return <cotangents, directional derivative> by extrapolated central differences."""
        return (4 * self._central(step / 2) - self._central(step)) / 3

    def _central(self, step: float) -> float:
        ends = [self._outputs_at(sign * step / 2) for sign in (1, -1)]
        pairs = zip(*ends, strict=True)
        return _inner(self.cotangents, [(above - below) / step for above, below in pairs])

    def _outputs_at(self, step: float) -> list[Array]:
        moved = list(self.arrays)
        for position, tangent in zip(self.wrt, self.tangents, strict=True):
            wide = _wide(self.arrays[position]) + step * _wide(tangent)
            moved[position] = wide.astype(self.arrays[position].dtype)
        results = interpret(self.graph, moved)
        return [_wide(results[i]) for i in self.outputs]


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _inner(first: Sequence[Array], second: Sequence[Array]) -> float:
    """Sum the real parts of the products: without conjugates, as cotangents are defined."""
    pairs = zip(first, second, strict=True)
    return float(sum(np.sum(_wide(a) * _wide(b)).real for a, b in pairs))


def _random(type: ShapeDtype, rng: np.random.Generator) -> Array:
    values = rng.standard_normal(type.shape)
    if type.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(type.shape)
    return np.asarray(values).astype(type.dtype)


__all__ = ["MODES", "check_graph"]
