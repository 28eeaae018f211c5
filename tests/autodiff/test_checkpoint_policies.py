"""Which values a checkpoint keeps under each policy, and that none changes the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import checkpoint_policies as policies
from tracer.array.trace import trace
from tracer.errors import DTypeError
from tracer.ir import Graph

MATRIX = np.random.default_rng(0).standard_normal((4, 4))


def layers(policy: Any) -> Any:
    def run(x: Any) -> Any:
        hidden = tracer.checkpoint_name(tnp.sin(x @ MATRIX), "hidden")
        return tnp.sin(tnp.tanh(hidden) @ MATRIX)

    return tracer.checkpoint(run, policy=policy)


def forward_and_backward(policy: Any) -> tuple[Graph, Graph]:
    graph = trace(tracer.value_and_grad(lambda x: layers(policy)(x).sum()), [MATRIX]).graph
    bodies = [node.params[name] for node in graph.nodes for name in node.bodies]
    assert len(bodies) == 2
    return bodies[0], bodies[1]


def count(graph: Graph, name: str) -> int:
    return sum(node.name == name for node in graph.nodes)


@pytest.mark.parametrize(
    ("policy", "kept", "products", "sines"),
    [
        (None, 0, 4, 1),
        (policies.nothing_saveable, 0, 4, 1),
        (policies.dots_saveable, 2, 2, 1),
        (policies.dots_with_no_batch_dims_saveable, 2, 2, 1),
        (policies.save_only_these_names("hidden"), 1, 4, 0),
        (policies.save_only_these_names("other"), 0, 4, 1),
    ],
)
def test_what_is_kept(policy: Any, kept: int, products: int, sines: int) -> None:
    forward, backward = forward_and_backward(policy)
    assert len(forward.outputs) - 1 == kept
    assert count(backward, "dot_general") == products
    assert count(backward, "sine") == sines


def test_everything_saveable_computes_nothing_again() -> None:
    _, backward = forward_and_backward(policies.everything_saveable)
    assert count(backward, "dot_general") == 2
    assert not any(count(backward, name) for name in ("sine", "cosine", "tanh"))


@pytest.mark.xla
@pytest.mark.parametrize(
    "policy",
    [
        None,
        policies.everything_saveable,
        policies.dots_saveable,
        policies.save_only_these_names("hidden"),
    ],
)
def test_gradients_are_the_same(policy: Any) -> None:
    def loss(run: Any) -> Any:
        return lambda x: (run(x) ** 2).sum()

    plain = lambda x: tnp.sin(tnp.tanh(tnp.sin(x @ MATRIX)) @ MATRIX)
    wanted = tracer.grad(loss(plain))(MATRIX)
    np.testing.assert_allclose(tracer.compile(tracer.grad(loss(layers(policy))))(MATRIX), wanted)
    tracer.check_grads(layers(policy), (MATRIX,), modes=("rev", "fwd"), rtol=1e-5, atol=1e-5)
    twice = tracer.vmap(tracer.grad(loss(layers(policy))))(np.stack([MATRIX, MATRIX]))
    np.testing.assert_allclose(twice[1], wanted)


def test_wrong_policies_and_names() -> None:
    with pytest.raises(DTypeError, match="the policy is 'dots'"):
        tracer.checkpoint(tnp.sin, policy="dots")
    with pytest.raises(DTypeError, match="no name"):
        policies.save_only_these_names(3)
    with pytest.raises(DTypeError, match="the name is 3"):
        tracer.checkpoint_name(1.0, 3)
