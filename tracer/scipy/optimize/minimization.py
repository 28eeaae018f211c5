"""`minimize`, and what it returns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.promotion import division_dtype
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.scipy.optimize.bfgs import minimize_bfgs

_OPTIONS = ("maxiter", "norm", "gtol", "line_search_maxiter")


class OptimizeResults(NamedTuple):
    """What `minimize` found: a tree of arrays.

    Attributes
    ----------
    x : Array, shape (size,)
        The best point.
    success : Array, bool
        The gradient is small there.
    status : Array, int
        0: it is; 1: `maxiter` steps were taken; 3: a line search found no good step in its
        bracket, as where rounding hides what is left; 5: it found no bracket.
    fun : Array
        The value at `x`.
    jac : Array, shape (size,)
        The gradient at `x`.
    hess_inv : Array, shape (size, size)
        The approximate inverse of the Hessian.
    nfev, njev, nit : Array, int
        Evaluations of the function and of its gradient, and steps.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Minimize a function of a vector, from a start.

    All is one loop in the graph: it can be compiled, under a limit, and `vmap` minimizes from many
    starts or for many `args` at once. Reverse mode does not go through it. The matrix `hess_inv`
    has size * size elements; for long vectors there is `tracer.optimizers.lbfgs`.

    Parameters
    ----------
    fun : callable
        `fun(x, *args)`, a real scalar, which can be differentiated. Where it is not finite, a step
        was too long.
    x0 : array_like, shape (size,)
        Where to start.
    args : tuple
        More arguments of `fun`.
    method : {"BFGS"}
        Capitals do not matter.
    tol : float, optional
        `gtol`, where `options` have none.
    options : mapping, optional
        "maxiter": steps at most (200 times the size); "gtol": the norm of the gradient that is
        small enough (1e-5); "norm": the order of this norm (infinity: the largest element);
        "line_search_maxiter": trials of a line search until it has a bracket (10).

    Returns
    -------
    OptimizeResults

    Raises
    ------
    ArgumentError
        Another method, unknown options, counts that are no int, or `args` that are no tuple.
    ShapeError
        `x0` is no vector, or has no elements.
    DTypeError
        `x0` is complex, or `fun` is no function.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer.scipy.optimize import minimize
    >>> def rosenbrock(x):
    ...     return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    >>> found = minimize(rosenbrock, tnp.array([-1.2, 1.0]), method="BFGS")
    >>> bool(found.success), tnp.round(found.x, 4).tolist()
    (True, [1.0, 1.0])
    """
    if not isinstance(method, str) or method.lower() != "bfgs":
        raise ArgumentError(
            f"minimize: there is no method {method!r}",
            mend='give method="BFGS"; L-BFGS is tracer.optimizers.lbfgs',
        )
    if not callable(fun):
        raise DTypeError(f"minimize: fun is {fun!r}, which is no function", mend="give one")
    if not isinstance(args, tuple):
        raise ArgumentError(f"minimize: args is {args!r}", mend="give a tuple, as (a,)")
    settings = _settings(tol, options)
    found = minimize_bfgs(lambda x: fun(x, *args), _start(x0), **settings)
    return OptimizeResults(
        found.x,
        found.has_converged,
        found.status,
        found.value,
        found.grad,
        found.inverse,
        found.evaluations,
        found.evaluations,
        found.steps,
    )


def _settings(tol: float | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(options or {})
    unknown = sorted(map(str, set(given) - set(_OPTIONS)))
    if unknown:
        raise ArgumentError(
            f"minimize: BFGS has no options {', '.join(unknown)}",
            mend=f"it has {', '.join(_OPTIONS)}",
        )
    for name in ("maxiter", "line_search_maxiter"):
        if name in given:
            given[name] = _count(name, given[name])
    if tol is not None:
        given.setdefault("gtol", tol)
    return given


def _count(name: str, value: Any) -> int | None:
    if name == "maxiter" and value is None:
        return None
    try:
        return operator.index(value)
    except TypeError as error:
        raise ArgumentError(f"minimize: {name} is {value!r}", mend="give an int") from error


def _start(x0: ArrayLike) -> Array:
    x = as_array(x0)
    if x.ndim != 1 or not x.shape[0]:
        raise ShapeError(
            f"minimize: x0 has shape {x.shape}",
            mend="give a vector with an element or more, as by tracer.tree.ravel",
        )
    if x.dtype.kind == "c":
        raise DTypeError("minimize: x0 is complex", mend="give real and imaginary parts")
    return convert(x, division_dtype(x.dtype))


__all__ = ["OptimizeResults", "minimize"]
