"""The evaluator of concrete arrays, as a protocol.

This room knows no backend. `tracer.compilation.eager` implements the protocol with the lowering
room and installs itself when `tracer` is imported. `A` is the type variable for `Array`, which is
written with this protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from tracer.ir import Graph, ShapeDtype

A = TypeVar("A")


class Program(Protocol[A]):
    """A compiled graph."""

    def __call__(self, *arrays: A) -> list[A]:
        """Run on concrete arrays of the types the graph was built for."""


class Evaluator(Protocol[A]):
    """Runs graphs and moves arrays between host and device."""

    def program(self, graph: Graph) -> Program[A]:
        """Return the compiled graph; equal graphs share one."""

    def from_host(self, value: np.ndarray[Any, Any], device: Any = None) -> A:
        """Copy a NumPy array of a supported dtype to a device."""

    def to_host(self, array: A) -> np.ndarray[Any, Any]:
        """Return a read-only NumPy view or copy of a concrete array; blocks."""

    def parts_here(self, array: A) -> str | None:
        """Say which parts of a concrete array are in this process; None where all are."""

    def start_to_host(self, array: A) -> None:
        """Start to copy a concrete array to the host; does not block."""

    def wait(self, array: A) -> None:
        """Wait until the data of a concrete array is computed."""

    def to_device(self, array: A, device: Any) -> A:
        """Return a concrete array on a device; copied if it is elsewhere."""

    def place_beside(self, places: Sequence[Any]) -> Any:
        """Return the first place that was given explicitly, whole for arrays in parts, or None."""

    def copy(self, array: A) -> A:
        """Copy a concrete array to the device it is on."""

    def to_dlpack(self, array: A) -> Any:
        """Return a DLPack capsule of the data of a concrete array."""

    def batch(self, graph: Graph, batched: Sequence[bool], size: int) -> Graph:
        """Return a graph of a whole batch: chosen inputs and all outputs get a first axis."""

    def devices(self) -> list[Any]:
        """Return the devices of this process, the default one first."""

    def from_dlpack(self, value: Any) -> A:
        """Copy an object that speaks DLPack to the default device."""

    def place_of(self, code: tuple[int, int]) -> Any:
        """Return the device of DLPack's code and number."""

    def share(self, value: Any, type: ShapeDtype | None = None) -> A:
        """Return an array in the memory of an object that speaks DLPack, which nobody changes."""
