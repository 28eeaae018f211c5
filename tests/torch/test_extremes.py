"""Gradients of extremes and of single places along an axis: right, and in slices of any axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tracer.torch  # noqa: E402

pytestmark = pytest.mark.xla


def chamfer(x: Any, y: Any) -> Any:
    distances = torch.cdist(x, y)
    return distances.min(1).values.mean() + distances.min(0).values.mean()


def test_the_chamfer_distance_and_its_gradient_keep_a_small_limit() -> None:
    rng = np.random.default_rng(0)
    x, y = (torch.tensor(rng.normal(size=(n, 3)), dtype=torch.float32) for n in (3000, 2000))
    program = tracer.torch.value_and_grad(chamfer, memory_limit="3MB")
    assert program.plan(x, y).baseline_peak_bytes > 2e7
    value, gradient = program(x, y)
    leaf = x.clone().requires_grad_()
    wanted = chamfer(leaf, y)
    wanted.backward()
    torch.testing.assert_close(value, wanted.detach())
    # cdist of torch goes by a product: its own digits are fewer than those of differences.
    torch.testing.assert_close(gradient, leaf.grad, rtol=1e-3, atol=2e-6)


PLACES = torch.tensor([[2], [0], [2]])
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "replaced": lambda x, u: x.scatter(1, PLACES, u),
    "by a number": lambda x, u: x.scatter(1, PLACES, 7.0) + u,
    "added": lambda x, u: x.scatter_add(1, PLACES, u),
    "multiplied": lambda x, u: x.scatter_reduce(1, PLACES, u, "prod"),
    "largest": lambda x, u: x.scatter_reduce(1, PLACES, u, "amax"),
    "smallest, without self": lambda x, u: x.scatter_reduce(
        1, PLACES, u, "amin", include_self=False
    ),
    "mean": lambda x, u: x.scatter_reduce(1, PLACES, u, "mean"),
    "of the first axis": lambda x, u: x.T.scatter(0, PLACES.T, u.T),
    "max of repeated values": lambda x, u: torch.round(x).max(1).values + u[:, 0],
    "gathered": lambda x, u: x.gather(1, PLACES) * u,
}


@pytest.mark.parametrize("name", FORMS)
def test_one_place_of_each_line(name: str) -> None:
    rng = np.random.default_rng(1)
    x, u = torch.tensor(rng.normal(size=(3, 4))), torch.tensor(rng.normal(size=(3, 1)))
    function = FORMS[name]
    found = tracer.torch.limit(function, memory_limit="1MB")(x, u)
    torch.testing.assert_close(found, function(x, u))

    def loss(x: Any, u: Any) -> Any:
        return (function(x, u) ** 3).sum()

    if name in ("multiplied", "largest", "smallest, without self"):
        return  # torch has no derivative of these by both, or splits it among equals.
    _, gradients = tracer.torch.value_and_grad(loss, argnums=(0, 1), memory_limit="1MB")(x, u)
    leaves = x.clone().requires_grad_(), u.clone().requires_grad_()
    loss(*leaves).backward()
    for ours, leaf in zip(gradients, leaves, strict=True):
        torch.testing.assert_close(ours, leaf.grad)
