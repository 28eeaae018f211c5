"""The vocabulary: one record per op. `tracer.ops.<name>` is the record, strict and low-level.

Users call `tracer.numpy`. Vjp rules, slice rules and passes are written with these records. Names
are StableHLO's, with a trailing underscore where Python reserves the name. Ops do not know jaxlib:
lowering rules receive the builder.
"""

from tracer.ops.binary import (
    add,
    and_,
    atan2,
    complex,
    divide,
    hypot,
    log_add_exp,
    maximum,
    minimum,
    multiply,
    next_after,
    or_,
    power,
    remainder,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    subtract,
    xor,
)
from tracer.ops.call import custom_jvp_call, custom_vjp_call, plain_call
from tracer.ops.callback import debug_callback, pure_callback
from tracer.ops.checkpoint import checkpoint, checkpoint_name
from tracer.ops.checkpoints import checkpoint_due, restore_carry, save_carry
from tracer.ops.compare import bitcast_convert, clamp, compare, convert, select
from tracer.ops.contract import dot_general
from tracer.ops.control import case, optimization_barrier, while_
from tracer.ops.convolution import convolution
from tracer.ops.create import constant, iota
from tracer.ops.cumulative import (
    cumulative_add,
    cumulative_maximum,
    cumulative_minimum,
    cumulative_multiply,
    numpy_cumulative,
)
from tracer.ops.determinant import determinant
from tracer.ops.eigen import eig, eigh
from tracer.ops.exponential import polynomial_exponential
from tracer.ops.extreme import reduce_extreme
from tracer.ops.fft import fft, scipy_fft, scipy_real_fft
from tracer.ops.gather import gather
from tracer.ops.guarded_update import guarded_update_slice
from tracer.ops.index import dynamic_slice, dynamic_update_slice
from tracer.ops.join import concatenate, pad, slice
from tracer.ops.linalg import cholesky, triangular_solve
from tracer.ops.lu import lu, pivots_to_permutation
from tracer.ops.lu_solve import lu_solve
from tracer.ops.mirror import mirror_triangle
from tracer.ops.named_axis import axis_gather, axis_sum
from tracer.ops.outlined import outlined_call
from tracer.ops.pseudo_inverse import pseudo_inverse
from tracer.ops.qr import qr
from tracer.ops.reduce import (
    argmax,
    argmin,
    reduce_add,
    reduce_and,
    reduce_maximum,
    reduce_minimum,
    reduce_multiply,
    reduce_or,
    reduce_partial_sums,
)
from tracer.ops.reduce_window import (
    reduce_window_add,
    reduce_window_argmax,
    reduce_window_argmin,
    reduce_window_maximum,
    reduce_window_minimum,
    reduce_window_multiply,
)
from tracer.ops.scan import scan
from tracer.ops.scatter import scatter
from tracer.ops.schur import schur
from tracer.ops.shape import broadcast_in_dim, reshape, reverse, transpose
from tracer.ops.shard import shard
from tracer.ops.small_call import small_call
from tracer.ops.sort import numpy_argsort, numpy_sort, sort, top_k
from tracer.ops.special import (
    digamma,
    erf,
    erf_inv,
    erfc,
    lgamma,
    polygamma,
)
from tracer.ops.spectra import numpy_spectrum
from tracer.ops.storage import read_stored, read_stored_rows, write_stored
from tracer.ops.svd import svd
from tracer.ops.trigonometric import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cosh,
    cosine,
    sine,
    sinh,
    tan,
    tanh,
)
from tracer.ops.unary import (
    abs,
    cbrt,
    ceil,
    exponential,
    exponential_minus_one,
    floor,
    imag,
    is_finite,
    log,
    log_plus_one,
    logistic,
    negate,
    not_,
    popcnt,
    real,
    round_nearest_even,
    rsqrt,
    sign,
    sqrt,
    stop_gradient,
)

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "and_",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "axis_gather",
    "axis_sum",
    "bitcast_convert",
    "broadcast_in_dim",
    "case",
    "cbrt",
    "ceil",
    "checkpoint",
    "checkpoint_due",
    "checkpoint_name",
    "cholesky",
    "clamp",
    "compare",
    "complex",
    "concatenate",
    "constant",
    "convert",
    "convolution",
    "cosh",
    "cosine",
    "cumulative_add",
    "cumulative_maximum",
    "cumulative_minimum",
    "cumulative_multiply",
    "custom_jvp_call",
    "custom_vjp_call",
    "debug_callback",
    "determinant",
    "digamma",
    "divide",
    "dot_general",
    "dynamic_slice",
    "dynamic_update_slice",
    "eig",
    "eigh",
    "erf",
    "erf_inv",
    "erfc",
    "exponential",
    "exponential_minus_one",
    "fft",
    "floor",
    "gather",
    "guarded_update_slice",
    "hypot",
    "imag",
    "iota",
    "is_finite",
    "lgamma",
    "log",
    "log_add_exp",
    "log_plus_one",
    "logistic",
    "lu",
    "lu_solve",
    "maximum",
    "minimum",
    "mirror_triangle",
    "multiply",
    "negate",
    "next_after",
    "not_",
    "numpy_argsort",
    "numpy_cumulative",
    "numpy_sort",
    "numpy_spectrum",
    "optimization_barrier",
    "or_",
    "outlined_call",
    "pad",
    "pivots_to_permutation",
    "plain_call",
    "polygamma",
    "polynomial_exponential",
    "popcnt",
    "power",
    "pseudo_inverse",
    "pure_callback",
    "qr",
    "read_stored",
    "read_stored_rows",
    "real",
    "reduce_add",
    "reduce_and",
    "reduce_extreme",
    "reduce_maximum",
    "reduce_minimum",
    "reduce_multiply",
    "reduce_or",
    "reduce_partial_sums",
    "reduce_window_add",
    "reduce_window_argmax",
    "reduce_window_argmin",
    "reduce_window_maximum",
    "reduce_window_minimum",
    "reduce_window_multiply",
    "remainder",
    "reshape",
    "restore_carry",
    "reverse",
    "round_nearest_even",
    "rsqrt",
    "save_carry",
    "scan",
    "scatter",
    "schur",
    "scipy_fft",
    "scipy_real_fft",
    "select",
    "shard",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sinh",
    "slice",
    "small_call",
    "sort",
    "sqrt",
    "stop_gradient",
    "subtract",
    "svd",
    "tan",
    "tanh",
    "top_k",
    "transpose",
    "triangular_solve",
    "while_",
    "write_stored",
    "xor",
]
