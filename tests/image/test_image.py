"""Resampling: against sums over pixels in NumPy, against jax.image, derivatives, refusals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.compare_with_jax import check
from tests.sampling import in_turn, one_in
from tracer import image
from tracer.errors import ArgumentError, AxisError, ShapeError
from tracer.image import ResizeMethod

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(3)
KERNELS = ["linear", "cubic", "lanczos3", "lanczos5", "cubic-pytorch", "area"]
SHAPES = {
    "up": ((4, 6), (9, 13)),
    "down": ((9, 12), (4, 5)),
    "both": ((3, 10), (7, 4)),
    "from one": ((1, 4), (3, 1)),
    "channels": ((2, 5, 3), (2, 8, 3)),
    "nothing": ((4, 3), (4, 3)),
    "none": ((4, 3), (0, 6)),
}


def sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


def cubic(x: float, a: float) -> float:
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


FORMULAS = {
    "linear": lambda x: max(0.0, 1 - x),
    "cubic": lambda x: cubic(x, -0.5),
    "cubic-pytorch": lambda x: cubic(x, -0.75),
    "lanczos3": lambda x: sinc(x) * sinc(x / 3) if x <= 3 else 0.0,
    "lanczos5": lambda x: sinc(x) * sinc(x / 5) if x <= 5 else 0.0,
}


def pixel(row: np.ndarray, place: int, ratio: float, method: str, antialias: bool) -> np.ndarray:
    """Return a pixel of the result, a weighted mean of the rows; `ratio` of them make a pixel."""
    size = len(row)
    if method == "nearest":
        return row[math.floor((place + 0.5) * ratio)]
    repeats = method == "cubic-pytorch" and not antialias
    if method == "cubic-pytorch" and antialias:
        method = "cubic"
    width = max(ratio, 1.0) if antialias else 1.0
    total, weights = 0.0, 0.0
    for j in range(-2, size + 2) if repeats else range(size):
        if method == "area":
            weight = max(0.0, min((place + 1) * ratio, j + 1) - max(place * ratio, j))
        else:
            weight = FORMULAS[method](abs((place + 0.5) * ratio - 0.5 - j) / width)
        total = total + weight * row[min(max(j, 0), size - 1)]
        weights += weight
    return total / weights


def oracle(x: np.ndarray, shape: tuple[int, ...], method: str, antialias: bool) -> np.ndarray:
    for axis, length in enumerate(shape):
        rows = np.moveaxis(x, axis, 0)
        if length != len(rows):
            found = [
                pixel(rows, i, len(rows) / length, method, antialias) for i in range(length)
            ] or np.zeros((0, *rows.shape[1:]), x.dtype)
            x = np.moveaxis(np.asarray(found), 0, axis)
    return x


@pytest.mark.parametrize(("method", "antialias"), in_turn(["nearest", *KERNELS], [True, False]))
def test_values(method, antialias):
    given = {name: RNG.normal(size=before) for name, (before, _) in SHAPES.items()}

    def every(given):
        return {n: image.resize(x, SHAPES[n][1], method, antialias) for n, x in given.items()}

    found = tracer.compile(every)(given)
    found["eager"] = image.resize(given["both"], SHAPES["both"][1], method, antialias)
    for name, value in found.items():
        name = "both" if name == "eager" else name
        wanted = oracle(given[name], SHAPES[name][1], method, antialias)
        assert value.shape == SHAPES[name][1]
        np.testing.assert_allclose(np.asarray(value), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64", "complex64"])
def test_dtypes(dtype):
    x = RNG.integers(0, 200, size=(6, 8)).astype(dtype)
    smooth = image.resize(x, (9, 4), "linear")
    assert smooth.dtype == ("float32" if dtype in ("uint8", "int32") else dtype)
    wanted = oracle(
        x.astype("complex128" if dtype == "complex64" else float), (9, 4), "linear", True
    )
    tolerance = {"float16": 2e-3, "float64": 1e-13}.get(dtype, 1e-6)
    np.testing.assert_allclose(np.asarray(smooth), wanted, rtol=tolerance)
    nearest = image.resize(x, (9, 4), "nearest")
    assert nearest.dtype == dtype
    np.testing.assert_array_equal(np.asarray(nearest), oracle(x, (9, 4), "nearest", True))
    assert image.resize(np.ones((2, 2), "int64"), (3, 3), "cubic").dtype == "float64"


def test_nearest_pixels_of_long_rows():
    """An odd length has middles on the borders of pixels, which float32 does not tell apart."""
    x = np.arange(2**24 + 3, dtype=np.int32)
    found = np.asarray(image.resize(x, (3,), "nearest"))
    assert found.tolist() == [(2 * i + 1) * len(x) // 6 for i in range(3)]


def test_scaled_and_moved():
    x = tnp.array([1.0, 2.0, 4.0, 8.0])
    for scale, translation, wanted in (
        (1.0, 2.0, [0.0, 0.0, 1.0, 2.0]),
        (1.0, -1.0, [2.0, 4.0, 8.0, 0.0]),
        (1.0, 0.5, [1.0, 1.5, 3.0, 6.0]),
        (1.0, 0.75, [0.0, 1.25, 2.5, 5.0]),
        (2.0, 0.0, [1.0, 1.25, 1.75, 2.5]),
        (1.0, 9.0, [0.0, 0.0, 0.0, 0.0]),
    ):
        found = image.scale_and_translate(x, (4,), (0,), [scale], [translation], "linear", False)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-14)
    same = image.scale_and_translate(x, (4,), (), [], [], ResizeMethod.CUBIC)
    assert same.tolist() == x.tolist()
    y = RNG.normal(size=(2, 6, 5))
    found = image.scale_and_translate(y, (2, 3, 10), (2, -2), [2.0, 0.5], [0.0, 0.0], "lanczos3")
    np.testing.assert_allclose(
        np.asarray(found), oracle(y, (2, 3, 10), "lanczos3", True), rtol=1e-11, atol=1e-13
    )


@pytest.mark.parametrize("method", KERNELS)
def test_derivatives(method):
    x = RNG.normal(size=(4, 5))
    tracer.check_grads(lambda x: image.resize(x, (7, 3), method), (x,), order=2)
    scale, translation = np.array([1.37, 0.61]), np.array([0.19, 0.27])

    def moved(x, scale, translation):
        return image.scale_and_translate(x, (4, 5), (0, 1), scale, translation, method)

    tracer.check_grads(moved, (x, scale, translation), order=1, eps=1e-6)


def test_nearest_derivative_counts_the_copies():
    found = tracer.grad(lambda x: image.resize(x, (5,), "nearest").sum())(tnp.ones(3))
    assert found.tolist() == [2.0, 1.0, 2.0]


def test_batches_and_limits():
    x = RNG.normal(size=(3, 6, 8))
    each = tracer.vmap(lambda x: image.resize(x, (4, 11), "cubic"))(x)
    np.testing.assert_allclose(
        np.asarray(each), oracle(x, (3, 4, 11), "cubic", True), rtol=1e-12, atol=1e-14
    )
    moves = np.array([[0.0, 0.5], [1.0, -1.0], [0.25, 2.0]])
    both = tracer.vmap(
        lambda x, t: image.scale_and_translate(x, (6, 8), (0, 1), [1.5, 0.75], t, "linear")
    )(x, moves)
    for i in range(3):
        alone = image.scale_and_translate(x[i], (6, 8), (0, 1), [1.5, 0.75], moves[i], "linear")
        np.testing.assert_allclose(np.asarray(both)[i], np.asarray(alone), rtol=1e-13, atol=1e-15)
    small = tracer.compile(lambda x: image.resize(x, (3, 20, 20), "linear"), memory_limit="1MB")
    assert small(x).shape == (3, 20, 20)


def test_method_names():
    names = {
        ResizeMethod.NEAREST: "nearest",
        ResizeMethod.LINEAR: "linear bilinear trilinear triangle",
        ResizeMethod.LANCZOS3: "lanczos3",
        ResizeMethod.LANCZOS5: "lanczos5",
        ResizeMethod.CUBIC: "cubic bicubic tricubic",
        ResizeMethod.CUBIC_PYTORCH: "cubic-pytorch bicubic-pytorch",
        ResizeMethod.AREA: "area",
    }
    assert set(names) == set(ResizeMethod)
    for method, written in names.items():
        for name in written.split():
            assert ResizeMethod.from_string(name) is method
    x = np.arange(4.0)
    named = image.resize(x, (7,), "triangle")
    assert image.resize(x, (7,), ResizeMethod.LINEAR).tolist() == named.tolist()


def test_refusals():
    x = np.ones((3, 4))
    for shape in ((3,), (3, 4, 1), (3, -1), (3, 2.5), 12):
        with pytest.raises(ShapeError):
            image.resize(x, shape, "linear")
    with pytest.raises(ShapeError, match="no pixels"):
        image.resize(x[:0], (2, 4), "nearest")
    for method in ("bicubical", 1):
        with pytest.raises(ArgumentError, match="linear"):
            image.resize(x, (3, 4), method)
    for precision in ("fast", 3):
        with pytest.raises(ArgumentError, match="precision"):
            image.resize(x, (3, 4), "linear", precision=precision)
    moved = image.scale_and_translate
    with pytest.raises(ArgumentError, match="nearest"):
        moved(x, (3, 4), (0,), [1.0], [0.0], "nearest")
    with pytest.raises(ArgumentError, match="twice"):
        moved(x, (3, 4), (0, -2), [1.0, 1.0], [0.0, 0.0], "linear")
    with pytest.raises(AxisError):
        moved(x, (3, 4), (2,), [1.0], [0.0], "linear")
    with pytest.raises(ShapeError, match="axis 1"):
        moved(x, (3, 5), (0,), [1.0], [0.0], "linear")
    with pytest.raises(ShapeError, match="scale"):
        moved(x, (3, 4), (0,), 1.0, [0.0], "linear")
    with pytest.raises(ShapeError, match="translation"):
        moved(x, (3, 4), (0,), [1.0], [0.0, 1.0], "linear")


@pytest.mark.parametrize(
    ("method", "antialias"), one_in(4, product(["nearest", *KERNELS], [False, True]), 1)
)
def test_against_jax(method, antialias):
    jax = pytest.importorskip("jax")
    import jax.image as theirs

    with jax.enable_x64(True):
        x = RNG.normal(size=(3, 7, 5))

        def resized(module, x):
            return module.resize(x, (3, 4, 8), method, antialias)

        check(resized, image, theirs, [x], scale=10)
        for dtype in ("uint8", "int64", "float16", "float32", "complex64"):
            narrow = (8 * x).astype(dtype) if dtype != "uint8" else (abs(8 * x)).astype(dtype)
            found, wanted = resized(image, narrow), resized(theirs, jax.numpy.asarray(narrow))
            assert found.dtype == wanted.dtype
            tolerance = 1e-2 if dtype == "float16" else 1e-5
            np.testing.assert_allclose(
                np.asarray(found), np.asarray(wanted), rtol=tolerance, atol=tolerance
            )
        if method == "nearest":
            return

        def moved(module, x, scale, translation):
            return module.scale_and_translate(
                x, (3, 9, 4), (1, 2), scale, translation, method, antialias
            )

        scale, translation = np.array([1.3, 0.47]), np.array([-1.2, 1.1])
        check(moved, image, theirs, [x, scale, translation], scale=1e3)
