"""Bad input of differentiation, vectorisation and control flow: what, the user's line, a mend."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import errors

pytestmark = pytest.mark.xla

X = np.ones(3)
LEAKED: list[Any] = []


def total(x: Any) -> Any:
    return (x * x).sum()


def leak(x: Any) -> Any:
    LEAKED.append(x * 2)
    return x.sum()


def pulled_back(cotangent: Any) -> Any:
    return tracer.vjp(lambda x: x * 2, X)[1](cotangent)


def after(transform: Callable[[Any], Any], *args: Any) -> Any:
    """Use what a traced function left behind."""
    transform(leak)(*args)
    return LEAKED[-1] + 1


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "grad of an array": (lambda: tracer.grad(lambda x: x * 2)(X), errors.ShapeError, "no scalar"),
    "value_and_grad of an array": (
        lambda: tracer.value_and_grad(lambda x: x * 2)(X), errors.ShapeError, "no scalar"),
    "hessian of an array that is no array": (
        lambda: tracer.hessian(lambda x: "text")(X), errors.DTypeError, "no array"),
    "grad of integers": (
        lambda: tracer.grad(total)(np.arange(3)), errors.DTypeError, r"int64\[3\]"),
    "grad of truth values": (
        lambda: tracer.grad(total)(np.ones(3, bool)), errors.DTypeError, r"bool\[3\]"),
    "grad with an integer result": (
        lambda: tracer.grad(lambda x: x.argmax())(X), errors.DTypeError, "floating"),
    "grad of complex numbers": (
        lambda: tracer.grad(lambda x: (x * x).sum())(X + 1j), errors.DTypeError, "complex"),
    "jacrev of integers": (
        lambda: tracer.jacrev(lambda x: x * 2)(np.arange(3)), errors.DTypeError, r"int64\[3\]"),
    "jacfwd of integers": (
        lambda: tracer.jacfwd(lambda x: x * 2)(np.arange(3)), errors.DTypeError, r"int64\[3\]"),
    "a leaf that is no array": (
        lambda: tracer.grad(lambda p: total(p["w"]))({"w": X, "name": "adam"}),
        errors.DTypeError, r"\['name'\] is 'adam'"),
    "an argument of vjp that is no array": (
        lambda: tracer.vjp(total, "x"), errors.DTypeError, "'x'"),
    "an argument of vmap that is no array": (
        lambda: tracer.vmap(total)(["x"]), errors.DTypeError, "'x'"),
    "argnums out of range": (
        lambda: tracer.grad(total, argnums=2)(X), errors.ArgumentError, "argnums 2"),
    "argnums that are no integers": (
        lambda: tracer.grad(total, argnums="x")(X), errors.DTypeError, "argnums"),
    "argnums twice": (
        lambda: tracer.grad(total, argnums=(0, -1))(X), errors.ArgumentError, "twice"),
    "a cotangent of another shape": (
        lambda: pulled_back(np.ones(2)), errors.ShapeError, r"\(2,\)"),
    "a cotangent of another dtype": (
        lambda: pulled_back(np.ones(3, "float32")), errors.DTypeError, "float32"),
    "a cotangent of another structure": (
        lambda: pulled_back((X, X)), errors.DTypeError, "structure"),
    "a tangent of another shape": (
        lambda: tracer.jvp(total, (X,), (np.ones(2),)), errors.ShapeError, r"\(2,\)"),
    "a tangent of another dtype": (
        lambda: tracer.jvp(total, (X,), (np.ones(3, "float32"),)), errors.DTypeError, "float32"),
    "tangents that are not as many": (
        lambda: tracer.jvp(total, (X,), (X, X)), errors.DTypeError, "structure"),
    "a tracer that escaped grad": (
        lambda: after(tracer.grad, X), errors.TracingError, "escaped"),
    "a tracer that escaped vmap": (
        lambda: after(tracer.vmap, np.ones((2, 3))), errors.TracingError, "escaped"),
    "a tracer that escaped jacfwd": (
        lambda: after(tracer.jacfwd, X), errors.TracingError, "escaped"),
    "a tracer that escaped a scan": (
        lambda: after(lambda f: lambda x: tracer.scan(lambda c, y: (c, f(y)), x, X[:, None]), 0.0),
        errors.TracingError, "escaped"),
    "in_axes out of range": (
        lambda: tracer.vmap(total, in_axes=2)(X), errors.AxisError, "axis 2|2"),
    "in_axes not as many as arguments": (
        lambda: tracer.vmap(total, in_axes=(0, 0))(X), errors.TracerError, "in_axes"),
    "in_axes that name no axis": (
        lambda: tracer.vmap(total, in_axes=None)(X), errors.TracerError, "batch axis"),
    "in_axes of another structure": (
        lambda: tracer.vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": X}),
        errors.TracerError, "in_axes"),
    "in_axes that are no integers": (
        lambda: tracer.vmap(total, in_axes="0")(X), errors.TracerError, "in_axes"),
    "sizes that differ": (
        lambda: tracer.vmap(lambda x, y: x + y)(X, np.ones(4)), errors.ShapeError, "3.*4|4.*3"),
    "an axis_size that does not fit": (
        lambda: tracer.vmap(total, axis_size=5)(X), errors.TracerError, "5"),
    "out_axes out of range": (
        lambda: tracer.vmap(lambda x: x, out_axes=3)(X), errors.TracerError, "out_axes|axis 3"),
    "branches of different shapes": (
        lambda: tracer.cond(True, lambda x: x, lambda x: x[:2], X), errors.ShapeError, "false_fun"),
    "branches of different dtypes": (
        lambda: tracer.cond(True, lambda x: x, lambda x: x.astype("float32"), X),
        errors.DTypeError, "float32"),
    "branches of different structures": (
        lambda: tracer.cond(True, lambda x: x, lambda x: (x, x), X), errors.TracingError, "nested"),
    "branches of a switch": (
        lambda: tracer.switch(0, [lambda x: x, lambda x: x[:2]], X), errors.ShapeError, "branches"),
    "a carry that changes its shape": (
        lambda: tracer.scan(lambda c, x: (c + X, x), 0.0, X), errors.ShapeError, "carry"),
    "a carry that changes its dtype": (
        lambda: tracer.scan(lambda c, x: (c + 0.5, x), np.int32(0), X), errors.DTypeError, "carry"),
    "a carry that changes its structure": (
        lambda: tracer.scan(lambda c, x: ((c, c), x), 0.0, X), errors.TracingError, "nested"),
    "a carry of a while loop": (
        lambda: tracer.while_loop(lambda c: c < 5, lambda c: c + X, tnp.asarray(0.0)),
        errors.ShapeError, "carry"),
    "a carry of a fori_loop": (
        lambda: tracer.fori_loop(0, 3, lambda i, c: c + X, 0.0), errors.ShapeError, "carry"),
    "reverse mode of a while loop": (
        lambda: tracer.grad(lambda x: tracer.while_loop(lambda c: c < 5, lambda c: c * 2, x))(1.0),
        errors.NotDifferentiableError, "iterations"),
    "what is no function": (lambda: tracer.grad(3.0), errors.DTypeError, "function"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_a_letter(name: str) -> None:
    call, kind, pattern = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    letter = str(caught.value)
    assert isinstance(caught.value, errors.TracerError)
    assert re.search(pattern, letter.partition("\n  where:")[0]), letter
    assert "\n  where: test_bad_derivatives.py:" in letter, letter
    assert "\n  mend:  " in letter, letter
    # Nothing stays behind: the next call works.
    np.testing.assert_allclose(np.asarray(tracer.grad(total)(X)), 2.0)


def repeated(x: Any) -> Any:
    return x.at[np.array([0, 0])].multiply(x[0])


def without_basis(x: Any) -> Any:
    q, _ = tnp.linalg.qr(x[:, None] * x[:1], mode="complete")
    return q


@pytest.mark.parametrize("function", [repeated, without_basis])
def test_a_rule_that_has_no_derivative_names_the_line_of_its_op(function: Any) -> None:
    looped = lambda x: tracer.scan(lambda c, _: (c + function(x).sum(), None), 0.0, None, length=3)
    for loss in (lambda x: function(x).sum(), lambda x: looped(x)[0]):
        for transform in (tracer.grad, tracer.jacfwd):
            with pytest.raises(errors.NotDifferentiableError, match=f"in {function.__name__}: "):
                transform(loss)(X)
