"""A small GPT, trained for some steps of Adam in one program.

python examples/recipes/gpt.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer
import tracer.numpy as tnp
from tracer.nn import gelu, layer_norm, log_softmax, softmax


def data(steps, batch, length, heads):
    rng, width = np.random.default_rng(0), 16 * heads
    tokens = rng.integers(32, size=(steps, batch, length + 1))
    tokens[..., 2::2] = (tokens[..., 1:-1:2] + 7) % 32  # every second follows from the last
    tokens = tokens.astype("int32")

    def normal(*shape):
        return (rng.normal(size=shape) / width**0.5).astype("float32")

    block = {"qkv": normal(3, heads, width, 16), "out": normal(heads, 16, width)}
    block |= {"up": normal(width, 4 * width), "down": normal(4 * width, width)}
    return {"token": normal(32, width), "place": normal(length, width), "block": block}, tokens


def attention(x, w):
    q, k, v = tnp.einsum("blw,nhwd->nbhld", x, w["qkv"])
    steps = tnp.arange(x.shape[1])
    scores = tnp.where(steps[:, None] >= steps, q @ k.swapaxes(2, 3) / 4, -np.inf)
    return tnp.einsum("bhld,hdw->blw", softmax(scores) @ v, w["out"])


def loss(weights, tokens):
    x, w = weights["token"][tokens[:, :-1]] + weights["place"], weights["block"]
    x = x + attention(layer_norm(x), w)
    x = x + gelu(layer_norm(x) @ w["up"]) @ w["down"]
    scores = log_softmax(layer_norm(x) @ weights["token"].T)
    return -tnp.take_along_axis(scores, tokens[:, 1:, None], 2).mean()


adam = tracer.optimizers.adam(3e-3)


def train(weights, tokens):
    def step(carry, tokens):
        weights, state = carry
        value, slope = tracer.value_and_grad(loss)(weights, tokens)
        updates, state = adam.update(slope, state, weights)
        return (tracer.optimizers.apply_updates(weights, updates), state), value

    (weights, _), losses = tracer.scan(step, (weights, adam.init(weights)), tokens)
    return weights, losses


def check(inputs, results):
    def norm(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def attended(x, qkv):
        q, k, v = (x @ w for w in qkv)
        weights = np.tril(np.exp(q @ k.T / 4))
        return weights / weights.sum(-1, keepdims=True) @ v

    def exact(weights, tokens):
        x, w = weights["token"][tokens[:-1]] + weights["place"], weights["block"]
        heads = zip(w["qkv"].swapaxes(0, 1), w["out"], strict=True)
        x = x + sum(attended(norm(x), qkv) @ out for qkv, out in heads)
        up = norm(x) @ w["up"]
        x = x + 0.5 * up * (1 + np.tanh((2 / np.pi) ** 0.5 * (up + 0.044715 * up**3))) @ w["down"]
        scores = norm(x) @ weights["token"].T
        scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
        return -scores[np.arange(len(x)), tokens[1:]].mean()

    def mean(weights, batch):
        weights = tracer.tree.map(lambda a: np.asarray(a, "float64"), weights)
        return np.mean([exact(weights, tokens) for tokens in batch])

    (weights, batches), (trained, losses) = inputs, results
    error = relative_error(losses[0], mean(weights, batches[0]))
    has_learned = mean(trained, batches[0]) < losses[-1] + 0.1 < losses[0]
    return "the first loss", error if has_learned else np.inf


def picture(figure, inputs, results):
    axes = figure.subplots()
    axes.plot(results[1])
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))


RECIPE = Recipe(
    train, data, ("9MB", 5, 2, 256, 4), ("300MB", 12, 4, 2_048, 8), check=check, picture=picture
)

if __name__ == "__main__":
    RECIPE.main()
