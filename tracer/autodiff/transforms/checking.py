"""check_grads: compare the derivatives of a function with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.autodiff import check_graph
from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms.arguments import check_callable, trace_in


def check_grads(
    fn: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("rev",),
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> None:
    """Check the derivatives of a function against central finite differences.

    Parameters
    ----------
    fn : callable
        Takes and returns arrays in any nesting.
    args : tuple
        Its arguments: the point. What the function closes over does not change.
    order : int
        1 checks gradients, 2 also gradients of gradients, and so on.
    modes : sequence of {"rev", "fwd"}
        Reverse mode (vjp), forward mode (jvp).
    eps : float, optional
        Step of the differences; by default it suits the coarsest dtype of the arguments.
    atol, rtol : float, optional
        Tolerances; by default they suit that dtype.

    Raises
    ------
    GradientCheckError
        A derivative differs from the difference.

    Notes
    -----
    Functions of symmetric matrices (`cholesky`, `eigh`) have the derivative along symmetric
    changes: let `fn` make its matrix symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> tracer.check_grads(lambda x: tnp.sin(x) * x, (np.array([0.5, 2.0]),))
    """
    check_callable("check_grads", fn)
    traced = trace_in("check_grads", fn, args, range(len(args)), {})
    arrays = [np.asarray(array) for array in traced.arrays]
    # What the function closes over stays: it may be read in several places, each an input here.
    wrt = [i for i, x in enumerate(arrays[: traced.leaves]) if carries_gradient(x.dtype)]
    options: dict[str, Any] = {"modes": modes, "eps": eps, "atol": atol, "rtol": rtol}
    check_graph(traced.graph, arrays, wrt=wrt, order=order, **options)


__all__ = ["check_grads"]
