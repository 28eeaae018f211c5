"""Compare results of tracer.torch with those of eager torch: each output tensor by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from benchmarks.output_rows import Row


def compare(found: Any, wanted: Any) -> list[Row]:
    """Compare the outputs of two results of one structure."""
    ours, theirs = (pytree.tree_leaves_with_path(tree) for tree in (found, wanted))
    assert [path for path, _ in ours] == [path for path, _ in theirs]
    pairs = zip(ours, theirs, strict=True)
    return [_row(pytree.keystr(path), x, y) for (path, x), (_, y) in pairs if x is not None]


def _row(path: str, x: Any, y: Any) -> Row:
    if not isinstance(y, torch.Tensor):
        wrong = float(x != y)
        return Row(path, wrong, wrong, is_exact=True)
    assert (x.shape, x.dtype) == (y.shape, y.dtype), (path, x.shape, x.dtype, y.shape, y.dtype)
    x, y = x.detach(), y.detach()
    if not (y.is_floating_point() or y.is_complex()):
        wrong = float((x != y).sum())
        return Row(path, wrong, wrong, is_exact=True)
    apart = differences(x, y)
    size = sizes(y).max().item() if y.numel() else 0.0
    absolute = apart.max().item() if y.numel() else 0.0
    return Row(path, absolute, absolute / size if size else absolute, is_exact=False)


def differences(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return |x - y|: 0 for equal infinities and NaNs, and infinity where only one is such."""
    wide = torch.complex128 if y.is_complex() else torch.float64
    x, y = x.to(wide), y.to(wide)
    same = (x == y) | (x.isnan() & y.isnan())
    apart = torch.where(same, 0.0, (x - y).abs())
    return torch.where(apart.isnan(), torch.inf, apart)


def sizes(x: torch.Tensor) -> torch.Tensor:
    """Return the sizes of the elements, 0 for those that are not finite."""
    return x.to(torch.complex128 if x.is_complex() else torch.float64).abs().nan_to_num(0, 0, 0)


def floating(tree: Any) -> list[torch.Tensor]:
    """Return the tensors of a result that have gradients."""
    leaves = pytree.tree_leaves(tree)
    return [x for x in leaves if isinstance(x, torch.Tensor) and x.is_floating_point()]


def weighted_sum(tree: Any) -> torch.Tensor:
    """Return one number that depends on every floating element, each differently."""
    total = torch.zeros((), dtype=torch.float64)
    for x in floating(tree):
        weights = torch.cos(torch.arange(x.numel(), dtype=torch.float64)).reshape(x.shape)
        total = total + (x * weights.to(x.dtype)).sum().to(torch.float64)
    return total
