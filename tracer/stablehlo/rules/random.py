"""The rule of random bits, those of XLA's generators bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.array.array import Array
from tracer.numpy.bit_generators import STATES, philox, threefry
from tracer.stablehlo.table import Instruction, rule


def _algorithm(instruction: Instruction) -> str:
    text = str(instruction.attributes["rng_algorithm"])
    names = (name for name in STATES if name in text)
    # XLA's default on CPUs and GPUs.
    return next(names, "PHILOX")


def _unknown(instruction: Instruction) -> str | None:
    algorithm, (state,) = _algorithm(instruction), instruction.operands
    if state.dtype != "uint64" or state.shape[0] not in STATES[algorithm]:
        return f"with a state of {state} for {algorithm}"
    dtype = instruction.results[1].dtype
    return None if dtype.kind == "u" else f"with dtype {dtype}"


@rule("stablehlo.rng_bit_generator", unless=_unknown)
def rng_bit_generator(instruction: Instruction, state: Array) -> Sequence[Array]:
    """Make bits of a state."""
    make = threefry if _algorithm(instruction) == "THREE_FRY" else philox
    bits = instruction.results[1]
    return make(state, shape=bits.shape, width=8 * bits.dtype.itemsize)
