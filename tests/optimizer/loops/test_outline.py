"""Loops over steps are cut along axes that every step leaves alone, and along no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
import tracer.random
from tests.optimizer.graphs import evaluated
from tracer import ops
from tracer.array.trace import trace
from tracer.ir import Graph, verify
from tracer.optimizer.candidates import smallest_settings, tight_settings
from tracer.optimizer.loops.split.outline import outlined, written_out
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import Context, PlannerOptions, Stage, passes_in
from tracer.optimizer.planner import Planner
from tracer.target import DEFAULT_TARGET

N, M = 48, 30
STEPS = 5


def steps(step: Any, start: Any) -> Any:
    return tracer.fori_loop(0, STEPS, step, start)


def outer(x: Any, y: Any) -> Any:
    return 1 + x[:, None] * y


def element_by_element(x: Any, y: Any) -> Any:
    return steps(lambda i, u: tnp.sin(u) + i, outer(x, y)).sum(0)


def sums_of_rows(x: Any, y: Any) -> Any:
    return steps(lambda i, u: u / (1 + (u**2).sum(1, keepdims=True)), outer(x, y)).max(0)


def sums_of_columns(x: Any, y: Any) -> Any:
    return steps(lambda i, u: u / (1 + (u**2).sum(0)), outer(x, y)).max(1)


def neighbours_along_rows(x: Any, y: Any) -> Any:
    def step(i: Any, u: Any) -> Any:
        return u + 0.1 * (tnp.roll(u, 1, 1) + tnp.roll(u, -1, 1) - 2 * u)

    return steps(step, outer(x, y)).sum(0)


def two_carries(x: Any, y: Any) -> Any:
    u, v = steps(lambda i, s: (s[1], s[0] - 0.1 * s[1]), (outer(x, y), tnp.cos(outer(x, y))))
    return (u * v).sum(1)


def products(x: Any, y: Any) -> Any:
    weights = tnp.sin(outer(y, y))
    return steps(lambda i, u: tnp.tanh(u @ weights), outer(x, y)).sum(1)


def places(x: Any, y: Any) -> Any:
    place = tnp.arange(N)[:, None]
    return steps(
        lambda i, u: tnp.where(place % 3 == i, u, u * 0.5) + tnp.arange(N)[:, None], outer(x, y)
    ).sum(1)


def loops_in_loops(x: Any, y: Any) -> Any:
    def step(i: Any, u: Any) -> Any:
        return 0.5 * tracer.fori_loop(0, 3, lambda j, v: tnp.cos(v) + i * j, u)

    return steps(step, outer(x, y)).sum(1)


def trajectories(x: Any, y: Any) -> Any:
    times = tnp.arange(float(STEPS))
    _, found = tracer.scan(lambda u, t: (u + t * tnp.sin(u), u[:, 0]), outer(x, y), times)
    return (found**2).mean(0), found.max(0)


def gradient(x: Any, y: Any) -> Any:
    return tracer.grad(lambda x: (sums_of_rows(x, y) ** 2).sum())(x)


def random_steps(x: Any, y: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        u, key = s
        key, own = tracer.random.split(key)
        return u * tnp.exp(0.1 * tracer.random.normal(own, (N, M))), key

    return steps(step, (outer(x, y), tracer.random.key(0)))[0].sum(0)


def totals(x: Any, y: Any) -> Any:
    u = outer(x, y)
    start = tnp.zeros(()), tnp.zeros(M)
    return steps(lambda i, s: (s[0] - tnp.sin(i * u).sum(), u.sum(0) + s[1]), start)


def of_weights(x: Any, y: Any, loss: Any) -> Any:
    """The gradient of weights that each step multiplies with, and of one of two parts."""
    start = tnp.sin(outer(y, y)), tnp.stack([x[:4], x[4:8]])

    def total(weights: Any, parts: Any, x: Any) -> Any:
        def step(i: Any, u: Any) -> Any:
            return tnp.tanh(u @ weights / M) + parts[0].sum() * u - parts[1].max()

        return (steps(step, outer(x, y)) ** 2).sum()

    return loss(total)(*start, x)


def gradient_of_weights(x: Any, y: Any) -> Any:
    return of_weights(x, y, lambda total: tracer.grad(total, argnums=(0, 1)))


def gradient_of_weights_and_rows(x: Any, y: Any) -> Any:
    """One result is added up, and one is written slice by slice."""
    return of_weights(x, y, lambda total: tracer.grad(total, argnums=(0, 2)))


def total_that_doubles(x: Any, y: Any) -> Any:
    u = outer(x, y)
    return steps(lambda i, s: s + s + tnp.sin(i * u).sum(), 0.0)


def total_in_few_bits(x: Any, y: Any) -> Any:
    u = (10 * outer(x, y)).astype("int32")
    return steps(lambda i, s: s + (u + i).sum(dtype="int32").astype("int8"), np.int8(0))


def total_that_turns(x: Any, y: Any) -> Any:
    u = outer(x, y)
    return steps(lambda i, s: -(s + tnp.sin(i * u).sum(0))[::-1], tnp.zeros(M))


def totals_of_each_step(x: Any, y: Any) -> Any:
    def step(u: Any, t: Any) -> Any:
        u = tnp.sin(u) + t
        return u, (u.mean(), u.sum(0))

    _, (means, sums) = tracer.scan(step, outer(x, y), tnp.arange(float(STEPS)))
    return means, sums.sum(1)


def total_that_decays(x: Any, y: Any) -> Any:
    u = outer(x, y)

    def step(i: Any, s: Any) -> Any:
        return s * 0.9 + (1 - 0.9) * tnp.sin(i * u).sum(0) / 4 * (1 + i)

    return steps(step, tnp.zeros(M))


def total_that_a_carry_scales(x: Any, y: Any) -> Any:
    u = outer(x, y)

    def step(i: Any, s: Any) -> Any:
        total, scale = s
        return total * scale - scale * tnp.sin(i * u).sum(0)[:, None], tnp.cos(scale)

    return steps(step, (tnp.zeros((M, 1)), tnp.ones(())))[0]


def random_steps_and_the_key(x: Any, y: Any) -> Any:
    """The key and the time depend on no element, and are results."""

    def step(i: Any, s: Any) -> Any:
        u, key, time = s
        key, own = tracer.random.split(key)
        u = u * tnp.exp(0.1 * time * tracer.random.normal(own, (N, 1)))
        return u, key, time + 0.1 * i

    u, key, time = steps(step, (outer(x, y), tracer.random.key(0), 0.0))
    return u.sum(0), tracer.random.key_data(key), time


def total_and_the_key(x: Any, y: Any) -> Any:
    """Both results are small; one of them depends on all elements."""

    def step(i: Any, s: Any) -> Any:
        u, key, total = s
        key, own = tracer.random.split(key)
        u = tnp.sin(u + tracer.random.normal(own))
        return u, key, total + u.sum()

    _, key, total = steps(step, (outer(x, y), tracer.random.key(0), 0.0))
    return total, tracer.random.key_data(key)


def likelihood(x: Any, y: Any) -> Any:
    """Of many series of random numbers, with its gradient: a filter's, of which steps are sums."""

    def total(w: Any, series: Any) -> Any:
        def step(s: Any, time: Any) -> Any:
            mean, spread = s
            value = tnp.sin(time * series)
            spread = spread + w[0] ** 2
            gain = spread / (spread + w[1] ** 2)
            away = value - mean
            log = -tnp.log(spread + w[1] ** 2) - away**2 / (spread + w[1] ** 2)
            return (mean + gain * away, (1 - gain) * spread), log.sum()

        start = tnp.zeros((N, M)), tnp.ones((N, M))
        return tracer.scan(step, start, tnp.arange(float(STEPS)))[1].mean()

    return tracer.value_and_grad(total)(y[:2], outer(x, y))


CUT = [
    likelihood,
    total_and_the_key,
    random_steps_and_the_key,
    totals,
    totals_of_each_step,
    total_that_decays,
    total_that_a_carry_scales,
    total_in_few_bits,
    total_that_doubles,
    total_that_turns,
    gradient_of_weights,
    gradient_of_weights_and_rows,
    element_by_element,
    sums_of_rows,
    sums_of_columns,
    neighbours_along_rows,
    two_carries,
    products,
    places,
    loops_in_loops,
    trajectories,
    gradient,
    random_steps,
]


def transposed(x: Any, y: Any) -> Any:
    return steps(lambda i, u: 0.5 * (u + u.T), outer(x, x)).sum(0)


def exchanged(x: Any, y: Any) -> Any:
    """Each carry alone would be cut along either axis; together they are one's transpose."""
    start = outer(x, x)
    return steps(lambda i, s: (tnp.sin(s[1]).T, s[0]), (start, start + 1))[0].sum(0)


def of_both_axes(x: Any, y: Any) -> Any:
    return steps(lambda i, u: u / (1 + (u**2).sum(0) + (u**2).sum(1).max()), outer(x, y)).sum(0)


def reversed_axes(x: Any, y: Any) -> Any:
    return steps(lambda i, u: u[::-1, ::-1] + 1, outer(x, y)).sum(0)


def by_the_step(x: Any, y: Any) -> Any:
    return steps(lambda i, u: u.at[i].set(u[i + 1]).at[:, i].add(u[:, i + 2]), outer(x, y)).sum(0)


def sorted_and_summed(x: Any, y: Any) -> Any:
    return steps(lambda i, u: tnp.cumsum(tnp.sort(u, 0), 1) / 10, outer(x, y)).sum(0)


def until_all_are_small(x: Any, y: Any) -> Any:
    """How often the inner loop runs depends on the largest element of all."""

    def step(i: Any, u: Any) -> Any:
        return 1 + tracer.while_loop(lambda v: tnp.abs(v).max() > 0.5, lambda v: v * 0.7, u)

    return steps(step, outer(x, y)).sum(0)


def merged_axes(x: Any, y: Any) -> Any:
    def step(i: Any, u: Any) -> Any:
        return tnp.sin(u.reshape(N // 2, 2 * M)[:, ::-1].reshape(N, M))

    return steps(step, outer(x, y)).sum(0)


def total_from_one(x: Any, y: Any) -> Any:
    return steps(lambda i, s: s + tnp.sin(i * outer(x, y)).sum(), 1.0)


def total_of_truncated_sums(x: Any, y: Any) -> Any:
    """Fractions of each slice's sum would be lost."""
    u = outer(x, y)
    return steps(lambda i, s: s + (u * i).sum().astype("int32"), np.int32(0))


def total_of_sums_that_wrap(x: Any, y: Any) -> Any:
    """A slice's sum does not wrap around where the sum of all does."""
    u = (10 * outer(x, y)).astype("int8")
    return steps(lambda i, s: s + u.sum(dtype="int8").astype("int32"), np.int32(0))


def total_that_is_read(x: Any, y: Any) -> Any:
    return steps(lambda i, s: s + tnp.sin(s + outer(x, y)).sum(), 0.0)


def total_of_squares_of_sums(x: Any, y: Any) -> Any:
    return steps(lambda i, s: s + tnp.sin(i * outer(x, y)).sum() ** 2, 0.0)


def total_with_more(x: Any, y: Any) -> Any:
    return steps(lambda i, s: s + i + tnp.sin(i * outer(x, y)).sum(), 0.0)


def total_beside_ones(x: Any, y: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        return s + tnp.pad(tnp.sin(i * outer(x, y)).sum(0).sum(keepdims=True), 1, constant_values=1)

    return steps(step, tnp.zeros(3))


def largest_so_far(x: Any, y: Any) -> Any:
    return steps(lambda i, s: tnp.maximum(s, tnp.sin(i * outer(x, y)).sum()), 0.0)


def sum_that_scales(x: Any, y: Any) -> Any:
    """The second carry has the axis and asks for the sum of all; only the first one is a result."""

    def step(i: Any, s: Any) -> Any:
        found = tnp.sin(s[1]).sum()
        return s[0] + found, s[1] * found / (N * M)

    return steps(step, (0.0, outer(x, y)))[0]


def totals_of_two(x: Any, y: Any) -> Any:
    """Slices of one would count the other again and again."""
    return steps(lambda i, s: s + tnp.sin(i * x).sum() + tnp.cos(i * y).sum(), 0.0)


def sum_that_scales_elements(x: Any, y: Any) -> Any:
    """All slices of the first carry ask for the sum of all."""

    def step(i: Any, s: Any) -> Any:
        total, u = s
        return total + tnp.sin(u).sum() * u, u + i

    return steps(step, (tnp.zeros(N), x))


def total_of_products_of_sums(x: Any, y: Any) -> Any:
    u = outer(x, y)

    def step(i: Any, s: Any) -> Any:
        return s + tnp.sin(i * u).sum() * tnp.cos(i * u).sum()

    return steps(step, 0.0)


def total_over_sums(x: Any, y: Any) -> Any:
    u = outer(x, y)
    return steps(lambda i, s: s + 1 / (2 + tnp.sin(i * u)).sum(), 0.0)


def total_over_the_step(x: Any, y: Any) -> Any:
    """At first over zero, where slices may be infinities of both signs."""
    u = outer(x, y)
    return steps(lambda i, s: s + tnp.cos(i * u * 1e9).sum() / i, 0.0)


def total_over_zero(x: Any, y: Any) -> Any:
    u = outer(x, y)
    return steps(lambda i, s: s + tnp.cos(i * u * 1e9).sum() / 0.0, 0.0)


def total_of_rounded_quotients(x: Any, y: Any) -> Any:
    u = (10 * outer(x, y)).astype("int32")
    return steps(lambda i, s: s + tracer.lax.div((i * u).sum(), 7), 0)


def rows_and_their_mean(x: Any, y: Any) -> Any:
    """The second result is small, and depends on all elements."""
    return steps(lambda i, s: (tnp.sin(s[0]), s[0].mean() + s[1] ** 2), (outer(x, y), 1.0))


def rows_and_a_total_of_random_numbers(x: Any, y: Any) -> Any:
    """The second result depends on no row, and on as many numbers in each step."""

    def step(i: Any, s: Any) -> Any:
        u, key, total = s
        key, own = tracer.random.split(key)
        return tnp.sin(u), key, total + tracer.random.normal(own, (N, M))[0, 0]

    u, _, total = steps(step, (outer(x, y), tracer.random.key(0), 1.0))
    return u, total


def rows_and_a_column(x: Any, y: Any) -> Any:
    """The second result depends on no row, and on as many numbers that are carried."""

    def step(i: Any, s: Any) -> Any:
        u, v, _ = s
        return tnp.sin(u), tnp.cos(v)[::-1, ::-1], v[0, 0]

    u, _, corner = steps(step, (outer(x, y), outer(x, y) + 1, 1.0))
    return u, corner


def total_that_scales_another(x: Any, y: Any) -> Any:
    u = outer(x, y)

    def step(i: Any, s: Any) -> Any:
        first, second = s
        return first + tnp.sin(i * u).sum(), second + first * tnp.cos(i * u).sum()

    return steps(step, (0.0, 0.0))


def written_at_a_sum(x: Any, y: Any) -> Any:
    u = outer(x, y)

    def step(i: Any, s: Any) -> Any:
        place = tnp.clip(tnp.cos(i * u).sum().astype("int32") % 8, 0, 7)
        return s.at[place].set(tnp.sin(i * u).sum())

    return steps(step, tnp.zeros(8))


WHOLE = [
    sum_that_scales_elements,
    total_of_products_of_sums,
    total_over_sums,
    total_over_the_step,
    total_over_zero,
    total_of_rounded_quotients,
    rows_and_their_mean,
    rows_and_a_total_of_random_numbers,
    rows_and_a_column,
    total_that_scales_another,
    written_at_a_sum,
    total_from_one,
    total_of_truncated_sums,
    total_of_sums_that_wrap,
    total_that_is_read,
    total_of_squares_of_sums,
    total_with_more,
    total_beside_ones,
    largest_so_far,
    sum_that_scales,
    totals_of_two,
    transposed,
    exchanged,
    of_both_axes,
    reversed_axes,
    by_the_step,
    sorted_and_summed,
    until_all_are_small,
    merged_axes,
]


def until_converged(x: Any, y: Any) -> Any:
    def goes_on(s: Any) -> Any:
        return (s[1] < 20) & (tnp.abs(s[0]).max() > 0.1)

    return tracer.while_loop(goes_on, lambda s: (s[0] * 0.7, s[1] + 1), (outer(x, y), 0))[0].sum(0)


def with_a_print(x: Any, y: Any) -> Any:
    def step(i: Any, u: Any) -> Any:
        tracer.debug.print("{}", i)
        return tnp.sin(u)

    return steps(step, outer(x, y)).sum(0)


NOT_OUTLINED = [until_converged, with_a_print]


def inputs() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(size) for size in (N, M)]


def graph_of(function: Any) -> Graph:
    return Planner(trace(function, inputs()).graph, PlannerOptions()).graph


def calls(graph: Graph) -> int:
    return sum(node.op is ops.outlined_call for node in outlined(graph, lambda _: True).nodes)


@pytest.mark.parametrize("function", CUT)
def test_loops_whose_steps_leave_an_axis_alone_are_cut(function: Any) -> None:
    graph = graph_of(function)
    assert calls(graph)
    assert_same_values(graph, is_cut=True)


@pytest.mark.parametrize("function", [*WHOLE, *NOT_OUTLINED])
def test_others_keep_their_values(function: Any) -> None:
    graph = graph_of(function)
    assert not calls(graph)
    assert_same_values(graph, is_cut=False)


def _holds_a_loop(body: Graph) -> bool:
    """Whether a loop over slices has the loop over steps inside."""
    return any(node.op is ops.while_ and trip_count(node) == STEPS for node in body.nodes)


def assert_same_values(graph: Graph, *, is_cut: bool) -> None:
    arguments = inputs()
    wanted = evaluated(graph, *arguments)
    were_cut = False
    for settings in (*tight_settings(DEFAULT_TARGET)[-1:], *smallest_settings(DEFAULT_TARGET)[:1]):
        context = Context(PlannerOptions(), settings, [])
        found = PassManager().run(graph, passes_in(Stage.LOOPS, context))
        verify(found)
        assert not any(node.op is ops.outlined_call for node in found.nodes)
        were_cut |= any(_holds_a_loop(body) for node in found.nodes for body in node.body_graphs)
        for one, other in zip(evaluated(found, *arguments), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert were_cut == is_cut


def test_what_is_not_cut_is_written_out_again() -> None:
    graph = graph_of(element_by_element)
    calls = outlined(graph, lambda _: True)
    again = written_out(calls)
    assert [node.name for node in again.nodes if node.bodies] == ["while"]
    for one, other in zip(evaluated(again, *inputs()), evaluated(graph, *inputs()), strict=True):
        np.testing.assert_array_equal(one, other)


def test_small_loops_are_left_alone() -> None:
    graph = graph_of(element_by_element)
    assert outlined(graph, lambda _: False) is graph


@pytest.mark.xla
@pytest.mark.parametrize("shape", [(1, 700), (700, 1), (613, 300)])
def test_within_a_tenth_of_the_memory(shape: tuple[int, int]) -> None:
    """The grid of a set of Mandelbrot's, in tiles; it took five times the result."""

    def escapes(x: Any, y: Any) -> Any:
        c = x[None, :] + 1j * y[:, None]

        def step(i: Any, s: Any) -> Any:
            z, count = s
            z = tnp.where(tnp.abs(z) <= 2, z * z + c, z)
            return z, count + (tnp.abs(z) <= 2)

        start = tnp.zeros_like(c), tnp.zeros(c.shape, dtype="int32")
        return tracer.fori_loop(0, 30, step, start)[1].sum(0)

    x, y = np.linspace(-2, 1, shape[1]), np.linspace(-1.5, 1.5, shape[0])
    free = tracer.compile(escapes)
    plan = free.plan(x, y)
    fixed = plan.argument_bytes + plan.output_bytes
    limit = max(plan.minimum_bytes, fixed + (plan.compiled_bytes - fixed) // 10)
    limited = tracer.compile(escapes, memory_limit=limit)
    np.testing.assert_array_equal(limited(x, y), free(x, y))
    if min(shape) > 1:
        assert plan.minimum_bytes < 0.05 * plan.compiled_bytes


@pytest.mark.xla
def test_steps_between_a_loop_of_sums_and_its_gradient_are_not_stored() -> None:
    """Of each step a sum is returned, and the states are read by the gradient alone."""
    x, y = np.random.default_rng(0).standard_normal((2, 300))

    def program(x: Any, y: Any) -> Any:
        def total(w: Any) -> Any:
            def step(u: Any, t: Any) -> Any:
                u = tnp.sin(u * w[0] + t)
                return u, (u**2).sum()

            return (tracer.scan(step, outer(x, y), tnp.arange(30.0))[1] ** 3).mean()

        return tracer.value_and_grad(total)(y[:2])

    whole = tracer.compile(program, split="never")
    limited = tracer.compile(program, memory_limit=whole.plan(x, y).compiled_bytes // 10)
    pairs = zip(tracer.tree.leaves(limited(x, y)), tracer.tree.leaves(whole(x, y)), strict=True)
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert tracer.compile(program).plan(x, y).minimum_bytes < 0.05 * whole.plan(x, y).compiled_bytes


@pytest.mark.xla
@pytest.mark.parametrize("shape", [(250_007, 1), (1, 250_000), (499, 501)])
@pytest.mark.parametrize("has_squares", [False, True])
def test_without_a_limit(shape: tuple[int, int], has_squares: bool) -> None:
    """Walks of points, of which a gradient keeps every step."""

    def walk(x: Any, w: Any) -> Any:
        def step(state: Any, push: Any) -> Any:
            state = tnp.sin(state * w[0] + push) + state * w[1]
            return state, (state**2).sum() if has_squares else None

        state, squares = tracer.scan(step, x, tnp.arange(20.0))
        return (state**3).mean() + (squares.sum() / x.size if has_squares else 0)

    function = tracer.grad(walk, argnums=(0, 1))
    x, w = np.random.default_rng(0).standard_normal(shape), np.array([0.3, 0.5])
    free, whole = tracer.compile(function), tracer.compile(function, split="never")
    if not has_squares and 1 not in shape:
        assert free.plan(x, w).loops
    limited = tracer.compile(function, memory_limit=free.plan(x, w).argument_bytes * 7)
    assert limited.plan(x, w).loops
    for other in (free, limited):
        pairs = zip(other(x, w), whole(x, w), strict=True)
        for found, wanted in pairs:
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-14)
