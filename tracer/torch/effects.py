"""What a function may not do to tensors that outlive it: no program would do it again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tracer.compilation.importing import named
from tracer.errors import UnsupportedError
from tracer.torch.guards import WatchedModules
from tracer.torch.sources import current_source

_SET_DATA = torch.Tensor.data.__set__


class RefusingData(TorchFunctionMode):  # type: ignore[misc] # Any where torch is not installed
    """Refuses assignments to `.data`, which give a tensor other memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _SET_DATA:
            raise UnsupportedError(
                "an assignment to .data of a tensor",
                mend="write to the tensor, under torch.no_grad(): x.copy_(...), x.mul_(...)",
                where=current_source(),
            )
        return func(*args, **(kwargs or {}))


def is_reshaping(func: Any) -> bool:
    """Tell whether an op changes the axes or the memory of its first operand."""
    tags = getattr(func, "tags", ())
    return torch.Tag.inplace_view in tags and func.overloadpacket.__name__ != "detach_"


def refuse_reshaping(func: Any) -> None:
    """Raise the error of such an op on a tensor that is not the function's."""
    name = func.overloadpacket.__name__
    raise UnsupportedError(
        f"{name} of a tensor that the function was given or closes over",
        mend=f"use {name.rstrip('_')} and its result, or x = x.clone() first",
        where=current_source(),
    )


def refuse_assignments(
    function: Callable[..., Any], modules: WatchedModules, used: Collection[int]
) -> None:
    """Give modules the attributes that they had; raise where what was assigned is state.

    That is a buffer or parameter, or a tensor that the function reads (`used` has the ids of
    these): a later call would need it. Other attributes keep what they had.
    """
    for item in modules.undo():
        if item.is_state or id(item.before) in used:
            owner = type(item.module).__name__
            raise UnsupportedError(
                f"{named(function)} assigns a tensor to the attribute {item.name} of a {owner}",
                mend=f"write to it instead: self.{item.name}.copy_(...)",
            )
