"""Shared values: long chains that several kernels read are stored; guards, price, memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.fuse.read_twice import check_same, read_twice
from tests.optimizer.random_programs import Program, programs
from tracer import ops, random
from tracer.array.trace import trace
from tracer.ir import Graph
from tracer.ops.helpers import ones_like
from tracer.optimizer.fuse.shared import shared_values_pass
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING
from tracer.scipy.special import gammaln
from tracer.target import DEFAULT_TARGET, Target

KEY = np.asarray(random.key(3))
X = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
ANY_PRICE = replace(
    DEFAULT_TARGET,
    prices=replace(DEFAULT_TARGET.prices, vector_rate=1.0),
    kernels=replace(DEFAULT_TARGET.kernels, least_barrier_bytes=0),
    sizes=replace(DEFAULT_TARGET.sizes, chain_operations=2),
)


def stored(
    function: Any, *arrays: Any, machine: Target = DEFAULT_TARGET, most_bytes: int | None = None
) -> tuple[Graph, Graph, PassLog]:
    """Run the pass and check that the meaning is the same."""
    passes = (EXPAND, COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING)
    graph = PassManager().run(trace(function, arrays).graph, passes)
    log = PassLog()
    result = shared_values_pass(machine, most_bytes=most_bytes).run(graph, log)
    check_same(result, graph, arrays)
    return graph, result, log


def barriers(graph: Graph) -> list[Any]:
    """Return the types of what is stored."""
    return [node.types[0] for node in graph.nodes if node.op is ops.optimization_barrier]


def noisy(x: Any, key: Any) -> Any:
    """Read random numbers in three kernels."""
    noise = random.normal(key, x.shape, dtype="float32")
    return (x + noise).sum(0), (x * noise).sum(1), tnp.abs(noise).max(0)


def test_the_last_value_of_a_chain_is_stored_once() -> None:
    before, after, log = stored(noisy, X, KEY)
    assert [str(type) for type in barriers(after)] == ["float32[300,200]"]
    assert "float32[300,200] of multiply for 3 kernels" in log.applied[0]
    assert len(after.nodes) == len(before.nodes) + 1


def test_the_narrowest_value_is_stored() -> None:
    """Of a mask and what it is compared from, the mask, a byte for each element."""

    def dropped(x: Any, key: Any) -> Any:
        kept = tnp.where(random.bernoulli(key, 0.9, x.shape), x, 0)
        other = tnp.where(random.bernoulli(key, 0.9, x.shape), x * x, 0)
        return kept.sum(0), other.sum(1)

    _, after, _ = stored(dropped, X, KEY)
    assert [str(type) for type in barriers(after)] == ["bool[300,200]"]


def test_a_function_of_many_ops_is_a_chain() -> None:
    """Our storage model calls it stored, but XLA gets many ops, the last of them cheap."""

    def twice(x: Any) -> Any:
        y = gammaln(x)
        return (y * x).sum(0), (y + x).sum(1)

    _, after, _ = stored(twice, np.abs(X) + 1)
    assert len(barriers(after)) == 1


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, key: noisy(x, key)[0], id="one kernel"),
        pytest.param(lambda x, key: ((y := x * 2 + 1).sum(0), y.sum(1)), id="short"),
        pytest.param(lambda x, key: ((y := tnp.tanh(x)).sum(0), y.sum(1)), id="stored by XLA"),
        pytest.param(lambda x, key: noisy(x[:1, :1], key), id="as cheap and small"),
    ],
)
def test_what_gains_nothing_is_left_alone(function: Any) -> None:
    before, after, _ = stored(function, X, KEY)
    assert after is before


def test_of_two_values_that_come_of_one_chain_the_chain_is_stored() -> None:
    """Either alone would spare nothing: the chain is computed for the other."""

    def two(x: Any, key: Any) -> Any:
        noise = random.uniform(key, x.shape, dtype="float32")
        one, other = noise * x, noise - x
        return (one + other).sum(0), (one - other).max(1)

    _, after, log = stored(two, X, KEY)
    (barrier,) = [node for node in after.nodes if node.op is ops.optimization_barrier]
    assert sum(barrier.results[0] in node.operands for node in after.nodes) == 2
    assert len(log.applied) == 1


def test_two_words_of_the_same_rounds_are_stored_together() -> None:
    def words(key: Any) -> Any:
        pairs = random.split(key, 40_000)
        return pairs[:, 0].sum(), pairs[:, 1].max(), (pairs[:, 0] - pairs[:, 1]).max()

    _, after, _ = stored(words, KEY)
    assert [str(type) for type in barriers(after)] == ["uint32[40000,2]"]


def test_cheap_chains_of_large_values_are_computed_again() -> None:
    def long(x: Any) -> Any:
        y = x
        for _ in range(20):
            y = y * y + x
        return y.sum(0), y.sum(1)

    large = np.zeros((2000, 1000), np.float32)
    before, after, _ = stored(long, large)
    assert after is before
    _, after, _ = stored(long, X)
    assert len(barriers(after)) == 1


def test_large_values_are_left_out_where_asked() -> None:
    before, after, _ = stored(noisy, X, KEY, most_bytes=X.nbytes - 1)
    assert after is before


@pytest.mark.slow
@given(program=st.one_of(programs(), programs("float")))
@run_settings(max_examples=100, deadline=None)
def test_random_programs_keep_their_meaning(program: Program) -> None:
    graph = read_twice(program.graph, lambda x: ops.add(ops.multiply(x, x), ones_like(x)))
    log = PassLog()
    result = shared_values_pass(ANY_PRICE).run(graph, log)
    event(f"stored {bool(log.applied)}")
    check_same(result, graph, program.arrays)


def wide_noise(key: Any) -> Any:
    """Read 4 MB of random numbers in three kernels, which need no memory if they compute them."""
    noise = random.uniform(key, (1000, 1000), dtype="float32")
    return noise.sum(), (noise * noise).sum(), tnp.abs(noise).max()


@pytest.mark.xla
def test_no_limit_is_broken_for_it() -> None:
    free = tracer.compile(wide_noise, split="never").plan(KEY)
    limited = tracer.compile(wide_noise, split="never", memory_limit="2MB").plan(KEY)
    for plan in (free, limited):
        rows = [row for row in plan.passes if row.name == "store shared values"]
        assert not any(row.applied for row in rows), "it would take 4 MB"
    roomy = tracer.compile(wide_noise, split="never", memory_limit="20MB").plan(KEY)
    (row,) = [row for row in roomy.passes if row.name == "store shared values"]
    assert row.applied
    assert 4e6 < roomy.compiled_bytes < 20e6


@pytest.mark.xla
def test_each_kernel_had_the_rounds() -> None:
    """Against the compiled program: XLA has one copy of the generator, not three."""
    on = tracer.compile(noisy, split="never")
    off = tracer.compile(noisy, split="never", passes=["-store-shared-values"])
    for one, other in zip(on(X, KEY), off(X, KEY), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-5)
    rounds_on, rounds_off = (compiled.hlo(X, KEY).count(" xor(") for compiled in (on, off))
    assert rounds_off > 2 * rounds_on


@pytest.mark.xla
def test_the_gradient_of_an_autoencoder_has_the_generator_once() -> None:
    """The sum over eight of the random numbers was written out, each with a generator."""

    def loss(mean: Any, spread: Any, key: Any) -> Any:
        noise = random.normal(key, (20, *mean.shape), dtype="float32")
        latent = mean + tnp.exp(spread) * noise
        return (tnp.tanh(latent) ** 2).sum() - (noise**2 + spread).sum(-1).mean()

    gradient = tracer.compile(tracer.grad(loss, (0, 1)))
    mean = X[:, :8]
    assert gradient.hlo(mean, mean / 9, KEY).count(" xor(") < 80


def test_what_reads_many_stored_arrays_is_stored_for_its_kernels() -> None:
    """Gradients of stencils: XLA stores each of the padded arrays where two kernels add them up."""

    def stencil(x: Any) -> Any:
        shifted = [x[i : i + 1996, j : j + 2396] for i in range(5) for j in range(5)]
        return (sum(shifted) ** 2).sum()

    def sums(x: Any, y: Any) -> Any:
        matrix = x[:, None] * y
        slope = tracer.grad(stencil)(tnp.sin(matrix)) * tnp.cos(matrix)
        return slope.sum(0), slope.max(1)

    before, after, _ = stored(sums, np.zeros(2000, np.float32), np.zeros(2400, np.float32))
    assert "float32[2000,2400]" in [str(type) for type in barriers(after)]
    assert peak_bytes(after) < peak_bytes(before) / 5
