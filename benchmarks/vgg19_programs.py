"""VGG19 in tracer, JAX, PyTorch and NumPy: one text of the network, and calls of each library."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

LAYERS = (2, 2, 4, 4, 4)
"""Convolutions before each pooling."""
NHWC = ("NHWC", "HWIO", "NHWC")
Parameters = list[tuple[Any, Any]]


@dataclass(frozen=True)
class Library:
    """What the network is written with: a NumPy-like module and two functions of pictures."""

    numpy: Any
    conv: Callable[[Any, Any], Any]
    pool: Callable[[Any], Any]


def network(library: Library, parameters: Parameters, images: Any) -> Any:
    """Return the logits, shape (batch, classes), for images of shape (batch, side, side, 3)."""
    np_, x = library.numpy, images
    layers = iter(parameters)
    for count in LAYERS:
        for _ in range(count):
            kernel, bias = next(layers)
            x = np_.maximum(library.conv(x, kernel) + bias, 0)
        x = library.pool(x)
    x = x.reshape(x.shape[0], -1)
    for weight, bias in list(layers):
        x = np_.maximum(x, 0) @ weight + bias
    return x


def softmax(np_: Any, x: Any) -> Any:
    """Return the shares of the classes."""
    shares = np_.exp(x - x.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def make_parameters(
    width: int, side: int, hidden: int, classes: int, dtype: str = "float32"
) -> Parameters:
    """Return kernels and biases of He's size, the same in every process."""
    rng = np.random.default_rng(0)
    features = [width * min(2**stage, 8) for stage, n in enumerate(LAYERS) for _ in range(n)]
    shapes: list[tuple[int, ...]] = [
        (3, 3, before, after) for before, after in itertools.pairwise([3, *features])
    ]
    flat = (side // 32) ** 2 * features[-1]
    shapes += [(flat, hidden), (hidden, hidden), (hidden, classes)]
    return [(_normal(rng, shape, dtype), np.full(shape[-1], 0.01, dtype)) for shape in shapes]


def _normal(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    scale = np.sqrt(2 / np.prod(shape[:-1]))
    return (scale * rng.standard_normal(shape, np.float32)).astype(dtype)


def make_images(batch: int, side: int) -> Any:
    """Return made-up images."""
    return np.random.default_rng(1).standard_normal((batch, side, side, 3), np.float32)


def ours() -> Library:
    """Return tracer's functions."""
    import tracer.nn as nn
    import tracer.numpy as tnp

    def conv(x: Any, kernel: Any) -> Any:
        return nn.conv_general_dilated(x, kernel, padding="SAME", dimension_numbers=NHWC)

    def pool(x: Any) -> Any:
        windows = x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2, x.shape[3])
        return windows.max(axis=(2, 4))

    return Library(tnp, conv, pool)


def jax_library() -> Library:
    """Return JAX's functions."""
    import jax

    def conv(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=NHWC)

    return Library(jax.numpy, conv, ours().pool)


def numpy_library() -> Library:
    """Return the meaning, in NumPy."""

    def conv(x: Any, kernel: Any) -> Any:
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
        return np.tensordot(windows, kernel.transpose(2, 0, 1, 3), 3)

    def pool(x: Any) -> Any:
        n, rows, columns, features = x.shape
        return x.reshape(n, rows // 2, 2, columns // 2, 2, features).max(axis=(2, 4))

    return Library(np, conv, pool)


def written(library: Library, grad: Any, direction: str) -> Callable[[Any, Any], Any]:
    """Return the program of a direction: probabilities, or the derivative of the sum."""
    if direction == "forward":
        return lambda p, x: softmax(library.numpy, network(library, p, x))
    return grad(lambda p, x: network(library, p, x).sum())  # type: ignore[no-any-return]


def our_program(direction: str) -> Callable[[Any, Any], Any]:
    """Return tracer's program."""
    import tracer

    return written(ours(), tracer.grad, direction)


def jax_program(direction: str) -> Callable[[Any, Any], Any]:
    """Return JAX's program."""
    import jax

    return written(jax_library(), jax.grad, direction)


def run_ours(direction: str, batch: int, size: dict[str, Any]) -> Callable[[], Any]:
    """Return a call of ours."""
    import tracer
    import tracer.numpy as tnp

    parameters = [(tnp.asarray(w), tnp.asarray(b)) for w, b in make_parameters(**size)]
    images = tnp.asarray(make_images(batch, size["side"]))
    program = tracer.compile(our_program(direction))
    # The client computes before it returns, so a call is over when it is back.
    return lambda: program(parameters, images)


def run_jax(direction: str, batch: int, size: dict[str, Any]) -> Callable[[], Any]:
    """Return a call of JAX's."""
    import jax

    given = jax.tree.map(
        jax.numpy.asarray, (make_parameters(**size), make_images(batch, size["side"]))
    )
    program = jax.jit(jax_program(direction))
    return lambda: jax.block_until_ready(program(*given))


def run_torch(direction: str, batch: int, size: dict[str, Any]) -> Callable[[], Any]:
    """Return a call of PyTorch's, eager, in its own layout."""
    import torch

    def kernel_of(weight: Any) -> Any:
        return np.ascontiguousarray(weight.transpose(3, 2, 0, 1) if weight.ndim == 4 else weight)

    def conv(x: Any, kernel: Any) -> Any:
        return torch.nn.functional.conv2d(x, kernel, padding="same")

    library = Library(_TorchNames(torch), conv, lambda x: torch.nn.functional.max_pool2d(x, 2))
    is_backward = direction == "backward"
    parameters = []
    for weight, bias in make_parameters(**size):
        pair = [torch.tensor(kernel_of(weight)), torch.tensor(bias)]
        if weight.ndim == 4:
            pair[1] = pair[1].reshape(-1, 1, 1)
        parameters.append(tuple(value.requires_grad_(is_backward) for value in pair))
    images = torch.tensor(make_images(batch, size["side"]).transpose(0, 3, 1, 2).copy())
    leaves = [value for pair in parameters for value in pair]

    def run() -> Any:
        logits = network(library, parameters, images)
        if is_backward:
            return torch.autograd.grad(logits.sum(), leaves)
        return torch.softmax(logits, 1)

    return run


class _TorchNames:
    """The one function of NumPy's that the network calls, under its name."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def maximum(self, x: Any, _: int) -> Any:
        """Return the larger of an array and zero."""
        return self.torch.relu(x)


RUNS = {"ours": run_ours, "jax.jit": run_jax, "torch, eager": run_torch}


def contender(name: str, **arguments: Any) -> Callable[[], Any]:
    """Return a call, as `benchmarks.turns` wants it."""
    return RUNS[name](**arguments)
