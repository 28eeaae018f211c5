"""lax_numpy: functions of `jax.numpy` on arrays; lax_numpy_einsum."""

from __future__ import annotations

import itertools

import numpy as np

from tests.jax_behaviours.comparing import Behaviour
from tests.jax_behaviours.reducers import Programs, array, labelled

INTS = np.arange(12).reshape(3, 4)
CUBE = array("float32")
ROW = array("float64", (5,))
DTYPES = ("bool", "int32", "float32", "complex64")
NAN = float("nan")


def products() -> Programs:
    shapes = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((4, 2, 3), (3, 2)),
        ((4, 2, 3), (1, 3, 2)),
    ]
    for name in ("dot", "matmul", "inner", "vecdot", "outer", "kron"):
        for (left, right), dtype in itertools.product(shapes, DTYPES):
            yield labelled(f"np.{name}", array(dtype, left), array(dtype, right))
    for axes in (0, 1, 2, ((0,), (1,)), ([0, 1], [1, 0]), 4, ((0, 1), (0,))):
        yield labelled("np.tensordot", array("float32", (3, 3)), array("float32", (3, 3)), axes)
    for left, right in (("int32", "float32"), ("float16", "float32"), ("bool", "int8")):
        yield labelled("np.matmul", array(left, (2, 3)), array(right, (3, 2)))
    yield labelled("np.matvec", array("complex64", (2, 3)), array("complex64", (3,)))
    yield labelled("np.vecmat", array("complex64", (2,)), array("complex64", (2, 3)))
    for a, b in (((3,), (3,)), ((4, 3), (4, 3)), ((2,), (3,)), ((2,), (2,)), ((4, 2), (3,))):
        yield labelled("np.cross", array("float32", a), array("float32", b))
    yield labelled("np.cross", array("float32", (3, 4)), array("float32", (3, 4)), axis=0)


def places() -> Programs:
    for name in ("argmax", "argmin"):
        for dtype, axis in itertools.product(("bool", "int8", "float32"), (None, 0, -1)):
            yield labelled(f"np.{name}", array(dtype), axis=axis, keepdims=True)
        yield labelled(f"np.{name}", np.zeros((0, 2)), axis=0)
        yield labelled(f"np.{name}", np.array([1.0, NAN, 3.0]))
    for name in ("nonzero", "flatnonzero", "argwhere"):
        for x in (CUBE > 1, np.zeros(0), np.array([0, 3, 0, 1])):
            yield labelled(f"np.{name}", x)
            yield labelled(f"np.{name}", x, size=3)
            yield labelled(f"np.{name}", x, size=0)
            yield labelled(f"np.{name}", x, size=5, fill_value=-1)
    yield labelled("np.count_nonzero", CUBE > 0, axis=(0, 2), keepdims=True)
    for side in ("left", "right"):
        for values in (ROW, 0.5, np.array([[1.0, NAN], [-5.0, 9.0]])):
            yield labelled("np.searchsorted", np.sort(ROW), values, side=side)
        yield labelled(
            "np.searchsorted", np.array([0.0, 1.0, NAN]), np.array([NAN, 2.0]), side=side
        )
        yield labelled("np.digitize", ROW, np.sort(ROW), right=side == "left")
        yield labelled("np.digitize", ROW, -np.sort(-ROW), right=side == "left")


def sorting() -> Programs:
    x = np.array([[3.0, NAN, -0.0, 0.0], [1.0, -np.inf, NAN, np.inf]])
    z = array("complex64", (3, 4)) * np.array([1, 1j, -1, 1])
    for name in ("sort", "argsort"):
        for dtype, axis in itertools.product((*DTYPES, "float16", "uint8"), (None, 0, -1)):
            yield labelled(f"np.{name}", array(dtype), axis=axis)
        for descending in (False, True):
            for values in (x, z, INTS % 5, np.zeros((3, 0)), np.zeros((3, 0), complex)):
                yield labelled(f"np.{name}", values, axis=1, descending=descending, stable=True)
    yield labelled("np.lexsort", (INTS[0] % 2, INTS[1] % 3))
    yield labelled("np.sort_complex", z)
    for kth in (0, 2, -1):
        for name in ("partition", "argpartition"):
            yield (
                f"np.{name} around {kth}",
                lambda m, n=name, k=kth: m.np.sort(
                    m.np.take_along_axis(x, getattr(m.np, n)(x, k), 1)
                    if n[0] == "a"
                    else getattr(m.np, n)(x, k),
                    axis=1,
                ),
            )
    for name in ("unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "isin"):
        args = (INTS % 5,) if name == "unique" else (INTS % 5, np.array([1, 3, 7]))
        yield labelled(f"np.{name}", *args)
    yield labelled(
        "np.unique", INTS % 5, return_index=True, return_inverse=True, return_counts=True
    )
    yield labelled("np.unique", INTS % 2, axis=0)
    yield labelled("np.unique", np.array([1, NAN, NAN]), equal_nan=False)


def shapes() -> Programs:
    for shape in ((4, 6), (-1,), (2, -1, 2), (24, 1), (5, 5), (-1, -1)):
        for order in ("C", "F"):
            yield labelled("np.reshape", CUBE, shape, order=order)
    for axes in (None, (2, 0, 1), (0, 0, 1), (-1, 0, 1)):
        yield labelled("np.transpose", CUBE, axes)
    for source, target in ((0, -1), ((0, 1), (-1, 0)), (0, 5)):
        yield labelled("np.moveaxis", CUBE, source, target)
    for axis in (0, (0, -1), 7, (0, 0)):
        yield labelled("np.expand_dims", CUBE, axis)
    for axis in (None, 1, (1, 3), 0):
        yield labelled("np.squeeze", CUBE.reshape(2, 1, 12, 1), axis)
    for axis in (None, 0, (0, 2), 5):
        yield labelled("np.flip", CUBE, axis)
    for k, axes in itertools.product((-1, 1, 2, 7), ((0, 1), (2, 0), (0, 0))):
        yield labelled("np.rot90", CUBE, k, axes)


def more_shapes() -> Programs:
    for shape in ((5, 2, 3, 4), (2, 3), (2, 3, 4), ()):
        yield labelled("np.broadcast_to", CUBE, shape)
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for x in (2.0, ROW, INTS, CUBE):
            yield labelled(f"np.{name}", x)
    yield labelled("np.ravel", INTS, order="F")
    yield labelled("np.resize", INTS, (2, 9))
    for start in range(-1, 4):
        yield labelled("np.rollaxis", CUBE, 2, start)


def joining() -> Programs:
    for name in ("concatenate", "stack"):
        for axis in (0, -1, None, 9):
            yield labelled(f"np.{name}", [CUBE, CUBE * 2], axis=axis)
        yield labelled(f"np.{name}", [INTS, INTS.astype("float32")], axis=0)
        yield labelled(f"np.{name}", [INTS, INTS], dtype="float32")
        yield labelled(f"np.{name}", [])
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        for parts in ([ROW, ROW], [INTS, INTS], [CUBE, CUBE], [np.ones(4), INTS]):
            yield labelled(f"np.{name}", parts)
    for name, cuts in itertools.product(
        ("split", "array_split"), (2, 3, [1], [1, 3], np.array([2]), [3, 1])
    ):
        yield labelled(f"np.{name}", INTS, cuts, axis=1)
    yield labelled("np.append", INTS, [[1, 2, 3, 4]], axis=0)
    yield labelled("np.append", INTS, 3.5)
    yield labelled("np.unstack", CUBE, axis=1)
    yield "np.block", lambda m: m.np.block([[INTS, np.ones((3, 1))], [np.zeros((1, 5))]])


def padding() -> Programs:
    modes = (
        "constant edge linear_ramp maximum mean median minimum reflect symmetric wrap empty".split()
    )
    for mode in modes:
        for width in (1, (2, 3), ((1, 0), (2, 5)), ((0, 0), (7, 1))):
            if mode != "empty":
                yield labelled("np.pad", INTS.astype("float32"), width, mode)
    for mode in ("maximum", "mean", "minimum", "median"):
        yield labelled("np.pad", INTS, 2, mode, stat_length=2)
    for kind in ("even", "odd"):
        yield labelled("np.pad", INTS, (3, 5), "reflect", reflect_type=kind)
        yield labelled("np.pad", INTS, (3, 5), "symmetric", reflect_type=kind)
    yield labelled("np.pad", INTS, 1, "constant", constant_values=((1, 2), (3, 4)))
    yield labelled("np.pad", INTS, 2, "linear_ramp", end_values=7)
    yield labelled("np.pad", INTS, {0: (1, 2), -1: 1})
    yield labelled("np.pad", np.zeros((0, 2)), ((1, 1), (0, 0)))
    yield labelled("np.pad", INTS, -1)


def repeating() -> Programs:
    for reps in (2, (2, 1), (1, 2, 3), (0, 1)):
        yield labelled("np.tile", INTS, reps)
    for repeats, axis in (
        (2, None),
        (2, 0),
        ([1, 0, 2], 0),
        (np.array([2]), 1),
        (0, 1),
        ([1, 2], 0),
    ):
        yield labelled("np.repeat", INTS, repeats, axis)
    yield labelled("np.repeat", INTS, np.array([1, 0, 2]), 0, total_repeat_length=5)
    for shift, axis in ((2, None), (-3, 0), ((1, 2), (0, 1)), (1, (0, 1)), (np.array([1, 2]), 0)):
        yield labelled("np.roll", INTS, shift, axis)
    for n, axis in ((1, -1), (2, 0), (0, 1), (5, 1)):
        yield labelled("np.diff", INTS.astype("float32"), n, axis)
    yield labelled("np.diff", CUBE > 0, axis=1)
    yield labelled("np.diff", INTS, prepend=0, append=np.ones((3, 2), int))
    yield labelled("np.ediff1d", INTS, to_begin=[-1, 2], to_end=9)
    for keywords in ({}, {"axis": 0}, {"axis": (0, 1), "edge_order": 1}):
        yield labelled("np.gradient", INTS.astype("float64") ** 2, **keywords)
    yield labelled("np.gradient", INTS.astype("float64"), np.array([0.0, 1, 3]), axis=0)
    yield labelled("np.trapezoid", ROW, dx=0.5)
    yield labelled("np.trapezoid", INTS, np.array([0.0, 1, 3, 4]), axis=1)


def editing() -> Programs:
    for where in (1, -1, slice(0, 3, 2), [0, 2], np.array([True, False, True]), 3, [0, 0]):
        yield labelled("np.delete", INTS, where, axis=0)
        yield labelled("np.insert", INTS, where, 9, axis=0)
        yield labelled("np.insert", INTS, where, 9.7)
    for values in (np.arange(3), np.arange(6).reshape(2, 3), np.arange(3)[:, None], 5):
        yield labelled("np.insert", INTS, 1, values, axis=1)
    for name in ("tril", "triu"):
        for k in (-1, 0, 2):
            yield labelled(f"np.{name}", CUBE, k)
    for name, args in (
        ("eye", (3, 4, 1)),
        ("tri", (3, 4, -1)),
        ("identity", (3,)),
        ("vander", (ROW, 3)),
    ):
        yield labelled(f"np.{name}", *args)
    for k in (-1, 0, 1):
        yield labelled("np.diag", INTS, k)
        yield labelled("np.diag", ROW, k)
        yield labelled("np.diagflat", INTS, k)
        yield labelled("np.diagonal", CUBE, k, 0, 2)
        yield labelled("np.trace", CUBE, k, 2, 0)
        yield labelled("np.tril_indices", 3, k, 4)
        yield labelled("np.triu_indices", 3, k, 4)
    yield labelled("np.trace", CUBE, 0, 1, 1)
    yield labelled("np.fill_diagonal", np.zeros((3, 3)), np.arange(2.0), inplace=False)
    yield labelled("np.diag_indices", 3, 2)
    yield labelled("np.trim_zeros", np.array([0, 0, 1, 0, 2, 0]), "b")
    yield labelled("np.compress", [True, False, True], INTS, axis=0)
    yield labelled("np.compress", [True, False, True], INTS, axis=0, size=1)
    yield labelled("np.extract", INTS > 4, INTS)
    yield labelled("np.extract", INTS > 4, INTS, size=3)
    yield labelled("np.piecewise", ROW, [ROW < 0, ROW > 1], [-1.0, 1.0, 0.5])
    yield labelled("np.select", [INTS > 7, INTS > 2], [INTS, -INTS], 100)
    yield labelled("np.choose", INTS % 3, [INTS, -INTS, 7 * INTS])
    for mode in ("wrap", "clip"):
        yield labelled("np.choose", INTS, [INTS, -INTS], mode=mode)
        yield labelled("np.take", INTS, np.array([[-1, 9], [2, 3]]), axis=1, mode=mode)
    yield labelled("np.take", INTS, np.array([0, 2]), axis=1)
    yield labelled("np.take", INTS.astype(float), np.array([0, 9]), axis=1, mode="fill")
    yield labelled("np.take_along_axis", INTS, INTS[:, :2] % 4, axis=1)
    yield labelled("np.take_along_axis", INTS, np.array([[-1], [0], [1]]), axis=1)
    yield labelled("np.take_along_axis", INTS, INTS.astype("float32"), axis=1)
    yield labelled("np.take_along_axis", INTS, np.arange(3), axis=None)
    yield labelled("np.put_along_axis", INTS, INTS[:, :1] % 4, 9, axis=1, inplace=False)
    yield labelled("np.place", INTS, INTS > 4, [7, 8], inplace=False)
    yield labelled("np.put", INTS, [0, -1], [5, 6], inplace=False)


def ranges() -> Programs:
    for args in ((5,), (2, 9, 3), (0.0, 1.0, 0.3), (5, 1), (5, 1, -2), (3.5,), (0, 5, 0)):
        yield labelled("np.arange", *args)
        yield labelled("np.arange", *args, dtype="float32")
    for args in ((0, 1), (0, 1, 0), (0, 1, 1), (3, -3, 7), (np.arange(3), 5.0, 4), (0, 1j, 3)):
        for keywords in ({}, {"endpoint": False}, {"retstep": True}, {"dtype": "int32"}):
            yield labelled("np.linspace", *args, **keywords)
    yield labelled("np.linspace", np.zeros(2), np.ones(2), 3, axis=1)
    yield labelled("np.logspace", 0, 3, 4, base=2)
    for args in ((1, 1000, 4), (-1, -8, 4), (1, np.array([4.0, 9.0]), 3)):
        yield labelled("np.geomspace", *args)
    yield labelled("np.meshgrid", np.arange(3), ROW, indexing="ij")
    yield labelled("np.meshgrid", np.arange(3), ROW, sparse=True)
    yield labelled("np.indices", (2, 3), sparse=True)
    yield labelled("np.ix_", np.array([0, 2]), np.array([True, False, True]))
    yield "np.mgrid", lambda m: (m.np.mgrid[0:3, 1:2:4j], m.np.ogrid[0:3, 1:2])
    yield "np.r_", lambda m: (m.np.r_[0:3, 5, [1, 2]], m.np.c_[np.arange(2), np.arange(2)])
    yield labelled("np.unravel_index", np.array([3, 11, -1]), (3, 4))
    for mode in ("wrap", "clip"):
        yield labelled(
            "np.ravel_multi_index", (np.array([1, 5]), np.array([2, -1])), (3, 4), mode=mode
        )
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        yield labelled(f"np.{name}", 5)
    yield labelled("np.kaiser", 5, 8.0)


def polynomials() -> Programs:
    p, q = np.array([1.0, -2, 3]), np.array([2.0, 1])
    for name in ("polyadd", "polysub", "polymul", "polydiv"):
        yield labelled(f"np.{name}", p, q)
        yield labelled(f"np.{name}", q.astype("int32"), p.astype("int32"))
    for n in (0, 1, 2):
        yield labelled("np.polyder", p, n)
        yield labelled("np.polyint", p, n)
    yield labelled("np.polyint", p, 2, k=[1.0, 2.0])
    yield labelled("np.polyval", p, INTS)
    yield labelled("np.poly", p)
    yield "np.roots", lambda m: m.np.sort_complex(m.np.roots(np.array([1.0, -6, 11, -6])))
    yield labelled("np.polyfit", np.arange(5.0), ROW, 2)
    yield labelled("np.polyfit", np.arange(5.0), ROW, 1, w=np.arange(1.0, 6.0))
    for mode in ("full", "same", "valid"):
        for name in ("convolve", "correlate"):
            yield labelled(f"np.{name}", ROW, p, mode)
            yield labelled(f"np.{name}", p, ROW, mode)
            yield labelled(f"np.{name}", array("complex64", (5,)), array("complex64", (3,)), mode)
            yield labelled(f"np.{name}", array("int32", (5,)), array("int32", (3,)), mode)
    xp = np.array([0.0, 1, 2.5])
    for keywords in (
        {},
        {"left": -1.0, "right": 9.0},
        {"period": 2.0},
        {"left": "extrapolate", "right": "extrapolate"},
    ):
        yield labelled("np.interp", np.array([-1.0, 0, 0.3, 2.5, 7, NAN]), xp, ROW[:3], **keywords)


def counting() -> Programs:
    x = np.array([0, 3, 3, 1])
    for keywords in ({}, {"minlength": 6}, {"length": 3}, {"weights": np.arange(4.0)}):
        yield labelled("np.bincount", x, **keywords)
    yield labelled("np.bincount", np.zeros(0, int))
    for bins in (4, np.array([-3.0, 0.0, 1.0, 5.0])):
        for keywords in (
            {},
            {"density": True},
            {"weights": np.arange(5.0)},
            {"range": (-2.0, 2.0)},
        ):
            yield labelled("np.histogram", ROW, bins, **keywords)
    yield labelled("np.histogram_bin_edges", ROW, 5)
    yield labelled("np.histogram2d", ROW, ROW**2, 3)
    yield labelled("np.histogramdd", INTS.T.astype(float), 2)


def elements() -> Programs:
    big = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, NAN])
    unary = (
        "abs ceil floor round rint trunc sign sqrt square reciprocal exp log expm1 log1p sin "
        "cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt exp2 log2 "
        "log10 deg2rad rad2deg sinc i0 isnan isinf isfinite signbit isposinf isneginf "
        "nan_to_num spacing angle real imag conj frexp modf logical_not negative positive "
        "invert bitwise_count"
    ).split()
    for name in unary:
        for x in (
            big,
            big.astype("float32"),
            array("complex64", (3,)),
            np.array([-3, 0, 2], "int32"),
        ):
            yield labelled(f"np.{name}", x)
    binary = (
        "add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax "
        "fmin arctan2 hypot logaddexp logaddexp2 copysign nextafter heaviside ldexp equal "
        "less greater_equal logical_and logical_xor bitwise_and left_shift right_shift gcd "
        "lcm divmod float_power isclose"
    ).split()
    pairs = [
        (big[:, None], big),
        (big.astype("float32"), np.float32(2)),
        (np.array([-7, 0, 7]), np.array([2, 3, -2])),
        (array("complex64", (3,)), array("complex64", (3,))),
        (np.array([7, 64, 3], "uint8"), np.array([0, 1, 9], "uint8")),
        (np.array([1.5, -2.0]), 3),
        (np.array([True, False]), np.array([True, True])),
    ]
    for name in binary:
        for x, y in pairs:
            yield labelled(f"np.{name}", x, y)
    for decimals in (-1, 0, 2, 400):
        yield labelled("np.round", np.array([1.255, -15.5, 2.5e5]), decimals)
        yield labelled("np.round", INTS * 7, decimals)
    for low, high in ((0, 2), (None, 1), (-1.5, None), (2, 0), (np.arange(7.0), 3)):
        yield labelled("np.clip", big, low, high)
    yield labelled("np.power", INTS, 2)
    yield labelled("np.power", np.array([0, 1, 2, 3]), np.array([64, 200, 63, 41]))
    yield labelled("np.power", INTS, -1)
    yield labelled("np.allclose", big, big, equal_nan=True)
    yield labelled("np.array_equal", big, big, equal_nan=True)
    yield labelled("np.array_equiv", INTS, INTS[:1])
    yield labelled("np.packbits", np.array([[1, 0, 1], [0, 1, 1]]), axis=1, bitorder="little")
    yield labelled("np.unpackbits", np.array([[5], [250]], "uint8"), axis=1, count=6)


def einsums() -> Programs:
    rng = np.random.default_rng(3)
    sizes = dict(zip("abcdefij", (2, 3, 4, 2, 5, 3, 3, 4), strict=True))
    texts = (
        "ab,bc->ac ab,bc ab,ab-> ab->ba ab->a ab-> aa aa->a aab->b abc->cba ab,ab->ab a,b->ab "
        "ab,b->a abc,cd->abd abc,abd->acd ab,bc,cd->ad abc,bcd,cde->ae ...ab,...bc->...ac "
        "...a,...a ...a->a... ab...,b->a... aaab->ab ij,jk ea,fb,abcd,gc,hd->efgh abab "
        "abab->a abab->ab ab,cd->abcd i,i-> a,ab,abc->abc abc,abc,abc->b ,ab->ab"
    ).split()
    extra = dict(zip("kgh", (2, 2, 3), strict=True))
    for text in texts:
        for dtype in ("int32", "float32", "complex64"):
            operands = []
            for labels in text.split("->")[0].split(","):
                shape = [{**sizes, **extra}[c] for c in labels.replace("...", "")]
                if "aa" in labels or labels == "abab":
                    shape = [2 if c == "a" else 3 for c in labels]
                shape = (5, *shape) if "..." in labels else tuple(shape)
                operands.append((rng.normal(size=shape) * 3).astype(dtype))
            yield labelled("np.einsum", text, *operands)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(1, 4))
    for optimize in (True, False, "greedy", "optimal"):
        yield labelled("np.einsum", "ab,cb->ac", x, y, optimize=optimize)
    yield labelled("np.einsum", "ab,ab->a", x, y)
    yield labelled("np.einsum", x, [0, 1], y, [2, 1], [0, 2])
    yield labelled("np.einsum", "ab,ab->a", x, np.float32(y))
    yield labelled("np.einsum", "ab,bc->ac", x, np.array([[np.inf], [0], [0], [NAN]]))
    for wrong in ("ab,bc->ad", "ab->aab", "ab,", "abc,cd->ab"):
        yield labelled("np.einsum", wrong, x, y)
    yield labelled("np.einsum", "ab,cb->ac", x, y, preferred_element_type="float32")
    yield labelled("np.linalg.multi_dot", [x, y.T @ y, x.T])


BEHAVIOURS = [
    Behaviour("lax_numpy", "products of vectors and matrices", products),
    Behaviour(
        "lax_numpy",
        "places: argmax, nonzero with size=, searchsorted, digitize",
        places,
        differs={
            "(float64[], size=5, fill_value=-1)": "places that do not exist hold fill_value; JAX "
            "puts 0 there when the array is empty"
        },
    ),
    Behaviour("lax_numpy", "sorting, partitions, sets", sorting),
    Behaviour("lax_numpy", "shapes and axes", shapes),
    Behaviour("lax_numpy", "broadcasting, axes that are added or rolled", more_shapes),
    Behaviour("lax_numpy", "joining and cutting", joining),
    Behaviour("lax_numpy", "padding in all modes", padding),
    Behaviour("lax_numpy", "repeating, rolling, differences", repeating),
    Behaviour(
        "lax_numpy",
        "deleting, inserting, diagonals, choosing, taking",
        editing,
        missing=("np.fill_diagonal(", "np.put_along_axis("),
    ),
    Behaviour("lax_numpy", "ranges, grids, windows", ranges),
    Behaviour("lax_numpy", "polynomials, convolutions, interpolation", polynomials),
    Behaviour("lax_numpy", "counts and histograms", counting),
    Behaviour(
        "lax_numpy_operators",
        "element-wise functions at special values",
        elements,
        missing=("np.nan_to_num(complex",),
        differs={
            "np.reciprocal(int32": "integers stay integers, and 1 / 0 is 0, which NumPy leaves "
            "undefined",
            "np.power(int64[-7, 0, 7], int64[2, 3, -2])": "a negative exponent in an array gives "
            "the integer part, 0; JAX takes its low six bits, NumPy refuses",
        },
    ),
    Behaviour(
        "lax_numpy_einsum",
        "einsum of one to five operands, ellipsis, repeated labels",
        einsums,
        missing=("float64[3, 4], [0, 1]", "preferred_element_type"),
    ),
]
