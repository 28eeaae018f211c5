"""Large invariants of loops and branches, computed inside of them: meaning, guards, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.autodiff import pull_back, recompute_large
from tracer.ir import Graph, Node, Value
from tracer.ir.interpret import interpret
from tracer.ir.verify import verify, verify_same_signature
from tracer.ops.sink import sink_invariants

N = 12
X = np.linspace(-1.0, 1.0, N)
V = np.cos(np.arange(float(N)))
LARGE = 8 * N * N // 2
"""In bytes: a matrix is larger, vectors are not."""


def kernel(x: Any) -> Any:
    return tnp.exp(-((x[:, None] - x[None, :]) ** 2))


def sunk(function: Any, *arrays: Any) -> tuple[Graph, Graph, list[str]]:
    """Sink, check that the meaning is the same; return both graphs and the refusals."""
    graph = trace(function, arrays).graph
    refusals: list[str] = []

    def report(node: Node, value: Value, why: str | None) -> None:
        if why is not None:
            refusals.append(why)

    result = sink_invariants(graph, lambda type: type.nbytes > LARGE, report)
    verify(result)
    verify_same_signature(graph, result)
    pairs = zip(interpret(result, arrays), interpret(graph, arrays), strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)
    return graph, result, refusals


def large_operands(graph: Graph) -> int:
    """Count the operands of loops and branches that are large, at every depth."""
    count = 0
    for node in graph.nodes:
        if node.op is not None and node.op.invariants is not None:
            count += sum(type.nbytes > LARGE for type in node.operand_types)
        for bodies in node.bodies.values():
            count += sum(map(large_operands, bodies if isinstance(bodies, tuple) else (bodies,)))
    return count


def scanned(x: Any, v: Any) -> Any:
    k = kernel(x)
    steps = tnp.arange(3.0)
    last, sums = tracer.scan(lambda c, t: (tnp.tanh(k @ c + t), (k.T @ c).sum()), v, steps)
    return last, sums, k.sum()


def counted(x: Any, v: Any) -> Any:
    k = kernel(x)
    return tracer.while_loop(
        lambda c: (c[0] < 4) & ((k @ c[1]).sum() < 1e6), lambda c: (c[0] + 1, k @ c[1]), (0, v)
    )


def branched(x: Any, v: Any) -> Any:
    k = kernel(x)
    return tracer.cond(v.sum() > 0, lambda v: k @ v, lambda v: v - 1, v)


def nested(x: Any, v: Any) -> Any:
    k = kernel(x)

    def outer(c: Any, t: Any) -> Any:
        return tracer.fori_loop(0, 2, lambda _, c: tracer.cond(t > 0, lambda: k @ c, lambda: c), c)

    return tracer.scan(lambda c, t: (outer(c, t), None), v, tnp.arange(3.0))[0]


def shared(x: Any, v: Any) -> Any:
    """The body reads the points too: they are not handed in twice."""
    k = kernel(x)
    return tracer.scan(lambda c, _: (tnp.tanh(k @ c) * x, None), v, None, length=2)[0]


@pytest.mark.parametrize("function", [scanned, counted, branched, nested, shared])
def test_bodies_compute_what_they_read(function: Any) -> None:
    before, after, refusals = sunk(function, X, V)
    assert large_operands(before) > 0
    assert large_operands(after) == 0
    assert refusals == []


def test_what_is_shared_is_handed_in_once() -> None:
    _, graph, _ = sunk(shared, X, V)
    (scan,) = [node for node in graph.nodes if node.name == "scan"]
    assert len(set(scan.operands)) == len(scan.operands)


def test_a_large_argument_is_read_and_what_follows_is_computed_again() -> None:
    def function(c: Any, v: Any) -> Any:
        k = tnp.exp(-c)
        return tracer.scan(lambda u, _: (tnp.tanh(k @ u), None), v, None, length=2)[0]

    _, graph, _ = sunk(function, X[:, None] * X, V)
    (scan,) = [node for node in graph.nodes if node.name == "scan"]
    assert graph.inputs[0] in scan.operands
    assert large_operands(graph) == 1


def sorted_rows(x: Any) -> Any:
    return tnp.linalg.cholesky(kernel(x) + N * tnp.eye(N))


def costly(x: Any) -> Any:
    deep = tnp.sin(x[:, None] * tnp.arange(2100.0))
    return (deep[:, None, :] * deep[None, :, :]).sum(-1)


@pytest.mark.parametrize(
    ("generator", "reason"),
    [
        (sorted_rows, "as a whole"),
        (lambda x: 2.0 * sorted_rows(x), "must be stored"),
        (costly, "operations per element"),
        (lambda x: tracer.fori_loop(0, 2, lambda _, k: 2 * k, kernel(x)), "result of a scan"),
    ],
)
def test_what_is_not_worth_computing_again(generator: Any, reason: str) -> None:
    def function(x: Any, v: Any) -> Any:
        k = generator(x)
        return tracer.scan(lambda u, _: (tnp.tanh(k @ u), None), v, None, length=2)[0]

    before, after, refusals = sunk(function, X, V)
    assert any(reason in refusal for refusal in refusals)
    assert large_operands(after) == large_operands(before) > 0


def test_what_a_body_compares_with_an_earlier_result_is_kept() -> None:
    """`k == k.max()` holds once at least, if both sides are of one computation."""

    def function(x: Any, v: Any) -> Any:
        k = kernel(x)
        most = k.max()
        return tracer.scan(lambda c, _: (c + (k == most).sum(), None), 0, None, length=2)[0]

    before, after, refusals = sunk(function, X, V)
    assert len(refusals) > 0
    assert large_operands(after) == large_operands(before) == 1

    def inside(x: Any, v: Any) -> Any:
        k = kernel(x)
        return tracer.scan(lambda c, _: (c + (k == k.max()).sum(), None), 0, None, length=2)[0]

    _, after, _ = sunk(inside, X, V)
    assert large_operands(after) == 0


def test_a_maximum_is_computed_again_with_what_it_is_compared_with() -> None:
    def rows(x: Any) -> Any:
        return tnp.tanh(kernel(x) * 2.0).max(1)

    graph = trace(rows, (X,)).graph
    halves = pull_back(graph, [0], drops=lambda node: node.types[0].shape == (N, N))
    kept = halves.forward.outputs[len(graph.outputs) :]
    # Neither the maximum of each row nor the number of places where it is taken.
    assert [value for value in kept if value.type.shape == (N,)] == []
    assert "reduce_maximum" in {node.name for node in halves.backward.nodes}


def transport(x: Any, y: Any) -> Any:
    """Sinkhorn's distance between two clouds of points, as it is written down."""
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    k = tnp.exp(-2.0 * cost)
    a, b = tnp.full(len(x), 1.0 / len(x), x.dtype), tnp.full(len(y), 1.0 / len(y), y.dtype)

    def step(scales: Any, _: None) -> Any:
        u = a / (k @ scales[1])
        return (u, b / (k.T @ u)), None

    (u, v), _ = tracer.scan(step, (tnp.ones_like(a), tnp.ones_like(b)), None, length=4)
    return (u * ((k * cost) @ v)).sum()


def bodies(x: Any) -> Any:
    """Energy after some steps of an N-body simulation."""

    def step(state: Any, _: None) -> Any:
        place, speed = state
        apart = place[None] - place[:, None]
        pull = (apart * (((apart**2).sum(-1) + 0.1) ** -1.5)[..., None]).mean(1)
        speed = speed + 0.05 * pull
        return (place + 0.05 * speed, speed), None

    place, speed = tracer.scan(step, (x, tnp.zeros_like(x)), None, length=4)[0]
    return (place**2).sum() + (speed**2).sum()


def points(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 2)) * 0.5


PROGRAMS: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (tracer.value_and_grad(transport, argnums=(0, 1)), (points(300, 0), points(290, 1))),
    (tracer.value_and_grad(bodies), (points(300, 2),)),
    (transport, (points(300, 3), points(301, 4))),
]


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize(("function", "arguments"), PROGRAMS)
def test_limits_far_below_one_matrix_are_kept(function: Any, arguments: Any) -> None:
    limited = tracer.compile(function, memory_limit="500kB")
    plan = limited.plan(*arguments)
    assert plan.compiled_bytes <= 500_000 < 8 * 290 * 290
    assert plan.passes[0].name == "recompute in loops"
    found = tracer.tree.leaves(limited(*arguments))
    wanted = tracer.tree.leaves(tracer.compile(function)(*arguments))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.xla
def test_the_smallest_limit_is_the_same_for_every_limit() -> None:
    function, arguments = PROGRAMS[2]
    easy = tracer.compile(function, memory_limit="1GB").plan(*arguments)
    assert all(row.name != "recompute in loops" for row in easy.passes)
    assert easy.minimum_bytes < 8 * 290 * 290
    tight = tracer.compile(function, memory_limit=easy.minimum_bytes).plan(*arguments)
    assert tight.compiled_bytes <= easy.minimum_bytes


def test_gradients_without_large_residuals_are_the_same() -> None:
    for function, arguments in PROGRAMS[:2]:
        small = tuple(array[:20] for array in arguments)
        graph = trace(function, small).graph
        with recompute_large(1 << 9):
            again = trace(function, small).graph
        assert again.fingerprint != graph.fingerprint
        assert _stacked(again) < _stacked(graph)
        for one, other in zip(interpret(again, small), interpret(graph, small), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)


def _stacked(graph: Graph) -> int:
    """Return the bytes that scans carry, stack and read."""
    scans = [node for node in graph.nodes if node.name == "scan"]
    return sum(type.nbytes for node in scans for type in (*node.operand_types, *node.types))


@pytest.mark.xla
def test_xla_does_not_move_the_matrix_out_of_the_loop_again() -> None:
    # All of a step fuses into its sums; XLA would compute the matrix once, before the loop.
    n = 400

    def potentials(x: Any, y: Any) -> Any:
        cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)

        def step(potential: Any, _: Any) -> tuple[Any, None]:
            scores = tracer.scipy.special.logsumexp(potential[None, :] - cost, axis=1)
            return tracer.scipy.special.logsumexp(scores[None, :] - cost.T, axis=1), None

        return tracer.scan(step, tnp.zeros_like(x[:, 0]), None, length=5)[0]

    x, y = np.random.default_rng(0).standard_normal((2, n, 3), dtype=np.float32)
    limited = tracer.compile(potentials, memory_limit=2 * n * n)
    assert limited.plan(x, y).compiled_bytes <= 2 * n * n
    expected = tracer.compile(potentials, split="never")(x, y)
    np.testing.assert_allclose(limited(x, y), expected, rtol=1e-5)
