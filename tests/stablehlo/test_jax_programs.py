"""The programs of benchmarks/jax_programs.py as JAX lowers and exports them, beside jax.jit.

CI runs one in four, or in eight; `.venv-jax/bin/python -m pytest -m peer tests/stablehlo` runs all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tracer
from tests.sampling import one_in

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from benchmarks.jax_comparison import compare  # noqa: E402
from benchmarks.jax_programs import PROGRAMS, Program  # noqa: E402

REFUSED = {
    "approximate top_k": "@ApproxTopK",
    "tridiagonal solve": "@lapack_dgtsv_ffi",
}
"""Programs that are refused, and what the message names."""
OTHER_GRADIENTS = {
    "cho_solve": "JAX's gradient of Cholesky's factor is not symmetric",
    "conjugate gradients": "a loop of unknown length; JAX differentiates the system instead",
    "custom_jvp": "the rule is not in the module",
    "custom_vjp": "the rule is not in the module",
    "custom_vjp with a function": "the rule is not in the module",
    "dirichlet of parameters": "a loop of unknown length; JAX differentiates the samples instead",
    "stop_gradient": "it is not in the module",
}
"""Programs whose gradients are others: a module says what is computed, no derivative."""
ONLY_FLOAT64 = {"bits of floats", "pad", "reduce with a function", "tridiagonal solve"}
BY_NAME = {program.name: program for program in PROGRAMS}
RIGHT = [name for name in BY_NAME if name not in REFUSED]
DIFFERENTIABLE = [
    name
    for name in RIGHT
    if name not in OTHER_GRADIENTS and BY_NAME[name].has_gradient
]  # fmt: skip


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def _words(x: Any) -> Any:
    return jax.random.key_data(x) if _is_key(x) else x


def _is_key(x: Any) -> bool:
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


@dataclass(frozen=True)
class Flat:
    """A program as a function of plain arrays, keys as their words, and its arguments."""

    function: Callable[..., list[Any]]
    arguments: list[Any]


def flat(program: Program, dtype: str = "float64") -> Flat:
    leaves, tree = jax.tree.flatten(program.arguments(dtype))
    keys = [str(jax.random.key_impl(leaf)) if _is_key(leaf) else "" for leaf in leaves]

    def function(*arrays: Any) -> list[Any]:
        wrapped = [
            jax.random.wrap_key_data(x, impl=impl) if impl else x
            for x, impl in zip(arrays, keys, strict=True)
        ]
        results = program.function(*jax.tree.unflatten(tree, wrapped))
        return [_words(leaf) for leaf in jax.tree.leaves(results)]

    return Flat(function, [_words(leaf) for leaf in leaves])


def lowered(function: Any, arguments: list[Any]) -> str:
    return str(jax.jit(function, keep_unused=True).lower(*arguments).as_text())


def assert_same(found: Any, wanted: Any, tolerance: float) -> None:
    found = found if isinstance(found, tuple) else (found,)
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
    rows = compare([jnp.asarray(np.asarray(x)) for x in found], list(wanted))
    wrong = [row for row in rows if not row.is_right(tolerance)]
    assert not wrong, wrong


def test_names_are_of_programs() -> None:
    assert set(BY_NAME) > {*REFUSED, *OTHER_GRADIENTS, *ONLY_FLOAT64}


@pytest.mark.parametrize("name", one_in(4, RIGHT))
def test_text(name: str) -> None:
    program = flat(BY_NAME[name])
    f = tracer.from_stablehlo(lowered(program.function, program.arguments))
    wanted = jax.jit(program.function)(*program.arguments)
    assert_same(tracer.compile(f)(*map(np.asarray, program.arguments)), wanted, 1e-12)


@pytest.mark.process
@pytest.mark.parametrize("name", one_in(8, RIGHT, 1))
def test_exported(name: str) -> None:
    program = flat(BY_NAME[name])
    unstable = [
        jax.export.DisabledSafetyCheck.custom_call(f"lapack_d{name}_ffi")
        for name in ("geev", "geqp3", "sytrd")
    ]
    jitted = jax.jit(program.function, keep_unused=True)
    exported = jax.export.export(jitted, disabled_checks=unstable)(*program.arguments)
    f = tracer.from_stablehlo(exported.mlir_module_serialized)
    wanted = jax.jit(program.function)(*program.arguments)
    assert_same(tracer.compile(f)(*map(np.asarray, program.arguments)), wanted, 1e-12)


@pytest.mark.parametrize("name", one_in(8, [n for n in RIGHT if n not in ONLY_FLOAT64], 2))
def test_float32(name: str) -> None:
    program = flat(BY_NAME[name], "float32")
    f = tracer.from_stablehlo(lowered(program.function, program.arguments))
    wanted = jax.jit(program.function)(*program.arguments)
    assert_same(tracer.compile(f)(*map(np.asarray, program.arguments)), wanted, 3e-5)


def _weighted(leaf: Any) -> Any:
    """Weigh the elements differently, so that no gradient is the same for all."""
    real = jnp.real(leaf) + jnp.imag(leaf) if jnp.iscomplexobj(leaf) else leaf
    weights = jnp.cos(jnp.arange(real.size, dtype=real.dtype)).reshape(real.shape)
    return (real * weights).sum().astype("float64")


@pytest.mark.parametrize("name", one_in(8, DIFFERENTIABLE, 3))
def test_gradient(name: str) -> None:
    program = flat(BY_NAME[name])

    def total(*arrays: Any) -> Any:
        leaves = [x for x in program.function(*arrays) if jnp.issubdtype(x.dtype, jnp.inexact)]
        return sum(map(_weighted, leaves), jnp.zeros(()))

    inexact = tuple(
        i
        for i, x in enumerate(program.arguments)
        if jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating)
    )
    wanted = jax.grad(total, argnums=inexact)(*program.arguments)
    f = tracer.from_stablehlo(lowered(total, program.arguments))
    found = tracer.grad(f, argnums=inexact)(*map(np.asarray, program.arguments))
    assert_same(found, wanted, 1e-9)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    program = flat(BY_NAME[name])
    with pytest.raises(tracer.UnsupportedError, match=REFUSED[name]):
        tracer.from_stablehlo(lowered(program.function, program.arguments))


def test_value_and_gradient_of_a_kernel_in_a_tenth_of_the_peak() -> None:
    def kernel_sum(x: Any, v: Any) -> Any:
        squares = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
        return v @ (jnp.exp(-0.5 * squares) @ v)

    rng = np.random.default_rng(0)
    arguments = [jnp.asarray(rng.normal(size=(1500, 3))), jnp.asarray(rng.normal(size=1500))]
    function = jax.value_and_grad(kernel_sum)
    f = tracer.from_stablehlo(lowered(function, arguments))
    limit = tracer.compile(f).plan(*f.input_types).baseline_peak_bytes // 10
    limited = tracer.compile(f, memory_limit=limit)
    assert limited.plan(*f.input_types).compiled_bytes <= limit
    assert_same(limited(*map(np.asarray, arguments)), function(*arguments), 1e-10)


def test_errors_name_the_users_line() -> None:
    def called_back(x: Any) -> Any:
        return jax.pure_callback(lambda y: y, x, x)

    x = jnp.ones(3)
    text = jax.jit(called_back).lower(x).as_text(debug_info=True)
    with pytest.raises(tracer.UnsupportedError) as caught:
        tracer.from_stablehlo(text)
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


@pytest.mark.process
def test_refusals_of_sizes_that_are_not_known() -> None:
    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((n,), "float32"))
    with pytest.raises(tracer.UnsupportedError, match=r"tensor<\?xf32> is no array with fixed"):
        tracer.from_stablehlo(exported.mlir_module_serialized)
