"""One program in three libraries, and what the comparison of its results says."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

Library = Any
Program = Callable[[Library], Any]


@dataclass(frozen=True)
class Behaviour:
    """What JAX's suites test, as programs of our own.

    Parameters
    ----------
    suite : str
        The file of JAX's tests without `_test.py`.
    text : str
        What holds.
    programs : callable
        Yields pairs of a label and a program, which takes a library (`library` below).
    missing : tuple of str
        Parts of the labels of programs that are refused here and run in JAX. All others have JAX's
        values, or NumPy's.
    differs : dict
        Parts of the labels of programs that have another value on purpose, and the reason.
    """

    suite: str
    text: str
    programs: Callable[[], Iterator[tuple[str, Program]]]
    missing: tuple[str, ...] = ()
    differs: dict[str, str] = field(default_factory=dict)

    def expected(self, label: str) -> str | None:
        """Return the verdict that is known of a program, None where its values are right."""
        if any(part in label for part in self.missing):
            return "refused"
        return "wrong" if any(part in label for part in self.differs) else None


@functools.cache
def library(name: str) -> Library:
    """Return "tracer", "jax" or "numpy" under the names that programs use."""
    return {"tracer": _tracer, "jax": _jax, "numpy": _numpy}[name]()


def _tracer() -> Library:
    import tracer
    import tracer.numpy
    import tracer.scipy

    return SimpleNamespace(
        **{name: getattr(tracer, name) for name in TRANSFORMATIONS},
        np=tracer.numpy,
        sp=tracer.scipy,
        lax=tracer,
        nn=tracer.nn,
        jit=tracer.compile,
    )


def _jax() -> Library:
    import jax
    import jax.scipy.linalg
    import jax.scipy.special

    jax.config.update("jax_enable_x64", True)
    return SimpleNamespace(
        **{name: getattr(jax, name) for name in TRANSFORMATIONS},
        np=jax.numpy,
        sp=jax.scipy,
        lax=jax.lax,
        nn=jax.nn,
        jit=jax.jit,
    )


def _numpy() -> Library:
    import scipy.linalg
    import scipy.special

    return SimpleNamespace(np=np, sp=scipy)


TRANSFORMATIONS = (
    "grad value_and_grad vjp jvp jacfwd jacrev hessian vmap linearize checkpoint custom_jvp "
    "custom_vjp"
).split()


def results(name: str, program: Program) -> list[np.ndarray[Any, Any]] | Exception:
    """Return the arrays that a program gives in a library, or why it gives none."""
    from tracer import tree

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = program(library(name))
            return [np.asarray(leaf) for leaf in tree.leaves(found)]
        except Exception as error:  # refusals are of many classes
            return error


_PRECISION = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, Exception) or isinstance(other, Exception):
        return isinstance(one, Exception) and isinstance(other, Exception)
    return len(one) == len(other) and all(map(_same, one, other))


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind in "biu":
        return bool((one == other).all())
    limit = _PRECISION.get(one.dtype.name, 1e-9)
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    one, other = one.astype(wide), other.astype(wide)
    size = np.max(np.abs(other), initial=0, where=np.isfinite(other))
    return bool(np.allclose(one, other, rtol=limit, atol=limit * size, equal_nan=True))


def _is_lacking(found: Any) -> bool:
    """Tell whether a library has no such function or keyword, which is no refusal."""
    return isinstance(found, AttributeError) or (
        isinstance(found, TypeError) and "unexpected keyword" in str(found)
    )


def verdict(program: Program) -> str:
    """Tell how a program does here.

    Returns
    -------
    str
        "jax" and "numpy": as there. "more": refused by the others. "refused": JAX gives a value.
        "wrong" else: another value than JAX's and NumPy's.
    """
    ours, theirs = results("tracer", program), results("jax", program)
    if _agree(ours, theirs):
        return "jax"
    numpys = results("numpy", program)
    if _agree(ours, numpys) and not _is_lacking(numpys):
        return "numpy"
    if isinstance(ours, Exception):
        return "refused"
    both_refuse = isinstance(theirs, Exception) and isinstance(numpys, Exception)
    return "more" if both_refuse else "wrong"
