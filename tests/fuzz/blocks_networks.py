"""Blocks: layers of networks, with weights and biases, as people write them. Real numbers."""

from __future__ import annotations

from tests.fuzz.writer import Var, Writer

ACTIVATIONS = (
    "np.tanh({z})",
    "nn.relu({z})",
    "nn.gelu({z})",
    "nn.gelu({z}, approximate=False)",
    "nn.silu({z})",
    "nn.softplus({z})",
    "nn.sigmoid({z})",
    "np.maximum({z}, 0)",
    "nn.elu({z})",
    "0.5 * ({z}) * (1 + special.erf(({z}) / np.sqrt(2.0).astype({x}.dtype)))",
    "nn.leaky_relu({z})",
    "({z}) / (1 + np.exp(-({z})))",
    "nn.log_sigmoid({z})",
)


def _sequence(w: Writer) -> Var:
    """Return a batch of rows, or a batch of sequences of rows."""
    return w.value(w.choose([2, 2, 3]), lambda v: all(map(w.size, v.shape)))


def dense(w: Writer) -> None:
    x = _sequence(w)
    n = w.dim()
    weight, bias = w.weight(x.shape[-1], n), w.input((n,), prefix="b")
    z = f"{w.use(x)} @ {weight} + {bias}"
    shape = (*x.shape[:-1], n)
    if w.chance(0.4):
        z = w.emit(z, shape).name
    form = w.choose((*ACTIVATIONS, "{z}", "{z}"))
    w.emit(form.format(z=z, x=x), shape)


def residual(w: Writer) -> None:
    """A block of two layers around which the value goes by."""
    x = _sequence(w)
    k, h = x.shape[-1], w.dim()
    first, second = w.weight(k, h), w.weight(h, k)
    b, c = w.input((h,), prefix="b"), w.input((k,), prefix="b")
    u = w.emit(
        w.choose(ACTIVATIONS).format(z=f"{w.use(x)} @ {first} + {b}", x=x), (*x.shape[:-1], h)
    )
    w.emit(f"{x} + {w.use(u)} @ {second} + {c}", x.shape)


def gated(w: Writer) -> None:
    """Products of two layers of one value (GLU), or of one layer with itself."""
    x = _sequence(w)
    h = w.dim()
    shape = (*x.shape[:-1], h)
    u = w.emit(f"{w.use(x)} @ {w.weight(x.shape[-1], h)} + {w.input((h,), prefix='b')}", shape)
    v = u if w.chance(0.3) else w.emit(f"{x} @ {w.weight(x.shape[-1], h)}", shape)
    w.emit(
        w.choose(["{u} * {v}", "{u} * nn.sigmoid({v})", "nn.silu({u}) * {v}"]).format(
            u=w.use(u), v=w.use(v)
        ),
        shape,
    )


def layer_norm(w: Writer) -> None:
    x = _sequence(w)
    g, b = w.input(x.shape[-1:], "positive", "g"), w.input(x.shape[-1:], prefix="b")
    axis = "axis=-1, keepdims=True"
    if w.chance(0.5):
        m = w.emit(f"np.mean({x}, {axis})", (*x.shape[:-1], "1"))
        s = w.emit(f"np.var({x}, {axis})", (*x.shape[:-1], "1"))
        w.emit(f"({x} - {m}) / np.sqrt({s} + 1e-2) * {g} + {b}", x.shape)
    else:
        w.emit(f"{x} / np.sqrt(np.mean({x} ** 2, {axis}) + 1e-2) * {g}", x.shape)


def softmax(w: Writer) -> None:
    x = w.value(accepts=lambda v: v.ndim > 0 and all(map(w.size, v.shape)))
    axis = int(w.rng.integers(-x.ndim, 0))
    form = w.choose(
        [
            "nn.softmax({x}, axis={a})",
            "nn.log_softmax({x}, axis={a})",
            "np.exp({x}) / np.sum(np.exp({x}), axis={a}, keepdims=True)",
            "np.log(np.exp({x}) / np.sum(np.exp({x}), axis={a}, keepdims=True))",
            "np.exp({x} - np.max({x}, axis={a}, keepdims=True))"
            " / np.sum(np.exp({x} - np.max({x}, axis={a}, keepdims=True)),"
            " axis={a}, keepdims=True)",
        ]
    )
    w.emit(form.format(x=f"({w.use(x)})", a=axis), x.shape)


def log_sum_exp(w: Writer) -> None:
    x = w.value(accepts=lambda v: v.ndim > 0 and all(map(w.size, v.shape)))
    axis = int(w.rng.integers(-x.ndim, 0))
    shape = tuple(s for i, s in enumerate(x.shape) if i != axis % x.ndim)
    form = w.choose(
        [
            "np.log(np.sum(np.exp({x}), axis={a}))",
            "special.logsumexp({x}, axis={a})",
            "np.max({x}, axis={a})"
            " + np.log(np.sum(np.exp({x} - np.max({x}, axis={a}, keepdims=True)), axis={a}))",
        ]
    )
    w.emit(form.format(x=f"({w.use(x)})", a=axis), shape)


def attention(w: Writer) -> None:
    """One head on rows, or heads on a batch of sequences."""
    x = w.value(2, lambda v: all(map(w.size, v.shape)))
    n, k = x.shape
    d = w.dim()
    w.fits(n, n)
    names = [w.emit(f"{w.use(x)} @ {w.weight(k, d)}", (n, d)) for _ in range(3)]
    q, key, v = names if not w.chance(0.2) else (names[0], names[0], names[1])
    score = f"{w.use(q)} @ {w.use(key)}.T / {d} ** 0.5"
    s = w.emit(score, (n, n))
    if w.chance(0.4):
        s = w.emit(f"np.where(np.tril(np.ones(({n}, {n}), dtype=bool)), {s}, -1e9)", (n, n))
    form = w.choose(
        ["nn.softmax({s}, axis=-1)", "np.exp({s} - np.max({s}, axis=1, keepdims=True))"]
    )
    p = w.emit(form.format(s=s), (n, n))
    w.emit(f"{w.use(p)} @ {w.use(v)}", (n, d))


def heads(w: Writer) -> None:
    """Several heads at once, split off the last axis."""
    x = w.value(2, lambda v: all(map(w.size, v.shape)))
    n, k = x.shape
    d = w.dim()
    w.fits("2", n, n)
    parts = []
    for _ in range(3):
        y = w.emit(f"({w.use(x)} @ {w.weight(k, f'2 * {d}')}).reshape({n}, 2, {d})", (n, "2", d))
        parts.append(y)
    q, key, v = parts
    s = w.emit(f"np.einsum('nhd,mhd->hnm', {q}, {key})", ("2", n, n))
    p = w.emit(f"nn.softmax({s} / {d} ** 0.5, axis=-1)", ("2", n, n))
    o = w.emit(f"np.einsum('hnm,mhd->nhd', {p}, {v})", (n, "2", d))
    w.emit(f"{o}.reshape({n}, 2 * {d}) @ {w.weight(f'2 * {d}', k)}", (n, k))


def loss(w: Writer) -> None:
    """Cross-entropy with labels, in one of the ways in which it is written."""
    x = w.value(2, lambda v: all(map(w.size, v.shape)))
    n, k = x.shape
    labels = w.index((n,), k)
    form = w.choose(
        [
            "-np.mean(np.sum(nn.one_hot({i}, {k}, dtype={x}.dtype)"
            " * nn.log_softmax({x}), axis=-1))",
            "-np.mean(nn.log_softmax({x})[np.arange({n}), {i}])",
            "-np.mean(np.take_along_axis(nn.log_softmax({x}), {i}[:, None], axis=1))",
            "np.mean(special.logsumexp({x}, axis=1) - {x}[np.arange({n}), {i}])",
        ]
    )
    w.emit(form.format(i=labels, k=k, n=n, x=x), ())


def embedding(w: Writer) -> None:
    rows, k, n = w.dim(), w.dim(), w.dim()
    if not w.size(rows):
        return
    table, i = w.weight(rows, k), w.index((n,), rows)
    form = w.choose(
        [
            "{t}[{i}]",
            "nn.one_hot({i}, {r}, dtype={t}.dtype) @ {t}",
            "np.eye({r}, dtype={t}.dtype)[{i}] @ {t}",
            "np.take({t}, {i}, axis=0)",
            "({i}[:, None] == np.arange({r})).astype({t}.dtype) @ {t}",
        ]
    )
    w.emit(form.format(t=table, i=i, r=rows), (n, k))


def convolution(w: Writer) -> None:
    """A convolution with ReLU over a batch of images, in the shapes of the library's own `nn`."""
    if not w.chance(0.5):
        return
    n, s, c, d = w.dim(), w.dim(), w.choose(["1", "3"]), w.choose(["2", "4"])
    if not (w.size(n) and w.size(s)):
        return
    w.fits(n, s, s, d)
    x, kernel = w.input((n, s, s, c)), w.input(("3", "3", c, d), prefix="w")
    y = w.emit(f"nn.relu(nn.conv({x}, {kernel} / 3))", (n, s, s, d))
    second = w.input(("3", "3", d, d), prefix="w")
    z = w.emit(f"np.tanh(nn.conv({y}, {second} / 5))", (n, s, s, d))
    w.emit(f"np.mean({z} ** 2)", ()) if w.chance(0.5) else w.emit(
        f"np.mean({z}, axis=(1, 2))", (n, d)
    )


BLOCKS = (
    (dense, 5),
    (residual, 3),
    (gated, 2),
    (layer_norm, 2),
    (softmax, 3),
    (log_sum_exp, 2),
    (attention, 3),
    (heads, 2),
    (loss, 2),
    (embedding, 2),
    (convolution, 1),
)
