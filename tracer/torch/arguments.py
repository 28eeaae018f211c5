"""Arguments of a call: tensors, modules, and values that belong to the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from tracer.errors import DTypeError, UnsupportedError
from tracer.torch.guards import ModuleState, state_of, surroundings
from tracer.torch.program import Input


@dataclass(frozen=True)
class Call:
    """The arguments of one call.

    Attributes
    ----------
    leaves : list
        Of the containers; tensors, and values that belong to the program.
    structure : TreeSpec
    positions : tuple of int
        The leaves that are tensors.
    """

    leaves: list[Any]
    structure: Any
    positions: tuple[int, ...]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The leaves that are tensors."""
        return [self.leaves[i] for i in self.positions]

    @property
    def key(self) -> Any:
        """What a program is made for: types and layouts of tensors, and all other values."""
        tensors = tuple((Input.of(x), x.requires_grad) for x in self.tensors)
        others = tuple(
            _key_of(leaf) for i, leaf in enumerate(self.leaves) if i not in self.positions
        )
        return str(self.structure), self.positions, tensors, others, surroundings()

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the tensors alone."""

        def of_tensors(*tensors: torch.Tensor) -> Any:
            leaves = list(self.leaves)
            for position, tensor in zip(self.positions, tensors, strict=True):
                leaves[position] = tensor
            args, kwargs = pytree.tree_unflatten(leaves, self.structure)
            return function(*args, **kwargs)

        of_tensors.__name__ = getattr(function, "__name__", type(function).__name__)
        return of_tensors


def read_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Flatten the arguments of a call.

    Raises
    ------
    UnsupportedError
        A tensor without data of another trace.
    DTypeError
        A NumPy array, which torch's functions do not take, or a value that cannot be hashed.
    """
    leaves, structure = pytree.tree_flatten((args, kwargs))
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            raise DTypeError(
                "an argument is a NumPy array, not a tensor",
                mend="pass torch.from_numpy(array), which shares its memory",
            )
        if isinstance(leaf, FakeTensor):
            raise UnsupportedError(
                "a function that has a limit, in a function that is traced",
                mend="call the function itself, f.__wrapped__: the outer limit covers it",
            )
    positions = tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor))
    return Call(leaves, structure, positions)


def _key_of(leaf: Any) -> Any:
    """Return what tells a value from others: of modules, the states of all parts."""
    if isinstance(leaf, torch.nn.Module):
        return module_key(leaf)
    try:
        hash(leaf)
    except TypeError as error:
        raise DTypeError(
            f"an argument, a {type(leaf).__name__}, is no tensor and cannot be hashed",
            mend="pass tensors and numbers in lists, tuples and dicts",
        ) from error
    return type(leaf), leaf, str(leaf)


def module_key(module: torch.nn.Module) -> tuple[ModuleState, ...]:
    """Return the states of a module and its parts."""
    return tuple(map(state_of, module.modules()))


def module_key_of(function: Any) -> Any:
    """Return the states of the parts of a module; None for a function."""
    return module_key(function) if isinstance(function, torch.nn.Module) else None
