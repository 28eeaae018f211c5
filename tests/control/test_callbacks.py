"""debug.print, debug.callback and pure_callback: eagerly, compiled, in loops, transformed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.errors import (
    ArgumentError,
    DTypeError,
    NotDifferentiableError,
    ShapeError,
)
from tracer.ir import interpret

X = np.array([1.0, 2.0])
LIKE = tracer.ShapeDtype((2,), np.float64)


class Seen(list[Any]):
    """What a callback was given."""

    def __call__(self, *args: Any) -> None:
        self.append([np.asarray(arg).tolist() for arg in args])


def steps(seen: Seen) -> Callable[[Any], Any]:
    """Return a function that shows its argument and each step of a loop, with branches in it."""

    def branch(x: Any) -> Any:
        tracer.debug.callback(seen, x, "large")
        return x / 2

    def step(x: Any, i: Any) -> tuple[Any, Any]:
        tracer.debug.callback(seen, x, i)
        return tracer.cond(x.sum() > 3, branch, lambda x: 2 * x, x), i

    def function(x: Any) -> Any:
        tracer.debug.callback(seen, x)
        return tracer.scan(step, x, np.arange(3))[0].sum()

    return function


STEPS = [
    [[1.0, 2.0]],
    [[1.0, 2.0], 0],
    [[2.0, 4.0], 1],
    [[2.0, 4.0], "large"],
    [[1.0, 2.0], 2],
]

WAYS: dict[str, Callable[[Any], Any]] = {
    "one by one": lambda f: f,
    "compiled": tracer.compile,
    "interpreted": lambda f: lambda x: interpret(trace(f, [x]).graph, [x]),
    "gradient": tracer.grad,
    "compiled gradient": lambda f: tracer.compile(tracer.grad(f)),
    "value and gradient": lambda f: tracer.compile(tracer.value_and_grad(f)),
    "checkpoint": lambda f: tracer.compile(tracer.grad(tracer.checkpoint(f))),
    "checkpointed value": lambda f: tracer.compile(tracer.checkpoint(f)),
    "vjp": lambda f: lambda x: tracer.vjp(f, x)[1](1.0),
    "jvp": lambda f: lambda x: tracer.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: tracer.linearize(f, x)[1](x),
    "jacobian": tracer.jacrev,
    "forward jacobian": tracer.jacfwd,
    "hessian": tracer.hessian,
    "gradient of a gradient": lambda f: tracer.grad(lambda x: tracer.grad(f)(x).sum()),
}


@pytest.mark.xla
@pytest.mark.parametrize("way", WAYS)
def test_each_value_is_seen_once_and_in_order(way: str) -> None:
    seen = Seen()
    WAYS[way](steps(seen))(X)
    assert seen == STEPS


@pytest.mark.xla
def test_a_second_call_sees_its_own_values() -> None:
    seen = Seen()
    compiled = tracer.compile(lambda x: tracer.debug.callback(seen, x))
    compiled(1.0)
    compiled(2.0)
    assert seen == [[1.0], [2.0]]


@pytest.mark.xla
def test_while_loops_show_condition_and_body() -> None:
    seen = Seen()

    def holds(n: Any) -> Any:
        tracer.debug.callback(seen, "condition", n)
        return n < 2

    def step(n: Any) -> Any:
        tracer.debug.callback(seen, "body", n)
        return n + 1

    assert int(tracer.compile(lambda n: tracer.while_loop(holds, step, n))(0)) == 2
    expected = [["condition", 0], ["body", 0], ["condition", 1], ["body", 1], ["condition", 2]]
    assert seen == expected


@pytest.mark.xla
def test_fori_loops_and_switch() -> None:
    seen = Seen()

    def show(name: str) -> Callable[[Any], Any]:
        def branch(i: Any) -> Any:
            tracer.debug.callback(seen, name, i)
            return i

        return branch

    branches = [show("zero"), show("one"), lambda i: i]

    def step(i: Any, total: Any) -> Any:
        return total + tracer.switch(i, branches, i)

    assert int(tracer.compile(lambda n: tracer.fori_loop(0, n, step, 0))(4)) == 6
    assert seen == [["zero", 0], ["one", 1]]


@pytest.mark.xla
def test_callbacks_may_keep_and_change_what_they_get() -> None:
    kept = []

    def keep(x: np.ndarray[Any, Any]) -> None:
        kept.append(x)
        x += 100

    def function(x: Any) -> Any:
        tracer.debug.callback(keep, x)
        return tracer.fori_loop(0, 3, lambda i, x: (tracer.debug.callback(keep, x), x + 1)[1], x)

    np.testing.assert_array_equal(tracer.compile(function)(X), X + 3)
    np.testing.assert_array_equal(kept, [X + 100, X + 100, X + 101, X + 102])


@pytest.mark.xla
def test_arguments_may_be_nested_and_of_any_kind() -> None:
    seen: list[Any] = []

    def show(pair: Any, *, name: str, flags: dict[str, Any]) -> None:
        seen.append((type(pair).__name__, float(pair[0]), pair[1], name, float(flags["on"])))

    def function(x: Any) -> None:
        tracer.debug.callback(show, (x, None), name="n", flags={"on": 2 * x})

    for way in (tracer.compile(function), function):
        way(tnp.array(1.5))
    assert seen == [("tuple", 1.5, None, "n", 3.0)] * 2


DTYPES = ["bool", "int8", "uint64", "float16", "bfloat16", "float8_e4m3fn", "complex64"]


@pytest.mark.xla
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goes_out_and_comes_back(dtype: str) -> None:
    kept: list[Any] = []
    x = tnp.array([[1, 0, 2]], dtype=dtype)

    def keep(x: Any) -> Any:
        kept.append(x)
        return x[:, ::-1].T

    def function(x: Any) -> Any:
        return tracer.pure_callback(keep, tracer.ShapeDtype((3, 1), dtype), x)

    np.testing.assert_array_equal(tracer.compile(function)(x), np.asarray(x)[:, ::-1].T)
    assert kept[0].dtype == x.dtype
    np.testing.assert_array_equal(kept[0], x)


class TestPrint:
    @pytest.mark.xla
    def test_compiled(self, capsys: pytest.CaptureFixture[str]) -> None:
        def function(x: Any) -> Any:
            tracer.debug.print("a {} b {y:.2f} {x.shape}", 2 * x, y=x.sum(), x=x)
            return x

        tracer.compile(function)(X)
        function(X)
        assert capsys.readouterr().out == "a [2. 4.] b 3.00 (2,)\n" * 2

    @pytest.mark.xla
    def test_once_for_each_element(self, capsys: pytest.CaptureFixture[str]) -> None:
        def function(x: Any, y: Any) -> Any:
            tracer.debug.print("{} {}", x, y)
            return x + y

        tracer.vmap(tracer.vmap(function, (None, 0)), (0, None))(X, X + 2)
        assert capsys.readouterr().out == "1.0 3.0\n1.0 4.0\n2.0 3.0\n2.0 4.0\n"

    @pytest.mark.xla
    def test_what_is_the_same_for_all_elements_once(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        y = tnp.array(7)
        tracer.vmap(lambda x: (tracer.debug.print("{}", y), x)[1])(X)
        assert capsys.readouterr().out == "7\n"

    def test_arguments_have_to_be_used(self) -> None:
        for fmt, which in (("f", "number 0, y"), ("{}", "y"), ("{y}", "number 0")):
            with pytest.raises(ArgumentError, match=f"does not use the argument {which}\n"):
                tracer.debug.print(fmt, 1.0, y=2.0)

    def test_arguments_have_to_be_there(self) -> None:
        with pytest.raises(IndexError):
            tracer.debug.print("{} {}", 1.0)
        with pytest.raises(KeyError):
            tracer.debug.print("{x}", 1.0)

    def test_no_format_string(self) -> None:
        with pytest.raises(DTypeError, match="no format string"):
            tracer.debug.print(3.0)  # type: ignore[arg-type]


class TestErrors:
    @pytest.mark.xla
    def test_of_the_callback_come_as_they_are(self) -> None:
        def fail(i: Any) -> None:
            if i == 3:
                raise LookupError("no third step")

        def step(i: Any) -> Any:
            tracer.debug.callback(fail, i)
            return i + 1

        compiled = tracer.compile(lambda n: tracer.while_loop(lambda i: i < n, step, 0))
        for _ in range(3):
            with pytest.raises(LookupError, match="no third step") as caught:
                compiled(10)
            assert caught.traceback[-1].name == "fail"
            assert caught.value.__cause__ is None
            assert int(compiled(2)) == 2  # nothing is broken

    @pytest.mark.xla
    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_that_are_no_exceptions(self, kind: type[BaseException]) -> None:
        def fail(_: Any) -> None:
            raise kind

        with pytest.raises(kind):
            tracer.compile(lambda x: tracer.debug.callback(fail, x))(X)

    @pytest.mark.xla
    def test_of_threads_stay_apart(self) -> None:
        def fail(x: Any) -> None:
            raise LookupError(int(x))

        compiled = tracer.compile(lambda x: tracer.debug.callback(fail, x))
        found: dict[int, int] = {}

        def run(number: int) -> None:
            for _ in range(20):
                with pytest.raises(LookupError) as caught:
                    compiled(number)
                found[number] = caught.value.args[0]

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {number: number for number in range(4)}

    def test_no_function(self) -> None:
        with pytest.raises(DTypeError, match="is no function"):
            tracer.debug.callback(3.0)  # type: ignore[arg-type]
        with pytest.raises(DTypeError, match="is no function"):
            tracer.pure_callback(None, LIKE)  # type: ignore[arg-type]


@pytest.mark.xla
def test_callbacks_may_compute_with_tracer() -> None:
    seen = Seen()
    inner = tracer.compile(lambda x: (x @ x).sum())

    def compute(x: Any) -> None:
        seen(inner(tnp.array(x)))

    def function(x: Any) -> Any:
        def step(x: Any, _: Any) -> tuple[Any, None]:
            tracer.debug.callback(compute, x)
            return x @ x / 300, None

        return tracer.scan(step, x, None, length=3)[0]

    tracer.compile(function)(np.ones((300, 300)))
    assert seen == [[27e6]] * 3


class TestPure:
    @pytest.mark.xla
    def test_computes_where_its_result_is_needed(self) -> None:
        calls = Seen()

        def sine(x: Any) -> Any:
            calls(x)
            return np.sin(x)

        def function(x: Any) -> Any:
            tracer.pure_callback(sine, LIKE, -x)
            return tracer.pure_callback(sine, LIKE, x) + 1

        np.testing.assert_array_equal(tracer.compile(function)(X), np.sin(X) + 1)
        assert calls == [[[1.0, 2.0]]]
        np.testing.assert_array_equal(function(X), np.sin(X) + 1)

    @pytest.mark.xla
    def test_results_are_nested_as_declared(self) -> None:
        like = {"q": LIKE, "r": (tracer.ShapeDtype((), np.int32),)}

        def both(x: Any) -> Any:
            return {"q": x, "r": [np.int32(3)]}

        for way in (lambda f: f, tracer.compile):
            found = way(lambda x: tracer.pure_callback(both, like, x))(X)
            np.testing.assert_array_equal(found["q"], X)
            assert isinstance(found["r"], tuple)
            assert int(found["r"][0]) == 3

    @pytest.mark.xla
    @pytest.mark.parametrize(
        ("method", "shapes"),
        [
            ("sequential", [((3,), ()), ((3,), ())]),
            ("expand_dims", [((2, 3), (1,))]),
            ("broadcast_all", [((2, 3), (2,))]),
        ],
    )
    def test_in_a_batch(self, method: str, shapes: list[Any]) -> None:
        seen = []

        def product(x: Any, y: Any) -> Any:
            seen.append((x.shape, y.shape))
            return x * y[..., None]

        def function(x: Any, y: Any) -> Any:
            return tracer.pure_callback(product, x, x, y, vmap_method=method)

        rows = np.arange(6.0).reshape(2, 3)
        found = tracer.compile(tracer.vmap(function, (0, None)))(rows, 2.0)
        np.testing.assert_array_equal(found, 2 * rows)
        assert seen == shapes

    def test_a_batch_without_a_method_is_refused(self) -> None:
        with pytest.raises(NotImplementedError, match="does not say how it is called"):
            tracer.vmap(lambda x: tracer.pure_callback(np.sin, tracer.ShapeDtype((), x.dtype), x))(
                X
            )
        with pytest.raises(ArgumentError, match="no vmap_method 'loop'"):
            tracer.pure_callback(np.sin, LIKE, X, vmap_method="loop")

    def test_has_no_derivative_of_its_own(self) -> None:
        def sine(x: Any) -> Any:
            return tracer.pure_callback(np.sin, LIKE, x)

        for differentiate in (tracer.grad(lambda x: sine(x).sum()), tracer.jacfwd(sine)):
            with pytest.raises(NotDifferentiableError, match="custom_vjp"):
                differentiate(X)

    @pytest.mark.xla
    def test_has_the_derivative_that_it_is_given(self) -> None:
        @tracer.custom_vjp
        def sine(x: Any) -> Any:
            return tracer.pure_callback(np.sin, LIKE, x)

        sine.defvjp(lambda x: (sine(x), x), lambda x, g: (g * tnp.cos(x),))
        gradient = tracer.compile(tracer.grad(lambda x: sine(x).sum()))(X)
        np.testing.assert_allclose(gradient, np.cos(X))

    @pytest.mark.xla
    @pytest.mark.parametrize("way", [lambda f: f, tracer.compile])
    @pytest.mark.parametrize(
        ("result", "error", "what"),
        [
            (lambda x: x[:1], ShapeError, r"the function <lambda> .* returned float64\[1\], not"),
            (lambda x: x.astype("f4"), DTypeError, r"returned float32\[2\], not float64\[2\]"),
            (lambda x: (x, x), ShapeError, "returned 2 arrays, not 1"),
            (lambda x: None, ShapeError, "returned 0 arrays, not 1"),
            (lambda x: 1.0, ShapeError, r"returned float64\[\], not float64\[2\]"),
        ],
    )
    def test_other_results_are_refused(
        self, way: Any, result: Any, error: type[Exception], what: str
    ) -> None:
        with pytest.raises(error, match=what):
            way(lambda x: tracer.pure_callback(result, LIKE, x))(X)

    @pytest.mark.xla
    @pytest.mark.parametrize(
        ("number", "dtype"),
        [(1.5, np.float32), (2, np.float64), (True, np.bool_), (1.5, ml_dtypes.bfloat16)],
    )
    def test_numbers_take_the_declared_dtype(self, number: Any, dtype: Any) -> None:
        found = tracer.pure_callback(lambda: number, tracer.ShapeDtype((), dtype))
        assert found.dtype == dtype
        assert found == number

    def test_numbers_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(DTypeError, match="not int32"):
            tracer.pure_callback(lambda: 1.5, tracer.ShapeDtype((), np.int32))

    def test_what_is_declared_has_shape_and_dtype(self) -> None:
        with pytest.raises(DTypeError, match="has no shape and dtype"):
            tracer.pure_callback(np.sin, "float32[3]", X)


class TestOrdered:
    @pytest.mark.xla
    def test_a_batch_has_no_order(self) -> None:
        with pytest.raises(ArgumentError, match="no order"):
            tracer.vmap(lambda x: tracer.debug.print("{}", x, ordered=True))(X)

    @pytest.mark.xla
    def test_keeps_its_order_in_nested_loops(self) -> None:
        seen = Seen()

        def inner(i: Any, j: Any, x: Any) -> Any:
            tracer.debug.callback(seen, i, j, ordered=True)
            return x + 1

        def outer(i: Any, x: Any) -> Any:
            x = tracer.fori_loop(0, 2, lambda j, x: inner(i, j, x), x)
            tracer.debug.callback(seen, i, "end", ordered=True)
            return x

        def function(x: Any) -> Any:
            tracer.debug.callback(seen, "start", ordered=True)
            x = tracer.fori_loop(0, 2, outer, x)
            tracer.debug.callback(seen, "stop", ordered=True)
            return x

        assert float(tracer.compile(function)(0.0)) == 4
        loops = [[i, j] for i in (0, 1) for j in (0, 1, "end")]
        assert seen == [["start"], *loops, ["stop"]]


@pytest.mark.xla
def test_the_same_function_is_compiled_once() -> None:
    seen = Seen()

    def function(x: Any) -> Any:
        return tracer.scan(lambda c, _: (tracer.debug.callback(seen, c), (c, None))[1], x, None, 2)

    graphs = [trace(function, [X]).graph.fingerprint for _ in range(2)]
    assert graphs[0] == graphs[1]
