"""The frameworks that run a program's text: tracer, NumPy and, where it is installed, JAX."""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tests.fuzz.program import BATCH, Program
from tracer.scipy import linalg as scipy_linalg
from tracer.scipy import special as scipy_special

Function = Callable[..., Any]
_LOOPS = ("scan", "fori_loop", "while_loop", "cond", "switch", "map", "associative_scan")


def tracer_names() -> dict[str, Any]:
    """Return what the names in a program's text mean here."""
    loops = {name: getattr(tracer, name) for name in _LOOPS}
    loops |= {"stop_gradient": tracer.stop_gradient, "checkpoint": tracer.checkpoint}
    return {
        "np": tnp,
        "nn": tracer.nn,
        "lax": types.SimpleNamespace(**loops),
        "sla": scipy_linalg,
        "special": scipy_special,
        "framework": tracer,
    }


def numpy_names() -> dict[str, Any]:
    """Return what the names mean to NumPy."""
    return {"np": np}


def jax_names() -> dict[str, Any]:
    """Return what the names mean to JAX, which counts in 64 bits here."""
    import jax

    jax.config.update("jax_enable_x64", True)
    loops = {name: getattr(jax.lax, name) for name in _LOOPS}
    loops |= {"stop_gradient": jax.lax.stop_gradient, "checkpoint": jax.checkpoint}
    return {
        "np": jax.numpy,
        "nn": jax.nn,
        "lax": types.SimpleNamespace(**loops),
        "sla": jax.scipy.linalg,
        "special": jax.scipy.special,
        "framework": jax,
    }


def has_jax() -> bool:
    """Tell whether JAX is installed."""
    return importlib.util.find_spec("jax") is not None


def jitted(function: Function) -> Function:
    """Return a function of JAX's names, compiled as a whole."""
    import jax

    compiled: Function = jax.jit(function)
    return compiled


def op_by_op(function: Function) -> Function:
    """Return a function of JAX's names that takes JAX's arrays: NumPy's have no `at`."""
    import jax

    def of_arrays(*arguments: Any) -> Any:
        return function(*map(jax.numpy.asarray, arguments))

    return of_arrays


def function_of(program: Program, names: dict[str, Any]) -> Function:
    """Return the program's function in a framework, without its transformation."""
    scope = {**names, **program.dims}
    exec(compile(program.body(), "<fuzz>", "exec"), scope)
    return scope["f"]


def transformed(program: Program, names: dict[str, Any]) -> Function:
    """Return what is compiled: the function under the program's transformation."""
    function = function_of(program, names)
    if program.transform == "value":
        return function
    framework, xp = names["framework"], names["np"]
    positions = program.inexact
    if program.transform == "grad":
        return framework.value_and_grad(function, argnums=positions)
    if program.transform == "second":
        return framework.grad(_along(framework, xp, function, positions), argnums=positions)
    axes = tuple(0 if i == positions[0] else None for i in range(len(program.inputs)))
    return framework.vmap(framework.grad(function, argnums=positions), in_axes=axes)


def differentiated(program: Program) -> Function | None:
    """Return the function whose gradient the transformation takes, in tracer; None for others."""
    names = tracer_names()
    function = function_of(program, names)
    if program.transform == "grad":
        return function
    if program.transform == "second":
        return _along(tracer, tnp, function, program.inexact)
    return None


def _along(framework: Any, xp: Any, function: Function, positions: Sequence[int]) -> Function:
    """Return the gradient along waves, which are no symmetric directions, as a number."""

    def along(*args: Any) -> Any:
        gradients = framework.grad(function, argnums=tuple(positions))(*args)
        return sum(xp.sum(xp.real(g * _wave(g))) for g in gradients)

    return along


def _wave(g: Any) -> Any:
    count = int(np.prod(g.shape))
    return np.cos(1 + np.arange(count)).reshape(g.shape).astype(g.dtype)


def arguments(program: Program) -> list[Any]:
    """Return the arrays for what `transformed` gives: `vmap_grad` takes a batch of the first."""
    arrays = program.arrays()
    if program.transform == "vmap_grad":
        first = program.inexact[0]
        scales = np.linspace(0.5, 1, BATCH).reshape(BATCH, *[1] * arrays[first].ndim)
        arrays[first] = (arrays[first][None] * scales).astype(arrays[first].dtype)
    return arrays


def leaves(found: Any) -> list[Any]:
    """Return the arrays of a result, whatever containers hold them."""
    if isinstance(found, dict):
        return [leaf for key in sorted(found) for leaf in leaves(found[key])]
    if isinstance(found, list | tuple):
        return [leaf for item in found for leaf in leaves(item)]
    return [found]
