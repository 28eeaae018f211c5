"""What `tracer.numpy` needs in order to compute on concrete arrays.

This room knows no backend. `tracer.compilation.eager` implements the protocol with the lowering
room and installs itself when `tracer` is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tracer.errors import ExecutionError
from tracer.ir import Graph

if TYPE_CHECKING:
    from tracer.array.array import Array
    from tracer.array.base import ArrayBase


class Program(Protocol):
    """A compiled graph."""

    def __call__(self, *arrays: ArrayBase) -> list[Array]:
        """Run on concrete arrays of the types the graph was built for."""


class Evaluator(Protocol):
    """Runs graphs and moves arrays between host and device."""

    def program(self, graph: Graph) -> Program:
        """Return the compiled graph; equal graphs share one."""

    def from_host(self, value: np.ndarray[Any, Any], device: Any = None) -> Array:
        """Copy a NumPy array of a supported dtype to a device."""

    def to_host(self, array: ArrayBase) -> np.ndarray[Any, Any]:
        """Return a read-only NumPy view or copy of a concrete array; blocks."""

    def parts_here(self, array: ArrayBase) -> str | None:
        """Say which parts of a concrete array are in this process; None where all are."""

    def start_to_host(self, array: ArrayBase) -> None:
        """Start to copy a concrete array to the host; does not block."""

    def wait(self, array: ArrayBase) -> None:
        """Wait until the data of a concrete array is computed."""

    def to_device(self, array: ArrayBase, device: Any) -> Array:
        """Return a concrete array on a device; copied where it lies elsewhere."""

    def place_beside(self, places: Sequence[Any]) -> Any:
        """Return the first place that was named by someone, whole for arrays in parts, or None."""

    def copy(self, array: ArrayBase) -> Array:
        """Copy a concrete array to where it lies."""

    def to_dlpack(self, array: ArrayBase) -> Any:
        """Return a DLPack capsule of the data of a concrete array."""

    def batch(self, graph: Graph, batched: Sequence[bool], size: int) -> Graph:
        """Return a graph of a whole batch: chosen inputs and all outputs get a first axis."""

    def devices(self) -> list[Any]:
        """Return the devices of this process, the default one first."""

    def from_dlpack(self, value: Any) -> Array:
        """Copy an object that speaks DLPack to the default device."""


_INSTALLED: list[Evaluator] = []


def set_evaluator(evaluator: Evaluator) -> None:
    """Install the evaluator that all concrete arrays use."""
    _INSTALLED[:] = [evaluator]


def get_evaluator() -> Evaluator:
    """Return the installed evaluator."""
    if not _INSTALLED:
        raise ExecutionError(
            "no evaluator is installed, so concrete arrays cannot be computed",
            mend="import tracer (which installs one) before tracer.numpy is used",
        )
    return _INSTALLED[0]
