"""JAX's callbacks in limited functions, and ours beside JAX's: the same calls and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import tracer  # noqa: E402
import tracer.jax  # noqa: E402
import tracer.numpy as tnp  # noqa: E402
from tracer.errors import UnsupportedError  # noqa: E402

pytestmark = pytest.mark.xla
X = np.array([0.5, 2.0], np.float32)


class TestLimited:
    def test_prints(self, capsys: pytest.CaptureFixture[str]) -> None:
        def f(x: Any) -> Any:
            jax.debug.print("x = {} and {y:.1f}", x, y=x.sum())
            return lax.fori_loop(0, 2, lambda i, x: (jax.debug.print("{}", i), x + i)[1], x)

        limited = tracer.jax.limit(f, memory_limit="1GB")
        np.testing.assert_array_equal(limited(jnp.array(X)), X + 1)
        assert capsys.readouterr().out == "x = [0.5 2. ] and 2.5\n0\n1\n"

    def test_calls_back(self) -> None:
        seen: list[Any] = []

        def f(x: Any) -> Any:
            def step(carry: Any, row: Any) -> tuple[Any, Any]:
                jax.debug.callback(lambda c, *, row: seen.append((c.tolist(), row)), carry, row=row)
                return carry * row, carry.sum()

            return lax.scan(step, x, jnp.arange(3.0))

        limited = tracer.jax.limit(f, memory_limit="1GB")
        carry, sums = limited(jnp.array(X))
        np.testing.assert_array_equal(carry, [0, 0])
        np.testing.assert_array_equal(sums, [2.5, 0, 0])
        assert seen == [([0.5, 2.0], 0.0), ([0.0, 0.0], 1.0), ([0.0, 0.0], 2.0)]

    def test_values_of_a_gradient_are_seen_once(self) -> None:
        seen: list[Any] = []

        def f(x: Any) -> Any:
            y = jnp.sin(x)
            jax.debug.callback(lambda y: seen.append(np.asarray(y).tolist()), y)
            return (y * x).sum()

        limited = tracer.jax.limit(jax.value_and_grad(f), memory_limit="1GB")
        _, gradient = limited(jnp.array(X))
        np.testing.assert_allclose(gradient, np.sin(X) + X * np.cos(X), rtol=1e-6)
        np.testing.assert_allclose(seen, [np.sin(X)], rtol=1e-6)

    @pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
    def test_computes(self, method: str) -> None:
        def median(x: Any) -> Any:
            def of(x: Any) -> Any:
                return np.median(x, -1).astype(np.float32)

            like = jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)
            return jax.pure_callback(of, like, x, vmap_method=method)

        rows = jnp.array([[1.0, 7.0, 3.0], [5.0, 2.0, 4.0]], jnp.float32)
        limited = tracer.jax.limit(jax.vmap(median), memory_limit="1GB")
        np.testing.assert_array_equal(limited(rows), [3, 4])

    def test_errors_come_as_they_are(self) -> None:
        def fail(_: Any) -> None:
            raise LookupError("here")

        with pytest.raises(LookupError, match="here"):
            tracer.jax.limit(lambda x: jax.debug.callback(fail, x), memory_limit="1GB")(1.0)

    def test_order_is_refused(self) -> None:
        def f(x: Any) -> Any:
            jax.debug.print("{}", x, ordered=True)
            return x

        with pytest.raises(UnsupportedError, match=r"debug_\w+ in order") as caught:
            tracer.jax.limit(f, memory_limit="1GB")(X)
        assert "jax.debug.print" in str(caught.value.where)


class Both:
    """A program written once, for tracer and for JAX."""

    def __init__(self, np: Any, lax: Any, debug: Any, transforms: Any) -> None:
        self.np, self.lax, self.debug, self.transforms = np, lax, debug, transforms


OURS = Both(tnp, tracer, tracer.debug, tracer)
THEIRS = Both(jnp, lax, jax.debug, jax)


def in_a_scan(b: Both) -> Callable[[Any], Any]:
    def step(c: Any, i: Any) -> tuple[Any, Any]:
        b.debug.print("step {} {c}", i, c=c)
        return c * 2, i

    return lambda x: b.lax.scan(step, x, b.np.arange(3))[0].sum()


def in_a_while_loop(b: Both) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        b.debug.print("body {}", x)
        return x * 2

    def holds(x: Any) -> Any:
        b.debug.print("condition {}", x.sum())
        return x.sum() < 20

    return lambda x: b.lax.while_loop(holds, step, x)


def in_a_branch(b: Both) -> Callable[[Any], Any]:
    def yes(x: Any) -> Any:
        b.debug.print("yes {}", x)
        return x

    def no(x: Any) -> Any:
        b.debug.print("no {}", x)
        return -x

    return lambda x: b.lax.cond(x.sum() > 1, yes, no, x).sum()


def with_formats(b: Both) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        b.debug.print("{:.3f} {y[0]} {x.dtype} {s!r}", x.sum(), y=[x], x=x, s="s")
        return x.sum()

    return f


PROGRAMS = [in_a_scan, in_a_while_loop, in_a_branch, with_formats]
TRANSFORMS: dict[str, Callable[[Both, Any], Any]] = {
    "value": lambda b, f: f,
    "grad": lambda b, f: b.transforms.grad(f),
    "vmap": lambda b, f: b.transforms.vmap(f),
    "jvp": lambda b, f: lambda x: b.transforms.jvp(f, (x,), (x,)),
    "vmap of grad": lambda b, f: b.transforms.vmap(b.transforms.grad(f)),
    "checkpoint": lambda b, f: b.transforms.checkpoint(f),
}


CASES = [
    pytest.param(program, transform, id=f"{program.__name__}-{transform}")
    for program in PROGRAMS
    for transform in TRANSFORMS
    # While loops have no derivatives.
    if program is not in_a_while_loop or transform in ("value", "vmap", "checkpoint")
]


@pytest.mark.parametrize(("program", "transform"), CASES)
def test_prints_what_jax_prints(
    program: Callable[[Both], Any], transform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.array([[0.5, 2.0], [-3.0, 1.0]], np.float32)
    x = x if "vmap" in transform else x[0]
    make = TRANSFORMS[transform]
    jax.jit(make(THEIRS, program(THEIRS)))(x)
    jax.effects_barrier()
    expected = capsys.readouterr().out
    for way in (lambda f: f, tracer.compile):
        way(make(OURS, program(OURS)))(x)
        found = capsys.readouterr().out
        # JAX does not say in which order the elements of a batch come.
        in_batches = "vmap" in transform
        assert found == expected or in_batches
        assert sorted(found.splitlines()) == sorted(expected.splitlines())


METHODS = ["sequential", "expand_dims", "broadcast_all"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_batches_call_with_the_shapes_of_jax(method: str, axes: Any) -> None:
    def make(callback: Any, struct: Any, seen: list[Any]) -> Any:
        def add(x: Any, y: Any) -> Any:
            seen.append((x.shape, y.shape))
            x, y = np.asarray(x), np.asarray(y)
            return (x + y[..., None] if x.ndim > y.ndim else x + y).astype(np.float32)

        def f(x: Any, y: Any) -> Any:
            return callback(add, struct((3,), np.float32), x, y, vmap_method=method)

        return f

    x = np.ones((2, 3) if axes[0] == 0 else 3, np.float32)
    y = np.ones((2,) if axes[1] == 0 else (), np.float32)
    ours: list[Any] = []
    theirs: list[Any] = []
    found = tracer.vmap(make(tracer.pure_callback, tracer.ShapeDtype, ours), axes)(x, y)
    expected = jax.vmap(make(jax.pure_callback, jax.ShapeDtypeStruct, theirs), axes)(x, y)
    np.testing.assert_array_equal(found, expected)
    assert ours == theirs
