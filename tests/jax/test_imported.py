"""`tracer.jax.from_jax`: functions of JAX among those of tracer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tracer import errors

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import tracer  # noqa: E402
import tracer.jax  # noqa: E402
import tracer.numpy as tnp  # noqa: E402


def body(params, x, *, power=2):
    return {"y": jnp.tanh(params["w"] @ x) ** power}


def test_it_takes_part_in_functions_of_tracer() -> None:
    imported = tracer.jax.from_jax(body, static_argnames="power")

    def loss(params, x):
        return tnp.sum(imported(params, tnp.exp(x), power=3)["y"])

    w, x = np.eye(3), np.array([0.1, 0.2, 0.3])
    found = tracer.compile(tracer.grad(loss), memory_limit="1MB")({"w": w}, x)
    with jax.enable_x64(True):
        wanted = jax.grad(lambda w: body({"w": w}, jnp.exp(x), power=3)["y"].sum())(w)
    # With x64 off JAX computes in float32, and so does the imported function.
    np.testing.assert_allclose(found["w"], wanted, rtol=1e-5)


def test_with_x64_off_it_computes_what_jax_computes() -> None:
    imported = tracer.jax.from_jax(jnp.sin)
    assert imported(np.ones(3)).dtype == np.float32
    with jax.enable_x64(True):
        assert imported(np.ones(3)).dtype == np.float64


def test_vmap_jvp_and_hessian() -> None:
    with jax.enable_x64(True):
        f = tracer.jax.from_jax(lambda x: jnp.sin(x).prod())
        x = np.array([0.3, 0.5, 0.9])
        wanted = jax.hessian(lambda x: jnp.sin(x).prod())(x)
        np.testing.assert_allclose(tracer.hessian(f)(x), wanted, rtol=1e-12)
        _, tangent = tracer.jvp(f, (x,), (np.ones(3),))
        np.testing.assert_allclose(
            tangent, jax.jvp(lambda x: jnp.sin(x).prod(), (x,), (np.ones(3),))[1], rtol=1e-12
        )
        rows = np.stack([x, 2 * x])
        wanted = jax.vmap(lambda x: jnp.sin(x).prod())(rows)
        np.testing.assert_allclose(tracer.vmap(f)(rows), wanted, rtol=1e-12)


@jax.custom_vjp
def wrong_on_purpose(x):
    return jnp.sin(x)


wrong_on_purpose.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (7 * g,))


@jax.custom_jvp
def scaled(x, n):
    return x * n


scaled.defjvp(lambda p, t: (scaled(*p), 5 * t[0]))


def test_custom_rules_are_the_derivatives() -> None:
    f = tracer.jax.from_jax(lambda x: wrong_on_purpose(x).sum())
    assert tracer.grad(f)(np.ones(2)).tolist() == [7, 7]
    g = tracer.jax.from_jax(lambda x: scaled(x, jnp.int32(3)))
    assert float(tracer.grad(g)(2.0)) == 5.0
    assert float(tracer.jvp(g, (2.0,), (1.0,))[1]) == 5.0


def test_custom_rules_in_loops_and_branches() -> None:
    def f(x):
        y, _ = jax.lax.scan(lambda c, _: (wrong_on_purpose(c), None), x, length=2)
        return jax.lax.cond(x > 0, wrong_on_purpose, jnp.cos, y)

    assert float(tracer.grad(tracer.jax.from_jax(f))(0.5)) == 343.0


@pytest.mark.parametrize("policy", [None, "dots_saveable", "everything_saveable", "names", "own"])
def test_checkpoints_keep_what_the_policy_says(policy) -> None:
    policies = jax.checkpoint_policies
    chosen = {
        None: None,
        "names": policies.save_only_these_names("kept"),
        "own": lambda primitive, *_, **__: primitive.name == "sin",
    }.get(policy, getattr(policies, str(policy), None))

    def layer(w, x):
        from jax.ad_checkpoint import checkpoint_name

        return jnp.sin(jnp.exp(w @ checkpoint_name(jnp.sin(w @ x), "kept")))

    f = jax.checkpoint(layer, policy=chosen)
    w, x = np.eye(2, dtype=np.float32), np.array([0.1, 0.2], np.float32)
    imported = tracer.jax.from_jax(lambda w: f(w, x).sum())
    found = tracer.grad(imported)(w)
    np.testing.assert_allclose(found, jax.grad(lambda w: layer(w, x).sum())(w), rtol=1e-5)
    graph = tracer.compile(tracer.value_and_grad(imported)).graph(w)
    counts = Counter(node.op.name for node in graph.nodes)
    # The value takes one exponential; where it is not kept the gradient computes it again.
    assert counts["exponential"] == (1 if policy == "everything_saveable" else 2), counts
    # What "kept" names is not computed again.
    assert counts["sine"] == (3 if policy in (None, "dots_saveable") else 2), counts


def test_offloading_is_refused() -> None:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["x"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    f = jax.checkpoint(
        lambda x: jnp.sin(jax.ad_checkpoint.checkpoint_name(jnp.sin(x), "x")), policy=policy
    )
    with pytest.raises(errors.UnsupportedError, match="another memory"):
        tracer.grad(tracer.jax.from_jax(f))(1.0)


def test_too_high_orders_of_custom_rules_are_refused() -> None:
    f = tracer.jax.from_jax(jnp.sinc)
    g = tracer.grad(tracer.grad(tracer.grad(f)))
    with jax.enable_x64(True):
        wanted = jax.grad(jax.grad(jax.grad(jnp.sinc)))(0.3)
        assert abs(float(g(0.3)) - float(wanted)) < 1e-9
        with pytest.raises(errors.NotDifferentiableError, match="order"):
            tracer.grad(g)(0.3)


def test_a_foreign_primitive_keeps_its_derivative_whatever_its_name() -> None:
    from jax.extend.core import Primitive
    from jax.interpreters import ad

    sine = Primitive("sin")  # A name of JAX's own: it is not taken for that.
    sine.def_impl(lambda x: jnp.sin(x) + 1)
    sine.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[sine] = lambda p, t: (sine.bind(*p), 7 * t[0])
    f = tracer.jax.from_jax(lambda x: sine.bind(x))
    assert abs(float(f(0.5)) - np.sin(0.5) - 1) < 1e-6
    assert float(tracer.grad(f)(0.5)) == 7.0


def test_errors() -> None:
    with pytest.raises(errors.DTypeError, match="function"):
        tracer.jax.from_jax(3)
    with pytest.raises(errors.UnsupportedError, match="eig with compute_left"):
        tracer.jax.from_jax(jax.lax.linalg.eig)(np.eye(3))
