"""`Op.pieces`: the runs of operands that it names stand side by side in the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.samples import SAMPLES, Sample
from tracer.ir import Op, Piece, ShapeDtype, registry

PIECED = [
    pytest.param(name, sample, id=f"{name}-{i}")
    for name, op in sorted(registry().items())
    if op.pieces is not None
    for i, sample in enumerate(SAMPLES[name])
]


def run_of(x: Any, axis: int, piece: Piece, shape: tuple[int, ...]) -> Any:
    if np.ndim(x) == 0:
        return np.full((*shape[:axis], piece.size, *shape[axis + 1 :]), x)
    assert 0 <= piece.start <= piece.start + piece.size <= x.shape[axis]
    run = x.take(range(piece.start, piece.start + piece.size), axis)
    cut = [slice(*item) for item in piece.cut] or [slice(None)] * x.ndim
    return run[(*cut[:axis], slice(None), *cut[axis + 1 :])]


def one_type(op: Op, types: tuple[ShapeDtype, ...], sample: Sample) -> ShapeDtype:
    found = op.infer(*types, **sample.params)
    assert isinstance(found, ShapeDtype)
    return found


@pytest.mark.parametrize(("name", "sample"), PIECED)
def test_pieces_side_by_side_are_the_result(name: str, sample: Sample) -> None:
    op = registry()[name]
    arrays = [np.asarray(x) for x in sample.operands]
    types = tuple(ShapeDtype(x.shape, x.dtype) for x in arrays)
    whole = np.asarray(op.evaluate(*arrays, **sample.params))
    result = (one_type(op, types, sample),)
    assert op.pieces is not None
    for axis in range(whole.ndim):
        found = op.pieces(types, result, axis, arrays, **sample.params)
        if found is not None:
            runs = [run_of(arrays[p.operand], axis, p, whole.shape) for p in found]
            np.testing.assert_array_equal(np.concatenate(runs, axis), whole)


@pytest.mark.parametrize("name", ["dynamic_slice", "dynamic_update_slice"])
def test_starts_that_are_not_known_have_no_pieces(name: str) -> None:
    op = registry()[name]
    for sample in SAMPLES[name]:
        arrays = [np.asarray(x) for x in sample.operands]
        types = tuple(ShapeDtype(x.shape, x.dtype) for x in arrays)
        result = (one_type(op, types, sample),)
        nothing = [None] * len(arrays)
        assert op.pieces is not None
        for axis in range(result[0].ndim):
            assert op.pieces(types, result, axis, nothing, **sample.params) is None


def test_every_axis_that_is_joined_or_cut_alone_has_pieces() -> None:
    matrix, row = ShapeDtype((2, 3), np.float32), ShapeDtype((1, 3), np.float32)
    joined = registry()["concatenate"].pieces
    assert joined is not None
    found = joined((matrix, row), (ShapeDtype((3, 3), np.float32),), 0, (None, None), dimension=0)
    assert [(p.operand, p.start, p.size) for p in found or ()] == [(0, 0, 2), (1, 0, 1)]
