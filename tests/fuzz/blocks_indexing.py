"""Blocks: scatter, gather, sorts, slices, masks."""

from __future__ import annotations

from tests.fuzz.writer import Writer


def gather(w: Writer) -> None:
    x = w.value(2, lambda v: all(map(w.size, v.shape)))
    n, k = x.shape
    m = w.dim()
    i = w.index((m,), n)
    form, shape = w.choose(
        [
            ("{x}[{i}]", (m, k)),
            ("np.take({x}, {i}, axis=0)", (m, k)),
            ("{x}[{i}, 0]", (m,)),
            ("{x}[{i}][:, ::-1]", (m, k)),
            ("{x}[{i}] * {x}[{i}]", (m, k)),
            ("{x}[{i}[::-1]]", (m, k)),
            ("{x}[{i} - 1]", (m, k)),
            ("{x}[{i}, {i} % ({k})]", (m,)),
        ]
    )
    w.emit(form.format(x=w.use(x), i=i, k=k), shape)


def scatter(w: Writer) -> None:
    x = w.value(2, lambda v: all(map(w.size, v.shape)))
    n, k = x.shape
    m = w.dim()
    i = w.index((n,), m)
    if not w.size(m):
        return
    base = w.choose([f"np.zeros(({m}, {k}), dtype={x}.dtype)", w.alike((m, k)).name])
    op = w.choose(["add", "add", "max" if w.is_real else "add", "multiply"])
    w.emit(f"{base}.at[{i}].{op}({w.use(x)})", (m, k))


def set_part(w: Writer) -> None:
    x = w.value(2, lambda v: min(map(w.size, v.shape)) > 1)
    n, k = x.shape
    form = w.choose(
        [
            "{x}.at[0].set({r})",
            "{x}.at[:, 0].set(0.5)",
            "{x}.at[1:].add({x}[:-1])",
            "{x}.at[::2].multiply(2.0)",
            "{x}.at[np.arange({m}), np.arange({m})].add(1.0)",
            "{x}.at[-1].set({r} * 2)",
            "{x}.at[:, 1].add({x}[:, 0])",
        ]
    )
    m = n if w.size(n) <= w.size(k) else k
    w.emit(form.format(x=w.use(x), r=w.alike((k,)), m=m), x.shape)


def window(w: Writer) -> None:
    """Neighbours: differences, stencils, moving sums."""
    x = w.value(accepts=lambda v: v.ndim > 0 and w.size(v.shape[0]) > 2)
    rest = x.shape[1:]
    n = x.shape[0]
    form, size = w.choose(
        [
            ("{x}[1:] - {x}[:-1]", f"{n} - 1"),
            ("{x}[2:] - 2 * {x}[1:-1] + {x}[:-2]", f"{n} - 2"),
            ("np.roll({x}, 1, axis=0) + {x}", n),
            ("np.diff({x}, axis=0)", f"{n} - 1"),
            ("{x}[::-1]", n),
            ("{x}[::2]", f"(({n}) + 1) // 2"),
            ("np.flip({x}, 0) * {x}", n),
            ("{x}[1:]", f"{n} - 1"),
        ]
    )
    w.emit(form.format(x=w.use(x)), (size, *rest))


def ordered(w: Writer) -> None:
    """Sorts, the largest, medians, and gathers by order. Real numbers."""
    x = w.value(accepts=lambda v: v.ndim > 0 and w.size(v.shape[-1]) > 1 and w.elements(*v.shape))
    k = w.choose(["1", "2"])
    lead = x.shape[:-1]
    form, shape = w.choose(
        [
            ("np.sort({x}, axis=-1)", x.shape),
            ("np.sort({x}, axis=-1)[..., :{k}]", (*lead, k)),
            ("np.sort({x}, axis=-1)[..., -{k}:]", (*lead, k)),
            ("np.sort({x}, axis=-1)[..., ::-1][..., :{k}]", (*lead, k)),
            ("np.take_along_axis({x}, np.argsort({x}, axis=-1), axis=-1)", x.shape),
            ("np.take_along_axis({x}, np.argsort({x}, axis=-1)[..., :{k}], axis=-1)", (*lead, k)),
            ("np.median({x}, axis=-1)", lead),
            ("np.argsort({x}, axis=-1) * {x}", x.shape),
            (
                "np.take_along_axis({x}, np.argmax({x}, axis=-1, keepdims=True), axis=-1)",
                (*lead, "1"),
            ),
            ("np.quantile({x}, 0.3, axis=-1)", lead),
            ("-np.sort(-{x}, axis=-1)", x.shape),
        ]
    )
    w.emit(form.format(x=x, k=k), shape)


def counts(w: Writer) -> None:
    """Sums by label, in ways that need no scatter."""
    x = w.value(2, lambda v: all(map(w.size, v.shape)))
    n, k = x.shape
    m = w.dim()
    if not w.size(m):
        return
    i = w.index((n,), m)
    form = w.choose(
        [
            "nn.one_hot({i}, {m}, dtype={x}.dtype).T @ {x}",
            "(np.arange({m})[:, None] == {i}).astype({x}.dtype) @ {x}",
            "nn.one_hot({i}, {m}, dtype={x}.dtype, axis=0) @ {x}",
        ]
    )
    w.emit(form.format(i=i, m=m, x=w.use(x)), (m, k))


def mask(w: Writer) -> None:
    x = w.value(2)
    n, k = x.shape
    form = w.choose(
        [
            "np.tril({x})",
            "np.triu({x}, 1)",
            "np.where(np.arange({n})[:, None] >= np.arange({k}), {x}, 0)",
            "{x} * (np.arange({k}) % 2 == 0)",
            "np.where(np.eye({n}, {k}, dtype=bool), 0, {x})",
            "np.tril({x}, -1) + np.triu({x}, 1)",
        ]
    )
    w.emit(form.format(x=w.use(x), n=n, k=k), x.shape)


BLOCKS = ((gather, 4), (scatter, 3), (set_part, 3), (window, 3), (counts, 2), (mask, 3))
REAL_BLOCKS = ((ordered, 3),)
