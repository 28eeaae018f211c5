"""Small functions and aliases that the other files of this folder do not name."""

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla

X = np.array([[3, -1, 2], [0, 5, -4]])
F = np.array([[1.5, -0.5, np.nan], [2.5, -2.5, 0.0]])


def both_ways(name, *args, expected_of=None, **kwargs):
    """Run eagerly and compiled, and compare both with NumPy in values and dtype."""
    expected = getattr(np, expected_of or name)(*args, **kwargs)
    function = getattr(tnp, name)
    compiled = tracer.compile(lambda *arrays: function(*arrays, **kwargs))
    for found in (function(*args, **kwargs), compiled(*args)):
        np.testing.assert_array_equal(np.asarray(found), expected)
        assert np.asarray(found).dtype == expected.dtype


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_extrema(name, axis, dtype) -> None:
    both_ways(name, X.astype(dtype), axis=axis)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool"])
def test_bits(dtype) -> None:
    x = np.array([0, 1, 5, 100]).astype(dtype)
    both_ways("bitwise_not", x)
    both_ways("bitwise_invert", x)
    if dtype != "bool":
        shift = np.array([0, 1, 2, 3]).astype(dtype)
        both_ways("bitwise_left_shift", x, shift)
        both_ways("bitwise_right_shift", x, shift)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fix(dtype) -> None:
    # NumPy 2.5 warns of its own `fix` and names this one in its place.
    both_ways("fix", F.astype(dtype), expected_of="trunc")


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 12])
def test_windows(name, size) -> None:
    found = np.asarray(getattr(tnp, name)(size))
    np.testing.assert_allclose(found, getattr(np, name)(size), rtol=1e-14, atol=1e-16)
    compiled = tracer.compile(lambda: getattr(tnp, name)(size))
    np.testing.assert_allclose(np.asarray(compiled()), found, rtol=1e-14, atol=1e-16)


def test_permute_dims() -> None:
    both_ways("permute_dims", np.arange(24.0).reshape(2, 3, 4), axes=(2, 0, 1))


def test_broadcast_shapes() -> None:
    assert tnp.broadcast_shapes((3, 1), (1, 4), 4) == np.broadcast_shapes((3, 1), (1, 4), 4)
    with pytest.raises(ValueError, match="broadcast"):
        tnp.broadcast_shapes((3,), (4,))


@pytest.mark.parametrize(
    ("name", "args"),
    [("tril_indices_from", (1,)), ("triu_indices_from", (-1,)), ("diag_indices_from", ())],
)
def test_indices_from(name, args) -> None:
    square = np.zeros((4, 4))
    for found, expected in zip(
        getattr(tnp, name)(square, *args), getattr(np, name)(square, *args), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_mask_indices() -> None:
    for found, expected in zip(
        tnp.mask_indices(4, tnp.triu), np.mask_indices(4, np.triu), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(found), expected)
