"""Attention, written plainly: the planner splits it when its scores would not fit."""

from __future__ import annotations

import math
from typing import Any

from tracer import numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.errors import DTypeError, ShapeError
from tracer.scipy import special


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Array:
    """Averages of values, weighted by how well their keys match the queries.

    Parameters
    ----------
    query : array_like, shape (..., targets, heads, size)
        What is looked for.
    key : array_like, shape (..., sources, heads, size)
        What is compared with the queries. It may have fewer heads, each shared by several queries'.
    value : array_like, shape (..., sources, heads, width)
        What is averaged.
    bias : array_like, broadcasting to (..., heads, targets, sources), optional
        Added to the scores.
    mask : array_like of bool, broadcasting to (..., heads, targets, sources), optional
        Which sources a target may see.
    scale : float, optional
        Factor of the scores; 1 / sqrt(size) by default.
    is_causal : bool
        A target sees the sources up to its own position only.

    Returns
    -------
    Array, shape (..., targets, heads, width)
        The averages, in the promoted dtype.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    DTypeError
        The bias is bool: that is a mask, which comes after it.

    References
    ----------
    Vaswani et al., Attention Is All You Need, NeurIPS 2017.
    """
    q, k, v = as_array(query), as_array(key), as_array(value)
    _require_shapes(q, k, v)
    k, v = _share_heads(q, k), _share_heads(q, v)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    scores = tnp.einsum("...qhd,...khd->...hqk", q * factor, k)
    if bias is not None:
        scores = scores + _numbers(bias)
    visible = _visible(scores, mask, is_causal)
    if visible is not None:
        lowest = float(tnp.finfo(scores.dtype).min)
        scores = tnp.where(visible, scores, lowest)
    weights = special.softmax(scores, -1)
    return tnp.einsum("...hqk,...khd->...qhd", weights, v)


def _numbers(bias: ArrayLike) -> Array:
    array = as_array(bias)
    if array.dtype.kind == "b":
        raise DTypeError(
            "dot_product_attention: the bias is bool",
            mend="give it by name, as mask=...: JAX's order is query, key, value, bias, mask",
        )
    return array


def _visible(scores: Array, mask: ArrayLike | None, is_causal: bool) -> Any:
    if not is_causal:
        return mask
    targets, sources = scores.shape[-2:]
    causal = tnp.arange(targets)[:, None] >= tnp.arange(sources)
    return causal if mask is None else tnp.logical_and(causal, mask)


def _share_heads(query: Array, x: Array) -> Array:
    repeats = query.shape[-2] // x.shape[-2]
    return x if repeats == 1 else tnp.repeat(x, repeats, axis=-2)


def _require_shapes(q: Array, k: Array, v: Array) -> None:
    fits = (
        min(q.ndim, k.ndim, v.ndim) >= 3
        and q.shape[-1] == k.shape[-1]
        and k.shape[-3:-1] == v.shape[-3:-1]
        and k.shape[-2] > 0
        and q.shape[-2] % k.shape[-2] == 0
    )
    if not fits:
        raise ShapeError(
            f"attention: query {q.shape}, key {k.shape} and value {v.shape} do not fit",
            mend="give (..., targets, heads, size), (..., sources, heads, size) and "
            "(..., sources, heads, width); the heads of the query are a multiple of the key's",
        )
