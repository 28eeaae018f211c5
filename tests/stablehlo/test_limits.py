"""Imported programs are limited, differentiated and mapped like any other."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla


def kernel_sum(x, v):
    return tnp.exp(-0.5 * ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)) @ v


@pytest.fixture
def arguments(rng):
    return rng.normal(size=(1500, 3)).astype(np.float32), np.ones(1500, np.float32)


@pytest.fixture
def text(arguments):
    return tracer.compile(kernel_sum, split="never").stablehlo(*arguments)


def test_a_tenth_of_the_peak(arguments, text):
    f = tracer.from_stablehlo(text)
    limit = tracer.compile(f).plan(*f.input_types).baseline_peak_bytes // 10
    limited = tracer.compile(f, memory_limit=limit)
    plan = limited.plan(*f.input_types)
    assert plan.compiled_bytes <= limit
    np.testing.assert_allclose(limited(*arguments), kernel_sum(*arguments), rtol=1e-5)


def test_gradient_in_a_tenth_of_the_peak(arguments, text):
    f = tracer.from_stablehlo(text)
    gradient = tracer.grad(lambda x, v: f(x, v).sum())
    wanted = tracer.grad(lambda x, v: kernel_sum(x, v).sum())(*arguments)
    limit = tracer.compile(gradient).plan(*f.input_types).baseline_peak_bytes // 10
    limited = tracer.compile(gradient, memory_limit=limit)
    assert limited.plan(*f.input_types).compiled_bytes <= limit
    np.testing.assert_allclose(limited(*arguments), wanted, rtol=1e-4, atol=1e-4)


def test_errors_name_lines_of_the_module(text, tmp_path):
    path = tmp_path / "kernel.mlir"
    path.write_text(text)
    f = tracer.from_stablehlo(path.read_bytes(), name=str(path))
    plan = tracer.compile(f, split="never").plan(*f.input_types)
    lines = [entry.source for entry in plan.timeline if entry.source is not None]
    assert any(line.file == str(path) for line in lines)


LOOP = """func.func @main(%x: tensor<4xf64>, %n: tensor<i32>) -> tensor<4xf64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<2> : tensor<i32>
  %end = stablehlo.constant dense<{end}> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %y = %x, %e = {bound}) :
      tensor<i32>, tensor<4xf64>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %e : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %s = stablehlo.sine %y : tensor<4xf64>
      %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f64>
      %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f64>) -> tensor<4xf64>
      %t = stablehlo.add %s, %b : tensor<4xf64>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t, %e : tensor<i32>, tensor<4xf64>, tensor<i32>
    }
  %last = stablehlo.convert %r#0 : (tensor<i32>) -> tensor<f64>
  %add = stablehlo.broadcast_in_dim %last, dims = [] : (tensor<f64>) -> tensor<4xf64>
  %out = stablehlo.add %r#1, %add : tensor<4xf64>
  return %out : tensor<4xf64>
}"""


def looped(x, end):
    i = 0
    while i < end:
        x = np.sin(x) + i
        i += 2
    return x + i


@pytest.mark.parametrize("end", [5, 0, -3])
def test_loops_that_count_are_differentiated(end):
    f = tracer.from_stablehlo(LOOP.replace("{end}", str(end)).replace("{bound}", "%end"))
    x, n = np.linspace(-1, 1, 4), np.int32(0)
    np.testing.assert_allclose(tracer.compile(f)(x, n), looped(x, end), rtol=1e-14)
    tracer.check_grads(lambda x: f(x, n).sum(), (x,), order=1)


def test_loops_of_unknown_length_run():
    f = tracer.from_stablehlo(LOOP.replace("{end}", "0").replace("{bound}", "%n"))
    x = np.linspace(-1, 1, 4)
    np.testing.assert_allclose(tracer.compile(f)(x, np.int32(7)), looped(x, 7), rtol=1e-14)
    with pytest.raises(tracer.NotDifferentiableError):
        tracer.grad(lambda x: f(x, np.int32(7)).sum())(x)


def test_vmap_and_nesting(arguments, text):
    f = tracer.from_stablehlo(text)
    x, v = arguments
    both = tracer.vmap(f, in_axes=(None, 0))(x, np.stack([v, 2 * v]))
    np.testing.assert_allclose(both[1], 2 * both[0], rtol=1e-5)
    inside = tracer.compile(lambda x, v: f(x, v) * 2)(x, v)
    np.testing.assert_allclose(inside, 2 * f(x, v), rtol=1e-5)
