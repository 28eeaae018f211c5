"""The programs of benchmarks/jax_programs.py, beside jax.jit: each output by itself.

CI runs one in four; `.venv-jax/bin/python -m pytest -m peer tests/jax` runs all.
"""

from __future__ import annotations

import pytest

import tracer
from tests.sampling import one_in

jax = pytest.importorskip("jax")

import tracer.jax  # noqa: E402
from benchmarks.jax_comparison import compare, gradient_of  # noqa: E402
from benchmarks.jax_programs import PROGRAMS  # noqa: E402

BY_NAME = {program.name: program for program in PROGRAMS}


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def assert_same(found, wanted, tolerance=1e-12):
    rows = compare(found, wanted)
    assert rows
    wrong = [row for row in rows if not row.is_right(tolerance)]
    assert not wrong, wrong


def test_names_are_of_one_program_each() -> None:
    assert len(BY_NAME) == len(PROGRAMS) >= 100


@pytest.mark.parametrize("name", one_in(4, list(BY_NAME)))
def test_values(name: str) -> None:
    program = BY_NAME[name]
    arguments = program.arguments()
    found = tracer.jax.limit(program.function, memory_limit="100MB")(*arguments)
    wanted = jax.jit(program.function)(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(x, jax.Array)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert getattr(x, "weak_type", False) == getattr(y, "weak_type", False)
    assert_same(found, wanted)


@pytest.mark.parametrize("name", one_in(8, [n for n in BY_NAME if BY_NAME[n].has_gradient]))
def test_gradients_of_imported_functions(name: str) -> None:
    program = BY_NAME[name]
    arguments = program.arguments()
    found, wanted = gradient_of(program, arguments)
    assert_same(found, wanted, 1e-10)
