"""Which tensors are equal whatever their values are: `torch.equal` while a function is traced."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from tracer.torch.draws import is_draw


class Equalities:
    """What was computed in the same way: by one op, of the same tensors and numbers.

    Each tensor has a number, and the same ones have the same. Where something is written to, all
    begin anew, as other tensors may be views of it.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._results: dict[Any, list[int]] = {}
        self._kept: list[torch.Tensor] = []
        self._count = 0

    def decide(self, x: torch.Tensor, y: torch.Tensor) -> bool:
        """Tell whether it is known if two tensors are equal: they are where their shapes are.

        torch itself looks at no values of one tensor, or of two shapes. NaN counts as equal.
        """
        if x.shape != y.shape or _place_of(x) == _place_of(y):
            return True
        return x.dtype == y.dtype and self._number(x) == self._number(y)

    def note(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Remember what an op made of what."""
        if function._schema.is_mutable:
            self._forget()
            return
        if is_draw(function):
            return
        leaves, structure = pytree.tree_flatten((args, kwargs))
        key = function, str(structure), tuple(map(self._key, leaves))
        made = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        numbers = self._results.setdefault(key, [self._new() for _ in made])
        for tensor, number in zip(made, numbers, strict=True):
            self._enter(tensor, number)

    def _key(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self._number(leaf)
        return type(leaf), repr(leaf)

    def _number(self, tensor: torch.Tensor) -> int:
        if id(tensor) not in self._numbers:
            self._enter(tensor, self._new())
        return self._numbers[id(tensor)]

    def _enter(self, tensor: torch.Tensor, number: int) -> None:
        self._kept.append(tensor)  # so that no other one has its id
        self._numbers[id(tensor)] = number

    def _new(self) -> int:
        self._count += 1
        return self._count

    def _forget(self) -> None:
        self._numbers.clear()
        self._results.clear()
        self._kept.clear()


def _place_of(x: torch.Tensor) -> Any:
    return x.untyped_storage()._cdata, x.storage_offset(), x.stride(), x.dtype
