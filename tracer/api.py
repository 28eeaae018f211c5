"""`tracer.compile`: trace, optimise under a byte limit, lower, check, run. Composition only."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tracer.compiled import Program, build_program
from tracer.errors import DTypeError, TracerError
from tracer.ir import Graph
from tracer.numpy.array import Array
from tracer.numpy.base import deleted_error
from tracer.numpy.recording import current_recording
from tracer.optimizer.plan import Plan
from tracer.options import CompileOptions, compile_options
from tracer.signature import Call, read_call


class CompiledFunction:
    """A function that is traced, planned and compiled once for each signature.

    Made by `tracer.compile`. Calling it runs the compiled program; the methods show what it is
    made of and take arrays or `tracer.ShapeDtype`, so that nothing needs to be allocated.
    """

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._programs: dict[Any, Program] = {}
        self._by_types: dict[tuple[Any, ...], Program] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays (or anything array-like); returns what the function returns."""
        if not kwargs and current_recording() is None:
            try:
                program = self._by_types[tuple([array._type for array in args])]
            except (KeyError, AttributeError):
                pass  # not compiled yet, or not plain arrays: the long way
            else:
                return self._run(program, args)
        return self._call_slowly(args, kwargs)

    def _call_slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = read_call(self._function, self._options.static_argnums, args, kwargs)
        if current_recording() is not None:
            return call.inline()
        arrays = call.arrays(self._options.device)
        program = self._program(call)
        if call.is_flat and all(type(item) is Array for item in args):
            self._by_types[tuple([array._type for array in args])] = program
        return self._run(program, arrays)

    def _run(self, program: Program, arrays: Sequence[Array]) -> Any:
        try:
            results = program.execute(*[a._buffer for a in arrays], *program.captured_buffers())
        except (TracerError, TypeError, ValueError):
            # Only now, as the good path has no time to look at each array.
            for array in arrays:
                if array.is_deleted():
                    raise deleted_error(array) from None
            raise
        for position in program.donated:
            arrays[position]._mark_donated(f"the call of {self._name} that it was donated to")
        device = program.device
        outputs = [
            Array(buffer, type, device)
            for buffer, type in zip(results, program.output_types, strict=True)
        ]
        return outputs[0] if program.is_single else program.unflatten(outputs)

    @property
    def _name(self) -> str:
        return getattr(self._function, "__name__", repr(self._function))

    def _program(self, call: Call) -> Program:
        program = self._programs.get(call.key)
        if program is None:
            program = build_program(call, self._options, self._name)
            self._programs[call.key] = program
        return program

    def _program_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        return self._program(
            read_call(self._function, self._options.static_argnums, args, kwargs)
        )

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan for these arguments (arrays or `ShapeDtype`); compiles, runs nothing.

        Raises
        ------
        MemoryLimitError
            The limit cannot be met.
        """
        return self._program_for(args, kwargs).plan

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the optimised dataflow graph; print it to read it."""
        return self._program_for(args, kwargs).graph

    def stablehlo(self, *args: Any, **kwargs: Any) -> str:
        """Return the StableHLO text that is handed to XLA."""
        return self._program_for(args, kwargs).stablehlo()

    def hlo(self, *args: Any, **kwargs: Any) -> str:
        """Return XLA's optimised program as text."""
        return self._program_for(args, kwargs).execute.hlo()

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"


def compile(  # noqa: A001 - the public name
    fn: Callable[..., Any],
    *,
    memory_limit: int | str | None = None,
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] = (),
    device: Any = None,
    tensor_size_threshold: int | str | None = None,
    tensor_split_size: int | str | None = None,
) -> CompiledFunction:
    """Compile a function of arrays, to run within a byte limit.

    Parameters
    ----------
    fn : callable
        A function of arrays and nested containers of them, written with `tracer.numpy`.
    memory_limit : int or str, optional
        Bytes for the whole program: arguments, results, temporaries and library scratch. An int,
        "4GB" (4e9 bytes), "4GiB" (2**32), or "auto" for what the device has free. By default
        there is no limit (or `TRACER_MEMORY_LIMIT` in the environment).
    donate_argnums : int or tuple of int
        Positional arguments whose memory the results may take over. They cannot be used after.
    static_argnums : int or tuple of int
        Positional arguments that are no arrays; hashable. Each value compiles anew.
    device : str or Device, optional
        Such as "cpu:0"; by default the default device.
    tensor_size_threshold : int or str, optional
        Split every intermediate tensor above this size, whatever the limit (the option of the
        paper).
    tensor_split_size : int or str, optional
        The most that a slice of such a tensor may take.

    Returns
    -------
    CompiledFunction
        Call it like `fn`. It has `plan`, `graph`, `stablehlo` and `hlo`, each for arguments.

    Raises
    ------
    ArgumentError
        An option makes no sense.
    MemoryLimitError
        At the first call (or `plan`) when the limit cannot be met; nothing has run then.

    Notes
    -----
    Inside of another traced function the call is recorded into that function, and that
    function's limit rules.

    References
    ----------
    Artemev, An, Roeder, van der Wilk: Memory Safe Computations with XLA Compiler, NeurIPS 2022.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> def kernel_product(x, v):
    ...     return tnp.exp(-((x[:, None] - x[None, :]) ** 2)) @ v
    >>> f = tracer.compile(kernel_product, memory_limit="1MB")
    >>> f(tnp.zeros(1000), tnp.ones(1000))[:2]
    Array([1000., 1000.])
    """
    if not callable(fn):
        raise DTypeError(
            f"tracer.compile takes a function, not {type(fn).__name__}",
            mend="pass the function itself: tracer.compile(f), not tracer.compile(f(x))",
        )
    options = compile_options(
        memory_limit, donate_argnums, static_argnums, device, tensor_size_threshold,
        tensor_split_size,
    )  # fmt: skip
    return CompiledFunction(fn, options)
