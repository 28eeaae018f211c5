"""What a program that is compared with JAX is written with, and how it is described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Rng = np.random.Generator


@dataclass(frozen=True)
class Framework:
    """What programs are written with: `tracer` or JAX.

    `control` has scan and fori_loop, `scipy` has linalg and special, `transforms` has grad and
    hessian.
    """

    numpy: ModuleType
    scipy: ModuleType
    control: ModuleType
    transforms: ModuleType
    nn: ModuleType
    conv_general_dilated: Callable[..., Any]
    top_k: Callable[..., Any]


def tracer_framework() -> Framework:
    import tracer

    return Framework(
        tracer.numpy,
        tracer.scipy,
        tracer,
        tracer,
        tracer.nn,
        tracer.nn.conv_general_dilated,
        tracer.numpy.top_k,
    )


def jax_framework() -> Framework:
    """Return JAX in double precision; raises ImportError where it is not installed."""
    import jax
    import jax.numpy
    import jax.scipy.linalg
    import jax.scipy.special

    jax.config.update("jax_enable_x64", True)
    return Framework(
        jax.numpy,
        jax.scipy,
        jax.lax,
        jax,
        jax.nn,
        jax.lax.conv_general_dilated,
        jax.lax.top_k,
    )


@dataclass(frozen=True)
class Program:
    """A program, its inputs by size, and which derivative is asked for."""

    loss: Callable[[Framework], Callable[..., Any]]
    inputs: Callable[[Rng, int], tuple[Any, ...]]
    size: int
    derivative: str = "grad"

    def derivative_of(self, framework: Framework) -> Callable[..., Any]:
        """Return the function that computes the derivative."""
        transform: Any = getattr(framework.transforms, self.derivative)
        made: Callable[..., Any] = transform(self.loss(framework))
        return made


def normal(rng: Rng, *shape: int) -> Any:
    return rng.standard_normal(shape)
