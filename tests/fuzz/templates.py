"""Blocks for passes that need more than one form: many alike parts, large arrays, long scans."""

from __future__ import annotations

from tests.fuzz.writer import Writer


def repeated(w: Writer) -> None:
    """One sum in two places of a product, with unit axes between."""
    n, k, m = w.dim(), w.dim(), w.dim()
    w.fits(n, m)
    x, a, b = w.alike((n, k)), w.weight(k, m), w.alike((m,))
    v = w.emit(f"({x} @ {a} + {b})[None]", ("1", n, m))
    w.emit(w.choose([f"{v} * {v}", f"{v} * {v} * {v}", f"{v} ** 2 + {v} * {v}"]), v.shape)


def many_small(w: Writer) -> None:
    """Many small alike operations, put together, and a sum over what was put together."""
    k = w.choose([d for d in w.dims if 0 < w.size(d) <= 64] or ["5"])
    x, ws = w.alike((k,)), w.input(("8", k, k), prefix="w")
    items = w.emit(f"[np.tanh({ws}[j] @ {x} / {k}) for j in range(8)]", ("0",))
    w.vars.remove(items)
    form, shape = w.choose(
        [
            ("np.concatenate({i})", (f"8 * ({k})",)),
            ("np.sum(np.concatenate({i}))", ()),
            ("np.max(np.concatenate({i}))", ()),
            ("np.sum(np.stack({i}), axis=0)", (k,)),
            ("np.sum(np.concatenate([u * u for u in {i}]))", ()),
            ("sum(np.sum(u ** 2) for u in {i})", ()),
        ]
    )
    w.emit(form.format(i=items), shape)


def small_pairs(w: Writer) -> None:
    """Products of many pairs of small matrices, turned, computed and repeated: sums of terms."""
    n, many = w.choose(["3", "8", "9", "12", "16", "17", "20", "24"]), w.choose(["16", "17", "40"])
    m = w.choose([n, "1", "5"])
    square, other = (many, n, n), (many, n, m)
    text, shape = w.choose(
        [
            ("{x} @ {y}", other),
            ("np.tanh({x} @ {y})", other),
            ("({x} * {z} + 1) @ ({y} - 0.5)", other),
            ("np.swapaxes({x}, -1, -2) @ {y}", other),
            ("{x} @ np.swapaxes({x}, -1, -2)", square),
            ("{x} @ {x}", square),
            ("{x}[::-1] @ ({y} * {y})", other),
            ("np.einsum('bij,bjk,bkl->bil', {x}, {z}, {y}) / {n}", other),
            ("({x} - {z} @ ({x} @ {z}) / {n}) @ {y}", other),
            ("np.sum(({x} @ {y}) ** 2, axis=0)", (n, m)),
        ]
    )
    given = {
        name: w.input(square if name in "xz" else other) for name in "xyz" if f"{{{name}}}" in text
    }
    w.emit(f"({text.format(n=n, **given)}) / {n}", shape)


def large_pairs(w: Writer) -> None:
    """All pairs of more points than the caches hold: slices without a limit, merged kernels."""
    n, m, d = w.choose(["1500", "2003"]), w.choose(["1000", "1201"]), w.choose(["1", "2", "3"])
    x, y = w.input((n, d)), w.input((m, d))
    form = w.choose(
        [
            "np.exp(-0.5 * np.sum(({x}[:, None] - {y}[None]) ** 2, axis=-1))",
            "np.tanh({x} @ {y}.T)",
            "1 / (1 + np.sum(np.abs({x}[:, None] - {y}[None]), axis=-1))",
            "np.arctan({x}[:, :1] - {y}[:, 0])",
        ]
    ).format(x=x, y=y)
    text, shape = w.choose(
        [
            ("{k} @ {v}", (n,)),
            ("np.sum({k}, axis=0)", (m,)),
            ("np.mean(({k}) ** 2)", ()),
            ("np.log(np.sum(np.exp({k}), axis=1))", (n,)),
            ("np.min({k}, axis=1)", (n,)),
        ]
    )
    w.emit(text.format(k=form, v=w.input((m,)) if "{v}" in text else ""), shape)


def extremes(w: Writer) -> None:
    """Extremes of one matrix along several axes, whose gradients take a copy of it each."""
    w.wants_gradient = True
    n, m, d = w.choose(["211", "300"]), w.choose(["97", "256"]), w.choose(["1", "2", "5"])
    kind = w.choose(["normal", "few"])  # few: ties
    x = w.input((n, d), kind)
    y = x if n == m or w.chance(0.2) else w.input((m, d), kind)
    m = y.shape[0]
    form = w.choose(
        [
            "np.sum(({x}[:, None] - {y}[None]) ** 2, axis=-1)",
            "np.sum(np.abs({x}[:, None] - {y}[None]), axis=-1)",
            "np.maximum({x} @ {y}.T, 0)",
            "np.exp(-np.sum(({x}[:, None] - {y}[None]) ** 2, axis=-1))",
            "np.tanh({x} @ {y}.T)[:, None].transpose(0, 2, 1)[..., 0]",
        ]
    )
    k = w.emit(form.format(x=x, y=y), (n, m))
    rows, columns, number = (n,), (m,), ()
    one_axis = [("np.min({k}, axis=1)", rows), ("np.max({k}, axis=0)", columns)]
    one_axis += [("np.min({k}.T, axis=1)", columns), ("np.max({k}[None], axis=(0, 2))", rows)]
    whole = ["np.max(np.min({k}, axis=1))", "np.max({k})", "np.min({k}, axis=(0, 1))"]
    smooth = ["np.sum(np.exp(-{k} ** 2), axis=1)", "{k}[:, 0] / (1 + np.max({k}))"]
    pools = [one_axis, [(text, number) for text in whole], [(text, rows) for text in smooth]]
    for pool in (*pools[:2], w.choose(pools)):
        text, shape = w.choose(pool)
        w.must.append(w.emit(text.format(k=w.use(k)), shape))


def long_sum(w: Writer) -> None:
    """The sum of very many alike numbers: it has to keep its digits."""
    n, m = w.choose(["301", "503"]), w.choose(["400", "250"])
    x, y = w.input((n, m), "few"), w.input((n, m), "few")
    v = w.weight(m, "4")
    form = w.choose(
        [
            "np.einsum('ij,ij->', {x}, {y})",
            "{x}.ravel() @ {y}.ravel()",
            "np.sum({x} * {y})",
            "np.mean(np.tanh({x} @ {v}) ** 2)",
            "np.vdot({x}, {y})",
            "np.mean(({x} - {y}) ** 2) + np.sum({x})",
            "np.tensordot({x}, {y}, 2)",
            "lax.fori_loop(0, 3, lambda i, h: h + np.sum(np.abs({x} * h)) / 1e6, {x}[0, 0])",
        ]
    )
    w.must.append(w.emit(form.format(x=x, y=y, v=v), ()))


def shared_work(w: Writer) -> None:
    """A cheap value of large arrays that several kernels read."""
    x = w.input(("700", "300"))
    u = w.emit(f"np.tanh({x}) * 0.5 + {x}", x.shape)
    w.emit(f"np.sum({u}, axis=0) * np.sum({u} ** 2, axis=0)", ("300",))
    w.emit(f"np.max({u}, axis=1) - np.mean({u}, axis=1)", ("700",))


def long_chains(w: Writer) -> None:
    """A long chain of cheap operations that several kernels read, whole and behind views."""
    n, m = w.choose(["1", "40", "301"]), w.choose(["1", "64", "250"])
    x = w.input((n, m))
    h = x
    for _ in range(w.choose([8, 20])):
        h = w.emit(
            w.choose(["{h} * {h} * 0.01 + {x}", "{x} - {h} * 0.5"]).format(h=h, x=x), x.shape
        )
        w.vars.remove(h)
    readers = [
        ("np.sum({h}, axis=0)", (m,)),
        ("np.max({h} * 2, axis=1)", (n,)),
        ("np.sum({h} * {x})", ()),
        ("np.mean({h}[None] ** 2, axis=(0, 2))", (n,)),
        ("np.sum({h}.T, axis=1) + {h}[0]", (m,)),
        ("{h} @ {h}.T", (n, n)),
        ("{h} + 1", (n, m)),
    ]
    for _ in range(w.choose([2, 3, 4])):
        text, shape = w.choose(readers)
        w.must.append(w.emit(text.format(h=h, x=x), shape))


def kernel_diagonals(w: Writer) -> None:
    """The diagonal of a matrix of all pairs, beside other readers of the matrix."""
    n, d = w.choose(["1", "150", "301"]), w.choose(["1", "3", "9"])
    x = w.input((n, d))
    form = w.choose(
        [
            "np.exp(-0.1 * np.sum(({x}[:, None] - {x}[None]) ** 2, axis=-1))",
            "1 + np.abs({x} @ {x}.T)",
            "2 + np.tanh({x}[:, :1] - {x}[:, 0] * 0.5)",
        ]
    )
    k = w.emit(form.format(x=x), (n, n))
    w.vars.remove(k)
    readers = [
        ("np.sum({k} / np.sqrt(np.diag({k})[:, None] * np.diag({k})), axis=1)", (n,)),
        ("np.max({k} - np.diag(np.diag({k})), axis=0)", (n,)),
        ("np.trace({k}) * np.mean({k}, axis=0)", (n,)),
        ("np.diag({k}) ** 2 * np.sum({k}, axis=1)", (n,)),
        ("np.sum(np.diagonal({k}, 1)) + np.sum(np.diagonal({k}, -2))", ()),
        ("np.diag({k}.T) + {k}[0]", (n,)),
    ]
    for _ in range(w.choose([1, 2])):
        text, shape = w.choose(readers)
        w.must.append(w.emit(text.format(k=k), shape))


def kept_states(w: Writer) -> None:
    """A long scan whose gradient keeps every state, with a large array that it only reads."""
    trips, k = w.choose(["50", "120"]), w.choose(["64", "150"])
    h, m, xs = w.input((k,)), w.weight(k, k), w.input((trips, k))
    big = w.emit(f"np.tanh({m} @ {m}.T)", (k, k))
    name = f"s{len(w.lines)}"
    w.lines.append(
        f"def {name}(h, x):\n    h = np.tanh({big} @ h + np.sin(x))\n    return h, np.sum(h ** 2)"
    )
    pair = w.emit(f"lax.scan({name}, {h}, {xs})", ("0",))
    w.vars.remove(pair)
    w.emit(f"{pair}[1]", (trips,))
    w.emit(f"{pair}[0]", (k,))


def environments(w: Writer) -> None:
    """A long loop of independent rows, which each core takes some of; it is not differentiated."""
    w.is_plain = True
    s, f, name = w.input(("512", "3")), w.input(("4", "512")), f"s{len(w.lines)}"
    w.lines.append(
        f"def {name}(i, s):\n"
        "    x, v = s[:, 0], s[:, 1]\n"
        f"    parts = [0.9 * x + 0.1 * np.sin(v), 0.8 * v + 0.1 * {f}[i % 4], s[:, 2] + x * v]\n"
        "    return np.stack(parts, axis=1)"
    )
    w.must.append(w.emit(f"lax.fori_loop(0, 3000, {name}, {s})", s.shape))


def encoder(w: Writer) -> None:
    """A layer of an encoder over a batch of sequences: norms, projections, heads, a perceptron."""
    b, n = w.choose(["1", "6", "16"]), w.choose(["1", "33", "64"])
    h, d = w.choose(["1", "4"]), w.choose(["4", "8"])
    k = str(int(h) * int(d))
    x = w.input((b, n, k))
    norm = (
        "({x} - np.mean({x}, axis=-1, keepdims=True)) / (1 + np.std({x}, axis=-1, keepdims=True))"
    )
    y = w.emit(norm.format(x=x), x.shape)
    split = f"reshape({b}, {n}, {h}, {d})"
    q, key, v = (w.emit(f"({y} @ {w.weight(k, k)}).{split}", (b, n, h, d)) for _ in range(3))
    if w.chance(0.5):
        scores = f"np.einsum('bqhd,bkhd->bhqk', {q}, {key})"
    else:
        scores = f"{q}.transpose(0, 2, 1, 3) @ {key}.transpose(0, 2, 3, 1)"
    s = w.emit(f"{scores} / {d} ** 0.5", (b, h, n, n))
    if w.chance(0.5):
        lengths = w.index((b,), n)
        shown = f"(np.arange({n}) <= {lengths}[:, None])[:, None, None]"
        s = w.emit(f"np.where({shown}, {s}, -1e9)", s.shape)
    p = w.emit(f"nn.softmax({s}, axis=-1)", s.shape)
    o = w.emit(f"np.einsum('bhqk,bkhd->bqhd', {p}, {v}).reshape({b}, {n}, {k})", x.shape)
    z = w.emit(f"{x} + {o} @ {w.weight(k, k)}", x.shape)
    w.must.append(
        w.emit(f"{z} + nn.relu({z} @ {w.weight(k, '20')}) @ {w.weight('20', k)}", x.shape)
    )


BLOCKS = (
    (repeated, 2),
    (many_small, 4),
    (small_pairs, 2),
    (large_pairs, 2),
    (extremes, 2),
    (long_sum, 2),
    (shared_work, 1),
    (long_chains, 2),
    (kernel_diagonals, 2),
    (kept_states, 2),
    (environments, 1),
    (encoder, 3),
)
