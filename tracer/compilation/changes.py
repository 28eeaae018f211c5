"""Changes of a refused program that would fit: arguments to donate, numbers of half the width.

They are predicted, not compiled: a refusal stays quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tracer.compilation.donation import Donatable, donatable_arguments
from tracer.compilation.task import Task
from tracer.ir import ShapeDtype
from tracer.units import format_bytes

_HALVES = {np.dtype("float64"): "float32", np.dtype("complex128"): "complex64"}


def changes_that_fit(
    task: Task,
    nbytes: int,
    types: Sequence[ShapeDtype],
    bytes_with: Callable[[frozenset[int]], int],
) -> tuple[str, ...]:
    """Return what would take a program below its limit, each as a phrase.

    Parameters
    ----------
    task : Task
        The call and its limit.
    nbytes : int
        What the program takes.
    types : sequence of ShapeDtype
        What is alive together when it takes that.
    bytes_with : callable
        Predicts what it takes with these leaves donated.
    """
    assert task.limit is not None
    found = []
    donation = _donation(task, bytes_with)
    if donation:
        least = bytes_with(_leaves(task, donation))
        many = "them" if len(donation) > 1 else "it"
        also = "also " if task.donated else ""
        found.append(
            f"{also}{_spelled(donation)}, if the caller needs {many} no more: {format_bytes(least)}"
        )
    wide = [type for type in types if type.dtype in _HALVES]
    halved = max(nbytes // 2, nbytes - sum(type.nbytes // 2 for type in wide))
    if wide and halved <= task.limit:
        names = sorted({str(type.dtype) for type in wide})
        found.append(
            " and ".join(f"{_HALVES[np.dtype(name)]} for {name}" for name in names)
            + f": {format_bytes(halved)}"
        )
    return tuple(found)


def _donation(task: Task, bytes_with: Callable[[frozenset[int]], int]) -> tuple[Donatable, ...]:
    """Return few arguments that keep the limit if they are donated, the largest first."""
    assert task.limit is not None
    arguments = _not_donated(task)
    if not arguments or bytes_with(_leaves(task, arguments)) > task.limit:
        return ()
    chosen: list[Donatable] = []
    least = bytes_with(_leaves(task, ()))
    types = task.call.types
    arguments.sort(key=lambda argument: -sum(types[leaf].nbytes for leaf in argument.leaves))
    for argument in arguments:
        now = bytes_with(_leaves(task, [*chosen, argument]))
        if now < least:
            chosen.append(argument)
            least = now
        if least <= task.limit:
            return tuple(chosen)
    return ()


def _not_donated(task: Task) -> list[Donatable]:
    known = task.options.donatable
    arguments = donatable_arguments(task.call) if known is None else known
    return [argument for argument in arguments if not argument.leaves & set(task.donated)]


def _leaves(task: Task, arguments: Iterable[Donatable]) -> frozenset[int]:
    return frozenset(task.donated).union(*(argument.leaves for argument in arguments))


def _spelled(arguments: Sequence[Donatable]) -> str:
    """Return the options of `compile` that donate arguments."""
    positions = sorted(a.position for a in arguments if a.position is not None)
    names = sorted(argument.name for argument in arguments if argument.position is None)
    given = (("donate_argnums", positions), ("donate_argnames", names))
    return " with ".join(
        f"{option}={tuple(values) if len(values) > 1 else repr(values[0])}"
        for option, values in given
        if values
    )


__all__ = ["changes_that_fit"]
