"""Operands and parameters that no op takes: each family says what is wrong and how to mend it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracer import ops
from tracer.errors import ArgumentError, DTypeError, NotDifferentiableError, ShapeError
from tracer.ir import Builder, Graph, Op, ShapeDtype

I32 = np.dtype(np.int32)


def t(*shape: int, dtype: Any = "float32") -> ShapeDtype:
    return ShapeDtype(shape, dtype)


def body(*types: ShapeDtype, outputs: Any = lambda *values: values) -> Graph:
    with Builder() as builder:
        return builder.finish(outputs(*[builder.input(type) for type in types]))


def is_less(x: Any) -> list[Any]:
    return [ops.compare(x, x, direction="LT")]


X, INT = t(2, 3), t(2, 3, dtype="int32")
START = t(dtype="int32")
DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (1,), "rhs_contracting": (0,)}
GATHER = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 3),
}
SCATTER = {
    "combiner": "add",
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
    "unique_indices": False,
}
SOLVE = {
    "left_side": True,
    "lower": True,
    "unit_diagonal": False,
    "transpose_a": "NO_TRANSPOSE",
}
INDICES = t(4, 1, dtype="int32")
CARRY = body(X)

LU = {"transpose": False}
BAD: list[tuple[Op, tuple[ShapeDtype, ...], dict[str, Any], type[Exception], str]] = [
    (ops.add, (X, t(3)), {}, ShapeError, "one shape"),
    (ops.add, (X, INT), {}, DTypeError, "one dtype"),
    (ops.add, (X,), {}, ShapeError, "takes 2 operands"),
    (ops.add, (t(2, dtype=bool),) * 2, {}, DTypeError, "not bool"),
    (ops.sine, (INT,), {}, DTypeError, "takes float, complex"),
    (ops.erf, (t(2, dtype="complex64"),), {}, DTypeError, "takes float"),
    (ops.and_, (X, X), {}, DTypeError, "takes bool"),
    (ops.complex, (t(2, dtype="float16"),) * 2, {}, DTypeError, "no complex numbers"),
    (ops.polygamma, (X,), {"order": 0}, ArgumentError, "order of 1"),
    (ops.compare, (X, X), {"direction": "XX"}, ArgumentError, "no direction"),
    (ops.compare, (t(dtype="complex64"),) * 2, {"direction": "LT"}, DTypeError, "LT"),
    (ops.select, (X, X, X), {}, DTypeError, "condition"),
    (ops.select, (t(2, 3, dtype=bool), X, INT), {}, DTypeError, "one dtype"),
    (ops.clamp, (t(dtype="float32"), X, X), {}, ShapeError, "one shape"),
    (ops.convert, (X,), {"dtype": "float128"}, DTypeError, "float128"),
    (ops.bitcast_convert, (X,), {"dtype": np.dtype("int64")}, DTypeError, "same width"),
    (ops.reduce_add, (X,), {"axes": (2,)}, ShapeError, "axes"),
    (ops.reduce_add, (X,), {"axes": (1, 1)}, ShapeError, "axes"),
    (ops.reduce_and, (X,), {"axes": (1,)}, DTypeError, "takes bool"),
    (ops.argmax, (t(2, 0),), {"axis": 1, "index_dtype": I32}, ShapeError, "empty"),
    (ops.argmax, (X,), {"axis": 1, "index_dtype": np.dtype("float32")}, DTypeError, "no index"),
    (ops.cumulative_add, (X,), {"axis": -1, "reverse": False}, ShapeError, "axes"),
    (ops.dot_general, (X, t(2, 3)), DOT, ShapeError, "differ in size"),
    (ops.dot_general, (X, t(3, 2, dtype="float64")), DOT, DTypeError, "one dtype"),
    (ops.dot_general, (X, X), {**DOT, "lhs_contracting": (5,)}, ShapeError, "axes"),
    (ops.broadcast_in_dim, (X,), {"shape": (2, 4), "dimensions": (0, 1)}, ShapeError, "meets"),
    (ops.broadcast_in_dim, (X,), {"shape": (3, 2), "dimensions": (1, 0)}, ShapeError, "increas"),
    (ops.reshape, (X,), {"shape": (7,)}, ShapeError, "7 elements"),
    (ops.transpose, (X,), {"permutation": (0, 0)}, ShapeError, "permutation"),
    (ops.concatenate, (), {"dimension": 0}, ShapeError, "needs an operand"),
    (ops.concatenate, (X, t(3, 3)), {"dimension": 1}, ShapeError, "differ"),
    (
        ops.pad,
        (X, t(1)),
        {"low": (0, 0), "high": (0, 0), "interior": (0, 0)},
        ShapeError,
        "no scalar",
    ),
    (
        ops.pad,
        (X, t()),
        {"low": (0, -3), "high": (0, -3), "interior": (0, 0)},
        ShapeError,
        "cut off",
    ),
    (
        ops.slice,
        (X,),
        {"start": (0, 0), "limit": (2, 4), "strides": (1, 1)},
        ShapeError,
        "do not fit",
    ),
    (ops.reverse, (X,), {"dimensions": (3,)}, ShapeError, "axes"),
    (ops.dynamic_slice, (X, START), {"sizes": (1, 1)}, ShapeError, "one scalar start"),
    (ops.dynamic_slice, (X, START, START), {"sizes": (3, 1)}, ShapeError, "does not fit"),
    (ops.dynamic_slice, (X, t(), t()), {"sizes": (1, 1)}, DTypeError, "starts"),
    (ops.dynamic_update_slice, (X, t(3, 1), START, START), {}, ShapeError, "does not fit"),
    (ops.gather, (X, t(4, 1)), GATHER, DTypeError, "integer indices"),
    (ops.gather, (X, t(4, 2, dtype="int32")), GATHER, ShapeError, "length 2"),
    (ops.gather, (X, INDICES), {**GATHER, "slice_sizes": (1, 4)}, ShapeError, "windows"),
    (ops.gather, (X, INDICES), {**GATHER, "slice_sizes": (2, 3)}, ShapeError, "collapsed"),
    (ops.gather, (X, INDICES), {**GATHER, "offset_dims": ()}, ShapeError, "offset_dims"),
    (ops.gather, (X, INDICES), {**GATHER, "index_vector_dim": 3}, ShapeError, "index_vector_dim"),
    (
        ops.gather,
        (t(2, 5), t(3, 4, dtype="int32")),
        {
            "offset_dims": (),
            "collapsed_slice_dims": (1,),
            "start_index_map": (1,),
            "index_vector_dim": 2,
            "slice_sizes": (1, 1),
            "operand_batching_dims": (0,),
            "start_indices_batching_dims": (0,),
        },
        ShapeError,
        "batching axes",
    ),
    (ops.scatter, (X, INDICES, t(5, 3)), SCATTER, ShapeError, "do not fit"),
    (ops.scatter, (X, INDICES, t(4, 4)), SCATTER, ShapeError, "do not fit"),
    (ops.scatter, (X, INDICES, t(4, 3)), {**SCATTER, "combiner": "or"}, ArgumentError, "combiner"),
    (ops.iota, (), {"shape": (2,), "dtype": I32, "dimension": 1}, ShapeError, "axes"),
    (ops.iota, (), {"shape": (2,), "dtype": np.dtype(bool), "dimension": 0}, DTypeError, "bool"),
    (ops.sort, (X,), {"dimension": 0, "num_keys": 2, "is_stable": True}, ArgumentError, "2 keys"),
    (ops.sort, (X, t(2)), {"dimension": 0, "num_keys": 1, "is_stable": True}, ShapeError, "shape"),
    (ops.top_k, (X,), {"k": 4}, ShapeError, "cannot take 4"),
    (ops.top_k, (t(3, dtype="complex64"),), {"k": 1}, DTypeError, "not complex64"),
    (ops.cholesky, (X,), {}, ShapeError, "square"),
    (ops.cholesky, (t(2, 2, dtype="int32"),), {}, DTypeError, "int32"),
    (ops.triangular_solve, (t(3, 3), X), SOLVE, ShapeError, "do not fit"),
    (
        ops.triangular_solve,
        (t(2, 2), X),
        {**SOLVE, "transpose_a": "T"},
        ArgumentError,
        "transpose_a",
    ),
    (ops.lu, (t(3),), {}, ShapeError, "matrices"),
    (ops.pivots_to_permutation, (t(2),), {"size": 2}, DTypeError, "int32"),
    (ops.pivots_to_permutation, (t(3, dtype=I32),), {"size": 2}, ShapeError, "exchange"),
    (ops.qr, (t(2, 2, dtype="int32"),), {"full_matrices": False}, DTypeError, "int32"),
    (ops.eigh, (X,), {"compute_vectors": True}, ShapeError, "square"),
    (ops.eig, (X,), {"compute_vectors": True}, ShapeError, "square"),
    (ops.svd, (t(3),), {"full_matrices": False, "compute_vectors": True}, ShapeError, "matrices"),
    (ops.lu_solve, (t(2, 2), t(2, 2), t(2, dtype=I32), t(3, 2)), LU, ShapeError, "do not fit"),
    (ops.lu_solve, (t(2, 2), t(2, 2), t(2), t(2, 2)), LU, DTypeError, "permutation"),
    (ops.fft, (t(4, dtype="complex64"),), {"kind": "DCT", "lengths": (4,)}, ArgumentError, "kind"),
    (ops.fft, (t(4),), {"kind": "FFT", "lengths": (4,)}, DTypeError, "complex64"),
    (ops.fft, (t(4),), {"kind": "RFFT", "lengths": (5,)}, ShapeError, "does not fit"),
    (ops.fft, (t(4),), {"kind": "RFFT", "lengths": (1, 4)}, ShapeError, "axes of lengths"),
    (ops.while_, (X,), {"condition": CARRY, "body": CARRY}, DTypeError, "one bool scalar"),
    (ops.while_, (INT,), {"condition": CARRY, "body": CARRY}, ShapeError, "the carry is"),
    (
        ops.while_,
        (X,),
        {"condition": body(X, outputs=is_less), "body": body(X, outputs=is_less)},
        ShapeError,
        "the body turns",
    ),
    (ops.case, (t(dtype="int64"), X), {"branches": (CARRY,)}, DTypeError, "not int32"),
    (ops.case, (START, X), {"branches": ()}, ShapeError, "needs a branch"),
    (ops.case, (START, INT), {"branches": (CARRY,)}, ShapeError, "branch 0 takes"),
    (
        ops.case,
        (START, X),
        {"branches": (CARRY, body(X, outputs=is_less))},
        ShapeError,
        "branch 1 gives",
    ),
]


@pytest.mark.parametrize(
    ("op", "types", "params", "error", "words"),
    [pytest.param(*case, id=f"{case[0].name}-{i}") for i, case in enumerate(BAD)],
)
def test_bad_operands_are_refused(
    op: Op,
    types: tuple[ShapeDtype, ...],
    params: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words) as caught:
        op.infer(*types, **params)
    assert "mend:" in str(caught.value)
    assert type(caught.value) is error


def test_scatter_multiply_with_repeated_indices_has_no_gradient() -> None:
    with Builder() as builder:
        x, indices, updates = (builder.input(type) for type in (X, INDICES, t(4, 3)))
        params = {**SCATTER, "combiner": "multiply"}
        out = ops.scatter(x, indices, updates, **params)
        with pytest.raises(NotDifferentiableError, match="unique_indices=True"):
            ops.scatter.vjp(x, out, x, indices, updates, **params)
