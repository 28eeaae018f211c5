"""Blocks: functions of all pairs of points, and sums over them. Real numbers."""

from __future__ import annotations

from tests.fuzz.writer import Var, Writer

DISTANCES = (
    "np.sum(({x}[:, None] - {y}[None]) ** 2, axis=-1)",
    "np.sum(np.square({x}[:, None, :] - {y}), axis=2)",
    "np.sum({x} ** 2, axis=1)[:, None] + np.sum({y} ** 2, axis=1)[None] - 2 * {x} @ {y}.T",
    "np.sum(np.abs({x}[:, None] - {y}[None]), axis=-1)",
    "np.einsum('id,jd->ij', {x}, {y})",
    "np.max(np.abs({x}[:, None] - {y}[None]), axis=-1)",
    "np.sum({x}[:, None] * {y}[None], axis=-1)",
    "np.sum(({x}[:, None] - {y}[None]) ** 2 * {g}, axis=-1)",
)
KERNELS = (
    "np.exp(-0.5 * {d})",
    "1 / (1 + {d} ** 2)",
    "np.exp(-np.sqrt({d} ** 2 + 0.1))",
    "(1 + 0.1 * {d}) ** 2",
    "np.tanh(0.1 * {d})",
    "{d}",
    "np.where({d} < 1, 1 - 0.5 * {d}, 0)",
    "(1 + np.abs({d})) * np.exp(-np.abs({d}))",
    "np.arctan({d})",
)


def pairwise(w: Writer) -> None:
    x = w.value(2, lambda v: w.size(v.shape[1]) > 0)
    n, d = x.shape
    if w.chance(0.4):
        y = x
    else:
        y = w.alike((w.dim(), d))
    m = y.shape[0]
    w.fits(n, m, d)
    g = w.input((d,), "positive", "g") if w.chance(0.3) else None
    forms = [form for form in DISTANCES if g is not None or "{g}" not in form]
    dist = w.emit(w.choose(forms).format(x=x, y=y, g=g), (n, m))
    k = w.emit(w.choose(KERNELS).format(d=dist), (n, m))
    _use(w, k)


def _use(w: Writer, k: Var) -> None:
    """Sum, multiply, normalise a matrix of pairs."""
    n, m = k.shape
    kind = w.choose(["vector", "matrix", "sum", "both", "normalise", "extreme", "nothing"])
    if kind == "vector":
        w.emit(f"{w.use(k)} @ {w.alike((m,))}", (n,))
    elif kind == "matrix":
        c = w.dim()
        w.emit(f"{w.use(k)} @ {w.alike((m, c))}", (n, c))
    elif kind == "sum":
        axis = w.choose([0, 1, -1])
        w.emit(f"np.sum({w.use(k)}, axis={axis})", (m,) if axis == 0 else (n,))
    elif kind == "both":
        w.emit(f"{w.alike((n,))} @ {w.use(k)} @ {w.alike((m,))}", ())
    elif kind == "normalise":
        w.emit(f"{k} / (np.sum({k}, axis=1, keepdims=True) + 3.0)", (n, m))
    elif kind == "extreme" and w.size(m):
        w.emit(f"np.min({w.use(k)}, axis=1)", (n,))


def one_dimensional(w: Writer) -> None:
    """The pairs of the elements of vectors."""
    x = w.value(1)
    y = x if w.chance(0.4) else w.value(1)
    w.fits(*x.shape, *y.shape)
    d = w.emit(f"{w.use(x)}[:, None] - {w.use(y)}[None, :]", (*x.shape, *y.shape))
    k = w.emit(w.choose(KERNELS).format(d=f"{d} ** 2"), d.shape)
    _use(w, k)


def mixture(w: Writer) -> None:
    """The log-density of a mixture: log-sum-exp over pairs."""
    x = w.value(2, lambda v: w.size(v.shape[1]) > 0)
    n, d = x.shape
    k = w.dim()
    if not w.size(k):
        return
    w.fits(n, k, d)
    mu, s = w.input((k, d), prefix="m"), w.input((k,), "positive", "s")
    q = w.emit(
        f"-0.5 * np.sum(({x}[:, None] - {mu}) ** 2, axis=-1) / {s} ** 2 - np.log({s})", (n, k)
    )
    w.emit(
        w.choose(
            [f"special.logsumexp({q}, axis=1)", f"np.log(np.sum(np.exp({q}), axis=1) + 1e-3)"]
        ),
        (n,),
    )


def triples(w: Writer) -> None:
    """Products of three points, which no loop over pairs holds."""
    x = w.value(2, lambda v: w.size(v.shape[1]) > 0)
    n, d = x.shape
    w.fits(n, n, n)
    t = w.emit(f"np.einsum('id,jd,kd->ijk', {x}, {x}, {w.alike((n, d))})", (n, n, n))
    w.emit(f"np.sum(np.tanh({t}), axis=(1, 2))", (n,))


def checkpointed(w: Writer) -> None:
    """A matrix of pairs, or a layer, of which a gradient keeps the operands only."""
    x = w.value(2, lambda v: w.size(v.shape[1]) > 0)
    n, d = x.shape
    y = x if w.chance(0.3) else w.alike((w.dim(), d))
    m = y.shape[0]
    w.fits(n, m, d)
    body = w.choose(
        [
            "np.tanh(a @ b.T)",
            "np.exp(-np.sum((a[:, None] - b) ** 2, axis=-1))",
            "np.sin(a @ b.T) * a[:, :1] + b[:, 0]",
            "np.tanh((a @ b.T)[None])[0]",
        ]
    )
    k = w.emit(f"lax.checkpoint(lambda a, b: {body})({w.use(x)}, {w.use(y)})", (n, m))
    if w.chance(0.3):
        k = w.emit(f"lax.checkpoint(np.tanh)({w.use(k)})", (n, m))
    _use(w, k)


BLOCKS = ((pairwise, 6), (one_dimensional, 3), (mixture, 2), (triples, 1), (checkpointed, 2))
