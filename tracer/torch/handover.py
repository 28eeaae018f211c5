"""Hand tensors over between torch and tracer: by DLPack, in the same memory.

A tensor whose axes are permuted or repeated is handed over in the order of its memory; the program
puts them back. Only tensors with gaps (slices with steps) are copied, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tracer import ops
from tracer.array.array import Array, get_evaluator
from tracer.array.convert import transpose
from tracer.array.dispatch import apply
from tracer.errors import TensorCopyWarning, UnsupportedError
from tracer.torch.types import type_of

_ALIGNMENT = 64
"""Bytes: jaxlib copies memory that begins elsewhere."""
_COPY_WARNED = 1 << 20
"""Bytes from which a copy is said."""


@dataclass(frozen=True)
class Layout:
    """How the axes of a tensor are in memory.

    Attributes
    ----------
    order : tuple of int
        The tensor's axes, from the slowest to the fastest.
    repeated : tuple of int
        Axes that have one element in memory.
    shape : tuple of int
        The tensor's.
    """

    order: tuple[int, ...]
    repeated: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Tell whether the tensor is row by row."""
        return not self.repeated and self.order == tuple(range(len(self.order)))

    def restored(self, x: Array) -> Array:
        """Return an array of the memory as one of the tensor's axes."""
        back = tuple(self.order.index(axis) for axis in range(len(self.order)))
        x = transpose(x, back)
        if not self.repeated:
            return x
        dimensions = tuple(range(x.ndim))
        return apply(ops.broadcast_in_dim, x, shape=self.shape, dimensions=dimensions)


def place_of(tensors: Iterable[torch.Tensor], name: str) -> Any:
    """Return the device that a program of tensors runs on; None for tensors without data.

    Raises
    ------
    UnsupportedError
        They are on several devices.
    DeviceError
        They are on a device that tracer does not use.
    """
    places = {x.device: x for x in tensors if not x.is_meta}
    if len(places) > 1:
        raise UnsupportedError(
            f"{name}, whose tensors and parameters are on several devices "
            f"({', '.join(sorted(map(str, places)))})",
            mend="move them to one with .to(device)",
        )
    codes = (x.__dlpack_device__() for x in places.values())
    return next(map(get_evaluator().place_of, codes), None)


def layout_of(tensor: torch.Tensor) -> Layout:
    """Return how a tensor is in memory; a plain layout for one that has to be copied."""
    shape = tuple(tensor.shape)
    plain = Layout(tuple(range(len(shape))), (), shape)
    if tensor.is_contiguous() or 0 in shape:
        return plain
    strides = tensor.stride()
    repeated = tuple(i for i, n in enumerate(shape) if n > 1 and strides[i] == 0)
    order = tuple(sorted(range(len(shape)), key=lambda i: (-strides[i], i)))
    layout = Layout(order, repeated, shape)
    return layout if in_memory_order(tensor, layout).is_contiguous() else plain


def in_memory_order(tensor: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return a view of the tensor whose axes are in the order of its memory."""
    for axis in layout.repeated:
        tensor = tensor.narrow(axis, 0, 1)
    return tensor.permute(layout.order)


def from_torch_tensor(tensor: torch.Tensor, layout: Layout, name: str) -> Array:
    """Return an array of tracer with the data of a tensor, which is never written to.

    Parameters
    ----------
    tensor : Tensor
    layout : Layout
        That of `layout_of`.
    name : str
        What it is, for the warning.

    Warns
    -----
    TensorCopyWarning
        It has gaps and is copied: its bytes are there twice during the call.
    """
    value = tensor.detach()
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    value = in_memory_order(value, layout)
    if not value.is_contiguous() or value.data_ptr() % _ALIGNMENT:
        _say(value, name)
    # Contiguous memory that is not aligned is copied by jaxlib.
    value = value.contiguous()
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None and value.device.type == accelerator.type:
        # What computes it is awaited: the program does not run in torch's stream.
        torch.accelerator.current_stream(value.device).synchronize()
    return get_evaluator().share(value, type_of(value))


def _say(value: torch.Tensor, name: str) -> None:
    size = value.numel() * value.element_size()
    if size >= _COPY_WARNED:
        warnings.warn(
            f"{name}, {value.dtype}{list(value.shape)} with strides {value.stride()} from element "
            f"{value.storage_offset()} on, is copied at each call: {size:,} bytes beside the "
            "plan's. Pass x.clone(memory_format=torch.contiguous_format)",
            TensorCopyWarning,
            stacklevel=5,
        )


def to_torch_tensor(array: Array) -> torch.Tensor:
    """Return a tensor with the data of an array of tracer."""
    tensor: torch.Tensor = torch.from_dlpack(array)
    return tensor
