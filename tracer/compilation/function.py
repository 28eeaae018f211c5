"""`tracer.compile`: trace, optimise under a byte limit, lower, check, run. Composition only."""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload
from weakref import WeakSet

from tracer import lowering, tree
from tracer.array.active import ACTIVE
from tracer.array.array import Array, deleted_error
from tracer.array.defaults import tell_of_defaults
from tracer.compilation.check import check
from tracer.compilation.checkpoints import key_of
from tracer.compilation.comparison import Check
from tracer.compilation.donation import given_twice
from tracer.compilation.into import StoringFunction, as_paths
from tracer.compilation.log import log_compile, log_failure, why_compiled
from tracer.compilation.mesh_arguments import options_for
from tracer.compilation.options import CompileOptions, compile_options, read_checkpoints
from tracer.compilation.program import Program, build_program
from tracer.compilation.progress import Progress, watched
from tracer.compilation.quick import find_flat, find_nested, is_quick
from tracer.compilation.signature import Call, placed, read_call
from tracer.compilation.storage_notes import bytes_read
from tracer.compilation.task import Choice
from tracer.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    OutOfMemoryError,
    TracerError,
    TracingError,
    UnsupportedError,
    printable,
    shorten,
    with_short_traceback,
)
from tracer.ir import Graph
from tracer.lowering import Mesh
from tracer.optimizer.plan import Plan
from tracer.sharding import resolve_spread
from tracer.storage import Meter, metered

_FUNCTIONS: WeakSet[CompiledFunction] = WeakSet()
_FUNCTIONS_LOCK = threading.RLock()
"""Sets that grow cannot be iterated: other threads make functions meanwhile."""


def _forget_all() -> None:
    """Trace all functions again: what they were traced with has changed."""
    with _FUNCTIONS_LOCK:
        functions = [*_FUNCTIONS]
    for function in functions:
        function._forget()


tell_of_defaults(_forget_all)


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
        self._flat_programs: dict[tuple[Any, ...], Program] = {}
        self._lock = threading.RLock()
        with _FUNCTIONS_LOCK:
            _FUNCTIONS.add(self)

    def _forget(self) -> None:
        with self._lock:
            self._programs.clear()
            self._flat_programs.clear()

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle as the function and the options: where it is unpickled it is compiled again.

        What a decorator made is pickled by its name, as functions are.
        """
        module, name = getattr(self, "__module__", None), getattr(self, "__qualname__", "")
        found: Any = None
        try:
            found = functools.reduce(getattr, name.split("."), sys.modules[str(module)])
        except (AttributeError, KeyError):
            pass  # A function of a function has no name that others find.
        return name if found is self else (type(self), (self._function, self._options))

    def __copy__(self) -> CompiledFunction:
        """Return the same object, as copies of functions are."""
        return self

    def __deepcopy__(self, memo: Any) -> CompiledFunction:
        """Return the same object, as copies of functions are."""
        return self

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind to an instance, so that a method can be compiled like a function."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays (or anything array-like); returns what the function returns."""
        try:
            if ACTIVE.stack:
                statics = self._options.statics
                call = read_call(self._function, statics, args, kwargs, reads_files=False)
                return call.inline()
            if kwargs:
                return self._call_nested(args, kwargs)
            program: Program | None = None
            if self._flat_programs:  # A function of containers has none.
                try:
                    # No more than one attribute of each array: jax does this in C++.
                    program = self._flat_programs[tuple([a._signature for a in args])]
                except (KeyError, AttributeError):
                    pass
            # Outside of the except clause, which would put itself above the user's own errors.
            return self._call_nested(args, kwargs) if program is None else self._run(program, args)
        except TracerError as error:
            shorten(error)
            raise

    def _call_nested(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = find_flat(self._flat_programs, args) if not kwargs and self._flat_programs else None
        if found is None:
            found = find_nested(self._programs, self._options.statics, args, kwargs)
        if found is None:
            return self._call_slowly(args, kwargs)
        program, leaves, are_placed = found
        return self._run(program, leaves if are_placed else self._placed(program, leaves))

    def _placed(self, program: Program, leaves: Sequence[Any]) -> list[Array]:
        """Return the arguments of a program as arrays where it takes them."""
        spread = program.arguments
        return placed(leaves, (self._options.device,) if spread is None else spread.places)

    def _call_slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = self._read(args, kwargs)
        program, arrays = self._program_and_arrays(call)
        if call.is_flat and all(map(is_quick, args)):
            with self._lock:  # Another thread may have had all programs forgotten meanwhile.
                if self._programs.get(call.key) is program:
                    self._flat_programs[call.signatures] = program
        if not call.stored:
            return self._run(program, arrays)
        with metered(Meter(self._name, lambda: bytes_read(program.graph)), call.stored):
            return self._run(program, arrays)

    def _program_and_arrays(self, call: Call) -> tuple[Program, list[Array]]:
        """Return the program and the arrays of a call."""
        if self._options.spread is None:
            arrays = call.arrays(self._options.device)
            return self._program(call), arrays
        program = self._program(call)
        assert program.arguments is not None
        return program, call.arrays(*program.arguments.places)

    def _run(self, program: Program, arrays: Sequence[Array]) -> Any:
        if program.is_plain:
            buffers: Sequence[Any] = [array._buffer for array in arrays]
        else:
            program, buffers = self._prepared(program, arrays)
        try:
            results = program.execute(*buffers)
        except OutOfMemoryError as error:
            error.plan = program.plan
            raise
        except (TracerError, TypeError, ValueError):
            # Only now, as the good path has no time to look at each array.
            self._check_arrays(program, arrays)
            raise
        if program.is_plain and program.is_single:
            return Array(results[0], program.output_types[0], program.output_devices[0])
        outputs = list(map(Array, results, program.output_types, program.output_devices))
        if not program.is_plain:
            program.finish(arrays, outputs)
        return outputs[0] if program.is_single else program.unflatten(outputs)

    def _prepared(self, program: Program, arrays: Sequence[Array]) -> tuple[Program, Sequence[Any]]:
        """Return a program with the current values of what it closes over, and its buffers."""
        if program.readings:
            program = self._current(program)
        if program.arguments is not None:
            return program, program.arguments.buffers((*arrays, *program.captured))
        return program, [array._buffer for array in (*arrays, *program.captured)]

    def _check_arrays(self, program: Program, arrays: Sequence[Array]) -> None:
        """Raise the error that says which array a program could not take, if there is one."""
        if not program.execute.is_here:
            return
        given = (*arrays, *program.captured)
        for array in given:
            if array.is_deleted():
                raise deleted_error(array) from None
            if program.arguments is None and array.device is not program.device:
                raise DeviceError(
                    f"{self._name} is compiled for {program.device}, and an array, {array.type}, "
                    f"is on {array.device}",
                    mend=f"move it with x.to_device('{program.device}'), or compile with "
                    + options_for(array.device),
                ) from None
        twice = given_twice(self._name, program.names, program.donated, given)
        if twice is not None:
            raise twice from None

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        call = read_call(self._function, self._options.statics, args, kwargs)
        limit = self._options.limit
        for array in call.stored:
            if isinstance(limit, int):
                array.require_pieces_within(limit)
        if not call.stored or self._can_read_files:
            return call
        call = read_call(self._function, self._options.statics, args, kwargs, reads_files=False)
        spread = self._options.spread
        if call.stored and spread is not None and not spread.is_automatic:
            raise UnsupportedError(
                f"in_shardings are for arrays in memory, and {self._name} is given "
                f"{call.stored[0]!r}",
                mend="leave them out: each device then reads the part that it computes with; or "
                "read it into the devices' memory first, with tracer.device_put(x, sharding)",
            )
        return call

    @property
    def _can_read_files(self) -> bool:
        """Tell whether programs can call Python while they run."""
        spread = self._options.spread
        if spread is not None and not spread.is_automatic:
            return False
        device = (
            lowering.find_device(self._options.device) if spread is None else spread.mesh.flat[0]
        )
        return lowering.target_of(device).kernels.host_calls

    @property
    def _name(self) -> str:
        return printable(getattr(self._function, "__name__", repr(self._function)))

    def _program(self, call: Call) -> Program:
        program = self._programs.get(call.key)
        if program is None:
            # Threads that make the first call together trace and compile once.
            with self._lock:
                program = self._programs.get(call.key)
                if program is None:
                    program = self._built(call)
                    self._programs[call.key] = program
        return self._current(program)

    def _built(self, call: Call) -> Program:
        """Trace, plan and compile a call's program: shown while it takes long, and logged."""
        name, limit = self._name, self._options.limit
        why = why_compiled(call, self._programs)
        with watched(Progress(name, limit)) as progress:
            try:
                program = build_program(call, self._options, name, self._choice_for(call))
            except TracerError as error:
                log_failure(name, call, limit, why, error)
                raise
        log_compile(name, call, limit, why, progress)
        return program

    def _choice_for(self, call: Call) -> Choice | None:
        """Return what was chosen last for a call that differs in larger shapes only."""
        for (structure, _, statics), program in reversed(self._programs.items()):
            choice = program.choice
            # By their hashes first: NumPy's scalars compare with tuples element by element.
            is_alike = hash(statics) == hash(call.statics) and statics == call.statics
            is_alike = is_alike and structure == call.structure
            if choice is not None and is_alike and choice.is_for_larger(call.types):
                return choice
        return None

    def _current(self, program: Program) -> Program:
        """Return a program with the current values of the arrays that the function closes over."""
        if program.is_outdated:
            with self._lock:
                key = program.call.key
                program = self._programs.get(key, program)
                if program.is_outdated:
                    anew = program.call.traced_anew()
                    program = self._programs[key] = self._built(anew)
                if program.call.signatures in self._flat_programs:
                    self._flat_programs[program.call.signatures] = program
        program.follow()
        return program

    def _program_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        return self._program(self._read(args, kwargs))

    @with_short_traceback
    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan for these arguments (arrays or `ShapeDtype`); compiles, runs nothing.

        Raises
        ------
        MemoryLimitError
            The limit cannot be met.
        """
        return self._program_for(args, kwargs).plan

    def into(self, *paths: Any) -> StoringFunction:
        """Return the function with its results in storage, written while they are computed.

        Parameters
        ----------
        *paths : str, path or None
            One for each result, in order: `.npy`, `.zarr` or `.h5` files. None: in memory.

        Returns
        -------
        StoringFunction
            Called like the function, it returns a `StoredArray` for each result with a path. Of
            these only blocks count against the memory limit.

        Notes
        -----
        A file has its name once it is complete, and is on the disk then. After an error, or if the
        process ends, there is none; a path that exists is refused.

        Examples
        --------
        >>> import numpy as np, tempfile, tracer, tracer.numpy as tnp
        >>> folder = tempfile.mkdtemp()
        >>> f = tracer.compile(lambda x: tnp.exp(x[:, None] - x), memory_limit="200kB")
        >>> distances = f.into(f"{folder}/out.npy")(np.linspace(0, 1, 1000))
        >>> distances.shape, distances.nbytes
        ((1000, 1000), 8000000)
        >>> float(distances[3, 3:4][0])
        1.0
        """
        options = self._options
        return StoringFunction(
            self._function, self, as_paths(paths), lambda made: type(self)(made, options)
        )

    @with_short_traceback
    def check(self, *args: Any, **kwargs: Any) -> Check:
        """Compare the results of the program as planned with those of the program as written.

        As written: the traced graph without any pass, compiled with XLA's own options. It takes
        the memory that the limit was to spare, and several runs.

        Parameters
        ----------
        *args, **kwargs
            Those of a call: arrays, not types. None is donated, changed or kept.

        Returns
        -------
        Check
            True where all outputs are within rounding; print it for a table. It has the largest
            differences of each output, and where one is above what rounding explains (measured
            with the program in more digits, and with arguments moved by their last digit) the
            first pass that took it there, or the option of XLA's.

        Raises
        ------
        OutOfMemoryError
            The program as written does not fit into the memory that is free.
        TracingError
            Inside of a traced function.

        Examples
        --------
        >>> import tracer, tracer.numpy as tnp
        >>> f = tracer.compile(lambda x: tnp.exp(x[:, None] - x).sum(1), memory_limit="100kB")
        >>> bool(f.check(tnp.linspace(0, 1, 300)))
        True
        """
        self._refuse_traced("check")
        call = self._read(args, kwargs)
        program, arrays = self._spared(call)

        def run() -> dict[int, Array]:
            results = dict(enumerate(tree.leaves(self._run(program, arrays))))
            kept = [pair for pair in program.written if pair[0] not in program.donated]
            return results | {place: arrays[position] for position, place in kept}

        return check(call, self._options, self._name, run, program.like)

    def _refuse_traced(self, method: str) -> None:
        if ACTIVE.stack:
            raise TracingError(
                f"{self._name}.{method} inside of a traced function: its arguments have no data",
                mend=f"call {method} outside of it",
            )

    def _spared(self, call: Call) -> tuple[Program, list[Array]]:
        """Return the program and the arrays of a call; copies of those that it would change."""
        program, arrays = self._program_and_arrays(call)
        changed = {position for position, _ in program.written}
        for position in changed.union(program.donated):
            arrays[position] = arrays[position].copy()
        return program, arrays

    @with_short_traceback
    def sample_memory(self, *args: Any, **kwargs: Any) -> tuple[tuple[float, int], ...]:
        """Call the function twice, and read what the second call takes while it runs.

        For `plan.save(path, measured=...)`. The bytes are the arguments' and what comes on top of
        the memory before the call: resident memory of the process on a CPU, what the allocator has
        handed out on other devices.

        Parameters
        ----------
        *args, **kwargs
            Those of a call: arrays, not types. None is donated or changed.

        Returns
        -------
        tuple of (float, int)
            Seconds since the call began, and bytes, about each millisecond.

        Raises
        ------
        TracingError
            Inside of a traced function.

        Examples
        --------
        >>> import tracer, tracer.numpy as tnp
        >>> f = tracer.compile(lambda x: tnp.exp(x[:, None] - x).sum(1), memory_limit="1MB")
        >>> samples = f.sample_memory(tnp.linspace(0, 1, 4000))
        >>> seconds, nbytes = samples[-1]
        """
        self._refuse_traced("sample_memory")
        call = self._read(args, kwargs)
        for _ in range(2):  # The first call loads what its libraries need.
            program, arrays = self._spared(call)

            def run(program: Program = program, arrays: list[Array] = arrays) -> None:
                for leaf in tree.leaves(self._run(program, arrays)):
                    leaf.block_until_ready()

            samples = lowering.sample_memory(run, program.execute.device)
        plan = program.plan
        return tuple((seconds, plan.argument_bytes + nbytes) for seconds, nbytes in samples)

    @with_short_traceback
    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the optimised dataflow graph; print it to read it."""
        return self._program_for(args, kwargs).graph

    @with_short_traceback
    def stablehlo(self, *args: Any, **kwargs: Any) -> str:
        """Return the StableHLO text that is passed to XLA."""
        return self._program_for(args, kwargs).stablehlo()

    @with_short_traceback
    def hlo(self, *args: Any, **kwargs: Any) -> str:
        """Return XLA's optimised program as text."""
        return self._program_for(args, kwargs).execute.hlo()

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"


class CheckpointedFunction(CompiledFunction):
    """A compiled function whose loops keep what they carry; see `checkpoint` of `compile`."""

    def _run(self, program: Program, arrays: Sequence[Array]) -> Any:
        checkpoints = self._options.checkpoints
        assert checkpoints is not None
        if checkpoints.is_running_here:
            return super()._run(program, arrays)
        with checkpoints.running(key_of(program, arrays)):
            return super()._run(program, arrays)


@overload
def compile(fn: Callable[..., Any], **options: Any) -> CompiledFunction: ...


@overload
def compile(
    fn: None = None, **options: Any
) -> Callable[[Callable[..., Any]], CompiledFunction]: ...


def compile(  # type: ignore[misc] # the overloads say what is returned, not each option again
    fn: Callable[..., Any] | None = None,
    *,
    memory_limit: float | str | None = None,
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    device: Any = None,
    tensor_size_threshold: int | str | None = None,
    tensor_split_size: int | str | None = None,
    split: str = "auto",
    passes: str | Sequence[str] | None = None,
    planning_seconds: float | None = None,
    mesh: Mesh | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    checkpoint: Any = None,
    checkpoint_seconds: float = 60.0,
) -> Any:
    """Compile a function of arrays, to run within a byte limit.

    Parameters
    ----------
    fn : callable, optional
        A function of arrays and nested containers of them, written with `tracer.numpy`. Without it
        a decorator with these options is returned: `@tracer.compile(memory_limit="1GB")`.
    memory_limit : int, float or str, optional
        Bytes for the whole program: arguments, results, temporaries and library scratch. A number,
        "4GB" (4e9 bytes), "4GiB" (2**32), "auto" for what the device has free when the program is
        made, or "50%" for a part of that. By default there is no limit (or `TRACER_MEMORY_LIMIT` in
        the environment).
    donate_argnums : int or tuple of int
        Arguments whose memory the results may take over. They cannot be used after the call. If no
        result can use an argument's memory, it is freed after the call, and a `DonationWarning`
        says why.
        NumPy arrays are copied to the device as usual, and only the copy is donated.
    donate_argnames : str or tuple of str
        The same by name. An argument named in either is donated whether it is passed by position
        or by name.
    static_argnums : int or tuple of int
        Arguments that are not arrays, but hashable. The function is compiled again for each value.
    static_argnames : str or tuple of str
        The same by name. As in JAX, an argument named in either is static whether it is passed by
        position or by name; where both are given, they are taken as they are.
    device : str or Device, optional
        Such as "cpu:0"; by default the default device.
    tensor_size_threshold : int or str, optional
        Split every intermediate tensor above this size, whatever the limit (the option of the
        paper).
    tensor_split_size : int or str, optional
        The most that a slice of such a tensor may take.
    split : {"auto", "never"}
        "auto" computes large values in slices if the limit requires it, and also, with or without a
        limit, if the time model finds that faster. "never" leaves the program whole.
    passes : str or sequence of str, optional
        Which passes and rewrite rules run: the names in the plan, with hyphens for blanks.
        `"-reorder-chains,-log1p"` leaves these out. Names without a minus run alone, together with
        the passes that every program needs. `TRACER_PASSES` in the environment does the
        same for all programs. docs/passes.md lists them.
    planning_seconds : float, optional
        About how long planning and compiling may go on; by default ten seconds and three times
        what the program takes to compile, `float("inf")` for a search to the end. It is counted in
        nodes that are looked at and compiled, so that plans do not depend on how busy the machine
        is. What is needed for a plan is done in any case; `plan.is_search_cut` says whether
        candidates were left out, so that a faster program, or one for a lower limit, may exist.
    mesh : Mesh, optional
        Several devices (`tracer.sharding`) that run the program together; the limit applies to
        each. The planner spreads the axes that it would split for memory. Arrays that are spread
        differently over its devices are moved at the call. Results that return as arguments, as in
        a training loop, are spread like these.
    in_shardings, out_shardings : optional
        How arguments and results are spread over the mesh: a `NamedSharding` or `PartitionSpec`
        for all, or containers of them like the arguments and results, as deep as is wanted. None
        in `in_shardings`: whole on every device; in `out_shardings`: as XLA chooses. Arrays that
        are spread otherwise than `in_shardings` say are refused.
    checkpoint : str or path, optional
        A folder. The outermost loops of a call, and loops inside that read or write storage, keep
        what they carry in it from time to time. If the process is killed, the same call (the same
        program, and arguments of the same values) goes on from there, in this process or another
        one on the machine, and has the same result. After a call that ends well nothing is left.
    checkpoint_seconds : float
        The time between two checkpoints of a loop.

    Returns
    -------
    CompiledFunction
        Call it like `fn`. It has `plan`, `graph`, `stablehlo`, `hlo` and `check`, each for
        arguments.

    Raises
    ------
    ArgumentError
        An option makes no sense.
    MemoryLimitError
        At the first call (or `plan`) when the limit cannot be met; nothing has run then.

    Notes
    -----
    If the function writes into an argument (`x[i] = y`), the array that was passed has the new
    values after the call, unless it was donated. NumPy arrays and numbers are copied in and keep
    their values.

    Inside another traced function the call is recorded into that function, whose limit applies.

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
    if fn is None:
        return functools.partial(compile, **{k: v for k, v in locals().items() if k != "fn"})
    if not callable(fn):
        raise DTypeError(
            f"tracer.compile takes a function, not {type(fn).__name__}",
            mend="pass the function itself: tracer.compile(f), not tracer.compile(f(x))",
        )
    options = compile_options(
        fn, memory_limit, donate_argnums, donate_argnames, static_argnums, static_argnames, device,
        tensor_size_threshold, tensor_split_size, split, passes, planning_seconds,
    )  # fmt: skip
    spread = resolve_spread(mesh, in_shardings, out_shardings)
    if spread is not None and device is not None:
        raise ArgumentError(
            f"device={device!r} together with a mesh",
            mend="leave device out: the mesh says where the program runs",
        )
    checkpoints = read_checkpoints(checkpoint, checkpoint_seconds)
    if checkpoints is not None and spread is not None:
        raise ArgumentError(
            f"checkpoint={checkpoint!r} together with a mesh",
            mend="leave one out: only programs for one CPU keep what their loops carry",
        )
    kind = CompiledFunction if checkpoints is None else CheckpointedFunction
    return kind(fn, replace(options, spread=spread, checkpoints=checkpoints))
