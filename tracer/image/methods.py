"""The ways of resampling, and their kernels: functions of the distance from a sample, in pixels.

References
----------
Keys, Cubic convolution interpolation for digital image processing, 1981: the cubic, A = -1/2.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.errors import ArgumentError

Kernel = Callable[[Array], Array]
"""Of distances, which are not negative."""


class ResizeMethod(Enum):
    """Ways of resampling, with JAX's names.

    Attributes
    ----------
    NEAREST
        The pixel in which the sample lies.
    LINEAR
        A triangle.
    LANCZOS3, LANCZOS5
        A windowed sinc of radius 3 or 5.
    CUBIC
        Keys' cubic.
    CUBIC_PYTORCH
        With `antialias` as CUBIC, else the cubic of PyTorch and OpenCV (A = -3/4), which repeats
        the pixels at the edges.
    AREA
        The mean over what a pixel of the result covers.

    Examples
    --------
    >>> from tracer.image import ResizeMethod
    >>> ResizeMethod.from_string("bilinear").name
    'LINEAR'
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Return the method of a name.

        Parameters
        ----------
        s : str
            "nearest"; "linear", "bilinear", "trilinear" or "triangle"; "lanczos3"; "lanczos5";
            "cubic", "bicubic" or "tricubic"; "cubic-pytorch" or "bicubic-pytorch"; "area".

        Raises
        ------
        ArgumentError
            Another name.
        """
        method = _NAMES.get(s)
        if method is None:
            raise ArgumentError(
                f"{s!r} is no way to resize", mend=f"give one of {', '.join(sorted(_NAMES))}"
            )
        return method


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
    "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "area": ResizeMethod.AREA,
}


def method_of(method: Any) -> ResizeMethod:
    """Return a method that is given by itself or by name."""
    if isinstance(method, ResizeMethod):
        return method
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    raise ArgumentError(
        f"method is {method!r}", mend='give a tracer.image.ResizeMethod, or a name such as "linear"'
    )


def _triangle(x: Array) -> Array:
    return tnp.maximum(1 - x, 0)


def _lanczos(radius: int) -> Kernel:
    def kernel(x: Array) -> Array:
        found: Array = tnp.where(x > radius, 0, tnp.sinc(x) * tnp.sinc(x / radius))
        return found

    return kernel


def _cubic(a: float) -> Kernel:
    def kernel(x: Array) -> Array:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        found: Array = tnp.where(x >= 2, 0, tnp.where(x >= 1, far, near))
        return found

    return kernel


KERNELS: dict[ResizeMethod, Kernel] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}
"""The kernels of those methods that have one."""
