"""Matrices of a pattern against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import tracer
import tracer.scipy.linalg as ours
from tests.numpy.oracle import assert_same
from tracer.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.xla

A = np.array([2.0, -1.0, 3.5, 0.5])
B = np.array([7.0, 1.0, 2.0])
VECTORS = {
    "circulant": lambda m, a, b: m.circulant(a),
    "hankel": lambda m, a, b: m.hankel(a),
    "hankel row": lambda m, a, b: m.hankel(a, b),
    "companion": lambda m, a, b: m.companion(a),
    "fiedler": lambda m, a, b: m.fiedler(a),
    "leslie": lambda m, a, b: m.leslie(a, b),
    "convolution_matrix": lambda m, a, b: m.convolution_matrix(a, 3),
    "convolution same": lambda m, a, b: m.convolution_matrix(b, 4, "same"),
    "convolution valid": lambda m, a, b: m.convolution_matrix(a, 2, "valid"),
}
SIZES = {
    "dft": lambda m: m.dft(3, "sqrtn"),
    "hadamard": lambda m: m.hadamard(4),
    "helmert": lambda m: m.helmert(4, True),
    "hilbert": lambda m: m.hilbert(3),
    "invhilbert": lambda m: m.invhilbert(3),
    "pascal": lambda m: m.pascal(5, "lower"),
    "invpascal": lambda m: m.invpascal(5),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VECTORS)
def test_of_vectors(name, dtype):
    a, b = A.astype(dtype), B.astype(dtype)
    wanted = VECTORS[name](scipy.linalg, a, b)
    assert_same(VECTORS[name](ours, a, b), wanted)
    compiled = tracer.compile(lambda a, b: VECTORS[name](ours, a, b))
    assert_same(compiled(a, b), wanted)
    weights = np.arange(wanted.size, dtype=dtype).reshape(wanted.shape)
    gradient = tracer.grad(lambda a: (weights * VECTORS[name](ours, a, b)).sum())(a)
    assert np.isfinite(np.asarray(gradient)).all()


@pytest.mark.parametrize("name", SIZES)
def test_of_sizes(name):
    assert_same(SIZES[name](ours), SIZES[name](scipy.linalg))


def test_products_are_convolutions():
    for mode in ("full", "same", "valid"):
        assert_same(ours.convolution_matrix(A, 3, mode) @ B, np.convolve(A, B, mode))
    assert ours.circulant(np.ones((2, 3))).shape == (2, 3, 3)


def test_refusals():
    for program, error in (
        (lambda: ours.hankel(np.ones((2, 2))), ShapeError),
        (lambda: ours.circulant(1.0), ShapeError),
        (lambda: ours.companion([1.0]), ShapeError),
        (lambda: ours.leslie(A, A), ShapeError),
        (lambda: ours.convolution_matrix(A, 0), ArgumentError),
        (lambda: ours.convolution_matrix(A, 2, "most"), ArgumentError),
        (lambda: ours.hadamard(6), ArgumentError),
        (lambda: ours.pascal(40), ArgumentError),
        (lambda: ours.invpascal(4, "middle"), ArgumentError),
    ):
        with pytest.raises(error):
            program()
