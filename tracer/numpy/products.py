"""Products of vectors and matrices beyond the standard's."""

from __future__ import annotations

from typing import Any

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, normalize_axis, reshape, with_ndim
from tracer.errors import ShapeError
from tracer.numpy.contraction import matmul
from tracer.numpy.elementwise import conjugate
from tracer.numpy.joining import stack
from tracer.numpy.shaping import moveaxis
from tracer.numpy.ufunc import is_complex


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product: blocks of `b`, each times an element of `a`."""
    x, y = as_array(a), as_array(b)
    ndim = max(x.ndim, y.ndim)
    x, y = with_ndim(x, ndim), with_ndim(y, ndim)
    spread_x = reshape(x, tuple(size for n in x.shape for size in (n, 1)))
    spread_y = reshape(y, tuple(size for n in y.shape for size in (1, n)))
    sizes = tuple(n * m for n, m in zip(x.shape, y.shape, strict=True))
    return reshape(spread_x * spread_y, sizes)


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Return the vector product of vectors of 3 (or 2) components; see `numpy.cross`.

    Parameters
    ----------
    a, b : array_like
        Broadcast together but for the axes of the components.
    axisa, axisb, axisc : int
        The axes of the components in `a`, `b` and the result.
    axis : int, optional
        Stands for all three.

    Returns
    -------
    Array
        The products; of two vectors of 2 components the third component alone.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = as_array(a), as_array(b)
    x = moveaxis(x, normalize_axis(axisa, x.ndim), -1)
    y = moveaxis(y, normalize_axis(axisb, y.ndim), -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ShapeError(
            f"cross is not defined for {x.shape[-1]} and {y.shape[-1]} components",
            mend="give 2 or 3 components",
        )
    x0, x1, x2 = _components(x)
    y0, y1, y2 = _components(y)
    last = x0 * y1 - x1 * y0
    if x.shape[-1] == 2 and y.shape[-1] == 2:
        return as_array(last)
    first = _difference(_times(x1, y2), _times(x2, y1))
    second = _difference(_times(x2, y0), _times(x0, y2))
    return moveaxis(stack([first, second, last], -1), -1, axisc)


def _components(x: Array) -> tuple[Any, Any, Any]:
    return x[..., 0], x[..., 1], x[..., 2] if x.shape[-1] == 3 else None


def _times(x: Any, y: Any) -> Any:
    return None if x is None or y is None else x * y


def _difference(x: Any, y: Any) -> Any:
    """Subtract products of which a missing one is zero; not both are missing."""
    if y is None:
        return x
    return -y if x is None else x - y


def _require_matrix(name: str, x: Array) -> None:
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: an array of shape {x.shape} is no matrix", mend="give it two axes or more"
        )


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return products of matrices (..., m, n) and vectors (..., n)."""
    _require_matrix("matvec", as_array(x1))
    return matmul(x1, as_array(x2)[..., None])[..., 0]


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return products of conjugated vectors (..., n) and matrices (..., n, m)."""
    _require_matrix("vecmat", as_array(x2))
    vectors = as_array(x1)
    # NumPy's conjugate of a bool is an integer.
    vectors = conjugate(vectors) if is_complex(vectors) else vectors
    return matmul(vectors[..., None, :], x2)[..., 0, :]
