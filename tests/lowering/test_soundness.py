"""Barriers give a buffer a second name: nothing may be written over what is read under it."""

import re

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import ops
from tracer.ir import Builder, ShapeDtype
from tracer.lowering.emit import module
from tracer.lowering.run import soundness
from tracer.ops.rules import as_tuple

pytestmark = pytest.mark.xla

N = 24
PRODUCT = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (1,), "rhs_contracting": (0,)}


def _matrices(count, dtype="float64"):
    random = np.random.default_rng(0)
    made = random.standard_normal((count, N, N))
    if np.dtype(dtype).kind == "c":
        made = made + 1j * random.standard_normal((count, N, N))
    return [x.astype(dtype) for x in made]


def symmetrised(a, b, c):
    p = (a + c) @ b
    return (0.5 * (p + p.T)) @ c


def times_its_transpose(a, b, c):
    p = (a + c) @ b
    return (p * p.T) @ c


def gram(a, b, c):
    p = (a + c).T @ (a + c)
    return (p + p.T) @ c


def two_products(a, b, c):
    x, y = a @ b, b @ c
    return c @ (np.exp((x - x.T) / N) + np.exp((y - y.T) / N))


def through_a_reshape(a, b, c):
    p = ((a + c) @ b).reshape(1, N, N)
    return (0.5 * (p + p.transpose(0, 2, 1))).reshape(N, N) @ c


PROGRAMS = [symmetrised, times_its_transpose, gram, two_products, through_a_reshape]


@pytest.fixture
def one_name_is_off(monkeypatch):
    """Compile as before names were given: XLA makes wrong programs of some of them."""
    monkeypatch.setattr(module, "give_one_name", lambda barriers: None)
    tracer.lowering.clear_cache()
    yield
    tracer.lowering.clear_cache()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_products_with_their_transposes_are_right(function, dtype):
    before = soundness.recompiled
    a, b, c = _matrices(3, dtype)
    found = np.asarray(tracer.compile(function)(a, b, c))
    expected = function(*(x.astype(np.result_type(x, "float64")) for x in (a, b, c)))
    bound = 1e-4 if dtype == "float32" else 1e-12
    assert abs(found - expected).max() <= bound * abs(expected).max()
    assert soundness.recompiled == before, "right by construction, not by compiling again"


def test_gradient_of_a_polar_factor_is_right():
    a, c = _matrices(2, "complex128")

    def f(a):
        u, _, vh = tnp.linalg.svd(a)
        return tnp.sum(tnp.real(u @ vh * c))

    found = np.asarray(tracer.compile(tracer.grad(f))(a))
    value = tracer.compile(f)
    for at in ((0, 0), (3, 7)):
        for step in (1e-5, 1e-5j):
            moved = [a.copy(), a.copy()]
            moved[0][at] += step
            moved[1][at] -= step
            difference = (float(value(moved[0])) - float(value(moved[1]))) / 2e-5
            part = found[at].real if step.real else -found[at].imag
            np.testing.assert_allclose(part, difference, rtol=1e-5)


def with_a_barrier():
    """A program with a barrier of its own: what `symmetrised` is where products go to YNNPACK."""
    with Builder() as builder:
        a, b, c = (builder.input(ShapeDtype((N, N), "float64")) for _ in "abc")
        p = ops.dot_general(ops.add(a, c), b, **PRODUCT)
        (held,) = as_tuple(ops.optimization_barrier(p))
        turned = ops.transpose(held, permutation=(1, 0))
        graph = builder.finish([ops.dot_general(ops.add(p, turned), c, **PRODUCT)])
    return graph, 2 * symmetrised(*_matrices(3))


def run(graph):
    executable = tracer.lowering.compile_graph(graph)
    device = executable.device
    buffers = [tracer.lowering.to_device(x, device) for x in _matrices(3)]
    return executable, tracer.lowering.to_host(executable(*buffers)[0])


def test_a_program_that_reads_what_it_wrote_over_is_seen(one_name_is_off, monkeypatch):
    monkeypatch.setattr(soundness, "recompiled", 0)
    graph, expected = with_a_barrier()
    with pytest.warns(tracer.errors.UnsoundProgramWarning, match="would have read"):
        executable, found = run(graph)
    np.testing.assert_allclose(found, expected, atol=1e-11)
    assert soundness.recompiled == 1
    assert len(executable.notes) == 1


def test_without_the_check_the_values_would_be_wrong(one_name_is_off, monkeypatch):
    """Certifies the tests around it: the fault that both mends stand in the way of is there."""
    monkeypatch.setattr(soundness, "overwritten_while_read", lambda *_: ())
    graph, expected = with_a_barrier()
    assert abs(run(graph)[1] - expected).max() > 0.1


def test_readers_of_a_value_behind_a_barrier_read_the_barrier():
    graph, expected = with_a_barrier()
    before = soundness.recompiled
    np.testing.assert_allclose(run(graph)[1], expected, atol=1e-11)
    assert soundness.recompiled == before
    lines = tracer.lowering.stablehlo(graph).splitlines()
    product = next(line.split()[0] for line in lines if "dot_general" in line)
    readers = [line for line in lines if product in line.partition("=")[2]]
    assert len(readers) == 1
    assert "optimization_barrier" in readers[0]


def test_the_plan_says_that_a_program_was_compiled_again(monkeypatch):
    answers = iter([("fusion.7",), (), (), ()])
    monkeypatch.setattr(soundness, "overwritten_while_read", lambda *_: next(answers))
    monkeypatch.setattr(soundness, "recompiled", 1)
    compiled = tracer.compile(lambda x: tnp.sin(x) * 3.25)
    plan = compiled.plan(np.ones(5))
    assert soundness.recompiled == 2
    assert len(plan.notes) == 1
    assert "fusion.7" in plan.notes[0]
    assert plan.notes[0] in str(plan)
    assert plan.to_dict()["notes"] == list(plan.notes)
    tracer.lowering.clear_cache()


def test_refused_where_xla_s_own_passes_do_not_help(one_name_is_off, monkeypatch):
    def first_of_ours(raw, stats):
        text = raw.hlo_modules()[0].to_string()
        return (re.search(r'%([\w.]+) = .*op_name="add', text)[1],)

    monkeypatch.setattr(soundness, "overwritten_while_read", first_of_ours)
    with pytest.raises(tracer.errors.LoweringError, match="has overwritten, at") as caught:
        tracer.compile(symmetrised)(*_matrices(3))
    assert "mend" in str(caught.value)
    line = symmetrised.__code__.co_firstlineno
    assert re.search(rf"test_soundness\.py:({line + 1}|{line + 2})\b", str(caught.value))
