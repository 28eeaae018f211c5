"""Rules of sorting."""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply, apply_many
from tracer.lax.bits import ordered_bits
from tracer.ops.rules import is_float
from tracer.stablehlo.comparators import Key, keys_of
from tracer.stablehlo.table import Instruction, rule


def _keys(instruction: Instruction) -> tuple[Key, ...] | None:
    (comparator,) = instruction.operation.regions
    return keys_of(comparator, instruction.module, instruction.results)


def _unknown_comparator(instruction: Instruction) -> str | None:
    if _keys(instruction) is not None:
        return None
    return "with a comparator that is no order of up to three keys, ascending or descending"


@rule("stablehlo.sort", unless=_unknown_comparator)
def sort(instruction: Instruction, *arrays: Array) -> Sequence[Array]:
    """Sort arrays together by the keys that the comparator compares."""
    keys = _keys(instruction)
    assert keys is not None
    dimension = instruction.attributes.get("dimension", arrays[0].ndim - 1) % arrays[0].ndim
    is_stable = bool(instruction.attributes.get("is_stable", False))
    made = [_key_of(arrays[key.operand], key) for key in keys]
    # Keys that are arrays themselves, in their order, need not be sorted twice.
    is_plain = all(x is y for x, y in zip(made, arrays, strict=False))
    given = arrays if is_plain else (*made, *arrays)
    found = apply_many(
        ops.sort, *given, dimension=dimension, num_keys=len(made), is_stable=is_stable
    )
    return found[len(given) - len(arrays) :]


def _key_of(x: Array, key: Key) -> Array:
    """Return what sorts as the key does: ascending, NaN last, -0 = +0."""
    if key.part:
        x = apply(ops.real if key.part == "real" else ops.imag, x)
    if key.order == "total" and is_float(x.dtype):
        x = ordered_bits(x)
    if not key.is_descending:
        return x
    if is_float(x.dtype):
        return apply(ops.negate, x)
    return apply(ops.not_, x)


@rule("chlo.top_k")
def top_k(instruction: Instruction, x: Array) -> Sequence[Array]:
    """Find the largest elements of the last axis."""
    values, indices = apply_many(ops.top_k, x, k=instruction.attributes["k"])
    return [values, convert(indices, instruction.results[1].dtype)]
