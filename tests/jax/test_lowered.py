"""Primitives without a rule, by the StableHLO that JAX lowers them to."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
from tracer import errors

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.extend.core import Primitive  # noqa: E402
from jax.interpreters import mlir  # noqa: E402

import tracer.jax  # noqa: E402

A = np.random.default_rng(0).standard_normal((6, 4))
SHAPES = np.linspace(0.1, 5, 12)


def gradient_of_gamma(seed: Any, a: Any) -> Any:
    return jax.grad(lambda a: (jax.random.gamma(jax.random.key(seed), a) ** 2).sum())(a)


def gammas_of_keys(seed: Any, a: Any) -> Any:
    keys = jax.random.split(jax.random.key(seed), 3)
    return jax.vmap(lambda key: jax.random.gamma(key, a))(keys)


def window(start: float, function: Callable[..., Any], padding: str) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, start, function, (3, 2), (1, 2), padding)


def pairs_of_windows(x: Any) -> Any:
    def product_of_complex_numbers(a: Any, b: Any) -> Any:
        return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]

    start = 1.0, 0.0
    return lax.reduce_window((x, x / 2), start, product_of_complex_numbers, (2, 2), (1, 1), "SAME")


def applied_again(x: Any) -> Any:
    rows, columns = jnp.array([1, 1, 9, 0]), jnp.array([2, 2, 0, 3])
    return x.at[rows, columns].apply(lambda v: 3 * v + 1, mode="drop")


def applied_to_rows(x: Any) -> Any:
    return jax.vmap(lambda row, i: row.at[i].apply(jnp.cos))(x, jnp.array([0, 1, 2, 3, 0, 7]))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gamma": (lambda s, a: jax.random.gamma(jax.random.key(s), a), (3, SHAPES)),
    "gamma, raw key": (lambda a: jax.random.loggamma(jax.random.PRNGKey(1), a), (SHAPES,)),
    "gamma of a constant": (lambda s: jax.random.gamma(jax.random.key(s), SHAPES), (3,)),
    "gamma of keys": (gammas_of_keys, (3, SHAPES)),
    "gamma, gradient": (gradient_of_gamma, (3, SHAPES)),
    "beta": (lambda s, a: jax.random.beta(jax.random.key(s), a, 2.0), (5, SHAPES)),
    "geqrf": (lax.linalg.geqrf, (A,)) if hasattr(lax.linalg, "geqrf") else (jnp.sin, (A,)),
    "window, function": (window(-np.inf, jnp.logaddexp, "SAME"), (A,)),
    "window, not from its identity": (window(2.0, lax.add, "SAME"), (A,)),
    "window, unpadded": (window(2.0, lambda a, b: a * 0.5 + b, "VALID"), (A,)),
    "windows of pairs": (pairs_of_windows, (A,)),
    "apply": (lambda x: x.at[1:3, 0].apply(jnp.sin), (A,)),
    "apply, again": (applied_again, (A,)),
    "apply, in a batch": (applied_to_rows, (A,)),
    "apply to integers": (lambda x: x.at[2:4].apply(lambda v: v + 1), (np.arange(7),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_jax(name: str) -> None:
    function, arguments = PROGRAMS[name]
    found = jax.tree.leaves(tracer.jax.limit(function, memory_limit="10MB")(*arguments))
    wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-5 if x.dtype == np.float32 else 1e-12)


def test_the_derivative_is_jaxs() -> None:
    """That of a sampler is implicit: the steps of the sampler reject, and have another."""

    def loss(a: Any) -> Any:
        return (jax.random.gamma(jax.random.PRNGKey(3), a) ** 2).sum()

    found = tracer.grad(tracer.jax.from_jax(loss))(SHAPES)
    np.testing.assert_allclose(found, jax.grad(loss)(SHAPES), rtol=1e-6)


def test_one_application_has_a_gradient() -> None:
    def loss(x: Any) -> Any:
        return (x.at[1, 2].apply(jnp.sin) ** 2).sum()

    wanted = 2 * A
    wanted[1, 2] = 2 * np.sin(A[1, 2]) * np.cos(A[1, 2])
    found = tracer.grad(tracer.jax.from_jax(loss))(A)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_plans_and_errors_name_the_users_line() -> None:
    def draw(a: Any) -> Any:
        return jax.random.gamma(jax.random.key(0), a)

    text = str(tracer.jax.limit(draw).plan(np.ones(10000)))
    assert "test_lowered.py" in text, text
    calling = Primitive("calling")
    calling.def_abstract_eval(lambda x: x)
    library = jax.ffi.ffi_call("a_library", jax.ShapeDtypeStruct((3,), "float32"))
    mlir.register_lowering(calling, mlir.lower_fun(library, multiple_results=False))
    with pytest.raises(errors.UnsupportedError) as caught:
        tracer.jax.limit(lambda x: calling.bind(x))(jnp.ones(3))
    letter = str(caught.value)
    assert re.search("calling has no rule, and is lowered to .*@a_library", letter), letter
    assert "where: test_lowered.py:" in letter


def test_what_cannot_be_lowered_is_refused() -> None:
    unknown = Primitive("unknown")
    unknown.def_abstract_eval(lambda x: x)
    with pytest.raises(errors.UnsupportedError, match="unknown has no rule, and is not lowered"):
        tracer.jax.limit(lambda x: unknown.bind(x))(jnp.ones(3))

    lowered = Primitive("lowered")
    lowered.def_abstract_eval(lambda x: x)
    mlir.register_lowering(lowered, mlir.lower_fun(lambda x: x + 1, multiple_results=False))
    np.testing.assert_allclose(tracer.jax.limit(lambda x: lowered.bind(x))(jnp.ones(3)), 2.0)
    with pytest.raises(errors.NotDifferentiableError, match="lowered"):
        tracer.grad(tracer.jax.from_jax(lambda x: lowered.bind(x).sum()))(np.ones(3))
