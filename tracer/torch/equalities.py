"""Which tensors are equal whatever the arguments are: `torch.equal` while a function is traced."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from tracer.torch.draws import is_draw


class Equalities:
    """What was computed in the same way: by one op, of the same tensors and numbers.

    Each tensor has a number, and the same ones have the same. Where something is written to, all
    begin anew, as other tensors may be views of it. Numbers that come of constants only have their
    values, too: `torch.cov` compares the count of its samples.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._results: dict[Any, list[int]] = {}
        self._kept: list[torch.Tensor] = []
        self._values: dict[int, torch.Tensor] = {}
        self._count = 0

    def decide(self, x: torch.Tensor, y: torch.Tensor) -> bool | None:
        """Tell whether two tensors are equal, None where that is not known.

        torch itself looks at no values of one tensor, or of two shapes. NaN counts as equal.
        """
        if x.shape != y.shape:
            return False
        if _place_of(x) == _place_of(y):
            return True
        if x.dtype == y.dtype and self._number(x) == self._number(y):
            return True
        values = [self._values.get(id(tensor)) for tensor in (x, y)]
        if values[0] is None or values[1] is None:
            return None
        with _disable_current_modes():
            return bool(torch.equal(*values))

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
        if isinstance(result, torch.Tensor) and not result.ndim:
            self._compute(function, args, kwargs, result)

    def _compute(self, function: Any, args: Any, kwargs: Any, result: torch.Tensor) -> None:
        """Keep the value of a number that comes of constants only."""
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if all(id(x) in self._values for x in given):
            values = pytree.tree_map_only(
                torch.Tensor, lambda x: self._values[id(x)], (args, kwargs)
            )
            with _disable_current_modes():
                self._values[id(result)] = function(*values[0], **values[1])

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
        self._values.clear()


def _place_of(x: torch.Tensor) -> Any:
    return x.untyped_storage()._cdata, x.storage_offset(), x.stride(), x.dtype
