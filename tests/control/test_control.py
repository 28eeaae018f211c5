"""cond, switch, while_loop, fori_loop, scan, map, associative_scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import control, tree
from tracer.array.recording import Recording, recorded
from tracer.autodiff.transforms import check_grads, grad, vjp
from tracer.control import associative_scan, cond, fori_loop, scan, switch, while_loop
from tracer.errors import ArgumentError, AxisError, DTypeError, ShapeError, TracingError
from tracer.ir import Graph

ROWS = np.random.default_rng(5).standard_normal((5, 3))


def same(one: Any, other: Any, **tolerances: float) -> None:
    assert tree.structure(one) == tree.structure(other)
    for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), **tolerances)
        assert np.asarray(a).dtype == np.asarray(b).dtype


class TestCond:
    @pytest.mark.xla
    @pytest.mark.parametrize("pred", [True, False, 1, 0, 2.5, np.bool_(True)])
    def test_chooses(self, pred: Any) -> None:
        result = cond(pred, lambda x: x + 1, lambda x: x - 1, 3.0)
        assert float(result) == (4 if pred else 2)

    @pytest.mark.xla
    def test_nested_operands_and_results(self) -> None:
        result = cond(
            tnp.array(True),
            lambda p, x: {"sum": p["a"] + x, "n": 1},
            lambda p, x: {"sum": p["a"] - x, "n": 2},
            {"a": np.arange(3.0)},
            10.0,
        )
        same(result, {"sum": np.arange(3.0) + 10, "n": np.array(1)})

    @pytest.mark.xla
    def test_closures_of_traced_values_are_differentiated(self) -> None:
        def function(x: Any, y: Any) -> Any:
            return cond(x > 0, lambda: x * y, lambda: x + y)

        assert [float(g) for g in grad(function, (0, 1))(2.0, 5.0)] == [5, 2]
        assert [float(g) for g in grad(function, (0, 1))(-2.0, 5.0)] == [1, 1]

    def test_a_capture_of_both_branches_is_one_operand(self) -> None:
        def record(recording: Recording) -> Graph:
            x = recording.argument(tnp.array(np.ones(20)).type)
            y = cond(x.sum() > 0, lambda: x * 2, lambda: x * 3)
            return recording.finish([y])[0]

        graph = recorded(record)
        case = next(node for node in graph.nodes if node.name == "case")
        assert len(case.operands) == 2

    @pytest.mark.xla
    def test_no_results(self) -> None:
        assert cond(True, lambda: (), lambda: ()) == ()

    def test_in_a_loop(self) -> None:
        def step(c: Any, x: Any) -> Any:
            return cond(x > 0, lambda c: c * x, lambda c: c - x, c), None

        check_grads(lambda c, xs: scan(step, c, xs)[0], (1.3, ROWS[:, 0]), modes=("rev", "fwd"))

    @pytest.mark.xla
    def test_results_that_differ(self) -> None:
        text = r"false_fun at \['a'\] is float64\[3\], .* float64\[\]"
        with pytest.raises(ShapeError, match=text):
            cond(True, lambda x: {"a": x.sum()}, lambda x: {"a": x}, np.ones(3))
        with pytest.raises(DTypeError, match=r"is float64\[3\], .* is float32\[3\]"):
            cond(True, lambda x: x.astype("float32"), lambda x: x, np.ones(3))
        with pytest.raises(TracingError, match="nested as"):
            cond(True, lambda x: (x, x), lambda x: x, np.ones(3))

    @pytest.mark.xla
    def test_wrong_arguments(self) -> None:
        with pytest.raises(ShapeError, match="must be a scalar"):
            cond(np.array([True, False]), lambda: 1, lambda: 2)
        with pytest.raises(DTypeError, match="true_fun"):
            cond(True, 1.0, lambda: 2)  # type: ignore[arg-type]
        with pytest.raises(DTypeError, match=r"operands\[0\] is 'x'"):
            cond(True, lambda x: x, lambda x: x, "x")
        with pytest.raises(DTypeError, match="the result"):
            cond(True, lambda: "text", lambda: "text")


class TestSwitch:
    @pytest.mark.xla
    @pytest.mark.parametrize(("index", "wanted"), [(-5, 1), (0, 1), (1, 2), (2, 3), (9, 3)])
    def test_clamps(self, index: int, wanted: float) -> None:
        branches = [lambda x: x, lambda x: 2 * x, lambda x: 3 * x]
        assert float(switch(index, branches, 1.0)) == wanted

    @pytest.mark.xla
    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
    def test_index_of_any_integer_dtype(self, dtype: str) -> None:
        index = np.array(np.iinfo(dtype).max, dtype)
        assert int(switch(index, [lambda: 0, lambda: 1, lambda: 2])) == 2

    @pytest.mark.xla
    def test_one_branch(self) -> None:
        assert float(switch(7, [lambda x: x + 1], 1.0)) == 2

    def test_gradient(self) -> None:
        def function(x: Any, n: Any) -> Any:
            return switch(n, [tnp.sin, tnp.cos, lambda x: x**3], x)

        for n in range(3):
            check_grads(function, (0.4, n), order=2)

    @pytest.mark.xla
    def test_wrong_arguments(self) -> None:
        with pytest.raises(ArgumentError, match="one function or more"):
            switch(0, [], 1.0)
        with pytest.raises(DTypeError, match="must be an integer"):
            switch(0.5, [lambda x: x], 1.0)
        with pytest.raises(DTypeError, match=r"branches\[1\]"):
            switch(0, [lambda x: x, 3], 1.0)  # type: ignore[list-item]
        with pytest.raises(ShapeError, match=r"branches\[2\]"):
            switch(0, [lambda x: x, lambda x: x, lambda x: x.sum()], np.ones(3))


class TestWhileLoop:
    @pytest.mark.xla
    def test_nested_carry(self) -> None:
        result = while_loop(
            lambda s: s["n"] < 5,
            lambda s: {"n": s["n"] + 1, "x": s["x"] * 2},
            {"n": 0, "x": np.ones(3)},
        )
        same(result, {"n": np.array(5), "x": np.full(3, 32.0)})

    @pytest.mark.xla
    def test_zero_rounds(self) -> None:
        assert float(while_loop(lambda x: x < 0, lambda x: x - 1, 3.0)) == 3

    @pytest.mark.xla
    def test_closures(self) -> None:
        limit, step = tnp.array(np.full(20, 10.0)), tnp.array(np.arange(20.0) + 1)
        result = while_loop(lambda x: (x < limit).all(), lambda x: x + step, np.zeros(20))
        same(result, (np.arange(20.0) + 1))

    @pytest.mark.xla
    def test_python_numbers_take_the_dtype_of_the_body(self) -> None:
        y = tnp.array(np.float32(1.5))
        result = while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, y, s[2] / 2), (0, 1.0, 4))
        assert [array.dtype for array in result] == ["int64", "float32", "float64"]
        assert [float(array) for array in result] == [3, 1.5, 0.5]

    def test_carry_that_changes(self) -> None:
        with pytest.raises(ShapeError, match=r"carry at \['x'\] is float64\[3\], .* float64\[\]"):
            while_loop(lambda s: True, lambda s: {"x": s["x"].sum()}, {"x": np.ones(3)})
        with pytest.raises(DTypeError, match=r"is float64.*is float32"):
            while_loop(lambda x: x < 3, lambda x: x.astype("float32"), np.float64(1))
        with pytest.raises(TracingError, match="nested as"):
            while_loop(lambda x: x < 3, lambda x: (x, x), 1.0)

    def test_conditions_that_are_none(self) -> None:
        with pytest.raises(DTypeError, match="not bool"):
            while_loop(lambda x: x, lambda x: x, 1.0)
        with pytest.raises(ShapeError, match="no scalar"):
            while_loop(lambda x: x < 3, lambda x: x, np.ones(3))
        with pytest.raises(DTypeError, match="2 arrays"):
            while_loop(lambda x: (x < 3, x < 4), lambda x: x, 1.0)


class TestForiLoop:
    @pytest.mark.xla
    @pytest.mark.parametrize("unroll", [1, 2, 3, 7, True, False])
    def test_fixed_bounds(self, unroll: Any) -> None:
        assert float(fori_loop(1, 6, lambda i, x: x * i, 1.0, unroll=unroll)) == 120

    @pytest.mark.xla
    @pytest.mark.parametrize(("lower", "upper"), [(3, 3), (5, 2)])
    def test_empty_range(self, lower: int, upper: int) -> None:
        assert float(fori_loop(lower, upper, lambda i, x: x + 1, 1.0)) == 1
        assert float(fori_loop(lower, tnp.array(upper), lambda i, x: x + 1, 1.0)) == 1

    @pytest.mark.xla
    def test_bounds_that_are_arrays(self) -> None:
        assert float(fori_loop(tnp.array(2), np.int32(5), lambda i, x: x + i, 0.0)) == 9

    def test_gradient(self) -> None:
        def function(x: Any, w: Any) -> Any:
            return fori_loop(0, 5, lambda i, c: tnp.sin(c * w + i), x).sum()

        check_grads(function, (ROWS[0], 0.8), order=2, modes=("rev", "fwd"))

    @pytest.mark.xla
    def test_bounds_that_are_floats(self) -> None:
        """As in JAX: whole ones known now are integers, arrays count in their own dtype."""
        assert float(fori_loop(1.0, np.float64(4), lambda i, x: x + i, 0.5)) == 6.5
        seen = fori_loop(0, 3.0, lambda i, x: x.at[i].set(i), tnp.zeros(4))
        assert seen.tolist() == [0, 1, 2, 0]
        total = tracer.compile(lambda a, b: fori_loop(a, b, lambda i, x: x + i, 0.0))
        assert float(total(0.5, 3.25)) == 0.5 + 1.5 + 2.5

    def test_bounds_that_are_none(self) -> None:
        with pytest.raises(DTypeError, match="is not whole"):
            fori_loop(0, 2.5, lambda i, x: x, 1.0)
        with pytest.raises(DTypeError, match="a bound is"):
            fori_loop(0, np.array([1, 2]), lambda i, x: x, 1.0)
        with pytest.raises(DTypeError, match="unroll"):
            fori_loop(0, tnp.array(3), lambda i, x: x, 1.0, unroll=2)

    @pytest.mark.parametrize("bound", [int, tnp.array])
    def test_errors_say_fori_loop_and_show_no_counter(self, bound: Any) -> None:
        def refuses(error: type[Exception], match: str, body: Any, init: Any) -> None:
            with pytest.raises(error, match=f"^fori_loop: {match}"):
                fori_loop(0, bound(3), body, init)

        nested = r"the carry is nested as PyTreeSpec\(\*\), .* as PyTreeSpec\(\(\*, \*\)\)\n"
        refuses(TracingError, nested, lambda i, x: (x, x), np.ones(3))
        refuses(ShapeError, r"the carry is float64\[3\]", lambda i, x: x[:2], np.ones(3))
        turned = r"the carry at \['a'\] is float64"
        refuses(DTypeError, turned, lambda i, x: {"a": x["a"] > 0}, {"a": np.ones(3)})
        refuses(DTypeError, r"init_val\['a'\] is 'x'", lambda i, x: x, {"a": "x"})
        refuses(DTypeError, "the result of text is 'x'", text, np.ones(3))


def text(index: Any, carry: Any) -> str:
    return "x"


class TestScan:
    @pytest.mark.xla
    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("unroll", [1, 2, 3, 5, 9, True])
    def test_carry_and_results(self, reverse: bool, unroll: Any) -> None:
        def step(c: Any, x: Any) -> Any:
            return 0.5 * c + x, {"carry": c, "twice": 2 * x}

        carry, results = scan(step, np.ones(3), ROWS, reverse=reverse, unroll=unroll)
        wanted, rows = np.ones(3), []
        for row in ROWS[::-1] if reverse else ROWS:
            rows.append(wanted)
            wanted = 0.5 * wanted + row
        stacked = np.stack(rows[::-1] if reverse else rows)
        same((carry, results), (wanted, {"carry": stacked, "twice": 2 * ROWS}), rtol=1e-12)

    @pytest.mark.xla
    def test_without_xs(self) -> None:
        carry, results = scan(lambda c, _: (2 * c, c), 1.0, length=4)
        same((carry, results), (np.array(16.0), np.array([1.0, 2.0, 4.0, 8.0])))

    @pytest.mark.xla
    def test_without_carry(self) -> None:
        _, results = scan(lambda _, x: (None, x.sum()), None, ROWS)
        same(results, ROWS.sum(1), rtol=1e-12)

    def test_without_anything(self) -> None:
        assert scan(lambda c, x: (None, None), None, length=3) == (None, None)

    def test_no_steps(self) -> None:
        carry, results = scan(lambda c, x: (c + x.sum(), x), 1.0, ROWS[:0])
        same((carry, results), (np.array(1.0), ROWS[:0]))

    @pytest.mark.xla
    def test_xs_of_several_dtypes(self) -> None:
        xs = (ROWS, np.arange(5, dtype=np.int32), np.arange(5) > 2)

        def step(c: Any, x: Any) -> Any:
            return c + x[0].sum() * x[1], tnp.logical_not(x[2])

        carry, results = scan(step, 0.0, xs)
        same(carry, (ROWS.sum(1) * np.arange(5)).sum(), rtol=1e-12)
        same(results, np.arange(5) <= 2)

    def test_captured_arrays_are_constants_of_the_loop(self) -> None:
        w = tnp.array(np.ones((5, 5)))

        def record(recording: Recording) -> tuple[Graph, list[tracer.Array]]:
            x = recording.argument(tnp.array(np.ones(5)).type)
            carry, _ = scan(lambda c, _: (w @ c, None), x, length=3)
            return recording.finish([carry])

        graph, captured = recorded(record)
        (node,) = graph.nodes
        assert node.params["num_consts"] == 1
        assert len(captured) == 1

    @pytest.mark.xla
    def test_python_numbers_take_the_dtype_of_the_body(self) -> None:
        carry, results = scan(lambda c, x: (x, c), 0, ROWS.astype("float32")[:, 0])
        assert (carry.dtype, results.dtype) == ("float32", "float32")
        assert float(results[0]) == 0

    def test_nested_scans_gradient(self) -> None:
        def inner(c: Any, x: Any) -> Any:
            return tnp.sin(c + x), c * x

        def outer(c: Any, row: Any) -> Any:
            last, results = scan(inner, c, row)
            return last, results.sum()

        def function(c: Any, rows: Any) -> Any:
            last, results = scan(outer, c, rows)
            return last + (results**2).sum()

        check_grads(function, (0.3, ROWS), order=2, modes=("rev", "fwd"))

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("unroll", [1, 2])
    def test_gradient_through_everything(self, reverse: bool, unroll: int) -> None:
        def function(w: Any, h: Any, xs: Any) -> Any:
            def step(state: Any, x: Any) -> Any:
                n, h = state
                h = tnp.tanh(w @ h + x * n)
                return (n + 1, h), (h * x).sum()

            (_, last), rows = scan(step, (1, h), xs, reverse=reverse, unroll=unroll)
            return last.sum() + (rows**2).sum()

        w = 0.4 * np.random.default_rng(2).standard_normal((3, 3))
        check_grads(function, (w, ROWS[0], 0.5 * ROWS), order=2, modes=("rev", "fwd"))

    @pytest.mark.xla
    def test_gradient_in_a_body(self) -> None:
        def descend(x: Any, rate: Any) -> Any:
            return x - rate * grad(lambda x: ((x - 3) ** 2).sum())(x), None

        result, _ = scan(descend, np.zeros(3), np.full(60, 0.2))
        np.testing.assert_allclose(np.asarray(result), np.full(3, 3.0), rtol=1e-9)
        check_grads(lambda x: scan(descend, x, np.full(3, 0.2))[0], (np.zeros(3),), order=2)

    @pytest.mark.xla
    def test_gradient_in_a_while_body(self) -> None:
        def body(x: Any) -> Any:
            return x - 0.2 * grad(lambda x: (x - 3) ** 2)(x)

        result = while_loop(lambda x: tnp.abs(x - 3) > 1e-9, body, 0.0)
        np.testing.assert_allclose(float(result), 3, atol=1e-8)

    @pytest.mark.xla
    def test_vjp_through_a_scan(self) -> None:
        _, pull_back = vjp(lambda c, xs: scan(lambda c, x: (c * x, c), c, xs), 2.0, ROWS[:, 0])
        by_c, by_xs = pull_back((1.0, np.zeros(5)))
        np.testing.assert_allclose(float(by_c), np.prod(ROWS[:, 0]))
        np.testing.assert_allclose(np.asarray(by_xs), 2 * np.prod(ROWS[:, 0]) / ROWS[:, 0])

    def test_wrong_arguments(self) -> None:
        def step(c: Any, x: Any) -> Any:
            return c, x

        with pytest.raises(ShapeError, match=r"differ: 5 \(\[0\]\), 4 \(\[1\]\)"):
            scan(step, 0.0, (ROWS, ROWS[:4]))
        with pytest.raises(ShapeError, match="differ"):
            scan(step, 0.0, ROWS, length=4)
        with pytest.raises(ShapeError, match="is a scalar"):
            scan(step, 0.0, 1.0)
        with pytest.raises(ArgumentError, match="not known"):
            scan(step, 0.0)
        with pytest.raises(ArgumentError, match="length is -1"):
            scan(step, 0.0, length=-1)
        with pytest.raises(ArgumentError, match=r"length is 1\.5"):
            scan(step, 0.0, length=1.5)  # type: ignore[arg-type]
        for unroll in (0, -1, 1.5, None):
            with pytest.raises(ArgumentError, match="unroll"):
                scan(step, 0.0, ROWS, unroll=unroll)  # type: ignore[arg-type]
        with pytest.raises(DTypeError, match=r"init\['a'\] is 'x'"):
            scan(step, {"a": "x"}, ROWS)

    def test_bodies_that_do_not_fit(self) -> None:
        with pytest.raises(TracingError, match="no pair"):
            scan(lambda c, x: c + x.sum(), 0.0, ROWS)
        with pytest.raises(ShapeError, match=r"carry at \[0\] is float64\[\], .* float64\[3\]"):
            scan(lambda c, x: ((c[0] + x,), None), (0.0,), ROWS)
        with pytest.raises(DTypeError, match=r"the carry is int64\[\], .* float64\[\]"):
            scan(lambda c, x: (c + x.sum(), None), tnp.array(0), ROWS)
        with pytest.raises(TracingError, match="nested as"):
            scan(lambda c, x: ((c, c), None), 0.0, ROWS)


class TestMap:
    @pytest.mark.xla
    def test_stacks_the_results(self) -> None:
        result = control.map(lambda x: {"sum": x.sum(), "n": 1}, ROWS)
        same(result, {"sum": ROWS.sum(1), "n": np.ones(5, "int64")}, rtol=1e-12)

    @pytest.mark.xla
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
    def test_batches(self, size: int) -> None:
        def f(x: dict[str, Any]) -> dict[str, Any]:
            return {"sum": x["a"].sum() * x["b"], "n": 1}

        xs = {"a": ROWS, "b": np.arange(5.0)}
        same(control.map(f, xs, batch_size=size), control.map(f, xs), rtol=1e-12)

    def test_batches_of_nothing(self) -> None:
        result = control.map(lambda x: x.sum(), ROWS[:0], batch_size=2)
        assert result.shape == (0,)

    def test_gradient_in_batches(self) -> None:
        def f(w: Any) -> Any:
            return control.map(lambda x: tnp.sin(w * x).sum(), ROWS, batch_size=2)

        check_grads(f, (0.7,))

    def test_gradient(self) -> None:
        check_grads(lambda w: control.map(lambda x: tnp.sin(w * x).sum(), ROWS), (0.7,))

    def test_wrong_arguments(self) -> None:
        for size in (0, -1, 1.5, True, "2"):
            with pytest.raises(ArgumentError, match="batch_size"):
                control.map(lambda x: x, ROWS, batch_size=size)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="no arrays"):
            control.map(lambda x: x, ())


@pytest.mark.xla
class TestAssociativeScan:
    @pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 8, 13])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_running_sums(self, size: int, reverse: bool) -> None:
        x = np.random.default_rng(size).standard_normal((size, 2))
        wanted = np.cumsum(x[::-1], 0)[::-1] if reverse else np.cumsum(x, 0)

        @tracer.compile  # one program: each op of its own would be compiled on its own
        def sums(x: Any) -> Any:
            rows = associative_scan(tnp.add, x, reverse=reverse)
            return rows, associative_scan(tnp.add, x.T, reverse=reverse, axis=-1)

        rows, columns = sums(x)
        same(rows, wanted, rtol=1e-12)
        same(columns, wanted.T, rtol=1e-12)

    def test_order_of_a_product_that_does_not_commute(self) -> None:
        matrices = np.random.default_rng(3).standard_normal((6, 2, 2))
        wanted = [matrices[0]]
        for matrix in matrices[1:]:
            wanted.append(wanted[-1] @ matrix)
        same(associative_scan(tnp.matmul, matrices), np.stack(wanted), rtol=1e-12)

    def test_linear_recurrence_and_its_gradient(self) -> None:
        def combine(left: Any, right: Any) -> Any:
            return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

        def f(a: Any, b: Any) -> Any:
            return associative_scan(combine, {"a": a, "b": b})["b"]

        a, b = ROWS[:, 0], ROWS[:, 1]
        state, wanted = 0.0, []
        for one, other in zip(a, b, strict=True):
            state = one * state + other
            wanted.append(state)
        same(f(a, b), np.array(wanted), rtol=1e-12)
        check_grads(f, (a, b))

    @pytest.mark.xla
    def test_what_it_stores_is_predicted(self) -> None:
        """Levels are stored: XLA would compute them again and again, and store more of them."""

        def combine(left: Any, right: Any) -> Any:
            return left[0] * right[0], right[0] * left[1] + right[1]

        x = tracer.ShapeDtype((5000, 16), np.float32)
        program = tracer.compile(lambda a, b: (associative_scan(combine, (a, b))[1] ** 2).sum())
        plan = program.plan(x, x)
        assert plan.compiled_bytes <= 1.05 * plan.peak_bytes

    def test_wrong_arguments(self) -> None:
        with pytest.raises(ArgumentError, match="no arrays"):
            associative_scan(tnp.add, ())
        with pytest.raises(AxisError, match="has no axis 2"):
            associative_scan(tnp.add, ROWS, axis=2)
        with pytest.raises(ShapeError, match="differ along axis 0"):
            associative_scan(lambda x, y: x, (ROWS, ROWS[:2]))
        with pytest.raises(ShapeError, match="the result of fn"):
            associative_scan(lambda x, y: x[:1], ROWS)
        with pytest.raises(TracingError, match="nested as"):
            associative_scan(lambda x, y: (x, y), ROWS)


class TestAgainstJax:
    def test_scan_and_loops(self) -> None:
        jax = pytest.importorskip("jax")
        jax.config.update("jax_enable_x64", True)

        def programs(lax: Any, np_like: Any) -> list[Any]:
            return [
                lax.scan(lambda c, x: (np_like.sin(c + x), c * x), 0.5, ROWS[:, 0], reverse=True),
                lax.fori_loop(2, 7, lambda i, x: np_like.cos(x) * i, 0.3),
                lax.while_loop(lambda s: s[1] < 50, lambda s: (s[0] + 1, s[1] * 1.7), (0, 1.0)),
                lax.map(lambda x: np_like.exp(x).sum(), ROWS),
                lax.switch(1, [np_like.sin, np_like.cos], 0.5),
                lax.cond(False, np_like.sin, np_like.cos, 0.5),
            ]

        ours, theirs = programs(control, tnp), programs(jax.lax, jax.numpy)
        for one, other in zip(ours, theirs, strict=True):
            same(one, tree.map(np.asarray, other), rtol=1e-12)
