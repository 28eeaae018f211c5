"""`tracer.jax.limit`: what `jax.jit` does, within a byte limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from tracer.array.array import Array
from tracer.compilation.comparison import Check
from tracer.compilation.donation import Donatable
from tracer.compilation.function import CompiledFunction, compile
from tracer.compilation.importing import compile_imported, named
from tracer.compilation.statics import Statics, bound, resolve_statics
from tracer.errors import ArgumentError, DTypeError, TracerError, UnsupportedError
from tracer.jax.check import compare
from tracer.jax.evaluate import Evaluator, check_supported
from tracer.jax.handover import device_of, from_jax_array, place_of, to_jax_array, words_of
from tracer.jax.inside import Flat, Inside, kind_of
from tracer.jax.sources import current_source, is_users
from tracer.jax.tracing import is_tracing, jitted_with, trace
from tracer.jax.types import physical_type
from tracer.optimizer.plan import Plan

Names = str | Sequence[str]
Positions = int | Sequence[int]


@dataclass(frozen=True)
class _Program:
    """What is kept for one trace of JAX's, on one of its devices."""

    jaxpr: Any
    device: Any
    function: CompiledFunction
    donated: tuple[bool, ...]
    structure: Any


class LimitedFunction:
    """A function of jax.Arrays that runs within a byte limit; made by `limit`.

    Calling it does what the function does. Its programs are made once for each signature, as those
    of `jax.jit`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        statics: Statics,
        donated: tuple[Positions, Names],
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._options = options
        self._statics = statics
        self._jitted = jitted_with(
            statics,
            function,
            donate_argnums=donated[0] or None,
            donate_argnames=donated[1] or None,
        )
        self._programs: dict[tuple[int, Any], _Program] = {}
        self._insides: dict[Any, tuple[Flat, Inside]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays; returns what the function returns, as jax.Arrays."""
        leaves = self._leaves(args, kwargs)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._call_inside(args, kwargs)
        program = self._program(args, kwargs, leaves)
        _check_given(leaves, program.donated)
        arrays = [
            _handed_over(leaf, aval, donated, program.device)
            for leaf, aval, donated in zip(
                leaves, program.jaxpr.in_avals, program.donated, strict=True
            )
        ]
        results = map(to_jax_array, program.function(*arrays), program.jaxpr.out_avals)
        return jax.tree.unflatten(program.structure, results)

    def _call_inside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Take part in a transformation of JAX."""
        if is_tracing():
            raise UnsupportedError(
                f"{named(self._function)}, which has a limit, in a function that has one",
                mend="call the function itself, f.__wrapped__: the outer limit covers it",
            )
        dynamic, fixed = self._statics.split(args, kwargs)
        leaves, structure = jax.tree.flatten(dynamic)
        leaves = [x if hasattr(x, "dtype") else jax.numpy.asarray(x) for x in leaves]
        kinds = tuple(map(kind_of, leaves))
        key = structure, kinds, fixed
        if key not in self._insides:
            flat = Flat(bound(self._function, fixed, len(args)), structure, kinds)
            self._insides[key] = flat, Inside(flat, self._with_same_options)
        flat, inside = self._insides[key]
        results = inside.with_gradient(*map(words_of, leaves))
        return flat.unflatten(results)

    def _with_same_options(self, function: Callable[..., Any]) -> LimitedFunction:
        return LimitedFunction(function, self._options, Statics(), ((), ()))

    def program_of(self, *types: Any) -> tuple[CompiledFunction, Any, tuple[Any, ...]]:
        """Return the program for types, compiled, its device, and the types of its results."""
        program = self._program(types, {}, self._leaves(types, {}))
        try:
            self.plan(*types)
        except TracerError as error:
            if error.where is not None and not is_users(error.where.file):
                error.where = current_source()
            raise
        results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in program.jaxpr.out_avals]
        return program.function, place_of(program.device), tuple(results)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan for these arguments (arrays or `jax.ShapeDtypeStruct`); runs nothing.

        Raises
        ------
        MemoryLimitError
            The limit cannot be met.
        """
        program = self._program(args, kwargs, self._leaves(args, kwargs))
        types = [physical_type(aval, None) for aval in program.jaxpr.in_avals]
        return program.function.plan(*types)

    def check(self, *args: Any, **kwargs: Any) -> Check:
        """Compare the results with those of `jax.jit`, which takes the memory that it takes.

        Parameters
        ----------
        *args, **kwargs
            Those of a call. None is donated.

        Returns
        -------
        Check
            True where all results are within rounding; print it for a table.
        """
        copied_args, copied_kwargs = jax.tree.map(_copied, (args, kwargs))
        results = self(*copied_args, **copied_kwargs)
        return compare(self._function, self._statics, args, kwargs, results)

    def _program(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any]
    ) -> _Program:
        traced = trace(self._jitted, args, kwargs)
        device = device_of(leaves, named(self._function))
        program = self._programs.get((id(traced.jaxpr), device))
        if program is None:
            program = self._built(traced, device, args, kwargs)
            # JAX keeps one jaxpr for a signature; holding it here keeps its id its own.
            self._programs[id(traced.jaxpr), device] = program
        return program

    def _built(
        self, traced: Any, device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Program:
        closed = traced.jaxpr
        check_supported(closed)
        donated = tuple(bool(info.donated) for info in jax.tree.leaves(traced.args_info))

        def run(*arrays: Any) -> Any:
            return tuple(Evaluator(is_differentiated=False, device=device).run(closed, arrays))

        run.__name__ = run.__qualname__ = named(self._function)
        positions = tuple(i for i, is_donated in enumerate(donated) if is_donated)
        compiled = compile_imported(
            run,
            self._donatable(args, kwargs),
            donate_argnums=positions,
            device=place_of(device),
            **self._options,
        )
        if positions:  # A program that cannot be made leaves what is donated to it alone.
            compiled.plan(*(physical_type(aval, None) for aval in closed.in_avals))
        return _Program(closed, device, compiled, donated, jax.tree.structure(traced.out_info))

    def _donatable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Donatable]:
        """Return the arguments of a call that are not static, each with its leaves."""
        fixed = self._statics.places(len(args))
        given: list[tuple[int | None, str, Any]] = [
            (i, "", argument) for i, argument in enumerate(args) if i not in fixed
        ]
        # JAX flattens keywords by name.
        by_name = sorted(kwargs.keys() - self._statics.names)
        given += [(None, name, kwargs[name]) for name in by_name]
        found, first = [], 0
        for position, name, argument in given:
            last = first + len(jax.tree.leaves(argument))
            if first < last:
                found.append(Donatable(position, name, frozenset(range(first, last))))
            first = last
        return found

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the leaves of the arguments that are arrays, in the order of the trace."""
        leaves: list[Any] = jax.tree.leaves(self._statics.split(args, kwargs)[0])
        return leaves

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind to an instance, which is the first argument: make it static, or a pytree."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<limited {named(self._function)}>"


def _check_given(leaves: Sequence[Any], donated: Sequence[bool]) -> None:
    """Raise where an argument has no data, before any that is donated is taken."""
    gone = [id(leaf) for leaf, is_donated in zip(leaves, donated, strict=True) if is_donated]
    for leaf in leaves:
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise ArgumentError(
                f"cannot run on {leaf!r}: it has no data",
                mend="pass an array, or use .plan(...) for types",
            )
        if not isinstance(leaf, jax.Array):
            continue
        is_twice = id(leaf) in gone and sum(other is leaf for other in leaves) > 1
        if leaf.is_deleted() or is_twice:
            why = (
                "is given twice, once to be donated"
                if is_twice
                else "was donated before, or deleted"
            )
            raise ArgumentError(
                f"an argument of {leaf.dtype}{list(leaf.shape)} {why}",
                mend="pass an array that is there; x.copy() before x is donated",
            )


def _handed_over(leaf: Any, aval: Any, donated: bool, device: Any) -> Array:
    """Return an argument as an array of ours; one that is donated is gone then."""
    if not isinstance(leaf, jax.Array):
        with jax.ensure_compile_time_eval():  # Also in a function that JAX traces.
            leaf = jax.numpy.asarray(leaf, aval.dtype)
        return from_jax_array(leaf, device, private=donated)
    array = from_jax_array(leaf, device, private=donated)
    if donated:
        leaf.delete()
    return array


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, jax.Array) else leaf


def limit(
    fn: Callable[..., Any],
    *,
    memory_limit: float | str | None = None,
    static_argnums: Positions = (),
    static_argnames: Names = (),
    donate_argnums: Positions = (),
    donate_argnames: Names = (),
    split: str = "auto",
    passes: str | Sequence[str] | None = None,
) -> LimitedFunction:
    """Compile a function of JAX, to run within a byte limit.

    Parameters
    ----------
    fn : callable
        What `jax.jit` takes: a function of pytrees of arrays, written with JAX.
    memory_limit : int, float or str, optional
        Bytes for the whole program: arguments, results, temporaries and library scratch. As for
        `tracer.compile`.
    static_argnums, static_argnames : int, str or sequences of these, optional
        Arguments that are no arrays, as for `jax.jit`.
    donate_argnums, donate_argnames : int, str or sequences of these, optional
        Arguments whose memory the results may take over; they are deleted by the call, as with
        `jax.jit`. Each is copied once at the call and freed before the next one is: the planned
        memory is that of the program.
    split, passes : optional
        As for `tracer.compile`.

    Returns
    -------
    LimitedFunction
        Call it like `fn`: it takes and returns jax.Arrays, which share their memory with the
        program's. It has `plan` and `check`.

    Raises
    ------
    UnsupportedError
        At the first call (or `plan`): the function uses something that tracer does not have.
        The message names the primitive of JAX and the line.
    MemoryLimitError
        At the first call (or `plan`): the limit cannot be met; nothing has run then.
    TracingError
        JAX could not trace the function.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import tracer.jax
    >>> def kernel_product(x, v):
    ...     return jnp.exp(-((x[:, None] - x[None, :]) ** 2)) @ v
    >>> f = tracer.jax.limit(kernel_product, memory_limit="1MB")
    >>> f(jnp.zeros(1000), jnp.ones(1000))[:2]
    Array([1000., 1000.], dtype=float32)
    """
    if not callable(fn):
        raise DTypeError(
            f"tracer.jax.limit takes a function, not {type(fn).__name__}",
            mend="pass the function itself: tracer.jax.limit(f), not tracer.jax.limit(f(x))",
        )
    options: dict[str, Any] = {"memory_limit": memory_limit, "split": split, "passes": passes}
    compile(fn, **options)  # The options are checked here, not at the first call.
    statics = resolve_statics(fn, tuple_of(static_argnums), tuple_of(static_argnames))
    return LimitedFunction(
        fn, options, statics, (tuple_of(donate_argnums), tuple_of(donate_argnames))
    )


def tuple_of(value: Any) -> tuple[Any, ...]:
    """Return positions or names, of which there may be one, as a tuple."""
    return (value,) if isinstance(value, int | str) else tuple(value)
