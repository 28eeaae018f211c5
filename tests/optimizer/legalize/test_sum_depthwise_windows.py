"""Depthwise convolutions as sums: what is written, that it computes the same, what stays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
from tests.optimizer.graphs import apply, evaluated, ops_of
from tracer import ShapeDtype, lax
from tracer.errors import TracerError
from tracer.ir import Graph
from tracer.optimizer.legalize.depthwise import depthwise_sums_pass
from tracer.target import DEFAULT_TARGET

PASS = depthwise_sums_pass(DEFAULT_TARGET)
KERNELS = replace(DEFAULT_TARGET.kernels, narrow_depthwise_elements=0)
OF_ALL_SIZES = depthwise_sums_pass(replace(DEFAULT_TARGET, kernels=KERNELS))
FIRST, LAST = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")


def depthwise(layout: tuple[str, str, str] = FIRST, **changed: Any) -> Any:
    options = {"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 6} | changed
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=layout, **options)


def arrays(layout: tuple[str, str, str], dtype: Any, k: int = 3) -> list[np.ndarray[Any, Any]]:
    sizes = {"N": 2, "C": 6, "H": 9, "W": 8, "O": 6, "I": 1}
    of_kernel = sizes | {"H": k, "W": k}
    rng = np.random.default_rng(0)
    shapes = ([sizes[c] for c in layout[0]], [of_kernel[c] for c in layout[1]])
    return [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]


def graph_of(layout: tuple[str, str, str], dtype: Any, k: int = 3, **changed: Any) -> Graph:
    return tracer.make_graph(depthwise(layout, **changed))(*arrays(layout, dtype, k))


def gradients(f: Any) -> Any:
    def all_of(x: Any, w: Any, g: Any) -> Any:
        found, back = tracer.vjp(f, x, w)
        return (found, *back(g))

    return all_of


def test_a_small_window_is_a_sum_of_terms_that_choose() -> None:
    """A corner of the window misses the array's edges; nothing but the result is stored."""
    after, log = apply(PASS, graph_of(FIRST, "float32"))
    assert log.applied == ["convolution to float32[2,6,9,8]"]
    counts = {name: ops_of(after).count(name) for name in ("multiply", "add", "pad")}
    assert counts == {"multiply": 9, "add": 8, "pad": 8}
    assert ops_of(after).count("optimization_barrier") == 1


@pytest.mark.parametrize(
    ("dtype", "k", "changed"),
    [
        ("float32", 5, {}),
        ("float32", 3, {"window_strides": (2, 2)}),
        (ml_dtypes.bfloat16, 3, {}),
        ("float64", 3, {"lhs_dilation": (2, 2), "padding": ((1, 1), (1, 1))}),
        ("float64", 7, {}),
    ],
    ids=["25 places", "strides", "bfloat16", "spread", "49 places"],
)
def test_otherwise_the_padding_is_stored_once(dtype: Any, k: int, changed: Any) -> None:
    names = ops_of(apply(OF_ALL_SIZES, graph_of(FIRST, dtype, k, **changed))[0])
    assert names.count("pad") == 1
    assert names.count("optimization_barrier") == 2


def test_computed_operands_are_stored() -> None:
    """Else every term would compute them again."""
    f = depthwise()
    graph = tracer.make_graph(lambda x, w: f(tracer.nn.relu(x), w))(*arrays(FIRST, "float32"))
    assert ops_of(apply(PASS, graph)[0]).count("optimization_barrier") == 2


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(LAST, "float32"),
        graph_of(LAST, ml_dtypes.bfloat16),
        graph_of(FIRST, "float32", 7),
        graph_of(FIRST, "float32", lhs_dilation=(2, 2), padding=((1, 1), (1, 1))),
        graph_of(FIRST, "int32"),
        graph_of(FIRST, "complex64"),
    ],
    ids=["features last", "narrow", "49 places", "spread", "integers", "complex"],
)
def test_what_plain_loops_compute_as_fast_stays(graph: Graph) -> None:
    assert apply(PASS, graph)[0] is graph


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
def test_of_16_bits_large_ones_with_small_windows_are_sums(dtype: Any) -> None:
    """Others took up to 2.4 times as long."""

    def is_summed(rows: int, k: int) -> bool:
        types = ShapeDtype((1, 6, rows, 160), dtype), ShapeDtype((6, 1, k, k), dtype)
        return bool(apply(PASS, tracer.make_graph(depthwise())(*types))[1].applied)

    assert [is_summed(rows, 3) for rows in (136, 137)] == [False, True]
    assert not is_summed(137, 5)


def test_groups_of_several_features_stay() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((2, 6, 9, 8), (6, 2, 3, 3)))
    graph = tracer.make_graph(depthwise(feature_group_count=3))(x, w)
    assert apply(PASS, graph)[0] is graph


def test_the_targets_record_decides() -> None:
    graph = graph_of(FIRST, "float32")
    kernels = replace(DEFAULT_TARGET.kernels, depthwise_window=8)
    assert apply(depthwise_sums_pass(replace(DEFAULT_TARGET, kernels=kernels)), graph)[0] is graph
    kernels = replace(DEFAULT_TARGET.kernels, unpadded_window=8)
    stored, _ = apply(depthwise_sums_pass(replace(DEFAULT_TARGET, kernels=kernels)), graph)
    assert ops_of(stored).count("pad") == 1


@pytest.mark.parametrize("layout", [FIRST, LAST], ids=["first", "last"])
def test_gradients_of_kernels_are_sums_of_products(layout: tuple[str, str, str]) -> None:
    x, w = arrays(layout, "float32")
    back = tracer.grad(lambda w, x: (depthwise(layout)(x, w) * x).sum())
    names = ops_of(apply(PASS, tracer.make_graph(back)(w, x))[0])
    assert names.count("reduce_add") == 9
    assert "convolution" not in names


def random_case(rng: np.random.Generator) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """Return any depthwise convolution: layouts, dtypes, windows larger than what they slide on."""
    axes = "DHW"[-int(rng.integers(1, 4)) :]
    count, features = len(axes), int(rng.integers(1, 5))
    sizes = dict(zip(axes, (int(n) for n in rng.integers(1, 8, count)), strict=True))
    places = dict(zip(axes, (int(n) for n in rng.integers(1, 5, count)), strict=True))
    first, last = ("".join(rng.permutation(list("NC" + axes))) for _ in range(2))
    kernel = "".join(rng.permutation(list("OI" + axes)))
    options = {
        "window_strides": tuple(int(n) for n in rng.integers(1, 4, count)),
        "padding": [(int(a), int(b)) for a, b in rng.integers(-2, 5, (count, 2))],
        "rhs_dilation": tuple(int(n) for n in rng.integers(1, 3, count)),
        "lhs_dilation": tuple(int(n) for n in rng.choice([1, 1, 1, 2], count)),
        "feature_group_count": features,
    }
    layout = (first, kernel, str(rng.choice([first, last])))
    dtype = rng.choice([np.dtype(x) for x in ("f2", "f4", "f8", ml_dtypes.bfloat16)])
    of_x = sizes | {"N": int(rng.integers(0, 4)), "C": features}
    of_w = places | {"O": features, "I": 1}
    shapes = ([of_x[c] for c in layout[0]], [of_w[c] for c in layout[1]])
    return depthwise(layout, **options), [
        rng.integers(-3, 4, shape).astype(dtype) for shape in shapes
    ]


@pytest.mark.parametrize("seed", range(8))
def test_values_and_gradients_of_random_shapes(seed: int) -> None:
    """Small integers: every sum is exact."""
    rng, acted = np.random.default_rng(seed), 0
    for _ in range(40):
        f, (x, w) = random_case(rng)
        try:
            (out,) = tracer.make_graph(f)(x, w).output_types
        except TracerError:
            continue
        g = rng.integers(-3, 4, out.shape).astype(x.dtype)
        graph = tracer.make_graph(gradients(f))(x, w, g)
        after, log = apply(OF_ALL_SIZES, graph)
        acted += bool(log.applied)
        for found, wanted in zip(evaluated(after, x, w, g), evaluated(graph, x, w, g), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))
    assert acted > 5


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [3, 5])
def test_compiled_and_predicted(dtype: str, k: int) -> None:
    """What the plan says is what XLA counts: no padding around the array for small windows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 6, 64, 64)).astype(dtype)
    w = rng.standard_normal((6, 1, k, k)).astype(dtype)
    both = gradients(depthwise())
    compiled = tracer.compile(both)
    graph = tracer.make_graph(both)(x, w, x)
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    for found, wanted in zip(compiled(x, w, x), evaluated(graph, x, w, x), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance * 64)
    plan = tracer.compile(depthwise()).plan(x, w)
    padded = math.prod((2, 6, 64 + k - 1, 64 + k - 1)) * x.itemsize if k == 5 else 0
    assert abs(plan.peak_bytes - plan.compiled_bytes) < 0.02 * plan.compiled_bytes
    assert abs(plan.compiled_bytes - (2 * x.nbytes + w.nbytes + padded)) < 20_000


SIZES = [(2, 32, 56, 3), (4, 64, 28, 5)]


@pytest.mark.xla
@pytest.mark.parametrize(("dtype", "stride"), [("float32", 1), ("float32", 2), ("float64", 1)])
@pytest.mark.parametrize("layout", [FIRST, LAST], ids=["first", "last"])
def test_bytes_are_predicted(layout: tuple[str, str, str], dtype: Any, stride: int) -> None:
    """Of values and both gradients."""
    for batch, features, size, k in SIZES:
        f = depthwise(layout, window_strides=(stride, stride), feature_group_count=features)
        sizes = {"N": batch, "C": features, "H": size, "W": size}
        of_kernel = {"O": features, "I": 1, "H": k, "W": k}
        of_result = sizes | {"H": size // stride, "W": size // stride}
        x, w, g = (
            ShapeDtype([all_sizes[c] for c in letters], dtype)
            for letters, all_sizes in zip(layout, (sizes, of_kernel, of_result), strict=True)
        )
        plans = [tracer.compile(f).plan(x, w)]
        for place in (0, 1):
            program = lambda x, w, g, f=f, place=place: tracer.vjp(f, x, w)[1](g)[place]
            plans.append(tracer.compile(program).plan(x, w, g))
        ratios = [plan.peak_bytes / plan.compiled_bytes for plan in plans]
        assert min(ratios) > 0.95
        assert max(ratios) < 1.05
