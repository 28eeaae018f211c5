"""Python functions that a program calls while it runs, with JAX's names and meanings.

Source: `jax.debug.print`, `jax.debug.callback` and `jax.pure_callback`.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.dispatch import apply, apply_many, from_host
from tracer.array.recording import current_recording
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import HostFunction, ShapeDtype, host_function

_METHODS = (None, "sequential", "expand_dims", "broadcast_all")
_UNBATCHED: dict[str, Any] = {"batch": (), "batched": ()}
_SHOWN_CHARACTERS = 40


def debug_callback(
    callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any
) -> None:
    """Call a Python function with values of the program, each time the program comes by.

    It works in compiled functions, in loops and branches, under `vmap` (one call for each element)
    and in functions that are differentiated (the function sees the values of the forward pass).

    Parameters
    ----------
    callback : callable
        What it returns is ignored. What it raises is raised by the call of the program.
    *args, **kwargs
        Arguments of the callback, nested: arrays come as NumPy arrays of the same dtypes, which are
        copies that it may keep; anything else comes as it is.
    ordered : bool
        Whether calls come in the order in which they are written, among those that are ordered.
        Otherwise they come in this order if no pass moves what they read.

    Raises
    ------
    DTypeError
        `callback` cannot be called.
    ArgumentError
        `ordered` inside of `vmap`.
    UnsupportedError
        The program is compiled for a device that cannot call Python: anything but one CPU.

    Notes
    -----
    A plan never removes the call, repeats it or moves it into another loop: a rewrite that would is
    left out, and the plan says so. The copies count towards a memory limit.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> seen = []
    >>> @tracer.compile
    ... def f(x):
    ...     def step(carry, _):
    ...         tracer.debug.callback(lambda value: seen.append(float(value)), carry)
    ...         return carry / 2, None
    ...     return tracer.scan(step, x, None, length=3)[0]
    >>> float(f(tnp.array(8.0))), seen
    (1.0, [8.0, 4.0, 2.0])
    """
    _require_callable("debug.callback", callback)
    name = f"the callback {_name_of(callback)}"
    _act(name, callback, args, kwargs, ordered=ordered)


def debug_print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print values of the program, each time the program comes by.

    It works where `tracer.debug.callback` does, with the same `ordered`.

    Parameters
    ----------
    fmt : str
        A format string, as of `str.format`; an f-string shows traced arrays, which have no values.
    *args, **kwargs
        What is formatted: arrays, as NumPy arrays, and anything else.
    ordered : bool
        Whether lines come in the order in which they are written, among those that are ordered.

    Raises
    ------
    DTypeError
        `fmt` is no string.
    ArgumentError
        An argument is not in the format string; `ordered` inside of `vmap`.
    UnsupportedError
        The program is compiled for a device that cannot call Python: anything but one CPU.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> def f(x):
    ...     tracer.debug.print("x is {x:.1f}, twice it is {}", 2 * x, x=x)
    ...     return x**2
    >>> float(tracer.compile(f)(tnp.array(3.0)))
    x is 3.0, twice it is 6.0
    9.0
    """
    if not isinstance(fmt, str):
        raise DTypeError(f"debug.print: {fmt!r} is no format string", mend='write "{}" first')
    unused = _FormatCheck().unused(fmt, args, kwargs)
    if unused:
        raise ArgumentError(
            f"debug.print: the format string does not use the argument {', '.join(unused)}",
            mend="write {} or {name} where the value belongs; an f-string is formatted before "
            "there are values, so leave out its f",
        )
    shown = fmt if len(fmt) <= _SHOWN_CHARACTERS else f"{fmt[:_SHOWN_CHARACTERS]}..."
    _act(f"debug.print({shown!r})", _print, (fmt, args, kwargs), {}, ordered=ordered)


class _FormatCheck(string.Formatter):
    """Finds arguments that a format string leaves out, before there are values."""

    def unused(self, fmt: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """Return the numbers and names of the arguments that are not used."""
        self._unused: list[str] = []
        self.vformat(fmt, args, kwargs)
        return self._unused

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format nothing: a traced array has no value."""
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Convert nothing."""
        return value

    def check_unused_args(
        self, used_args: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Note the arguments that are not used."""
        self._unused += [f"number {i}" for i in range(len(args)) if i not in used_args]
        self._unused += [name for name in kwargs if name not in used_args]


def _print(fmt: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    sys.stdout.write(f"{fmt.format(*args, **kwargs)}\n")


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Compute with a Python function of NumPy arrays, inside of a program.

    Parameters
    ----------
    callback : callable
        Its result depends on its arguments alone, and it does nothing else: how often it is called
        is left to the plan, not at all where nothing needs its result.
    result_shape_dtypes
        What it returns: objects with a shape and a dtype (`tracer.ShapeDtype`), nested.
    *args, **kwargs
        Arguments of the callback, nested: arrays come as NumPy arrays, which are copies; anything
        else comes as it is.
    vmap_method : {"sequential", "expand_dims", "broadcast_all"}, optional
        What `vmap` does: call it for each element; once, with one more axis in front of all
        arrays, which has one element (`"expand_dims"`) or all of them (`"broadcast_all"`) where
        the array is the same for all elements. By default `vmap` refuses it.

    Returns
    -------
    Arrays of the declared types, nested as `result_shape_dtypes`.

    Raises
    ------
    DTypeError, ShapeError
        `callback` cannot be called, or returned something else than was declared.
    ArgumentError
        There is no such `vmap_method`.
    NotDifferentiableError
        A gradient goes through it: give one with `tracer.custom_vjp`.
    UnsupportedError
        The program is compiled for a device that cannot call Python, anything but one CPU; `vmap`
        without a `vmap_method`.

    Examples
    --------
    >>> import numpy as np
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> def median(x):
    ...     like = tracer.ShapeDtype((), x.dtype)
    ...     return tracer.pure_callback(np.median, like, x, vmap_method="sequential")
    >>> tracer.compile(tracer.vmap(median))(tnp.array([[1.0, 7.0, 3.0], [5.0, 2.0, 4.0]]))
    Array([3., 4.])
    """
    _require_callable("pure_callback", callback)
    if vmap_method not in _METHODS:
        raise ArgumentError(
            f"pure_callback: there is no vmap_method {vmap_method!r}",
            mend="use 'sequential', 'expand_dims' or 'broadcast_all'",
        )
    types, structure = _declared(result_shape_dtypes)
    name = f"the function {_name_of(callback)} of pure_callback"
    function, arrays = _flat(name, callback, args, kwargs, count=len(types))
    params = {
        "function": function,
        "shapes": tuple(type.shape for type in types),
        "dtypes": tuple(type.dtype for type in types),
        "vmap_method": vmap_method,
        **_UNBATCHED,
    }
    if current_recording() is None:
        found = ops.pure_callback.evaluate(*map(np.asarray, arrays), **params)
        return tree.unflatten(structure, [from_host(array) for array in found])
    return tree.unflatten(structure, apply_many(ops.pure_callback, *arrays, **params))


def _declared(declared: Any) -> tuple[list[ShapeDtype], tree.Structure]:
    leaves, structure = tree.flatten(declared)
    for leaf in leaves:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise DTypeError(
                f"pure_callback: {leaf!r} in result_shape_dtypes has no shape and dtype",
                mend="give tracer.ShapeDtype(shape, dtype) for each array that comes back",
            )
    return [ShapeDtype(leaf.shape, leaf.dtype) for leaf in leaves], structure


def _act(
    name: str,
    callback: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    ordered: bool,
) -> None:
    """Call a function for what it does: now, or whenever the program that is recorded comes by."""
    function, arrays = _flat(name, callback, args, kwargs, count=None)
    params = {"function": function, "ordered": bool(ordered), **_UNBATCHED}
    if current_recording() is None:
        ops.debug_callback.evaluate(*map(np.asarray, arrays), **params)
    else:
        apply(ops.debug_callback, *arrays, **params)


def _flat(
    name: str,
    callback: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    count: int | None,
) -> tuple[HostFunction, list[Array]]:
    """Return a function of the arrays among the arguments, and these arrays.

    `count` is the number of arrays that it has to return; None where its result is ignored.
    """
    leaves, structure = tree.flatten((args, kwargs))
    given = tuple(not isinstance(leaf, Array | np.ndarray | np.generic) for leaf in leaves)
    fixed = tuple(leaf for leaf, known in zip(leaves, given, strict=True) if known)

    def call(*arrays: Any) -> tuple[Any, ...]:
        known, others = iter(fixed), iter(arrays)
        own = [next(known if is_fixed else others) for is_fixed in given]
        own_args, own_kwargs = tree.unflatten(structure, own)
        result = callback(*own_args, **own_kwargs)
        return () if count is None else _results(name, result, count)

    arrays = [as_array(leaf) for leaf, known in zip(leaves, given, strict=True) if not known]
    details = (structure, given, fixed, count)
    return host_function(lambda: call, name, callback, *details), arrays


def _results(name: str, result: Any, count: int) -> tuple[Any, ...]:
    leaves = tree.leaves(result)
    if len(leaves) != count:
        raise ShapeError(
            f"{name} returned {len(leaves)} arrays, not {count}",
            mend="return as many arrays as result_shape_dtypes says",
        )
    return tuple(leaves)


def _require_callable(name: str, callback: Any) -> None:
    if not callable(callback):
        raise DTypeError(f"{name}: {callback!r} is no function", mend="give one")


def _name_of(callback: Any) -> str:
    return getattr(callback, "__name__", None) or type(callback).__name__


__all__ = ["debug_callback", "debug_print", "pure_callback"]
