"""Rules: each is applied to what people write, computes the same, and keeps gradients right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import text
from tests.optimizer.rewrite.rule_cases import CASES, FLOAT, Case, N, floats, sample_arrays
from tracer import nn
from tracer.array.trace import trace
from tracer.errors import ArgumentError
from tracer.ir import Graph, ShapeDtype, interpret, verify, verify_same_signature
from tracer.numpy import linalg
from tracer.optimizer.passes import PassLog
from tracer.optimizer.pipeline import PlannerOptions, standard_passes
from tracer.optimizer.rewrite.match.rules import rules_pass
from tracer.optimizer.rewrite.rules import RULES, enabled
from tracer.optimizer.selection import NAMES, rule_names
from tracer.scipy import special

APPLY = rules_pass(RULES)
GOLDEN = Path(__file__).with_name("rules_golden.txt")
Types = tuple[ShapeDtype, ...]


def rewritten(function: Callable[..., Any], types: Types) -> tuple[Graph, Graph, PassLog]:
    """Return a program, what the rules make of it, and the log."""
    before, log = trace(function, types).graph, PassLog()
    after = APPLY.run(before, log)
    verify(after)
    verify_same_signature(before, after)
    return before, after, log


def applied(log: PassLog) -> list[str]:
    return [line.split(":")[0] for line in log.applied]


def in_double(types: Types) -> Types:
    return tuple(t.with_dtype("float64") if t.dtype == FLOAT else t for t in types)


def named(case: Case) -> str:
    return case[0]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_rule_is_applied_and_computes_the_same(case: Case) -> None:
    name, function, types = case
    before, after, log = rewritten(function, types)
    assert name in applied(log)
    arrays = sample_arrays(types)
    exact = trace(function, in_double(types)).graph
    wide = [a.astype("float64") if a.dtype == FLOAT else a for a in arrays]
    for plain, got, wanted in zip(
        interpret(before, arrays), interpret(after, arrays), interpret(exact, wide), strict=True
    ):
        assert got.dtype == plain.dtype
        scale = np.max(np.abs(wanted)) if wanted.size else 1.0
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5 * max(1.0, float(scale)))


@pytest.mark.parametrize("case", CASES, ids=named)
def test_nothing_is_left_to_rewrite(case: Case) -> None:
    """What the rules wrote is final: they come to an end, and would not change it again."""
    _, function, types = case
    after = rewritten(function, types)[1]
    assert APPLY.run(after, PassLog()) is after


def test_every_rule_has_a_case_a_source_and_its_own_name() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert set(names) == {name for name, _, _ in CASES}
    assert all(rule.source and rule.samples for rule in RULES)


def test_the_documentation_lists_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()
    assert {rule.name for rule in RULES if f"| {rule.name} |" not in page} == set()


def golden_text() -> str:
    """Return before and after of the first case of each rule."""
    sections: dict[str, str] = {}
    for name, function, types in CASES:
        if name not in sections:
            before, after, _ = rewritten(function, types)
            sections[name] = f"## {name}\n{text(before)}\n=>\n{text(after)}\n"
    return "\n".join(sections.values())


def test_golden_text() -> None:
    """`python -m tests.optimizer.rewrite.test_rules` writes the file anew; read its diff."""
    assert golden_text() == GOLDEN.read_text()


def scalar(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a scalar of a function's results, with weights that differ."""

    def weighed(*args: Any) -> Any:
        results = function(*args)
        many = results if isinstance(results, tuple) else (results,)
        return sum(tnp.sum(tnp.sin(y.ravel() + tnp.arange(y.size, dtype=y.dtype))) for y in many)

    return weighed


SMOOTH = [case for case in CASES if case[2][0].dtype == FLOAT and "places" not in case[0]]


@pytest.mark.parametrize("case", SMOOTH, ids=named)
def test_gradients_stay_right(case: Case) -> None:
    _, function, types = case
    types = in_double(types)
    arrays = sample_arrays(types)
    gradient = tracer.grad(scalar(function), argnums=tuple(range(len(types))))
    before, after, _ = rewritten(gradient, types)
    for got, wanted in zip(interpret(after, arrays), interpret(before, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-8 * (1 + np.abs(wanted).max()))


@pytest.mark.parametrize("rows", [1, 3, 5, 9])
@pytest.mark.parametrize("function", [tnp.trace, tnp.diagonal])
def test_products_of_a_diagonal_need_not_be_square(function: Callable[..., Any], rows: int) -> None:
    types = (floats(rows, 7), floats(7, 5))
    before, after, log = rewritten(lambda a, b: function(a @ b), types)
    assert applied(log) == [
        {tnp.trace: "trace-of-product", tnp.diagonal: "diagonal-of-product"}[function]
    ]
    arrays = sample_arrays(types)
    first, second = (interpret(graph, arrays)[0] for graph in (before, after))
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-5)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_one_hot_codes_of_narrow_indices(dtype: str) -> None:
    i, n = np.array([0, 5, 127, 100], dtype), 70_000 if dtype == "int16" else 300
    rows, sums = tracer.compile(
        lambda i, m, g: (nn.one_hot(i, n, dtype="float32") @ m, nn.one_hot(i, n).T @ g)
    )(i, np.arange(n, dtype="float32"), np.ones(4, "float32"))
    np.testing.assert_array_equal(np.asarray(rows), i)
    np.testing.assert_array_equal(np.flatnonzero(np.asarray(sums)), sorted(i))


def test_a_value_that_is_needed_elsewhere_is_priced() -> None:
    def program(a: Any, b: Any) -> Any:
        inverse = linalg.inv(a)
        return inverse, inverse @ b

    before, after, log = rewritten(program, (floats(N, N), floats(N)))
    assert after is before
    assert [r.reason for r in log.refusals if "inverse-times" in r.subject] == [
        "it would save nothing"
    ]


def test_rewrites_that_pay_only_together_are_taken_together() -> None:
    def program(a: Any, b: Any, c: Any) -> Any:
        inverse = linalg.inv(a)
        return inverse @ b, inverse @ c

    _, after, log = rewritten(program, (floats(N, N), floats(N), floats(N)))
    assert applied(log) == ["inverse-times", "inverse-times"]
    assert [node.name for node in after.nodes].count("lu") == 1


def test_the_larger_saving_wins_not_the_order_of_the_rules() -> None:
    """trace(diag(w) @ A) could be a scaled matrix; the trace of a product needs no matrix."""
    program = (lambda w, a: tnp.trace(tnp.diag(w) @ a), (floats(N), floats(N, N)))
    _, after, log = rewritten(*program)
    assert applied(log)[0] == "trace-of-product"
    assert "dot_general" not in [node.name for node in after.nodes]


def _naive_softmax(x: Any) -> Any:
    return tnp.exp(x) / tnp.sum(tnp.exp(x), axis=-1, keepdims=True)


ENDS: list[Callable[..., Any]] = [
    lambda x: tnp.sort(x)[:4],
    lambda x: tnp.sort(x)[-4:],
    lambda x: tnp.sort(x)[::-1][:4],
    lambda x: tnp.argsort(x)[:4],
    lambda x: tnp.argsort(-x)[:4],
]
ROWS = [
    np.array([0.0, -0.0, np.inf, np.nan, -np.inf, 1, 2] * 6, FLOAT),
    np.array([np.inf, np.nan] * 2 + [np.nan] * 30 + [1.0] + [np.inf] * 10, FLOAT),
    np.concatenate([np.zeros(20, FLOAT), -np.zeros(20, FLOAT)]),
    np.concatenate([-np.zeros(20, FLOAT), np.zeros(20, FLOAT)]),
]


@pytest.mark.xla
@pytest.mark.parametrize("function", ENDS)
def test_ends_of_a_sort_keep_ties_nan_and_infinity(function: Callable[..., Any]) -> None:
    for row in ROWS:
        compiled = tracer.compile(function)
        np.testing.assert_array_equal(compiled(row), function(tnp.asarray(row)))
        assert "sort" not in [node.name for node in compiled.graph(row).nodes]


@pytest.mark.xla
@pytest.mark.parametrize("n", [4, 5, -0.5, 1.5, 2.5])
def test_powers_of_zeros_infinities_and_negative_numbers(n: float) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -2.0, 1.0, 3.0], FLOAT)
    got = np.asarray(tracer.compile(lambda x: x**n)(x))
    with np.errstate(all="ignore"):
        wanted = x ** np.float32(n)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(got)[:4], np.signbit(wanted)[:4])


@pytest.mark.xla
@pytest.mark.parametrize(
    ("naive", "stable"),
    [
        (lambda x: tnp.log(1 + tnp.exp(x)), nn.softplus),
        (lambda x: tnp.log(tnp.sum(tnp.exp(x), axis=1)), lambda x: special.logsumexp(x, axis=1)),
        (lambda x: tnp.log(_naive_softmax(x)), nn.log_softmax),
        (_naive_softmax, nn.softmax),
    ],
)
def test_gradients_no_longer_overflow_either(
    naive: Callable[..., Any], stable: Callable[..., Any]
) -> None:
    x = np.array([[1000.0, 999.0, 0.0], [1.0, 2.0, 3.0]], FLOAT)
    got, wanted = (
        np.asarray(tracer.compile(tracer.grad(lambda x, f=f: tnp.sum(f(x)[..., 0] ** 2)))(x))
        for f in (naive, stable)
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.xla
def test_what_overflowed_no_longer_does() -> None:
    x = np.array([1000.0, 999.0], FLOAT)
    assert np.isfinite(tracer.compile(lambda x: tnp.log(tnp.sum(tnp.exp(x))))(x))
    large = np.eye(200, dtype=FLOAT) * 1000
    log_determinant = tracer.compile(lambda a: tnp.log(linalg.det(a)))
    np.testing.assert_allclose(log_determinant(large), 200 * np.log(1000.0), rtol=1e-5)
    assert np.isnan(log_determinant(np.diag([-1.0, 2, 3]).astype(FLOAT)))
    assert np.isneginf(log_determinant(np.diag([0.0, 2, 3]).astype(FLOAT)))


def test_users_lines_are_kept() -> None:
    after = rewritten(lambda a, b: linalg.inv(a) @ b, (floats(N, N), floats(N)))[1]
    assert {node.source.file for node in after.nodes if node.source} == {__file__}
    assert all(node.source for node in after.nodes)


def test_a_program_without_matches_comes_back_as_it_was() -> None:
    before, after, log = rewritten(lambda a, b: a.T @ b + 1, (floats(9, N), floats(9, N)))
    assert after is before
    assert not log.applied


@pytest.mark.xla
def test_bodies_of_loops_are_rewritten() -> None:
    def program(a: Any, x: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda i, y: linalg.inv(a) @ y, x)

    graph = trace(program, (floats(N, N), floats(N))).graph
    names = [
        node.name
        for row in tracer.compile(program).graph(floats(N, N), floats(N)).nodes
        for body in row.bodies.values()
        for inner in (body if isinstance(body, tuple) else (body,))
        for node in inner.nodes
    ]
    assert graph.nodes
    assert "dot_general" not in names


@pytest.mark.xla
def test_names_switch_rules_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrites() -> list[str]:
        compiled = tracer.compile(lambda a, b: tnp.log(1 + linalg.inv(a) @ b))
        rows = compiled.plan(floats(N, N), floats(N)).passes
        return [line.split(":")[0] for row in rows if "rules" in row.name for line in row.applied]

    monkeypatch.delenv("TRACER_DISABLE_RULES", raising=False)
    assert rewrites() == ["log1p", "inverse-times"]
    monkeypatch.setenv("TRACER_DISABLE_RULES", "log1p, expm1")
    assert rewrites() == ["inverse-times"]


def test_the_older_passes_have_names_too() -> None:
    off = rule_names("match-contractions,unroll-short-reductions")
    names = [item.name for item in standard_passes(PlannerOptions(with_rules=True, disabled=off))]
    assert "apply rules" in names
    assert not {"match contractions", "unroll short reductions"} & set(names)
    assert len(names) == len(standard_passes(PlannerOptions(with_rules=True))) - 3
    assert enabled(NAMES) == ()


def test_an_unknown_name_is_an_error_that_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_DISABLE_RULES", "inverse-time")
    with pytest.raises(ArgumentError, match="no pass or rewrite rule 'inverse-time'") as caught:
        tracer.compile(tnp.sin)
    assert "TRACER_DISABLE_RULES" in str(caught.value)
    assert "did you mean inverse-times?" in caught.value.mend


@pytest.mark.xla
def test_the_plan_shows_rewrites_and_refusals() -> None:
    plan = tracer.compile(lambda a, b: (linalg.inv(a) @ b, tnp.log(b + 2))).plan(
        floats(N, N), floats(N)
    )
    (row,) = [row for row in plan.passes if row.name == "apply rules"]
    assert [line.split(":")[0] for line in row.applied] == ["inverse-times"]
    assert any("log1p at log" in str(r) and "constant" in r.reason for r in row.refusals)


if __name__ == "__main__":
    GOLDEN.write_text(golden_text())
