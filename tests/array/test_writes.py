"""What `x[i] = v` and `x += v` mean: the same eagerly, compiled, differentiated and batched."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same
from tracer.errors import ArgumentError, DonatedArrayError, TracingError

pytestmark = pytest.mark.xla


def names(x):
    """Write under a second name of the same array, and into what is another array."""
    a = x * 1.0
    b, part, again = a, a[1:], tnp.asarray(a)
    b[0] = 5
    part[0] = 7
    again[2] = 9
    return a, b, part


def sums(x):
    a = x * 1.0
    b = a
    a += 1
    return a, b


def write(x, v):
    """Write into an argument, and return something else."""
    x[0] = v
    x[1:] *= 2
    return (x**2).sum()


def returned(x, v):
    x[0] = v
    return x


def inner(x, v):
    """Write through a callee, into an argument and into what is local."""
    local = x * 3
    write(local, v)
    write(x, v + 1)
    return (local * x).sum()


WAYS = {
    "eager": lambda f: f,
    "compiled": tracer.compile,
    "compiled in a function": lambda f: lambda x, v: tracer.compile(f)(x, v),
    "compiled, its caller too": lambda f: tracer.compile(lambda x, v: tracer.compile(f)(x, v) + 0),
    "checkpoint": tracer.checkpoint,
    "compiled checkpoint": lambda f: tracer.compile(tracer.checkpoint(f)),
    "value_and_grad": lambda f: lambda x, v: tracer.value_and_grad(f, (0, 1))(x, v)[0],
    "compiled value_and_grad": lambda f: (
        lambda x, v: tracer.compile(tracer.value_and_grad(f, (0, 1)))(x, v)[0]
    ),
    "vjp": lambda f: lambda x, v: tracer.vjp(f, x, v)[0],
    "jvp": lambda f: lambda x, v: tracer.jvp(f, (x, v), (tnp.ones_like(x), 1.0))[0],
    "vmap": lambda f: lambda x, v: vmapped(f, x, v),
    "limited": lambda f: tracer.compile(f, memory_limit="1MB"),
}


def vmapped(f, x, v):
    rows = x[:, None]
    result = tracer.vmap(f, in_axes=(1, None))(rows, v)
    x[:] = rows[:, 0]
    return result[0]


def one_row(f):
    return lambda x: [y[0] for y in tracer.vmap(f)(x[None])]


def differentiated(f):
    return lambda x: tracer.value_and_grad(lambda x: (x[0], f(x)), has_aux=True)(x)[0][1]


@pytest.mark.parametrize("way", [lambda f: f, tracer.compile, one_row, differentiated])
def test_names_of_an_array_are_names_of_it(way):
    x = np.arange(4.0)
    a, b, part = way(names)(tnp.asarray(x))
    assert_same(a, np.array([5.0, 1, 9, 3]))
    assert_same(b, a)
    assert_same(part, np.array([7.0, 2, 3]))
    a, b = way(sums)(tnp.asarray(x))
    assert_same(a, x + 1)
    assert_same(b, x)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", [write, inner])
def test_the_caller_sees_what_a_callee_writes(way, function):
    theirs = np.arange(1.0, 5.0)
    expected = function(theirs, 5.0)
    x = tnp.array(np.arange(1.0, 5.0))
    other, view = x, np.asarray(x)
    result = WAYS[way](function)(x, 5.0)
    assert_same(result, np.float64(expected), way)
    assert_same(x, theirs, way)
    assert other is x
    assert_same(view, np.arange(1.0, 5.0), way)


@pytest.mark.parametrize("way", ["eager", "compiled", "compiled in a function", "checkpoint"])
def test_an_argument_that_is_returned_too(way):
    x = tnp.zeros(3)
    y = WAYS[way](returned)(x, 5.0)
    assert x.tolist() == y.tolist() == [5, 0, 0]


def test_the_gradient_of_a_function_that_writes():
    x = tnp.array([1.0, 2.0, 3.0])
    for transform in (lambda g: g, tracer.compile):
        given = x.copy()
        of_x, of_v = transform(tracer.grad(write, (0, 1)))(given, 5.0)
        assert of_x.tolist() == [0, 16, 24]
        assert float(of_v) == 10
        assert given.tolist() == [5, 4, 6]
    given = x.copy()
    value, pull = tracer.vjp(write, given, 5.0)
    given[:] = 100
    assert [float(value), pull(1.0)[0].tolist()] == [77, [0, 16, 24]]
    assert tracer.jacrev(returned)(x.copy(), 5.0).tolist() == np.diag([0.0, 1, 1]).tolist()
    assert tracer.hessian(write)(x.copy(), 5.0).tolist() == np.diag([0.0, 8, 8]).tolist()


def test_a_second_call_begins_with_what_the_first_one_wrote():
    x, compiled = tnp.ones(3), tracer.compile(write)
    assert [float(compiled(x, 0.0)) for _ in range(3)] == [8, 32, 128]
    assert x.tolist() == [0, 8, 8]


def test_a_written_argument_that_is_returned_is_computed_once():
    x = tnp.zeros(2000)
    program = tracer.compile(returned)
    assert program.plan(x, 5.0).output_bytes == x.nbytes
    assert "what is written into argument 0" not in str(program.plan(x, 5.0))


def test_bodies_of_loops_and_branches_have_arrays_of_their_own():
    def looped(x):
        def body(i, x):
            x[i] = 7.0
            return x

        y = tracer.fori_loop(0, 2, body, x)
        z = tracer.cond(x[0] > 0, lambda x: returned(x, 9.0), lambda x: x, x)
        return y, z, x

    for way in (looped, tracer.compile(looped)):
        x = tnp.ones(3)
        y, z, same = way(x)
        assert y.tolist() == [7, 7, 1]
        assert z.tolist() == [9, 1, 1]
        assert same.tolist() == x.tolist() == [1, 1, 1]


def test_arrays_of_numpy_are_read_only_to_compiled_functions():
    x = np.ones(3)
    for way in (tracer.compile(write), tracer.grad(write), tracer.value_and_grad(write)):
        way(x, 5.0)
        assert x.tolist() == [1, 1, 1]


def test_containers_hold_the_arrays_that_are_written():
    def step(state, *, rate):
        state["w"][0][1] = rate
        return state["b"].sum()

    for way in (step, tracer.compile(step), tracer.value_and_grad(step, allow_int=True)):
        state = {"w": [tnp.zeros(3)], "b": tnp.ones(2)}
        way(state, rate=4.0)
        assert state["w"][0].tolist() == [0, 4, 0]
        assert state["b"].tolist() == [1, 1]


def test_what_cannot_follow_is_refused():
    x = tnp.ones(3)

    def both(x, y):
        x[0] = 2
        return (x + y).sum()

    for way in (tracer.compile, tracer.grad):
        with pytest.raises(ArgumentError, match="given as two arguments"):
            way(both)(x, x) if way is tracer.compile else tracer.grad(both, (0, 1))(x, x)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(TracingError, match="made outside of the traced function"):
        tracer.compile(lambda v: tracer.grad(write)(x, v))(1.0)
    ruled = tracer.custom_vjp(write)
    ruled.defvjp(lambda x, v: (write(x, v), None), lambda _, g: (g, g))
    with pytest.raises(TracingError, match="writes into its argument 0"):
        tracer.compile(ruled)(x, 1.0)
    with pytest.raises(TracingError, match="writes into its argument 0"):
        tracer.bucket(write, axes=(0, None), sizes=(8,))(x, 1.0)


def test_elements_of_a_batch_write_into_their_rows_and_into_copies_of_what_they_share():
    def clear(x, y):
        x[1:] = y
        y[0] = 7
        return x[0]

    for way in (lambda f: f, tracer.compile):
        x, y = tnp.ones((3, 2)), tnp.zeros(2)
        assert way(tracer.vmap(clear, in_axes=(1, None)))(x, y).tolist() == [1, 1]
        assert x.tolist() == [[1, 1], [0, 0], [0, 0]]
        assert y.tolist() == [0, 0]


def test_a_donated_argument_is_given_away():
    x = tnp.zeros(3000)
    y = tracer.compile(returned, donate_argnums=0)(x, 5.0)
    assert float(y[0]) == 5
    with pytest.raises(DonatedArrayError):
        x + 1


def test_donating_a_result_does_not_show_in_what_was_written():
    x = tnp.zeros(3000)
    y = tracer.compile(returned)(x, 5.0)
    with pytest.warns(tracer.DonationWarning):
        tracer.compile(lambda y: y.sum(), donate_argnums=0)(y)
    with pytest.raises(DonatedArrayError):
        np.asarray(x)


@pytest.mark.parametrize("size", [3, 5000], ids=["constant", "input"])
def test_what_is_closed_over_is_read_at_each_call(size):
    weights, x = tnp.ones(size), tnp.ones(size)

    def scaled(x):
        return x * weights

    functions = [
        tracer.compile(scaled),
        tracer.compile(lambda x: tracer.compile(scaled)(x)),
        tracer.compile(tracer.grad(lambda x: scaled(x).sum())),
        tracer.compile(lambda x: tracer.vmap(scaled)(x[None])),
    ]
    for value in (1.0, 5.0, -2.0):
        weights[0] = value
        for function in functions:
            assert np.ravel(np.asarray(function(x)))[0] == value
    assert functions[0].check(x)


def test_an_input_that_is_written_to_compiles_nothing_anew():
    weights, traces = tnp.ones(5000), []

    @tracer.compile
    def scaled(x):
        traces.append(1)
        return x * weights

    for step in range(4):
        weights[:] = float(step)
        assert float(scaled(tnp.ones(5000)).sum()) == 5000.0 * step
    assert len(traces) == 1


def test_a_number_that_python_read_is_read_again():
    rate = tnp.array(3.0)
    function = tracer.compile(lambda x: 2 * x if float(rate) > 2 else x)
    assert float(function(tnp.array(1.0))) == 2.0
    rate[()] = 1.0
    assert float(function(tnp.array(1.0))) == 1.0


def test_a_bucket_reads_what_is_closed_over_at_each_call():
    weights = tnp.ones(50)
    total = tracer.bucket(lambda x: x.sum() + weights.sum())
    assert float(total(tnp.ones(5))) == 55
    weights[0] = 10.0
    assert float(total(tnp.ones(5))) == 64
