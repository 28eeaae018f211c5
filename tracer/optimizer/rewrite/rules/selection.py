"""Selecting elements: indices instead of one-hot products, top-k instead of a full sort.

If the other factor is not finite, a product with one-hot codes has NaN (0 * inf) where these have
the selected number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.ir import Value
from tracer.numpy.codes import one_hot
from tracer.optimizer.rewrite.match.rule import Rule
from tracer.optimizer.rewrite.rules.guards import few_of_many
from tracer.optimizer.rewrite.rules.notation import Function, rule
from tracer.optimizer.rewrite.rules.places import size_of_result

_LOOKUP = "Goodfellow, Bengio, Courville, Deep Learning (2016), section 12.4.2: one-hot as look-up"
_SELECT = "Knuth, The Art of Computer Programming 3 (1998), section 5.3.3"


def _wide(i: Array) -> Array:
    """Return indices in a type that holds every size."""
    return i.astype("int32") if i.dtype.itemsize < 4 else i


def _chosen(i: Array, m: Array) -> Array:
    """Return rows of m, zeros where an index is out of range."""
    i = _wide(i)
    inside = (i >= 0) & (i < m.shape[0])
    rows = m[tnp.clip(i, 0, m.shape[0] - 1)]
    chosen: Array = tnp.where(tnp.reshape(inside, i.shape + (1,) * (m.ndim - 1)), rows, 0)
    return chosen


def _scattered(i: Array, g: Array, n: int) -> Array:
    """Return sums of the rows of g by index; rows whose index is out of range are dropped."""
    i = _wide(i)
    place = tnp.where((i >= 0) & (i < n), i, n)
    return tnp.zeros((n + 1, *g.shape[1:]), dtype=g.dtype).at[place].add(g)[:n]


def _smallest(x: Array, k: int) -> Array:
    """Return the first k of every sorted row; NaN is last there and first of the largest."""
    if x.dtype.kind in "iu":
        return tnp.invert(tnp.top_k(tnp.invert(x), k)[0])
    values = -tnp.top_k(tnp.where(tnp.isnan(x), -tnp.inf, -x), k)[0]
    count = tnp.sum(tnp.logical_not(tnp.isnan(x)), axis=-1, keepdims=True)
    known: Array = tnp.where(tnp.arange(k) < count, values, tnp.nan)
    return known


def _smallest_places(x: Array, k: int) -> Array:
    """Return where the first k of every sorted row are; of equal ones the first comes first."""
    if x.dtype.kind in "iu":
        return tnp.top_k(tnp.invert(x), k)[1]
    # Infinity ranks with the largest finite number, so that NaN alone comes last.
    finite = tnp.maximum(-x, -np.finfo(x.dtype).max)
    return tnp.top_k(tnp.where(tnp.isnan(x), -tnp.inf, finite), k)[1]


def _last_size(root: Value) -> dict[str, Any]:
    return {"k": root.shape[-1] if root.shape else 0}


def _of_sorted(name: str, patterns: list[Function], replacement: Function) -> Rule:
    """Return a rule that takes the first or last `k` of a sorted last axis by a selection."""
    return rule(
        name,
        patterns,
        replacement,
        samples=["j", "ij"],
        numbers=_last_size,
        sample_numbers=[{"k": 2}],
        source=_SELECT,
        guards=[few_of_many],
        purpose="measured",
    )


RULES = (
    rule(
        "one-hot-times",
        [
            lambda i, m: one_hot(i, m.shape[0], dtype=m.dtype) @ m,
            lambda i, m: (i[:, None] == tnp.arange(m.shape[0])).astype(m.dtype) @ m,
        ],
        _chosen,
        samples=["i:int32 jk", "i:int64 jk", "i:int32 j", "i:int64 j"],
        source=_LOOKUP,
    ),
    rule(
        "rows-of-identity-times",
        [lambda i, m: tnp.eye(m.shape[0], dtype=m.dtype)[i] @ m],
        lambda i, m: m[i],
        samples=["i:int32 jk", "i:int64 jk", "i:int32 j", "i:int64 j"],
        source=_LOOKUP,
    ),
    rule(
        "one-hot-transposed-times",
        [
            lambda i, g, *, n: one_hot(i, n, dtype=g.dtype).T @ g,
            lambda i, g, *, n: one_hot(i, n, dtype=g.dtype, axis=0) @ g,
            lambda i, g, *, n: (tnp.arange(n)[:, None] == i).astype(g.dtype) @ g,
        ],
        lambda i, g, *, n: _scattered(i, g, n),
        samples=["i:int32 ik", "i:int64 ik", "i:int32 i", "i:int64 i"],
        numbers=size_of_result(0),
        sample_numbers=[{"n": 9}],
        source=_LOOKUP,
    ),
    _of_sorted(
        "largest-of-sorted",
        [lambda x, *, k: tnp.sort(x, axis=-1)[..., x.shape[-1] - k :]],
        lambda x, *, k: tnp.flip(tnp.top_k(x, k)[0], axis=-1),
    ),
    _of_sorted(
        "largest-of-sorted-descending",
        [
            lambda x, *, k: tnp.sort(x, axis=-1)[..., ::-1][..., :k],
            lambda x, *, k: tnp.flip(tnp.sort(x, axis=-1)[..., x.shape[-1] - k :], axis=-1),
        ],
        lambda x, *, k: tnp.top_k(x, k)[0],
    ),
    _of_sorted(
        "smallest-of-sorted",
        [lambda x, *, k: tnp.sort(x, axis=-1)[..., :k]],
        lambda x, *, k: _smallest(x, k),
    ),
    _of_sorted(
        "places-of-smallest",
        [lambda x, *, k: tnp.argsort(x, axis=-1)[..., :k]],
        lambda x, *, k: _smallest_places(x, k),
    ),
)
