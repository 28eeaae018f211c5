"""Blocks: products of matrices, systems, factors. The matrices are well conditioned."""

from __future__ import annotations

from tests.fuzz.writer import Var, Writer

_EYE = "np.eye({n}, dtype={x}.dtype)"


def _square(w: Writer) -> Var:
    """Return a square matrix."""
    found = [v for v in w.vars if v.ndim == 2 and v.shape[0] == v.shape[1]]
    if found and w.chance(0.7):
        return w.choose(found)
    n = w.dim()
    return w.input((n, n))


def _h(w: Writer, x: object) -> str:
    """Return the adjoint."""
    return f"{x}.T" if w.is_real else f"np.conj({x}).T"


def _positive(w: Writer) -> Var:
    """Return a Hermitian positive definite matrix that is written as such."""
    x = w.value(2, lambda v: w.size(v.shape[1]) > 0)
    n, k = x.shape
    w.fits(n, n)
    form = w.choose(
        [
            "{x} @ {t} / {k} + 0.5 * {eye}",
            "{x} @ {t} / {k} + {eye}",
            "0.3 * {x} @ {t} / {k} + 2 * {eye}",
        ]
    )
    return w.emit(form.format(x=x, t=_h(w, x), k=k, eye=_EYE.format(n=n, x=x)), (n, n))


def product(w: Writer) -> None:
    x = w.value(2)
    k = x.shape[1]
    scale = f" / {k} ** 0.5" if w.chance(0.5) and w.size(k) else ""
    kind = w.choose(["weight", "own", "gram", "vector", "einsum", "dot"])
    if kind == "weight":
        c = w.dim()
        w.emit(f"{w.use(x)} @ {w.alike((k, c))}{scale}", (x.shape[0], c))
    elif kind == "own":
        w.emit(f"{w.use(x)} @ {_h(w, x)}{scale}", (x.shape[0], x.shape[0]))
    elif kind == "gram":
        w.emit(f"{_h(w, x)} @ {w.use(x)} / {max(1, w.size(x.shape[0]))}", (k, k))
    elif kind == "vector":
        w.emit(f"{w.use(x)} @ {w.alike((k,))}{scale}", (x.shape[0],))
    elif kind == "einsum":
        y = w.alike(x.shape)
        form, shape = w.choose(
            [
                ("ij,ij->", ()),
                ("ij,ij->i", x.shape[:1]),
                ("ij,kj->ik", (x.shape[0], x.shape[0])),
                ("ij,ik->jk", (k, k)),
                ("ij,kl->ik", (x.shape[0], x.shape[0])),
                ("ij,ij->ji", x.shape[::-1]),
            ]
        )
        w.emit(f"np.einsum('{form}', {w.use(x)}, {w.use(y)}){scale}", shape)
    else:
        c = w.dim()
        w.emit(f"np.tensordot({w.use(x)}, {w.alike((k, c))}, 1){scale}", (x.shape[0], c))


def batched(w: Writer) -> None:
    x = w.value(3)
    b, n, k = x.shape
    w.fits(b, n, n)
    form = w.choose(["{x} @ np.swapaxes({y}, 1, 2)", "np.einsum('bij,bkj->bik', {x}, {y})"])
    w.emit(
        form.format(x=w.use(x), y=w.alike(x.shape)) + (f" / {k} ** 0.5" if w.size(k) else ""),
        (b, n, n),
    )


def stacked(w: Writer) -> None:
    """Factors and systems of a stack of matrices, written as for one."""
    x = w.value(3, lambda v: w.size(v.shape[2]) > 0 and w.elements(*v.shape) <= 4000)
    b, n, k = x.shape
    if not w.size(n):
        return
    w.fits(b, n, n)
    t = "np.swapaxes({x}, 1, 2)" if w.is_real else "np.conj(np.swapaxes({x}, 1, 2))"
    form = w.choose(["{x} @ {t} / {k} + 0.5 * {eye}", "{x} @ {t} / {k} + 2 * {eye}[None]"])
    eye = _EYE.format(n=n, x=x)
    a = w.emit(form.format(x=x, t=t.format(x=x), k=k, eye=eye), (b, n, n))
    right = w.alike((b, n, w.dim()))
    form, shape = w.choose(
        [
            ("np.linalg.solve({a}, {b})", right.shape),
            ("np.linalg.inv({a}) @ {b}", right.shape),
            ("np.linalg.cholesky({a}) @ {b}", right.shape),
            ("np.linalg.slogdet({a})[1]", (b,)),
            ("np.linalg.det({a})", (b,)),
            ("np.linalg.eigvalsh({a})", (b, n)),
            ("np.linalg.svd({a}, compute_uv=False)", (b, n)),
            ("np.trace({a} @ {a}, axis1=1, axis2=2)", (b,)),
            ("np.diagonal({a} @ {a}, axis1=1, axis2=2)", (b, n)),
            ("({a} + np.swapaxes({a}, 1, 2)) @ {b}", right.shape),
            ("np.einsum('bij,bjk->ik', {a}, {b})", right.shape[1:]),
        ]
    )
    w.emit(form.format(a=w.use(a), b=w.use(right)), shape)


def chain(w: Writer) -> None:
    """Products of several matrices, from the left; some are the same."""
    x = w.value(2)
    n, k = x.shape
    a, c = w.alike((k, n)), w.dim()
    form = w.choose(
        [
            "{x} @ {a} @ {v}",
            "({x} @ {a}) @ {x} @ {u}",
            "{x} @ ({a} @ {x}) @ {u}",
            "np.linalg.multi_dot([{x}, {a}, {m}])",
            "{x}.T @ {v} @ {a}",
            "({x} @ {a}) @ ({x} @ {a}) @ {v}",
            "({x} * 2.0) @ ({a} / 3.0) @ {v}",
        ]
    )
    shapes = {"{m}": (n, c), "{x}.T @": (n,), "{u}": (n,), "{v}": (n,)}
    shape = next(s for key, s in shapes.items() if key in form)
    v, u, m = w.alike((n,)), w.alike((k,)), w.alike((n, c)) if "{m}" in form else ""
    w.emit(f"0.1 * ({form.format(x=x, a=a, v=v, u=u, m=m)})", shape)


def sums_of_products(w: Writer) -> None:
    """Common factors, and products over sums; often the same sum twice."""
    x = w.value(2)
    n, k = x.shape
    m = w.dim()
    a, b = w.alike((k, m)), w.alike((k, m))
    form, shape = w.choose(
        [
            ("{x} @ {a} + {x} @ {b}", (n, m)),
            ("{x} @ {a} - {x} @ {b}", (n, m)),
            ("{x} @ ({a} + {b})", (n, m)),
            ("({x} @ {a} + {r}) * ({x} @ {a} + {r})", (n, m)),
            ("({x} @ {a} + {r}) ** 2", (n, m)),
            ("({x} @ {a} + {r}) @ ({x} @ {a} + {r}).T", (n, n)),
            ("({x} @ {a} + {r}) * ({x} @ {b} + {r})", (n, m)),
            ("({x} @ {a} + {r}) @ {s}", (n,)),
            ("({x} @ {a} + {r})[None] * ({x} @ {a} + {r})", ("1", n, m)),
            ("{x} - ({x} @ {a}) @ {a}.T", (n, k)),
            ("np.sum(({x} @ {a} + {r}) * ({x} @ {a} + {r}), axis=1)", (n,)),
            ("({x} @ {a}) * {r} + ({x} @ {b}) * {r}", (n, m)),
            ("{x} @ {a} @ {s} + {x} @ {b} @ {s}", (n,)),
        ]
    )
    w.fits(n, n)
    r, s = w.alike((m,)), w.alike((m,))
    w.emit(f"0.2 * ({form.format(x=w.use(x), a=w.use(a), b=w.use(b), r=r, s=s)})", shape)


def symmetric(w: Writer) -> None:
    """A product and its transpose, and what comes after."""
    x = w.value(2)
    n, k = x.shape
    y = w.alike((k, n))
    w.fits(n, n)
    p = w.emit(f"{w.use(x)} @ {w.use(y)} / {max(1, w.size(k))}", (n, n))
    form = w.choose(
        [
            "(0.5 * ({p} + {p}.T))",
            "({p} - {p}.T)",
            "({p} * {p}.T)",
            "(np.exp(0.1 * np.real({p} - {p}.T)))",
            "np.tanh({p}.T)",
            "({p} + np.swapaxes({p}, 0, 1))",
            "({p} @ {p}.T)",
            "({p} / (2 + np.abs({p}.T)))",
        ]
    )
    s = form.format(p=p)
    c = w.alike((n, w.dim()) if w.chance(0.5) else (n,))
    text = w.choose(["{s} @ {c}", "{s} @ {c}", "{s}", "{c}.T @ {s}"])
    shape = {"{s}": (n, n), "{c}.T @ {s}": (*c.shape[1:], n)}.get(text, (n, *c.shape[1:]))
    if text == "{c}.T @ {s}" and c.ndim == 1:
        shape = (n,)
    w.emit(text.format(s=s, c=c), shape)


def solve(w: Writer) -> None:
    a = _positive(w) if w.chance(0.6) else None
    if a is None:
        x = _square(w)
        a = w.emit(f"{x} / ({x.shape[0]} + 1.0) + 2 * {_EYE.format(n=x.shape[0], x=x)}", x.shape)
    n = a.shape[0]
    if not w.size(n):
        return
    b = w.alike((n, w.dim()) if w.chance(0.6) else (n,))
    forms = ["np.linalg.solve({a}, {b})", "np.linalg.inv({a}) @ {b}", "np.linalg.solve({a}, {b})"]
    if b.ndim == 2:
        forms += ["({b}.T @ np.linalg.inv({a})).T", "np.linalg.solve({a}, {b}) @ {c}"]
    form = w.choose(forms)
    c = w.alike((b.shape[1],)) if "{c}" in form else ""
    w.emit(form.format(a=w.use(a), b=w.use(b), c=c), (n,) if "{c}" in form else b.shape)


def cholesky(w: Writer) -> None:
    a = _positive(w)
    n = a.shape[0]
    if not w.size(n):
        return
    factor = w.emit(f"np.linalg.cholesky({a})", (n, n))
    b = w.alike((n, w.dim()) if w.chance(0.5) else (n,))
    form, shape = w.choose(
        [
            ("{l} @ {b}", b.shape),
            ("np.sum(np.log(np.abs(np.diag({l}))))", ()),
            ("sla.solve_triangular({l}, {b}, lower=True)", b.shape),
            ("sla.cho_solve(({l}, True), {b})", b.shape),
            ("np.linalg.solve({a}, {b})", b.shape),
            ("np.linalg.slogdet({a})[1]", ()),
            ("np.linalg.solve({l} @ {t}, {b})", b.shape),
            ("np.linalg.slogdet({l} @ {t})[1]", ()),
            ("np.linalg.slogdet({l} @ {t})[0]", ()),
            ("np.linalg.inv({l} @ {t}) @ {b}", b.shape),
            ("np.linalg.slogdet({a})[0] * {l}[0, 0]", ()),
        ]
    )
    w.emit(form.format(l=factor, a=a, b=b, t=_h(w, factor)), shape)


def determinant(w: Writer) -> None:
    x = _square(w)
    n = x.shape[0]
    if not 0 < w.size(n) <= 40:
        return
    a = w.emit(f"{x} / ({n} + 1.0) + {_EYE.format(n=n, x=x)}", (n, n))
    forms = ["np.linalg.det({a})", "np.linalg.slogdet({a})[1]"]
    if w.is_real:
        forms += ["np.log(np.linalg.det({a} @ {a}.T + {eye}))"]
    w.emit(w.choose(forms).format(a=a, eye=_EYE.format(n=n, x=x)), ())


def spectral(w: Writer) -> None:
    """What does not depend on the signs of singular and eigenvectors."""
    x = w.value(2, lambda v: 0 < w.elements(*v.shape) <= 4000)
    n, k = x.shape
    least = n if w.size(n) <= w.size(k) else k
    kind = w.choose(["polar", "singular", "eigh", "eigvalsh", "qr", "pinv", "norm", "values"])
    if kind == "polar":
        names = w.emit(f"np.linalg.svd({w.use(x)}, full_matrices=False)", ("0",))
        w.vars.remove(names)
        w.emit(f"{names}[0] @ {names}[2]", (n, k))
    elif kind == "singular":
        w.emit(f"np.linalg.svd({w.use(x)}, compute_uv=False)", (least,))
    elif kind in ("eigh", "eigvalsh"):
        w.fits(n, n)
        s = w.emit(
            f"0.5 * ({x} @ {_h(w, x)}) / {k} + np.diag(np.arange({n})).astype({x}.dtype)", (n, n)
        )
        if kind == "eigvalsh":
            w.emit(f"np.linalg.eigvalsh({s})", (n,))
        else:
            e = w.emit(f"np.linalg.eigh({s})", ("0",))
            w.vars.remove(e)
            w.emit(f"({e}[1] * np.tanh(0.1 * {e}[0])) @ {_h(w, f'{e}[1]')}", (n, n))
    elif kind == "qr" and w.size(n) >= w.size(k):
        q = w.emit(f"np.linalg.qr({w.use(x)})", ("0",))
        w.vars.remove(q)
        w.emit(f"{q}[0] @ {_h(w, f'{q}[0]')}", (n, n))
    elif kind == "pinv":
        w.emit(f"np.linalg.pinv({w.use(x)})", (k, n))
    else:
        order = w.choose(["'nuc'", "2", "'fro'", "None", "1"])
        w.emit(f"np.linalg.norm({w.use(x)}, {order})", ())


def diagonal(w: Writer) -> None:
    """Diagonals and traces of products and sums, diagonal matrices times matrices."""
    x = w.value(2)
    n, k = x.shape
    w.fits(n, n)
    w.fits(k, k)
    y, z, v, u = w.alike((k, n)), w.alike((n, n)), w.alike((n,)), w.alike((k,))
    form, shape = w.choose(
        [
            ("np.trace({x} @ {y})", ()),
            ("np.diag({x} @ {y})", (n,)),
            ("np.diagonal({x} @ {y} + {z})", (n,)),
            ("np.diag({x} @ {y} - {z})", (n,)),
            ("np.diag(({x} @ {y}) * {z})", (n,)),
            ("np.diag(({x} @ {y}) / (3 + {z} ** 2))", (n,)),
            ("np.sum(({x} @ {y}) * np.eye({n}, dtype={x}.dtype))", ()),
            ("np.diag({v}) @ {x}", (n, k)),
            ("{x} @ np.diag({u})", (n, k)),
            ("{x}.T @ np.diag({v}) @ {x}", (k, k)),
            ("({v}[:, None] * np.eye({n}, dtype={x}.dtype)) @ {x}", (n, k)),
            ("np.eye({n}, dtype={x}.dtype) @ {x}", (n, k)),
            ("({z} + 0.7 * np.eye({n}, dtype={x}.dtype)) @ {x}", (n, k)),
            ("{x} @ np.eye({k}, dtype={x}.dtype)", (n, k)),
            ("({z} + 0.7 * np.eye({n}, dtype={x}.dtype)) @ {v}", (n,)),
            ("np.diag(np.diag({z}))", (n, n)),
            ("np.diag({z}) * np.diag({z} * {z})", (n,)),
            ("{z} - np.diag(np.diag({z}))", (n, n)),
        ]
    )
    w.emit(f"0.5 * ({form.format(x=w.use(x), y=y, z=z, v=v, u=u, n=n, k=k)})", shape)


def kronecker(w: Writer) -> None:
    n, k = w.dim(), w.dim()
    w.fits(n, n, k, k)
    a, b = w.alike((n, n)), w.alike((k, k))
    v = w.input((f"({n}) * ({k})",) if w.chance(0.5) else (f"({n}) * ({k})", "3"))
    w.emit(f"0.2 * (np.kron({a}, {b}) @ {v})", v.shape)


def power(w: Writer) -> None:
    x = _square(w)
    n = x.shape[0]
    form = w.choose(
        [
            "np.linalg.matrix_power({x} / ({n} + 1.0), 3)",
            "{x} @ {x} / ({n} + 1)",
            "{x} @ {x}.T / ({n} + 1)",
            "({x} + {x}.T) @ ({x} - {x}.T) / ({n} + 1)",
            "{x} @ {x} @ {x} / ({n} + 1)",
        ]
    )
    w.emit(form.format(x=x, n=n), x.shape)


def woodbury(w: Writer) -> None:
    """A wide system as in sparse Gaussian processes."""
    m, n = w.dim(), w.dim()
    if not (w.size(m) and w.size(n)):
        return
    w.fits(m, n)
    x, y = w.alike((m, n)), w.alike((n,))
    a = w.emit(f"{x} @ {_h(w, x)} / {n} + {_EYE.format(n=m, x=x)}", (m, m))
    factor = w.emit(f"np.linalg.cholesky({a})", (m, m))
    t = w.emit(f"sla.solve_triangular({factor}, {x}, lower=True)", (m, n))
    form, shape = w.choose(
        [
            ("{t} @ {h}", (m, m)),
            ("{t} @ {y}", (m,)),
            ("np.sum(np.abs({t}) ** 2)", ()),
            ("np.sum({t} * {t}, axis=0)", (n,)),
            ("sla.solve_triangular({l}, {x} @ {y}, lower=True)", (m,)),
            ("sla.solve_triangular({l}, {a} @ {x}, lower=True) @ {y}", (m,)),
        ]
    )
    w.emit(form.format(t=t, h=_h(w, t), y=y, l=factor, x=x, a=a), shape)


BLOCKS = (
    (product, 6),
    (batched, 2),
    (stacked, 3),
    (chain, 3),
    (sums_of_products, 4),
    (symmetric, 4),
    (solve, 3),
    (cholesky, 3),
    (determinant, 1),
    (spectral, 2),
    (diagonal, 4),
    (kronecker, 1),
    (power, 2),
    (woodbury, 2),
)
