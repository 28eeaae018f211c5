"""Blocks: scans, loops, branches, and loops of Python's own that write a program out."""

from __future__ import annotations

from tests.fuzz.writer import Writer

_CELLS = (
    "np.tanh(h @ {w} + x)",
    "0.9 * h + 0.1 * np.tanh(x)",
    "h + 0.1 * np.sin(h * x)",
    "np.tanh(h @ {w}) * x",
)


def recurrent(w: Writer) -> None:
    """A recurrent network over the rows of a matrix, or over a batch of sequences."""
    xs = w.value(w.choose([2, 2, 3]), lambda v: w.size(v.shape[0]) <= 200)
    state = xs.shape[1:]
    weight = w.weight(state[-1], state[-1])
    h0 = w.alike(state)
    out = w.choose(["h", "h ** 2", "np.sum(h)", "None"])
    cell = w.choose(_CELLS).format(w=weight)
    name = f"step{len(w.lines)}"
    w.lines.append(f"def {name}(h, x):\n    h = {cell}\n    return h, {out}")
    pair = w.emit(f"lax.scan({name}, {w.use(h0)}, {w.use(xs)})", ("0",))
    w.vars.remove(pair)
    w.emit(f"{pair}[0]", state)
    if out != "None":
        w.emit(f"{pair}[1]", (xs.shape[0], *(() if "sum" in out else state)))


def remembered(w: Writer) -> None:
    """A scan whose step is computed again in the backward pass."""
    xs = w.value(2, lambda v: w.size(v.shape[0]) <= 200)
    n, k = xs.shape
    h0, weight, name = w.alike((k,)), w.weight(k, k), f"step{len(w.lines)}"
    w.lines.append(f"def {name}(h, x):\n    h = np.tanh(h @ {weight} + x)\n    return h, h * x")
    pair = w.emit(f"lax.scan(lax.checkpoint({name}), {h0}, {w.use(xs)})", ("0",))
    w.vars.remove(pair)
    w.emit(f"{pair}[1]", (n, k))


def counted(w: Writer) -> None:
    """A loop that improves a value: iterations, relaxations, steps of a solver."""
    x = w.value(2)
    n, k = x.shape
    w.fits(n, n)
    m = w.alike((n, n))
    trips = w.choose(["1", "2", "3", "5", "12"])
    step = w.choose(
        [
            "np.tanh({m} @ h / ({n} + 1.0))",
            "h + 0.1 * ({x} - h)",
            "h - 0.1 * ({m} @ h) / ({n} + 1.0)",
            "0.5 * (h + np.tanh({x}))",
            "np.sin(h) + 0.01 * i",
            "h / (1 + np.mean(np.abs(h)))",
            "h / (1 + np.mean(np.abs(h), axis=0))",
            "h - np.mean(h, axis=1, keepdims=True) + 0.1 * {x}",
            "0.5 * np.roll(h, 1, axis=1) + 0.3 * {x}",
            "0.5 * np.flip(h, 0) + 0.3 * {x}",
            "np.where(np.arange({n})[:, None] % 2 == i % 2, h, 0.5 * {x})",
            "np.cumsum(h, axis=0) / ({n} + 1.0)",
            "h * np.arange({n})[:, None] / ({n} + 1.0)",
        ]
    ).format(m=m, n=n, x=x)
    w.emit(f"lax.fori_loop(0, {trips}, lambda i, h: ({step}).astype(h.dtype), {w.use(x)})", (n, k))


def until(w: Writer) -> None:
    """A loop whose end hangs on the values; it has no gradient."""
    x = w.value(1)
    test = f"(s[0] < {w.choose(['3', '20'])}) & (np.sum(np.abs(s[1])) < 1e4)"
    step = "(s[0] + 1, 1.1 * s[1] + 0.1)"
    pair = w.emit(f"lax.while_loop(lambda s: {test}, lambda s: {step}, (0, {w.use(x)}))", ("0",))
    w.vars.remove(pair)
    w.emit(f"{pair}[1]", x.shape)


def branch(w: Writer) -> None:
    x = w.value(accepts=lambda v: v.ndim > 0)
    test = f"np.sum(np.real({w.use(x)})) > {w.number(-1, 1)}"
    one, two = w.choose([("np.sin(v)", "0.5 * v"), ("v * v", "v + 1"), ("-v", "np.tanh(v)")])
    w.emit(f"lax.cond({test}, lambda v: {one}, lambda v: {two}, {x})", x.shape)


def mapped(w: Writer) -> None:
    """A function of each row, one after the other."""
    x = w.value(2, lambda v: w.size(v.shape[0]) <= 200)
    n, k = x.shape
    m = w.alike((k, k))
    form, shape = w.choose(
        [
            ("np.tanh({m} @ r)", (n, k)),
            ("np.sum(r * ({m} @ r))", (n,)),
            ("r / (1 + np.sum(np.abs(r)))", (n, k)),
            ("np.outer(r, r) @ {m}", (n, k, k)),
        ]
    )
    w.emit(f"lax.map(lambda r: {form.format(m=m)}, {w.use(x)})", shape)


def parts(w: Writer) -> None:
    """A scan whose state is taken apart and stacked again in every trip."""
    trips = w.choose(["8", "30"])
    s0 = w.input(("3",))
    name = f"step{len(w.lines)}"
    w.lines.append(
        f"def {name}(s, _):\n    x, y, z = s[0], s[1], s[2]\n"
        "    s = s + 0.01 * np.stack([2 * (y - x), x * (1 - z) - y, x * y - z])\n    return s, s"
    )
    pair = w.emit(f"lax.scan({name}, {s0}, None, length={trips})", ("0",))
    w.vars.remove(pair)
    w.emit(f"{pair}[1]", (trips, "3"))


def several_states(w: Writer) -> None:
    """A scan that carries several arrays of one shape, as an optimizer does."""
    xs = w.value(2, lambda v: w.size(v.shape[0]) <= 100)
    n, k = xs.shape
    name, a, b = f"step{len(w.lines)}", w.alike((k,)), w.alike((k,))
    w.lines.append(
        f"def {name}(c, x):\n    p, m, v = c\n    g = p - x\n    m = 0.9 * m + 0.1 * g\n"
        "    v = 0.9 * v + 0.1 * g * g\n    p = p - 0.1 * m / (np.abs(v) + 1.0)\n"
        "    return (p, m, v), np.sum(g * g)"
    )
    pair = w.emit(f"lax.scan({name}, ({a}, {b}, {b} * {b}), {w.use(xs)})", ("0",))
    w.vars.remove(pair)
    w.emit(f"{pair}[0][0]", (k,))
    w.emit(f"{pair}[1]", (n,))


def after_another(w: Writer) -> None:
    """A scan over what another one stacks."""
    xs = w.value(2, lambda v: w.size(v.shape[0]) <= 200)
    n, k = xs.shape
    first = w.emit(
        f"lax.scan(lambda h, x: (0.9 * h + x, np.tanh(h)), {w.alike((k,))}, {w.use(xs)})[1]", (n, k)
    )
    w.emit(f"lax.scan(lambda h, x: (0.5 * h + x * x, h - x), {w.alike((k,))}, {first})[1]", (n, k))


def nested(w: Writer) -> None:
    xs = w.value(2, lambda v: w.size(v.shape[0]) <= 60)
    n, k = xs.shape
    name, trips = f"step{len(w.lines)}", w.choose(["1", "3", "4"])
    w.lines.append(
        f"def {name}(h, x):\n"
        f"    h = lax.fori_loop(0, {trips}, lambda i, u: np.tanh(u + 0.1 * x), h)\n"
        "    return h, np.sum(h * x)"
    )
    pair = w.emit(f"lax.scan({name}, {w.alike((k,))}, {w.use(xs)})", ("0",))
    w.vars.remove(pair)
    w.emit(f"{pair}[1]", (n,))


def columns(w: Writer) -> None:
    """A long loop over steps in which columns do not meet: each core could take some."""
    n, k = w.dim(), w.dim()
    w.fits(n, k)
    x, name = w.alike((n, k)), f"step{len(w.lines)}"
    trips = w.choose(["10", "60"])
    w.lines.append(
        f"def {name}(u, _):\n    v = np.concatenate([u[1:], u[:1]])\n"
        f"    return 0.5 * u + 0.3 * np.sin(v) - 0.1 * u * v, None"
    )
    w.emit(f"lax.scan({name}, {w.use(x)}, None, length={trips})[0]", (n, k))


def written_out(w: Writer) -> None:
    """A loop of Python's: many small alike operations."""
    x = w.value(2, lambda v: all(map(w.size, v.shape)))
    n, k = x.shape
    weights, biases = w.weight("6", k, k), w.input(("6", k), prefix="b")
    form = w.choose(
        [
            "[np.tanh({x} @ {w}[j] + {b}[j]) for j in range(6)]",
            "[np.sum({x} * {b}[j], axis=1) for j in range(6)]",
            "[np.sin({b}[j]) * {x}[0] for j in range(6)]",
        ]
    ).format(x=x, w=weights, b=biases)
    items = w.emit(form, ("0",))
    w.vars.remove(items)
    shape = (n, k) if "@" in form else (n,) if "sum" in form else (k,)
    joined = w.choose(["sum", "concatenate", "stack"])
    if joined == "sum":
        w.emit(f"sum({items})", shape)
    elif joined == "stack":
        w.emit(f"np.mean(np.stack({items}), axis=0)", shape)
    else:
        w.emit(f"np.sum(np.concatenate({items}, axis=-1) ** 2)", ())


def prefix(w: Writer) -> None:
    x = w.value(accepts=lambda v: v.ndim > 0)
    axis = int(w.rng.integers(x.ndim))
    forms = ["np.cumsum({x}, axis={a})", "lax.associative_scan(lambda p, q: p + q, {x}, axis={a})"]
    if w.is_real:
        forms += ["np.cumprod(np.tanh({x}), axis={a})", "np.maximum.accumulate({x}, axis={a})"]
        combiner = w.choose(["logaddexp", "logaddexp2"])
        forms.append(f"np.{combiner}.accumulate({{x}}, axis={{a}})")
    w.emit(w.choose(forms).format(x=w.use(x), a=axis), x.shape)


BLOCKS = (
    (recurrent, 4),
    (remembered, 1),
    (counted, 3),
    (until, 1),
    (branch, 2),
    (mapped, 2),
    (parts, 1),
    (several_states, 2),
    (after_another, 2),
    (nested, 1),
    (columns, 2),
    (written_out, 2),
    (prefix, 2),
)
