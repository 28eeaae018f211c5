"""grad and value_and_grad, with the names, argument order and semantics of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tracer.autodiff import value_and_gradient
from tracer.autodiff.transforms.arguments import (
    check_argnums,
    check_callable,
    describe,
    is_array_like,
    resolve_argnums,
    split_aux,
    trace_in,
)
from tracer.autodiff.transforms.dtypes import check_input_dtypes, check_output_dtype
from tracer.errors import DTypeError, ShapeError, with_short_traceback
from tracer.ir import ShapeDtype


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that computes `fun` and its gradient.

    Parameters
    ----------
    fun : callable
        Takes arrays in any nesting of tuples, lists and dicts; returns a scalar of a floating
        dtype, or `(scalar, aux)` with `has_aux`.
    argnums : int or tuple of int
        Positional arguments to differentiate with respect to. The others, and keywords, are
        passed as they are.
    has_aux : bool
        `fun` returns a pair, of which only the first is differentiated.
    holomorphic : bool
        `fun` is holomorphic: arguments and result are complex.
    allow_int : bool
        Accept integer and bool arguments; their gradient is an array of zeros of their dtype.

    Returns
    -------
    callable
        Same arguments as `fun`; returns `(value, gradient)`, or `((value, aux), gradient)`. The
        gradient has the structure of the argument (a tuple of these for a tuple `argnums`), and
        each leaf the shape and dtype of the argument's leaf.

    Raises
    ------
    ShapeError
        The result is no scalar.
    DTypeError
        A dtype or an object that cannot be differentiated.
    ArgumentError
        `argnums` does not fit the call.
    NotDifferentiableError
        An op on the way has no derivative.

    Notes
    -----
    The gradient's program keeps the intermediates that it needs; `tracer.checkpoint` trades them
    for computing them again.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> value, gradient = tracer.value_and_grad(lambda x: (x**2).sum())(tnp.array([1.0, 3.0]))
    >>> float(value), gradient.tolist()
    (10.0, [2.0, 6.0])
    """
    return _differentiate("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `fun`.

    Parameters are those of `value_and_grad`.

    Returns
    -------
    callable
        Same arguments as `fun`; returns the gradient, or `(gradient, aux)` with `has_aux`.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError, NotDifferentiableError
        See `value_and_grad`.

    Examples
    --------
    >>> import tracer
    >>> float(tracer.grad(lambda x: x**3)(2.0))
    12.0
    >>> float(tracer.grad(tracer.grad(lambda x: x**3))(2.0))
    12.0
    """
    both = _differentiate("grad", fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
    @with_short_traceback
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, result = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return gradient


def _differentiate(
    name: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., tuple[Any, Any]]:
    check_callable(name, fun)
    numbers = check_argnums(name, argnums)
    single = not isinstance(argnums, tuple | list)
    checked = _with_scalar_result(name, fun, bool(has_aux))

    @functools.wraps(fun)
    @with_short_traceback
    def value_and_gradient_of(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        positions = resolve_argnums(name, numbers, len(args))
        traced = trace_in(name, checked, args, positions, kwargs, writes="back")
        check_input_dtypes(name, traced, holomorphic, allow_int)
        _check_output(name, traced.graph.output_types[0], holomorphic)
        results = traced.run(value_and_gradient(traced.graph, range(traced.leaves)))
        count = len(traced.graph.outputs)
        traced.write_back(results)
        value, aux = traced.result(results)
        gradients = traced.as_arguments(results[count:])
        return (value, aux) if has_aux else value, gradients[0] if single else gradients

    return value_and_gradient_of


def _with_scalar_result(
    name: str, fun: Callable[..., Any], has_aux: bool
) -> Callable[..., tuple[Any, Any]]:
    """Return a function with the result `(value, aux)`, value being one array."""

    @functools.wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        result = fun(*args, **kwargs)
        value, aux = split_aux(name, result) if has_aux else (result, ())
        if not is_array_like(value):
            raise DTypeError(
                f"{name}: the function returned {describe(value)}, which is no array",
                mend="return one scalar array; return anything further as aux, with has_aux=True",
            )
        return value, aux

    return checked


def _check_output(name: str, type: ShapeDtype, holomorphic: bool) -> None:
    if type.shape != ():
        raise ShapeError(
            f"{name}: the function returned {type}, which is no scalar",
            mend="reduce it, with sum() or mean(); for all derivatives of an array use vjp",
        )
    check_output_dtype(name, type, holomorphic)


__all__ = ["grad", "value_and_grad"]
