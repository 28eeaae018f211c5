"""NumPy's own functions on our arrays: `numpy.exp(x)` is `tracer.numpy.exp(x)`.

So code written with `import numpy as np` can be traced, differentiated and compiled unchanged when
it is given our arrays. Sources: NEP 13 (`__array_ufunc__`), NEP 18 (`__array_function__`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.active import ACTIVE
from tracer.array.array import Array
from tracer.errors import DTypeError, TracingError


class Protocols(Array):
    """Answers NumPy when one of its functions meets an array of ours.

    A table, as `Methods` is: `tracer.numpy` installs its entries into Array.
    """

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return `tracer.numpy`."""
        del api_version
        return _namespace()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute a ufunc of NumPy with the function of that name in `tracer.numpy`."""
        out = kwargs.pop("out", None)
        ours = _counterpart(None, ufunc.__name__)
        if method != "__call__":
            # `numpy.add.at(ndarray, ...)` changes the ndarray, which is the user's.
            is_ours = method != "at" or isinstance(inputs[0], Array)
            ours = getattr(ours, method, None) if is_ours else None
        if ours is None:
            name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            return _on_host(getattr(ufunc, method), name, inputs, {**kwargs, **_given(out)})
        result = ours(*inputs, **kwargs)
        if out is None:
            return result
        (target,) = out
        # `ndarray += Array`: the ndarray is the user's, and it is what they ask to change.
        target[...] = np.asarray(result)
        return target

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Compute another function of NumPy with its namesake in `tracer.numpy`.

        Conversions give NumPy's own arrays, as `numpy.asarray` does, but for traced arrays.
        """
        del types
        ours = _counterpart(function.__module__, function.__name__)
        is_conversion = function in _CONVERSIONS and not ACTIVE.stack
        if ours is None or is_conversion:
            return _on_host(function, function.__name__, args, dict(kwargs))
        return ours(*args, **kwargs)


_CONVERSIONS = frozenset({np.atleast_1d, np.atleast_2d, np.atleast_3d})
"""What libraries call to have arrays of NumPy, which they then give to C code (SciPy's solvers)."""


def _namespace() -> Any:
    """Return `tracer.numpy`: it has imported this file, which so cannot import it."""
    return sys.modules["tracer.numpy"]


def _given(out: Any) -> dict[str, Any]:
    return {} if out is None else {"out": out}


def _counterpart(module: str | None, name: str) -> Callable[..., Any] | None:
    """Return the function of `tracer.numpy` (or its linalg, fft) that answers NumPy's."""
    namespace = _namespace()
    part = (module or "").rpartition(".")[2]
    if part in ("linalg", "fft"):
        namespace = getattr(namespace, part, None)
    return getattr(namespace, name, None)


def _on_host(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Call NumPy's function on NumPy arrays of the data; refuse arrays that have none yet.

    Raises
    ------
    TracingError
        An array among the arguments is traced.
    DTypeError
        The function would write into an array of ours.
    """
    leaves = tree.leaves((list(args), kwargs))
    if any(isinstance(leaf, Array) and leaf.is_traced for leaf in leaves):
        raise _untraceable(name)
    if any(isinstance(leaf, Array) for leaf in tree.leaves(kwargs.get("out"))):
        raise DTypeError(
            f"numpy.{name} cannot write into an array of tracer",
            mend=f"write x = numpy.{name}(...) without out=",
        )
    host_args, host_kwargs = tree.map(_as_host, (list(args), kwargs))
    return function(*host_args, **host_kwargs)


def _untraceable(name: str) -> TracingError:
    """Refuse a function on traced arrays; SciPy's are ufuncs too, and some are in tracer.scipy."""
    if hasattr(sys.modules.get("tracer.scipy.special"), name):
        return TracingError(
            f"SciPy's {name} cannot be traced", mend=f"use tracer.scipy.special.{name}"
        )
    return TracingError(
        f"{name} has no counterpart in tracer.numpy that could be traced",
        mend="write it with the functions of tracer.numpy and tracer.scipy, compute it outside "
        "of the traced function, or call it by tracer.pure_callback",
    )


def _as_host(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, Array) else leaf
