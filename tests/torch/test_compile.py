"""`torch.compile(f, backend="tracer")`."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import tracer.torch  # noqa: E402, F401
from tests.torch.comparison import assert_same  # noqa: E402
from tracer import errors  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_training_and_evaluation() -> None:
    model = nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)
    )
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="tracer", options={"memory_limit": "10MB"})
    x = torch.randn(6, 4)
    for _ in range(2):
        torch.manual_seed(1)
        compiled(x).square().mean().backward()
        torch.manual_seed(1)
        other(x).square().mean().backward()
    assert_same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])
    assert_same(dict(model.named_buffers()), dict(other.named_buffers()))
    model.eval()
    other.eval()
    with torch.no_grad():
        assert_same(compiled(x), other(x))


def test_the_limit_is_kept() -> None:
    def kernel(x):
        return torch.exp(-((x[:, None] - x[None, :]) ** 2)).sum(1)

    x = torch.linspace(0, 1, 1000)
    fits = torch.compile(kernel, backend="tracer", options={"memory_limit": "1MB"})
    assert_same(fits(x), kernel(x))
    with pytest.raises(errors.MemoryLimitError):
        torch.compile(kernel, backend="tracer", options={"memory_limit": "10kB"})(x)


def test_python_around_graphs_stays() -> None:
    def f(x, n):
        y = x.sin()
        if y.sum().item() > 0:  # a graph break
            y = y * 2
        return [y + i for i in range(n)], n

    compiled = torch.compile(f, backend="tracer")
    x = torch.ones(3)
    assert_same(compiled(x, 2), f(x, 2))


def test_what_is_missing_is_named() -> None:
    def f(x):
        return torch.special.airy_ai(x) + F.relu(x)

    with pytest.raises(Exception, match="special_airy_ai") as caught:
        torch.compile(f, backend="tracer")(torch.ones(3))
    assert "test_compile.py" in str(caught.value)
    with pytest.raises(Exception, match="memory_limt"):
        torch.compile(f, backend="tracer", options={"memory_limt": 3})(torch.ones(3))


def test_attention_is_taken_apart() -> None:
    def attend(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    q, k, v = (torch.randn(2, 3, 8, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    found = torch.compile(attend, backend="tracer")(q, k, v)
    assert_same(found.detach(), attend(q, k, v).detach(), 1e-12)
    wanted = torch.autograd.grad(attend(q, k, v).square().sum(), (q, k, v))
    assert_same(torch.autograd.grad(found.square().sum(), (q, k, v)), wanted, 1e-12)
