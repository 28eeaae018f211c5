"""Which ops are taken apart while a function is traced: all that have no rule, where torch can."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

from tracer.torch.draws import is_draw
from tracer.torch.table import rule_of

_ATEN = torch.ops.aten
_OWN = "torch._decomp.decompositions"


def _native_batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: Any, momentum: Any, eps: Any
) -> Any:
    """Use the op whose schema says that it writes to the running statistics."""
    if mean is None:
        return _ATEN._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps)
    return _ATEN._native_batch_norm_legit.default(
        x, weight, bias, mean, var, training, momentum, eps
    )


def _native_dropout(x: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """Draw as `torch.nn.functional.dropout` does on a CPU."""
    if not train or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    kept = _ATEN.bernoulli.p(torch.empty_like(x), 1 - p)
    return x * (kept / (1 - p)), kept.to(torch.bool)


def _rrelu(
    x: Any, noise: Any, lower: Any = 1 / 8, upper: Any = 1 / 3, training: Any = False, *_: Any
) -> Any:
    """Scale negative numbers by the middle of the slopes; trained, their draws cannot be traced."""
    if training:
        return NotImplemented
    return _ATEN.leaky_relu.default(x, (lower + upper) / 2)


def _shrink_backward(cotangent: Any, x: Any, lambd: Any) -> Any:
    """Let through what `hardshrink` and `softshrink` do not make zero."""
    return torch.where((x >= -lambd) & (x <= lambd), 0, cotangent)


def _weight_norm_backward(
    cotangent: Any, direction: Any, size: Any, norms: Any, dim: int
) -> tuple[Any, Any]:
    """Differentiate size * direction / norms, with the norms along all axes but one."""
    axes = [axis for axis in range(direction.ndim) if axis != dim]
    along = (cotangent * direction).sum(axes, keepdim=True) / norms
    across = (cotangent - direction * (along / norms)) * (size / norms)
    return across.to(direction.dtype), along.to(size.dtype)


def _trilinear(
    x: Any, y: Any, z: Any, on_x: Any, on_y: Any, on_z: Any, summed: Any, _unrolled: int = 1
) -> Any:
    """Multiply three tensors, each with axes of one element put in, and sum over axes."""
    product: Any = 1
    for factor, axes in ((x, on_x), (y, on_y), (z, on_z)):
        whole = factor
        for axis in sorted(axes):
            whole = whole.unsqueeze(axis)
        product = whole * product
    return product.sum(summed) if summed else product


def _polar(size: Any, angle: Any) -> Any:
    return torch.complex(size * angle.cos(), size * angle.sin())


def _multilabel_margin_loss(x: Any, target: Any, reduction: int) -> tuple[Any, Any]:
    """Compare the classes before the first -1 with all others; torch's own counts those behind."""
    rows, classes = torch.atleast_2d(x), torch.atleast_2d(target)
    places = torch.arange(rows.shape[1], device=x.device)
    is_class = (classes == -1).cumsum(-1) == 0
    of_classes = rows.gather(-1, torch.where(is_class, classes, 0))
    is_target = (is_class.unsqueeze(-1) & (classes.unsqueeze(-1) == places)).any(1)
    margins = (1 - of_classes.unsqueeze(-1) + rows.unsqueeze(1)).clamp_min(0)
    counted = is_class.unsqueeze(-1) & ~is_target.unsqueeze(1)
    losses = torch.where(counted, margins, 0).sum((1, 2)) / rows.shape[1]
    total = {0: losses.reshape(x.shape[:-1]), 1: losses.mean(), 2: losses.sum()}[reduction]
    return total, is_target.to(x.dtype).reshape(target.shape)


def _factors_transposes(op: Any, position: int) -> bool:
    """Tell whether an op factors the transpose of a matrix that is row by row in memory.

    It differs from op to op, and its gradient knows.
    """
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    args = (matrix, matrix) if op is _ATEN._linalg_solve_ex.default else (matrix,)
    found, plain = op(*args)[position], _ATEN.linalg_lu_factor_ex.default(matrix)[0]
    return not torch.equal(found, plain)


def _factored(a: Any, transposes: bool) -> tuple[bool, Any, Any, Any]:
    """Factor, or factor the transpose, as the op does that is taken apart."""
    is_transposed = transposes and a.is_contiguous() and not a.is_complex()
    return is_transposed, *_ATEN.linalg_lu_factor_ex.default(a.mT if is_transposed else a)


def _diagonal_and_sign(factors: Any, pivots: Any) -> tuple[Any, Any]:
    """Return the pivots' sizes, and the sign of the exchanges of rows."""
    diagonal = factors.diagonal(0, -2, -1)
    counting = torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype, device=pivots.device)
    exchanges = (pivots != counting).sum(-1)
    return diagonal, (1 - 2 * (exchanges % 2)).to(factors.dtype)


def _linalg_det(a: Any, *, transposes: bool) -> tuple[Any, Any, Any]:
    _, factors, pivots, _ = _factored(a, transposes)
    diagonal, sign = _diagonal_and_sign(factors, pivots)
    return diagonal.prod(-1) * sign, factors, pivots


def _linalg_slogdet(a: Any, *, transposes: bool) -> tuple[Any, Any, Any, Any]:
    _, factors, pivots, _ = _factored(a, transposes)
    diagonal, sign = _diagonal_and_sign(factors, pivots)
    return diagonal.sgn().prod(-1) * sign, diagonal.abs().log().sum(-1), factors, pivots


def _linalg_solve_ex(
    a: Any, b: Any, *, left: bool = True, check_errors: bool = False, transposes: bool
) -> tuple[Any, Any, Any, Any]:
    is_transposed, factors, pivots, info = _factored(a, transposes)
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    found = _ATEN.linalg_lu_solve.default(factors, pivots, right, left=left, adjoint=is_transposed)
    return found.squeeze(-1) if is_vector else found, factors, pivots, info


def _by_factors() -> dict[Any, Any]:
    """Return how to take apart what keeps its factors for the gradient."""
    rows: dict[Any, tuple[Callable[..., Any], int]] = {
        _ATEN._linalg_det.default: (_linalg_det, 1),
        _ATEN._linalg_slogdet.default: (_linalg_slogdet, 2),
        _ATEN._linalg_solve_ex.default: (_linalg_solve_ex, 1),
    }
    return {
        op: functools.partial(how, transposes=_factors_transposes(op, position))
        for op, (how, position) in rows.items()
    }


@functools.cache
def decompositions() -> dict[Any, Any]:
    """Return what torch takes apart, by op: not draws, whose bits would be others.

    These are torch's own defaults, and what it knows of core ops. Its references for tests
    (torch._refs) are left out, as they go down to another set of ops.
    """
    own = {op: how for op, how in decomposition_table.items() if how.__module__ == _OWN}
    known = {**own, **dict(torch.export.default_decompositions().items())}
    return {
        **{op: how for op, how in known.items() if rule_of(op) is None and not is_draw(op)},
        _ATEN.native_batch_norm.default: _native_batch_norm,
        _ATEN.native_dropout.default: _native_dropout,
        _ATEN.rrelu_with_noise.default: _rrelu,
        _ATEN.hardshrink_backward.default: _shrink_backward,
        _ATEN.softshrink_backward.default: _shrink_backward,
        _ATEN._weight_norm_interface_backward.default: _weight_norm_backward,
        _ATEN._trilinear.default: _trilinear,
        _ATEN.polar.default: _polar,
        _ATEN.multilabel_margin_loss_forward.default: _multilabel_margin_loss,
        **_by_factors(),
    }
