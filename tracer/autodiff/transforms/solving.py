"""Solutions whose derivative is that of the equation, not of the way to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, apply_graph
from tracer.array.promotion import weak_class
from tracer.autodiff.transforms.arguments import check_callable, trace_in
from tracer.autodiff.transforms.custom import custom_vjp
from tracer.autodiff.transforms.custom_forward import custom_jvp
from tracer.autodiff.transforms.linear import jvp, linearize, vjp
from tracer.errors import ArgumentError, NotDifferentiableError, ShapeError
from tracer.ir import ShapeDtype

Function = Callable[..., Any]


class _Closed:
    """A function of one nested argument, with the arrays that it closes over as an argument."""

    def __init__(self, name: str, function: Function, example: Any) -> None:
        self.name = name
        traced = trace_in(name, function, (tree.map(as_array, example),), [0], {})
        self.graph, self.structure = traced.graph, traced.out_tree
        self.captured = traced.arrays[traced.leaves :]
        inexact = [i for i, x in enumerate(self.captured) if x.dtype.kind not in "biu"]
        self.consts = tuple(self.captured[i] for i in inexact)
        self._inexact = inexact

    def __call__(self, consts: Sequence[Array], argument: Any) -> Any:
        """Apply the function with other arrays in place of those that it closes over."""
        closed = list(self.captured)
        for position, array in zip(self._inexact, consts, strict=True):
            closed[position] = array
        types = self.graph.input_types
        leaves = [
            _of_type(self.name, *row) for row in zip(tree.leaves(argument), types, strict=False)
        ]
        return tree.unflatten(self.structure, apply_graph(self.graph, [*leaves, *closed]))


def _of_type(name: str, leaf: Any, type: ShapeDtype) -> Array:
    array = as_array(leaf)
    if weak_class(leaf) is not None:
        array = convert(array, type.dtype)
    if array.type != type:
        raise ShapeError(
            f"{name}: the function was given {array.type}, it is one of {type}",
            mend="give arrays of the shapes and dtypes of the first argument",
        )
    return array


def _negative(x: Any) -> Array:
    return apply(ops.negate, as_array(x))


def _zeros(x: Array) -> Array:
    return as_array(np.zeros(x.shape, x.dtype))


def custom_root(
    f: Function,
    initial_guess: Any,
    solve: Callable[[Function, Any], Any],
    tangent_solve: Callable[[Function, Any], Any],
    has_aux: bool = False,
) -> Any:
    """Find a root, and differentiate it by the implicit function theorem.

    Parameters
    ----------
    f : callable
        Takes and returns arrays nested as `initial_guess`. It may close over arrays, with respect
        to which the root is differentiated.
    initial_guess
        Arrays in any nesting. Nothing is differentiated with respect to it.
    solve : callable
        `(f, initial_guess) -> root`, in any way.
    tangent_solve : callable
        `(g, y) -> x` with g(x) = y, where g is linear. For scalars `y / g(1.0)`.
    has_aux : bool
        `solve` returns `(root, other)`, and so does this.

    Returns
    -------
    root
        Nested as the guess.

    Raises
    ------
    ShapeError, DTypeError, TracingError
        What does not fit together.

    Examples
    --------
    >>> import tracer
    >>> import tracer.lax as lax
    >>> def square_root(a):
    ...     newton = lambda f, x: tracer.fori_loop(0, 30, lambda _, x: (x + a / x) / 2, x)
    ...     return lax.custom_root(lambda x: x * x - a, a, newton, lambda g, y: y / g(1.0))
    >>> float(tracer.grad(square_root)(4.0))
    0.25
    """
    for function in (f, solve, tangent_solve):
        check_callable("custom_root", function)
    closed = _Closed("custom_root", f, initial_guess)
    way = _Closed(
        "custom_root",
        lambda guess: _with_aux("custom_root", solve(f, guess), has_aux),
        initial_guess,
    )

    @custom_jvp
    def root(consts: Any, others: Any, guess: Any) -> Any:
        return way(others, guess)

    def rule(primals: Any, tangents: Any) -> Any:
        consts, _, _ = primals
        found, aux = root(*primals)
        _, moved = jvp(lambda values: closed(values, found), (consts,), (tangents[0],))
        _, linear = linearize(lambda x: closed(consts, x), found)
        step = tangent_solve(linear, tree.map(_negative, moved))
        return (found, aux), (step, tree.map(_zeros, aux))

    root.defjvp(rule)
    found, aux = root(closed.consts, way.consts, initial_guess)
    return (found, aux) if has_aux else found


def _with_aux(name: str, found: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return found, ()
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ArgumentError(f"{name}: solve returned {found!r}", mend="return (solution, aux)")
    return found[0], found[1]


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Callable[[Function, Any], Any],
    transpose_solve: Callable[[Function, Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve a linear system in any way; the derivative is that of the system.

    Parameters
    ----------
    matvec : callable
        A linear function of arrays nested as `b`. It may close over arrays, with respect to which
        the solution is differentiated.
    b
        The right side: arrays in any nesting.
    solve : callable
        `(matvec, b) -> x` with matvec(x) = b.
    transpose_solve : callable, optional
        `(vecmat, b) -> x` with vecmat(x) = b, where vecmat is the transpose of matvec. Gradients
        need it.
    symmetric : bool
        The transpose is solved as the system itself is.
    has_aux : bool
        `solve` and `transpose_solve` return `(x, other)`; this returns both, without a derivative
        of the other.

    Returns
    -------
    x
        Nested as `b`.

    Raises
    ------
    NotDifferentiableError
        A derivative without `transpose_solve`.
    ShapeError, DTypeError, TracingError
        What does not fit together.

    Examples
    --------
    >>> import tracer
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> def solution(scale):
    ...     return lax.custom_linear_solve(
    ...         lambda x: scale * x, tnp.ones(2), lambda f, b: b / f(tnp.ones(2)), symmetric=True
    ...     ).sum()
    >>> float(solution(4.0)), float(tracer.grad(solution)(4.0))
    (0.5, -0.125)
    """
    check_callable("custom_linear_solve", matvec)
    check_callable("custom_linear_solve", solve)
    system = _System(matvec, b, solve, solve if symmetric else transpose_solve, has_aux)
    x, aux = system.solvers[False](system.matvec.consts, system.others, b)
    return (x, aux) if has_aux else x


class _System:
    """A linear system and its transpose: the gradient of the one is a solution of the other."""

    def __init__(
        self,
        matvec: Function,
        b: Any,
        solve: Callable[[Function, Any], Any],
        transpose_solve: Callable[[Function, Any], Any] | None,
        has_aux: bool,
    ) -> None:
        self.matvec = _Closed("custom_linear_solve", matvec, b)
        if self.matvec.structure != tree.structure(b):
            raise ShapeError(
                f"custom_linear_solve: b is nested as {tree.structure(b)}, matvec(b) as "
                f"{self.matvec.structure}",
                mend="give a linear function from and to the same arrays",
            )
        self.has_aux = has_aux
        ways = self._way(False, solve, b), self._way(True, transpose_solve, b)
        self.others = tuple(() if way is None else way.consts for way in ways)
        # One object each, by which the depth of rules within rules is counted.
        self.solvers = [self._solver(bool(i), way) for i, way in enumerate(ways)]

    def _way(
        self, is_transposed: bool, solve: Callable[[Function, Any], Any] | None, b: Any
    ) -> _Closed | None:
        if solve is None:
            return None

        def solution(b: Any) -> Any:
            found = solve(lambda x: self._product(is_transposed, self.matvec.consts, x), b)
            return _with_aux("custom_linear_solve", found, self.has_aux)

        return _Closed("custom_linear_solve", solution, b)

    def _product(self, is_transposed: bool, consts: Sequence[Array], x: Any) -> Any:
        """Multiply by the matrix, or by its transpose."""
        if not is_transposed:
            return self.matvec(consts, x)
        _, pull_back = vjp(lambda y: self.matvec(consts, y), x)
        return pull_back(x)[0]

    def _solver(self, is_transposed: bool, way: _Closed | None) -> Any:
        """Return the solver of the system, or of its transpose, with its gradient."""

        def solution(consts: Any, others: Any, b: Any) -> Any:
            if way is None:
                raise NotDifferentiableError(
                    "custom_linear_solve without transpose_solve has no gradient",
                    mend="give transpose_solve, or symmetric=True",
                )
            return way(others[is_transposed], b)

        def forward(consts: Any, others: Any, b: Any) -> Any:
            x, aux = solver(consts, others, b)
            return (x, aux), (consts, others, x)

        def backward(residuals: Any, cotangents: Any) -> Any:
            consts, others, x = residuals
            adjoint, _ = self.solvers[not is_transposed](consts, others, cotangents[0])
            _, pull_back = vjp(lambda values: self._product(is_transposed, values, x), consts)
            (of_matrix,) = pull_back(tree.map(_negative, adjoint))
            return of_matrix, None, adjoint

        solver = custom_vjp(solution)
        solver.defvjp(forward, backward)
        return solver
