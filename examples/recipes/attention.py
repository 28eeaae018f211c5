"""Causal attention of several heads, written as in the textbook.

python examples/recipes/attention.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer.numpy as tnp
from tracer.nn import softmax


def data(heads, length, size):
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=(heads, length, size)).astype("float32") for _ in range(3))


def attention(q, k, v):
    scores = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5
    steps = tnp.arange(q.shape[1])
    scores = tnp.where(steps[:, None] >= steps, scores, -np.inf)
    return softmax(scores) @ v


def check(inputs, found):
    q, k, v = (array.astype("float64") for array in inputs)
    rows = np.arange(0, q.shape[1], -(-q.shape[1] // 50))
    scores = q[:, rows] @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5
    weights = np.where(rows[:, None] >= np.arange(q.shape[1]), np.exp(scores), 0)
    exact = weights @ v / weights.sum(-1, keepdims=True)
    return f"{len(rows)} positions of each head", relative_error(found[:, rows], exact)


RECIPE = Recipe(attention, data, ("2MB", 4, 512, 16), ("200MB", 8, 8_192, 64), check=check)

if __name__ == "__main__":
    RECIPE.main()
