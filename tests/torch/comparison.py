"""Compare containers of tensors, each by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def assert_same(found: Any, wanted: Any, tolerance: float = 1e-11) -> None:
    """Compare shapes, dtypes and values; errors count relative to the largest element."""
    xs, ys = pytree.tree_leaves(found), pytree.tree_leaves(wanted)
    assert pytree.tree_structure(found) == pytree.tree_structure(wanted)
    for x, y in zip(xs, ys, strict=True):
        if not isinstance(y, torch.Tensor):
            assert x == y
            continue
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if y.is_floating_point() or y.is_complex():
            size = y.detach().abs().nan_to_num(0, 0, 0).max() if y.numel() else 0
            torch.testing.assert_close(
                x, y.detach(), rtol=0, atol=float(tolerance * size), equal_nan=True
            )
        else:
            assert torch.equal(x, y)


def weighted_sum(result: Any) -> torch.Tensor:
    """Return one number that depends on every floating element of a result, each differently."""
    leaves = [x for x in pytree.tree_leaves(result) if x.is_floating_point()]
    weights = [torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).reshape(x.shape) for x in leaves]
    return sum((x * w).sum() for x, w in zip(leaves, weights, strict=True))


def eager_value_and_grad(function: Any, args: tuple[Any, ...], argnums: tuple[int, ...]) -> Any:
    """Compute (loss, rest) and gradients with eager torch."""
    leaves = [
        x.detach().clone().requires_grad_() if i in argnums else x for i, x in enumerate(args)
    ]
    loss, rest = function(*leaves)
    grads = torch.autograd.grad(loss, [leaves[i] for i in argnums], allow_unused=True)
    wanted = [
        torch.zeros_like(args[i]) if g is None else g for i, g in zip(argnums, grads, strict=True)
    ]
    return (loss, rest), tuple(wanted)
