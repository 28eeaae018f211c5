"""Training steps with Adam inside: a perceptron and a Transformer, for `tracer` and for JAX.

The state is (weights, means, squares, number of steps), each list with one array for each weight,
so that a step is `(state, batch) -> (state, loss)` and needs no library of trees.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng

LEARNING_RATE, FIRST, SECOND, EPSILON = 1e-3, 0.9, 0.999, 1e-8
Loss = Callable[[Framework, Sequence[Any], Any, Any], Any]


@dataclass(frozen=True)
class Training:
    """A model, its weights and a batch.

    Attributes
    ----------
    loss : callable
        `(framework, weights, inputs, targets) -> scalar`.
    weights, batch : callable
        `(generator, **numbers) -> arrays`.
    """

    loss: Loss
    weights: Callable[..., list[Any]]
    batch: Callable[..., tuple[Any, Any]]


def adam_step(f: Framework, loss: Loss) -> Callable[..., Any]:
    """Return `(state, inputs, targets) -> (state, loss)` for Kingma & Ba 2015."""

    def step(state: Any, inputs: Any, targets: Any) -> Any:
        weights, means, squares, count = state
        value, slopes = f.transforms.value_and_grad(lambda w: loss(f, w, inputs, targets))(weights)
        count = count + 1
        means = [FIRST * m + (1 - FIRST) * g for m, g in zip(means, slopes, strict=True)]
        squares = [SECOND * s + (1 - SECOND) * g * g for s, g in zip(squares, slopes, strict=True)]
        rate = LEARNING_RATE * f.numpy.sqrt(1 - SECOND**count) / (1 - FIRST**count)
        weights = [
            w - rate * m / (f.numpy.sqrt(s) + EPSILON)
            for w, m, s in zip(weights, means, squares, strict=True)
        ]
        return (weights, means, squares, count), value

    return step


def many_steps(f: Framework, loss: Loss, steps: int) -> Callable[..., Any]:
    """Return the same function for many steps over the batches of a stack, in one program."""
    step = adam_step(f, loss)

    def train(state: Any, inputs: Any, targets: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            number = i % inputs.shape[0]
            return step(carry[0], inputs[number], targets[number])

        return f.control.fori_loop(0, steps, body, (state, f.numpy.zeros((), "float32")))

    return train


def new_state(weights: Sequence[Any]) -> tuple[Any, ...]:
    """Return the state that training begins with, in NumPy arrays."""
    zeros = [np.zeros_like(w) for w in weights]
    return list(weights), zeros, [z.copy() for z in zeros], np.zeros((), np.float32)


def perceptron_loss(f: Framework, weights: Sequence[Any], x: Any, y: Any) -> Any:
    """Squared error of a perceptron with tanh; weights and biases take turns."""
    *inner, (w, b) = list(zip(weights[::2], weights[1::2], strict=True))
    for matrix, bias in inner:
        x = f.numpy.tanh(x @ matrix + bias)
    return f.numpy.mean((x @ w + b - y) ** 2)


def perceptron_weights(rng: Rng, *, layers: Sequence[int], **_: int) -> list[Any]:
    found: list[Any] = []
    for rows, columns in itertools.pairwise(layers):
        found.append((rng.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32))
        found.append(np.zeros(columns, np.float32))
    return found


def perceptron_batch(rng: Rng, *, layers: Sequence[int], batch: int, **_: int) -> tuple[Any, Any]:
    x = rng.standard_normal((batch, layers[0]), dtype=np.float32)
    return x, np.sin(x.sum(1, keepdims=True)).repeat(layers[-1], 1)


def transformer_loss(f: Framework, weights: Sequence[Any], tokens: Any, following: Any) -> Any:
    """Cross-entropy of the next token; causal attention, normalisation before each part."""
    table, *rest = weights
    length, width = tokens.shape[1], table.shape[1]
    x = table[tokens]
    places = f.numpy.arange(length)
    hidden = f.numpy.where(places[:, None] < places[None, :], -1e9, 0.0).astype("float32")
    for q, k, v, out, up, down in zip(*[iter(rest)] * 6, strict=True):
        y = _normalised(f, x)
        scores = f.numpy.einsum("blhd,bmhd->bhlm", _heads(y @ q), _heads(y @ k)) * HEAD_SIZE**-0.5
        shares = f.nn.softmax(scores + hidden, axis=-1)
        mixed = f.numpy.einsum("bhlm,bmhd->blhd", shares, _heads(y @ v))
        x = x + mixed.reshape(x.shape[0], length, width) @ out
        x = x + f.numpy.maximum(_normalised(f, x) @ up, 0) @ down
    logits = _normalised(f, x) @ table.T
    logs = f.scipy.special.logsumexp(logits, axis=-1)
    right = f.numpy.take_along_axis(logits, following[..., None], axis=-1)[..., 0]
    return f.numpy.mean(logs - right)


HEAD_SIZE = 64


def _heads(x: Any) -> Any:
    return x.reshape(*x.shape[:2], -1, HEAD_SIZE)


def _normalised(f: Framework, x: Any) -> Any:
    centred = x - f.numpy.mean(x, axis=-1, keepdims=True)
    return centred / f.numpy.sqrt(f.numpy.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def transformer_weights(
    rng: Rng, *, depth: int, width: int, vocabulary: int, **_: int
) -> list[Any]:
    shapes = [(vocabulary, width)]
    for _layer in range(depth):
        shapes += [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    return [(rng.standard_normal(s) * s[-1] ** -0.5 * 0.5).astype(np.float32) for s in shapes]


def transformer_batch(
    rng: Rng, *, batch: int, length: int, vocabulary: int, **_: int
) -> tuple[Any, Any]:
    tokens = rng.integers(0, vocabulary, (batch, length + 1)).astype(np.int32)
    return tokens[:, :-1], tokens[:, 1:]


TRAINING = {
    "perceptron": Training(perceptron_loss, perceptron_weights, perceptron_batch),
    "transformer": Training(transformer_loss, transformer_weights, transformer_batch),
}
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "small": {
        "perceptron": {"layers": (256, 512, 512, 16), "batch": 32},
        "transformer": {"depth": 6, "width": 64, "vocabulary": 500, "batch": 2, "length": 32},
    },
    "full": {
        "perceptron": {"layers": (1024, 2048, 2048, 2048, 16), "batch": 128},
        "transformer": {"depth": 6, "width": 256, "vocabulary": 4000, "batch": 4, "length": 128},
    },
}


def make(name: str, size: str, batches: int | None = None) -> tuple[Any, Any, Any]:
    """Return state, inputs and targets in NumPy arrays; stacks of batches for a number of them."""
    training, numbers, rng = TRAINING[name], SIZES[size][name], np.random.default_rng(0)
    state = new_state(training.weights(rng, **numbers))
    made = [training.batch(rng, **numbers) for _ in range(batches or 1)]
    inputs, targets = (np.stack(part) for part in zip(*made, strict=True))
    return (state, inputs, targets) if batches else (state, inputs[0], targets[0])
