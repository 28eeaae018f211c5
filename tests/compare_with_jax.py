"""One program, written once for a module of ours and once for JAX's: values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

import tracer
from tracer import tree

FLOATS = ("float32", "float64")


def inputs(shapes: Sequence[Any], dtype: str, seed: int = 0) -> list[Any]:
    """Return random arrays of shapes; what is no shape is given as it is, floats in the dtype."""
    rng = np.random.default_rng(seed)
    found = []
    for item in shapes:
        if isinstance(item, tuple):
            found.append(rng.normal(size=item).astype(dtype))
        elif isinstance(item, np.ndarray) and item.dtype.kind == "f":
            found.append(item.astype(dtype))
        else:
            found.append(item)
    return found


def same(found: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Compare nested arrays: shapes, dtypes and values, NaN being NaN."""
    ours, theirs = tree.leaves(found), list(_leaves_of_jax(wanted))
    assert len(ours) == len(theirs), what
    for x, y in zip(ours, theirs, strict=True):
        one, other = np.asarray(x), np.asarray(y)
        assert one.shape == other.shape, (what, one.shape, other.shape)
        assert one.dtype == other.dtype, (what, one.dtype, other.dtype)
        if one.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other, err_msg=what)
        else:
            scale = np.abs(other[np.isfinite(other)]).max(initial=1.0)
            np.testing.assert_allclose(
                one, other, rtol=tolerance, atol=tolerance * scale, err_msg=what
            )


def _leaves_of_jax(wanted: Any) -> Any:
    import jax

    return jax.tree.leaves(wanted)


def check(
    function: Callable[..., Any],
    ours: Any,
    theirs: Any,
    arrays: Sequence[Any],
    *,
    differentiates: bool = True,
    scale: float = 1.0,
    which: Collection[str] = ("compiled", "gradient"),
) -> None:
    """Compare `function(module, *arrays)`, eager and compiled, and its gradients.

    Parameters
    ----------
    function : callable
        The program; the module is ours or JAX's.
    ours, theirs : module
        The modules.
    arrays : sequence
        The arguments; floats get gradients.
    differentiates : bool
        Compare gradients.
    which : collection of {"compiled", "gradient"}
        What is compared beside the values of the eager functions.
    scale : float
        How many times the usual tolerance.
    """
    import jax

    given = [jax.numpy.asarray(x) for x in arrays]
    width = max([x.dtype.itemsize for x in given if x.dtype.kind in "fc"], default=8)
    tolerance = scale * (2e-6 if width == 4 else 1e-13)
    wanted = function(theirs, *given)
    same(function(ours, *map(tracer.numpy.asarray, arrays)), wanted, tolerance, "eager")
    if "compiled" in which:
        compiled = tracer.compile(lambda *xs: function(ours, *xs))
        same(compiled(*arrays), wanted, tolerance, "compiled")
    if differentiates and "gradient" in which:
        _check_gradients(function, ours, theirs, arrays, 4 * tolerance)


def _check_gradients(
    function: Callable[..., Any], ours: Any, theirs: Any, arrays: Sequence[Any], tolerance: float
) -> None:
    import jax

    places = [i for i, x in enumerate(arrays) if np.asarray(x).dtype.kind in "fc"]
    if not places:
        return

    def of_floats(module: Any, array_of: Any, leaves_of: Any) -> Any:
        def partial(*floats: Any) -> Any:
            full = [array_of(x) for x in arrays]
            for place, x in zip(places, floats, strict=True):
                full[place] = x
            return [y for y in leaves_of(function(module, *full)) if y.dtype.kind in "fc"]

        return partial

    floats = [arrays[i] for i in places]
    plain = of_floats(theirs, jax.numpy.asarray, jax.tree.leaves)
    results, back = jax.vjp(plain, *map(jax.numpy.asarray, floats))
    rng = np.random.default_rng(1)
    weights = [np.asarray(rng.normal(size=y.shape), y.dtype) for y in results]
    wanted = back([jax.numpy.asarray(w) for w in weights])
    mine = of_floats(ours, tracer.numpy.asarray, tree.leaves)
    _, pull_back = tracer.vjp(mine, *map(tracer.numpy.asarray, floats))
    found = pull_back([tracer.numpy.asarray(w) for w in weights])
    same(list(found), list(wanted), tolerance, "gradient")
