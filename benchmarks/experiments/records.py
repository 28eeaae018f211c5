"""What an experiment is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PEERS = "benchmarks.experiments.peers"
OURS = "tracer"
Row = dict[str, Any]


@dataclass(frozen=True)
class System:
    """A contender.

    Attributes
    ----------
    name : str
        As in the tables.
    target : str
        "module:function" below `peers`; it gets the case's arguments and these.
    needs : tuple of str
        Modules, or programs on the PATH, that must be there.
    arguments : mapping
        Keywords of its own, such as `limit`.
    devices : tuple of str
        Where it runs.
    """

    name: str
    target: str
    needs: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ("cpu", "gpu")

    @property
    def path(self) -> str:
        """The target as `measure.measure` takes it."""
        return f"{PEERS}.{self.target}"


@dataclass(frozen=True)
class Case:
    """One problem at one size, for all systems.

    Attributes
    ----------
    experiment, title : str
        The heading, and the line in tables.
    shape : mapping of str to numbers or str
        Arguments of every target; in the tables and on the axes of plots.
    systems : sequence of System
        The first is what the others are compared with.
    expected : callable
        Returns the float64 reference of what targets report as `values`, or a function from such
        values to their error; called once, and only if a system ran.
    tolerance : float
        The largest relative error that is right.
    work : float, optional
        Queries of a call: the table shows them per second.
    beside_peers : bool
        Without a reference: values must be those of the first other system that ran.
    """

    experiment: str
    title: str
    shape: Mapping[str, Any]
    systems: Sequence[System]
    expected: Callable[[], Any] | None = None
    tolerance: float = 1e-6
    work: float | None = None
    beside_peers: bool = False


@dataclass(frozen=True)
class Settings:
    """What the command line says.

    Attributes
    ----------
    size : str
        "small" or "full".
    data : str or None
        The folder of data sets.
    device : str
        "cpu" or "gpu".
    cap_bytes : int
        What a process may add to its address space.
    seconds : float
        Time for all turns of a case; a case that takes longer is not interleaved.
    timeout : float
        For one process.
    """

    size: str
    data: str | None
    device: str
    cap_bytes: int
    seconds: float
    timeout: float


Cases = Callable[[Settings], Iterator[Case]]


def relative_error(found: Any, expected: Any) -> float:
    """Return the largest difference over the largest expected value; infinite for NaN."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        return math.inf
    error = float(np.abs(found - expected).max() / (np.abs(expected).max() + 1e-300))
    return math.inf if math.isnan(error) else error
