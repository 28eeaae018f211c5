"""f.check: right programs are right, planted wrong ones are found, and what did it is named."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering, ops
from tracer.array.trace import trace
from tracer.compilation.comparison import Evidence, distance
from tracer.compilation.precision import FEWER_DIGITS, MORE_DIGITS, in_dtype, in_precision
from tracer.errors import ArgumentError, OutOfMemoryError, TracingError
from tracer.ir import Builder, interpret, rebuild
from tracer.lowering import settings
from tracer.lowering.run import compiler
from tracer.optimizer import pipeline
from tracer.optimizer.loops.split import as_pass
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.rewrite import rules
from tracer.optimizer.rewrite.expand import expand_calls
from tracer.optimizer.trail import kept_trail, leave_step, steps_to

EACH_DTYPE = "float32 float64 complex64 float16 bfloat16".split()


def predict(x, v):
    return tnp.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1)) @ v


def points(rng, dtype="float32"):
    return rng.standard_normal((200, 3)).astype(dtype), rng.standard_normal((200, 4)).astype(dtype)


def doubled(graph, log):
    """Return a graph whose results are doubled: a wrong pass."""
    with Builder() as builder:
        inputs = [builder.input(type) for type in graph.input_types]
        results = builder.inline(graph, inputs)
        log.applied.append("planted")
        return builder.finish([ops.add(result, result) for result in results])


def less_first_sum(graph, log):
    """Return a graph whose first sum is a difference."""
    left = [1]

    def rewrite(builder, node, operands):
        if node.op is ops.add and left:
            log.applied.append(f"the {node.name} is a difference now")
            left.clear()
            return [ops.subtract(*operands)]
        return None

    return rebuild(graph, rewrite)


@pytest.fixture
def cleared():
    """Forget programs that were compiled with something planted."""
    lowering.clear_cache()
    yield
    lowering.clear_cache()


@pytest.mark.xla
def test_right_programs_are_within_rounding(rng):
    for dtype, limit in [("float32", None), ("float32", "100kB"), ("float64", "150kB")]:
        found = tracer.compile(predict, memory_limit=limit).check(*points(rng, dtype))
        assert found
        (output,) = found.outputs
        assert (output.path, str(output.type)) == ("result", f"{dtype}[200,4]")
        assert output.error <= output.rounding < 1e-3
        assert found.cause is None
    gradient = tracer.compile(
        tracer.grad(lambda x, v: (predict(x, v) ** 2).sum()), memory_limit="200kB"
    )
    assert gradient.check(*points(rng))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", EACH_DTYPE)
def test_outputs_of_every_kind_in_every_dtype(rng, dtype):
    def function(x, rate):
        steps = tracer.scan(lambda c, a: (c * 0.5 + a, c.sum()), x[0], x)
        return {"a": x * rate, "n": (rate, x.real > 0, (x.real * 4).astype("int32")), "s": steps}

    x = tnp.asarray(rng.standard_normal((20, 3))).astype(dtype)
    found = tracer.compile(function).check(x, 0.5)
    assert found, str(found)
    paths = [output.path for output in found.outputs]
    assert paths == [
        f"result{p}" for p in ("['a']", "['n'][0]", "['n'][1]", "['n'][2]", "['s'][0]", "['s'][1]")
    ]


@pytest.mark.xla
def test_the_table_says_what_and_where(rng):
    x, v = points(rng)
    text = str(tracer.compile(predict).check(x, v))
    lines = text.splitlines()
    assert lines[0].startswith(
        "predict, as planned beside as written; errors against the program in"
    )
    assert lines[1].split()[:3] == ["output", "type", "difference"]
    assert lines[2].split()[:2] == ["result", "float32[200,4]"]
    assert lines[3] == "all outputs are within rounding"


@pytest.mark.xla
def test_nothing_is_donated_or_changed(rng):
    state, x = tnp.asarray(rng.standard_normal(100)), rng.standard_normal(100)
    before = np.asarray(state).copy(), x.copy()
    f = tracer.compile(lambda s, x: (s + x, s * x), donate_argnums=(0, 1))
    assert f.check(state, x)
    assert not state.is_deleted()
    np.testing.assert_array_equal(np.asarray(state), before[0])
    np.testing.assert_array_equal(x, before[1])
    bound = tnp.arange(100.0)
    closed = tracer.compile(lambda s: s * bound, donate_argnums=0)
    assert closed.check(state)
    assert float(closed(state)[1]) == before[0][1]


@pytest.mark.xla
@pytest.mark.parametrize("donate", [(), 0])
def test_what_a_function_writes_into_its_arguments_is_compared_and_not_kept(rng, donate):
    def function(x, y):
        x[0] = y.sum()
        y[1:] = 2 * x[1:]
        return x * y

    f = tracer.compile(function, donate_argnums=donate)
    x, y = (tnp.asarray(rng.standard_normal(5)) for _ in range(2))
    before = np.asarray(x).copy(), np.asarray(y).copy()
    found = f.check(x, y)
    assert found, str(found)
    paths = [output.path for output in found.outputs]
    written = ["what is written into argument 0", "what is written into argument 1"]
    assert paths == ["result", *written[0 if donate == () else 1 :]]
    np.testing.assert_array_equal(np.asarray(x), before[0])
    np.testing.assert_array_equal(np.asarray(y), before[1])


@pytest.mark.xla
@pytest.mark.parametrize("limit", [None, "100kB"])
def test_a_wrong_pass_is_named(rng, monkeypatch, cleared, limit):
    wrong = Pass("sink transposes", less_first_sum)
    monkeypatch.setattr(pipeline, "TRANSPOSES", wrong)
    found = tracer.compile(lambda x, v: predict(x, v) + v, memory_limit=limit).check(*points(rng))
    assert not found
    assert found.cause == "first after the pass 'sink transposes' (the add is a difference now)"
    assert "1 of 1 outputs above rounding: first after the pass 'sink transposes'" in str(found)
    assert found.outputs[0].difference > 0.1


@pytest.mark.xla
def test_the_first_of_two_wrong_passes_is_named(rng, monkeypatch, cleared):
    monkeypatch.setattr(pipeline, "REDUCE_THROUGH_CONCATENATE", Pass("later", doubled))
    monkeypatch.setattr(pipeline, "TRANSPOSES", Pass("earlier", doubled))
    found = tracer.compile(predict).check(*points(rng))
    assert found.cause == "first after the pass 'earlier' (planted)"


@pytest.mark.xla
def test_a_wrong_rule_is_named(rng, monkeypatch, cleared):
    monkeypatch.setattr(rules, "rules_without", lambda _: Pass("apply rules", doubled))
    found = tracer.compile(predict).check(*points(rng))
    assert found.cause == "first after the pass 'apply rules' (planted)"


@pytest.mark.xla
def test_a_wrong_split_is_named(rng, monkeypatch, cleared):
    right = as_pass.split_graph

    def split_graph(graph, settings, log, alike):
        found, loops = right(graph, settings, log, alike)
        return (doubled(found, log), loops) if loops else (found, loops)

    monkeypatch.setattr(as_pass, "split_graph", split_graph)
    x, v = points(rng)
    assert tracer.compile(predict, split="never").check(x, v)
    found = tracer.compile(predict, memory_limit="60kB").check(x, v)
    assert found.cause.startswith("first after the pass 'split'")


@pytest.mark.xla
def test_a_wrong_last_pass_is_named(rng, monkeypatch, cleared):
    wrong = replace(pipeline.EXPAND_EXPONENTIALS, run=doubled)
    monkeypatch.setattr(pipeline, "EXPAND_EXPONENTIALS", wrong)
    found = tracer.compile(predict).check(*points(rng, "float64"))
    assert found.cause.startswith("first after the pass 'expand exponentials'")


@pytest.mark.xla
def test_a_wrong_option_is_named(rng, monkeypatch, cleared):
    """What XLA makes of the program is wrong with one of our settings only."""
    right = compiler.lower_graph

    def lower_graph(graph, *args):
        if settings.is_on("fused reductions") and len(graph.outputs) == 1:
            graph = doubled(graph, PassLog())
        return right(graph, *args)

    monkeypatch.setattr(compiler, "lower_graph", lower_graph)
    found = tracer.compile(predict).check(*points(rng))
    assert found.cause == "XLA's options did it: right without the setting 'fused reductions'"


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wrong_lowering_is_told_by_the_interpreter(rng, monkeypatch, cleared, dtype):
    x, v = points(rng, dtype)
    right = compiler.lower_graph
    wrong = lambda graph, *args: right(doubled(graph, PassLog()), *args)
    monkeypatch.setattr(compiler, "lower_graph", wrong)
    found = tracer.compile(predict).check(x, v)
    assert not found
    assert "the program as written is, compiled with XLA's own options" in found.cause


@pytest.mark.xla
def test_a_program_that_loses_digits_however_it_is_computed_is_not_blamed(rng):
    def variance(x):
        return (x**2).sum(0) - x.sum(0) ** 2 / x.shape[0]

    x = (rng.standard_normal((3000, 5)) + 3e3).astype("float32")
    for limit in (None, "90kB"):
        found = tracer.compile(variance, memory_limit=limit).check(x)
        assert found, str(found)
        assert found.outputs[0].error_as_written > 1.0
    assert tracer.compile(lambda x: tnp.sin(x * 1e6).sum(0)).check(x)


@pytest.mark.xla
def test_what_does_not_fit_is_said(rng, monkeypatch):
    f = tracer.compile(predict, memory_limit="100kB")
    x, v = points(rng)
    f(x, v)
    monkeypatch.setattr(lowering, "free_bytes", lambda device=None: 150_000)
    with pytest.raises(
        OutOfMemoryError, match=r"predict as written takes .* kB, and 150 kB are free"
    ) as e:
        f.check(x, v)
    assert "smaller arguments" in e.value.mend


def test_types_and_traced_arrays_are_refused():
    f = tracer.compile(lambda x: x + 1)
    with pytest.raises(TracingError, match="inside of a traced function"):
        trace(lambda x: f.check(x), [tracer.ShapeDtype((3,), "float32")])


@pytest.mark.xla
def test_types_have_nothing_to_compare():
    with pytest.raises(ArgumentError, match="it has no data"):
        tracer.compile(lambda x: x + 1).check(tracer.ShapeDtype((3,), "float32"))


def test_evidence_tells_wrong_from_rounded():
    right = np.linspace(1, 2, 5).astype("float32")
    evidence = Evidence([right], [[right]], [right.astype("float64")])
    assert evidence.is_within([np.nextafter(right, np.float32(9))])
    assert not evidence.is_within([right * np.float32(1 + 1e-4)])
    for bad in (np.nan, np.inf, -np.inf):
        assert not evidence.is_within([np.where(right > 1.9, np.float32(bad), right)])
    row = evidence.checked("result", 0, np.where(right == 2, np.float32(np.nan), right))
    assert (row.difference, row.place, row.within_rounding) == (np.inf, (4,), False)
    # Infinite as written, too: more digits have more range.
    large = np.array([np.inf, 1], "float32")
    wide = Evidence([large], [[large]], [np.array([1e39, 1])])
    assert wide.is_within([large])
    assert not wide.is_within([np.array([1, 1], "float32")])


def test_integers_may_only_differ_where_rounding_moves_them():
    chosen = np.array([0, 1, 2, 3])
    assert not Evidence([chosen], [[chosen]]).is_within([np.array([0, 1, 2, 0])])
    moved = Evidence([chosen], [[np.array([1, 1, 2, 3])]])
    assert moved.is_within([np.array([0, 1, 2, 0])])
    assert distance(chosen, np.array([1, 1, 2, 3])) == 0.25


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tracer.scan(lambda c, a: (c * 0.5 + a, c), tnp.zeros(3, "float32"), x),
        lambda x: tracer.random.uniform(tracer.random.key(3), (5,), "float32") + x[0, 0],
        lambda x: tracer.cond(x.sum() > 0, lambda: tnp.sin(x), lambda: tnp.floor(x) * x),
        lambda x: tnp.sort(x.astype("complex64"), 0) * 2.5,
        lambda x: (tnp.copysign(x, x[0]), tnp.argmax(x, 0), tnp.signbit(x)),
    ],
)
def test_a_program_in_more_digits_computes_the_same(rng, function):
    x = rng.standard_normal((4, 3)).astype("float32")
    graph = trace(function, [x]).graph
    graph = expand_calls(graph, PassLog())
    wide = in_precision(graph, MORE_DIGITS)
    assert all(type.dtype not in MORE_DIGITS for type in (*wide.input_types, *wide.output_types))
    expected, found = interpret(graph, [x]), interpret(wide, [in_dtype(x, MORE_DIGITS)])
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-6, atol=1e-6)


def test_fewer_digits_are_the_floats_only(rng):
    graph = trace(lambda x: (x * 0.1, tnp.arange(3)), [np.zeros(3)]).graph
    assert [str(type) for type in in_precision(graph, FEWER_DIGITS).output_types] == [
        "float32[3]",
        "int64[3]",
    ]
    assert in_dtype(np.array([1e300]), FEWER_DIGITS)[0] == np.inf
    assert in_dtype(np.ones(1, ml_dtypes.bfloat16), MORE_DIGITS).dtype == "float64"


def test_the_trail_of_a_graph_is_the_steps_that_made_it():
    graphs = [trace(lambda x, n=n: x + n, [np.zeros(3)]).graph for n in range(5)]
    with kept_trail() as steps:
        leave_step("a", graphs[0], graphs[1], ["done"])
        leave_step("side", graphs[1], graphs[4], ())
        leave_step("b", graphs[1], graphs[2], ())
        leave_step("back", graphs[2], graphs[1], ())
        leave_step("c", graphs[2], graphs[3], ())
    leave_step("not kept", graphs[3], graphs[4], ())
    assert [step.name for step in steps_to(graphs[3], steps)] == ["a", "b", "c"]
    assert [step.name for step in steps_to(graphs[4], steps)] == ["a", "side"]
    assert steps_to(graphs[0], steps) == []
