"""checkpoint and stop_gradient, with the names, argument order and semantics of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops, tree
from tracer.numpy.dispatch import apply, apply_many
from tracer.numpy.recording import current_recording
from tracer.transforms.arguments import (
    check_argnums,
    check_callable,
    flatten_arrays,
    resolve_argnums,
    trace_in,
)


def stop_gradient(x: Any) -> Any:
    """Return `x` as a constant for differentiation.

    Parameters
    ----------
    x : array or nested arrays
        Any dtype.

    Returns
    -------
    array or nested arrays
        The same values.

    Examples
    --------
    >>> import tracer
    >>> float(tracer.grad(lambda x: x * tracer.stop_gradient(x))(3.0))
    3.0
    """
    arrays, _, structure = flatten_arrays("stop_gradient", (x,))
    return tree.unflatten(structure, [apply(ops.stop_gradient, leaf) for leaf in arrays])[0]


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """Make a function whose gradient computes it again instead of keeping its intermediates.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting.
    prevent_cse : bool
        Keep the compiler from merging the two computations, which would keep the intermediates
        after all. False is right, and a little faster, inside of a `scan` body.
    static_argnums : int or tuple of int
        Arguments that are passed as they are.

    Returns
    -------
    callable
        Computes what `fun` does.

    Notes
    -----
    Between the forward and the backward pass only the arguments of `fun`, and the arrays it
    closes over, stay in memory. The price is one more evaluation of `fun`.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> layer = tracer.checkpoint(lambda x: tnp.sin(tnp.sin(x)))
    >>> round(float(tracer.grad(layer)(1.0)), 4)
    0.36
    """
    check_callable("checkpoint", fun)
    static = check_argnums("checkpoint", static_argnums)

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if current_recording() is None:
            # Nothing is differentiated here, so there is nothing to keep or not to keep.
            return fun(*args, **kwargs)
        fixed = resolve_argnums("checkpoint", static, len(args))
        given = [i for i in range(len(args)) if i not in fixed]
        everything = (*args, kwargs)
        traced = trace_in(
            "checkpoint",
            lambda *all_args: fun(*all_args[:-1], **all_args[-1]),
            everything,
            [*given, len(args)],
            {},
        )
        results = apply_many(
            ops.checkpoint, *traced.arrays, body=traced.graph, prevent_cse=prevent_cse
        )
        return tree.unflatten(traced.out_tree, results)

    return checkpointed


__all__ = ["checkpoint", "stop_gradient"]
