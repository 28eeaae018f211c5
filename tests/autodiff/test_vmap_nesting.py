"""vmap around and inside of loops, branches and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.autodiff.test_vmap import MATRIX, RNG, ROWS, looped, same
from tracer import tree, vmap

pytestmark = pytest.mark.xla


def recurrent(w: Any, x: Any) -> Any:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = tnp.tanh(w @ carry + row)
        return carry, carry.sum()

    return tracer.scan(step, tnp.zeros(3), x)


class TestControlFlow:
    def test_cond(self) -> None:
        def f(x: Any) -> Any:
            return tracer.cond(x[0] > 0, lambda x: (x, 1), lambda x: (-x * x, 2), x)

        same(vmap(f)(ROWS), looped(f, ROWS))
        same(
            vmap(lambda p, x: tracer.cond(p, tnp.sin, tnp.cos, x), (None, 0))(True, ROWS),
            np.sin(ROWS),
        )

    @pytest.mark.parametrize("in_axes", [(0, None), (0, 0), (None, 0)])
    def test_switch(self, in_axes: tuple[Any, Any]) -> None:
        branches = [tnp.sin, lambda x: x * 2, lambda x: tnp.ones(3)]
        indices, x = np.array([0, 5, 1, -2]), ROWS
        given = (indices if in_axes[0] == 0 else 2, x if in_axes[1] == 0 else x[0])
        result = vmap(lambda i, x: tracer.switch(i, branches, x), in_axes)(*given)
        every = [
            tracer.switch(
                indices[n] if in_axes[0] == 0 else 2, branches, x[n] if in_axes[1] == 0 else x[0]
            )
            for n in range(4)
        ]
        same(result, np.stack(every))

    def test_while_with_different_lengths(self) -> None:
        def collatz(n: Any) -> Any:
            def step(state: Any) -> Any:
                n, count = state
                return tnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

            return tracer.while_loop(lambda s: s[0] != 1, step, (n, 0))[1]

        starts = np.arange(1, 30)
        same(vmap(collatz)(starts), looped(collatz, starts))

    def test_while_with_one_length(self) -> None:
        def power(x: Any, n: Any) -> Any:
            return tracer.while_loop(
                lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] @ MATRIX), (0, x)
            )[1]

        same(vmap(power, (0, None))(ROWS, 3), ROWS @ MATRIX @ MATRIX @ MATRIX)

    def test_carry_that_becomes_batched(self) -> None:
        def f(x: Any) -> Any:
            return tracer.fori_loop(
                0, 3, lambda i, s: (s[1], s[0] + s[2] * x, s[2]), (0.0, 1.0, 2.0)
            )

        same(vmap(f)(np.arange(4.0)), looped(f, np.arange(4.0)))

    def test_closed_over_array_is_not_repeated(self) -> None:
        """A value that a while loop hands on must not get a batch axis: it may be large."""
        big = tnp.array(RNG.standard_normal((30, 30)))

        def f(n: Any) -> Any:
            start = tnp.ones(30)
            return tracer.while_loop(
                lambda s: s[0] < n, lambda s: (s[0] + 1, big @ s[1]), (0, start)
            )

        text = str(tracer.compile(vmap(f)).hlo(np.arange(7)))
        assert "f64[30,30]" in text
        assert "f64[7,30,30]" not in text
        same(vmap(f)(np.arange(3)), looped(f, np.arange(3)), rtol=1e-9)

    @pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (0, 0), (None, 1), (2, 2)])
    def test_scan(self, in_axes: tuple[Any, Any]) -> None:
        shapes = {"w": [3, 3], "x": [5, 3]}
        arrays = []
        for shape, axis in zip(shapes.values(), in_axes, strict=True):
            if axis is not None:
                shape.insert(axis, 4)
            arrays.append(RNG.standard_normal(shape))
        result = vmap(recurrent, in_axes)(*arrays)
        every = [
            recurrent(
                *(
                    x if axis is None else np.take(x, n, axis)
                    for x, axis in zip(arrays, in_axes, strict=True)
                )
            )
            for n in range(4)
        ]
        same(result, tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *every))

    def test_inside_of_scan_and_map(self) -> None:
        x = RNG.standard_normal((5, 4, 3))
        carry, found = tracer.scan(
            lambda c, rows: (c + vmap(tnp.dot)(rows, rows), vmap(tnp.sin)(rows)), tnp.zeros(4), x
        )
        same((carry, found), ((x**2).sum((0, 2)), np.sin(x)))
        same(tracer.map(vmap(lambda r: r[0]), x), x[:, :, 0])


def loss(w: Any, x: Any) -> Any:
    return (tnp.tanh(w @ x) ** 2).sum() + tnp.sort(x)[0] + tnp.linalg.norm(w)


class TestDerivatives:
    def test_gradient_for_each_example(self) -> None:
        gradients = vmap(tracer.grad(loss), (None, 0))(MATRIX, ROWS)
        same(gradients, np.stack([np.asarray(tracer.grad(loss)(MATRIX, x)) for x in ROWS]))

    def test_gradient_of_a_batch(self) -> None:
        def total(w: Any, x: Any) -> Any:
            return vmap(loss, (None, 0))(w, x).sum()

        tracer.check_grads(total, (MATRIX, ROWS), modes=("rev", "fwd"))
        by_loop = sum(np.asarray(tracer.grad(loss)(MATRIX, x)) for x in ROWS)
        same(tracer.grad(total)(MATRIX, ROWS), by_loop)

    def test_gradient_of_gradients_of_a_batch(self) -> None:
        def penalty(w: Any) -> Any:
            return (vmap(tracer.grad(loss), (None, 0))(w, ROWS) ** 2).sum()

        tracer.check_grads(penalty, (MATRIX,), order=1)

    @pytest.mark.parametrize("wrapped", [lambda f: f, tracer.checkpoint])
    def test_through_scan(self, wrapped: Callable[..., Any]) -> None:
        x = RNG.standard_normal((2, 4, 3))

        def total(w: Any, x: Any) -> Any:
            carry, sums = vmap(wrapped(recurrent), (None, 0))(w, x)
            return (carry**2).sum() + sums.sum()

        tracer.check_grads(total, (MATRIX, x), order=1)
        one = tracer.grad(lambda w, x: recurrent(w, x)[1].sum(), argnums=(0, 1))
        same(vmap(one, (None, 0))(MATRIX, x), looped(lambda x: one(MATRIX, x), x))

    def test_through_cond_and_indices(self) -> None:
        def f(x: Any, i: Any) -> Any:
            y = tracer.cond(x[i] > 0, tnp.sin, lambda x: x**2, x)
            return tnp.take(y, i) + y.at[i].set(0.0).sum()

        indices = np.array([0, 2, 1, 1])
        tracer.check_grads(lambda x: vmap(f)(x, indices), (ROWS,))
        same(vmap(tracer.grad(f))(ROWS, indices), looped(tracer.grad(f), ROWS, indices))

    def test_vjp_and_jvp(self) -> None:
        def f(x: Any) -> Any:
            return tnp.sin(x) * x[0]

        _, pull = tracer.vjp(f, ROWS[0])
        (rows,) = vmap(pull)(np.eye(3))
        wanted = np.diag(np.cos(ROWS[0]) * ROWS[0][0])
        wanted[:, 0] += np.sin(ROWS[0])
        same(rows, wanted)
        same(vmap(lambda t: tracer.jvp(f, (ROWS[0],), (t,))[1], out_axes=1)(np.eye(3)), wanted)
        values, tangents = vmap(lambda x, t: tracer.jvp(f, (x,), (t,)))(ROWS, ROWS)
        same(values, np.sin(ROWS) * ROWS[:, :1])
        same(tangents, (ROWS * np.cos(ROWS) + np.sin(ROWS)) * ROWS[:, :1])

    @pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (0, 0)])
    def test_custom_rule(self, in_axes: tuple[Any, Any]) -> None:
        """The rule doubles the gradient, so that it shows whether it is used."""

        @tracer.custom_vjp
        def f(x: Any, w: Any) -> Any:
            return tnp.sin(x) * w

        f.defvjp(
            lambda x, w: (tnp.sin(x) * w, (x, w)),
            lambda kept, g: (2 * g * tnp.cos(kept[0]) * kept[1], (g * tnp.sin(kept[0])).sum()),
        )
        x = ROWS if in_axes[0] == 0 else ROWS[0]
        w = np.arange(1.0, 5) if in_axes[1] == 0 else 1.5
        for_x, for_w = tracer.grad(lambda x, w: vmap(f, in_axes)(x, w).sum(), (0, 1))(x, w)
        columns = np.reshape(w, (-1, 1))
        all_x, all_w = 2 * np.cos(x) * columns, np.sin(np.broadcast_to(x, (4, 3))).sum(1)
        all_x = np.broadcast_to(all_x, (4, 3))
        same(for_x, all_x if in_axes[0] == 0 else all_x.sum(0))
        same(for_w, all_w if in_axes[1] == 0 else all_w.sum())

    def test_custom_rule_of_a_constant_meets_each_cotangent(self) -> None:
        """A rule need not be the derivative: the straight-through estimate of a constant."""

        @tracer.custom_vjp
        def f(x: Any) -> Any:
            return tnp.zeros(3)

        f.defvjp(lambda x: (tnp.zeros(3), None), lambda _, g: (g,))
        weights = RNG.standard_normal((4, 3))
        same(tracer.grad(lambda x: (vmap(f)(x) * weights).sum())(ROWS), weights)

    def test_stopped_gradients(self) -> None:
        def f(x: Any) -> Any:
            return x * tracer.stop_gradient(x)

        same(tracer.grad(lambda x: vmap(f)(x).sum())(ROWS), ROWS)
