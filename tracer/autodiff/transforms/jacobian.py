"""jacrev, jacfwd, jacobian and hessian, with the names, argument order and semantics of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms.arguments import (
    Traced,
    check_argnums,
    check_callable,
    resolve_argnums,
    trace_in,
    value_leaves,
    with_array_results,
)
from tracer.autodiff.transforms.dtypes import (
    check_input_dtypes,
    check_output_dtype,
    check_real_inputs,
)
from tracer.autodiff.transforms.jacobian_graphs import forward_jacobian, reverse_jacobian
from tracer.errors import with_short_traceback
from tracer.ir import Graph, ShapeDtype
from tracer.ops.rules import dtype_kind

Check = Callable[[str, Traced, Sequence[ShapeDtype]], None]
"""Refuses arguments and results of dtypes that have no derivatives."""
MakeGraph = Callable[[Graph, Sequence[int], Sequence[int]], Graph]


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `fun`, row by row (reverse mode).

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting; `(result, aux)` with `has_aux`.
    argnums : int or tuple of int
        Positional arguments to differentiate with respect to.
    has_aux : bool
        `fun` returns a pair, of which only the first is differentiated.
    holomorphic : bool
        `fun` is holomorphic: arguments and results are complex.
    allow_int : bool
        Accept integer and bool arguments; their derivatives are zeros of their dtype.

    Returns
    -------
    callable
        Same arguments as `fun`. It returns the structure of the result, with the structure of
        the argument (a tuple of these for a tuple `argnums`) in place of each leaf; each leaf has
        the shape of the result's leaf, then that of the argument's leaf. With `has_aux` the pair
        of this and aux.

    Raises
    ------
    DTypeError
        A dtype or an object that cannot be differentiated.
    ArgumentError
        `argnums` does not fit the call.
    NotDifferentiableError
        An op on the way has no derivative.

    Notes
    -----
    Best where the result is smaller than the arguments. The batch of backward passes needs the
    memory of the intermediates once for each element of the result.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> tracer.jacrev(lambda x: x**2)(tnp.array([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    check = _reverse_check(holomorphic, allow_int)
    return _jacobian("jacrev", fun, argnums, has_aux, check, reverse_jacobian)


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `fun`, column by column (forward mode).

    Parameters
    ----------
    fun, argnums, has_aux, holomorphic
        See `jacrev`. Without `holomorphic` the arguments are real.

    Returns
    -------
    callable
        See `jacrev`.

    Raises
    ------
    DTypeError, ArgumentError, NotDifferentiableError
        See `jacrev`.

    Notes
    -----
    Best where the arguments are smaller than the result.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> tracer.jacfwd(lambda x: tnp.stack([x, x**2]))(3.0).tolist()
    [1.0, 6.0]
    """
    check = _forward_check(holomorphic)
    return _jacobian("jacfwd", fun, argnums, has_aux, check, forward_jacobian)


jacobian = jacrev


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of `fun`.

    Parameters
    ----------
    fun, argnums, has_aux, holomorphic
        See `jacfwd`.

    Returns
    -------
    callable
        `jacfwd(jacrev(fun))`: the structure of the result, in place of each leaf that of the
        argument, and in place of each leaf of that the structure of the argument again.

    Raises
    ------
    DTypeError, ArgumentError, NotDifferentiableError
        See `jacrev`.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> tracer.hessian(lambda x: x[0] * x[1] ** 2)(tnp.array([3.0, 2.0])).tolist()
    [[0.0, 4.0], [4.0, 6.0]]
    """
    first, second = _reverse_check(holomorphic, allow_int=False), _forward_check(holomorphic)
    inner = _jacobian("hessian", fun, argnums, has_aux, first, reverse_jacobian)
    return _jacobian("hessian", inner, argnums, has_aux, second, forward_jacobian)


def _reverse_check(holomorphic: bool, allow_int: bool) -> Check:
    def check(name: str, traced: Traced, results: Sequence[ShapeDtype]) -> None:
        check_input_dtypes(name, traced, holomorphic, allow_int)
        for type in results:
            check_output_dtype(name, type, holomorphic)

    return check


def _forward_check(holomorphic: bool) -> Check:
    def check(name: str, traced: Traced, results: Sequence[ShapeDtype]) -> None:
        check_input_dtypes(name, traced, holomorphic, allow_int=False)
        if not holomorphic:
            check_real_inputs(name, traced)
        for type in results:
            # Real arguments move complex results too.
            check_output_dtype(name, type, holomorphic or dtype_kind(type.dtype) == "c")

    return check


def _jacobian(
    name: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    check: Check,
    make_graph: MakeGraph,
) -> Callable[..., Any]:
    check_callable(name, fun)
    numbers = check_argnums(name, argnums)
    single = not isinstance(argnums, tuple | list)
    checked = with_array_results(name, fun, has_aux)

    @functools.wraps(fun)
    @with_short_traceback
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        positions = resolve_argnums(name, numbers, len(args))
        traced = trace_in(name, checked, args, positions, kwargs, writes="back")
        count = value_leaves(traced)
        check(name, traced, traced.graph.output_types[:count])
        wrt = [i for i in range(traced.leaves) if _is_inexact(traced.graph.input_types[i])]
        results = traced.run(make_graph(traced.graph, wrt, range(count)))
        blocks = iter(results[len(traced.graph.outputs) :])
        traced.write_back(results)
        value, aux = traced.result(results)
        jacobian = tree.map(lambda y: _row(y, traced, blocks, single), value)
        return (jacobian, aux) if has_aux else jacobian

    return jacobian_of


def _is_inexact(type: ShapeDtype) -> bool:
    return carries_gradient(type.dtype)


def _row(y: Array, traced: Traced, blocks: Any, single: bool) -> Any:
    """Return the derivatives of one leaf of the result, nested as the arguments."""
    leaves = [
        next(blocks)
        if _is_inexact(type)
        else as_array(np.zeros((*y.shape, *type.shape), type.dtype))
        for type in traced.graph.input_types[: traced.leaves]
    ]
    nested = tree.unflatten(traced.in_tree, leaves)
    return nested[0] if single else nested


__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]
