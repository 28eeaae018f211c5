"""NumPy sorts arrays of many elements: what is written, values, and what stays as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, text
from tests.optimizer.legalize.interrupts import assert_ends_the_call
from tests.optimizer.legalize.test_sort_as_integers import numbers, sort
from tracer import ops
from tracer.errors import DTypeError, ShapeError
from tracer.ir import Builder, Graph, ShapeDtype, as_dtype
from tracer.lowering.emit.numpy_routines import NumpyCall
from tracer.optimizer.legalize.sorts import integer_sorts_pass, numpy_sorts_pass
from tracer.target import DEFAULT_TARGET, accelerator

PASS = numpy_sorts_pass(DEFAULT_TARGET)
LEAST = int(DEFAULT_TARGET.kernels.numpy_sorts)
OFF = "-sort-by-numpy, -sort-as-integers"
DTYPES = ["float16", "bfloat16", "float32", "float64", "bool", "int8", "uint8", "int16", "uint32"]
DTYPES += ["int64", "uint64"]
SHAPES = [((4096,), 0), ((4096,), -1), ((1, 4096), 0), ((40, 70), 0), ((40, 70), 1)]
SHAPES += [((7, 300, 3), 1), ((2, 9, 300), -1), ((700, 8), 1), ((3, 2000, 1), 1)]


def mixed(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Return elements of which many are equal, NaN, infinite and zeros of both signs among them."""
    rng, kind = np.random.default_rng(seed), as_dtype(dtype)
    if kind.kind in "fV":
        pool = np.concatenate([numbers((1, 60), dtype)[0].astype("f8"), np.zeros(3)])
        return rng.choice(pool, shape).astype(kind)
    words = rng.integers(0, 2**64, 50, dtype=np.uint64).astype(dtype)
    few = np.array([0, 1], dtype)
    return rng.choice(np.concatenate([words, few]), shape)


def wide(x: Any) -> np.ndarray:
    """Return floats as float64, and others as they are."""
    array = np.asarray(x)
    return array.astype("f8") if array.dtype.kind in "fV" else array


def sorts(shape: tuple[int, ...], dtype: str) -> Graph:
    return apply(PASS, sort(shape, dtype))[0]


def test_one_array_of_numbers_is_sorted_by_numpy() -> None:
    after, log = apply(PASS, sort((2, 100), "float32"))
    assert log.applied == ["sort of float32[2,100]"]
    assert text(after) == (
        """
graph(%0: float32[2,100]) {
  %1: float32[2,100] = numpy_sort(%0) {dimension=1}
  return %1
}""".strip()
    )


@pytest.mark.parametrize(
    ("graph", "is_written"),
    [
        (sort((LEAST,), "float32"), True),
        (sort((LEAST - 1,), "float32"), False),
        (sort((16 * LEAST,), "int32"), True),
        (sort((16 * LEAST - 1,), "int32"), False),
        (sort((300, 8), "int32"), True),
        (sort((300, 7), "int32"), False),
        (sort((300, 3), "float64"), True),
        (sort((8 * LEAST,), "float64", 2), True),
        (sort((8 * LEAST - 1,), "float64", 2), False),
        # Integers are made of these first.
        (sort((5000,), "float16"), False),
        (sort((5000,), "bfloat16"), False),
        (sort((5000,), "float32", 2), False),
        (sort((5000,), "complex64"), True),
        (sort((8 * LEAST,), "float16", 2, 2), True),
        (sort((8 * LEAST - 1,), "float64", 2, 2), False),
    ],
    ids=str,
)
def test_what_is_written(graph: Graph, is_written: bool) -> None:
    assert bool(apply(PASS, graph)[1].applied) == is_written


def test_integers_are_made_only_where_numpy_does_not_sort_as_it_is() -> None:
    first = integer_sorts_pass(DEFAULT_TARGET, by_numpy=True)
    for dtype, count, is_made in [("float32", 1, False), ("float16", 1, True)] + [
        ("float32", 2, True),
        ("int32", 1, False),
        ("float64", 2, False),
    ]:
        after, log = apply(first, sort((2, 4096), dtype, count))
        assert bool(log.applied) == is_made
        assert "numpy_" in text(apply(PASS, after)[0])


def test_other_platforms_sort_themselves() -> None:
    graph = sort((1 << 20,), "float32")
    assert apply(numpy_sorts_pass(accelerator("gpu", "NVIDIA H100")), graph)[0] is graph


@pytest.mark.xla
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts_are_as_without(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    x = mixed(shape, dtype)
    program = lambda x: tnp.sort(x, axis=axis)
    by_numpy, plain = tracer.compile(program), tracer.compile(program, passes=OFF)
    found = by_numpy(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(wide(found), wide(plain(x)))
    np.testing.assert_array_equal(wide(found), np.sort(wide(x), axis=axis))


@pytest.mark.xla
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_are_those_of_a_stable_sort(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    x = mixed(shape, dtype, 1)
    found = tracer.compile(lambda x: tnp.argsort(x, axis=axis))(x)
    np.testing.assert_array_equal(found, np.argsort(wide(x), axis=axis, kind="stable"))


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "float32", "int8"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (4, 2), (3000, 7), (2, 40_000), (50, 1000)])
def test_orders(dtype: str, shape: tuple[int, ...]) -> None:
    """Ranges up to the whole of 64 bits, few values, all the same, and NaN in all places."""
    rng = np.random.default_rng(0)
    kinds = [mixed(shape, dtype), np.zeros(shape, dtype), np.arange(np.prod(shape)).reshape(shape)]
    if np.dtype(dtype).kind == "f":
        kinds += [np.full(shape, np.nan), rng.choice([np.nan, 0.0, -0.0, np.inf], shape)]
        kinds += [rng.standard_normal(shape)]
    else:
        ends = np.iinfo(dtype)
        kinds += [rng.choice(np.array([ends.min, ends.max], dtype), shape)]
        kinds += [rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)]
    for x in kinds:
        x = x.astype(dtype)
        order = np.empty(shape, np.int64)
        NumpyCall("argsort", (1,))(x, order)
        np.testing.assert_array_equal(order, np.argsort(x, axis=1, kind="stable"))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
def test_values_and_others_go_along(dtype: str) -> None:
    x, y = mixed((60, 70), dtype), np.random.default_rng(0).standard_normal((60, 70))
    with Builder() as builder:
        inputs = [builder.input(ShapeDtype(a.shape, a.dtype)) for a in (x, y)]
        graph = builder.finish(ops.sort(*inputs, dimension=0, num_keys=1, is_stable=True))
    assert graph.output_types == graph.input_types

    def program(x: Any, y: Any) -> Any:
        order = tnp.argsort(x, axis=0)
        return tnp.take_along_axis(x, order, 0), tnp.take_along_axis(y, order, 0)

    order = np.argsort(wide(x), axis=0, kind="stable")
    for one, other in zip(tracer.compile(program)(x, y), (x, y), strict=True):
        np.testing.assert_array_equal(wide(one), np.take_along_axis(wide(other), order, 0))


@pytest.mark.xla
@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float16", "int8"), ("bool", "int64")])
@pytest.mark.parametrize("axis", [0, 1])
def test_several_keys(dtypes: tuple[str, str], axis: int) -> None:
    keys = [mixed((60, 70), dtype, i) for i, dtype in enumerate(dtypes)]
    found = tracer.compile(lambda *keys: tnp.lexsort(keys, axis))(*keys)
    np.testing.assert_array_equal(found, np.lexsort([wide(key) for key in keys], axis))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype: str) -> None:
    part = f"float{np.dtype(dtype).itemsize * 4}"
    x = np.empty((50, 60), dtype)
    x.real, x.imag = mixed(x.shape, part), mixed(x.shape, part, 1)
    for axis in (0, 1):
        np.testing.assert_array_equal(tnp.sort(x, axis), np.sort(x, axis))
        order = tracer.compile(lambda x, axis=axis: tnp.argsort(x, axis))(x)
        plain = tracer.compile(lambda x, axis=axis: tnp.argsort(x, axis), passes=OFF)(x)
        np.testing.assert_array_equal(order, plain)


Program = Callable[[Any], Any]
KEPT: dict[str, Program] = {
    "alone": lambda x: tnp.sort(x, 0),
    "beside": lambda x: (tnp.sort(x, 0), x + 1),
    "with": lambda x: tnp.sort(x, 0) - x,
    "both axes": lambda x: (tnp.sort(x, 0), tnp.sort(x, 1)),
    "view": lambda x: tnp.sort(x.ravel()),
    "transposed": lambda x: tnp.sort(x.T, 0),
    "value": lambda x: (lambda y: (tnp.sort(y, 0), y))(x * 2),
    "twice": lambda x: tnp.sort(tnp.sort(x, 0), 1),
    "loop": lambda x: tracer.fori_loop(0, 3, lambda i, y: tnp.sort(y, 0) - x, x),
    "scan": lambda x: tracer.scan(lambda c, r: (c + r, tnp.sort(c * r)), x[0], x)[1],
    "branch": lambda x: tracer.cond(x[0, 0] > 0, lambda x: tnp.sort(x, 0), lambda x: x, x),
    "batch": tracer.vmap(tnp.sort),
    "gradient": tracer.grad(lambda x: (tnp.sort(x, 0) * tnp.arange(150.0)[:, None]).sum()),
    "median": lambda x: tnp.median(x, 0),
    "constant": lambda x: tnp.sort(tnp.asarray(np.arange(3000.0)[::-1].copy())) + x[0, 0],
}


@pytest.mark.xla
@pytest.mark.parametrize("name", KEPT)
def test_no_argument_is_overwritten(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((150, 200))
    kept, array = x.copy(), tnp.asarray(x)
    program = tracer.compile(KEPT[name])
    wanted = tracer.compile(KEPT[name], passes=OFF)(x)
    for given in (array, array, x):
        found = program(given)
        for one, other in zip(_all(found), _all(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(array, kept)
    np.testing.assert_array_equal(x, kept)


def _all(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.xla
def test_a_donated_array_is_sorted_where_it_is() -> None:
    x = np.random.default_rng(0).standard_normal(100_000)
    program = tracer.compile(tnp.sort, donate_argnums=0)
    plan = program.plan(x)
    assert plan.compiled_bytes == x.nbytes
    np.testing.assert_array_equal(program(tnp.asarray(x)), np.sort(x))


@pytest.mark.xla
@pytest.mark.parametrize("columns", [1, 4])
def test_limits_count_what_numpy_holds(columns: int) -> None:
    """Nothing along the last axis; a line where elements lie apart."""
    x = np.random.default_rng(0).standard_normal((60_000, columns))
    line = x.nbytes // columns if columns > 1 else 0
    least = 2 * x.nbytes + line
    program = tracer.compile(lambda x: tnp.sort(x, 0), memory_limit=least)
    assert program.plan(x).compiled_bytes <= least
    np.testing.assert_array_equal(program(x), np.sort(x, 0))
    with pytest.raises(tracer.MemoryLimitError):
        tracer.compile(lambda x: tnp.sort(x, 0), memory_limit=least - 4096).plan(x)


@pytest.mark.xla
def test_threads_sort_at_a_time() -> None:
    program = tracer.compile(lambda x: (tnp.sort(x), tnp.argsort(x)))
    arrays = [np.random.default_rng(i).standard_normal(200_000) for i in range(4)]
    found: list[Any] = [None] * len(arrays)

    def run(i: int) -> None:
        for _ in range(3):
            found[i] = program(arrays[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, (values, order) in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(values, np.sort(x))
        np.testing.assert_array_equal(order, np.argsort(x))


@pytest.mark.xla
def test_a_function_that_a_program_calls_may_sort() -> None:
    """The interpreter's lock is free while a program runs, also in a program within another."""
    inner = tracer.compile(lambda x: tnp.sort(x * 2))

    def program(x: Any) -> Any:
        kind = tracer.ShapeDtype(x.shape, x.dtype)
        return tnp.sort(tracer.pure_callback(lambda y: np.asarray(inner(y)), kind, -tnp.sort(x)))

    x = np.random.default_rng(0).standard_normal(5000)
    np.testing.assert_allclose(tracer.compile(program)(x), np.sort(-2 * x))


@pytest.mark.xla
def test_an_interrupt_while_numpy_sorts_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    program = tracer.compile(lambda x: tnp.sort(x) + 1)
    x = np.random.default_rng(0).standard_normal(300)
    assert_ends_the_call(monkeypatch, "sort", program, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_what_numpy_has_no_order_or_no_vectors_for_is_refused(dtype: str) -> None:
    with Builder() as builder:
        x = builder.input(ShapeDtype((3, 4), as_dtype(dtype)))
        with pytest.raises(DTypeError):
            ops.numpy_sort(x, dimension=0)
        with pytest.raises(DTypeError):
            ops.numpy_argsort(x)


def test_a_scalar_has_no_order() -> None:
    with Builder() as builder, pytest.raises(ShapeError, match="give an array"):
        ops.numpy_argsort(builder.input(ShapeDtype((), np.float32)))
