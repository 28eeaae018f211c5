"""The fuzzer finds faults that are planted, names who did it, and makes programs small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.fuzz import frameworks
from tests.fuzz.__main__ import seed_of_source
from tests.fuzz.check import JUDGING, Verdict, check
from tests.fuzz.differences import off_differences
from tests.fuzz.evaluate import Noise, values
from tests.fuzz.generate import generate
from tests.fuzz.program import Input, Program, parse
from tests.fuzz.shrink import shrink
from tests.fuzz.supervise import Worker, _too_long
from tests.fuzz.watch import LEAVE_OUT_ZEROS
from tracer import ops
from tracer.array.trace import trace
from tracer.ir import Graph, rebuild
from tracer.lowering.emit.builder import StableHloBuilder
from tracer.optimizer.passes import Pass, PassManager

SQUARE = Program({"n": 8}, (Input("x", ("n", "n")),), ("y = np.tanh(x)",), "y @ y.T + x")


def planted(name: str, was: Any, now: Any) -> Any:
    """Make a pass write another op for one, in whatever it is given."""
    original = PassManager._run_one

    def run_one(self: PassManager, graph: Graph, item: Pass) -> Graph:
        def other(_: Any, node: Any, operands: Sequence[Any]) -> Any:
            return [now(*operands)] if node.op is was else None

        graph = original(self, graph, item)
        return rebuild(graph, other) if item.name == name else graph

    return mock.patch.object(PassManager, "_run_one", run_one)


def test_programs_are_read_as_they_are_written() -> None:
    for seed in range(30):
        text = generate(seed).text()
        assert parse(parse(text).text()).text() == parse(text).text()


@pytest.mark.slow
def test_every_program_can_be_traced_and_interpreted() -> None:
    for seed in range(20):
        program = replace(generate(seed), transform="value")
        arrays = frameworks.arguments(program)
        traced = trace(frameworks.transformed(program, frameworks.tracer_names()), arrays)
        assert values(traced.graph, [*arrays, *map(np.asarray, traced.captured)])


@pytest.mark.xla
def test_a_pass_that_changes_values_is_named() -> None:
    with planted("common subexpressions", ops.tanh, ops.sine):
        verdict = check(SQUARE, ("none",))
    assert [item.kind for item in verdict.failures] == ["wrong"]
    assert verdict.failures[0].culprit == "common subexpressions"


@pytest.mark.xla
def test_a_lowering_that_changes_values_is_named() -> None:
    with mock.patch.object(StableHloBuilder, "tanh", lambda self, x: self.sine(x), create=True):
        verdict = check(replace(SQUARE, dims={"n": 9}), ("none",))
    assert [item.kind for item in verdict.failures] == ["wrong"]
    assert "lowering" in verdict.failures[0].culprit


@pytest.mark.xla
def test_an_error_that_is_not_ours_is_a_failure() -> None:
    culprit = "tracer.optimizer.rewrite.simplify.constant_value"
    with mock.patch(culprit, side_effect=KeyError("planted")):
        verdict = check(replace(SQUARE, result="np.reshape(2.0 * y, (n * n,)) + 1"), ("none",))
    culprits = [item.culprit for item in verdict.failures]
    assert [text for text in culprits if "KeyError" in text] == culprits != []


@pytest.mark.xla
def test_rounding_is_no_failure() -> None:
    """A sum that cancels to a few roundings, a softmax of ties, a system near singularity."""
    for lines, result in (
        (("y = x @ x.T",), "(np.sum(y) - np.sum(y.T)) + np.sum(x - (x + 1e-7) + 1e-7)"),
        (("y = np.concatenate([x, x])",), "np.argmax(y @ y.T, axis=1) * 1.0"),
        (("y = x @ x.T + 1e-9 * np.eye(n)",), "np.linalg.solve(y, x)"),
    ):
        for dtype in ("float32", "float64"):
            program = Program({"n": 16}, (Input("x", ("n", "n")),), lines, result, dtype)
            verdict: Verdict = check(program, ("none",))
            assert not verdict.failures, (lines, dtype, verdict.failures)


def test_noise_is_as_large_as_rounding_and_no_larger() -> None:
    program = replace(SQUARE, dtype="float32")
    arrays = program.arrays()
    graph = trace(frameworks.transformed(program, frameworks.tracer_names()), arrays).graph
    exact = values(graph, arrays)
    tolerance = Noise(graph, arrays, exact, "float32").draw(3).tolerance(0)
    rounded = SQUARE_IN_NUMPY(arrays[0])
    assert (np.abs(rounded - exact[0]) < tolerance).all()
    assert tolerance.max() < 1e-3 * np.abs(exact[0]).max()


def SQUARE_IN_NUMPY(x: Any) -> Any:
    y = np.tanh(x)
    return y @ y.T + x


def test_shrinking_keeps_what_fails_and_little_else() -> None:
    inputs = (Input("x", ("n", "m")), Input("b", ("m",)))
    lines = ("u = np.tanh(x) + b", "v = np.sort(u * 2.0, axis=1)", "w = v @ v.T")
    program = Program({"n": 12, "m": 7}, inputs, lines, "(w + 1.0, np.sum(u))")
    small = shrink(program, lambda candidate: "np.sort" in candidate.text(), seconds=20)
    assert len(small.body().splitlines()) <= 3
    assert "np.sort" in small.text()
    assert len(small.text()) < len(program.text()) / 1.5


@pytest.mark.process
@pytest.mark.slow
def test_the_death_of_the_process_is_a_failure_and_not_the_end() -> None:
    deadly = replace(SQUARE, result="y + __import__('os').abort()")
    with Worker(peers=()) as worker:
        assert [item.kind for item in worker.ask(deadly, ("none",)).failures] == ["death"]
        assert not worker.ask(SQUARE, ("none",)).failures


@pytest.mark.process
@pytest.mark.slow
def test_what_takes_too_long_is_a_failure() -> None:
    endless = replace(SQUARE, lines=("while True: y = x",), result="y")
    with Worker(seconds=2.0, peers=()) as worker:
        assert not worker.ask(SQUARE, ("none",)).failures
        assert [item.kind for item in worker.ask(endless, ("none",)).failures] == ["hang"]


@pytest.mark.xla
def test_judges_that_take_too_long_say_nothing_against_the_package() -> None:
    said: list[str] = []
    check(SQUARE, ("none",), doing=said.append)
    assert said == [JUDGING, "compiling, none", JUDGING, JUDGING]
    assert _too_long(said[0], 2.0).failures == []
    assert [item.kind for item in _too_long(said[1], 2.0).failures] == ["hang"]


SMOOTH = "y = np.sum(np.sin(x @ x.T))"
TURNS_OFTEN = """
dtype, transform, seed = "float32", "grad", 29
dims = {"m": 23}
inputs = {"g1": ("m", "positive"), "a5": ("m", "normal"), "a0": ("m", "m", "normal")}


def f(g1, a5, a0):
    d = (a5[:, None] - a5) ** 2 @ np.sum((a0[:, None] - a0) ** 2 * g1, axis=-1)
    return np.mean(np.sin(d ** 2))
"""
"""Its slopes at the larger steps agree by chance."""


def with_gradients_scaled(program: Program, factor: float) -> str | None:
    """Return what the differences say of a program whose last gradient is off by a factor."""
    wide = program.with_dtype("float64")
    arrays = [np.asarray(x).astype("float64") for x in frameworks.arguments(program)]
    traced = trace(frameworks.transformed(wide, frameworks.tracer_names()), arrays)
    found = values(traced.graph, [*arrays, *map(np.asarray, traced.captured)])
    return off_differences(program, arrays, [*found[:-1], factor * found[-1]])


def test_wrong_gradients_are_seen() -> None:
    inputs = (Input("x", ("n", "n")),)
    program = Program({"n": 9}, inputs, (SMOOTH,), "y", dtype="float64", transform="grad")
    assert with_gradients_scaled(program, 1.0) is None
    assert with_gradients_scaled(program, 1.01) is not None


def test_differences_that_turn_within_a_step_are_no_judge() -> None:
    assert with_gradients_scaled(parse(TURNS_OFTEN), 1.0) is None


SMALL_KINK = """
dtype, transform, seed = "float64", "grad", 131
dims = {"n": 3, "d": 100}
inputs = {"x0": ("300", "5", "few"), "x1": ("256", "5", "few"), "x2": ("n", "d", "normal")}


def f(x0, x1, x2):
    a0 = x0 @ x1.T
    return np.sum(x2 * x2) / 3 + np.sin(np.max(np.min(a0, axis=1))) + np.min(a0)
"""
"""Ties in a term that is small beside the rest: its slopes differ to both sides."""


def test_at_a_small_kink_any_slope_between_both_sides_is_right() -> None:
    assert with_gradients_scaled(parse(SMALL_KINK), 1.0) is None
    assert with_gradients_scaled(parse(SMALL_KINK), 1.1) is not None


CHAOTIC = """
dtype, transform, seed = "complex128", "value", 259
dims = {"n": 127, "m": 256}
inputs = {"x0": ("n", "m", "normal"), "w3": ("m", "m", "weight"), "x4": ("m", "normal")}


def f(x0, w3, x4):
    def s1(h, x):
        h = np.tanh(h @ w3 + x)
        return (h, h ** 2)
    return lax.scan(s1, x4, x0)[1]
"""


@pytest.mark.xla
def test_programs_without_digits_are_not_judged() -> None:
    verdict = check(parse(CHAOTIC), ("none",))
    assert verdict.failures == []
    assert verdict.notes["not judged: roundings leave no digits"]


SINE = Program({"n": 9}, (Input("x", ("n",)),), (), "np.sin(x)", dtype="float64")

INFINITE_ROW = Program(
    {"n": 40},
    (Input("x", ("n", "n")),),
    ("y = np.where(np.arange(n)[:, None] == 3, np.inf, np.tanh(x))",),
    "y @ np.eye(n)",
)


@pytest.mark.xla
def test_numbers_in_place_of_zero_times_infinity_are_as_documented() -> None:
    verdict = check(INFINITE_ROW, ("none",))
    assert verdict.failures == []
    assert verdict.notes["numbers in place of 0 * inf or overflow, as documented"]


OVERFLOW = Program(
    {"n": 40},
    (Input("x", ("n",)),),
    ("y = np.where(np.arange(n) == 3, 800, np.tanh(x))",),
    "np.log(1 + np.exp(y))",
    dtype="float64",
)


@pytest.mark.xla
def test_numbers_in_place_of_what_overflowed_are_as_documented() -> None:
    verdict = check(OVERFLOW, ("none",))
    assert verdict.failures == []
    assert verdict.notes["numbers in place of 0 * inf or overflow, as documented"]


LOG_OF_EXP = Program(
    {"n": 40},
    (Input("x", ("n",)),),
    ("y = np.where(np.arange(n) == 3, 800, np.tanh(x))",),
    "np.log(np.exp(y)[:, None])",
    dtype="float64",
)


@pytest.mark.xla
def test_the_logarithm_of_an_exponential_is_no_failure() -> None:
    assert check(LOG_OF_EXP, ("none",)).failures == []


DISTANCES = Program(
    {"n": 74, "m": 3},
    (Input("x", ("m", "n")), Input("y", ("n", "n"))),
    (),
    "np.sin(np.exp(np.sum((x[:, None] - y) ** 2, axis=1)) ** 0.001)",
    dtype="float32",
)


@pytest.mark.xla
def test_what_overflows_in_a_graph_that_reads_bits_did_so_before() -> None:
    verdict = check(DISTANCES, ("none",))
    assert verdict.failures == []
    assert verdict.fired["match contractions"]


OWN_OVERFLOW = Program(
    {"n": 40},
    (Input("x", ("n",)),),
    ("y = np.where(np.arange(n) == 3, 5, np.tanh(x))",),
    "np.log(np.sin(y) + np.exp(y * y * y))",
    dtype="float32",
)


UNDERFLOW = """dtype, transform, seed = 'float32', 'value', 645
dims = {'n': 97, 'm': 3}
inputs = {'x0': ('m', 'n', 'normal'), 'm1': ('n', 'n', 'normal'), 's2': ('n', 'positive')}


def f(x0, m1, s2):
    a0 = -0.5 * np.sum((x0[:, None] - m1) ** 2, axis=-1) / s2 ** 2 - np.log(s2)
    return np.log(np.sum(np.exp(a0), axis=-2))
"""
"""What XLA's threads take for 0, and NumPy does not, has logarithms."""


@pytest.mark.xla
@pytest.mark.parametrize("program", [OWN_OVERFLOW, parse(UNDERFLOW)])
def test_what_overflows_as_written_is_no_failure(program: Program) -> None:
    verdict = check(program, ("none",))
    assert verdict.failures == []
    assert verdict.notes["overflows in its own dtype, as written"]


@pytest.mark.xla
def test_what_is_finite_is_judged_beside_an_overflow() -> None:
    with mock.patch.object(StableHloBuilder, "tanh", lambda self, x: self.sine(x), create=True):
        verdict = check(replace(OWN_OVERFLOW, dims={"n": 41}), ("none",))
    assert [item.kind for item in verdict.failures] == ["wrong"]


QUOTIENT = Program(
    {"n": 40},
    (Input("x", ("n",)),),
    ("y = np.where(np.arange(n) < 9, 1e9, np.tanh(x))",),
    "np.exp(y) / np.sum(np.exp(y)[:, None], axis=1)",
    dtype="float32",
)


@pytest.mark.xla
def test_numbers_in_place_of_infinite_quotients_are_as_documented() -> None:
    verdict = check(QUOTIENT, ("none",))
    assert verdict.failures == []
    assert verdict.notes["numbers in place of 0 * inf or overflow, as documented"]


@pytest.mark.xla
def test_what_is_finite_is_judged_beside_zero_times_infinity() -> None:
    with mock.patch.object(StableHloBuilder, "tanh", lambda self, x: self.sine(x), create=True):
        verdict = check(replace(INFINITE_ROW, dims={"n": 41}), ("none",))
    assert [item.kind for item in verdict.failures] == ["wrong"]


def test_where_only_jit_differs_jax_op_by_op_judges() -> None:
    pytest.importorskip("jax")
    wrong = mock.patch.object(frameworks, "jitted", lambda function: lambda x: 2 * function(x))
    with wrong:
        verdict = check(SINE, ("none",), peers=("jax",))
    assert verdict.failures == []
    assert verdict.notes["jax.jit is wrong: JAX op by op computes our values"] == 1


CANCELS = """dtype, transform, seed = 'float64', 'second', 64
dims = {'k': 1, 'd': 2}
inputs = {'x0': ('k', 'd', 'normal')}


def f(x0):
    return np.sum(np.logaddexp(x0[..., None][..., 0], x0))
"""


def test_a_rounding_that_only_the_peer_has_is_none_of_ours() -> None:
    pytest.importorskip("jax")
    verdict = check(parse(CANCELS), ("none",), peers=("jax",))
    assert verdict.failures == []


@pytest.mark.parametrize("lost", [1e-12, 1.0])
def test_what_a_peer_has_beyond_a_rounding_is_a_failure(lost: float) -> None:
    pytest.importorskip("jax")

    def losing(function: Any) -> Any:
        return lambda x: function(x) + np.eye(len(x))[1] * lost

    with mock.patch.multiple(frameworks, jitted=losing, op_by_op=losing):
        verdict = check(SINE, ("none",), peers=("jax",))
    assert [item.kind for item in verdict.failures] == ["jax"]


def test_op_by_op_jax_has_its_own_arrays() -> None:
    pytest.importorskip("jax")
    program = replace(SINE, result="x.at[1:].add(x[:-1])")
    with mock.patch.object(frameworks, "jitted", return_value=lambda x: 2 * x):
        verdict = check(program, ("none",), peers=("jax",))
    assert verdict.failures == []


def test_where_jax_differs_op_by_op_too_it_is_a_failure() -> None:
    jax = pytest.importorskip("jax")
    with mock.patch.object(jax.numpy, "sin", jax.numpy.cos):
        verdict = check(SINE, ("none",), peers=("jax",))
    assert [item.kind for item in verdict.failures] == ["jax"]


def test_where_jax_cannot_run_op_by_op_the_difference_is_a_failure() -> None:
    jax = pytest.importorskip("jax")
    transformed = frameworks.transformed

    def refused(x: Any) -> Any:
        raise TypeError("only under jit")

    def of_names(program: Program, names: dict[str, Any]) -> Any:
        return refused if names.get("framework") is jax else transformed(program, names)

    with (
        mock.patch.object(frameworks, "transformed", of_names),
        mock.patch.object(frameworks, "jitted", return_value=lambda x: 2 * np.sin(x)),
    ):
        verdict = check(SINE, ("none",), peers=("jax",))
    assert [item.kind for item in verdict.failures] == ["jax"]
    assert verdict.notes["jax refuses op by op: TypeError"] == 1


def test_rules_that_leave_out_zeros_are_those_of_the_docs() -> None:
    page = Path(__file__).parents[2] / "docs" / "rules.md"
    rows = ([cell.strip() for cell in line.split("|")] for line in page.read_text().splitlines())
    assert {row[1] for row in rows if len(row) > 4 and row[4] == "(1)"} == LEAVE_OUT_ZEROS


def test_seeds_of_ci_follow_from_the_source() -> None:
    assert seed_of_source() == seed_of_source()
    assert seed_of_source() >= 10**9
