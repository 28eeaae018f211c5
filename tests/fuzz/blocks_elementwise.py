"""Blocks: functions of single elements, shapes, reductions."""

from __future__ import annotations

from tests.fuzz.writer import Shape, Var, Writer

SMOOTH = (
    "np.tanh({x})",
    "np.sin({x})",
    "np.cos({x})",
    "np.exp(-{x} ** 2)",
    "np.arctan({x})",
    "np.log(1 + {x} ** 2)",
    "np.sqrt({x} ** 2 + 1)",
    "{x} ** 3 / 3",
    "np.exp(0.3 * {x})",
    "np.exp(np.tanh({x}))",
    "np.exp(0.5 * {x}) - 1",
    "np.log(1 + np.exp({x}))",
    "np.expm1(np.sin({x}))",
    "np.log1p({x} ** 2)",
    "np.log(1 - 0.5 * np.tanh({x}))",
    "1 / (1 + np.exp(-{x}))",
    "np.log(1 / (1 + np.exp(-{x})))",
    "(1 + {x} ** 2) ** 1.5",
    "({x} ** 2 + 0.5) ** -0.5",
    "0.1 * {x} ** 4",
    "(0.5 * np.sin({x})) ** 5",
    "np.sinh(np.sin({x}))",
    "np.cosh(0.3 * {x})",
    "np.arcsinh({x})",
    "np.arctan2({x}, 1.0 + {x} ** 2)",
    "np.arcsin(0.9 * np.sin({x}))",
    "np.hypot({x}, 1.0)",
    "np.logaddexp({x}, 0.0)",
    "np.cbrt({x} ** 2 + 1)",
    "np.exp2(0.3 * {x})",
    "np.arctanh(0.7 * np.tanh({x}))",
    "np.log2(2 + {x} ** 2)",
    "np.square({x})",
    "np.sinc({x})",
)
ROUGH = (
    "np.abs({x})",
    "np.maximum({x}, 0)",
    "np.clip({x}, -0.7, 0.7)",
    "np.where({x} > 0, {x}, 0.1 * {x})",
    "np.sign({x}) * {x}",
    "np.floor(2 * {x}) + {x}",
    "np.fmax({x}, 0.3)",
    "{x} % 1.7",
    "np.where(np.abs({x}) < 1, 0.5 * {x} ** 2, np.abs({x}) - 0.5)",
)
COMPLEX = (
    "np.exp(0.2 * {x})",
    "{x} * np.conj({x})",
    "np.sin(0.3 * {x})",
    "np.conj({x})",
    "{x} ** 2 / 2",
    "1j * {x}",
    "{x} / (2 + np.abs({x}))",
    "np.sqrt(4 + np.tanh(0.1 * {x}))",
    "np.abs({x}) * {x}",
)
PAIRS = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / (2 + {y} ** 2)",
    "{x} * {y} + {x}",
    "({x} - {y}) ** 2",
    "({x} + {y}) * ({x} - {y})",
    "{x} * {x} + {y} * {y}",
    "0.5 * ({x} + {y})",
    "{x} - 2 * {y} + {x}",
)
ROUGH_PAIRS = (
    "np.maximum({x}, {y})",
    "np.where({x} > {y}, {x}, 0.5 * {y})",
    "np.minimum({x}, {y})",
    "np.logaddexp({x}, {y})",
    "np.arctan2({x}, {y})",
    "np.abs({x} - {y})",
)


def unary(w: Writer) -> None:
    x = w.value()
    forms = COMPLEX if not w.is_real else (*SMOOTH, *SMOOTH, *ROUGH)
    w.emit(w.choose(forms).format(x=_atom(w.use(x))), x.shape)


def _atom(text: str) -> str:
    return text if text.isidentifier() or text.endswith(")") else f"({text})"


def binary(w: Writer) -> None:
    x = w.value()
    y = x if w.chance(0.15) else w.alike(x.shape)
    forms = PAIRS if not w.is_real else (*PAIRS, *ROUGH_PAIRS)
    w.emit(w.choose(forms).format(x=_atom(w.use(x)), y=_atom(w.use(y))), x.shape)


def broadcast(w: Writer) -> None:
    """A value with a row, a column or a number."""
    x = w.value(2)
    sign = w.choose("+-*")
    kind = w.choose(["row", "column", "unit", "number", "leading"])
    if kind == "number":
        w.emit(f"{w.use(x)} {sign} {w.number(-2, 2)}", x.shape)
    elif kind == "row":
        w.emit(f"{w.use(x)} {sign} {w.use(w.alike(x.shape[1:]))}", x.shape)
    elif kind == "column":
        w.emit(f"{w.use(x)} {sign} {w.use(w.alike(x.shape[:1]))}[:, None]", x.shape)
    elif kind == "unit":
        w.emit(f"{w.use(x)} {sign} {w.input((x.shape[0], '1'))}", x.shape)
    else:
        w.emit(f"{x}[None] {sign} {w.use(w.alike(x.shape))}", ("1", *x.shape))


def outer(w: Writer) -> None:
    x, y = w.value(1), w.value(1)
    w.fits(*x.shape, *y.shape)
    sign = w.choose("+-*")
    w.emit(f"{w.use(x)}[:, None] {sign} {w.use(y)}[None, :]", (*x.shape, *y.shape))


def reduce(w: Writer) -> None:
    x = w.value(accepts=lambda v: v.ndim > 0)
    axis = int(w.rng.integers(x.ndim))
    kept: Shape = tuple(s for i, s in enumerate(x.shape) if i != axis)
    names = ["sum", "mean", "sum", "mean"]
    if w.is_real and w.size(x.shape[axis]):
        names += ["max", "min", "var", "std"] if w.size(x.shape[axis]) > 1 else ["max", "min"]
    name = w.choose(names)
    text = f"np.{name}({w.use(x)}, axis={axis if w.chance(0.5) else axis - x.ndim})"
    if name in ("var", "std") and w.chance(0.5):
        text = f"np.sqrt({text[:-1]}) + 1e-3)" if name == "var" else text
    w.emit(text, kept)


def normalise(w: Writer) -> None:
    """Subtract the mean, divide by the deviation: along one axis, the others as they are."""
    x = w.value(accepts=lambda v: v.ndim > 0)
    axis = int(w.rng.integers(-x.ndim, 0))
    form = w.choose(
        [
            "({x} - np.mean({x}, axis={a}, keepdims=True))"
            " / np.sqrt(np.mean(np.abs({x}) ** 2, axis={a}, keepdims=True) + 0.1)",
            "{x} / (np.sum(np.abs({x}), axis={a}, keepdims=True) + 0.5)",
            "{x} - np.mean({x}, axis={a}, keepdims=True)",
            "{x} / np.sqrt(np.sum(np.abs({x}) ** 2, axis={a}, keepdims=True) + 1e-3)",
        ]
    )
    w.emit(form.format(x=x, a=axis), x.shape)


def reshape(w: Writer) -> None:
    x = w.value(accepts=lambda v: v.ndim > 0)
    i = int(w.rng.integers(x.ndim))
    shape = list(x.shape)
    kind = w.choose(["unit", "merge", "flat", "transpose", "squeeze", "expand", "broadcast"])
    if kind in ("unit", "expand"):
        shape.insert(i, "1")
        text = f"np.expand_dims({w.use(x)}, {i})"
        text = text if kind == "expand" else f"{x}.reshape({', '.join(shape)})"
        w.emit(text, tuple(shape))
    elif kind == "merge" and x.ndim > 1 and i + 1 < x.ndim:
        shape[i : i + 2] = [f"({shape[i]}) * ({shape[i + 1]})"]
        w.emit(f"np.reshape({w.use(x)}, ({', '.join(shape)},))", tuple(shape))
    elif kind == "flat":
        total = " * ".join(f"({s})" for s in shape)
        w.emit(f"{w.use(x)}.ravel()", (total,))
    elif kind == "transpose":
        order = [int(k) for k in w.rng.permutation(x.ndim)]
        w.emit(f"np.transpose({w.use(x)}, {tuple(order)})", tuple(shape[k] for k in order))
    elif kind == "squeeze" and "1" in shape:
        i = shape.index("1")
        del shape[i]
        w.emit(f"np.squeeze({w.use(x)}, {i})", tuple(shape))
    else:
        w.fits("2", *shape)
        w.emit(f"np.broadcast_to({w.use(x)}, (2, {', '.join(shape)}))", ("2", *shape))


def squeeze_all(w: Writer) -> None:
    """Bring a value with unit axes back to few axes."""
    x = w.value(accepts=lambda v: v.ndim > 2)
    w.emit(f"np.sum({w.use(x)}, axis=0)", x.shape[1:])


def join(w: Writer) -> None:
    x = w.value(accepts=lambda v: v.ndim > 0)
    y = w.alike(x.shape)
    kind = w.choose(["stack", "concatenate", "pad", "tile"])
    axis = int(w.rng.integers(x.ndim))
    shape = list(x.shape)
    if kind == "stack":
        w.emit(f"np.stack([{w.use(x)}, {w.use(y)}])", ("2", *shape))
    elif kind == "concatenate":
        w.fits("2", *shape)
        shape[axis] = f"2 * ({shape[axis]})"
        w.emit(f"np.concatenate([{w.use(x)}, {w.use(y)}], axis={axis})", tuple(shape))
    elif kind == "pad":
        pads = ", ".join("(1, 2)" if i == axis else "(0, 0)" for i in range(x.ndim))
        shape[axis] = f"{shape[axis]} + 3"
        w.emit(f"np.pad({w.use(x)}, ({pads},))", tuple(shape))
    else:
        w.fits("3", *shape)
        w.emit(f"np.tile({w.use(x)}[None], (3{', 1' * x.ndim}))", ("3", *shape))


def whole(w: Writer) -> None:
    """One number of a whole array, used again."""
    x = w.value(accepts=lambda v: v.ndim > 0)
    s: Var = w.emit(f"np.mean(np.abs({w.use(x)}) ** 2)", ())
    w.emit(f"{x} / (1 + {s})", x.shape)


BLOCKS = (
    (unary, 5),
    (binary, 5),
    (broadcast, 3),
    (outer, 2),
    (reduce, 3),
    (normalise, 2),
    (reshape, 3),
    (squeeze_all, 1),
    (join, 2),
    (whole, 1),
)
