"""Primitives and functions of packages: their lines in plans and errors, and their dtypes."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tracer import errors

jax = pytest.importorskip("jax")

import tracer.jax  # noqa: E402

X = np.linspace(0, 1, 100)


LIBRARY = """
import jax, jax.experimental, jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir

def sums(x):
    return jnp.exp(jnp.sin(x[:, None] * x[None, :])).sum(1)

traced_alone = jax.jit(sums)
own = Primitive("own")
own.def_impl(sums)
own.def_abstract_eval(lambda x: x)
mlir.register_lowering(own, mlir.lower_fun(sums, multiple_results=False))

@jax.jit
def acts(x):
    return jax.experimental.io_callback(lambda y: y, x, x)

def counts(x):
    return jnp.cumsum(x), jnp.asarray(3)

counting = Primitive("counting")
counting.multiple_results = True
counting.def_impl(counts)
counting.def_abstract_eval(lambda x: tuple(jax.make_jaxpr(counts)(x).out_avals))
mlir.register_lowering(counting, mlir.lower_fun(counts, multiple_results=True))
"""


@pytest.fixture(scope="module")
def library() -> dict:
    """A package: its file is among those that are installed."""
    scope: dict = {"__name__": "package"}
    file = os.path.join(os.path.dirname(os.path.dirname(jax.__file__)), "package", "sums.py")
    exec(compile(LIBRARY, file, "exec"), scope)
    return scope


@pytest.mark.parametrize("name", ["traced_alone", "own"])
def test_what_a_package_traces_by_itself_has_the_users_line(library: dict, name: str) -> None:
    function = getattr(library[name], "bind", library[name])

    def program(x):
        return function(x) * 2

    plan = tracer.jax.limit(program, passes=()).plan(X)
    lines = {entry.source.function.split(".")[-1] for entry in plan.timeline if entry.source}
    assert lines == {"program"}


def test_what_a_package_does_is_refused_with_the_users_line(library: dict) -> None:
    def program(x):
        return library["acts"](x) * 2

    with pytest.raises(errors.UnsupportedError, match=r"io_callback(.|\n)*return library"):
        tracer.jax.limit(program)(X)


@pytest.mark.parametrize("x64", [False, True])
def test_integers_of_a_packages_primitive_have_jaxs_width(library: dict, x64: bool) -> None:
    with jax.enable_x64(x64):
        x = jax.numpy.ones(3, "float32")
        found = tracer.jax.limit(lambda x: library["counting"].bind(x))(x)
        wanted = jax.jit(lambda x: library["counting"].bind(x))(x)
    assert [y.dtype for y in found] == [y.dtype for y in wanted]
    assert int(found[1]) == 3
