"""jacrev, jacfwd, jacobian and hessian: against finite differences, each other and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import hessian, jacfwd, jacobian, jacrev, tree
from tracer.errors import ArgumentError, DTypeError, NotDifferentiableError, TracerError

RNG = np.random.default_rng(17)
X = RNG.standard_normal((2, 3))
W = RNG.standard_normal((3, 2))
MODES = [jacrev, jacfwd]


def f(x: Any, w: Any) -> Any:
    """From (2, 3) and (3, 2) to (2, 2)."""
    return tnp.sin(x @ w) * tnp.exp(w).sum()


def differences(function: Callable[[Any], Any], x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return the Jacobian by central differences, of shape result + argument."""
    columns = []
    for place in np.ndindex(*x.shape):
        move = np.zeros_like(x)
        move[place] = step
        ends = [np.asarray(function(tnp.asarray(x + sign * move))) for sign in (1, -1)]
        columns.append((ends[0] - ends[1]) / (2 * step))
    result = np.stack(columns, -1)
    return result.reshape(*result.shape[:-1], *x.shape)


def same(one: Any, other: Any, tolerance: float = 1e-10) -> None:
    assert tree.structure(one) == tree.structure(other)
    for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance)
        assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize("mode", MODES)
class TestBothModes:
    @pytest.mark.xla
    def test_finite_differences(self, mode: Any) -> None:
        same(mode(f)(X, W), differences(lambda x: f(x, W), X), 1e-8)
        same(mode(f, 1)(X, W), differences(lambda w: f(X, w), W), 1e-8)
        same(mode(f, argnums=-1)(X, W), mode(f, 1)(X, W))

    @pytest.mark.xla
    def test_structure_of_results_and_arguments(self, mode: Any) -> None:
        def g(parameters: dict[str, Any], x: Any) -> Any:
            hidden = x @ parameters["w"] + parameters["b"]
            return {"h": tnp.tanh(hidden), "parts": (hidden.sum(), parameters["b"] * 2)}

        parameters = {"w": W, "b": np.array([0.3, -0.1])}
        found = mode(g, (0, 1))(parameters, X)
        shapes = tree.map(lambda leaf: leaf.shape, found)

        def row(*shape: int) -> Any:
            return ({"b": (*shape, 2), "w": (*shape, 3, 2)}, (*shape, 2, 3))

        assert shapes == {"h": row(2, 2), "parts": (row(), row(2))}
        same(found["parts"][0][0]["w"], np.repeat(X.sum(0)[:, None], 2, 1))
        same(found["parts"][1][0], {"b": 2 * np.eye(2), "w": np.zeros((2, 3, 2))})
        same(found["h"][1], differences(lambda x: g(parameters, x)["h"], X), 1e-8)
        single = mode(g)(parameters, X)
        same(single["h"], found["h"][0])

    @pytest.mark.xla
    def test_aux_and_keywords(self, mode: Any) -> None:
        def g(x: Any, *, power: int) -> Any:
            return x**power, {"sum": x.sum()}

        jacobian, aux = mode(g, has_aux=True)(X[0], power=2)
        same(jacobian, np.diag(2 * X[0]))
        same(aux, {"sum": X[0].sum()})

    @pytest.mark.xla
    def test_scalars_and_empty_arrays(self, mode: Any) -> None:
        same(mode(lambda x: x**3)(2.0), np.array(12.0))
        assert mode(lambda x: x * 2)(np.zeros(0)).shape == (0, 0)
        assert mode(lambda x: x.sum())(np.zeros((0, 3))).shape == (0, 3)

    @pytest.mark.xla
    def test_result_that_depends_on_nothing(self, mode: Any) -> None:
        same(mode(lambda x: (tnp.ones(2), x))(X[0]), (np.zeros((2, 3)), np.eye(3)))

    @pytest.mark.xla
    def test_holomorphic(self, mode: Any) -> None:
        z = X[0] + 1j * X[1]
        same(mode(lambda z: z**3, holomorphic=True)(z), np.diag(3 * z**2))

    @pytest.mark.xla
    def test_float32(self, mode: Any) -> None:
        same(mode(tnp.square)(X.astype("float32")[0]), np.diag(2 * X[0].astype("float32")), 1e-6)

    @pytest.mark.xla
    def test_through_scan_cond_and_indices(self, mode: Any) -> None:
        def g(x: Any) -> Any:
            def step(carry: Any, row: Any) -> Any:
                carry = tracer.cond(row[0] > 0, tnp.sin, lambda c: c * 2, carry + row)
                return carry, tnp.sort(carry)

            return tracer.scan(step, tnp.ones(3), x)[1][tnp.array([1, 0, 1])]

        same(mode(g)(X), differences(g, X), 1e-8)

    @pytest.mark.xla
    def test_inside_of_vmap_grad_and_compile(self, mode: Any) -> None:
        def penalty(w: Any) -> Any:
            return (tracer.vmap(mode(f), (0, None))(X[:, None], w) ** 2).sum()

        tracer.check_grads(penalty, (W,), order=1)
        same(tracer.compile(penalty)(W), np.asarray(penalty(tnp.asarray(W))))

    @pytest.mark.xla
    def test_under_a_memory_limit(self, mode: Any) -> None:
        x = RNG.standard_normal(400)

        def total(x: Any) -> Any:
            table = mode(lambda x: tnp.sin(x * x[0]) + x[1])(x)
            return (table**2).sum()

        limited = tracer.compile(total, memory_limit="300kB")
        same(limited(x), tracer.compile(total)(x), 1e-9)
        # The Jacobian alone takes 1.28 MB.
        assert limited.plan(x).peak_bytes <= 300_000

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda mode: mode(3), DTypeError, "takes a function"),
            (lambda mode: mode(f, 2)(X, W), ArgumentError, "argnums 2 is out of range"),
            (lambda mode: mode(f, "x"), DTypeError, "argnums is an integer"),
            (lambda mode: mode(tnp.sin)(np.arange(3)), DTypeError, r"argument 0 is int64\[3\]"),
            (lambda mode: mode(tnp.argmax)(X), DTypeError, r"returned int64\[\]"),
            (lambda mode: mode(tnp.sin, holomorphic=True)(X), DTypeError, "not complex"),
            (lambda mode: mode(lambda x: "a")(X), DTypeError, "returned 'a'"),
            (lambda mode: mode(tnp.sin, has_aux=True)(X), DTypeError, "has_aux=True"),
            (lambda mode: mode(lambda s: 1.0)("a"), DTypeError, "argument 0 is 'a'"),
        ],
    )
    def test_errors(
        self, mode: Any, call: Callable[[Any], Any], error: type[TracerError], message: str
    ) -> None:
        with pytest.raises(error, match=message) as caught:
            call(mode)
        assert caught.value.mend


def test_jacobian_is_jacrev() -> None:
    assert jacobian is jacrev


@pytest.mark.xla
def test_integers_are_allowed_on_request() -> None:
    def g(n: Any, x: Any) -> Any:
        return x * n

    found = jacrev(g, (0, 1), allow_int=True)(np.arange(3), X[0])
    same(found, (np.zeros((3, 3), "int64"), np.diag(np.arange(3.0))))


@pytest.mark.xla
def test_complex_arguments_of_a_real_function() -> None:
    z = X[0] + 1j * X[1]
    same(jacrev(lambda z: tnp.abs(z) ** 2)(z), np.diag(2 * z.conj()))
    with pytest.raises(DTypeError, match=r"argument 0 is complex128.* which is complex"):
        jacfwd(lambda z: tnp.abs(z) ** 2)(z)


@pytest.mark.xla
def test_complex_results_of_real_arguments() -> None:
    same(jacfwd(lambda x: x * 2j)(X[0]), 2j * np.eye(3))
    with pytest.raises(DTypeError, match=r"returned complex128.* which is complex"):
        jacrev(lambda x: x * 2j)(X[0])


@pytest.mark.xla
def test_loops_without_a_gradient_say_so() -> None:
    def g(x: Any) -> Any:
        return tracer.while_loop(lambda x: x < 9, lambda x: x * 2, x)

    with pytest.raises(NotDifferentiableError, match="scan or fori_loop"):
        jacrev(g)(1.0)
    assert float(jacfwd(g)(1.0)) == 16.0


@pytest.mark.xla
class TestHessian:
    def test_finite_differences(self) -> None:
        def g(x: Any) -> Any:
            return (tnp.sin(x @ W) ** 2).sum() * x[0, 0]

        found = hessian(g)(X)
        assert found.shape == (2, 3, 2, 3)
        same(found, differences(tracer.grad(g), X), 1e-8)
        same(found, np.transpose(np.asarray(found), (2, 3, 0, 1)))

    def test_structure(self) -> None:
        def g(p: dict[str, Any], y: Any) -> Any:
            return (p["a"] * p["b"] * y).sum(), p["a"].sum()

        p = {"a": X[0], "b": X[1]}
        first, second = hessian(g, (0, 1))(p, 2.0)
        same(first[0]["a"][0]["b"], 2 * np.eye(3))
        same(first[1][0], {"a": X[1], "b": X[0]})
        same(second, tree.map(lambda leaf: np.zeros(leaf.shape), second))

    def test_aux(self) -> None:
        found, aux = hessian(lambda x: ((x**3).sum(), x), has_aux=True)(X[0])
        same(found, np.diag(6 * X[0]))
        same(aux, X[0])

    def test_for_each_element_of_a_batch(self) -> None:
        found = tracer.vmap(hessian(lambda x: (x**4).sum()))(X)
        same(found, np.stack([np.diag(12 * x**2) for x in X]))


def test_against_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    def programs(lib: Any, np_like: Any) -> list[Any]:
        def g(p: Any, x: Any) -> Any:
            return {"y": np_like.tanh(x @ p["w"]), "n": (p["b"] ** 2).sum()}

        def real(z: Any) -> Any:
            return np_like.abs(np_like.sum(z * z))

        p, z = {"w": W, "b": X[0]}, X + 1j * X[::-1]
        return [
            lib.jacrev(g, (0, 1))(p, X),
            lib.jacfwd(g, (0, 1))(p, X),
            lib.jacrev(g)(p, X),
            lib.hessian(lambda *a: g(*a)["y"].sum(), (0, 1))(p, X),
            lib.hessian(g)(p, X),
            lib.jacrev(real)(z),
            lib.jacfwd(lambda z: z**2, holomorphic=True)(z),
            lib.jacfwd(lambda x: x * (1 + 2j))(X),
            lib.jacrev(lambda x: (x, (x * 2).sum()), has_aux=True)(X[0]),
        ]

    for ours, theirs in zip(programs(tracer, tnp), programs(jax, jax.numpy), strict=True):
        same(ours, tree.map(np.asarray, theirs))
