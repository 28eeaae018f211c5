"""Functions that public functions return, and methods of what they return, with a right call.

Each is made anew for each call: some know what they were called with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tests.arguments.values import KEY, Call, I, V, W, X, call, first, summed


def _pair(x: Any, y: Any) -> Any:
    return (x * y).sum()


def _vector(x: Any) -> Any:
    return 2 * x


def _tree(x: Any) -> Any:
    return {"a": x["a"] * 2, "b": x["b"].sum()}


@tracer.custom_vjp
def _cube(x: Any) -> Any:
    return x**3


_cube.defvjp(lambda x: (x**3, x), lambda x, cotangent: (3 * x**2 * cotangent,))


@tracer.custom_jvp
def _square(x: Any) -> Any:
    return x * x


_square.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))
_TREE = {"a": V, "b": W}
_DENSITY = tracer.scipy.stats.gaussian_kde(V)

Made = tuple[Callable[[], Callable[..., Any]], Call]
RETURNED: dict[str, Made] = {
    "grad(f)": (lambda: tracer.grad(summed), call(V)),
    "grad(f, (0, 1))": (lambda: tracer.grad(_pair, (0, 1)), call(V, W)),
    "value_and_grad(f)": (lambda: tracer.value_and_grad(_pair), call(V, W)),
    "value_and_grad(f, has_aux)": (
        lambda: tracer.value_and_grad(lambda x: (summed(x), x), has_aux=True),
        call(V),
    ),
    "grad of a tree": (lambda: tracer.grad(lambda x: summed(x["a"])), call(_TREE)),
    "jacobian(f)": (lambda: tracer.jacobian(_vector), call(V)),
    "jacfwd(f)": (lambda: tracer.jacfwd(_vector), call(V)),
    "jacrev(f)": (lambda: tracer.jacrev(_vector), call(V)),
    "hessian(f)": (lambda: tracer.hessian(summed), call(V)),
    "pullback of vjp": (lambda: tracer.vjp(_vector, V)[1], call(W)),
    "pullback of a tree": (
        lambda: tracer.vjp(_tree, _TREE)[1],
        call({"a": W, "b": np.array(1.0)}),
    ),
    "pushforward of linearize": (lambda: tracer.linearize(_vector, V)[1], call(W)),
    "linear_transpose(f)": (lambda: tracer.linear_transpose(_vector, V), call(W)),
    "vmap(f)": (lambda: tracer.vmap(_vector), call(X)),
    "vmap(f, (0, None))": (lambda: tracer.vmap(_pair, (0, None)), call(X, V)),
    "vmap(f, axis 1, out 1)": (lambda: tracer.vmap(_vector, 1, 1), call(X)),
    "vmap(grad(f))": (lambda: tracer.vmap(tracer.grad(summed)), call(X)),
    "checkpoint(f)": (lambda: tracer.checkpoint(_pair), call(V, W)),
    "grad(checkpoint(f))": (lambda: tracer.grad(tracer.checkpoint(_pair)), call(V, W)),
    "custom_vjp(f)": (lambda: _cube, call(V)),
    "grad(custom_vjp(f))": (lambda: tracer.grad(lambda x: _cube(x).sum()), call(V)),
    "custom_vjp(f).defvjp": (lambda: tracer.custom_vjp(_vector).defvjp, call(_vector, first)),
    "custom_jvp(f)": (lambda: _square, call(V)),
    "custom_jvp(f).defjvp": (lambda: tracer.custom_jvp(_vector).defjvp, call(first)),
    "custom_jvp(f).defjvps": (lambda: tracer.custom_jvp(_vector).defjvps, call(first)),
    "make_graph(f)": (lambda: tracer.make_graph(_pair), call(V, W)),
    "compile(f)": (lambda: tracer.compile(_pair), call(V, W)),
    "compile(f, static)": (
        lambda: tracer.compile(lambda x, n: x * n, static_argnums=1),
        call(V, 2),
    ),
    "compile(f).graph": (lambda: tracer.compile(_pair).graph, call(V, W)),
    "compile(f).stablehlo": (lambda: tracer.compile(_pair).stablehlo, call(V, W)),
    "compile(f).into": (lambda: tracer.compile(_vector).into, call("out.npy")),
    "bucket(f)": (lambda: tracer.bucket(tracer.compile(_vector)), call(V)),
    "vectorize(f)": (lambda: tnp.vectorize(lambda s: s * 2), call(V)),
    "vectorize(f, signature)": (lambda: tnp.vectorize(_vector, signature="(n)->(n)"), call(X)),
    "debug.interruptible(f)": (lambda: tracer.debug.interruptible(_vector), call(V)),
    "debug.nans(f)": (lambda: tracer.debug.nans(_vector), call(V)),
    "x.at[i].set": (lambda: tnp.asarray(V).at[1].set, call(2.0)),
    "x.at[i].add": (lambda: tnp.asarray(V).at[I].add, call(W)),
    "x.at[i].apply": (lambda: tnp.asarray(V).at[1].apply, call(_vector)),
    "x.at[i].get": (lambda: tnp.asarray(V).at[1].get, call()),
    "x.at[]": (lambda: tnp.asarray(X).at.__getitem__, call(1)),
    "add.reduce": (lambda: tnp.add.reduce, call(X)),
    "add.accumulate": (lambda: tnp.add.accumulate, call(X)),
    "add.outer": (lambda: tnp.add.outer, call(V, W)),
    "add.reduceat": (lambda: tnp.add.reduceat, call(V, [0, 2])),
    "adam.init": (lambda: tracer.optimizers.adam(0.1).init, call(_TREE)),
    "adamw.update": (
        lambda: tracer.optimizers.adamw(0.1).update,
        call(_TREE, tracer.optimizers.adamw(0.1).init(_TREE), _TREE),
    ),
    "sgd.update": (
        lambda: tracer.optimizers.sgd(0.1, momentum=0.9).update,
        call(_TREE, tracer.optimizers.sgd(0.1, momentum=0.9).init(_TREE)),
    ),
    "clip_by_global_norm.update": (
        lambda: tracer.optimizers.clip_by_global_norm(1.0).update,
        call(_TREE, tracer.optimizers.clip_by_global_norm(1.0).init(_TREE)),
    ),
    "lbfgs.init": (lambda: tracer.optimizers.lbfgs().init, call(V)),
    "value_and_grad_from_state(f)": (
        lambda: tracer.optimizers.value_and_grad_from_state(summed),
        call(V, state=tracer.optimizers.lbfgs().init(V)),
    ),
    "exponential_decay": (
        lambda: tracer.optimizers.exponential_decay(0.1, 10, 0.9),
        call(3),
    ),
    "cosine_decay_schedule": (
        lambda: tracer.optimizers.cosine_decay_schedule(0.1, 10),
        call(3),
    ),
    "piecewise_constant_schedule": (
        lambda: tracer.optimizers.piecewise_constant_schedule(0.1, {2: 0.5}),
        call(3),
    ),
    "nn.initializers.normal()": (lambda: tracer.nn.initializers.normal(), call(KEY, (3, 4))),
    "nn.initializers.he_normal()": (lambda: tracer.nn.initializers.he_normal(), call(KEY, (3, 4))),
    "nn.initializers.orthogonal()": (
        lambda: tracer.nn.initializers.orthogonal(),
        call(KEY, (3, 4)),
    ),
    "gaussian_kde(x).evaluate": (lambda: _DENSITY.evaluate, call(W)),
    "gaussian_kde(x).logpdf": (lambda: _DENSITY.logpdf, call(W)),
    "ravel(x)[1]": (lambda: tracer.tree.ravel(_TREE)[1], call(np.ones(8))),
    "Mesh": (lambda: tracer.sharding.make_mesh, call((1,), ("a",))),
    "checkpoint_policies.save_only": (
        lambda: tracer.checkpoint_policies.save_only_these_names,
        call("a"),
    ),
}
