"""`f.into(path)`: results that go to storage while they are computed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.recording import TracedArray
from tracer.array.weak import as_given
from tracer.compilation.checkpoints import digest, key_of
from tracer.errors import ArgumentError, StorageError, TracingError, UnsupportedError
from tracer.ir import ShapeDtype
from tracer.optimizer.plan import Plan
from tracer.storage import Run, Sink, open, partial_path  # noqa: A004

if TYPE_CHECKING:
    from tracer.compilation.function import CompiledFunction

_NUMBERS = "tracer_numbers"
"""The keyword by which the program is given the numbers of its sinks."""


class StoringFunction:
    """A compiled function whose results go to storage. Made by `CompiledFunction.into`."""

    def __init__(
        self,
        function: Callable[..., Any],
        made: CompiledFunction,
        paths: Sequence[Path | None],
        compiled: Callable[[Callable[..., Any]], CompiledFunction],
    ) -> None:
        self._made, self._paths = made, paths
        self._writing = compiled(_writing(function, paths))
        spread = self._writing._options.spread
        if spread is not None and len(spread.mesh.processes) > 1:
            raise UnsupportedError(
                f"results of several processes, on {spread.mesh}, do not go to one file",
                mend="write the parts of each process, tracer.sharding.local_parts(x), to files "
                "of its own",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the function and the paths."""
        return type(self._made).into, (self._made, *self._paths)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and return the results: those with a path as `StoredArray`, once all are complete.

        Raises
        ------
        StorageError
            A path exists, another process writes to it, or it cannot be written. Nothing is left.
        """
        types, structure = self._results(args, kwargs)
        with ExitStack() as stack:
            sinks = self._sinks(stack, types, self._begun(stack, args, kwargs))
            numbers = [np.array(sink.number, np.int32) for sink in sinks]
            found = self._writing(*args, **kwargs, **{_NUMBERS: numbers})
            counts = [int(found[i]) for i, path in enumerate(self._paths) if path is not None]
            _check(sinks, counts)
            for sink in sinks:
                sink.finish()
        leaves = [
            result if path is None else open(path)
            for result, path in zip(found, self._paths, strict=True)
        ]
        return tree.unflatten(structure, leaves)

    def _begun(self, stack: ExitStack, args: Any, kwargs: Any) -> Run | None:
        """Begin a call with checkpoints. It goes on if all that was written before is there."""
        checkpoints = self._writing._options.checkpoints
        if checkpoints is None:
            return None
        call = self._writing._read((*args,), {**kwargs, **self._no_numbers})
        key = key_of(*self._writing._program_and_arrays(call))
        paths = [path.absolute() for path in self._paths if path is not None]
        run: Run = stack.enter_context(checkpoints.running(digest([key, *paths])))
        if not all(partial_path(path, run).exists() for path in paths):
            run.begin_anew()
        return run

    def _sinks(self, stack: ExitStack, types: Sequence[ShapeDtype], run: Run | None) -> list[Sink]:
        sinks: list[Sink] = []
        stack.callback(_give_up, sinks)  # First: an interrupt may come at any time.
        for path, type in zip(self._paths, types, strict=True):
            if path is not None:
                sink = Sink(path, type, run, sinks)
                if run is not None:
                    run.flushes.append(sink.flush)
        return sinks

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan of the program that writes; nothing runs, and no file is made."""
        self._results(args, kwargs)
        return self._writing.plan(*args, **kwargs, **self._no_numbers)

    @property
    def _no_numbers(self) -> dict[str, Any]:
        """Arguments in place of the numbers of sinks, which there are none of yet."""
        count = sum(path is not None for path in self._paths)
        return {_NUMBERS: [np.array(0, np.int32)] * count}

    def _results(self, args: Any, kwargs: Any) -> tuple[Sequence[Any], tree.Structure]:
        traced = self._made._read(args, kwargs).traced
        types = traced.output_types
        if traced.written:
            raise TracingError(
                "a function that writes into its arguments has no results in storage",
                mend="copy the argument first, inside of the function",
            )
        if len(types) != len(self._paths):
            raise ArgumentError(
                f"into was given {len(self._paths)} paths, and the function has {len(types)} "
                "results",
                mend="give one path for each result, or None for those that stay in memory",
            )
        return types, traced.out_tree


def _give_up(sinks: Sequence[Sink]) -> None:
    with ExitStack() as stack:  # The others too where one fails.
        for sink in sinks:
            stack.callback(sink.give_up)


def _check(sinks: Sequence[Sink], counts: Sequence[int]) -> None:
    for sink, count in zip(sinks, counts, strict=True):
        size = int(np.prod(sink.shape, dtype=np.int64))
        if count != size:
            raise StorageError(
                f"{count:,} of {size:,} elements of {sink.result.path} were written",
                mend="report it: the program is wrong",
            )


def _writing(function: Callable[..., Any], paths: Sequence[Path | None]) -> Callable[..., Any]:
    """Return a function whose results with a path are how many elements of them were written."""

    def program(*args: Any, **kwargs: Any) -> list[Any]:
        numbers = iter(kwargs.pop(_NUMBERS))
        leaves = tree.leaves(function(*args, **kwargs))
        return [
            leaf if path is None else _written(next(numbers), leaf)
            for leaf, path in zip(leaves, paths, strict=True)
        ]

    program.__name__ = getattr(function, "__name__", "function")
    return program


def _written(number: TracedArray, leaf: Any) -> Array:
    leaf = as_given(leaf)  # Also of numbers and arrays of NumPy, which are results as they are.
    found: Array = number._recording.record(
        ops.write_stored, [number, leaf], {"whole": tuple(leaf.shape)}
    )
    return found


def as_paths(paths: Sequence[Any]) -> tuple[Path | None, ...]:
    """Return the paths of results.

    Raises
    ------
    ArgumentError
        One of them is none, or all are None, or two results go to one.
    """
    wrong = [item for item in paths if not isinstance(item, str | os.PathLike | None)]
    if wrong or all(item is None for item in paths):
        raise ArgumentError(
            f"into takes paths, not {wrong[0]!r}" if wrong else "into takes at least one path",
            mend='such as f.into("out.npy")(x)',
        )
    names = [os.path.abspath(item) for item in paths if item is not None]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ArgumentError(
            f"into was given {twice[0]} for several results", mend="give each a path of its own"
        )
    return tuple(None if item is None else Path(item) for item in paths)


__all__ = ["StoringFunction", "as_paths"]
