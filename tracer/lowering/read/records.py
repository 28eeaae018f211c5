"""What a StableHLO module says, as plain records: numbers for values, NumPy for constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracer.errors import Source
from tracer.ir import ShapeDtype

ValueType = ShapeDtype | str
"""The type of an array; MLIR's text for a type that is no array of ours (`tensor<?xf32>`)."""


@dataclass(frozen=True)
class Region:
    """A block of operations: a function, or the body of an operation.

    Attributes
    ----------
    arguments : tuple of int
        The numbers of its arguments. Numbers are unique in a module.
    types : tuple of ValueType
        Their types.
    operations : tuple of Operation
        In order, without the terminator.
    results : tuple of int
        What the terminator returns.
    """

    arguments: tuple[int, ...]
    types: tuple[ValueType, ...]
    operations: tuple[Operation, ...]
    results: tuple[int, ...]

    def all_operations(self) -> Iterator[Operation]:
        """Yield the operations, those of inner regions too."""
        for operation in self.operations:
            yield operation
            for region in operation.regions:
                yield from region.all_operations()


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes
    ----------
    name : str
        With its dialect: `stablehlo.add`.
    attributes : mapping of str to object
        Integers, strings, tuples, mappings, NumPy arrays.
    operands, results : tuple of int
        Numbers of values.
    operand_types, result_types : tuple of ValueType
        Their types.
    regions : tuple of Region
        Its bodies; they may read values from outside.
    source : Source or None
        Where the module says that it comes from.
    """

    name: str
    attributes: Mapping[str, Any]
    operands: tuple[int, ...]
    operand_types: tuple[ValueType, ...]
    results: tuple[int, ...]
    result_types: tuple[ValueType, ...]
    regions: tuple[Region, ...]
    source: Source | None


@dataclass(frozen=True)
class Module:
    """A module.

    Attributes
    ----------
    name : str
        The module's own, or that of the entry.
    functions : mapping of str to Region
        All functions, by name.
    entry : str
        The one that is called: `main`, or the only public one.
    constants : mapping of int to ndarray
        The values of constants, by number.
    producers : mapping of int to Operation
        What makes each value that is no argument.
    partitions : int
        How many devices it is written for.
    """

    name: str
    functions: Mapping[str, Region]
    entry: str
    constants: Mapping[int, np.ndarray[Any, Any]] = field(repr=False)
    producers: Mapping[int, Operation] = field(repr=False)
    partitions: int
