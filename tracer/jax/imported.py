"""`tracer.jax.from_jax`: a function of JAX as a function of tracer's arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.dispatch import apply_graph
from tracer.array.recording import Recording, current_recording, recorded
from tracer.compilation.statics import joined, resolve_statics
from tracer.errors import DTypeError
from tracer.ir import Graph
from tracer.jax.evaluate import Evaluator, check_supported, convert_arguments
from tracer.jax.limited import Names, Positions, tuple_of
from tracer.jax.tracing import jitted_with, trace


def from_jax(
    fn: Callable[..., Any], *, static_argnums: Positions = (), static_argnames: Names = ()
) -> Callable[..., Any]:
    """Return a function of tracer's arrays that computes what a function of JAX does.

    Parameters
    ----------
    fn : callable
        Takes and returns pytrees of arrays, written with JAX.
    static_argnums, static_argnames : int, str or sequences of these, optional
        Arguments that are no arrays, as for `jax.jit`.

    Returns
    -------
    callable
        Takes arrays of tracer or NumPy in containers that JAX knows; returns arrays of tracer.
        `tracer.grad`, `tracer.vmap`, `tracer.compile` and the rest take it. Derivatives that the
        function defines (`jax.custom_vjp`, `jax.custom_jvp`) and its checkpoints are kept.

    Raises
    ------
    UnsupportedError
        At the call: the function uses something that tracer does not have.
    TracingError
        At the call: JAX could not trace the function.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import tracer, tracer.jax
    >>> f = tracer.jax.from_jax(lambda x: jnp.sum(jnp.sin(x)))
    >>> tracer.grad(f)(tracer.numpy.zeros(3))
    Array([1., 1., 1.])
    """
    if not callable(fn):
        raise DTypeError(
            f"tracer.jax.from_jax takes a function, not {type(fn).__name__}", mend="give one"
        )
    statics = resolve_statics(fn, tuple_of(static_argnums), tuple_of(static_argnames))
    jitted = jitted_with(statics, fn)

    @functools.wraps(fn)
    def imported(*args: Any, **kwargs: Any) -> Any:
        dynamic, values = statics.split(args, kwargs)
        leaves, structure = jax.tree.flatten(dynamic)
        arrays = [as_array(leaf) for leaf in leaves]
        types = map(_struct, arrays)
        given = jax.tree.unflatten(structure, types)
        traced = trace(jitted, *joined(values, len(args), *given))
        check_supported(traced.jaxpr)
        results = _evaluate(traced.jaxpr, arrays)
        return jax.tree.unflatten(jax.tree.structure(traced.out_info), results)

    return imported


def _struct(array: Array) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, weak_type=array.weak_type)


def _evaluate(closed: Any, arrays: list[Array]) -> list[Array]:
    evaluator = Evaluator(is_differentiated=True)
    if current_recording() is not None:
        return evaluator.run(closed, convert_arguments(arrays, closed.in_avals))

    def record(recording: Recording) -> tuple[Graph, list[Array]]:
        given = [recording.argument(array.type) for array in arrays]
        outputs = evaluator.run(closed, convert_arguments(given, closed.in_avals))
        return recording.finish(outputs)

    graph, captured = recorded(record)
    return apply_graph(graph, [*arrays, *captured])
