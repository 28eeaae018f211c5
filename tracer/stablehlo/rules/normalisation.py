"""Rules of batch normalisation. Source: StableHLO specification."""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.numpy.ufunc import full_like
from tracer.stablehlo.table import Instruction, rule


def _others(instruction: Instruction) -> tuple[int, ...]:
    """Return the axes that statistics are taken over."""
    feature = instruction.attributes["feature_index"]
    return tuple(axis for axis in range(instruction.operands[0].ndim) if axis != feature)


def _spread(instruction: Instruction, x: Array) -> Array:
    """Repeat what belongs to features along the other axes."""
    shape = instruction.operands[0].shape
    dimensions = (instruction.attributes["feature_index"],)
    return apply(ops.broadcast_in_dim, x, shape=shape, dimensions=dimensions)


def _deviation(instruction: Instruction, variance: Array) -> Array:
    epsilon = full_like(variance, instruction.attributes["epsilon"])
    return apply(ops.sqrt, apply(ops.add, variance, epsilon))


def _mean(instruction: Instruction, x: Array) -> Array:
    total = apply(ops.reduce_add, x, axes=_others(instruction))
    return apply(ops.divide, total, full_like(total, x.size // max(1, total.size)))


@rule("stablehlo.batch_norm_inference")
def batch_norm_inference(
    instruction: Instruction, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> Array:
    """Normalise with given statistics."""
    centred = apply(ops.subtract, x, _spread(instruction, mean))
    scaled = apply(ops.multiply, centred, _spread(instruction, scale))
    deviation = _spread(instruction, _deviation(instruction, variance))
    return apply(ops.add, apply(ops.divide, scaled, deviation), _spread(instruction, offset))


@rule("stablehlo.batch_norm_training")
def batch_norm_training(
    instruction: Instruction, x: Array, scale: Array, offset: Array
) -> Sequence[Array]:
    """Normalise with the statistics of the batch."""
    mean = _mean(instruction, x)
    centred = apply(ops.subtract, x, _spread(instruction, mean))
    variance = _mean(instruction, apply(ops.multiply, centred, centred))
    found = batch_norm_inference(instruction, x, scale, offset, mean, variance)
    return [found, mean, variance]


@rule("stablehlo.batch_norm_grad")
def batch_norm_grad(
    instruction: Instruction, x: Array, scale: Array, mean: Array, variance: Array, g: Array
) -> Sequence[Array]:
    """Return the gradients of operand, scale and offset."""
    axes = _others(instruction)
    deviation = _deviation(instruction, variance)
    centred = apply(ops.subtract, x, _spread(instruction, mean))
    normal = apply(ops.divide, centred, _spread(instruction, deviation))
    of_offset = apply(ops.reduce_add, g, axes=axes)
    of_scale = apply(ops.reduce_add, apply(ops.multiply, g, normal), axes=axes)
    count = full_like(of_offset, x.size // max(1, scale.size))
    mean_offset, mean_scale = (
        _spread(instruction, apply(ops.divide, part, count)) for part in (of_offset, of_scale)
    )
    rest = apply(ops.subtract, g, mean_offset)
    rest = apply(ops.subtract, rest, apply(ops.multiply, normal, mean_scale))
    factor = _spread(instruction, apply(ops.divide, scale, deviation))
    return [apply(ops.multiply, factor, rest), of_scale, of_offset]
