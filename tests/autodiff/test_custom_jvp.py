"""custom_jvp: forward, reverse, nested, under vmap, and what is refused."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.dispatch import compound
from tracer.errors import ArgumentError, DTypeError, NotDifferentiableError, ShapeError

pytestmark = pytest.mark.xla

POINT = np.array([0.3, -1.2, 2.0])


@tracer.custom_jvp
def double_sine(x: Any) -> Any:
    return tnp.sin(x)


@double_sine.defjvp
def _double_sine_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return double_sine(x), 2 * tnp.cos(x) * t


def scaled(x: Any, y: Any) -> Any:
    return x * tnp.exp(y)


def with_rules(*rules: Any) -> Any:
    function = tracer.custom_jvp(scaled)
    function.defjvps(*rules)
    return function


def test_the_rule_is_used_both_ways() -> None:
    value, tangent = tracer.jvp(double_sine, (POINT,), (np.ones(3),))
    np.testing.assert_allclose(value, np.sin(POINT))
    np.testing.assert_allclose(tangent, 2 * np.cos(POINT))
    gradient = tracer.grad(lambda x: double_sine(x).sum())(POINT)
    np.testing.assert_allclose(gradient, 2 * np.cos(POINT))


def test_second_order_differentiates_the_rule() -> None:
    hessian = tracer.grad(tracer.grad(lambda x: double_sine(x)))(0.4)
    np.testing.assert_allclose(hessian, -2 * np.sin(0.4))


def test_defjvps_adds_the_rules_and_none_is_zero() -> None:
    both = with_rules(lambda t, ans, x, y: t * tnp.exp(y), lambda t, ans, x, y: t * ans)
    tracer.check_grads(both, (POINT, POINT / 2), modes=("rev", "fwd"))
    first = with_rules(lambda t, ans, x, y: t * tnp.exp(y), None)
    by_x, by_y = tracer.grad(first, argnums=(0, 1))(2.0, 0.5)
    np.testing.assert_allclose([by_x, by_y], [np.exp(0.5), 0.0])


def test_defjvps_takes_no_array_from_outside() -> None:
    """Its zero was an array as large as the result, which a compound program was not given."""
    function = with_rules(None, None)
    x = tnp.linspace(0.1, 1.0, 5000)
    np.testing.assert_allclose(compound(lambda x: function(x, x))(x), function(x, x))


def test_in_loops_compiled_and_checkpointed() -> None:
    def loss(x: Any) -> Any:
        step = tracer.checkpoint(lambda c, _: (double_sine(c), None))
        return tracer.scan(step, x, None, length=3)[0].sum()

    chain, x = 1.0, POINT
    for _ in range(3):
        chain, x = chain * 2 * np.cos(x), np.sin(x)
    np.testing.assert_allclose(tracer.compile(tracer.grad(loss))(POINT), chain)


def test_vmap_of_the_gradient_and_gradient_of_vmap() -> None:
    product = with_rules(lambda t, ans, x, y: t * tnp.exp(y), lambda t, ans, x, y: t * ans)
    per_row = tracer.vmap(tracer.grad(product, argnums=(0, 1)), in_axes=(0, None))(POINT, 0.5)
    np.testing.assert_allclose(per_row, [np.full(3, np.exp(0.5)), POINT * np.exp(0.5)])
    total = lambda x, y: tracer.vmap(product, in_axes=(0, None))(x, y).sum()
    by_x, by_y = tracer.grad(total, argnums=(0, 1))(POINT, 0.5)
    np.testing.assert_allclose(by_x, np.full(3, np.exp(0.5)))
    np.testing.assert_allclose(by_y, POINT.sum() * np.exp(0.5))


def test_nondiff_arguments_integers_and_nested_results() -> None:
    def power(n: int, state: Any, count: Any) -> Any:
        return {"value": state["x"] ** n * count, "count": count}

    function = tracer.custom_jvp(power, nondiff_argnums=0)

    @function.defjvp
    def rule(n: int, primals: Any, tangents: Any) -> Any:
        (state, count), (moved, no_tangent) = primals, tangents
        assert no_tangent.dtype == count.dtype
        change = n * state["x"] ** (n - 1) * count * moved["x"]
        return power(n, state, count), {"value": change, "count": no_tangent}

    gradient = tracer.grad(lambda s: function(3, s, np.int32(2))["value"])({"x": 2.0})
    np.testing.assert_allclose(gradient["x"], 24.0)


def test_outside_of_a_trace_the_function_itself_runs() -> None:
    assert float(double_sine(0.5)) == pytest.approx(np.sin(0.5))


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda p, t: p[0], DTypeError, "pair"),
        (lambda p, t: (p[0], (t[0],)), ShapeError, "nested"),
        (lambda p, t: (p[0], t[0].sum()), ShapeError, "tangent has shape"),
        (lambda p, t: (p[0], t[0].astype("float32")), DTypeError, "tangent has dtype"),
        (lambda p, t: (p[0].sum(), t[0]), ShapeError, "result has shape"),
        (lambda p, t: (p[0], t[0] * t[0]), NotDifferentiableError, "not linear"),
        (lambda p, t: (p[0], tnp.sin(t[0])), NotDifferentiableError, "not linear"),
    ],
)
def test_wrong_rules(rule: Any, error: Any, message: str) -> None:
    function = tracer.custom_jvp(lambda x: x)
    function.defjvp(rule)
    with pytest.raises(error, match=message):
        tracer.grad(lambda x: function(x).sum())(POINT)


def test_wrong_use() -> None:
    function = tracer.custom_jvp(lambda x: x)
    with pytest.raises(ArgumentError, match="no rule yet"):
        function(1.0)
    with pytest.raises(DTypeError, match="takes a function"):
        tracer.custom_jvp(3)
    with pytest.raises(DTypeError, match="takes a function"):
        function.defjvp(None)
    with pytest.raises(ArgumentError, match="1 rules for 2 arguments"):
        tracer.grad(with_rules(lambda t, ans, x, y: t))(1.0, 2.0)
    with pytest.raises(ArgumentError, match="nondiff_argnums"):
        tracer.custom_jvp(scaled, nondiff_argnums=0).defjvps(None)


def test_closing_over_what_is_differentiated_is_refused() -> None:
    def loss(w: Any) -> Any:
        function = tracer.custom_jvp(lambda x: x * w)
        function.defjvp(lambda p, t: (p[0] * w, t[0] * w))
        return function(2.0 * w)

    with pytest.raises(NotDifferentiableError, match="closes over"):
        tracer.grad(loss)(1.0)


def test_a_rule_may_apply_a_linear_function_to_the_tangent() -> None:
    """The function's own: with a rule it is called on a tangent, which needs its transpose."""
    negated = tracer.custom_jvp(lambda x: -x)
    negated.defjvp(lambda p, t: (negated(p[0]), negated(t[0])))
    assert float(tracer.grad(negated)(3.0)) == -1
    assert float(tracer.grad(tracer.grad(lambda x: negated(x) ** 2))(3.0)) == 2
    value, tangent = tracer.jvp(negated, (POINT,), (2 * POINT,))
    np.testing.assert_allclose([value, tangent], [-POINT, -2 * POINT])
    rows = tracer.vmap(tracer.grad(lambda x: (negated(x) ** 2).sum()))(POINT[:, None])
    np.testing.assert_allclose(rows[:, 0], 2 * POINT)
    compiled = tracer.compile(tracer.grad(lambda x: (negated(negated(x)) ** 3).sum()))
    np.testing.assert_allclose(compiled(POINT), 3 * POINT**2)


def test_a_rule_may_apply_linear_functions_with_rules_within_loops() -> None:
    halved = tracer.custom_vjp(lambda x: x / 2)
    halved.defvjp(lambda x: (x / 2, None), lambda _, g: (g / 2,))
    eighth = tracer.custom_jvp(lambda x: x / 8)

    @eighth.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        step = lambda _, t: halved(t)
        return eighth(primals[0]), tracer.fori_loop(0, 3, step, tangents[0])

    np.testing.assert_allclose(tracer.grad(lambda x: eighth(x).sum())(POINT), np.full(3, 0.125))
    np.testing.assert_allclose(tracer.jvp(eighth, (POINT,), (POINT,))[1], POINT / 8)


def test_a_partial_function() -> None:
    function = tracer.custom_jvp(functools.partial(lambda x, a: a * tnp.sin(x), a=0.1))
    function.defjvp(lambda p, t: (function(p[0]), tnp.cos(p[0]) * t[0]))
    gradient = tracer.grad(lambda x: function(x).sum())(POINT)
    np.testing.assert_allclose(gradient, np.cos(POINT))
    np.testing.assert_allclose(function(POINT), 0.1 * np.sin(POINT))
    with pytest.raises(ArgumentError, match=r"\['a'\] can be given by keyword only"):
        tracer.grad(lambda x: function(x, a=0.2).sum())(POINT)


def test_a_rule_matters_to_those_who_differentiate() -> None:
    function = tracer.custom_jvp(lambda x: tnp.sin(x))

    @function.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        raise ZeroDivisionError("no such rule")

    compiled = tracer.compile(lambda x: function(x) + 1)
    np.testing.assert_allclose(compiled(POINT), np.sin(POINT) + 1)
    np.testing.assert_allclose(tracer.vmap(function)(POINT), np.sin(POINT))
    by_y = tracer.grad(lambda y: (function(tnp.asarray(POINT)) * y).sum())(2.0)
    np.testing.assert_allclose(by_y, np.sin(POINT).sum())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="no such rule") as caught:
            tracer.grad(lambda x: function(x).sum())(POINT)
        (note,) = caught.value.__notes__
        assert "test_custom_jvp.py" in note
        assert "_rule" in note
