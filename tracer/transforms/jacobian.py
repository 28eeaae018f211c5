"""jacrev, jacfwd, jacobian and hessian, with the names, argument order and semantics of JAX.

One pass, backwards or forwards, is batched over the unit vectors of the results or the arguments.
The unit vectors are made where they are used, from two iotas, and stored nowhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.autodiff import pull_back, push_forward
from tracer.autodiff.activity import carries_gradient
from tracer.batching import batch_graph
from tracer.ir import Builder, Graph, ShapeDtype, Value
from tracer.numpy.array import Array
from tracer.numpy.convert import as_array
from tracer.ops import helpers
from tracer.ops.batch import move_axis
from tracer.ops.rules import dtype_kind
from tracer.transforms.arguments import (
    Traced,
    check_argnums,
    check_callable,
    resolve_argnums,
    trace_in,
    value_leaves,
    with_array_results,
)
from tracer.transforms.dtypes import check_input_dtypes, check_output_dtype, check_real_inputs

Positions = Sequence[int]
MakeGraph = Callable[[Graph, Positions, Positions], Graph]


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

    def check(name: str, traced: Traced, results: Sequence[ShapeDtype]) -> None:
        check_input_dtypes(name, traced, holomorphic, allow_int)
        for type in results:
            check_output_dtype(name, type, holomorphic)

    return _jacobian("jacrev", fun, argnums, has_aux, holomorphic, check, _reverse)


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

    def check(name: str, traced: Traced, results: Sequence[ShapeDtype]) -> None:
        check_input_dtypes(name, traced, holomorphic, allow_int=False)
        if not holomorphic:
            check_real_inputs(name, traced)
        for type in results:
            # Real arguments move complex results too.
            check_output_dtype(name, type, holomorphic or dtype_kind(type.dtype) == "c")

    return _jacobian("jacfwd", fun, argnums, has_aux, holomorphic, check, _forward)


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
        argument, and in place of each leaf of that the structure of the argument once more.

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
    inner = jacrev(fun, argnums, has_aux, holomorphic)
    return jacfwd(inner, argnums, has_aux, holomorphic)


def _jacobian(
    name: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    check: Callable[[str, Traced, Sequence[ShapeDtype]], None],
    make_graph: MakeGraph,
) -> Callable[..., Any]:
    check_callable(name, fun)
    numbers = check_argnums(name, argnums)
    single = not isinstance(argnums, tuple | list)
    checked = with_array_results(name, fun, has_aux)

    @functools.wraps(fun)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        positions = resolve_argnums(name, numbers, len(args))
        traced = trace_in(name, checked, args, positions, kwargs)
        count = value_leaves(traced)
        check(name, traced, traced.graph.output_types[:count])
        wrt = [i for i in range(traced.leaves) if _is_inexact(traced.graph.input_types[i])]
        results = traced.run(make_graph(traced.graph, wrt, range(count)))
        blocks = iter(results[len(traced.graph.outputs) :])
        value, aux = tree.unflatten(traced.out_tree, results[: len(traced.graph.outputs)])
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


def _reverse(graph: Graph, wrt: Positions, outputs: Positions) -> Graph:
    """Extend a graph by its Jacobian: a batch of pull-backs.

    Returns
    -------
    Graph
        Outputs are the graph's, then for each of `outputs` one block for each of `wrt`.
    """
    halves = pull_back(graph, wrt, outputs)
    results = [graph.output_types[i] for i in outputs]
    arguments = [graph.input_types[i] for i in wrt]
    total = sum(type.size for type in results)
    flags = _last(halves.backward, halves.seeds)
    backward, _ = batch_graph(halves.backward, flags, total, (True,) * len(wrt))
    with Builder() as builder:
        primals = [builder.input(value.type, value.node.source) for value in graph.inputs]
        own = builder.inline(halves.forward, primals)
        kept = [*(primals[i] for i in halves.inputs), *own[len(graph.outputs) :]]
        rows = builder.inline(backward, [*kept, *_unit_vectors(results, total)])
        blocks = [
            helpers.reshape(part, (*result.shape, *argument.shape))
            for result, parts in zip(results, _cut(rows, results), strict=True)
            for argument, part in zip(arguments, parts, strict=True)
        ]
        return builder.finish([*own[: len(graph.outputs)], *blocks])


def _forward(graph: Graph, wrt: Positions, outputs: Positions) -> Graph:
    """Extend a graph by its Jacobian: a batch of push-forwards; see `_reverse`."""
    halves = pull_back(graph, wrt, outputs)
    results = [graph.output_types[i] for i in outputs]
    arguments = [graph.input_types[i] for i in wrt]
    total = sum(type.size for type in arguments)
    linear = push_forward(halves)
    flags = _last(linear, len(wrt))
    pushed, _ = batch_graph(linear, flags, total, (True,) * len(results))
    with Builder() as builder:
        primals = [builder.input(value.type, value.node.source) for value in graph.inputs]
        own = builder.inline(halves.forward, primals)
        kept = [*(primals[i] for i in halves.inputs), *own[len(graph.outputs) :]]
        columns = builder.inline(pushed, [*kept, *_unit_vectors(arguments, total)])
        parts = list(zip(arguments, _cut(columns, arguments), strict=True))
        blocks = [
            helpers.reshape(
                move_axis(of_argument[k], 0, len(result.shape)), (*result.shape, *argument.shape)
            )
            for k, result in enumerate(results)
            for argument, of_argument in parts
        ]
        return builder.finish([*own[: len(graph.outputs)], *blocks])


def _last(graph: Graph, count: int) -> tuple[bool, ...]:
    """Flag the last inputs."""
    return (False,) * (len(graph.inputs) - count) + (True,) * count


def _unit_vectors(types: Sequence[ShapeDtype], total: int) -> list[Value]:
    """Return the unit vectors of all arrays together, each cut into arrays of these types."""
    found, start = [], 0
    index = np.dtype(np.int32)
    for type in types:
        shape = (total, type.size)
        rows = ops.iota(shape=shape, dtype=index, dimension=0)
        columns = ops.iota(shape=shape, dtype=index, dimension=1)
        is_one = ops.compare(rows, helpers.shift(columns, start), direction="EQ")
        units = helpers.convert(is_one, type.dtype)
        found.append(helpers.reshape(units, (total, *type.shape)))
        start += type.size
    return found


def _cut(batches: Sequence[Value], types: Sequence[ShapeDtype]) -> list[list[Value]]:
    """Cut the batch axis of each value into the parts that belong to the arrays of these types."""
    parts, start = [], 0
    for type in types:
        stop = start + type.size
        parts.append([helpers.slice_axis(x, 0, start, stop) for x in batches])
        start = stop
    return parts


__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]
