"""A limited function under `jax.jit`, `jax.grad` and `jax.vmap`.

JAX's transformations see a function with a custom gradient that is computed by a callback. Its
gradient, and what `vmap` makes of it, are limited functions too, with the same limit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.custom_batching import custom_vmap

from tracer.array.array import Array, get_evaluator
from tracer.array.dispatch import from_host
from tracer.jax.handover import as_weak, is_weak, key_maker, words_of
from tracer.jax.types import is_key

Make = Callable[[Callable[..., Any]], Any]


class Inside:
    """A function of arrays (keys as their words) for JAX's transformations.

    Parameters
    ----------
    function : callable
        Takes arrays, returns a tuple of arrays.
    make : callable
        Makes a limited function of a function, with the options of the one that this is for.
    """

    def __init__(self, function: Callable[..., Any], make: Make) -> None:
        self.function, self.make = function, make
        self.limited = make(function)
        self.batches: dict[tuple[int, tuple[int | None, ...]], Any] = {}
        self.pull_backs: dict[tuple[bool, ...], Any] = {}
        self.of_tracers = custom_vmap(self._call_back)
        self.of_tracers.def_vmap(self._batched)
        self.with_gradient = jax.custom_vjp(self._run)
        # By itself, so that derivatives of derivatives find a rule too.
        self.with_gradient.defvjp(
            lambda *arrays: (self.with_gradient(*arrays), arrays), self._pull_back
        )

    def _run(self, *arrays: Any) -> tuple[Any, ...]:
        if any(isinstance(x, jax.core.Tracer) for x in arrays):
            return self.of_tracers(*arrays)  # type: ignore[no-any-return]
        return self.limited(*arrays)  # type: ignore[no-any-return]

    def _call_back(self, *arrays: Any) -> tuple[Any, ...]:
        """Compile now, and run when JAX's program runs."""
        program, place, results = self.limited.program_of(*map(_struct, arrays))

        def run(*values: Any) -> tuple[Any, ...]:
            arrays = [_shared(value, place) for value in values]
            return tuple(map(np.asarray, program(*arrays)))

        return jax.pure_callback(run, results, *arrays, vmap_method="sequential")  # type: ignore[no-any-return]

    def _batched(self, size: int, is_batched: Sequence[bool], *arrays: Any) -> Any:
        axes = tuple(0 if batched else None for batched in is_batched)
        if (size, axes) not in self.batches:
            many = jax.vmap(self.function, in_axes=axes, axis_size=size)
            self.batches[size, axes] = self.make(_named(many, self.function))
        results = self.batches[size, axes](*arrays)
        return results, tuple(True for _ in results)

    def _pull_back(self, arrays: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        given = [c for c in cotangents if c.dtype != jax.dtypes.float0]
        inexact = [bool(jax.numpy.issubdtype(x.dtype, np.inexact)) for x in arrays]
        wanted = tuple(c.dtype != jax.dtypes.float0 for c in cotangents)
        if wanted not in self.pull_backs:
            self.pull_backs[wanted] = self.make(_named(self._gradient(wanted), self.function))
        found = iter(self.pull_backs[wanted](arrays, given))
        return tuple(
            next(found) if is_inexact else np.zeros(x.shape, jax.dtypes.float0)
            for x, is_inexact in zip(arrays, inexact, strict=True)
        )

    def _gradient(self, wanted: Sequence[bool]) -> Callable[..., Any]:
        def pull_back(arrays: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            inexact = [bool(jax.numpy.issubdtype(x.dtype, np.inexact)) for x in arrays]

            def of_inexact(*values: Any) -> list[Any]:
                rest = iter(values)
                whole = [
                    next(rest) if is_inexact else x
                    for x, is_inexact in zip(arrays, inexact, strict=True)
                ]
                results = self.function(*whole)
                return [r for r, is_wanted in zip(results, wanted, strict=True) if is_wanted]

            values = [x for x, is_inexact in zip(arrays, inexact, strict=True) if is_inexact]
            return list(jax.vjp(of_inexact, *values)[1](list(cotangents)))

        return pull_back


def _named(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = original.__name__
    return function


def _struct(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _shared(value: Any, place: Any) -> Array:
    """Return an array in the memory of what a callback is given; JAX must not be called in it.

    JAX gives callbacks arrays on the host: where the program runs elsewhere, they are copied.
    """
    if isinstance(value, jax.Array):
        evaluator = get_evaluator()
        if evaluator.place_of(value.__dlpack_device__()) == place:
            return evaluator.share(value)
    return from_host(np.asarray(value))


def kind_of(leaf: Any) -> tuple[Any, ...]:
    """Return all of a leaf that the result's containers, dtypes and weak types may depend on."""
    return leaf.shape, leaf.dtype, is_weak(leaf)


class Flat:
    """A function of pytrees as one of arrays, with the structure of its result.

    `kinds` are those of the leaves (`kind_of`): it is called with no others.
    """

    def __init__(self, function: Callable[..., Any], structure: Any, kinds: Sequence[Any]) -> None:
        self.function, self.structure = function, structure
        self.makers = [_maker(dtype, weak) for _, dtype, weak in kinds]
        self.result: Any = None
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Compute the function."""
        leaves = [make(x) for x, make in zip(arrays, self.makers, strict=True)]
        args, kwargs = jax.tree.unflatten(self.structure, leaves)
        results, self.result = jax.tree.flatten(self.function(*args, **kwargs))
        results = list(map(jax.numpy.asarray, results))
        self.result_makers = [_maker(x.dtype, is_weak(x)) for x in results]
        return tuple(map(words_of, results))

    def unflatten(self, results: Sequence[Any]) -> Any:
        """Return results as the function's."""
        leaves = [make(x) for x, make in zip(results, self.result_makers, strict=True)]
        return jax.tree.unflatten(self.result, leaves)


def _maker(dtype: Any, weak: bool) -> Callable[[Any], Any]:
    """Return what makes a value of JAX of the plain array that stands for it."""
    if is_key(dtype):
        return key_maker(dtype)
    return as_weak if weak else lambda array: array
