"""A right call of every public function, from which `test_wrong_arguments.py` makes wrong ones."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import tracer
import tracer.numpy as tnp
from tests.arguments.alike_calls import ALIKE
from tests.arguments.lax_calls import LAX
from tests.arguments.returned_calls import RETURNED
from tests.arguments.values import (
    FILTERS,
    IMAGES,
    KERNEL,
    KEY,
    PIXELS,
    A,
    B,
    Call,
    I,
    V,
    W,
    X,
    call,
    first,
    summed,
)

MODULES = (
    """
tracer tracer.numpy tracer.numpy.linalg tracer.numpy.fft tracer.random tracer.nn
tracer.nn.initializers tracer.scipy.linalg tracer.scipy.ndimage tracer.scipy.optimize
tracer.scipy.signal tracer.scipy.sparse.linalg tracer.scipy.special tracer.scipy.stats tracer.lax
tracer.lax.linalg tracer.image tracer.optimizers tracer.debug tracer.tree tracer.sharding
""".split()
    + [
        f"tracer.scipy.stats.{name}"
        for name in tracer.scipy.stats.__all__
        if inspect.ismodule(getattr(tracer.scipy.stats, name))
    ]
)
LEFT_OUT = frozenset(
    """
    memory_budget config numpy.load numpy.save numpy.savez numpy.set_printoptions
    numpy.printoptions open set_cache_dir set_default_device tune_host_allocator from_stablehlo
    register_pytree_node tree.register_dataclass tree.register_pytree_node
    numpy.get_printoptions sharding.resolve_spread
    lax.all_gather lax.all_to_all lax.axis_index lax.axis_size lax.pbroadcast lax.pmax lax.pmean
    lax.pmin lax.ppermute lax.pshuffle lax.psum lax.psum_scatter lax.pswapaxes
    """.split()
)
"""They change what all programs share, are about files, or have a meaning in `vmap` only."""

CALLS: dict[str, Call] = {
    "numpy.nanpercentile": call(V, 30),
    "numpy.nanquantile": call(V, 0.3),
    "numpy.flatnonzero": call(V),
    "numpy.intersect1d": call(V, W),
    "numpy.roots": call(V),
    "numpy.setdiff1d": call(V, W),
    "numpy.setxor1d": call(V, W),
    "numpy.union1d": call(V, W),
    "nn.initializers.variance_scaling": call(1.0, "fan_in", "normal"),
    "lax.broadcast_shapes": call((2, 1), (3,)),
    "lax.conj": call(1j * V),
    "random.beta": call(KEY, W, W),
    "tree.unflatten": call(tracer.tree.structure([V, W]), [V, W]),
    "tree.transpose": call(
        tracer.tree.structure([V, W]), tracer.tree.structure({"a": V}), [{"a": V}, {"a": W}]
    ),
    "tree.is_leaf": call(tracer.tree.structure(V)),
    "associative_scan": call(tnp.add, V),
    "cond": call(True, first, first, V),
    "switch": call(1, [first, first], V),
    "while_loop": call(lambda c: c.sum() < 3, lambda c: c + 1, V),
    "fori_loop": call(0, 3, lambda i, c: c + 1, V),
    "scan": call(lambda c, x: (c + x, c), 0.0, V),
    "map": call(first, V),
    "jvp": call(summed, (V,), (W,)),
    "vjp": call(summed, V),
    "linearize": call(summed, V),
    "linear_transpose": call(lambda x: 2 * x, V),
    "check_grads": call(summed, (V,)),
    "eval_shape": call(summed, V),
    "make_graph": call(summed),
    "pure_callback": call(np.sin, tracer.ShapeDtype((4,), "float64"), V),
    "segment_sum": call(V, I, 4),
    "segment_max": call(V, I, 4),
    "segment_min": call(V, I, 4),
    "segment_prod": call(V, I, 4),
    "checkpoint_name": call(V, "a"),
    "compile": call(summed),
    "bucket": call(summed),
    "grad": call(summed),
    "vmap": call(first),
    "device_put": call(V),
    "device_get": call(V),
    "stop_gradient": call(V),
    "value_and_grad": call(summed),
    "hessian": call(summed),
    "jacfwd": call(summed),
    "jacrev": call(summed),
    "jacobian": call(summed),
    "checkpoint": call(summed),
    "remat": call(summed),
    "numpy.apply_along_axis": call(lambda r: r * 2, 0, X),
    "numpy.apply_over_axes": call(tnp.sum, X, [0]),
    "numpy.fromfunction": call(lambda i, j: i + j, (2, 3)),
    "numpy.piecewise": call(V, [V < 0, V > 1], [1.0, 2.0, 3.0]),
    "numpy.einsum": call("ij,j->i", X, V),
    "numpy.vectorize": call(lambda s: s * 2),
    "numpy.concatenate": call([V, V]),
    "numpy.concat": call([V, V]),
    "numpy.stack": call([V, V]),
    "numpy.hstack": call([V, V]),
    "numpy.vstack": call([V, V]),
    "numpy.dstack": call([V, V]),
    "numpy.column_stack": call([V, V]),
    "numpy.block": call([[X, X]]),
    "numpy.select": call([B, V > 0], [V, W], 7.0),
    "numpy.choose": call(I, [V, W, V, W]),
    "numpy.split": call(V, [1, 3]),
    "numpy.array_split": call(V, 3),
    "numpy.pad": call(V, 2),
    "numpy.moveaxis": call(X, 0, 1),
    "numpy.swapaxes": call(X, 0, 1),
    "numpy.take": call(V, [0, 2]),
    "numpy.take_along_axis": call(X, I[None], 0),
    "numpy.put_along_axis": call(tnp.asarray(X), I[None], 9.0, 0),
    "numpy.histogramdd": call(X[:, :2], (2, 3)),
    "numpy.lexsort": call((V, I)),
    "numpy.ravel_multi_index": call((I, I), (4, 4)),
    "numpy.unravel_index": call(I, (4, 4)),
    "numpy.average": call(X, 0, V),
    "numpy.interp": call(V, [0.0, 1.0, 2.0], [1.0, 2.0, 5.0]),
    "numpy.quantile": call(V, 0.3),
    "numpy.percentile": call(V, 30),
    "numpy.repeat": call(V, 2),
    "numpy.roll": call(X, 1, 0),
    "numpy.broadcast_to": call(V, (3, 4)),
    "numpy.reshape": call(X, (2, 8)),
    "numpy.tile": call(V, (2, 2)),
    "numpy.mask_indices": call(3, tnp.triu),
    "numpy.insert": call(V, 1, 5.0),
    "numpy.delete": call(V, 1),
    "numpy.searchsorted": call(W, V),
    "numpy.digitize": call(V, W),
    "numpy.bincount": call(I, W, 6),
    "numpy.where": call(B, V, W),
    "numpy.clip": call(V, 0, 1),
    "numpy.tensordot": call(X, X, 1),
    "numpy.linalg.tensordot": call(X, X),
    "numpy.full": call((2, 4), 1.5),
    "numpy.full_like": call(V, 3),
    "numpy.linspace": call(0.0, 3.0, 5),
    "numpy.logspace": call(0.0, 3.0, 5),
    "numpy.geomspace": call(1.0, 3.0, 5),
    "numpy.arange": call(0, 5, 1),
    "numpy.eye": call(3),
    "numpy.kaiser": call(4, 2.0),
    "numpy.put": call(tnp.asarray(V), [0, 2], [9.0]),
    "numpy.place": call(tnp.asarray(V), B, [1.0]),
    "numpy.copyto": call(tnp.asarray(V), W),
    "numpy.putmask": call(tnp.asarray(V), B, [1.0]),
    "numpy.fill_diagonal": call(tnp.asarray(X), 1.0),
    "numpy.compress": call(B, V),
    "numpy.extract": call(B, V),
    "numpy.partition": call(V, 2),
    "numpy.argpartition": call(V, 2),
    "numpy.matvec": call(X, V),
    "numpy.vecmat": call(V, X),
    "numpy.polyfit": call(W, V, 2),
    "numpy.ldexp": call(V, I),
    "numpy.packbits": call(B),
    "numpy.unpackbits": call(np.array([7, 1], np.uint8)),
    "numpy.dsplit": call(X.reshape(2, 2, 4), 2),
    "numpy.hsplit": call(X, 2),
    "numpy.vsplit": call(X, 2),
    "numpy.broadcast_shapes": call((2, 1), (3,)),
    "numpy.indices": call((2, 3)),
    "numpy.diag_indices": call(3),
    "numpy.fromiter": call([1, 2], int),
    "numpy.frombuffer": call(b"12345678"),
    "numpy.top_k": call(V, 2),
    "numpy.vander": call(V, 3),
    "numpy.cross": call(V[:3], W[:3]),
    "numpy.linalg.cross": call(V[:3], W[:3]),
    "numpy.can_cast": call("int32", "float64"),
    "numpy.promote_types": call("int32", "float64"),
    "numpy.issubdtype": call("int32", "float64"),
    "numpy.isdtype": call(np.dtype("int32"), "integral"),
    "numpy.finfo": call("float32"),
    "numpy.iinfo": call("int32"),
    "numpy.astype": call(V, "float32"),
    "numpy.gradient": call(X, 0.5),
    "numpy.unwrap": call(V),
    "numpy.trapezoid": call(V, W),
    "numpy.convolve": call(V, W),
    "numpy.correlate": call(V, W),
    "numpy.linalg.matrix_power": call(X, 3),
    "numpy.linalg.multi_dot": call([X, X, V]),
    "numpy.linalg.solve": call(X, V),
    "numpy.linalg.tensorinv": call(X, 1),
    "numpy.linalg.tensorsolve": call(X, V),
    "numpy.linalg.lstsq": call(X, V),
    "numpy.histogram": call(V, 3),
    "numpy.histogram2d": call(V, W, 2),
    "numpy.histogram_bin_edges": call(V, 3),
    "numpy.resize": call(V, (3, 3)),
    "numpy.expand_dims": call(V, 0),
    "numpy.rollaxis": call(X, 1),
    "numpy.flip": call(X, 0),
    "numpy.rot90": call(X),
    "numpy.diff": call(V),
    "numpy.permute_dims": call(X, (1, 0)),
    "numpy.transpose": call(X, (1, 0)),
    "numpy.meshgrid": call(V, W),
    "numpy.ix_": call(I, I),
    "numpy.unstack": call(X),
    "numpy.trim_zeros": call(V),
    "numpy.squeeze": call(X[None]),
    "nn.avg_pool": call(IMAGES, (2, 2)),
    "nn.max_pool": call(IMAGES, (2, 2)),
    "nn.batch_norm": call(X, np.ones(4), np.zeros(4)),
    "nn.conv": call(PIXELS, KERNEL),
    "nn.conv_general_dilated": call(IMAGES, FILTERS, (1, 1), "SAME"),
    "nn.dot_product_attention": call(IMAGES, IMAGES, IMAGES),
    "nn.dropout": call(KEY, V),
    "nn.layer_norm": call(X, np.ones(4), np.zeros(4)),
    "nn.one_hot": call(I, 4),
    "scipy.optimize.minimize": call(lambda x: ((x - 1) ** 2).sum(), V, method="BFGS"),
    "scipy.ndimage.map_coordinates": call(X, [W, V], 1),
    "image.resize": call(X, (6, 3), "linear"),
    "image.scale_and_translate": call(X, (4, 4), (0,), W[:1], V[:1], "linear"),
    "scipy.linalg.cho_solve": call((X, True), V),
    "scipy.linalg.lu_solve": call((X, I.astype(np.int32)), V),
    "scipy.linalg.block_diag": call(X, [[1.0]]),
    "scipy.linalg.funm": call(X, tnp.exp),
    "scipy.linalg.leslie": call(V, W[:3]),
    "scipy.linalg.eigh_tridiagonal": call(V, W[:3], eigvals_only=True),
    "scipy.linalg.convolution_matrix": call(V, 3),
    "scipy.linalg.solve_sylvester": call(X, X, X),
    "scipy.linalg.solve_banded": call((1, 1), X[:3], V),
    "scipy.special.bessel_jn": call(V, v=2),
    "scipy.special.sph_harm_y": call(2, 1, V, W),
    "scipy.special.multigammaln": call(W + 2, 3),
    "random.choice": call(KEY, V, (2,)),
    "random.permutation": call(KEY, V),
    "random.randint": call(KEY, (4,), 0, 5),
    "random.multinomial": call(KEY, 9, W),
    "random.multivariate_normal": call(KEY, V, X),
    "random.ball": call(KEY, 3, 2, (2,)),
    "random.dirichlet": call(KEY, W),
    "random.orthogonal": call(KEY, 3),
    "random.fold_in": call(KEY, 3),
    "random.uniform": call(KEY, (4,)),
    "random.normal": call(KEY, (4,)),
    "random.key": call(3),
    "random.PRNGKey": call(3),
    "random.wrap_key_data": call(KEY),
    "random.binomial": call(KEY, 20, 0.5),
    "random.categorical": call(KEY, X),
    "random.bernoulli": call(KEY, 0.5),
    "random.truncated_normal": call(KEY, -1.0, 1.0),
    "tree.map": call(first, [V]),
    "tree.reduce": call(lambda a, b: a, [V, V]),
    "scipy.sparse.linalg.cg": call(X, V),
    "scipy.sparse.linalg.gmres": call(X, V),
    "scipy.sparse.linalg.bicgstab": call(X, V),
    "scipy.signal.convolve": call(V, W),
    "scipy.signal.convolve2d": call(X, X),
    "scipy.signal.istft": call(np.random.default_rng(9).normal(size=(5, 6)) + 0j),
    "scipy.signal.csd": call(V, V),
    "scipy.stats.gaussian_kde": call(X),
    "scipy.stats.multivariate_normal.pdf": call(V, V, X),
    "scipy.stats.multivariate_normal.logpdf": call(V, V, X),
    "scipy.stats.dirichlet.pdf": call(W, V * V + 1),
    "scipy.stats.dirichlet.logpdf": call(W, V * V + 1),
    "scipy.stats.multinomial.pmf": call(I, 7, W),
    "scipy.stats.multinomial.logpmf": call(I, 7, W),
    "random.key_data": call(tracer.random.key(3)),
    "optimizers.lbfgs": call(),
    "sharding.make_mesh": call((1,), ("a",)),
}
"""Functions for which the arguments of `ALIKE` make no sense."""


class Right(NamedTuple):
    """A function and a right call of it."""

    name: str
    function: Callable[..., Any]
    call: Call


def right_calls(module: str) -> Iterator[Right]:
    """Yield a right call of each public function of a module, or of METHODS, or of RESULTS."""
    if module == RESULTS:
        for name, (make, right) in RETURNED.items():
            yield Right(name, make(), right)
        return
    if module == METHODS:
        for name, args in OF_METHODS.items():
            yield Right(f"Array.{name}", getattr(tnp.ndarray, name), call(A, *args))
        return
    known = {name: made for made, names in ALIKE.values() for name in names.split()}
    known |= CALLS | LAX
    namespace = importlib.import_module(module)
    for name in namespace.__all__:
        full = f"{module}.{name}".removeprefix("tracer.")
        function = getattr(namespace, name)
        if full in known and full not in LEFT_OUT:
            yield Right(full, function, known[full])


def unknown() -> list[str]:
    """Return the public functions that have no right call here."""
    known = {name for _, names in ALIKE.values() for name in names.split()}
    known |= set(CALLS) | set(LAX) | LEFT_OUT
    found = []
    for module in MODULES:
        namespace = importlib.import_module(module)
        for name in namespace.__all__:
            full = f"{module}.{name}".removeprefix("tracer.")
            if inspect.isfunction(getattr(namespace, name)) and full not in known:
                found.append(full)
    return found


METHODS = "methods of arrays"
RESULTS = "functions that functions return"
OF_METHODS: dict[str, tuple[Any, ...]] = {
    "__getitem__": (0,),
    "__setitem__": (0, 1.0),
    "astype": ("float32",),
    "clip": (0, 1),
    "dot": (X,),
    "item": (0,),
    "repeat": (2,),
    "reshape": (2, 8),
    "swapaxes": (0, 1),
    "take": ([0, 1],),
    "transpose": (1, 0),
} | dict.fromkeys(
    "all any argmax argmin argsort conj copy cumprod cumsum diagonal flatten max mean min nonzero "
    "prod ravel round sort squeeze std sum tolist trace var".split(),
    (),
)
