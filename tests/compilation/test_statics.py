"""Static arguments by position and by name: what a call may pass how, as with `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

X = np.arange(3.0)


def power(x: Any, n: int, scale: float = 1.0) -> Any:
    assert isinstance(n, int)
    assert isinstance(scale, float)
    return scale * sum(x**i for i in range(n))


def keyword_only(x: Any, *, mode: str) -> Any:
    return x + 1 if mode == "up" else x - 1


@pytest.mark.xla
@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": (1, 2)},
        {"static_argnames": ("n", "scale")},
        {"static_argnums": 1, "static_argnames": ("n", "scale")},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(X, 3),
        lambda f: f(X, n=3),
        lambda f: f(x=X, n=3),
        lambda f: f(X, 3, scale=2.0),
        lambda f: f(X, scale=2.0, n=3),
    ],
)
def test_static_arguments_are_passed_either_way(
    options: dict[str, Any], call: Callable[[Any], Any]
) -> None:
    compiled = tracer.compile(power, **options)
    np.testing.assert_array_equal(np.asarray(call(compiled)), call(power))
    np.testing.assert_array_equal(np.asarray(call(compiled)), call(power))


@pytest.mark.xla
def test_each_value_has_a_program() -> None:
    compiled = tracer.compile(keyword_only, static_argnames="mode")
    for mode in ("up", "down", "up"):
        np.testing.assert_array_equal(
            np.asarray(compiled(X, mode=mode)), keyword_only(X, mode=mode)
        )
    assert len(compiled._programs) == 2


@pytest.mark.xla
def test_static_arguments_inside_a_traced_function() -> None:
    inner = tracer.compile(power, static_argnames="n")
    outer = tracer.compile(lambda x: inner(x, n=3) + inner(x, 2))
    np.testing.assert_array_equal(np.asarray(outer(X)), power(X, 3) + power(X, 2))
    slope = tracer.compile(tracer.grad(lambda x: inner(x, n=3).sum()))(X)
    np.testing.assert_array_equal(np.asarray(slope), 1 + 2 * X)


@pytest.mark.xla
def test_donated_leaves_are_counted_without_static_ones() -> None:
    def step(n: int, state: Any, *, mode: str) -> Any:
        return state * n if mode == "up" else state

    compiled = tracer.compile(step, static_argnames=("n", "mode"), donate_argnames="state")
    state = tnp.asarray(X)
    np.testing.assert_array_equal(np.asarray(compiled(2, state, mode="up")), 2 * X)
    assert state.is_deleted()


def test_a_name_that_is_no_parameter_is_refused() -> None:
    with pytest.raises(tracer.ArgumentError, match="static_argnames names 'm'") as caught:
        tracer.compile(power, static_argnames="m")
    assert "use one of 'n', 'scale', 'x'" in caught.value.mend


def test_names_are_strings() -> None:
    with pytest.raises(tracer.ArgumentError, match="static_argnames takes names of arguments"):
        tracer.compile(power, static_argnames=1)  # type: ignore[arg-type]


def test_what_has_no_default_is_missed() -> None:
    compiled = tracer.compile(power, static_argnums=1)
    with pytest.raises(tracer.ArgumentError, match="static argument 1 is missing"):
        compiled.plan(X)


@pytest.mark.parametrize(("args", "kwargs"), [((X, [3]), {}), ((X,), {"n": [3]})])
def test_what_cannot_be_hashed_is_named(args: Any, kwargs: Any) -> None:
    compiled = tracer.compile(power, static_argnames="n")
    with pytest.raises(tracer.ArgumentError, match=r"static argument (1|'n'), a list"):
        compiled.plan(*args, **kwargs)


def test_a_name_is_not_donated_and_static() -> None:
    with pytest.raises(tracer.ArgumentError, match="both donated and static"):
        tracer.compile(keyword_only, static_argnames="mode", donate_argnames="mode")


@pytest.mark.xla
def test_a_decorator_takes_options() -> None:
    @tracer.compile(memory_limit="1MB", static_argnames="n")
    def cubed(x: Any, n: int = 3) -> Any:
        """Compute a power."""
        return x**n

    np.testing.assert_array_equal(np.asarray(cubed(X, n=2)), X**2)
    assert cubed.plan(X).limit_bytes == 1_000_000
    assert cubed.__doc__ == "Compute a power."

    @tracer.compile()
    def plain(x: Any) -> Any:
        return x + 1

    np.testing.assert_array_equal(np.asarray(plain(X)), X + 1)
