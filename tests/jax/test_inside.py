"""Limited functions within jit, grad, vmap and each other."""

from __future__ import annotations

import numpy as np
import pytest

from tracer import errors

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import tracer  # noqa: E402
import tracer.jax  # noqa: E402

RNG = np.random.default_rng(0)
W = jnp.asarray(RNG.standard_normal((4, 3)), "float32")
X = jnp.asarray(RNG.standard_normal((50, 4)), "float32")


def loss(params, x, scale):
    h = jnp.tanh(x @ params["w"]) * scale
    return {"loss": (h**2).mean(), "h": h.sum(0), "n": jnp.int32(3)}


LIMITED = tracer.jax.limit(loss, memory_limit="100kB")


def total(f):
    return lambda params, x: f(params, x, 2)["loss"] + f(params, x, 1)["h"].sum()


def assert_close(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


def test_jit() -> None:
    assert_close(jax.jit(total(LIMITED))({"w": W}, X), total(loss)({"w": W}, X))


def test_grad() -> None:
    wanted = jax.grad(total(loss), argnums=(0, 1))({"w": W}, X)
    assert_close(jax.grad(total(LIMITED), argnums=(0, 1))({"w": W}, X), wanted)
    assert_close(jax.jit(jax.grad(total(LIMITED), argnums=(0, 1)))({"w": W}, X), wanted)


def test_vmap() -> None:
    xs = jnp.stack([X, 2 * X])
    wanted = jax.vmap(total(loss), in_axes=(None, 0))({"w": W}, xs)
    assert_close(jax.vmap(total(LIMITED), in_axes=(None, 0))({"w": W}, xs), wanted)
    assert_close(jax.jit(jax.vmap(total(LIMITED), in_axes=(None, 0)))({"w": W}, xs), wanted)


def test_jit_of_vmap_of_grad() -> None:
    xs = jnp.stack([X, 2 * X])
    made = [jax.jit(jax.vmap(jax.grad(total(f)), in_axes=(None, 0))) for f in (LIMITED, loss)]
    assert_close(made[0]({"w": W}, xs), made[1]({"w": W}, xs))


def test_second_derivatives() -> None:
    f = tracer.jax.limit(lambda x: jnp.sin(x).prod())
    x = jnp.asarray([0.3, 0.5])
    wanted = jax.jacrev(jax.grad(lambda x: jnp.sin(x).prod()))(x)
    assert_close(jax.jacrev(jax.grad(f))(x), wanted)


def test_a_batch_is_planned_as_a_whole() -> None:
    limited = tracer.jax.limit(
        lambda x: jnp.exp(x[:, None] - x[None, :]).sum(), memory_limit="90kB"
    )
    with pytest.raises(errors.MemoryLimitError):
        jax.vmap(limited)(jnp.ones((100, 1000)))


def test_random_keys_and_integers() -> None:
    def noisy(key, x, i):
        return x[i] * jax.random.normal(key, (3,)), key

    limited = tracer.jax.limit(noisy)
    key, x, i = jax.random.key(1), jnp.arange(5.0), jnp.int32(2)
    wanted = jax.jit(noisy)(key, x, i)
    found = jax.jit(limited)(key, x, i)
    assert_close(found[0], wanted[0])
    assert (jax.random.key_data(found[1]) == jax.random.key_data(key)).all()
    slope = jax.grad(lambda x: limited(key, x, i)[0].sum())(x)
    assert_close(slope, jax.grad(lambda x: noisy(key, x, i)[0].sum())(x))


def test_static_arguments() -> None:
    limited = tracer.jax.limit(lambda x, n, *, m: x**n * m, static_argnums=1, static_argnames="m")
    assert float(jax.grad(lambda x: limited(x, 3, m=2))(2.0)) == 24.0
    assert float(jax.jit(lambda x: limited(x, 2, m=3))(2.0)) == 12.0


def test_errors_come_when_the_outer_function_is_traced() -> None:
    limited = tracer.jax.limit(
        lambda x: jnp.sort(jnp.outer(x, x).ravel())[::7].sum(), memory_limit="30kB"
    )
    with pytest.raises(errors.MemoryLimitError) as caught:
        jax.jit(limited)(jnp.ones(1000))
    assert caught.value.where.file == __file__
    with pytest.raises(errors.UnsupportedError, match="eig with compute_left"):
        jax.jit(tracer.jax.limit(jax.lax.linalg.eig))(jnp.eye(3))


def test_a_limit_within_a_limit_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="__wrapped__"):
        tracer.jax.limit(lambda x: LIMITED({"w": W}, x, 1)["loss"])(X)
    whole = tracer.jax.limit(lambda x: LIMITED.__wrapped__({"w": W}, x, 1)["loss"])
    assert_close(whole(X), loss({"w": W}, X, 1)["loss"])


def test_programs_are_made_once() -> None:
    limited = tracer.jax.limit(lambda x: (x**2).sum())
    for _ in range(3):
        jax.grad(limited)(X)
    ((_, inside),) = limited._insides.values()
    assert len(inside.limited._programs) == 1
    (pull_back,) = inside.pull_backs.values()
    assert len(pull_back._programs) == 1


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap], ids=["jit", "grad", "vmap"])
def test_constants_of_numpy(transform) -> None:
    """JAX makes values of the outer trace of them where nobody looks."""

    def f(x):
        keys = jax.random.wrap_key_data(np.zeros((2, 2), np.uint32))
        noise = jax.vmap(jax.random.normal)(keys).sum()
        return (x * np.arange(3.0)).sum() + jnp.array([1.0, 2.0])[np.array([1])].sum() + noise

    x = jnp.ones((3,))
    x = jnp.stack([x, 2 * x]) if transform is jax.vmap else x
    assert_close(transform(lambda x: tracer.jax.limit(f)(x))(x), transform(f)(x))
    constant = tracer.jax.limit(f)
    outer = transform(lambda x: x.sum() * constant(np.ones(3, "float32")))
    assert_close(outer(x), transform(lambda x: x.sum() * f(np.ones(3, "float32")))(x))


def test_batches_of_several_sizes() -> None:
    limited = tracer.jax.limit(lambda x, s: jnp.sin(x).sum() * s)
    for size in (2, 5, 2):
        xs = jnp.arange(size * 3.0).reshape(size, 3)
        found = jax.vmap(jax.value_and_grad(limited), in_axes=(0, None))(xs, 2.0)
        assert_close(found, (2 * jnp.sin(xs).sum(1), 2 * jnp.cos(xs)))


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap], ids=["jit", "vmap"])
def test_containers_of_the_result_may_depend_on_shapes(transform) -> None:
    def f(x):
        return {"key": jax.random.key(0), "x": x} if x.shape[-1] == 2 else (x, x + 1)

    limited = tracer.jax.limit(f)
    for size in (2, 3, 2, 3):
        found = transform(lambda x: limited(x))(jnp.ones((1, size)))
        assert jax.tree.structure(found) == jax.tree.structure(f(jnp.ones(size)))
        assert jax.tree.leaves(found)[0].dtype == jax.tree.leaves(f(jnp.ones(size)))[0].dtype


def test_weak_types() -> None:
    limited = tracer.jax.limit(lambda x, s: (x * s, 2 * s))
    x = jnp.ones(3, "bfloat16")
    for transform in (jax.jit, lambda f: jax.vmap(f, in_axes=(0, None))):
        product, double = transform(limited)(x, 2.0)
        assert product.dtype == x.dtype
        assert (x * double).dtype == x.dtype


@pytest.mark.parametrize("transform", [jax.jit, jax.grad], ids=["jit", "grad"])
def test_a_closed_over_tracer_is_refused(transform) -> None:
    def outer(w):
        return tracer.jax.limit(lambda x: (x * w).sum())(X)

    with pytest.raises(errors.TracingError, match="closes over") as caught:
        transform(outer)(jnp.float32(2))
    assert caught.value.where.file == __file__


def test_a_step_with_its_loss_limited_and_as_a_whole() -> None:
    def step(loss_of):
        def run(params, x):
            slope = jax.grad(total(loss_of))(params, x)
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, slope)

        return run

    wanted = jax.jit(step(loss))({"w": W}, X)
    assert_close(jax.jit(step(LIMITED))({"w": W}, X), wanted)
    whole = tracer.jax.limit(step(loss), memory_limit="100kB", donate_argnums=0)
    assert_close(whole({"w": W.copy()}, X), wanted)
