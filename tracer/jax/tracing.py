"""Trace functions with JAX, and say in our words what it could not trace."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

import jax

from tracer.compilation.statics import Statics
from tracer.errors import DTypeError, Source, TracingError
from tracer.jax.sources import current_source, is_users

_NO_ARRAY = ("not a valid JAX type", "as an abstract array", "Cannot interpret value")
"""Words of JAX's errors for arguments that are no arrays."""


def trace(jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return JAX's trace of a function, `jax.stages.Traced`.

    Raises
    ------
    TracingError
        The function needs the value of an array, or closes over one that another trace of JAX's
        has not computed yet.
    DTypeError
        An argument is no array.
    """
    _ACTIVE.depth += 1
    try:
        traced = jitted.trace(*args, **kwargs)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise TracingError(
            str(error).split("\n")[0],
            mend="use jax.numpy.where, jax.lax.cond or jax.lax.while_loop for what depends on "
            "values, name arguments that are no arrays in static_argnums, and return arrays "
            "instead of keeping them",
            where=_users_line(error),
        ) from error
    except TypeError as error:
        if not any(words in str(error) for words in _NO_ARRAY):
            raise
        raise DTypeError(
            str(error).split("\n")[0],
            mend="pass arrays and numbers in containers that JAX knows, or name the argument in "
            "static_argnums",
        ) from error
    finally:
        _ACTIVE.depth -= 1
    # JAX makes such arrays arguments of the jaxpr.
    if len(traced.jaxpr.in_avals) != len(jax.tree.leaves(traced.args_info)):
        raise TracingError(
            f"{traced.fun_name} closes over an array that a transformation of JAX (jit, grad, "
            "vmap) around it traces",
            mend="pass the array as an argument: then JAX sees what depends on it",
            where=current_source(),
        )
    return traced


class _Active(threading.local):
    depth = 0


_ACTIVE = _Active()


def jitted_with(statics: Statics, function: Callable[..., Any], **options: Any) -> Any:
    """Return `jax.jit` of a function with these static arguments."""
    names = sorted(statics.names)
    return jax.jit(function, static_argnums=statics.positions, static_argnames=names, **options)


def is_tracing() -> bool:
    """Tell whether this thread is in a trace of ours."""
    return _ACTIVE.depth > 0


def _users_line(error: BaseException) -> Source | None:
    """Return the innermost of the user's lines that an error came through."""
    found: Source | None = None
    for frame in traceback.extract_tb(error.__traceback__):
        if is_users(frame.filename):
            found = Source(frame.filename, frame.lineno or 0, frame.name)
    return found
