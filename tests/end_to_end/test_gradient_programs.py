"""Gradients of whole programs, against finite differences and against JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
from benchmarks.framework import Framework, Program, jax_framework, tracer_framework
from benchmarks.gradient_programs import PROGRAMS

pytestmark = pytest.mark.xla


def inputs_of(program: Program) -> tuple[Any, ...]:
    # Few points keep the order of sorted ones the same within a step of the differences.
    return program.inputs(np.random.default_rng(7), min(program.size, 25))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "1,000" not in name])
def test_gradient_against_differences(name: str) -> None:
    program = PROGRAMS[name]
    loss, (first, *others) = program.loss(tracer_framework()), inputs_of(program)
    tracer.check_grads(lambda x: loss(x, *others), (first,), order=1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_derivative_against_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    program = PROGRAMS[name]
    ours, theirs = tracer_framework(), jax_framework()
    arguments = inputs_of(program)

    def pair(framework: Framework) -> Any:
        loss, derivative = program.loss(framework), program.derivative_of(framework)
        return lambda *args: (loss(*args), derivative(*args))

    found = tracer.tree.leaves(tracer.compile(pair(ours))(*arguments))
    wanted = jax.tree.leaves(jax.jit(pair(theirs))(*arguments))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
