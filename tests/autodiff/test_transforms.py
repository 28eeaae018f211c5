"""grad, value_and_grad, vjp, jvp, linearize, checkpoint, custom_vjp, stop_gradient, check_grads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import tree
from tracer.autodiff.transforms import (
    check_grads,
    checkpoint,
    custom_vjp,
    grad,
    jvp,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
)
from tracer.control import cond, fori_loop, scan, while_loop
from tracer.errors import (
    ArgumentError,
    DTypeError,
    GradientCheckError,
    NotDifferentiableError,
    ShapeError,
    TracerError,
)


def loss(parameters: dict[str, Any], x: Any) -> Any:
    hidden = tnp.tanh(x @ parameters["w"] + parameters["b"])
    return (hidden**2).sum() + tnp.exp(parameters["b"]).sum()


def make_parameters(dtype: str = "float64") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"w": rng.standard_normal((3, 2)).astype(dtype), "b": np.full(2, 0.3, dtype)}


X = np.random.default_rng(1).standard_normal((4, 3))


def same(one: Any, other: Any, **tolerances: float) -> None:
    assert tree.structure(one) == tree.structure(other)
    for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), **tolerances)


class TestGrad:
    @pytest.mark.xla
    def test_nested_parameters(self) -> None:
        check_grads(loss, (make_parameters(), X), modes=("rev", "fwd"))
        gradient = grad(loss)(make_parameters(), X)
        hidden = np.tanh(X @ make_parameters()["w"] + 0.3)
        slope = 2 * hidden * (1 - hidden**2)
        np.testing.assert_allclose(np.asarray(gradient["w"]), X.T @ slope)
        np.testing.assert_allclose(np.asarray(gradient["b"]), slope.sum(0) + np.exp(0.3))

    @pytest.mark.xla
    def test_shapes_and_dtypes_are_those_of_the_argument(self) -> None:
        parameters = make_parameters("float32")
        gradient = grad(loss)(parameters, X.astype("float32"))
        assert gradient["w"].dtype == np.float32
        assert gradient["w"].shape == (3, 2)

    @pytest.mark.xla
    def test_value_and_grad(self) -> None:
        value, gradient = value_and_grad(loss)(make_parameters(), X)
        same(gradient, grad(loss)(make_parameters(), X))
        wanted = loss(tree.map(tnp.array, make_parameters()), X)
        np.testing.assert_allclose(float(value), float(wanted))

    @pytest.mark.xla
    def test_argnums(self) -> None:
        def function(x: Any, y: Any, z: Any) -> Any:
            return x * y * z

        assert float(grad(function)(2.0, 3.0, 4.0)) == 12
        assert float(grad(function, 1)(2.0, 3.0, 4.0)) == 8
        assert float(grad(function, -1)(2.0, 3.0, 4.0)) == 6
        assert [float(g) for g in grad(function, (2, 0))(2.0, 3.0, 4.0)] == [6, 12]
        assert [float(g) for g in grad(function, (1,))(2.0, 3.0, 4.0)] == [8]

    @pytest.mark.xla
    def test_other_arguments_and_keywords_pass_as_they_are(self) -> None:
        def function(x: Any, power: int, *, name: str) -> Any:
            assert name == "cube"
            return x**power if isinstance(power, int) else None

        assert float(grad(function)(2.0, 3, name="cube")) == 12

    @pytest.mark.xla
    def test_has_aux(self) -> None:
        def function(x: Any) -> Any:
            return x**2, {"twice": 2 * x, "shape": (x, x)}

        gradient, aux = grad(function, has_aux=True)(3.0)
        assert (float(gradient), float(aux["twice"])) == (6, 6)
        (value, aux), gradient = value_and_grad(function, has_aux=True)(3.0)
        assert (float(value), float(gradient), float(aux["shape"][1])) == (9, 6, 3)

    @pytest.mark.xla
    def test_arrays_that_are_closed_over(self) -> None:
        weights = tnp.array(np.arange(30.0))
        gradient = grad(lambda x: (x * weights).sum())(np.ones(30))
        np.testing.assert_array_equal(np.asarray(gradient), np.arange(30.0))

    @pytest.mark.xla
    def test_closed_over_arrays_are_read_at_each_call(self) -> None:
        box = [tnp.array(np.full(20, 2.0))]
        gradient = grad(lambda x: (x * box[0]).sum())
        assert float(gradient(np.ones(20))[0]) == 2
        box[0] = tnp.array(np.full(20, 5.0))
        assert float(gradient(np.ones(20))[0]) == 5

    @pytest.mark.xla
    def test_gradient_of_gradient_of_gradient(self) -> None:
        def function(x: Any) -> Any:
            return x**4

        assert [float(f(2.0)) for f in (grad(function), grad(grad(function)))] == [32, 48]
        assert float(grad(grad(grad(function)))(2.0)) == 48

    @pytest.mark.xla
    def test_perturbations_are_not_confused(self) -> None:
        # d/dx x * (d/dy x + y) = 1: see Siskind & Pearlmutter (2008).
        assert float(grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0)) == 1

    def test_gradient_penalty(self) -> None:
        def penalty(w: Any, x: Any) -> Any:
            by_x = grad(lambda x: tnp.sin(x * w).sum())(x)
            return (by_x**2).sum()

        check_grads(penalty, (np.array([0.3, 0.7]), np.array([1.0, 2.0])), order=2)

    @pytest.mark.xla
    def test_constant_function(self) -> None:
        assert float(grad(lambda x: 3.0)(2.0)) == 0

    @pytest.mark.xla
    def test_allow_int(self) -> None:
        by_x, by_n = grad(lambda x, n: x * n, (0, 1), allow_int=True)(2.0, 3)
        assert float(by_x) == 3
        assert by_n.dtype == np.int64
        assert int(by_n) == 0

    @pytest.mark.xla
    def test_holomorphic(self) -> None:
        z = np.array(1 + 2j)
        result = grad(lambda z: z**3, holomorphic=True)(z)
        np.testing.assert_allclose(complex(result), 3 * z**2)

    @pytest.mark.xla
    def test_real_function_of_complex_argument(self) -> None:
        z = np.array([1 + 2j, 3 - 1j])
        result = grad(lambda z: (tnp.abs(z) ** 2).sum())(z)
        np.testing.assert_allclose(np.asarray(result), 2 * z.conj())

    def test_keeps_the_name_and_documentation(self) -> None:
        assert grad(loss).__name__ == "loss"


class TestGradErrors:
    def test_result_that_is_no_scalar(self) -> None:
        with pytest.raises(ShapeError, match=r"float64\[3\], which is no scalar"):
            grad(lambda x: x)(np.ones(3))

    def test_integer_argument(self) -> None:
        with pytest.raises(DTypeError, match=r"argument 1 at \['n'\] is int64\[\]") as caught:
            grad(lambda x, y: x * y["n"], (0, 1))(1.0, {"n": 3})
        assert "allow_int=True" in str(caught.value)

    def test_integer_result(self) -> None:
        with pytest.raises(DTypeError, match="only floating results"):
            grad(lambda x: x.astype("int32"))(1.0)

    def test_leaf_that_is_no_array(self) -> None:
        with pytest.raises(DTypeError, match=r"argument 0 at \['name'\] is 'adam'"):
            grad(lambda p: p["x"])({"x": 1.0, "name": "adam"})

    @pytest.mark.parametrize("argnums", [2, -3, (0, 5)])
    def test_argnums_out_of_range(self, argnums: Any) -> None:
        with pytest.raises(ArgumentError, match="2 positional arguments"):
            grad(lambda x, y: x * y, argnums)(1.0, 2.0)

    @pytest.mark.parametrize("argnums", ["x", 1.0, (0, "y"), None, True])
    def test_argnums_of_a_wrong_type(self, argnums: Any) -> None:
        with pytest.raises(DTypeError, match="argnums is an integer or a tuple"):
            grad(lambda x, y: x * y, argnums)

    def test_argnums_twice(self) -> None:
        with pytest.raises(ArgumentError, match="twice"):
            grad(lambda x, y: x * y, (0, -2))(1.0, 2.0)

    def test_complex_result_without_holomorphic(self) -> None:
        with pytest.raises(DTypeError, match="holomorphic=True"):
            grad(lambda z: z**2)(1 + 2j)

    def test_holomorphic_with_real_argument(self) -> None:
        with pytest.raises(DTypeError, match="which is not complex"):
            grad(lambda z: z * 1j, holomorphic=True)(1.0)

    @pytest.mark.parametrize("result", [None, "loss", (1.0, 2.0), {"loss": 1.0}])
    def test_result_that_is_no_array(self, result: Any) -> None:
        with pytest.raises(DTypeError, match="which is no array"):
            grad(lambda x: result)(1.0)

    def test_has_aux_without_pair(self) -> None:
        with pytest.raises(DTypeError, match="pair"):
            grad(lambda x: x, has_aux=True)(1.0)

    def test_something_that_is_no_function(self) -> None:
        with pytest.raises(DTypeError, match="takes a function"):
            grad(3.0)  # type: ignore[arg-type]

    def test_while_loop(self) -> None:
        def function(x: Any) -> Any:
            return while_loop(lambda y: y < 10, lambda y: y * 2, x)

        with pytest.raises(NotDifferentiableError, match="number of iterations") as caught:
            grad(function)(1.0)
        assert "fori_loop" in caught.value.mend
        assert "return while_loop" in str(caught.value)

    def test_every_error_is_ours(self) -> None:
        with pytest.raises(TracerError):
            grad(lambda x: x)("text")


class TestVjp:
    @pytest.mark.xla
    def test_value_and_pull_back(self) -> None:
        value, pull_back = vjp(lambda x, y: {"p": x * y, "s": x + y}, np.arange(3.0), 2.0)
        same(value, {"p": 2 * np.arange(3.0), "s": np.arange(3.0) + 2})
        by_x, by_y = pull_back({"p": np.ones(3), "s": 10 * np.ones(3)})
        same((by_x, by_y), (np.full(3, 12.0), np.array(33.0)))

    @pytest.mark.xla
    def test_the_forward_half_runs_once(self) -> None:
        calls = []

        def function(x: Any) -> Any:
            calls.append(1)
            return tnp.sin(x)

        _, pull_back = vjp(function, 1.0)
        first, second = pull_back(1.0), pull_back(2.0)
        assert len(calls) == 1
        assert 2 * float(first[0]) == float(second[0])

    @pytest.mark.xla
    def test_pull_back_sees_the_primals_as_they_were(self) -> None:
        x = tnp.array(np.arange(20.0))
        _, pull_back = vjp(lambda x: (x**2).sum(), x)
        x[0] = 100.0
        np.testing.assert_array_equal(np.asarray(pull_back(1.0)[0]), 2 * np.arange(20.0))

    @pytest.mark.xla
    def test_has_aux(self) -> None:
        value, pull_back, aux = vjp(lambda x: (x**2, 5 * x), 3.0, has_aux=True)
        assert [float(v) for v in (value, pull_back(1.0)[0], aux)] == [9, 6, 15]

    @pytest.mark.xla
    def test_integer_leaves(self) -> None:
        value, pull_back = vjp(lambda x, n: (x * n, n + 1), 2.0, 3)
        by_x, by_n = pull_back((1.0, 0))
        assert [float(value[0]), int(value[1]), float(by_x), int(by_n)] == [6, 4, 3, 0]
        assert by_n.dtype == np.int64

    def test_inside_of_a_gradient(self) -> None:
        def function(x: Any) -> Any:
            _, pull_back = vjp(lambda y: tnp.sin(x * y), x)
            return pull_back(tnp.cos(x))[0]

        check_grads(function, (0.7,), order=2)

    @pytest.mark.xla
    def test_wrong_cotangents(self) -> None:
        _, pull_back = vjp(lambda x: (x, x), np.ones(3, "float32"))
        good = np.ones(3, "float32")
        with pytest.raises(ShapeError, match=r"has shape \(2,\)"):
            pull_back((good, good[:2]))
        with pytest.raises(DTypeError, match="has dtype float64"):
            pull_back((good, np.ones(3)))
        with pytest.raises(DTypeError, match="structure"):
            pull_back(good)
        with pytest.raises(DTypeError, match="no array"):
            pull_back((good, "x"))

    def test_result_that_is_no_array(self) -> None:
        with pytest.raises(DTypeError, match="'text'"):
            vjp(lambda x: (x, "text"), 1.0)


@pytest.mark.xla
class TestForwardMode:
    def test_jvp(self) -> None:
        value, tangent = jvp(lambda x, y: (x * y, tnp.sin(x)), (2.0, 3.0), (1.0, 10.0))
        same(value, (np.array(6.0), np.sin(2.0)))
        same(tangent, (np.array(23.0), np.cos(2.0)))

    def test_jvp_with_aux(self) -> None:
        value, tangent, aux = jvp(lambda x: (x**2, x + 1), (3.0,), (1.0,), has_aux=True)
        assert [float(v) for v in (value, tangent, aux)] == [9, 6, 4]

    def test_jvp_of_integer_leaves(self) -> None:
        value, tangent = jvp(lambda x, n: (x * n, n), (2.0, 3), (1.0, 0))
        assert [float(value[0]), float(tangent[0])] == [6, 3]
        assert tangent[1].dtype == np.int64

    def test_linearize(self) -> None:
        value, push = linearize(lambda x: tnp.sin(x) * x, np.arange(3.0))
        x = np.arange(3.0)
        same(value, np.sin(x) * x)
        same(push(2 * np.ones(3)), 2 * (np.cos(x) * x + np.sin(x)))

    def test_forward_over_reverse_is_reverse_over_forward(self) -> None:
        def function(x: Any) -> Any:
            return tnp.sin(x[0] * x[1]) + x[0] ** 3

        x, v = np.array([0.3, 0.8]), np.array([1.0, 2.0])
        one = jvp(grad(function), (x,), (v,))[1]
        other = grad(lambda x: jvp(function, (x,), (v,))[1])(x)
        same(one, other, rtol=1e-12)

    def test_wrong_tangents(self) -> None:
        with pytest.raises(ShapeError, match="tangent"):
            jvp(tnp.sin, (np.ones(3),), (np.ones(2),))
        with pytest.raises(DTypeError, match="structure"):
            jvp(tnp.sin, (np.ones(3),), (np.ones(3), np.ones(3)))
        with pytest.raises(DTypeError, match="give a tuple"):
            jvp(tnp.sin, np.ones(3), np.ones(3))  # type: ignore[arg-type]


class TestStopGradientAndCheckpoint:
    @pytest.mark.xla
    def test_stop_gradient(self) -> None:
        assert float(grad(lambda x: x * stop_gradient(x))(3.0)) == 3
        value = stop_gradient({"a": np.ones(2), "n": 3})
        same(value, {"a": np.ones(2), "n": np.array(3)})

    @pytest.mark.xla
    def test_checkpoint_changes_no_value(self) -> None:
        block = checkpoint(lambda p, x: tnp.tanh(x @ p["w"]) * p["s"])

        def function(p: Any, x: Any) -> Any:
            return block(p, block(p, x)).sum()

        p = {"w": 0.5 * np.eye(3), "s": np.array(2.0)}
        check_grads(function, (p, X), order=2, modes=("rev", "fwd"))
        plain = grad(lambda p, x: (tnp.tanh(tnp.tanh(x @ p["w"]) * p["s"] @ p["w"]) * p["s"]).sum())
        same(grad(function)(p, X), plain(p, X), rtol=1e-12)

    @pytest.mark.xla
    def test_checkpoint_with_closure_keywords_and_static_arguments(self) -> None:
        scale = tnp.array(np.full(20, 3.0))

        def function(x: Any, kind: str, *, power: Any) -> Any:
            return (scale * x**power).sum() if kind == "power" else x

        block = checkpoint(function, static_argnums=1)
        gradient = grad(lambda x: block(x, "power", power=2.0) + scale[0])(np.ones(20))
        np.testing.assert_array_equal(np.asarray(gradient), np.full(20, 6.0))
        assert float(block(np.ones(20), "power", power=2.0)) == 60

    def test_checkpoint_of_a_traced_closure(self) -> None:
        def function(w: Any, x: Any) -> Any:
            return checkpoint(lambda x: tnp.sin(w * x))(x).sum()

        check_grads(function, (np.array(0.5), np.arange(3.0)))


@custom_vjp
def steep(x: Any, y: Any) -> Any:
    return x * y


def _steep_forward(x: Any, y: Any) -> Any:
    return x * y, {"x": x, "y": y}


def _steep_backward(kept: Any, g: Any) -> Any:
    return 100 * g * kept["y"], None


steep.defvjp(_steep_forward, _steep_backward)


class TestCustomVjp:
    @pytest.mark.xla
    def test_value_and_rule(self) -> None:
        assert float(steep(2.0, 3.0)) == 6
        by_x, by_y = grad(steep, (0, 1))(2.0, 3.0)
        assert (float(by_x), float(by_y)) == (300, 0)

    @pytest.mark.xla
    def test_keywords_are_bound(self) -> None:
        assert float(grad(lambda x: steep(y=3.0, x=x))(2.0)) == 300

    @pytest.mark.xla
    def test_second_derivative_goes_through_the_rule(self) -> None:
        assert float(grad(lambda y: grad(steep)(2.0, y))(3.0)) == 100

    @pytest.mark.xla
    def test_rule_that_calls_the_function(self) -> None:
        @custom_vjp
        def power(x: Any) -> Any:
            return while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, 1.0))[1]

        power.defvjp(lambda x: (power(x), x), lambda x, g: (3 * g * power(x) / x,))
        derivative: Any = power
        for wanted in (12, 12, 6, 0):
            derivative = grad(derivative)
            np.testing.assert_allclose(float(derivative(2.0)), wanted, atol=1e-12)
        with pytest.raises(NotDifferentiableError, match="calls itself"):
            grad(derivative)(2.0)

    @pytest.mark.xla
    def test_in_a_scan(self) -> None:
        def function(x: Any) -> Any:
            return scan(lambda c, row: (steep(c, row), None), x, np.array([1.0, 2.0]))[0]

        assert float(grad(function)(1.0)) == 20000

    @pytest.mark.xla
    def test_nested_arguments_and_results(self) -> None:
        @custom_vjp
        def swap(p: Any) -> Any:
            return {"a": p["b"], "b": p["a"]}

        swap.defvjp(lambda p: (swap(p), None), lambda _, g: ({"a": 2 * g["b"], "b": 3 * g["a"]},))
        gradient = grad(lambda p: swap(p)["a"] + 10 * swap(p)["b"])({"a": 1.0, "b": 1.0})
        same(gradient, {"a": np.array(20.0), "b": np.array(3.0)})

    @pytest.mark.xla
    def test_nondiff_argnums(self) -> None:
        @partial(custom_vjp, nondiff_argnums=(0,))
        def apply(function: Any, x: Any) -> Any:
            return function(x)

        apply.defvjp(
            lambda function, x: (function(x), x), lambda function, x, g: (g * function(x),)
        )
        np.testing.assert_allclose(float(grad(lambda x: apply(tnp.sin, x))(1.0)), np.sin(1.0))

    @pytest.mark.xla
    def test_integer_arguments_and_results(self) -> None:
        @custom_vjp
        def indexed(x: Any, n: Any) -> Any:
            return x * n, n + 1

        def backward(n: Any, g: Any) -> Any:
            assert g[1].dtype.kind == "i"
            return g[0] * n, None

        indexed.defvjp(lambda x, n: ((x * n, n + 1), n), backward)
        assert float(grad(lambda x: indexed(x, 3)[0])(2.0)) == 3

    @pytest.mark.xla
    def test_closures_of_concrete_arrays(self) -> None:
        scale = tnp.array(np.arange(20.0))

        @custom_vjp
        def scaled(x: Any) -> Any:
            return x * scale

        scaled.defvjp(lambda x: (x * scale, None), lambda _, g: (7 * g * scale,))
        gradient = grad(lambda x: scaled(x).sum())(np.ones(20))
        np.testing.assert_array_equal(np.asarray(gradient), 7 * np.arange(20.0))

    def test_refuses_to_differentiate_a_closure(self) -> None:
        def function(y: Any) -> Any:
            @custom_vjp
            def inner(x: Any) -> Any:
                return x * y

            inner.defvjp(lambda x: (x * y, None), lambda _, g: (g,))
            return inner(y)

        with pytest.raises(NotDifferentiableError, match="closes over"):
            grad(function)(2.0)

    def test_without_rule(self) -> None:
        with pytest.raises(ArgumentError, match="defvjp"):
            custom_vjp(lambda x: x)(1.0)

    @pytest.mark.parametrize(
        ("forward", "backward", "error", "text"),
        [
            (lambda x: x, lambda _, g: (g,), DTypeError, "fwd returned"),
            (lambda x: (x.sum(), None), lambda _, g: (g,), ShapeError, "fwd gives the result"),
            (lambda x: (x, None), lambda _, g: g, DTypeError, "bwd returned"),
            (lambda x: (x, None), lambda _, g: (g, g), DTypeError, "bwd returned"),
            (lambda x: (x, None), lambda _, g: (g.sum(),), ShapeError, "cotangent of argument 0"),
            (lambda x: (x, None), lambda _, g: ((g, g),), DTypeError, "structure"),
            (lambda x: (x, None), lambda _, g: (g.astype("float32"),), DTypeError, "float32"),
        ],
    )
    def test_rules_that_do_not_fit(
        self, forward: Any, backward: Any, error: Any, text: str
    ) -> None:
        function = custom_vjp(lambda x: x)
        function.defvjp(forward, backward)
        with pytest.raises(error, match=text):
            grad(lambda x: function(x).sum())(np.ones(3))

    @pytest.mark.xla
    def test_none_within_a_nested_cotangent_is_zeros(self) -> None:
        @custom_vjp
        def total(parts: Any) -> Any:
            return parts["w"][0] * parts["w"][1] + parts["b"] + parts["n"]

        def forward(parts: Any) -> Any:
            return total(parts), parts

        def backward(parts: Any, g: Any) -> Any:
            return ({"w": (g * parts["w"][1], None), "b": None, "n": None},)

        total.defvjp(forward, backward)
        parts = {"w": (2.0, 3.0), "b": np.ones(()), "n": np.int32(4)}
        assert float(total(parts)) == 11
        by_w, by_b = grad(lambda w, b: total({**parts, "w": w, "b": b}), argnums=(0, 1))(
            (2.0, 3.0), 1.0
        )
        assert [float(g) for g in (*by_w, by_b)] == [3, 0, 0]
        total.defvjp(forward, lambda parts, g: ({"w": g, "b": None, "n": None},))
        with pytest.raises(DTypeError, match="structure"):
            grad(lambda w: total({**parts, "w": w}))((2.0, 3.0))

    @pytest.mark.xla
    @pytest.mark.parametrize("part", ["fwd", "bwd"])
    def test_a_rule_matters_to_those_who_differentiate(self, part: str) -> None:
        def fail(*_: Any) -> Any:
            raise ZeroDivisionError(part)

        function = custom_vjp(lambda x: x * 2)
        rules = {"fwd": lambda x: (x * 2, None), "bwd": lambda _, g: (g,)}
        function.defvjp(*{**rules, part: fail}.values())
        np.testing.assert_array_equal(tracer.compile(lambda x: function(x))(np.ones(3)), 2)
        with pytest.raises(ZeroDivisionError, match=part):
            grad(lambda x: function(x).sum())(np.ones(3))

    @pytest.mark.xla
    def test_as_a_method(self) -> None:
        class Model:
            scale = 3.0

            @partial(custom_vjp, nondiff_argnums=(0,))
            def call(self, x: Any) -> Any:
                return x * self.scale

        def backward(model: Model, kept: Any, g: Any) -> Any:
            return (g * model.scale * 10,)

        Model.call.defvjp(lambda model, x: (model.call(x), None), backward)
        assert float(Model().call(2.0)) == 6
        assert float(grad(Model().call)(2.0)) == 30


class TestCheckGrads:
    def test_what_is_closed_over_stays(self) -> None:
        """Read twice it is two inputs: changed apart they would make an asymmetric kernel."""
        points = np.linspace(0.0, 12.0, 80)

        def loss(scale: Any) -> Any:
            distances = (tnp.asarray(points)[:, None] - tnp.asarray(points)[None]) / scale
            kernel = tnp.exp(-(distances**2)) + 0.1 * np.eye(80)
            return tnp.sin(tnp.linalg.cholesky(kernel)).sum()

        check_grads(loss, (1.3,), order=2, modes=("rev", "fwd"))

    def test_catches_a_wrong_rule(self) -> None:
        with pytest.raises(GradientCheckError):
            check_grads(steep, (2.0, 3.0), order=1)

    def test_float32(self) -> None:
        check_grads(loss, (make_parameters("float32"), X.astype("float32")), order=2)

    def test_through_control_flow(self) -> None:
        def function(x: Any, n: Any) -> Any:
            y = cond(n > 2, tnp.sin, tnp.cos, x)
            return fori_loop(0, 4, lambda i, c: c * tnp.sin(c + i), y)

        check_grads(function, (0.7, 3), order=3, modes=("rev", "fwd"))


class TestAgainstJax:
    """The same programs in JAX; run where jax is installed."""

    @staticmethod
    def programs(np_like: Any, lax: Any) -> dict[str, Any]:
        def attention(q: Any, k: Any, v: Any) -> Any:
            scores = np_like.exp(q @ k.T / 2)
            return ((scores / scores.sum(1, keepdims=True)) @ v).sum()

        def recurrent(w: Any, h: Any, xs: Any) -> Any:
            def step(h: Any, x: Any) -> Any:
                h = np_like.tanh(w @ h + x)
                return h, (h * x).sum()

            last, rows = lax.scan(step, h, xs)
            return last.sum() + (rows**2).sum()

        def branches(x: Any, y: Any) -> Any:
            z = lax.cond(x.sum() > 0, lambda a: a * y, lambda a: a + y, x)
            return lax.switch(1, [lambda a: a, lambda a: np_like.sin(a * y)], z).sum()

        def complexes(x: Any, y: Any) -> Any:
            z = np_like.exp(1j * x) * y
            return (np_like.abs(z + 1) ** 2).sum() + np_like.real(z * z).sum()

        return {
            "attention": (attention, [(4, 3), (5, 3), (5, 2)]),
            "recurrent": (recurrent, [(3, 3), (3,), (6, 3)]),
            "branches": (branches, [(3,), (3,)]),
            "complexes": (complexes, [(3,), (3,)]),
        }

    @pytest.mark.parametrize("name", ["attention", "recurrent", "branches", "complexes"])
    def test_gradients(self, name: str) -> None:
        jax = pytest.importorskip("jax")
        import tracer.control

        jax.config.update("jax_enable_x64", True)
        rng = np.random.default_rng(3)
        theirs, shapes = self.programs(jax.numpy, jax.lax)[name]
        ours, _ = self.programs(tnp, tracer.control)[name]
        arrays = [rng.standard_normal(shape) for shape in shapes]
        argnums = tuple(range(len(arrays)))
        same(grad(ours, argnums)(*arrays), jax.grad(theirs, argnums)(*arrays), rtol=1e-9)

        def norm(g: Any) -> Any:
            return lambda *args: sum((leaf**2).sum() for leaf in g(*args))

        second = grad(norm(grad(ours, argnums)), argnums)(*arrays)
        wanted = jax.grad(norm(jax.grad(theirs, argnums)), argnums)(*arrays)
        same(second, wanted, rtol=1e-8, atol=1e-10)
        tangents = tuple(rng.standard_normal(shape) for shape in shapes)
        same(
            jvp(ours, tuple(arrays), tangents),
            jax.jvp(theirs, tuple(arrays), tangents),
            rtol=1e-9,
        )


@pytest.mark.xla
def test_a_rule_that_calls_its_function_twice_is_traced_once_for_each_order() -> None:
    calls: list[str] = []

    @custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    def forward(x: Any) -> Any:
        calls.append("forward")
        return cube(x), x

    def backward(x: Any, g: Any) -> Any:
        calls.append("backward")
        return (g * (cube(x + 1) - cube(x) - 3 * x - 1),)  # 3 x^2

    cube.defvjp(forward, backward)
    fourth = grad(grad(grad(lambda x: cube(x) * x)))
    np.testing.assert_allclose(fourth(2.0), 48.0, rtol=1e-12)
    assert sorted(calls) == ["backward"] * 4 + ["forward"] * 4
    calls.clear()
    grad(cube)(2.0)
    assert len(calls) == 8, "each call from outside has its own"


@pytest.mark.xla
def test_rules_of_functions_that_call_each_other_have_as_many_derivatives() -> None:
    @custom_vjp
    def sine(x: Any) -> Any:
        return tnp.sin(x)

    @custom_vjp
    def cosine(x: Any) -> Any:
        return tnp.cos(x)

    sine.defvjp(lambda x: (sine(x), x), lambda x, g: (g * cosine(x),))
    cosine.defvjp(lambda x: (cosine(x), x), lambda x, g: (-g * sine(x),))
    function = lambda x: sine(x) + cosine(x) * sine(x)
    plain = lambda x: tnp.sin(x) + tnp.cos(x) * tnp.sin(x)
    for _ in range(4):
        function, plain = grad(function), grad(plain)
        np.testing.assert_allclose(function(0.3), plain(0.3), rtol=1e-12)
