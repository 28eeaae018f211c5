"""Convolution and windowed reductions: ties, bad inputs, axes, and jax.lax where it is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.samples_window import CHANNELS_LAST, MIXED, window_samples
from tests.ops.sampling import Sample
from tests.ops.test_conventions import cotangents
from tests.ops.test_every_op import assert_close, graph_of, types_of
from tracer import lowering, ops
from tracer.autodiff.batching import batch_graph
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import Builder, Op, ShapeDtype, as_dtype

ONES = {"window_strides": (1,), "base_dilation": (1,), "window_dilation": (1,)}
NO_PADDING = {"padding": ((0, 0),)}
PAIRS = {"window_dimensions": (2,), **ONES, **NO_PADDING}
FIRST = {"lhs_axes": (0, 1, 2), "rhs_axes": (0, 1, 2), "result_axes": (0, 1, 2)}
PLAIN = {
    **FIRST,
    "window_strides": (1,),
    "padding": ((0, 0),),
    "lhs_dilation": (1,),
    "rhs_dilation": (1,),
    "feature_group_count": 1,
    "batch_group_count": 1,
}


def test_the_first_of_several_extrema_gets_the_gradient() -> None:
    x = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    (got,) = cotangents(ops.reduce_window_maximum, x, **PAIRS)
    assert got.tolist() == [1, 1, 1, 1, 0]
    (got,) = cotangents(ops.reduce_window_minimum, x, **PAIRS)
    assert got.tolist() == [1, 1, 0, 2, 0]


def test_a_window_of_padding_only_has_no_gradient() -> None:
    params = {"window_dimensions": (1,), **ONES, "padding": ((2, 0),)}
    x = np.array([3.0, -np.inf])
    assert ops.reduce_window_argmax.evaluate(x, **params).tolist() == [2, 2, 0, 1]
    (got,) = cotangents(ops.reduce_window_maximum, x, **params)
    assert got.tolist() == [1, 1]


def test_nan_wins_its_windows() -> None:
    x = np.array([1.0, np.nan, 2.0, 3.0])
    found = ops.reduce_window_maximum.evaluate(x, **PAIRS)
    np.testing.assert_array_equal(found, [np.nan, np.nan, 3])
    assert ops.reduce_window_argmax.evaluate(x, **PAIRS).tolist() == [1, 1, 3]


def changed(**params: Any) -> dict[str, Any]:
    return PLAIN | params


X, KERNEL = ShapeDtype((2, 4, 5), "float32"), ShapeDtype((6, 4, 3), "float32")
LINE = ShapeDtype((5,), "float32")
BAD: list[tuple[Op, tuple[ShapeDtype, ...], dict[str, Any], type[Exception], str]] = [
    (ops.convolution, (X, KERNEL.with_dtype("float64")), PLAIN, DTypeError, "one dtype"),
    (ops.convolution, (X.with_dtype(bool),) * 2, PLAIN, DTypeError, "not bool"),
    (ops.convolution, (X, LINE), PLAIN, ShapeError, "equally many spatial axes"),
    (ops.convolution, (X, KERNEL), changed(lhs_axes=(0, 1, 1)), ShapeError, "no order"),
    (ops.convolution, (X, KERNEL), changed(feature_group_count=0), ArgumentError, "0 feature"),
    (
        ops.convolution,
        (X, KERNEL),
        changed(feature_group_count=2, batch_group_count=2),
        ArgumentError,
        "2 batch groups",
    ),
    (ops.convolution, (X, KERNEL), changed(feature_group_count=2), ShapeError, "has 4 features"),
    (ops.convolution, (X, KERNEL), changed(batch_group_count=4), ShapeError, "do not divide"),
    (ops.convolution, (X, KERNEL), changed(window_strides=(0,)), ArgumentError, "not positive"),
    (ops.convolution, (X, KERNEL), changed(padding=((-3, -3),)), ShapeError, "cuts off more"),
    (ops.convolution, (X, KERNEL), changed(rhs_dilation=(1, 1)), ShapeError, "one for each axis"),
    (ops.reduce_window_add, (LINE.with_dtype(bool),), PAIRS, DTypeError, "not bool"),
    (ops.reduce_window_maximum, (X,), PAIRS, ShapeError, "one for each axis"),
    (
        ops.reduce_window_argmax,
        (LINE,),
        PAIRS | {"window_dimensions": (0,)},
        ArgumentError,
        "not positive",
    ),
    (ops.reduce_window_argmin, (LINE.with_dtype("complex64"),), PAIRS, DTypeError, "not complex64"),
]


@pytest.mark.parametrize(("op", "types", "params", "error", "told"), BAD)
def test_bad_inputs(
    op: Op, types: tuple[ShapeDtype, ...], params: dict[str, Any], error: type[Exception], told: str
) -> None:
    with Builder() as builder:
        inputs = [builder.input(type) for type in types]
        with pytest.raises(error, match=told) as caught:
            op(*inputs, **params)
    assert "mend:" in str(caught.value)


def test_axes_that_can_be_cut() -> None:
    lhs, rhs = ShapeDtype((2, 5, 5, 3), "float32"), ShapeDtype((3, 1, 3, 4), "float32")
    spatial = dict.fromkeys(("window_strides", "lhs_dilation", "rhs_dilation"), (1, 1))
    params = PLAIN | CHANNELS_LAST | spatial | {"padding": ((0, 0),) * 2}
    result = ops.convolution.infer(lhs, rhs, **params)
    rule = ops.convolution.axes((lhs, rhs), (result,), **params)
    (of_lhs, of_rhs), (of_result,) = rule.operands, rule.results
    assert dict(rule.reduced) == {of_lhs[3]: "add"}
    assert of_rhs[2:] == (of_lhs[3], of_result[3])
    parallel = [rule.is_parallel(label) for label in of_result]
    # The window is one element wide along the second spatial axis.
    assert parallel == [True, False, True, True]
    assert of_result[2] == of_lhs[2]


def test_every_sample_agrees_with_jax(rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        for sample in window_samples()["convolution"]:
            params = dict(sample.params)
            numbers = jax.lax.ConvDimensionNumbers(
                *(params.pop(name) for name in ("lhs_axes", "rhs_axes", "result_axes"))
            )
            mirrored = numbers.rhs_spec[2:] if params.pop("window_reversal", False) else ()

            def convolve(
                x: Any,
                y: Any,
                numbers: Any = numbers,
                params: Any = params,
                mirrored: Any = mirrored,
            ) -> Any:
                y = jax.lax.rev(y, mirrored)
                return jax.lax.conv_general_dilated(x, y, dimension_numbers=numbers, **params)

            out, pull_back = jax.vjp(convolve, *map(jax.numpy.asarray, sample.operands))
            got = ops.convolution.evaluate(*sample.operands, **sample.params)
            np.testing.assert_allclose(got, np.asarray(out), rtol=1e-9, atol=1e-12)
            if got.dtype.kind in "fc":
                g = rng.normal(size=got.shape).astype(got.dtype)
                found = cotangents(ops.convolution, *sample.operands, g=g, **sample.params)
                for mine, theirs in zip(found, pull_back(jax.numpy.asarray(g)), strict=True):
                    np.testing.assert_allclose(mine, np.asarray(theirs), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["add", "maximum", "minimum"])
def test_windows_agree_with_jax(name: str, rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax")
    x = rng.permutation(60.0 * np.ones(60)).reshape(2, 5, 6) * rng.integers(0, 3, (2, 5, 6))
    combine = {"add": jax.lax.add, "maximum": jax.lax.max, "minimum": jax.lax.min}[name]
    identity = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}[name]
    params = {
        "window_dimensions": (1, 3, 2),
        "window_strides": (1, 2, 2),
        "padding": ((0, 0), (1, 1), (1, 0)),
    }

    def reduce(x: Any) -> Any:
        return jax.lax.reduce_window(x, identity, combine, **params)

    with jax.enable_x64(True):
        out, pull_back = jax.vjp(reduce, jax.numpy.asarray(x))
        (wanted,) = pull_back(jax.numpy.ones_like(out))
    ones = {"base_dilation": (1, 1, 1), "window_dilation": (1, 1, 1)}
    op = getattr(ops, f"reduce_window_{name}")
    np.testing.assert_allclose(op.evaluate(x, **params, **ones), np.asarray(out))
    (got,) = cotangents(op, x, **params, **ones)
    # Ties: XLA's select_and_scatter chooses the first place too.
    np.testing.assert_allclose(got, np.asarray(wanted))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_single_precision_takes_other_ways_on_the_cpu(dtype: str) -> None:
    """Eigen's layout, written out zeros and plain loops: every sample, alone and as a batch."""
    samples = [sample for sample in window_samples()["convolution"] if sample.smooth]
    samples = [sample for sample in samples if sample.operands[0].dtype == np.float64]
    cases = [
        Sample(tuple(x.astype(as_dtype(dtype)) for x in sample.operands), sample.params)
        for sample in samples
    ]
    with Builder() as builder:
        inputs = [[builder.input(type) for type in types_of(case.operands)] for case in cases]
        pairs = list(zip(inputs, cases, strict=True))
        outputs = [ops.convolution(*values, **case.params) for values, case in pairs]
        for values, case in pairs:
            batched, _ = batch_graph(graph_of(ops.convolution, case), [True, False], 2)
            stacked = ops.broadcast_in_dim(
                values[0],
                shape=(2, *values[0].shape),
                dimensions=tuple(range(1, 1 + len(values[0].shape))),
            )
            outputs += builder.inline(batched, [stacked, values[1]])
        graph = builder.finish(outputs)
    buffers = [lowering.to_device(x) for case in cases for x in case.operands]
    found = [lowering.to_host(x) for x in lowering.compile_graph(graph)(*buffers)]
    for i, case in enumerate(cases):
        wanted = ops.convolution.evaluate(*case.operands, **case.params)
        assert_close(found[i], wanted, str(case.params))
        assert_close(found[len(cases) + i], np.stack([wanted] * 2), str(case.params))


def test_layouts_are_transposes(rng: np.random.Generator) -> None:
    lhs, rhs = rng.normal(size=(2, 3, 6)), rng.normal(size=(4, 3, 2))
    wanted = ops.convolution.evaluate(lhs, rhs, **PLAIN)
    moved = [np.transpose(lhs, (1, 2, 0)), np.transpose(rhs, (2, 0, 1))]
    got = ops.convolution.evaluate(*moved, **changed(**MIXED))
    np.testing.assert_allclose(np.transpose(got, (1, 2, 0)), wanted)
