"""Linear algebra: `tracer.scipy.linalg`, as `scipy.linalg`, over batches.

Failures raise `LinAlgError` for concrete arrays; inside a traced function the results are not
finite. Arguments that only steer SciPy's memory (`overwrite_a`, `check_finite`) have no effect.
"""

from tracer.scipy.linalg.applied import eigh_tridiagonal, expm_frechet, funm, qr_multiply
from tracer.scipy.linalg.construction import block_diag, toeplitz
from tracer.scipy.linalg.decompositions import det, eigh, inv, lu, lu_factor, qr, svd
from tracer.scipy.linalg.functions import expm
from tracer.scipy.linalg.roots import polar, sqrtm
from tracer.scipy.linalg.schur import hessenberg, rsf2csf, schur
from tracer.scipy.linalg.structured import (
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
)
from tracer.scipy.linalg.sylvester import (
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_sylvester,
)
from tracer.scipy.linalg.systems import lu_solve, solve
from tracer.scipy.linalg.triangular import cho_factor, cho_solve, cholesky, solve_triangular

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "companion",
    "convolution_matrix",
    "det",
    "dft",
    "eigh",
    "eigh_tridiagonal",
    "expm",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "funm",
    "hadamard",
    "hankel",
    "helmert",
    "hessenberg",
    "hilbert",
    "inv",
    "invhilbert",
    "invpascal",
    "leslie",
    "lu",
    "lu_factor",
    "lu_solve",
    "pascal",
    "polar",
    "qr",
    "qr_multiply",
    "rsf2csf",
    "schur",
    "solve",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "toeplitz",
]
