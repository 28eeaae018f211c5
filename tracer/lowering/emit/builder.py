"""The StableHLO builder that op records receive: the functions of this folder as its methods."""

from __future__ import annotations

from tracer.lowering.emit import (
    control,
    decompositions,
    dialect,
    functions,
    gamma,
    host_calls,
    linalg,
    reduce,
    regions,
    stored,
    window,
)
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import Emitter


class StableHloBuilder(ModuleContext):
    """Emits StableHLO by name. The protocol is in docs/architecture.md.

    Each method emits one op, or the least that means the op: library calls with NaN for what
    failed, one matrix at a time (`library`); formulas where XLA's lose digits (`functions` and
    `gamma`); sums of narrow floats in float32; one kind of NaN and of zero for `top_k`; what a loop
    hands on without axes of one element. Which form is faster the passes in `optimizer/legalize/`
    say.

    Ops without a line here are StableHLO's or CHLO's on operands alone: they are generated.
    """

    bitcast_convert = dialect.bitcast_convert
    broadcast_in_dim = dialect.broadcast_in_dim
    compare = dialect.compare
    concatenate = dialect.concatenate
    constant = dialect.constant
    convert = dialect.convert
    dot_general = dialect.dot_general
    dynamic_slice = dialect.dynamic_slice
    dynamic_update_slice = dialect.dynamic_update_slice
    iota = dialect.iota
    pad = dialect.pad
    reshape = dialect.reshape
    reverse = dialect.reverse
    slice = dialect.slice
    transpose = dialect.transpose
    splat = dialect.splat

    gather = regions.gather
    scatter = regions.scatter
    sort = regions.sort
    top_k = regions.top_k

    reduce = reduce.reduce
    convolution = window.convolution
    reduce_window = window.reduce_window

    kept_in_loop = stored.kept_in_loop
    optimization_barrier = stored.optimization_barrier

    host_call = host_calls.host_call
    numpy_call = host_calls.numpy_call

    case = control.case
    shard = control.shard
    small_call = control.small_call
    while_ = control.while_

    abs = functions.abs
    acos = functions.acos
    acosh = functions.acosh
    atan = functions.atan
    atan2 = functions.atan2
    atanh = functions.atanh
    cosh = functions.cosh
    cosine = functions.cosine
    digamma = functions.digamma
    erfc = functions.erfc
    lgamma = gamma.lgamma
    log = functions.log
    log_plus_one = functions.log_plus_one
    logistic = functions.logistic
    power = functions.power
    rsqrt = functions.rsqrt
    sign = functions.sign
    sine = functions.sine
    sinh = functions.sinh

    cholesky = linalg.cholesky
    eig = decompositions.eig
    eigh = decompositions.eigh
    fft = decompositions.fft
    lu = decompositions.lu
    permutation = decompositions.permutation
    qr = decompositions.qr
    schur = decompositions.schur
    svd = decompositions.svd
    triangular_solve = linalg.triangular_solve

    def __getattr__(self, name: str) -> Emitter:
        """Return the emitter of the StableHLO or CHLO op `name`, whose result type is inferred."""
        if name.startswith("__"):
            raise AttributeError(name)
        # Found on the instance next time, without coming here.
        emit = self.__dict__[name] = dialect.emitter(name)
        return emit
