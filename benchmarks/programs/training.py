"""Training steps with Adam: a perceptron and a Transformer, for tracer and for JAX.

A step takes and returns `(parameters, first moments, second moments, steps)`, a tree of arrays that
is donated, and gives the loss.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng

HEADS = 4
RATE, FIRST, SECOND, TINY = 1e-3, 0.9, 0.999, 1e-8

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What is done to a segment of the network: nothing, or a checkpoint."""


def plain(segment: Callable[..., Any]) -> Callable[..., Any]:
    return segment


def perceptron(f: Framework, wrap: Wrap = plain) -> Callable[..., Any]:
    """Return a training step; segments of the square root of the number of layers are wrapped."""

    @wrap
    def segment(x: Any, weights: Any) -> Any:
        for w in weights:
            x = f.numpy.tanh(x @ w)
        return x

    def loss(weights: Any, x: Any, y: Any) -> Any:
        length = max(1, round(len(weights) ** 0.5))
        for start in range(0, len(weights) - 1, length):
            x = segment(x, weights[start : min(start + length, len(weights) - 1)])
        return f.numpy.mean((x @ weights[-1] - y) ** 2)

    return adam(f, loss)


def transformer(f: Framework, wrap: Wrap = plain) -> Callable[..., Any]:
    """Return a training step of a pre-norm Transformer; its blocks are wrapped."""
    xp = f.numpy

    def normalised(x: Any) -> Any:
        x = x - xp.mean(x, axis=-1, keepdims=True)
        return x / xp.sqrt(xp.mean(x**2, axis=-1, keepdims=True) + 1e-5)

    def attention(x: Any, layer: Any) -> Any:
        batch, length, width = x.shape

        def heads(name: str) -> Any:
            shape = (batch, length, HEADS, width // HEADS)
            return xp.swapaxes(xp.reshape(x @ layer[name], shape), 1, 2)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ xp.swapaxes(key, -1, -2) / (width // HEADS) ** 0.5
        mixed = f.nn.softmax(scores, axis=-1) @ value
        return xp.reshape(xp.swapaxes(mixed, 1, 2), x.shape) @ layer["out"]

    @wrap
    def block(x: Any, layer: Any) -> Any:
        x = x + attention(normalised(x), layer)
        return x + xp.tanh(normalised(x) @ layer["up"]) @ layer["down"]

    def loss(layers: Any, x: Any, y: Any) -> Any:
        for layer in layers:
            x = block(x, layer)
        return xp.mean((normalised(x) - y) ** 2)

    return adam(f, loss)


def adam(f: Framework, loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return the step `(state, x, y) -> (loss, state)` of Kingma & Ba (2015)."""
    gradient = f.transforms.value_and_grad(loss)

    def step(state: Any, x: Any, y: Any) -> Any:
        parameters, first, second, steps = state
        value, slope = gradient(parameters, x, y)
        steps = steps + 1
        first = tree_map(lambda m, g: FIRST * m + (1 - FIRST) * g, first, slope)
        second = tree_map(lambda v, g: SECOND * v + (1 - SECOND) * g * g, second, slope)

        def moved(p: Any, m: Any, v: Any) -> Any:
            scale = f.numpy.sqrt(v / (1 - SECOND**steps)) + TINY
            return p - RATE * (m / (1 - FIRST**steps)) / scale

        return value, (tree_map(moved, parameters, first, second), first, second, steps)

    return step


def tree_map(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to the leaves of lists and dicts."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: tree_map(function, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, list | tuple):
        return type(first)(tree_map(function, *parts) for parts in zip(*trees, strict=True))
    return function(*trees)


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree of lists, tuples and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        return [*itertools.chain.from_iterable(map(leaves, tree))]
    return [tree]


def _started(parameters: Any) -> Any:
    moments = [tree_map(np.zeros_like, parameters) for _ in range(2)]
    return parameters, *moments, np.float32(0)


def _matrix(rng: Rng, rows: int, columns: int) -> Any:
    return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(rows**-0.5)


def perceptron_inputs(rng: Rng, layers: int, width: int, batch: int) -> tuple[Any, ...]:
    """Return the state, the inputs and the targets."""
    weights = [_matrix(rng, width, width) for _ in range(layers)]
    x, y = (rng.standard_normal((batch, width), dtype=np.float32) for _ in range(2))
    return _started(weights), x, y


def transformer_inputs(
    rng: Rng, layers: int, width: int, batch: int, length: int
) -> tuple[Any, ...]:
    """Return the state, the inputs and the targets."""
    sizes = dict.fromkeys(("query", "key", "value", "out"), (width, width))
    sizes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    made = [{name: _matrix(rng, *size) for name, size in sizes.items()} for _ in range(layers)]
    x, y = (rng.standard_normal((batch, length, width), dtype=np.float32) for _ in range(2))
    return _started(made), x, y


STEPS: Mapping[str, Callable[..., Callable[..., Any]]] = {
    "perceptron": perceptron,
    "transformer": transformer,
}
INPUTS: Mapping[str, Callable[..., tuple[Any, ...]]] = {
    "perceptron": perceptron_inputs,
    "transformer": transformer_inputs,
}
SIZES: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "small": {
        "perceptron": {"layers": 8, "width": 256, "batch": 4096},
        "transformer": {"layers": 6, "width": 128, "batch": 8, "length": 128},
    },
    "full": {
        "perceptron": {"layers": 8, "width": 1024, "batch": 4096},
        "transformer": {"layers": 6, "width": 256, "batch": 8, "length": 256},
    },
}
