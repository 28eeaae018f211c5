"""The translation Transformer of Vaswani et al. (2017), one text for all libraries.

Encoder and decoder, normalisation after each residual, sine positions, as in TensorFlow's tutorial,
without dropout. NumPy runs it in float64 for reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Parameters = dict[str, Any]
EPSILON = 1e-6
RATE = 1.0
"""Of the training step."""


@dataclass(frozen=True)
class Library:
    """What the text needs beyond methods of arrays.

    `attend` takes queries, keys, values and whether the mask is causal; by default the scores are
    written down, as in the paper.
    """

    numpy: Any
    softmax: Callable[[Any], Any]
    logsumexp: Callable[[Any], Any]
    pick: Callable[[Any, Any], Any]
    attend: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Shape:
    """The configuration."""

    layers: int
    width: int
    heads: int
    hidden: int
    words: int
    batch: int
    length: int


def numpy_library() -> Library:
    """Return NumPy."""

    def softmax(x: Any) -> Any:
        x = np.exp(x - x.max(-1, keepdims=True))
        return x / x.sum(-1, keepdims=True)

    def logsumexp(x: Any) -> Any:
        top = x.max(-1, keepdims=True)
        return np.log(np.exp(x - top).sum(-1)) + top[..., 0]

    def pick(x: Any, places: Any) -> Any:
        return np.take_along_axis(x, places[..., None], -1)[..., 0]

    return Library(np, softmax, logsumexp, pick)


def attend(lib: Library, q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Return softmax(q k^T / sqrt(d)) v."""
    if lib.attend is not None:
        return lib.attend(q, k, v, causal)
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        places = lib.numpy.arange(q.shape[-2])
        scores = lib.numpy.where(places[:, None] >= places[None, :], scores, -np.inf)
    return lib.softmax(scores) @ v


def attention(lib: Library, p: Parameters, heads: int, x: Any, memory: Any, causal: bool) -> Any:
    """Return multi-head attention of x to memory."""
    q, k, v = (
        (source @ p[name]).reshape(*source.shape[:2], heads, -1).swapaxes(1, 2)
        for name, source in (("q", x), ("k", memory), ("v", memory))
    )
    found = attend(lib, q, k, v, causal).swapaxes(1, 2)
    return found.reshape(*x.shape) @ p["o"]


def normalised(p: Parameters, x: Any) -> Any:
    """Return x with mean 0 and variance 1 over features, scaled and moved."""
    x = x - x.mean(-1, keepdims=True)
    return x / ((x * x).mean(-1, keepdims=True) + EPSILON) ** 0.5 * p["scale"] + p["offset"]


def feed_forward(p: Parameters, x: Any) -> Any:
    """Return the two dense layers with a rectifier between."""
    hidden = x @ p["hidden"] + p["hidden_bias"]
    return (hidden * (hidden > 0)) @ p["out"] + p["out_bias"]


def encoded(lib: Library, p: Parameters, shape: Shape, x: Any) -> Any:
    """Return the encoder's result."""
    for layer in p["encoder"]:
        x = normalised(layer["norm1"], x + attention(lib, layer["self"], shape.heads, x, x, False))
        x = normalised(layer["norm2"], x + feed_forward(layer["dense"], x))
    return x


def decoded(lib: Library, p: Parameters, shape: Shape, x: Any, memory: Any) -> Any:
    """Return the decoder's result."""
    for layer in p["decoder"]:
        x = normalised(layer["norm1"], x + attention(lib, layer["self"], shape.heads, x, x, True))
        x = normalised(
            layer["norm2"], x + attention(lib, layer["cross"], shape.heads, x, memory, False)
        )
        x = normalised(layer["norm3"], x + feed_forward(layer["dense"], x))
    return x


def logits(lib: Library, shape: Shape, p: Parameters, inputs: Any, targets: Any) -> Any:
    """Return the scores of the next words, (batch, length, words)."""
    x = p["words_in"][inputs] * shape.width**0.5 + p["positions"]
    y = p["words_out"][targets] * shape.width**0.5 + p["positions"]
    return decoded(lib, p, shape, y, encoded(lib, p, shape, x)) @ p["last"] + p["last_bias"]


def loss(lib: Library, shape: Shape, p: Parameters, inputs: Any, targets: Any, right: Any) -> Any:
    """Return the mean cross-entropy."""
    scores = logits(lib, shape, p, inputs, targets)
    return (lib.logsumexp(scores) - lib.pick(scores, right)).mean()


def make_parameters(shape: Shape) -> Parameters:
    """Return the first parameters in float32, the same in every process."""
    rng = np.random.default_rng(0)

    def weights(rows: int, columns: int) -> Any:
        scale = np.float32(rows**-0.5)
        return rng.standard_normal((rows, columns), dtype=np.float32) * scale

    def norm() -> Parameters:
        zeros = np.zeros(shape.width, np.float32)
        return {"scale": zeros + 1, "offset": zeros}

    def heads() -> Parameters:
        return {name: weights(shape.width, shape.width) for name in "qkvo"}

    def dense() -> Parameters:
        return {
            "hidden": weights(shape.width, shape.hidden),
            "hidden_bias": np.zeros(shape.hidden, np.float32),
            "out": weights(shape.hidden, shape.width),
            "out_bias": np.zeros(shape.width, np.float32),
        }

    def layer(*attentions: str) -> Parameters:
        norms = {f"norm{i + 1}": norm() for i in range(len(attentions) + 1)}
        return {**{name: heads() for name in attentions}, "dense": dense(), **norms}

    return {
        "words_in": weights(shape.words, shape.width),
        "words_out": weights(shape.words, shape.width),
        "positions": _positions(shape),
        "encoder": [layer("self") for _ in range(shape.layers)],
        "decoder": [layer("self", "cross") for _ in range(shape.layers)],
        "last": weights(shape.width, shape.words),
        "last_bias": np.zeros(shape.words, np.float32),
    }


def _positions(shape: Shape) -> Any:
    rates = 1e4 ** -(np.arange(shape.width // 2) / (shape.width // 2))
    angles = np.arange(shape.length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def make_words(shape: Shape) -> tuple[Any, Any, Any]:
    """Return random sentences: the inputs, the targets, and the targets' next words."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, shape.words, (3, shape.batch, shape.length))
    return drawn[0], drawn[1], drawn[2]
