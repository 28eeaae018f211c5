"""Programs with memory that XLA does not count, for measuring in a fresh process.

Each entry is a graph and the options to compile it with. `run` is what the child process calls; the
arguments are arrays of ones, resident before the baseline is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype, Value
from tracer.lowering import shims
from tracer.ops import helpers
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.pipeline import Context, PlannerOptions

HAS_LIBRARY_FUSIONS = shims.VERSION >= (0, 10)
LIBRARY_FUSIONS = (
    {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT,LIBRARY_FUSION_TYPE_REDUCE"}
    if HAS_LIBRARY_FUSIONS
    else {}
)
BY_EIGEN = lowering.eigen_options() if HAS_LIBRARY_FUSIONS else {}
Types = Sequence[tuple[tuple[int, ...], str]]


def dot(x: Value, y: Value, *, batch: int = 0, lhs: int, rhs: int) -> Value:
    axes = tuple(range(batch))
    return ops.dot_general(
        x, y, lhs_batch=axes, rhs_batch=axes, lhs_contracting=(lhs,), rhs_contracting=(rhs,)
    )


def attention(q: Value, k: Value, v: Value) -> list[Value]:
    """Softmax of q k^T, times v, in the naive form."""
    scores = dot(q, k, batch=1, lhs=2, rhs=2)

    def over_rows(x: Value) -> Value:
        return ops.broadcast_in_dim(x, shape=scores.shape, dimensions=(0, 1))

    largest = ops.reduce_maximum(scores, axes=(2,))
    weights = ops.exponential(ops.subtract(scores, over_rows(largest)))
    total = ops.reduce_add(weights, axes=(2,))
    return [dot(ops.divide(weights, over_rows(total)), v, batch=1, lhs=2, rhs=1)]


def products(x: Value, y: Value, *, batch: int, rhs: int) -> list[Value]:
    return [dot(x, y, batch=batch, lhs=batch + 1, rhs=rhs)]


def _spectrum(x: Value, order: tuple[int, int], kind: str = "FFT") -> Value:
    """Return the transform along the axis that comes last in an order of both."""
    turned = helpers.in_order(x, order)
    length = 2 * (turned.shape[1] - 1) if kind == "IRFFT" else turned.shape[1]
    found = ops.fft(turned, kind=kind, lengths=(length,))
    return helpers.in_order(found, order)


def sorted_pairs(x: Value) -> Sequence[Value]:
    places = ops.iota(shape=x.shape, dtype=np.dtype(np.int32), dimension=0)
    return ops.sort(x, places, dimension=0, num_keys=1, is_stable=True)


def in_order(x: Value, axis: int) -> Value:
    return ops.sort(x, dimension=axis, num_keys=1, is_stable=False)[0]  # type: ignore[no-any-return]


def ordered(x: Value) -> Value:
    places = ops.iota(shape=x.shape, dtype=np.dtype(np.int64), dimension=1)
    return ops.sort(x, places, dimension=1, num_keys=1, is_stable=True)[1]  # type: ignore[no-any-return]


def solved(a: Value, x: Value) -> list[Value]:
    params = {"left_side": True, "lower": True, "unit_diagonal": False}
    return [ops.triangular_solve(ops.cholesky(a), x, transpose_a="NO_TRANSPOSE", **params)]


def convolved(x: Value, kernel: Value, *, stride: int = 1, groups: int = 1) -> list[Value]:
    """Convolve images with the features last; windows of the size of the kernel, padded by one."""
    result = ops.convolution(
        x,
        kernel,
        lhs_axes=(0, 3, 1, 2),
        rhs_axes=(3, 2, 0, 1),
        result_axes=(0, 3, 1, 2),
        window_strides=(1, 1),
        padding=((1, stride), (1, stride)),
        lhs_dilation=(stride, stride),
        rhs_dilation=(1, 1),
        feature_group_count=groups,
        batch_group_count=1,
    )
    return [result]


IMAGES = ((16, 56, 56, 64), "f4")
SMALL_IMAGES = ((16, 28, 28, 64), "f4")


Program = tuple[Callable[..., Sequence[Value]], Types, dict[str, Any]]
HEADS = ((8, 1024, 64), "f4")


def transformed(x: Value, *, kind: str, lengths: tuple[int, ...]) -> list[Value]:
    return [ops.fft(x, kind=kind, lengths=lengths)]


PROGRAMS: dict[str, Program] = {
    **{
        f"{kind} of {'x'.join(map(str, shape))}": (
            partial(transformed, kind=kind, lengths=lengths),
            [(shape, dtype)],
            {},
        )
        for kind, shape, lengths, dtype in (
            ("FFT", (1 << 20,), (1 << 20,), "c16"),
            ("FFT", (4, 300_007), (300_007,), "c16"),
            ("FFT", (1 << 19, 3), (1 << 19, 3), "c16"),
            ("FFT", (1000, 1000), (1000, 1000), "c8"),
            ("IFFT", (1_000_003,), (1_000_003,), "c8"),
            ("RFFT", (4, 1 << 20), (1 << 20,), "f8"),
            ("RFFT", (1_000_003,), (1_000_003,), "f8"),
            ("IRFFT", (4, (1 << 19) + 1), (1 << 20,), "c16"),
        )
    },
    "attention": (attention, [HEADS] * 3, {}),
    "attention in one library fusion": (
        attention,
        [HEADS] * 3,
        LIBRARY_FUSIONS,
    ),
    "batched product": (
        partial(products, batch=1, rhs=1),
        [((128, 256, 256), "f4")] * 2,
        {},
    ),
    **{
        f"{name} by Eigen": (partial(products, batch=batch, rhs=rhs), types, BY_EIGEN)
        for name, batch, rhs, types in (
            ("batched product", 1, 1, [((128, 256, 256), "f4")] * 2),
            ("heads", 1, 2, [((64, 256, 64), "f4")] * 2),
            ("long heads", 1, 2, [HEADS] * 2),
            ("product", 0, 0, [((2048, 512), "f4"), ((512, 2048), "f4")]),
            ("turned product", 0, 1, [((2000, 784), "f4"), ((3000, 784), "f4")]),
        )
    },
    "transposed product": (lambda x, y: [dot(x, y, lhs=0, rhs=0)], [((1500, 1500), "f4")] * 2, {}),
    "stable sort of pairs": (sorted_pairs, [((1_000_000,), "f8")], {}),
    "places by numpy": (sorted_pairs, [((1_000_000,), "f8")], {}),
    "places of lines by numpy": (lambda x: [ordered(x)], [((100_000, 10), "f8")], {}),
    "sort by numpy": (lambda x: [in_order(x, 0)], [((4_000_000,), "f4")], {}),
    "lines by numpy": (lambda x: [in_order(x, 1)], [((1_000_000, 4), "f4")], {}),
    "columns by numpy": (lambda x: [in_order(x, 0)], [((1_000_000, 4), "f4")], {}),
    "columns by scipy": (
        lambda x: [_spectrum(x, (1, 0))],
        [((2048, 1024), "c8")],
        {},
    ),
    "singular values by numpy": (
        lambda x: [ops.svd(x, compute_vectors=False, full_matrices=False)],
        [((20_000, 12, 16), "f4")],
        {},
    ),
    "eigenvalues by numpy": (
        lambda x: [ops.eigh(x, compute_vectors=False)],
        [((100_000, 5, 5), "f4")],
        {},
    ),
    "columns of reals by scipy": (
        lambda x: [_spectrum(x, (1, 0), "RFFT")],
        [((3000, 500), "f4")],
        {},
    ),
    "columns to reals by scipy": (
        lambda x: [_spectrum(x, (1, 0), "IRFFT")],
        [((1501, 500), "c16")],
        {},
    ),
    "rows and columns by scipy": (
        lambda x: [_spectrum(_spectrum(x, (0, 1)), (1, 0))],
        [((1024, 2048), "c8")],
        {},
    ),
    "sort as integers": (sorted_pairs, [((1_000_000,), "f4")], {}),
    "top k": (lambda x: ops.top_k(x, k=1000), [((4_000_000,), "f4")], {}),
    "convolution": (convolved, [IMAGES, ((3, 3, 64, 64), "f4")], {}),
    "transposed convolution": (
        lambda x, kernel: convolved(x, kernel, stride=2),
        [SMALL_IMAGES, ((3, 3, 64, 64), "f4")],
        {},
    ),
    "grouped convolution": (
        lambda x, kernel: convolved(x, kernel, groups=2),
        [IMAGES, ((3, 3, 32, 64), "f4")],
        {},
    ),
    "depthwise convolution": (
        lambda x, kernel: convolved(x, kernel, groups=64),
        [IMAGES, ((3, 3, 1, 64), "f4")],
        {},
    ),
    "convolution of volumes": (
        lambda x, kernel: [
            ops.convolution(
                x,
                kernel,
                lhs_axes=(0, 4, 1, 2, 3),
                rhs_axes=(4, 3, 0, 1, 2),
                result_axes=(0, 4, 1, 2, 3),
                window_strides=(1, 1, 1),
                padding=((1, 1),) * 3,
                lhs_dilation=(1, 1, 1),
                rhs_dilation=(1, 1, 1),
                feature_group_count=1,
                batch_group_count=1,
            )
        ],
        [((4, 24, 24, 24, 16), "f4"), ((3, 3, 3, 16, 32), "f4")],
        {},
    ),
    "cholesky and solve": (solved, [((1000, 1000), "f8"), ((1000, 200), "f8")], {}),
}


BY_XLA = {"stable sort of pairs": frozenset({"sort-by-numpy"})}
"""Passes without which a program is what it is about, as it is on a mesh of devices."""


def graph_of(name: str) -> Graph:
    """Return a program in the forms that the device's compiler takes well, as all are compiled."""
    build, types, _ = PROGRAMS[name]
    with Builder() as builder:
        inputs = [builder.input(ShapeDtype(*type)) for type in types]
        graph = builder.finish(list(build(*inputs)))
    options = PlannerOptions(disabled=BY_XLA.get(name, frozenset()))
    return legalized(graph, Context(options))[0]


def executable_of(name: str) -> lowering.Executable:
    return lowering.compile_graph(graph_of(name), options=PROGRAMS[name][2])


def program(name: str) -> Callable[[], Any]:
    """Set up in the child: warm up the libraries on small products, compile, copy arguments.

    The second product is below the size from which it would be rewritten for YNNPACK, so Eigen
    takes it, and with it oneDNN: 8 MB of code, once per process (docs/memory-model.md).
    """
    with Builder() as builder:
        x = builder.input(ShapeDtype((48, 48), "f4"))
        warm = builder.finish([dot(x, x, lhs=1, rhs=0), dot(x, x, lhs=0, rhs=0)])
    for buffer in lowering.compile_graph(warm)(lowering.to_device(np.ones((48, 48), "f4"))):
        lowering.to_host(buffer)
    executable = executable_of(name)
    arguments = [lowering.to_device(np.ones(*type)) for type in PROGRAMS[name][1]]

    def run() -> Any:
        results = executable(*arguments)
        return [lowering.to_host(buffer) for buffer in results]

    return run
