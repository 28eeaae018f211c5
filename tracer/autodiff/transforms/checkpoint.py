"""checkpoint, checkpoint_name and stop_gradient, with JAX's names and semantics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops, tree
from tracer.array.dispatch import apply, apply_many
from tracer.array.recording import current_recording
from tracer.array.weak import weak_positions, weakened
from tracer.autodiff.transforms.arguments import (
    check_argnums,
    check_callable,
    describe,
    flatten_arrays,
    resolve_argnums,
    trace_in,
)
from tracer.autodiff.transforms.policies import Policy, words_of
from tracer.errors import DTypeError, with_short_traceback


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
    constants = [apply(ops.stop_gradient, leaf) for leaf in arrays]
    return tree.unflatten(structure, weakened(constants, weak_positions(arrays)))[0]


def checkpoint_name(x: Any, name: str) -> Any:
    """Return `x` under a name that `checkpoint_policies.save_only_these_names` may ask for.

    Parameters
    ----------
    x : array or nested arrays
        Any dtype.
    name : str
        The name.

    Returns
    -------
    array or nested arrays
        The same values.

    Raises
    ------
    DTypeError
        `name` is no string, or a leaf is no array.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> policy = tracer.checkpoint_policies.save_only_these_names("inner")
    >>> @tracer.checkpoint(policy=policy)
    ... def layer(x):
    ...     return tnp.sin(tracer.checkpoint_name(tnp.sin(x), "inner"))
    >>> round(float(tracer.grad(layer)(1.0)), 4)
    0.36
    """
    if not isinstance(name, str):
        raise DTypeError(
            f"checkpoint_name: the name is {describe(name)}", mend="give the name as a string"
        )
    arrays, _, structure = flatten_arrays("checkpoint_name", (x,))
    named = [apply(ops.checkpoint_name, leaf, name=name) for leaf in arrays]
    return tree.unflatten(structure, weakened(named, weak_positions(arrays)))[0]


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """Make a function whose gradient computes it again instead of keeping its intermediates.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting. Left out, as in `@checkpoint(policy=...)`, a
        decorator is returned.
    prevent_cse : bool
        Keep the compiler from merging the two computations, which would keep the intermediates
        after all. False is right, and a little faster, inside of a `scan` body.
    policy : Policy, optional
        One of `tracer.checkpoint_policies`: which intermediates are kept after all; by default
        none.
    static_argnums : int or tuple of int
        Arguments that are passed as they are.

    Returns
    -------
    callable
        Computes what `fun` does.

    Raises
    ------
    DTypeError
        `fun` cannot be called, or `policy` is no policy.
    ArgumentError
        `static_argnums` does not fit the call.

    Notes
    -----
    `fun` is called when it is traced, and only then: what it does apart from computing (printing,
    appending to a list) happens once for each trace, not again when the backward pass computes it.

    Between the forward and the backward pass only the arguments of `fun`, the arrays it closes
    over, and what the policy keeps stay in memory. The price is one more evaluation of the rest.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> layer = tracer.checkpoint(lambda x: tnp.sin(tnp.sin(x)))
    >>> round(float(tracer.grad(layer)(1.0)), 4)
    0.36
    """
    if fun is None:
        return functools.partial(
            checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums
        )
    check_callable("checkpoint", fun)
    static = check_argnums("checkpoint", static_argnums)
    words = words_of(policy)

    @functools.wraps(fun)
    @with_short_traceback
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
            writes="back",
        )
        results = apply_many(
            ops.checkpoint, *traced.arrays, body=traced.graph, prevent_cse=prevent_cse, policy=words
        )
        traced.write_back(results)
        return traced.result(results)

    return checkpointed


__all__ = ["checkpoint", "checkpoint_name", "stop_gradient"]
