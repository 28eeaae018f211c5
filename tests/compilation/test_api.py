"""`tracer.compile`: options, environment, kinds of arguments and results, donation, plans.

tests/end_to_end/test_calls.py has the ways in and the cache; here is what users ask around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.compilation.options import bound_programs_if_asked
from tracer.ir import ShapeDtype

pytestmark = pytest.mark.xla

X = np.arange(6, dtype=np.float32)
VECTOR = ShapeDtype((6,), "float32")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACER_MEMORY_LIMIT", raising=False)
    monkeypatch.delenv("TRACER_FLAGS", raising=False)


def outer_sum(x: Any) -> Any:
    return tnp.exp(x[:, None] * x[None, :]) @ x


LONG = np.linspace(-1, 1, 2000, dtype=np.float32)
BIG = ShapeDtype((2000,), "float32")


# Kinds of results


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: None, None),
        (lambda x: (), ()),
        (lambda x: {}, {}),
        (lambda x: [None, ()], [None, ()]),
    ],
)
def test_results_without_arrays(function: Any, expected: Any) -> None:
    compiled = tracer.compile(function)
    for _ in range(2):
        assert compiled(X) == expected


@pytest.mark.parametrize(("number", "dtype"), [(3, "int64"), (2.5, "float64"), (True, "bool")])
def test_python_numbers_are_returned_as_arrays(number: Any, dtype: str) -> None:
    result = tracer.compile(lambda x: (number, x))(X)[0]
    assert isinstance(result, tracer.Array)
    assert (result.shape, result.dtype) == ((), np.dtype(dtype))
    assert result.item() == number


def test_a_result_that_is_no_array_is_named() -> None:
    with pytest.raises(tracer.TracingError, match=r"\['name'\].*str") as caught:
        tracer.compile(lambda x: {"name": "text", "x": x})(X)
    assert "return arrays and numbers" in caught.value.mend


def test_arguments_handed_back_are_other_arrays() -> None:
    x = tnp.asarray(X)
    first, second = tracer.compile(lambda x: (x, x))(x)
    assert first is not x
    for result in (first, second, x):
        np.testing.assert_array_equal(result, X)


def test_no_arguments() -> None:
    compiled = tracer.compile(lambda: tnp.arange(3))
    for _ in range(2):
        np.testing.assert_array_equal(compiled(), [0, 1, 2])


def test_empty_arrays() -> None:
    empty = np.zeros((0, 3), np.float32)
    total, same = tracer.compile(lambda x: (x.sum(0), x * 2))(empty)
    np.testing.assert_array_equal(total, np.zeros(3))
    assert same.shape == (0, 3)


# Kinds of arguments


def test_types_stand_for_arrays_in_plans_only() -> None:
    compiled = tracer.compile(lambda x: x + 1)
    assert compiled.plan(VECTOR).argument_bytes == 24
    assert "stablehlo" in compiled.stablehlo(VECTOR)
    assert compiled.hlo(VECTOR).startswith("HloModule")
    assert compiled.graph(VECTOR).input_types == (VECTOR,)
    with pytest.raises(tracer.ArgumentError, match="it has no data") as caught:
        compiled(VECTOR)
    assert ".plan(" in caught.value.mend
    np.testing.assert_array_equal(compiled(X), X + 1)


@pytest.mark.parametrize("wrong", ["text", object(), np.array(["a"]), np.array([None])])
def test_an_argument_that_is_no_array_is_named(wrong: Any) -> None:
    with pytest.raises(tracer.DTypeError, match=r"args\[1\]\['a'\]"):
        tracer.compile(lambda x, y: x)(X, {"a": wrong})


@pytest.mark.parametrize("wrong", [3, "text", np.zeros(3)])
def test_only_functions_are_compiled(wrong: Any) -> None:
    with pytest.raises(tracer.DTypeError, match="takes a function"):
        tracer.compile(wrong)


def test_an_error_while_tracing_leaves_nothing_behind() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("mine")

    compiled = tracer.compile(fails)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            compiled(X)
    np.testing.assert_array_equal(tracer.compile(lambda x: x + 1)(X), X + 1)


@pytest.mark.parametrize("make", [np.ones, tnp.ones])
def test_an_error_of_the_function_comes_alone(make: Any) -> None:
    def fails(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        tracer.compile(fails)(make(3))
    assert caught.value.__context__ is None


def test_the_name_and_doc_stay() -> None:
    def documented(x: Any) -> Any:
        """Say it."""
        return x

    compiled = tracer.compile(documented)
    assert compiled.__name__ == "documented"
    assert compiled.__doc__ == "Say it."
    assert "documented" in repr(compiled)


# Donation


def test_numpy_arguments_are_never_overwritten() -> None:
    given = X.copy()
    compiled = tracer.compile(lambda x: x * 2, donate_argnums=0)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(given), 2 * X)
        np.testing.assert_array_equal(given, X)


def test_a_donated_array_used_again_names_the_call() -> None:
    def step(x: Any) -> Any:
        return x + 1

    x = tnp.asarray(X)
    tracer.compile(step, donate_argnums=0)(x)
    for use in (lambda: np.asarray(x), lambda: x + 1, lambda: float(x[0])):
        with pytest.raises(tracer.DonatedArrayError, match="step"):
            use()


def test_all_leaves_of_a_donated_container_are_donated() -> None:
    x, y, z = (tnp.asarray(X) for _ in range(3))
    compiled = tracer.compile(lambda p, q: (p["a"] + p["b"], p["a"] - q), donate_argnums=0)
    compiled({"a": x, "b": y}, z)
    for array in (x, y):
        with pytest.raises(tracer.DonatedArrayError):
            np.asarray(array)
    np.testing.assert_array_equal(z, X)


def test_the_same_array_donated_and_kept_is_refused() -> None:
    x = tnp.asarray(X)
    compiled = tracer.compile(lambda x, y: x + y, donate_argnums=0)
    with pytest.raises(tracer.TracerError):
        compiled(x, x)


@pytest.mark.parametrize("position", [1, 7])
def test_a_donated_position_must_be_there(position: int) -> None:
    with pytest.raises(tracer.ArgumentError, match=f"names argument {position}"):
        tracer.compile(lambda x: x, donate_argnums=position)(X)


def test_donated_memory_counts_once() -> None:
    types = (ShapeDtype((1000, 1000), "float32"),)
    kept = tracer.compile(lambda x: x + 1).plan(*types)
    donated = tracer.compile(lambda x: x + 1, donate_argnums=0).plan(*types)
    assert donated.compiled_bytes < 0.6 * kept.compiled_bytes
    assert donated.peak_bytes < 0.6 * kept.peak_bytes


def test_donation_inside_of_a_trace_is_ignored() -> None:
    inner = tracer.compile(lambda x: x + 1, donate_argnums=0)
    np.testing.assert_array_equal(tracer.compile(lambda x: inner(x) + x)(X), 2 * X + 1)


# Composition


def test_compiled_functions_nest_with_gradients() -> None:
    inner = tracer.compile(lambda x: (x**3).sum())
    np.testing.assert_allclose(tracer.grad(inner)(X), 3 * X**2)
    np.testing.assert_allclose(tracer.compile(tracer.grad(inner))(X), 3 * X**2)
    twice = tracer.grad(lambda x: (tracer.grad(inner)(x) ** 2).sum())
    np.testing.assert_allclose(tracer.compile(twice)(X), 36 * X**3, rtol=1e-6)


def test_the_outer_limit_rules() -> None:
    inner = tracer.compile(outer_sum, memory_limit="1kB")
    with pytest.raises(tracer.MemoryLimitError):
        inner.plan(BIG)
    plan = tracer.compile(lambda x: inner(x) * 2, memory_limit="1MB").plan(BIG)
    assert plan.compiled_bytes <= 1_000_000


# Options and environment


@pytest.mark.parametrize("wrong", ["", "4 potatoes", "GB", "-1GB", -5, "1e", 1.5, [4]])
@pytest.mark.parametrize("option", ["memory_limit", "tensor_size_threshold", "tensor_split_size"])
def test_sizes_that_make_no_sense(option: str, wrong: Any) -> None:
    with pytest.raises(tracer.TracerError):
        tracer.compile(outer_sum, **{option: wrong})


@pytest.mark.parametrize("option", ["donate_argnums", "static_argnums"])
@pytest.mark.parametrize("wrong", [-1, "x", (0, 1.5), [None], "01"])
def test_positions_that_make_no_sense(option: str, wrong: Any) -> None:
    with pytest.raises(tracer.ArgumentError, match=option):
        tracer.compile(outer_sum, **{option: wrong})


def test_an_argument_is_not_donated_and_static() -> None:
    with pytest.raises(tracer.ArgumentError, match="both donated and static"):
        tracer.compile(outer_sum, donate_argnums=(0, 1), static_argnums=1)


@pytest.mark.parametrize("limit", [1_000_000, "1MB", "1000 kB", "0.001GB"])
def test_spellings_of_a_limit(limit: Any) -> None:
    plan = tracer.compile(outer_sum, memory_limit=limit).plan(BIG)
    assert plan.limit_bytes == 1_000_000
    assert plan.compiled_bytes <= 1_000_000
    assert plan.loops


def test_a_program_of_no_bytes_keeps_the_limit_that_its_plan_names() -> None:
    none = np.zeros((0, 3))
    least = tracer.compile(tnp.exp).plan(none).minimum_bytes
    assert least == 0
    assert tracer.compile(tnp.exp, memory_limit=least)(none).shape == (0, 3)
    with pytest.raises(tracer.MemoryLimitError):
        tracer.compile(tnp.exp, memory_limit=0)(np.zeros(3))


def test_the_environment_gives_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_MEMORY_LIMIT", "1MB")
    assert tracer.compile(outer_sum).plan(BIG).limit_bytes == 1_000_000
    given = tracer.compile(outer_sum, memory_limit="2MB")
    assert given.plan(BIG).limit_bytes == 2_000_000
    monkeypatch.setenv("TRACER_MEMORY_LIMIT", "much")
    with pytest.raises(tracer.ArgumentError, match="much"):
        tracer.compile(outer_sum)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TRACER_MEMORY_LIMIT", "much"), ("TRACER_FLAGS", "--tensor_split_size=much")],
)
def test_a_wrong_size_in_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(tracer.ArgumentError, match=f"'much'.*{variable}"):
        tracer.compile(lambda x: x)


def test_the_flags_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_FLAGS", "--tensor_size_threshold=1MB --tensor_split_size=100kB")
    plan = tracer.compile(outer_sum).plan(BIG)
    assert plan.limit_bytes is None
    (loop,) = plan.loops
    assert loop.chunk * 2000 * 4 <= 100_000
    np.testing.assert_allclose(
        tracer.compile(outer_sum)(LONG), np.exp(np.outer(LONG, LONG)) @ LONG, rtol=1e-4, atol=1e-3
    )
    monkeypatch.setenv("TRACER_FLAGS", "--tensor_size=1MB")
    with pytest.raises(tracer.ArgumentError, match="tensor_size"):
        tracer.compile(outer_sum)


def test_the_flag_that_bounds_the_programs_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(tracer.lowering, "bound_cache", asked.append)
    bound_programs_if_asked()
    assert asked == []
    monkeypatch.setenv("TRACER_FLAGS", "--program_cache_size=100MB")
    bound_programs_if_asked()
    assert asked == [100_000_000]


def test_threshold_and_split_size_as_arguments() -> None:
    compiled = tracer.compile(outer_sum, tensor_size_threshold="1MB", tensor_split_size="100kB")
    (loop,) = compiled.plan(BIG).loops
    assert loop.bytes_before == 16_000_000
    assert loop.chunk * 2000 * 4 <= 100_000
    whole = tracer.compile(outer_sum, tensor_size_threshold="1GB").plan(BIG)
    assert whole.loops == ()


def test_a_percentage_is_a_part_of_what_is_free() -> None:
    half = tracer.compile(outer_sum, memory_limit="50%").plan(BIG)
    free = lowering.free_bytes(lowering.find_device(None))
    assert half.limit_bytes is not None
    assert 0.4 * free < half.limit_bytes < 0.6 * free
    with pytest.raises(tracer.ArgumentError, match="'150%' is not a percentage"):
        tracer.compile(outer_sum, memory_limit="150%")


@pytest.mark.xla
def test_auto_takes_what_is_free() -> None:
    plan = tracer.compile(outer_sum, memory_limit="auto").plan(BIG)
    assert plan.limit_bytes is not None
    assert plan.limit_bytes > plan.compiled_bytes


def test_a_limit_keeps_the_numbers() -> None:
    whole = tracer.compile(outer_sum)(LONG)
    for limit in ("200kB", "1MB", "10MB"):
        split = tracer.compile(outer_sum, memory_limit=limit)(LONG)
        np.testing.assert_allclose(split, whole, rtol=1e-4, atol=1e-3)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, -0.0), (1, 1.0), (1, True), ((2, 0.0), (2, -0.0)), ((1,), (1.0,)), (0j, -0j)],
)
def test_static_values_that_are_equal_and_not_the_same_are_traced_apart(
    one: Any, other: Any
) -> None:
    seen = []

    def function(x: Any, given: Any) -> Any:
        seen.append(given)
        return x

    compiled = tracer.compile(function, static_argnums=1)
    for given in (one, other, one, other):
        compiled(np.ones(2), given)
    assert [repr(given) for given in seen] == [repr(one), repr(other)]
