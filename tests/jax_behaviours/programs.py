"""lax_control_flow, custom_api, api, lax_numpy_indexing, lax_numpy_vectorize, lax_numpy_ufuncs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.jax_behaviours.comparing import Behaviour
from tests.jax_behaviours.reducers import Programs, array, labelled

X = array("float64", (3, 4))
V = np.array([0.3, -1.2, 2.5])


def loops() -> Programs:
    def body(m: Any) -> Any:
        return lambda i, x: m.np.sin(x) * i + 0.1

    yield (
        "while",
        lambda m: m.lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, s[1] + 1), (1, 0.0)),
    )
    yield (
        "while in while",
        lambda m: m.lax.while_loop(
            lambda s: s < 50, lambda s: m.lax.while_loop(lambda t: t < 2 * s, lambda t: t + 3, s), 1
        ),
    )
    yield (
        "while with a closure",
        lambda m: m.jit(lambda c: m.lax.while_loop(lambda s: s < c, lambda s: s + c / 3, 0.0))(5.0),
    )
    yield "while that runs never", lambda m: m.lax.while_loop(lambda s: s < 0, lambda s: s + 1, 4)
    yield (
        "while of batches",
        lambda m: m.vmap(
            lambda n: m.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, 1))
        )(np.arange(4)),
    )
    yield (
        "while of batched closures",
        lambda m: m.vmap(lambda n, y: m.lax.while_loop(lambda s: s < n, lambda s: s + y, 0.0))(
            V + 3, np.abs(V)
        ),
    )
    for low, high in ((0, 5), (2, 7), (5, 2), (-3, 1), (0.0, 3.0)):
        yield f"fori {low} {high}", lambda m, a=low, b=high: m.lax.fori_loop(a, b, body(m), 0.5)
        yield (
            f"fori {low} {high} traced",
            lambda m, a=low, b=high: m.jit(lambda a, b: m.lax.fori_loop(a, b, body(m), 0.5))(a, b),
        )
        yield (
            f"fori {low} {high} unrolled",
            lambda m, a=low, b=high: m.lax.fori_loop(a, b, body(m), 0.5, unroll=2),
        )
    yield (
        "fori of traced bounds unrolled",
        lambda m: m.jit(lambda n: m.lax.fori_loop(0, n, body(m), 0.5, unroll=2))(3),
    )
    yield "fori of a tuple", lambda m: m.lax.fori_loop(0, 3, lambda i, s: (s[1], s[0] + i), (1, 2))
    yield (
        "fori of a dictionary",
        lambda m: m.lax.fori_loop(
            0, 3, lambda i, s: {"a": s["a"] + i, "b": (s["b"],)[0]}, {"a": 1, "b": 2.0}
        ),
    )
    yield "fori of nothing", lambda m: m.lax.fori_loop(0, 3, lambda i, s: s, ())
    yield (
        "fori of batches",
        lambda m: m.vmap(lambda n: m.lax.fori_loop(0, n, lambda i, s: s + i, 0))(np.arange(5)),
    )
    yield "fori differentiated", lambda m: m.grad(lambda x: m.lax.fori_loop(0, 4, body(m), x))(0.3)
    yield (
        "fori in forward mode",
        lambda m: m.jvp(lambda x: m.lax.fori_loop(0, 4, body(m), x), (0.3,), (1.0,)),
    )
    yield (
        "while in forward mode",
        lambda m: m.jvp(
            lambda x: m.lax.while_loop(lambda s: s < 9, lambda s: s * x, 1.0 * x), (2.0,), (1.0,)
        ),
    )
    yield (
        "fori of traced bounds in forward mode",
        lambda m: m.jit(
            lambda x, n: m.jvp(lambda x: m.lax.fori_loop(0, n, body(m), x), (x,), (1.0,))
        )(0.3, 4),
    )
    yield (
        "while in reverse mode",
        lambda m: m.grad(lambda x: m.lax.while_loop(lambda s: s < 9, lambda s: s * x, 1.0 * x))(
            2.0
        ),
    )
    yield (
        "carry of another dtype",
        lambda m: m.lax.while_loop(lambda s: s < 3, lambda s: s + 0.5, np.int32(0)),
    )
    yield "carry of another structure", lambda m: m.lax.fori_loop(0, 3, lambda i, s: (s, s), 0)
    yield "condition that is no bool", lambda m: m.lax.while_loop(lambda s: s, lambda s: s - 1, 3.0)


def branches() -> Programs:
    for pick in (True, False, 0, 2, np.float64(0.5)):
        yield f"cond {pick}", lambda m, p=pick: m.lax.cond(p, lambda x: x + 1, lambda x: x * 2, 3.0)
    for at in (-5, 0, 1, 2, 9):
        yield (
            f"switch {at}",
            lambda m, i=at: m.lax.switch(i, [lambda x: x, lambda x: -x, lambda x: x * x], 3.0),
        )
        yield (
            f"switch {at} traced",
            lambda m, i=at: m.jit(
                lambda i: m.lax.switch(i, [lambda x: x, lambda x: -x, lambda x: x * x], 3.0)
            )(i),
        )
    yield (
        "cond of batches",
        lambda m: m.vmap(lambda p, x: m.lax.cond(p, m.np.sin, m.np.cos, x))(V > 0, V),
    )
    yield (
        "cond with a batched operand",
        lambda m: m.vmap(lambda x: m.lax.cond(True, m.np.sin, m.np.cos, x))(V),
    )
    yield (
        "switch of batches",
        lambda m: m.vmap(lambda i, x: m.lax.switch(i, [m.np.sin, m.np.cos, m.np.exp], x))(
            np.arange(3), V
        ),
    )
    f = lambda m: lambda x: m.lax.cond(x > 0, lambda y: y**3, lambda y: m.np.exp(y), x)
    for at in (0.3, -0.3):
        yield (
            f"cond differentiated at {at}",
            lambda m, x=at: (
                m.grad(f(m))(x),
                m.grad(m.grad(f(m)))(x),
                m.jvp(f(m), (x,), (2.0,)),
            ),
        )
    yield (
        "no NaN from the other branch",
        lambda m: m.vmap(m.grad(lambda x: m.lax.cond(x > 0, m.np.sqrt, lambda y: y * 0, x)))(V),
    )
    yield "one branch", lambda m: m.lax.switch(3, [m.np.sin], 0.5)
    yield "no branch", lambda m: m.lax.switch(3, [], 0.5)
    yield (
        "several operands",
        lambda m: m.lax.cond(True, lambda x, y: x - y, lambda x, y: y - x, 3.0, 1.0),
    )
    yield "no operand", lambda m: m.lax.cond(True, lambda: 1.0, lambda: 2.0)
    yield "branches of other dtypes", lambda m: m.lax.cond(True, lambda x: x, lambda x: x > 0, 1.0)
    yield (
        "branches of other shapes",
        lambda m: m.jit(lambda p: m.lax.cond(p, lambda x: x, lambda x: x[None], V))(True),
    )
    yield "None as a predicate", lambda m: m.lax.cond(None, lambda x: x, lambda x: x, 1.0)
    yield "array as a predicate", lambda m: m.lax.cond(V > 0, lambda x: x, lambda x: x, 1.0)


def scans() -> Programs:
    def step(m: Any) -> Any:
        return lambda c, x: (m.np.tanh(c * x) + x, c * x)

    for keywords in (
        {},
        {"reverse": True},
        {"unroll": 2},
        {"unroll": True},
        {"length": 3},
        {"length": 4},
    ):
        yield f"scan {keywords}", lambda m, k=keywords: m.lax.scan(step(m), 0.5, V, **k)
        yield (
            f"scan differentiated {keywords}",
            lambda m, k=keywords: m.grad(
                lambda c, v: m.lax.scan(step(m), c, v, **k)[1].sum(), (0, 1)
            )(0.5, V),
        )
    yield (
        "scan twice differentiated",
        lambda m: m.hessian(lambda v: m.lax.scan(step(m), 0.5, v)[0])(V),
    )
    yield (
        "scan in forward mode",
        lambda m: m.jvp(lambda c: m.lax.scan(step(m), c, V), (0.5,), (1.0,)),
    )
    yield (
        "scan linearized",
        lambda m: m.linearize(lambda c: m.lax.scan(step(m), c, V)[0], 0.5)[1](2.0),
    )
    yield (
        "scan of batches",
        lambda m: m.vmap(lambda c, v: m.lax.scan(step(m), c, v), in_axes=(None, 1))(0.5, X),
    )
    yield "scan without xs", lambda m: m.lax.scan(lambda c, _: (c * 2, c), 1, None, length=4)
    yield "scan of nothing", lambda m: m.lax.scan(step(m), 0.5, np.zeros(0))
    yield (
        "scan of pytrees",
        lambda m: m.lax.scan(
            lambda c, x: ((c[1], c[0] + x["a"]), {"s": c[0]}), (1.0, 2.0), {"a": V, "b": X}
        ),
    )
    yield "scan of nested tuples of nothing", lambda m: m.lax.scan(lambda c, x: (c, ()), (), V)
    yield "xs of other lengths", lambda m: m.lax.scan(lambda c, x: (c, c), 0.0, (V, X[:2]))
    yield "carry of another shape", lambda m: m.lax.scan(lambda c, x: (c[None], x), V, V)
    yield "carry of another dtype", lambda m: m.lax.scan(lambda c, x: (c + 0.5, x), np.int32(1), V)
    yield "result that is no pair", lambda m: m.lax.scan(lambda c, x: c, 0.0, V)
    yield "weak carry", lambda m: m.lax.scan(lambda c, x: (c * x, c), 1.0, V.astype("float32"))
    yield "map", lambda m: m.lax.map(lambda x: m.np.exp(x).sum(), X)
    yield "map in batches", lambda m: m.lax.map(lambda x: m.np.exp(x).sum(), X, batch_size=2)
    yield "map of nothing", lambda m: m.lax.map(lambda x: x * 2, np.zeros((0, 2)))
    for reverse in (False, True):
        yield (
            f"associative scan, reverse={reverse}",
            lambda m, r=reverse: m.lax.associative_scan(m.np.maximum, X, axis=1, reverse=r),
        )
    yield (
        "associative scan of pairs",
        lambda m: m.lax.associative_scan(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (V, V + 1)
        ),
    )
    yield "associative scan of bools", lambda m: m.lax.associative_scan(m.np.logical_or, V > 1)
    yield (
        "checkpointed scan",
        lambda m: m.grad(lambda c: m.lax.scan(m.checkpoint(step(m)), c, V)[0])(0.5),
    )


def _with_jvp(m: Any, rule: Any = None) -> Any:
    f = m.custom_jvp(lambda x: m.np.sin(x))
    f.defjvp(rule or (lambda p, t: (m.np.sin(p[0]), 2 * m.np.cos(p[0]) * t[0])))
    return f


def _with_vjp(m: Any) -> Any:
    f = m.custom_vjp(lambda x: m.np.sin(x))
    f.defvjp(lambda x: (m.np.sin(x), m.np.cos(x)), lambda r, g: (3 * r * g,))
    return f


UNDER: dict[str, Any] = {
    "value": lambda m, f: f(0.3),
    "gradient": lambda m, f: m.grad(f)(0.3),
    "compiled gradient": lambda m, f: m.jit(m.grad(f))(0.3),
    "second derivative": lambda m, f: m.grad(m.grad(f))(0.3),
    "of batches": lambda m, f: m.vmap(f)(V),
    "gradient of batches": lambda m, f: m.vmap(m.grad(f))(V),
    "gradient of a batch": lambda m, f: m.grad(lambda v: m.vmap(f)(v).sum())(V),
    "forward": lambda m, f: m.jvp(f, (0.3,), (1.0,)),
    "in scan": lambda m, f: m.grad(lambda c: m.lax.scan(lambda c, x: (f(c) * x, c), c, V)[0])(0.3),
    "in cond": lambda m, f: m.grad(lambda x: m.lax.cond(x > 0, f, lambda y: y, x))(0.3),
    "in checkpoint": lambda m, f: m.grad(m.checkpoint(f))(0.3),
}
"""What is done with a function that has its own derivative."""


def simple_rules() -> Programs:
    for name, make in (("jvp", _with_jvp), ("vjp", _with_vjp)):
        for what, use in UNDER.items():
            yield f"{name}: {what}", lambda m, make=make, use=use: use(m, make(m))


def custom_rules() -> Programs:
    yield (
        "jvp: calls itself",
        lambda m: m.grad(_with_jvp(m, lambda p, t: (m.np.sin(p[0]), t[0])))(0.3),
    )

    def linear(m: Any) -> Any:
        f = m.custom_jvp(lambda x: -x)
        f.defjvp(lambda p, t: (f(p[0]), f(t[0])))
        return m.grad(f)(3.0)

    yield "jvp: a rule that applies its function to the tangent", linear

    def several(m: Any) -> Any:
        f = m.custom_jvp(lambda x, y: x * y)
        f.defjvps(lambda t, out, x, y: 2 * t * y, None)
        return m.grad(f, (0, 1))(2.0, 3.0)

    yield "jvp: defjvps with None", several

    def static(m: Any) -> Any:
        f = m.custom_jvp(lambda g, x: g(x), nondiff_argnums=(0,))
        f.defjvp(lambda g, p, t: (g(p[0]), 5 * t[0]))
        return m.grad(lambda x: f(m.np.sin, x))(0.3)

    yield "jvp: nondiff_argnums", static

    def static_vjp(m: Any) -> Any:
        f = m.custom_vjp(lambda g, x: g(x), nondiff_argnums=(0,))
        f.defvjp(lambda g, x: (g(x), None), lambda g, r, ct: (7 * ct,))
        return m.grad(lambda x: f(m.np.sin, x))(0.3)

    yield "vjp: nondiff_argnums", static_vjp

    def partial(m: Any) -> Any:
        f = m.custom_jvp(functools.partial(lambda x, a: a * x, a=3.0))
        f.defjvp(lambda p, t: (f(p[0]), 4 * t[0]))
        return m.grad(f)(1.0)

    yield "jvp: of a partial", partial

    def trees(m: Any) -> Any:
        f = m.custom_vjp(lambda p: p["a"] * p["b"][0])
        f.defvjp(lambda p: (p["a"] * p["b"][0], p), lambda p, g: ({"a": g, "b": (2 * g,)},))
        return m.grad(f)({"a": 2.0, "b": (3.0,)})

    yield "vjp: of pytrees", trees

    def nones(m: Any) -> Any:
        f = m.custom_vjp(lambda x, y: x * y)
        f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1], None))
        return m.grad(f, (0, 1))(2.0, 3.0)

    yield "vjp: None for a zero", nones

    def keywords(m: Any) -> Any:
        f = m.custom_vjp(lambda x, y=2.0: x * y)
        f.defvjp(lambda x, y: (x * y, y), lambda y, g: (g * y * 10, g))
        return m.grad(f)(3.0), f(3.0, y=4.0)

    yield "vjp: defaults and keywords", keywords

    def clip(m: Any) -> Any:
        f = m.custom_vjp(lambda low, high, x: x)
        f.defvjp(lambda low, high, x: (x, (low, high)), lambda r, g: (None, None, m.np.clip(g, *r)))
        return m.vmap(m.grad(lambda x: f(-0.75, 0.75, m.np.sin(x))))(V)

    yield "vjp: clipped gradients", clip
    yield "jvp: no rule", lambda m: m.grad(m.custom_jvp(lambda x: x))(1.0)
    yield "vjp: no rule", lambda m: m.grad(m.custom_vjp(lambda x: x))(1.0)
    yield "jvp: a rule that returns no pair", lambda m: m.grad(_with_jvp(m, lambda p, t: t[0]))(0.3)
    yield (
        "jvp: a tangent of another shape",
        lambda m: m.grad(_with_jvp(m, lambda p, t: (p[0], V)))(0.3),
    )


def transformations() -> Programs:
    f = lambda m: lambda x, y: (m.np.sin(x) * y).sum()
    yield "grad", lambda m: m.grad(f(m), (0, 1))(V, 2.0)
    yield "grad of the last argument", lambda m: m.grad(f(m), -1)(V, 2.0)
    yield "grad with aux", lambda m: m.grad(lambda x: (x.sum() ** 2, {"x": x}), has_aux=True)(V)
    yield "value_and_grad", lambda m: m.value_and_grad(f(m), 1)(V, 2.0)
    yield "grad of pytrees", lambda m: m.grad(lambda p: p["w"] @ p["b"][0])({"w": V, "b": [V * 2]})
    yield "grad of integers", lambda m: m.grad(lambda x: x * 2.0)(3)
    yield "grad of an array", lambda m: m.grad(lambda x: x)(V)
    yield "grad of a complex result", lambda m: m.grad(lambda x: x * 1j)(2.0)
    yield "holomorphic grad", lambda m: m.grad(m.np.sin, holomorphic=True)(1 + 2j)
    yield (
        "grad of a real function of complex numbers",
        lambda m: m.grad(lambda z: m.np.abs(z) ** 2)(1 + 2j),
    )
    yield "vjp", lambda m: m.vjp(f(m), V, 2.0)[1](3.0)
    yield "vjp of another shape", lambda m: m.vjp(f(m), V, 2.0)[1](V)
    yield "jvp", lambda m: m.jvp(f(m), (V, 2.0), (V, 1.0))
    yield "jvp of other shapes", lambda m: m.jvp(f(m), (V, 2.0), (1.0, 1.0))
    yield "linearize", lambda m: m.linearize(m.np.sin, V)[1](V)
    for name in ("jacfwd", "jacrev", "hessian"):
        yield (
            name,
            lambda m, n=name: getattr(m, n)(
                lambda x: (
                    m.np.outer(m.np.sin(x), x) if n != "hessian" else (m.np.sin(x) ** 2).prod()
                )
            )(V),
        )
        yield (
            f"{name} of pytrees",
            lambda m, n=name: getattr(m, n)(lambda p: (p["a"] ** 2 * p["b"]).sum())(
                {"a": V, "b": 3.0}
            ),
        )
        yield (
            f"{name} with aux",
            lambda m, n=name: getattr(m, n)(lambda x: ((x**3).sum(), x), has_aux=True)(V),
        )
    for axes in (0, 1, -1, (0,), (1,)):
        yield (
            f"vmap in_axes={axes}",
            lambda m, a=axes: m.vmap(lambda x: x * 2 + x.sum(), in_axes=a)(X),
        )
    for out in (0, 1, -1, None):
        yield f"vmap out_axes={out}", lambda m, a=out: m.vmap(lambda x: x * 2, out_axes=a)(X)
    yield (
        "vmap of several",
        lambda m: m.vmap(lambda x, y: x * y, in_axes=(0, None))(X, np.arange(4.0)),
    )
    yield (
        "vmap of pytrees",
        lambda m: m.vmap(lambda p: p["a"].sum() * p["b"], in_axes=({"a": 0, "b": None},))(
            {"a": X, "b": 3.0}
        ),
    )
    yield "vmap of other sizes", lambda m: m.vmap(lambda x, y: x.sum() + y)(X, np.zeros(5))
    yield "vmap of a number", lambda m: m.vmap(lambda x: x)(1.0)
    yield "vmap of nothing batched", lambda m: m.vmap(lambda x: x, in_axes=None)(V)
    yield "vmap out_axes=None of a batch", lambda m: m.vmap(lambda x: 3.0, out_axes=None)(V)
    yield "vmap of grad", lambda m: m.vmap(m.grad(lambda x: (x**3).sum()))(X)
    yield "vmap of an empty axis", lambda m: m.vmap(lambda x: x * 2)(np.zeros((0, 2)))
    yield "jit with static_argnums", lambda m: m.jit(lambda x, n: x * n, static_argnums=1)(V, 3)
    yield (
        "jit with a negative static_argnums",
        lambda m: m.jit(lambda x, n: x * n, static_argnums=-1)(V, 3),
    )
    yield (
        "jit with static_argnames",
        lambda m: m.jit(lambda x, n: x * n, static_argnames="n")(V, n=3),
    )
    yield "jit of keywords", lambda m: m.jit(lambda x, y=2.0: x * y)(V, y=3.0)
    yield "jit of weak numbers", lambda m: m.jit(lambda x, r: x * r)(V.astype("float32"), 0.1)
    yield "jit of None", lambda m: m.jit(lambda x, y: x)(V, None)
    yield "jit of a string", lambda m: m.jit(lambda x: x)("text")
    yield "jit that branches on values", lambda m: m.jit(lambda x: x if x > 0 else -x)(1.0)
    yield "jit with int() of a tracer", lambda m: m.jit(lambda x: np.zeros(int(x)))(3)
    yield "escaped tracer", _escaped
    yield "remat", lambda m: m.grad(m.checkpoint(lambda x: m.np.sin(m.np.sin(x))))(0.3)
    yield (
        "remat of batches",
        lambda m: m.vmap(m.grad(m.checkpoint(lambda x: m.np.sin(m.np.sin(x)))))(V),
    )
    yield (
        "remat twice differentiated",
        lambda m: m.grad(m.grad(m.checkpoint(lambda x: m.np.sin(x) ** 2)))(0.3),
    )
    for pattern, x, y in (
        ("(n,m),(m)->(n)", X, np.arange(4.0)),
        ("(n)->()", X, None),
        ("()->()", V, None),
    ):
        args = (x,) if y is None else (x, y)
        g = {
            "(n,m),(m)->(n)": lambda a, b: a @ b,
            "(n)->()": lambda a: a.sum(),
            "()->()": lambda a: a * 2,
        }[pattern]
        yield (
            f"vectorize {pattern}",
            lambda m, p=pattern, a=args, g=g: m.np.vectorize(g, signature=p)(*a),
        )
    yield (
        "vectorize without signature",
        lambda m: m.np.vectorize(lambda a, b: a * b + 1)(X, V[:, None]),
    )
    yield "vectorize with exclude", lambda m: m.np.vectorize(lambda a, b: a * b, excluded={1})(V, 3)
    yield "apply_along_axis", lambda m: m.np.apply_along_axis(lambda v: v.sum() * v, 0, X)


def _escaped(m: Any) -> Any:
    kept = []
    m.jit(lambda x: kept.append(x) or x)(1.0)
    return kept[0] + 1


def ufuncs() -> Programs:
    for name in ("add", "multiply", "maximum", "logical_or", "subtract", "power"):
        yield f"{name}.reduce", lambda m, n=name: getattr(m.np, n).reduce(X, axis=1)
        yield f"{name}.accumulate", lambda m, n=name: getattr(m.np, n).accumulate(X, axis=1)
        yield f"{name}.outer", lambda m, n=name: getattr(m.np, n).outer(X, V)
        yield (
            f"{name}.reduceat",
            lambda m, n=name: getattr(m.np, n).reduceat(X, np.array([0, 2]), axis=1),
        )
    yield "add.at, not in place", lambda m: m.np.add.at(X, np.array([0, 0]), 1.0, inplace=False)
    yield "add.reduce with where", lambda m: m.np.add.reduce(X, axis=1, where=X > 0, initial=2.0)


def indexing() -> Programs:
    x = np.arange(60.0).reshape(3, 4, 5)
    indices: list[Any] = [
        0,
        -1,
        slice(1, None),
        slice(None, None, -2),
        slice(10, 2),
        (..., 1),
        (None, 1),
        (slice(None), None, 2),
        (0, slice(None), -1),
        [0, 2],
        ([0, 2], [1, 3]),
        ([[0], [2]], [1, 3]),
        (slice(None), [0, 0, -1]),
        ([0, 1], slice(None), [2, 3]),
        (0, slice(None), [2, 3]),
        (slice(None), [1], None, [2]),
        (..., [1, 2]),
        np.array([], int),
        np.array([True, False, True]),
        np.arange(12).reshape(3, 4) > 5,
        True,
        False,
        (True, 0),
        (None, None, ...),
        (),
        (np.array([0, 2]), ..., np.array(1)),
        (slice(0, 0), 1),
        np.uint8(2),
    ]
    for index in indices:
        label = repr(index).replace("\n", "")
        yield f"x[{label}]", lambda m, i=index: m.np.asarray(x)[i]
        yield f"x.at[{label}].set", lambda m, i=index: m.np.asarray(x).at[i].set(-1.0)
        yield f"x.at[{label}].add", lambda m, i=index: m.np.asarray(x).at[i].add(2.5)
        yield f"grad of x[{label}]", lambda m, i=index: m.grad(lambda v: (v[i] ** 2).sum())(x)
    for name in ("multiply", "divide", "power", "min", "max", "apply", "get"):
        args = {"apply": (np.sin,), "get": ()}.get(name, (3.0,))
        yield (
            f"x.at[[0, 0]].{name}",
            lambda m, n=name, a=args: getattr(m.np.asarray(x).at[[0, 0]], n)(*a),
        )
    for index in (5, -9, [0, 7], [-4, 1]):
        for kind in ("get", "set", "add"):
            args = () if kind == "get" else (1.0,)
            yield (
                f"traced .at[{index}].{kind}",
                lambda m, i=index, k=kind, a=args: m.jit(lambda x, i: getattr(x.at[i], k)(*a))(
                    x[0, 0], np.asarray(i)
                ),
            )
            for mode in ("drop", "clip", "fill"):
                yield (
                    f"traced .at[{index}].{kind}, mode={mode}",
                    lambda m, i=index, k=kind, a=args, d=mode: m.jit(
                        lambda x, i: getattr(x.at[i], k)(*a, mode=d)
                    )(x[0, 0], np.asarray(i)),
                )
    for wrong in (1.5, "a", (0, 0, 0, 0), [0.5], np.ones(4, bool)):
        yield f"x[{wrong!r}]", lambda m, i=wrong: m.np.asarray(x)[i]
    yield "traced bool mask", lambda m: m.jit(lambda v: v[v > 3])(x)
    yield "traced slice", lambda m: m.jit(lambda v, i: v[:i])(x, 2)
    yield "traced scalar index", lambda m: m.jit(lambda v, i: v[i, :, i + 1])(x, 2)
    yield "set of another dtype", lambda m: m.np.asarray(np.arange(3)).at[0].set(1.7)
    yield labelled("np.take", x, np.array([[0, 2], [-1, 1]]), axis=2)


BEHAVIOURS = [
    Behaviour(
        "lax_control_flow",
        "while_loop and fori_loop",
        loops,
        missing=("while in forward mode", "fori of traced bounds in forward mode"),
    ),
    Behaviour("lax_control_flow", "cond and switch", branches),
    Behaviour("lax_control_flow", "scan, map, associative_scan", scans),
    Behaviour("custom_api", "custom_jvp and custom_vjp under transformations", simple_rules),
    Behaviour(
        "custom_api", "custom rules: static arguments, None, pytrees, wrong rules", custom_rules
    ),
    Behaviour(
        "api",
        "grad, vjp, jvp, jacobians, vmap, jit, checkpoint, vectorize",
        transformations,
        missing=("jit with a negative static_argnums",),
    ),
    Behaviour(
        "lax_numpy_ufuncs",
        "methods of ufuncs",
        ufuncs,
        missing=("subtract.",),
    ),
    Behaviour("lax_numpy_indexing", "reading, updating and their derivatives", indexing),
]
