"""Samples of the ops of matrices, and of the Fourier transform."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import (
    Array,
    Sample,
    comp,
    complex_definite,
    definite,
    lower_triangular,
    real,
    sample,
)
from tracer import ops


def _solves() -> list[Sample]:
    a, b = lower_triangular(2, 3, 3), real(2, 3, 4)
    samples = []
    for left in (True, False):
        right_hand_side = b if left else np.swapaxes(b, -1, -2).copy()
        for lower in (True, False):
            for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
                params = {"left_side": left, "lower": lower, "transpose_a": transpose}
                samples += [
                    sample(a, right_hand_side, unit_diagonal=False, **params),
                    sample(
                        a * (1 + 0.5j), right_hand_side * (1 - 1j), unit_diagonal=lower, **params
                    ),
                ]
    return samples


def well_conditioned(*shape: int) -> Array:
    """Return matrices whose singular values and eigenvalues keep apart, and pivots are clear."""
    m, n = shape[-2:]
    ramp = np.zeros((m, n))
    np.fill_diagonal(ramp, 4.0 + 2.0 * np.arange(min(m, n)))
    return 0.5 * real(*shape) + np.roll(ramp, 1, axis=-2)


def _factored(a: Array, b: Array, *, transpose: bool) -> Sample:
    packed, _, permutation = ops.lu.evaluate(a)
    # The gradient belongs to `a`; finite differences would have to refactorise.
    return sample(a, packed, permutation, b, transpose=transpose, smooth=False)


def matrix_samples() -> dict[str, list[Sample]]:
    """Return samples of each op of matrices, and of the Fourier transform."""
    square, tall, wide = (well_conditioned(2, *size) for size in ((3, 3), (4, 3), (3, 4)))
    turned = well_conditioned(3, 3) * (1 + 0.25j) + 0.5j * real(3, 3)
    empty = [np.zeros((0, 0)), np.zeros((2, 3, 0)), np.zeros((0, 2, 2))]
    hermitian = definite(2, 3, 3) + np.diag([1.0, 4.0, 9.0])
    values, vectors = {"compute_vectors": False}, {"compute_vectors": True}
    like = {"symmetric": "H"}
    eigen = [
        sample(hermitian, **vectors, **like),
        sample(hermitian, **values, **like),
        sample(complex_definite(3, 3), **values, **like),
        sample(complex_definite(2, 2), smooth=False, **vectors, **like),
    ]
    return {
        "cholesky": [
            sample(definite(2, 4, 4), **like),
            sample(complex_definite(3, 3), **like),
            sample(-np.eye(2), smooth=False),
        ],
        "mirror_triangle": [
            sample(square, conjugated=False, symmetric="T"),
            sample(turned, conjugated=False, symmetric="T"),
            sample(turned, conjugated=True, symmetric="H"),
            sample(empty[2], conjugated=True),
        ],
        "triangular_solve": _solves(),
        "fft": _transforms(),
        "lu": [sample(x) for x in (square, tall, wide, turned, *empty)]
        + [sample(np.zeros((2, 2)), smooth=False)],
        "pivots_to_permutation": [
            sample(np.array([[2, 3, 2], [1, 1, 4], [0, 1, 2]], np.int32), size=5),
            sample(np.zeros((2, 0), np.int32), size=3),
        ],
        "determinant": [
            *(sample(x) for x in (square, turned, square[None] * 1.5, *empty[::2])),
            sample(np.ones((1, 1))),
            sample(square[..., :2, :2]),
            sample(well_conditioned(5, 5)),
            sample(well_conditioned(2, 4, 4) * (1 + 0.5j)),
            sample(np.diag([2.0, 0.0, 3.0])),
            sample(np.ones((3, 3))),
            sample(
                np.array([[2.0, 1, 1, 0], [1, 3, 0, 1], [0, 1, 2, 1], [2, 1, 1, 0]]), smooth=False
            ),
        ],
        "lu_solve": [
            _factored(a, real(*a.shape[:-1], 2) * a.flat[0], transpose=transpose)
            for a in (square, turned)
            for transpose in (False, True)
        ],
        "qr": [
            *(sample(x, full_matrices=False) for x in (square, tall, wide, turned)),
            sample(turned[:, :2], full_matrices=False),
            sample(turned[:2], full_matrices=False),
            *(sample(x, full_matrices=True) for x in (square, wide)),
            sample(tall, full_matrices=True, smooth=False),
            *(sample(x, full_matrices=flag) for x in empty for flag in (False, True)),
        ],
        "pseudo_inverse": [
            *(sample(x, rtol=1e-9) for x in (tall, wide, square, turned[:2], *empty)),
            sample(tall * [1, 0, 1], rtol=1e-9, smooth=False),
        ],
        "eigh": eigen + [sample(x, **flag) for x in (empty[0], empty[2]) for flag in (values,)],
        "eig": [
            sample(np.triu(square) + 0.1 * real(3, 3), **values),
            sample(turned, **values),
            sample(turned, **vectors),
            sample(np.triu(square) + 0.1 * real(3, 3), **vectors),
            sample(empty[0], **vectors),
        ],
        "schur": [
            *(sample(x, smooth=False, **vectors) for x in (square, turned, *empty[::2])),
            *(sample(x, smooth=False, **values) for x in (square, turned, empty[0])),
        ],
        "svd": [
            *(sample(x, full_matrices=False, **vectors) for x in (tall, wide, square)),
            *(sample(x, full_matrices=False, **values) for x in (tall, wide, turned)),
            sample(square, full_matrices=True, **vectors),
            sample(tall, full_matrices=True, smooth=False, **vectors),
            sample(turned, full_matrices=False, smooth=False, **vectors),
            *(sample(x, full_matrices=flag, **vectors) for x in empty for flag in (False, True)),
            *(sample(x, full_matrices=False, **values) for x in empty),
        ],
    }


def _transforms() -> list[Sample]:
    found = []
    for lengths in ((5,), (6,), (1,), (2, 3), (3, 4), (2, 1, 5)):
        half = (*lengths[:-1], lengths[-1] // 2 + 1)
        found += [
            sample(real(2, *lengths), kind="RFFT", lengths=lengths),
            sample(comp(2, *half), kind="IRFFT", lengths=lengths),
            sample(comp(2, *lengths), kind="FFT", lengths=lengths),
            sample(comp(2, *lengths), kind="IFFT", lengths=lengths),
        ]
    return [*found, sample(np.zeros((0, 4)), kind="RFFT", lengths=(4,))]
