"""The example programs: split under a small limit they give what NumPy gives in float64."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
from benchmarks.measure import Measurement
from examples import references
from examples.display import plain_table
from examples.problems import PROBLEMS, on_device, types_of
from examples.programs.kernel_product import kernel_product
from examples.programs.nearest_neighbours import nearest_neighbours
from examples.quickstart import Outcome
from tracer.units import parse_bytes

pytestmark = pytest.mark.xla

ROOT = Path(__file__).parent.parent.parent
SMALL = {
    "kernel": (1_500, "2MB"),
    "neighbours": (3_000, "2MB"),
    "sparse-gp": (2_000, "6MB"),
    "kernel-digits": (1_000, "2MB"),
    "neighbours-digits": (1_000, "2MB"),
    "sparse-gp-digits": (1_797, "8MB"),
}


def problem_of(name: str) -> Any:
    if PROBLEMS[name].data == "digits":
        pytest.importorskip("sklearn")
    return PROBLEMS[name]


@pytest.mark.parametrize("name", SMALL)
def test_split_program_agrees_with_numpy(name: str) -> None:
    problem, (n, limit) = problem_of(name), SMALL[name]
    inputs = problem.inputs(n)
    program = tracer.compile(problem.program, memory_limit=limit)
    plan = program.plan(*types_of(inputs))
    assert plan.loops, "the limit is too large: nothing was split"
    assert plan.peak_bytes <= parse_bytes(limit) < plan.baseline_peak_bytes
    assert plan.compiled_bytes <= parse_bytes(limit)
    check = problem.check(inputs, program(*on_device(inputs)))
    assert check.passed, check


@pytest.mark.parametrize("name", ["kernel", "neighbours", "sparse-gp"])
def test_unsplit_program_agrees_with_numpy(name: str) -> None:
    problem = PROBLEMS[name]
    inputs = problem.inputs(500)
    program = tracer.compile(problem.program)
    check = problem.check(inputs, program(*on_device(inputs)))
    assert check.passed, check
    assert not program.plan(*types_of(inputs)).loops


def test_gradient_of_a_split_kernel_product(rng: np.random.Generator) -> None:
    n = 1_500
    x, y = rng.standard_normal((2, n, 3))
    v, w = rng.standard_normal((2, n))

    def loss(x: Any, y: Any, v: Any) -> Any:
        return (w * kernel_product(x, y, v)).sum()

    program = tracer.compile(tracer.grad(loss, argnums=(0, 2)), memory_limit="4MB")
    assert program.plan(x, y, v).loops
    by_x, by_v = map(np.asarray, program(x, y, v))

    differences = x[:, None, :] - y[None, :, :]
    kernel = np.exp(-0.5 * (differences**2).sum(-1))
    weights = w[:, None] * kernel * v
    np.testing.assert_allclose(by_v, kernel.T @ w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        by_x, -(weights[:, :, None] * differences).sum(1), rtol=1e-9, atol=1e-9
    )


def test_nearest_neighbours_of_a_point_begin_with_itself() -> None:
    points = np.arange(60, dtype=np.float32).reshape(30, 2) ** 2
    distances, indices = tracer.compile(nearest_neighbours)(points, points)
    assert np.asarray(indices)[:, 0].tolist() == list(range(30))
    assert np.asarray(distances)[:, 0].tolist() == [0.0] * 30


@pytest.mark.parametrize("name", ["kernel", "neighbours", "sparse-gp"])
def test_checks_can_fail(name: str) -> None:
    problem = PROBLEMS[name]
    inputs = problem.inputs(300)
    results = tracer.compile(problem.program)(*on_device(inputs))
    assert problem.check(inputs, results).passed
    wrong = tracer.tree.map(lambda array: np.asarray(array) * (1 + 1e-3), results)
    if name == "neighbours":
        wrong = (wrong[0], np.asarray(results[1]))
    assert not problem.check(inputs, wrong).passed
    missing = tracer.tree.map(lambda array: np.asarray(array) * np.float32("nan"), results)
    if name == "neighbours":
        missing = (missing[0], np.asarray(results[1]))
    assert not problem.check(inputs, missing).passed


def test_reference_bound_is_below_the_likelihood() -> None:
    """With all points as inducing points the bound is the likelihood; with fewer it is below."""
    parameters, x, y = PROBLEMS["sparse-gp"].inputs(200)
    squares = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
    covariance = parameters["variance"] * np.exp(-0.5 * squares) + parameters["noise"] * np.eye(200)
    exact = -0.5 * (
        y @ np.linalg.solve(covariance, y)
        + np.linalg.slogdet(covariance)[1]
        + 200 * np.log(2 * np.pi)
    )
    assert references.sparse_gp_bound(parameters, x, y) < exact
    tight = references.sparse_gp_bound({**parameters, "inducing": x}, x, y)
    assert tight == pytest.approx(exact, rel=1e-3)


def outcome(*, error: float = 0.0, **measured: Any) -> Outcome:
    problem = dataclasses.replace(PROBLEMS["kernel"], n=100, limit="1MB")
    plan = tracer.compile(problem.program, memory_limit="1MB").plan(*types_of(problem.inputs(100)))
    measurement = Measurement(**{"status": "ok", "seconds": 1.0, "peak_bytes": 10**5, **measured})
    return Outcome(problem, references.Check("rows", error, 1e-4), plan, measurement, None)


def test_outcome_says_what_was_not_kept() -> None:
    assert outcome().failures == []
    assert "FAILED" in outcome(error=1e-3).failures[0]
    assert "FAILED" in outcome(error=float("nan")).failures[0]
    # The arguments take 2.8 kB.
    assert "over 1MB" in outcome(peak_bytes=998_000).failures[0]
    (failure,) = outcome(status="failed", peak_bytes=None, seconds=None, reason="a bug").failures
    assert "a bug" in failure
    assert "does not fit" in outcome().row[-1]
    unlimited = dataclasses.replace(outcome(), unlimited=Measurement("failed", reason="a bug"))
    assert "a bug" in unlimited.failures[0]
    assert len(unlimited.row) == 8


def test_plain_table() -> None:
    assert plain_table(("what", "number"), [("one\nmore", "1"), ("two", "22")]) == [
        "what  number",
        "------------",
        "one        1",
        "more",
        "",
        "two       22",
    ]


@pytest.mark.process
def test_quick_start_without_jax() -> None:
    pytest.importorskip("sklearn")
    code = (
        "import sys, runpy; sys.modules['jax'] = None; "
        f"sys.argv = ['quickstart.py', 'kernel-digits']; "
        f"runpy.run_path({str(ROOT / 'examples' / 'quickstart.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kernel product (digits)" in done.stdout
    assert "every limit was kept" in done.stdout
    assert "measuring in a fresh process" in done.stderr
