"""PyTorch: `scaled_dot_product_attention`, with the kernel that it chooses, or a named one."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.experiments.attention import Attended
from benchmarks.experiments.peers.torch_programs import finished, place_of
from benchmarks.experiments.runs import Run


def attention(backend: str | None, device: str, cap_bytes: int, **problem: Any) -> Run:
    """Compute the result, or the gradients of the sum of its squares."""
    asked, place = Attended(**problem), place_of(device)
    tensors = [
        torch.as_tensor(part).to(place, getattr(torch, asked.dtype)).transpose(1, 2).contiguous()
        for part in asked.arrays()
    ]
    for tensor in tensors:
        tensor.requires_grad_(asked.gradient)

    def call() -> Any:
        chosen = contextlib.nullcontext() if backend is None else sdpa_kernel(SDPBackend[backend])
        with chosen, torch.set_grad_enabled(asked.gradient):
            found = scaled_dot_product_attention(*tensors)
            if asked.gradient:
                return torch.autograd.grad((found.float() ** 2).sum(), tensors)
            return (found,)

    def values(found: Any) -> Any:
        # Back to (1, length, heads, features).
        return asked.checked(
            [part.transpose(1, 2).detach().float().cpu().numpy() for part in found]
        )

    return finished(call, values, device)
