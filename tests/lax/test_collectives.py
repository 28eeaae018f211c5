"""Collectives over named axes of vmap, beside JAX's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.lax
import tracer.numpy as tnp
from tracer.errors import ArgumentError, NotDifferentiableError, ShapeError

pytestmark = pytest.mark.xla

OURS = SimpleNamespace(
    lax=tracer.lax,
    numpy=tnp,
    vmap=tracer.vmap,
    grad=tracer.grad,
    jvp=tracer.jvp,
    leaves=tracer.tree.leaves,
)
X = np.random.default_rng(3).standard_normal((4, 4, 3))
Program = Callable[[Any, Any], Any]


def in_a_scan(j: Any, x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        total = j.lax.psum(row, "i") + j.lax.axis_index("i")
        return carry * 0.5 + total.sum(), carry + j.lax.pmax(row, "i")

    return j.lax.scan(step, j.numpy.zeros(()), x)


def in_a_while_loop(j: Any, x: Any) -> Any:
    def not_done(state: Any) -> Any:
        return j.lax.psum(state[1].sum(), "i") < 40

    return j.lax.while_loop(not_done, lambda s: (s[0] + 1, s[1] * 1.5 + 1), (0, abs(x)))


def in_branches(j: Any, x: Any) -> Any:
    return j.lax.cond(
        j.lax.axis_index("i") > 1, lambda x: x * 2, lambda x: j.lax.psum(x, "i") - x, x
    )


def softmax_of_elements(j: Any, x: Any) -> Any:
    e = j.numpy.exp(x - j.lax.pmax(x, "i"))
    return e / j.lax.psum(e, "i")


# Functions of one element, of shape (4, 3); the axis has 4.
PROGRAMS: dict[str, Program] = {
    "psum": lambda j, x: j.lax.psum(x, "i"),
    "psum of a tree": lambda j, x: j.lax.psum({"a": x, "b": (x.sum(), 3)}, "i"),
    "psum of what is shared": lambda j, x: x * 0 + j.lax.psum(j.numpy.ones(3), "i"),
    "psum of truth": lambda j, x: j.lax.psum(x > 0, "i"),
    "pmean": lambda j, x: x - j.lax.pmean(x, "i"),
    "pmean of integers": lambda j, x: j.lax.pmean(j.lax.axis_index("i"), "i") + x,
    "pmax and pmin": lambda j, x: j.lax.pmax(x, "i") - 2 * j.lax.pmin(x, "i"),
    "axis_index": lambda j, x: x * j.lax.axis_index("i") + j.lax.axis_size("i"),
    "all_gather": lambda j, x: j.lax.all_gather(x, "i"),
    "all_gather at 2": lambda j, x: j.lax.all_gather(x, "i", axis=2),
    "all_gather at -1, tiled": lambda j, x: j.lax.all_gather(x, "i", axis=-1, tiled=True),
    "psum_scatter": lambda j, x: j.lax.psum_scatter(x, "i"),
    "psum_scatter, tiled": lambda j, x: j.lax.psum_scatter(x, "i", scatter_dimension=0, tiled=True),
    "all_to_all": lambda j, x: j.lax.all_to_all(x, "i", 0, 1),
    "all_to_all, tiled": lambda j, x: j.lax.all_to_all(x, "i", 0, 1, tiled=True),
    "pswapaxes": lambda j, x: j.lax.pswapaxes(x, "i", 0),
    "ppermute": lambda j, x: j.lax.ppermute(x, "i", [(0, 2), (3, 0), (1, 1), (2, 3)]),
    "pshuffle": lambda j, x: j.lax.pshuffle(x, "i", [3, 1, 0, 2]),
    "softmax of elements": softmax_of_elements,
    "in a scan": in_a_scan,
    "in a while loop": in_a_while_loop,
    "in branches": in_branches,
}
DIFFERENTIABLE = [n for n in PROGRAMS if n not in ("in a while loop", "psum of truth")]


def leaves_of(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in tracer.tree.leaves(result)]


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax")


def check(jax: Any, program: Callable[[Any], Any], *arrays: Any) -> None:
    """Compare a function of a framework with JAX's, eager and compiled."""
    theirs = SimpleNamespace(
        lax=jax.lax,
        numpy=jax.numpy,
        vmap=jax.vmap,
        grad=jax.grad,
        jvp=jax.jvp,
        leaves=jax.tree.leaves,
    )
    with jax.enable_x64(True):
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(program(theirs)(*arrays))]
    for way in (lambda f: f, tracer.compile):
        found = leaves_of(way(program(OURS))(*arrays))
        for x, y in zip(found, wanted, strict=True):
            assert (x.shape, x.dtype.kind) == (y.shape, y.dtype.kind)
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(jax: Any, name: str) -> None:
    program = PROGRAMS[name]
    check(jax, lambda j: j.vmap(lambda x: program(j, x), axis_name="i"), X)


def total_of(j: Any, result: Any) -> Any:
    """Sum the floats of a result with weights."""
    total = 0.0
    for leaf in j.leaves(result):
        if hasattr(leaf, "dtype") and leaf.dtype.kind == "f":
            weights = np.cos(np.arange(leaf.size)).reshape(leaf.shape)
            total = total + (leaf * weights).sum()
    return total


def loss_of(j: Any, name: str) -> Callable[[Any], Any]:
    return lambda x: total_of(j, PROGRAMS[name](j, x)) ** 2


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_the_batch_are_slopes(name: str) -> None:
    """JAX has none for pmax, and another one where a branch has a psum."""

    def loss(x: Any) -> Any:
        return tracer.vmap(loss_of(OURS, name), axis_name="i")(x).sum()

    tracer.check_grads(loss, (X,), order=2)


def test_gradients_of_collectives_over_two_axes_in_branches() -> None:
    """An element that takes a branch reads those that do not."""

    def one(x: Any) -> Any:
        return tracer.cond(
            x > 0,
            lambda: tracer.lax.psum(x**2, "i") * x,
            lambda: tracer.lax.psum(x, "k") * tracer.lax.pmax(x, "i"),
        )

    def loss(x: Any) -> Any:
        return (tracer.vmap(tracer.vmap(one, axis_name="k"), axis_name="i")(x) ** 2).sum()

    tracer.check_grads(loss, (X[0],), order=2)


def test_a_collective_in_a_branch_has_no_gradient_of_elements() -> None:
    """JAX sums the cotangents of elements that took the other branch, too."""
    loss = loss_of(OURS, "in branches")
    with pytest.raises(NotDifferentiableError, match="a branch of cond or switch has a coll"):
        tracer.vmap(tracer.grad(loss), axis_name="i")(X)


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if name != "in branches"])
def test_gradients_of_elements_are_of_the_losses_of_all(name: str) -> None:
    loss = loss_of(OURS, name)
    of_elements = tracer.vmap(tracer.grad(loss), axis_name="i")(X)
    whole = tracer.grad(lambda x: tracer.vmap(loss, axis_name="i")(x).sum())(X)
    np.testing.assert_allclose(of_elements, whole, rtol=1e-10, atol=1e-10)


OF_JAX = set(DIFFERENTIABLE) - {
    "pmax and pmin", "softmax of elements", "in a scan", "in branches", "all_to_all"
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OF_JAX))
def test_gradients_and_tangents_are_jaxs(jax: Any, name: str) -> None:
    def program(j: Any) -> Any:
        loss = loss_of(j, name)

        def both(x: Any) -> Any:
            return j.grad(loss)(x), j.jvp(loss, (x,), (j.numpy.sin(x),))[1]

        return j.vmap(both, axis_name="i")

    check(jax, program, X)


@pytest.mark.parametrize("axes", ["i", "k", ("i", "k"), ("k", "i")])
def test_axes_within_each_other(jax: Any, axes: Any) -> None:
    def program(j: Any) -> Any:
        def one(x: Any) -> Any:
            number = j.lax.axis_index(axes)
            return j.lax.psum(x, axes) * number, j.lax.pmax(x * number, axes)

        return j.vmap(j.vmap(one, in_axes=1, axis_name="k"), axis_name="i")

    check(jax, program, X)


@pytest.mark.parametrize(("axes", "order"), [(("i", "k"), (0, 2, 1)), (("k", "i"), (2, 0, 1))])
def test_gathering_over_two_axes_counts_the_last_one_fastest(axes: Any, order: Any) -> None:
    """JAX has it in sharded programs only."""
    gather = tracer.vmap(lambda x: tracer.lax.all_gather(x, axes), in_axes=1, axis_name="k")
    found = tracer.vmap(gather, axis_name="i")(X)
    rows = X.transpose(order).reshape(12, 4)
    np.testing.assert_array_equal(found, np.broadcast_to(rows, (4, 3, 12, 4)))


def test_permutations_of_some_leave_zeros() -> None:
    found = tracer.vmap(lambda x: tracer.lax.ppermute(x, "i", [(0, 2), (3, 0)]), axis_name="i")(X)
    np.testing.assert_array_equal(found, [X[3], 0 * X[0], X[0], 0 * X[0]])


def test_other_batches_go_through(jax: Any) -> None:
    """Batches without the name, inside and outside, and one where nothing has the axis."""

    def program(j: Any) -> Any:
        def inner(x: Any) -> Any:
            return j.vmap(lambda y: j.lax.psum(y, "i") + j.lax.all_gather(y, "i")[1])(x)

        mapped = j.vmap(j.vmap(inner, axis_name="i"), in_axes=1)
        alone = j.vmap(lambda: j.lax.axis_index("i") * 2, axis_size=3, axis_name="i")
        return lambda x: (mapped(x), alone())

    check(jax, program, X)


def test_the_innermost_axis_of_a_name_counts(jax: Any) -> None:
    def program(j: Any) -> Any:
        return j.vmap(
            lambda x: j.vmap(lambda y: j.lax.psum(y, "i"), axis_name="i")(x), axis_name="i"
        )

    check(jax, program, X)


def test_a_batch_of_none() -> None:
    found = tracer.vmap(lambda x: (tracer.lax.psum(x, "i"), x), axis_name="i")(np.zeros((0, 3)))
    assert [x.shape for x in found] == [(0, 3), (0, 3)]


def test_compiled_functions_inside_read_the_axis_that_is_around() -> None:
    total = tracer.compile(lambda x: tracer.lax.psum(x, "i"))
    for size in (2, 3):
        found = tracer.vmap(total, axis_name="i")(np.arange(size))
        np.testing.assert_array_equal(found, np.full(size, sum(range(size))))


def test_memory_is_limited() -> None:
    x = np.ones((4000, 50))

    def program(x: Any) -> Any:
        return tracer.vmap(lambda row: softmax_of_elements(OURS, row).sum(), axis_name="i")(x)

    assert np.isclose(tracer.compile(program)(x).sum(), 50)
    assert "axis_sum" not in str(tracer.compile(program).graph(x))


def test_letters() -> None:
    lax = tracer.lax
    with pytest.raises(ArgumentError, match="psum: no axis is named 'i' here; there are: none"):
        lax.psum(np.ones(3), "i")
    with pytest.raises(ArgumentError, match="no axis is named 'k' here; there are: 'i'"):
        tracer.vmap(lambda x: lax.pmax(x, "k"), axis_name="i")(np.ones(3))
    with pytest.raises(ArgumentError, match="axis_index_groups"):
        tracer.vmap(lambda x: lax.psum(x, "i", axis_index_groups=[[0], [1]]), axis_name="i")(X)
    with pytest.raises(ShapeError, match="cannot be dealt out to 4 elements"):
        tracer.vmap(lambda x: lax.all_to_all(x, "i", 1, 0), axis_name="i")(X)
    with pytest.raises(ArgumentError, match="no permutation"):
        tracer.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), axis_name="i")(X)
    with pytest.raises(ArgumentError, match="no element 7 of 4"):
        tracer.vmap(lambda x: lax.pbroadcast(x, "i", 7), axis_name="i")(X)
    with pytest.raises(ArgumentError, match="spmd_axis_name"):
        tracer.vmap(abs, spmd_axis_name="i")
