"""`tracer.jax.limit`: what it takes, what it says, and what it does not touch."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tracer import errors

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import tracer  # noqa: E402
import tracer.jax  # noqa: E402

X = np.linspace(0, 1, 1000, dtype=np.float32)


def kernel(x, v):
    return jnp.exp(-((x[:, None] - x[None, :]) ** 2)) @ v


def test_the_limit_is_kept_and_the_plan_names_the_users_line() -> None:
    limited = tracer.jax.limit(kernel, memory_limit="1MB")
    found = limited(X, X)
    np.testing.assert_allclose(found, kernel(jnp.asarray(X), jnp.asarray(X)), rtol=1e-5)
    plan = limited.plan(X, X)
    assert plan.compiled_bytes <= 1_000_000
    assert "test_limit.py:" in str(plan)
    assert "in kernel: return jnp.exp" in str(plan)


def test_types_plan_without_data() -> None:
    type = jax.ShapeDtypeStruct((1000,), "float32")
    limited = tracer.jax.limit(kernel, memory_limit="1MB")
    assert limited.plan(type, type).peak_bytes < 10**6
    with pytest.raises(errors.ArgumentError, match="no data"):
        limited(type, type)


def sorts_everything(x):
    return jnp.sort(jnp.exp(x[:, None] - x[None, :]).ravel())[::1000].max()


def test_a_limit_that_cannot_be_met_says_where() -> None:
    with pytest.raises(errors.MemoryLimitError) as caught:
        tracer.jax.limit(sorts_everything, memory_limit="1MB")(X)
    assert "test_limit.py:" in str(caught.value)
    assert "test_limit.py:" in " ".join(caught.value.alive)


def test_a_refused_limit_proposes_arguments_of_the_call_to_donate() -> None:
    def scaled(n, small, state, *, scale):
        return {"a": state["a"] * n + small.sum(), "b": state["b"] * scale}

    limited = tracer.jax.limit(scaled, memory_limit="140kB", static_argnums=0)
    state = {"a": jnp.ones(10_000), "b": jnp.ones(10_000)}
    with pytest.raises(errors.MemoryLimitError, match=r"donate_argnums=2\b") as caught:
        limited(3, jnp.ones(10), state, scale=2.0)
    assert "donate_argnums=2" in " ".join(caught.value.changes)
    with pytest.raises(errors.MemoryLimitError, match="donate_argnames='state'"):
        limited(3, small=jnp.ones(10), scale=2.0, state=state)
    limited = tracer.jax.limit(scaled, memory_limit="140kB", static_argnums=0, donate_argnums=2)
    assert limited(3, jnp.ones(10), state, scale=2.0)["a"][0] == 13


def test_check_compares_with_jit() -> None:
    found = tracer.jax.limit(kernel, memory_limit="1MB").check(X, X)
    assert found
    assert "float32[1000]" in str(found)


def test_check_sees_what_is_wrong(monkeypatch) -> None:
    limited = tracer.jax.limit(lambda x: {"a": x + 1, "b": x})
    monkeypatch.setattr(type(limited), "__call__", lambda self, x: {"a": x + 1.1, "b": x})
    found = limited.check(jnp.ones(3))
    assert not found
    assert [output.within_rounding for output in found.outputs] == [False, True]


def test_pytrees_static_arguments_and_keywords() -> None:
    def f(state, n, *, scale, flag):
        result = {"x": state["x"] * n + scale, "none": None, "n": (state["y"][0],)}
        return result if flag else state

    limited = tracer.jax.limit(f, static_argnums=1, static_argnames=("flag",))
    jitted = jax.jit(f, static_argnums=1, static_argnames=("flag",))
    state = {"x": jnp.arange(3.0), "y": [np.int32(4), 2.5]}
    for flag in (True, False):
        found = limited(state, 3, scale=2.0, flag=flag)
        wanted = jitted(state, 3, scale=2.0, flag=flag)
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert (x.dtype, x.weak_type) == (y.dtype, y.weak_type)
            np.testing.assert_array_equal(x, y)


def test_static_names_may_come_by_position() -> None:
    limited = tracer.jax.limit(lambda x, n: x * n if n > 1 else x, static_argnames="n")
    assert limited(jnp.ones(2), 3).tolist() == [3, 3]
    assert limited(jnp.ones(2), n=1).tolist() == [1, 1]


def test_results_are_jax_arrays_in_the_same_memory() -> None:
    result = tracer.jax.limit(lambda x: x + 1)(jnp.ones(1000))
    assert isinstance(result, jax.Array)
    again = tracer.jax.limit(lambda x: x * 2)(result)
    assert float(again[0]) == 4.0
    assert jax.jit(lambda x: x + 1)(again)[0] == 5.0


def test_arguments_are_shared_and_never_written() -> None:
    x = jnp.arange(1000.0)
    before = np.array(x)
    shared = tracer.jax.handover.from_jax_array(x)
    assert shared._buffer.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    tracer.jax.limit(lambda x: x.at[3].set(7.0))(x)
    tracer.jax.limit(lambda x: lax.fori_loop(0, 9, lambda i, s: s.at[i].add(1.0), x))(x)
    np.testing.assert_array_equal(x, before)


def test_donated_arguments_are_gone_and_others_are_not() -> None:
    limited = tracer.jax.limit(lambda x, y: x.at[0].add(y[0]), donate_argnums=0)
    x, y = jnp.ones(1000), jnp.ones(1000)
    alias = np.asarray(jnp.ones(1000))
    result = limited(x, y)
    assert float(result[0]) == 2.0
    assert x.is_deleted()
    assert not y.is_deleted()
    assert float(y[0]) == 1.0
    assert alias[0] == 1.0
    plan = limited.plan(jax.ShapeDtypeStruct((1000,), "float32"), y)
    assert plan.peak_bytes < 3 * 4000


def test_a_donated_array_outlives_a_limit_that_is_refused() -> None:
    x = jnp.ones(1000)
    with pytest.raises(errors.MemoryLimitError):
        tracer.jax.limit(lambda x: x + 1, memory_limit=100, donate_argnums=0)(x)
    assert float(x.sum()) == 1000


def test_a_deleted_array_is_refused() -> None:
    x = jnp.ones(3)
    limited = tracer.jax.limit(lambda x, y: x + y, donate_argnums=0)
    with pytest.raises(errors.ArgumentError, match="given twice, once to be donated"):
        limited(x, x)
    with pytest.raises(errors.ArgumentError, match="no data"):
        limited(x, jax.ShapeDtypeStruct((3,), "float32"))
    assert float(limited(x, jnp.ones(3)).sum()) == 6  # What is refused has taken nothing.
    with pytest.raises(errors.ArgumentError, match=r"float32\[3\] was donated before"):
        limited(x, jnp.ones(3))


def test_a_donated_array_that_numpy_sees_keeps_its_numbers() -> None:
    x = jnp.zeros(1000)
    seen = np.asarray(x)
    tracer.jax.limit(lambda x: x + 1, donate_argnums=0)(x)
    assert not seen.any()


def test_closed_over_arrays_are_inputs() -> None:
    big = jnp.ones((300, 300))
    limited = tracer.jax.limit(lambda x: big @ x)
    assert float(limited(jnp.ones(300))[0]) == 300
    (program,) = limited._programs.values()
    text = program.function.stablehlo(tracer.ShapeDtype((300,), "float32"))
    assert text.count("tensor<300x300xf32>") >= 1
    assert "dense<1.0" not in text.replace("dense<1.0> : tensor<f32>", "")
    assert len(re.findall(r"%arg\d+: tensor<300x300xf32>", text)) == 1


def test_x64_off_and_on() -> None:
    f = tracer.jax.limit(lambda x: (x * 2, jnp.arange(3), 1.5))
    assert [r.dtype.name for r in f(np.ones(2))] == ["float32", "int32", "float32"]
    with jax.enable_x64(True):
        assert [r.dtype.name for r in f(np.ones(2))] == ["float64", "int64", "float64"]


def test_one_program_for_one_signature() -> None:
    limited = tracer.jax.limit(lambda x: x + 1)
    for _ in range(3):
        limited(jnp.ones(3))
    limited(np.ones(3, np.float32))
    assert len(limited._programs) == 1
    limited(jnp.ones(4))
    assert len(limited._programs) == 2


def prints(x):
    jax.debug.print("x = {}", x, ordered=True)
    return x


def calls_back(x):
    return jax.experimental.io_callback(lambda y: y, jax.ShapeDtypeStruct((3,), "float32"), x)


def several(x):
    y = jax.experimental.io_callback(lambda y: y, jax.ShapeDtypeStruct((3,), "float32"), x)
    return jax.ffi.ffi_call("a_library", jax.ShapeDtypeStruct((3,), "float32"))(y)


def over_devices(x):
    return lax.psum(x, "i")


def branches(x):
    if x.sum() > 0:
        return x
    return -x


def leaks(x):
    LEAKED.append(x)
    return x


LEAKED: list = []
LETTERS = {
    "debug.print": (prints, errors.UnsupportedError, "debug_", "jax.debug.print"),
    "a callback": (calls_back, errors.UnsupportedError, "io_callback", "return jax.exp"),
    "two at once": (
        several, errors.UnsupportedError, "io_callback.*also JAX's ffi_call", "y = jax.exp"),
    "an if": (branches, errors.TracingError, "traced array", "if x.sum"),
    "left vectors": (
        lambda x: jax.lax.linalg.eig(jnp.outer(x, x)), errors.UnsupportedError,
        "eig with compute_left", "jax.lax.linalg.eig"),
}  # fmt: skip


def test_collectives_of_a_named_batch_are_those_of_its_axis() -> None:
    def normalised(x):
        fixed = lax.stop_gradient(x)
        width = lax.pmax(fixed, "i") - lax.pmin(fixed, "i")
        return (x - lax.pmean(x, "i")) / width + lax.psum(x > 0, "i")

    def loss(x):
        return jnp.sum(jax.vmap(jax.vmap(normalised, axis_name="i"))(x) ** 2)

    x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 7)), "float32")
    found = tracer.jax.limit(jax.value_and_grad(loss))(x)
    wanted = jax.jit(jax.value_and_grad(loss))(x)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-4, atol=1e-5)


def test_collectives_of_a_name_outside_are_refused() -> None:
    limited = tracer.jax.limit(over_devices)
    with pytest.raises(errors.UnsupportedError, match=r"psum(.|\n)*return lax.psum"):
        jax.vmap(limited, axis_name="i")(jnp.ones(3))


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_keys_of_other_generators_give_jaxs_numbers(impl: str) -> None:
    def draws(seed):
        first, second = jax.random.split(jax.random.key(seed, impl=impl))
        rows = jax.vmap(lambda key: jax.random.bits(key, (5,)))(jax.random.split(first, 3))
        folded = jax.random.key_data(jax.random.fold_in(second, 3))
        return (
            jax.random.uniform(second, (3, 5)),
            rows,
            folded,
            jax.random.bits(first, (9,), "uint8"),
        )

    found, wanted = tracer.jax.limit(draws)(7), jax.jit(draws)(7)
    jax.tree.map(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize("name", LETTERS)
def test_letters(name: str) -> None:
    function, kind, pattern, line = LETTERS[name]
    with pytest.raises(kind) as caught:
        tracer.jax.limit(function)(jnp.ones(3))
    letter = str(caught.value)
    assert re.search(pattern, letter), letter
    assert "where: test_limit.py:" in letter, letter
    assert line in letter, letter
    assert "mend:" in letter


def test_primitives_of_other_packages_are_what_they_say() -> None:
    from jax.extend.core import Primitive

    doubled = Primitive("doubled")
    doubled.def_impl(lambda x, *, times: jnp.sin(x) * times)
    doubled.def_abstract_eval(lambda x, **_: x)
    opaque = Primitive("opaque")
    opaque.def_impl(lambda x: np.asarray(x) + 1)
    opaque.def_abstract_eval(lambda x: x)

    found = tracer.jax.limit(lambda x: doubled.bind(x, times=3))(jnp.ones(3))
    np.testing.assert_allclose(found, np.sin(np.ones(3)) * 3, rtol=1e-6)
    with pytest.raises(errors.UnsupportedError, match="opaque"):
        tracer.jax.limit(lambda x: opaque.bind(x))(jnp.ones(3))


def test_shard_map_and_collectives_are_refused() -> None:
    spec = jax.sharding.PartitionSpec()
    f = jax.shard_map(over_devices, mesh=mesh_of_one(), in_specs=spec, out_specs=spec)
    with pytest.raises(errors.UnsupportedError, match="shard_map"):
        tracer.jax.limit(f)(jnp.ones(3))


def mesh_of_one():
    return jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))


def test_a_sharding_over_one_device_says_nothing() -> None:
    place = jax.sharding.NamedSharding(mesh_of_one(), jax.sharding.PartitionSpec("i"))

    def f(x):
        return lax.with_sharding_constraint(jax.device_put(x, jax.devices()[0]) + 1, place)

    assert tracer.jax.limit(f)(jnp.ones(3)).tolist() == [2, 2, 2]


def test_what_is_no_function_or_no_array() -> None:
    with pytest.raises(errors.DTypeError, match="takes a function"):
        tracer.jax.limit(3)
    with pytest.raises(errors.ArgumentError, match="elephants"):
        tracer.jax.limit(kernel, memory_limit="4 elephants")
    with pytest.raises(errors.DTypeError, match="mend"):
        tracer.jax.limit(lambda x: x)("text")


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "bfloat16", "float16", "complex64", "float8_e5m2"]
)
def test_dtypes_go_over_and_come_back(dtype: str) -> None:
    x = jnp.asarray(np.array([0, 1, 3]), dtype)
    result = tracer.jax.limit(lambda x: (x, jnp.flip(x)))(x)
    assert [r.dtype.name for r in result] == [dtype, dtype]
    np.testing.assert_array_equal(
        np.asarray(result[1]).astype(complex)[::-1], np.asarray(x).astype(complex)
    )


def test_dot_precision_is_kept_or_refused() -> None:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((64, 64)), "float32")

    def product(precision):
        return lambda x: jnp.dot(x, x, precision=precision)

    exact = np.asarray(x, np.float64) @ np.asarray(x, np.float64)
    for precision in (None, "default", "high", "highest", "F32_F32_F32"):
        result = tracer.jax.limit(product(precision))(x)
        assert np.abs(np.asarray(result) - exact).max() < 1e-4
    for precision in ("TF32_TF32_F32", "BF16_BF16_F32", "BF16_BF16_F32_X3"):
        with pytest.raises(errors.UnsupportedError, match=precision):
            tracer.jax.limit(product(precision))(x)


def test_total_order_comparisons_tell_zeros_and_nans_apart() -> None:
    values = np.array([-np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan], np.float32)
    values[0] = np.copysign(np.float32(np.nan), np.float32(-1))
    from jax.extend.core import primitives

    def less(x):
        return primitives.lt_to_p.bind(x[:-1], x[1:])

    assert tracer.jax.limit(less)(values).all()
    assert not tracer.jax.limit(lambda x: primitives.lt_to_p.bind(x[1:], x[:-1]))(values).any()


def test_failures_of_lapack_are_nan() -> None:
    singular = jnp.asarray([[1.0, 2.0], [2.0, 1.0]])
    found = tracer.jax.limit(jnp.linalg.cholesky)(singular)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(jnp.linalg.cholesky(singular)))
    zeros = jnp.zeros((2, 2))
    np.testing.assert_array_equal(tracer.jax.limit(jnp.linalg.inv)(zeros), jnp.linalg.inv(zeros))


def test_gradients_of_sorts_of_nothing() -> None:
    def f(x):
        return (jnp.sort(x, axis=1) ** 2).sum()

    x = jnp.zeros((3, 0))
    assert tracer.jax.limit(jax.grad(f))(x).shape == x.shape
    assert tracer.jax.limit(jax.hessian(f))(x).shape == x.shape * 2


def test_a_plan_and_a_call_are_one_program() -> None:
    limited = tracer.jax.limit(lambda x: x + jnp.arange(3))
    limited.plan(jnp.ones(3))
    limited(jnp.ones(3))
    jax.jit(limited)(jnp.ones(3))
    assert len(limited._programs) == 1


def test_what_a_function_makes_is_not_made_when_it_is_traced() -> None:
    """JAX folds no constants within a trace, and so it must be."""
    limited = tracer.jax.limit(lambda x: x + jnp.zeros((1000, 1000)).sum(), memory_limit="100kB")
    for call in (limited, jax.jit(limited)):
        call(jnp.ones(3))
    made = [*limited._programs.values()]
    made += [p for _, i in limited._insides.values() for p in i.limited._programs.values()]
    assert len(made) == 2
    assert not any(program.jaxpr.consts for program in made)
