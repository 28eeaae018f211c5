"""Every op of the registry against its samples: all rules of a record tell the same story."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.samples import SAMPLES, Sample
from tracer import lowering, ops
from tracer.autodiff import vjp_graph
from tracer.errors import DTypeError, NotDifferentiableError
from tracer.ir import (
    SUPPORTED_DTYPES,
    AxisRule,
    Builder,
    Chunk,
    Graph,
    Label,
    NotDifferentiable,
    Op,
    ShapeDtype,
    Value,
    interpret,
    registry,
)
from tracer.ops.helpers import slice_axis
from tracer.ops.rules import dtype_kind, is_inexact

Array = np.ndarray[Any, Any]
OPS = sorted(registry())
REAL_DTYPES = [dtype for dtype in SUPPORTED_DTYPES if dtype.kind != "c"]
CASES = [
    pytest.param(name, sample, id=f"{name}-{i}")
    for name in OPS
    for i, sample in enumerate(SAMPLES.get(name, []))
]


def types_of(arrays: Sequence[Array]) -> tuple[ShapeDtype, ...]:
    return tuple(ShapeDtype(x.shape, x.dtype) for x in arrays)


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def result_types(op: Op, sample: Sample) -> tuple[ShapeDtype, ...]:
    return as_tuple(op.infer(*types_of(sample.operands), **sample.params))


def graph_of(op: Op, sample: Sample) -> Graph:
    with Builder() as builder:
        inputs = [builder.input(type) for type in types_of(sample.operands)]
        return builder.finish(as_tuple(op(*inputs, **sample.params)))


def test_every_op_has_samples_and_every_sample_an_op() -> None:
    assert set(SAMPLES) == set(registry())
    assert all(SAMPLES.values())


@pytest.mark.parametrize("name", OPS)
def test_every_op_is_documented(name: str) -> None:
    assert registry()[name].doc.endswith(".")


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_evaluation_has_the_inferred_types(name: str, sample: Sample) -> None:
    op = registry()[name]
    results = as_tuple(op.evaluate(*sample.operands, **sample.params))
    assert types_of([np.asarray(x) for x in results]) == result_types(op, sample)


# Lowered = evaluated, in every dtype that the op takes.


def recast(x: Array, dtype: np.dtype[Any]) -> Array:
    kind = dtype_kind(dtype)
    with np.errstate(all="ignore"):
        if kind == "c":
            return (x.real * (1 + 0.25j)).astype(dtype)
        if kind in "biu":
            finite = np.nan_to_num(x.real, nan=3, posinf=5, neginf=-5)
            integers = np.round(finite * 3).astype(np.int64)
            return (np.abs(integers) if kind == "u" else integers).astype(dtype)
        return x.real.astype(np.float32).astype(dtype)


def variants(op: Op, sample: Sample) -> list[Sample]:
    """Return the sample with its float64 operands in every dtype that the op accepts."""
    found = [sample]
    if sample.params.keys() & {"body", "branches", "value"}:
        return found
    # What complex arithmetic gives at infinities is nowhere specified.
    is_finite = all(np.isfinite(x).all() for x in sample.operands)
    for dtype in SUPPORTED_DTYPES if is_finite else REAL_DTYPES:
        operands = tuple(recast(x, dtype) if x.dtype == np.float64 else x for x in sample.operands)
        if dtype == np.float64 or not any(x.dtype == np.float64 for x in sample.operands):
            continue
        try:
            op.infer(*types_of(operands), **sample.params)
        except DTypeError:
            continue
        found.append(Sample(operands, sample.params, sample.smooth))
    return found


def tolerance(dtype: np.dtype[Any]) -> float:
    if not is_inexact(dtype):
        return 0.0
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    return 4 * epsilon if epsilon > 1e-4 else 100 * epsilon


def assert_close(got: Array, wanted: Array, told: str) -> None:
    assert got.dtype == wanted.dtype, told
    limit = tolerance(wanted.dtype)
    if dtype_kind(wanted.dtype) == "f":
        got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(got, wanted, rtol=limit, atol=limit, err_msg=told)


@pytest.mark.xla
@pytest.mark.parametrize("name", OPS)
def test_lowered_computes_what_is_evaluated(name: str) -> None:
    op = registry()[name]
    first, rest = SAMPLES[name][:2], SAMPLES[name][2:]
    cases = [variant for sample in first for variant in variants(op, sample)] + rest
    with Builder() as builder:
        inputs = [[builder.input(t) for t in types_of(case.operands)] for case in cases]
        outputs = [
            as_tuple(op(*values, **case.params)) for values, case in zip(inputs, cases, strict=True)
        ]
        graph = builder.finish([value for results in outputs for value in results])
    device = lowering.default_device()
    buffers = [lowering.to_device(x, device) for case in cases for x in case.operands]
    found = iter(lowering.compile_graph(graph)(*buffers))
    for case in cases:
        for wanted in as_tuple(op.evaluate(*case.operands, **case.params)):
            told = f"{name}{[*map(str, types_of(case.operands))]} {case.params}"
            assert_close(lowering.to_host(next(found)), np.asarray(wanted), told)


# Gradients = finite differences, to second order.


def is_zero(op: Op) -> bool:
    return isinstance(op.vjp, NotDifferentiable) and op.vjp.zero


def has_gradient(op: Op) -> bool:
    return op.linearize is not None or not isinstance(op.vjp, NotDifferentiable)


def positions(types: Sequence[ShapeDtype]) -> list[int]:
    return [i for i, type in enumerate(types) if is_inexact(type.dtype)]


def selected(wanted: Any) -> list[Any]:
    return [
        pytest.param(name, sample, id=f"{name}-{i}")
        for name in OPS
        for i, sample in enumerate(SAMPLES.get(name, []))
        if wanted(registry()[name])
        and sample.smooth
        and positions(types_of(sample.operands))
        and positions(result_types(registry()[name], sample))
    ]


def noise(type: ShapeDtype, rng: np.random.Generator) -> Array:
    x = rng.uniform(-1, 1, type.shape)
    return (x + 1j * rng.uniform(-1, 1, type.shape) if type.dtype.kind == "c" else x).astype(
        type.dtype
    )


def check_gradient(
    graph: Graph,
    wrt: list[int],
    arrays: list[Array],
    order: int,
    rng: np.random.Generator,
    along: Callable[[int, Array], Array] = lambda _, x: x,
) -> None:
    """Compare with central differences along a random direction, for random cotangents."""
    outputs = positions(graph.output_types)
    cotangents = [noise(graph.output_types[i], rng) for i in outputs]

    def weighted_sum(inputs: list[Array]) -> float:
        results = interpret(graph, inputs)
        pairs = zip(cotangents, outputs, strict=True)
        return float(sum(np.sum((ct * results[i]).real) for ct, i in pairs))

    directions = [along(i, noise(graph.input_types[i], rng)) for i in wrt]
    ends = []
    for step in (1e-6, -1e-6):
        moved = list(arrays)
        for i, direction in zip(wrt, directions, strict=True):
            moved[i] = arrays[i] + step * direction
        ends.append(weighted_sum(moved))
    backward = vjp_graph(graph, wrt)
    gradients = interpret(backward, [*arrays, *cotangents])
    pairs = zip(gradients, directions, strict=True)
    got = float(sum(np.sum((gradient * v).real) for gradient, v in pairs))
    assert np.isfinite(got)
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-6, rtol=2e-6, atol=2e-6)
    if order > 1:
        seeds = range(len(arrays), len(arrays) + len(cotangents))
        check_gradient(backward, [*wrt, *seeds], [*arrays, *cotangents], order - 1, rng, along)


@pytest.mark.parametrize(("name", "sample"), selected(has_gradient))
def test_gradient_is_the_finite_difference(
    name: str, sample: Sample, rng: np.random.Generator
) -> None:
    wrt = positions(types_of(sample.operands))
    graph = graph_of(registry()[name], sample)
    check_gradient(graph, wrt, list(sample.operands), 2, rng, sample.direction)


@pytest.mark.parametrize(("name", "sample"), selected(is_zero))
def test_zero_gradients_are_zero(name: str, sample: Sample, rng: np.random.Generator) -> None:
    wrt = positions(types_of(sample.operands))
    check_gradient(graph_of(registry()[name], sample), wrt, list(sample.operands), 1, rng)


@pytest.mark.parametrize(
    ("name", "sample"), selected(lambda op: not is_zero(op) and not has_gradient(op))
)
def test_what_has_no_gradient_says_so(name: str, sample: Sample) -> None:
    graph = graph_of(registry()[name], sample)
    with pytest.raises(NotDifferentiableError, match=r"mend:") as caught:
        vjp_graph(graph, positions(graph.input_types))
    assert registry()[name].vjp.reason in str(caught.value)


# Split and join = whole.


def sizes_by_label(rule: AxisRule, types: Sequence[ShapeDtype]) -> dict[Label, set[int]]:
    sizes: dict[Label, set[int]] = {}
    for labels, type in zip((*rule.operands, *rule.results), types, strict=True):
        for label, size in zip(labels, type.shape, strict=True):
            sizes.setdefault(label, set()).add(size)
    return sizes


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_axis_rule_fits_the_types(name: str, sample: Sample) -> None:
    op, operands = registry()[name], types_of(sample.operands)
    results = result_types(op, sample)
    rule = op.axes(operands, results, **sample.params)
    sizes = sizes_by_label(rule, (*operands, *results))
    assert all(len(found) == 1 for label, found in sizes.items() if label not in rule.steps)
    assert all(size % steps == 0 for label, steps in rule.steps.items() for size in sizes[label])
    assert not rule.whole & rule.steps.keys()
    assert rule.whole <= sizes.keys()
    outside = {label for labels in rule.results for label in labels}
    assert not outside & rule.reduced.keys()
    assert not rule.whole & rule.reduced.keys()
    assert all(combiner in registry() for combiner in rule.reduced.values())
    inside = {label for labels in rule.operands for label in labels}
    assert inside - outside == (inside - outside) & (rule.whole | rule.reduced.keys())


def emit_slice(op: Op, sample: Sample, rule: AxisRule, label: Label, start: int, stop: int) -> Any:
    """Cut the operands along the label and evaluate what the op's slice rule emits for them."""
    operands = []
    for x, labels in zip(sample.operands, rule.operands, strict=True):
        x = np.asarray(x)
        blocks = [size // rule.steps[label] if label in rule.steps else 1 for size in x.shape]
        cut = tuple(
            slice(start * block, stop * block) if mine == label else slice(None)
            for mine, block in zip(labels, blocks, strict=True)
        )
        operands.append(x[cut])
    with Builder() as builder:
        values: list[Value] = [builder.input(type) for type in types_of(operands)]
        place = builder.input(ShapeDtype((), np.int32))
        chunk = Chunk(
            op,
            label,
            place,
            stop - start,
            types_of(sample.operands),
            result_types(op, sample),
            rule,
        )
        graph = builder.finish(as_tuple(op.slice(tuple(values), chunk, **sample.params)))
    return interpret(graph, [*operands, np.int32(start)])


def cuts(size: int) -> list[tuple[int, int]]:
    middle = size // 2
    return [(0, middle), (middle, size)] if middle else [(0, size)]


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_slices_join_to_the_whole(name: str, sample: Sample) -> None:
    op, operands = registry()[name], types_of(sample.operands)
    results = result_types(op, sample)
    rule = op.axes(operands, results, **sample.params)
    wanted = as_tuple(op.evaluate(*sample.operands, **sample.params))
    for label, sizes in sizes_by_label(rule, (*operands, *results)).items():
        if label in rule.whole or sizes == {0}:
            continue
        combiner = rule.reduced.get(label)
        if combiner is not None and registry()[combiner].merge is not None:
            continue  # test_merged_slices_give_the_whole
        parts = [
            emit_slice(op, sample, rule, label, *cut)
            for cut in cuts(rule.steps.get(label, max(sizes)))
        ]
        for i, (pieces, whole) in enumerate(zip(zip(*parts, strict=True), wanted, strict=True)):
            if label in rule.reduced:
                joined = pieces[0]
                for piece in pieces[1:]:
                    joined = registry()[rule.reduced[label]].evaluate(joined, piece)
            else:
                joined = np.concatenate(pieces, rule.results[i].index(label))
            assert_close(joined, np.asarray(whole), f"{name} along {label}")


MERGED = [case for case in CASES if registry()[case.values[0]].merge is not None]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("name", "sample"), MERGED)
def test_merged_slices_give_the_whole(name: str, sample: Sample, size: int) -> None:
    """Fold slices of `size` elements, the last one shorter, into the state of the op's merge."""
    op, operands = registry()[name], types_of(sample.operands)
    results = result_types(op, sample)
    rule = op.axes(operands, results, **sample.params)
    wanted = as_tuple(op.evaluate(*sample.operands, **sample.params))
    for label, sizes in sizes_by_label(rule, (*operands, *results)).items():
        if rule.reduced.get(label) == name:
            got = merged(op, sample, rule, label, max(sizes), size)
            for x, y in zip(got, wanted, strict=True):
                assert_close(x, np.asarray(y), f"{name} along {label} by {size}")


def merged(
    op: Op, sample: Sample, rule: AxisRule, label: Label, length: int, size: int
) -> list[Any]:
    assert op.merge is not None
    merge = op.merge
    operands, results = types_of(sample.operands), result_types(op, sample)
    backward = merge.order(**sample.params) == "backward"
    # Backwards the slice that is shorter comes first, not last.
    starts = range(length % size or 0, length, size) if backward else range(0, length, size)
    cuts = [(start, min(start + size, length)) for start in starts]
    if backward:
        cuts = [*cuts[::-1], *([(0, length % size)] if length % size else [])]
    with Builder() as builder:
        values = [builder.input(type) for type in operands]
        kept = tuple(x if i in merge.replaced else None for i, x in enumerate(values))
        state = merge.initial(kept, operands, results, **sample.params)
        types = [value.type for value in state]
        for start, stop in cuts:
            parts = [
                None if i in merge.replaced else cut_along(x, labels, label, start, stop)
                for i, (x, labels) in enumerate(zip(values, rule.operands, strict=True))
            ]
            place = ops.constant(value=np.array(start, np.int32))
            chunk = Chunk(op, label, place, stop - start, operands, results, rule)
            state = merge.fold(state, tuple(parts), chunk, **sample.params)
            assert [value.type for value in state] == types
        graph = builder.finish(merge.finish(state, **sample.params))
    return interpret(graph, [np.asarray(x) for x in sample.operands])


def cut_along(x: Value, labels: Sequence[Label], label: Label, start: int, stop: int) -> Value:
    return slice_axis(x, labels.index(label), start, stop) if label in labels else x


# Costs and reuse.


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_costs_are_not_negative(name: str, sample: Sample) -> None:
    op = registry()[name]
    cost = op.cost(types_of(sample.operands), result_types(op, sample), **sample.params)
    for count in (cost.flops, cost.bytes, cost.scratch):
        assert isinstance(count, int)
        assert count >= 0


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_reused_operands_have_as_many_elements_as_the_result(name: str, sample: Sample) -> None:
    op = registry()[name]
    result = result_types(op, sample)[0]
    for i in op.reuses:
        assert types_of(sample.operands)[i].size == result.size
