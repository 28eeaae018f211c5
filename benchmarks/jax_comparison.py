"""Compare programs of JAX, limited by tracer, with `jax.jit`: each output tensor by itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tracer
import tracer.jax
from benchmarks.jax_programs import Program
from benchmarks.output_rows import Row


def host(value: Any) -> np.ndarray[Any, Any]:
    """Return an output as a NumPy array; random keys as their words."""
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def outputs(tree: Any) -> list[tuple[str, Any]]:
    """Return the leaves of a result with their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def compare(found: Any, wanted: Any) -> list[Row]:
    """Compare the outputs of two results of one structure."""
    pairs = zip(outputs(found), outputs(wanted), strict=True)
    return [_row(path, host(x), host(y)) for (path, x), (_, y) in pairs]


def _row(path: str, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Row:
    assert x.shape == y.shape, (path, x.shape, y.shape)
    if x.dtype.kind in "biu":
        wrong = float(np.sum(x != y))
        return Row(path, wrong, wrong, is_exact=True)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(same, 0.0, np.abs(x - y))
        apart = np.where(np.isnan(apart), np.inf, apart)
        relative = np.where(same, 0.0, apart / np.abs(y))
    return Row(
        path, float(apart.max(initial=0.0)), float(relative.max(initial=0.0)), is_exact=False
    )


def gradient_of(program: Program, arguments: list[Any]) -> tuple[Any, Any]:
    """Return the gradient of the sum of all inexact results: ours of the import, and JAX's."""
    inexact = [i for i, x in enumerate(arguments) if _is_float(x)]

    def total(*given: Any) -> Any:
        whole = list(arguments)
        for i, x in zip(inexact, given, strict=True):
            whole[i] = x
        leaves = jax.tree.leaves(program.function(*whole))
        terms = [_weighted(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return sum(terms, jnp.zeros(()))

    given = [arguments[i] for i in inexact]
    wanted = jax.grad(total, argnums=tuple(range(len(given))))(*given)
    imported = tracer.jax.from_jax(total)
    found = tracer.grad(imported, argnums=tuple(range(len(given))))(*map(np.asarray, given))
    return found, wanted


def _is_float(x: Any) -> bool:
    return (
        hasattr(x, "dtype")
        and not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        and bool(jnp.issubdtype(x.dtype, jnp.floating))
    )


def _weighted(leaf: Any) -> Any:
    """Weigh the elements differently, so that no gradient is the same for all."""
    real = jnp.real(leaf) + jnp.imag(leaf) if jnp.iscomplexobj(leaf) else leaf
    weights = jnp.cos(jnp.arange(real.size, dtype=real.dtype)).reshape(real.shape)
    return (real * weights).sum().astype("float64")
