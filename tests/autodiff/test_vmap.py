"""vmap: axes, errors, memory, and results against Python loops, NumPy and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import tree, vmap
from tracer.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    ShapeError,
    TracerError,
    TracingError,
)

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(11)
ROWS = RNG.standard_normal((4, 3))
MATRIX = RNG.standard_normal((3, 3))


def same(one: Any, other: Any, **tolerances: float) -> None:
    assert tree.structure(one) == tree.structure(other)
    for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True):
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), **{"rtol": 1e-10, "atol": 1e-12, **tolerances}
        )
        assert np.asarray(a).dtype == np.asarray(b).dtype


def looped(f: Callable[..., Any], *arrays: Any) -> Any:
    """Apply to each row and stack."""
    results = [f(*map(tnp.asarray, rows)) for rows in zip(*arrays, strict=True)]
    return tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *results)


class Pair(NamedTuple):
    first: Any
    second: Any


class TestAxes:
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
    @pytest.mark.parametrize("out", [0, 1, -1, -2])
    def test_places(self, axis: int, out: int) -> None:
        x = RNG.standard_normal((2, 3, 4))
        result = vmap(lambda m: m.sum(0), axis, out)(x)
        wanted = np.stack([m.sum(0) for m in np.moveaxis(x, axis, 0)], out % 2)
        same(result, wanted)

    def test_tree_prefixes(self) -> None:
        def f(parameters: dict[str, Any], pair: Pair, scale: Any) -> dict[str, Any]:
            hidden = parameters["w"] @ pair.first + parameters["b"]
            return {"y": hidden * scale, "both": (pair.second, parameters["b"])}

        parameters = {"w": MATRIX, "b": RNG.standard_normal((3, 4))}
        pair = Pair(ROWS, ROWS + 1)
        axes = ({"w": None, "b": 1}, 0, None)
        result = vmap(f, axes, {"y": 1, "both": (0, -1)})(parameters, pair, 2.0)
        b = parameters["b"]
        hidden = (MATRIX @ ROWS.T + b) * 2
        same(result, {"y": hidden, "both": (ROWS + 1, b)})

    def test_a_list_of_axes(self) -> None:
        same(vmap(tnp.subtract, [0, None])(ROWS, ROWS[0]), ROWS - ROWS[0])

    def test_none_below_an_integer_and_arguments_without_leaves(self) -> None:
        def f(x: Any, nothing: None, empty: tuple[()]) -> tuple[Any, None]:
            assert nothing is None
            assert empty == ()
            return x * 2, None

        same(vmap(f)(ROWS, None, ()), (ROWS * 2, None))

    def test_keywords_are_mapped_over_axis_0(self) -> None:
        result = vmap(lambda x, *, scale: x * scale, in_axes=(0,))(ROWS, scale=np.arange(4.0))
        same(result, ROWS * np.arange(4.0)[:, None])

    def test_what_is_shared_reaches_the_function_as_it_is(self) -> None:
        seen = []

        def f(x: Any, count: int, name: str) -> Any:
            seen.append((count, name))
            return tnp.concatenate([x] * count)

        result = vmap(f, in_axes=(0, None, None))(ROWS, 2, "a")
        same(result, np.concatenate([ROWS, ROWS], 1))
        assert seen == [(2, "a")]

    def test_results_that_do_not_depend_on_the_batch(self) -> None:
        constant, shared, varying = vmap(
            lambda x, y: (1.5, y * 2, x), in_axes=(0, None), out_axes=(0, None, 0)
        )(ROWS, ROWS[0])
        same((constant, shared, varying), (np.full(4, 1.5), ROWS[0] * 2, ROWS))
        same(vmap(lambda x: x * 0 + 1, None, 1, axis_size=5)(ROWS[0]), np.ones((3, 5)))

    def test_an_empty_batch(self) -> None:
        result = vmap(lambda x: (x @ MATRIX, x[tnp.argmax(x)]))(np.zeros((0, 3)))
        same(result, (np.zeros((0, 3)), np.zeros(0)))

    def test_closed_over_arrays(self) -> None:
        big = tnp.array(RNG.standard_normal((3, 30)))
        same(vmap(lambda x: x @ big)(ROWS), ROWS @ np.asarray(big), rtol=1e-9)

    def test_writing_into_a_shared_argument_does_not_reach_the_caller(self) -> None:
        shared = tnp.zeros(3)

        def f(x: Any, y: Any) -> Any:
            y[0] = x
            return y

        same(vmap(f, (0, None))(np.arange(2.0), shared), np.array([[0.0, 0, 0], [1.0, 0, 0]]))
        assert shared.tolist() == [0, 0, 0]

    def test_nested(self) -> None:
        def kernel(a: Any, b: Any) -> Any:
            return tnp.exp(-((a - b) ** 2).sum())

        table = vmap(vmap(kernel, (None, 0)), (0, None))(ROWS, MATRIX)
        same(table, np.exp(-((ROWS[:, None] - MATRIX) ** 2).sum(-1)))
        same(vmap(vmap(lambda x: x + 1, 0), 1)(ROWS), ROWS.T + 1)


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: vmap(1), DTypeError, "takes a function"),
            (lambda: vmap(tnp.sin, "a"), ArgumentError, "in_axes is 'a'"),
            (lambda: vmap(tnp.sin, True), ArgumentError, "in_axes is True"),
            (lambda: vmap(tnp.sin, (0.5,))(ROWS), ArgumentError, r"in_axes holds 0\.5"),
            (lambda: vmap(tnp.sin, (False,))(ROWS), ArgumentError, "in_axes holds False"),
            (lambda: vmap(tnp.sin, axis_size=-1), ArgumentError, "axis_size is -1"),
            (lambda: vmap(tnp.sin, axis_size=1.5), ArgumentError, r"axis_size is 1\.5"),
            (lambda: vmap(tnp.add)(ROWS, MATRIX), ShapeError, r"4 \(axis 0 of argument 0\), 3"),
            (lambda: vmap(tnp.sin, axis_size=3)(ROWS), ShapeError, r"3 \(axis_size\), 4"),
            (
                lambda: vmap(lambda x, s: x, (0,))(ROWS, s=ROWS[:2]),
                ShapeError,
                r"2 \(axis 0 of argument 's'\)",
            ),
            (lambda: vmap(tnp.sin, None)(ROWS), ArgumentError, "no argument has a batch axis"),
            (lambda: vmap(lambda: 1)(), ArgumentError, "no argument has a batch axis"),
            (lambda: vmap(tnp.sin, 2)(ROWS), AxisError, r"argument 0 is float64\[4,3\].* says 2"),
            (lambda: vmap(tnp.add)(ROWS, 1.0), AxisError, "argument 1 .*(?s:.)*scalar has no axis"),
            (lambda: vmap(tnp.sin, (0, 0))(ROWS), ArgumentError, r"in_axes=\(0, 0\) does not fit"),
            (
                lambda: vmap(lambda d: d["a"], ({"b": 0},))({"a": ROWS}),
                ArgumentError,
                "does not fit the arguments, nested as",
            ),
            (lambda: vmap(tnp.sin, 0, (0, 0))(ROWS), ArgumentError, "does not fit the result"),
            (lambda: vmap(tnp.sin, 0, None)(ROWS), ArgumentError, "depends on the batch"),
            (lambda: vmap(tnp.sin, 0, 2)(ROWS), AxisError, "out_axes says 2"),
            (
                lambda: vmap(lambda d: d["s"])({"s": ["x"]}),
                DTypeError,
                r"argument 0 at \['s'\]\[0\] is 'x'",
            ),
            (lambda: vmap(lambda x: "a")(ROWS), TracingError, "returned result of type"),
            (lambda: vmap(lambda x: float(x[0]))(ROWS), TracingError, "float64"),
        ],
    )
    def test_says_what_where_and_how_to_mend(
        self, call: Callable[[], Any], error: type[TracerError], message: str
    ) -> None:
        with pytest.raises(error, match=message) as caught:
            call()
        assert "where: test_vmap.py" in str(caught.value)
        assert caught.value.mend


class TestPrograms:
    def test_compiled_inside_and_outside(self) -> None:
        f = tracer.compile(lambda x: tnp.sin(x).sum())
        same(vmap(f)(ROWS), np.sin(ROWS).sum(1))
        same(tracer.compile(vmap(lambda x: tnp.sin(x).sum()))(ROWS), np.sin(ROWS).sum(1))

    @pytest.mark.parametrize("gradient", [False, True])
    def test_runs_under_a_limit_that_the_whole_batch_exceeds(self, gradient: bool) -> None:
        x, y = RNG.standard_normal((600, 3)), RNG.standard_normal((500, 3))
        v = RNG.standard_normal(500)

        def one(x: Any, y: Any, v: Any) -> Any:
            return tnp.exp(-0.5 * ((x - y) ** 2).sum(-1)) @ v

        def f(x: Any, y: Any, v: Any) -> Any:
            return vmap(one, (0, None, None))(x, y, v)

        def g(x: Any, y: Any, v: Any) -> Any:
            return tracer.grad(lambda y: (f(x, y, v) ** 2).sum())(y)

        chosen = g if gradient else f
        limited = tracer.compile(chosen, memory_limit="300kB")
        same(limited(x, y, v), chosen(x, y, v), rtol=1e-8, atol=1e-8)
        # The table of distances alone takes 2.4 MB.
        assert limited.plan(x, y, v).peak_bytes <= 300_000

    def test_linear_algebra(self) -> None:
        a = RNG.standard_normal((4, 3, 3))
        a = a @ np.swapaxes(a, 1, 2) + np.eye(3)

        def f(a: Any, b: Any) -> Any:
            linalg = tracer.scipy.linalg
            factor = tnp.linalg.cholesky(a)
            half = linalg.solve_triangular(factor, b, lower=True)
            return factor, linalg.solve_triangular(factor, half, trans=1, lower=True)

        same(vmap(f)(a, ROWS), looped(f, a, ROWS))
        same(vmap(f, (None, 0))(a[0], ROWS), looped(lambda b: f(a[0], b), ROWS))
        same(vmap(f, (0, None))(a, ROWS[0]), looped(lambda a: f(a, ROWS[0]), a))

    def test_numpy_functions(self) -> None:
        def f(x: Any, i: Any) -> Any:
            return {
                "einsum": tnp.einsum("i,ij,k->kj", x, MATRIX, x),
                "where": tnp.where(x > 0, x, x[i]),
                "sorted": tnp.sort(x)[::-1],
                "order": tnp.argsort(x),
                "sum": tnp.cumsum(x),
                "index": x[tnp.array([0, 2])] + x[i],
                "set": x.at[i].add(5.0),
                "stack": tnp.stack([x, x[::-1]], 1),
                "pad": tnp.pad(x, 2, constant_values=1.0),
                "outer": tnp.outer(x, x),
                "mean": x.mean() + x.var(),
            }

        indices = np.array([2, 0, 1, -1])
        same(vmap(f)(ROWS, indices), looped(f, ROWS, indices))


class TestBranches:
    """The gradient of a batch of branches is that of each element's own branch."""

    @pytest.mark.parametrize("power", [2.5, np.array([0.5, 1.5])])
    def test_a_steep_branch_that_is_not_taken_gives_no_nan(self, power: Any) -> None:
        def f(x: Any, p: Any) -> Any:
            return tracer.cond(x > 0, lambda: tnp.sqrt(x) * x**p, lambda: -x * tnp.ones_like(p))

        def total(x: Any, p: Any) -> Any:
            return vmap(f, (0, None))(x, p).sum()

        def one_by_one(x: Any, p: Any) -> Any:
            return tnp.stack([f(element, p) for element in x]).sum()

        x = np.array([1.0, -2.0, 0.0, 3.0])
        for transform in (tracer.grad, tracer.hessian):
            expected = transform(one_by_one, (0, 1))(x, power)
            assert all(np.isfinite(leaf).all() for leaf in tree.leaves(expected))
            same(transform(total, (0, 1))(x, power), expected)
            same(tracer.compile(transform(total, (0, 1)))(x, power), expected)

    def test_several_branches_within_each_other(self) -> None:
        def f(x: Any, w: Any) -> Any:
            nested = lambda: tracer.cond(x > 2, lambda: 1 / (x - 1), lambda: tnp.arccosh(x) * w)
            return tracer.switch(tnp.sign(x).astype(int) + 1, [lambda: x * x, lambda: w, nested])

        x = np.array([[-1.0, 0.0, 1.5], [3.0, 1.0 + 1e-3, -2.0]])
        found = tracer.grad(lambda x, w: vmap(vmap(lambda x: f(x, w)))(x).sum(), (0, 1))(x, 2.0)
        expected = tracer.grad(lambda x, w: sum(f(v, w) for row in x for v in row), (0, 1))(x, 2.0)
        same(found, expected)


class TestAgainstJax:
    def test_same_results(self) -> None:
        jax = pytest.importorskip("jax")
        jax.config.update("jax_enable_x64", True)
        x = RNG.standard_normal((2, 4, 3))

        def programs(lib: Any, np_like: Any, lax: Any) -> list[Any]:
            def f(a: Any, b: Any) -> Any:
                return {"dot": a @ b, "max": np_like.maximum(a.max(), b)}

            def count(n: Any, y: Any) -> Any:
                return lax.while_loop(
                    lambda s: s[0] < n, lambda s: (s[0] + 1, np_like.sin(s[1])), (0, y)
                )

            return [
                lib.vmap(f, in_axes=(1, None), out_axes={"dot": 0, "max": -1})(x, x[0, 0]),
                lib.vmap(lib.vmap(f, (0, None)), (2, 1), 1)(x.transpose(1, 2, 0), x[:, 0].T),
                lib.vmap(count, in_axes=(0, 0))(np.array([0, 3]), x[:, 0]),
                lib.vmap(count, in_axes=(0, None))(np.array([0, 3]), x[0, 0]),
                lib.vmap(lambda p, y: lax.cond(p, np_like.sin, np_like.cos, y))(x[:, 0, 0] > 0, x),
                lib.vmap(lambda i, y: y[i] + lax.switch(i, [np_like.sin, np_like.cos], y)[0])(
                    np.array([1, 0]), x
                ),
                lib.vmap(lambda y: lax.scan(lambda c, r: (c * r, c + 1), y[0], y), 1, 1)(x),
                lib.vmap(lib.grad(lambda y: np_like.linalg.norm(y)))(x),
                lib.vmap(lambda y, n: y * n, (0, None))(x, 3),
                lib.vmap(lambda y: y.sum(), axis_size=2)(x),
            ]

        pairs = zip(programs(tracer, tnp, tracer), programs(jax, jax.numpy, jax.lax), strict=True)
        for ours, theirs in pairs:
            same(ours, tree.map(np.asarray, theirs))
