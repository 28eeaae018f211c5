"""Programs that single passes are for: published ones, and what people write in their form.

`benchmarks.ablation` has them beside the planner's programs, in most of which these passes do not
act. Cartpole and the networks are from Snider & Liang, *Operator Fusion in XLA* (2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks import adam, cartpole_programs, fusion
from benchmarks.limited import Arguments, Function, LimitedProgram, normal
from tracer.scipy.special import logsumexp


def distances_by_einsum(x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return tnp.exp(-tnp.einsum("ijk,ijk->ij", d, d)).sum(1)


def columns_of_costs(cost: Any, potential: Any) -> Any:
    return logsumexp(potential - cost.T, axis=1)


def two_layers(x: Any, first: Any, second: Any) -> Any:
    """Take two recurrent layers, one scan after the other."""

    def layer(weights: Any, inputs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            state = tnp.tanh(state @ weights + x)
            return state, state

        return tracer.scan(step, tnp.zeros(inputs.shape[1:], inputs.dtype), inputs)[1]

    return layer(second, layer(first, x))[-1]


def stages_in_a_loop(x: Any, w: Any) -> Any:
    """Take steps of three stages each, as a loop in a loop."""

    def step(_: Any, x: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda _, y: y * x * 0.1 + w, x)

    return tracer.fori_loop(0, 2000, step, x)


def deep_network(x: Any, weights: Any) -> Any:
    """Return the gradient of a network whose layers take whole batches."""

    def loss(weights: Any) -> Any:
        h = x
        for w in weights:
            h = h + tnp.tanh(tnp.tanh(h - h.mean(0)) @ w)
        return (h**2).sum()

    return tracer.grad(loss)(weights)


def checkpointed_layers(x: Any, first: Any, second: Any) -> Any:
    """Return the loss of two layers, of which a gradient keeps the operands only."""
    layers = tracer.checkpoint(lambda x, first, second: tnp.tanh(tnp.tanh(x @ first) @ second))
    return (layers(x, first, second) ** 2).sum()


def chamfer(x: Any, y: Any) -> Any:
    d = ((x[:, None] - y) ** 2).sum(-1)
    return d.min(1).mean() + d.min(0).mean()


def depthwise(x: Any, kernel: Any) -> Any:
    """Return the loss of a depthwise convolution, features in front."""
    features = kernel.shape[0]
    y = tracer.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", feature_group_count=features)
    return (y**2).sum()


def normalised_kernel(x: Any) -> Any:
    """Return sums of a kernel matrix that is divided by the roots of its diagonal."""
    k = tnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1))
    roots = tnp.sqrt(tnp.diagonal(k))
    return (k / (roots[:, None] * roots)).sum(1)


def cartpole(_: Any) -> tuple[Any, ...]:
    return cartpole_programs.arrays(2048)


def of_fusion(function: Function) -> Arguments:
    """Return what makes the arguments of a program of `benchmarks.fusion`."""
    return lambda _: {item[1]: item[2] for item in fusion.programs(2000, 200)}[function]


PASS_PROGRAMS: Mapping[str, LimitedProgram] = {
    "Cartpole": LimitedProgram(cartpole_programs.naive(tnp, tracer.fori_loop, 500), cartpole),
    "Adam of 200 arrays, 300 steps": LimitedProgram(
        adam.written(tnp, tracer.fori_loop, 300), lambda _: adam.arrays_of(200)
    ),
    **{
        name: LimitedProgram(function, of_fusion(function))
        for name, function in (
            ("sums both ways", fusion.sums_both_ways),
            ("moments of a quotient", fusion.moments_of_quotient),
            ("moments of parts side by side", fusion.moments_of_joined),
            ("extremes of a stack", fusion.extremes_of_joined),
            ("200 products, one by one", fusion.products_of_rows),
            ("sums with noise", fusion.sums_with_noise),
        )
    },
    "distances by einsum": LimitedProgram(
        distances_by_einsum, normal((1000, 64), (1000, 64)), 1 / 3
    ),
    "kernel over its diagonal": LimitedProgram(normalised_kernel, normal((2000, 3))),
    "columns of costs": LimitedProgram(columns_of_costs, normal((1500, 1500), (1500,))),
    "two recurrent layers": LimitedProgram(
        two_layers, lambda rng: (*normal((500, 64, 64))(rng), *_small((64, 64), (64, 64))), None
    ),
    "stages in a loop": LimitedProgram(stages_in_a_loop, normal((1000,), (1000,)), None),
    "deep network, gradient": LimitedProgram(
        deep_network, lambda rng: (*normal((2000, 128))(rng), list(_small(*[(128, 128)] * 8))), 0.5
    ),
    "checkpointed layers, gradient": LimitedProgram(
        tracer.grad(checkpointed_layers, argnums=(1, 2)),
        lambda rng: (*normal((4000, 64))(rng), *_small((64, 512), (512, 64))),
        1 / 5,
    ),
    "Chamfer, gradient": LimitedProgram(tracer.grad(chamfer), normal((2000, 3), (2500, 3)), 1 / 50),
    "depthwise convolution, gradient": LimitedProgram(
        tracer.grad(depthwise, argnums=(0, 1)), normal((8, 64, 56, 56), (64, 1, 3, 3))
    ),
    "median of a matrix": LimitedProgram(
        lambda x, y: tnp.median(x[:, None] * y), normal((4000,), (4000,)), 1 / 8
    ),
    "running sums of columns": LimitedProgram(
        lambda x: tnp.cumsum(x, axis=0), normal((4000, 1000))
    ),
    "running sums of rows": LimitedProgram(lambda x: tnp.cumsum(x, axis=1), normal((1000, 4000))),
    "sort of 1,000,000": LimitedProgram(tnp.sort, normal((1_000_000,))),
    "running numbers of 1,000,000": LimitedProgram(
        lambda x: tnp.cumsum(x > 0), normal((1_000_000,))
    ),
    "spectrum of 4,096 x 1,000 columns": LimitedProgram(
        lambda x: tnp.abs(tnp.fft.fft(x, axis=0)), normal((4096, 1000))
    ),
    "singular values of 10,000 of 8 x 8": LimitedProgram(
        tnp.linalg.svdvals, normal((10_000, 8, 8))
    ),
    "L1 distances of 1,000 features": LimitedProgram(
        lambda x, y: tnp.abs(x[:, None] - y[None]).sum(-1), normal((100, 1000), (20_000, 1000))
    ),
    "argsort of 1,000,000": LimitedProgram(tnp.argsort, normal((1_000_000,))),
    "10,000 determinants": LimitedProgram(tnp.linalg.det, normal((10_000, 3, 3))),
    "inner product of 2,000,000": LimitedProgram(tnp.vdot, normal((2_000_000,), (2_000_000,))),
}


def _small(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(np.float32(0.1) * array for array in normal(*shapes)(np.random.default_rng(0)))
