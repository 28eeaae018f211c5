"""Linear algebra: `tracer.numpy.linalg`, as `numpy.linalg`.

Failures (a singular matrix, one that is not positive definite, an iteration that does not converge)
raise `LinAlgError` for concrete arrays. Inside a traced function there are no values to look at:
the result is NaN for the matrices concerned.
"""

from tracer.errors import LinAlgError
from tracer.numpy.contraction import matmul, vecdot
from tracer.numpy.linalg.decompositions import cholesky, qr, svd, svdvals
from tracer.numpy.linalg.determinants import det, slogdet
from tracer.numpy.linalg.eigenvalues import eig, eigh, eigvals, eigvalsh
from tracer.numpy.linalg.least_squares import lstsq, pinv
from tracer.numpy.linalg.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from tracer.numpy.linalg.products import (
    cross,
    diagonal,
    matrix_power,
    multi_dot,
    outer,
    tensordot,
    trace,
)
from tracer.numpy.linalg.solving import inv, solve
from tracer.numpy.linalg.tensors import tensorinv, tensorsolve
from tracer.numpy.shaping import matrix_transpose

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
