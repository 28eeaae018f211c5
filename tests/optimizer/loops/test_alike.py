"""What loops that are alike share: the same programs come out, and fewer bodies are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import evaluated, text, traced
from tracer.ir import Graph, verify
from tracer.optimizer.loops.split import SplitCache, SplitSettings, alike, driver, split_graph
from tracer.optimizer.passes import Pass, PassLog, PassManager
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS

N, DEPTH, WIDTH = 96, 3, 32
ALL_SETTINGS = [
    SplitSettings(threshold, budget, budget, trust_fusion=False)
    for budget in (1 << 15, 1 << 13, 1)
    for threshold in (1 << 14, 1 << 12)
]


def layers(x: Any, *weights: Any) -> Any:
    """Attention-like layers: each stores a matrix of N x N."""
    for weight in weights:
        scores = tnp.exp(tnp.tanh(x @ x.T))
        x = tnp.tanh((scores / scores.sum(1, keepdims=True)) @ x @ weight)
    return x


def layered() -> Graph:
    return traced(
        layers, ((N, WIDTH), np.float32), *[((WIDTH, WIDTH), np.float32) for _ in range(DEPTH)]
    )


def bodies(graph: Graph) -> list[Graph]:
    return [node.params["body"] for node in graph.nodes if node.name == "while"]


def test_shared_findings_give_the_same_programs() -> None:
    graph, known = layered(), SplitCache()
    for chosen in ALL_SETTINGS:
        with_known, rows = split_graph(graph, chosen, PassLog(), known)
        alone, rows_alone = split_graph(graph, chosen, PassLog())
        assert text(with_known) == text(alone)
        assert rows == rows_alone
        assert rows


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The bodies that are built to be looked at."""
    built: list[Any] = []
    build = alike._body

    def counted(*args: Any) -> Graph:
        built.append(args)
        return build(*args)

    monkeypatch.setattr(alike, "_body", counted)
    return built


def test_equal_layers_are_looked_at_once(built: list[Any]) -> None:
    graph, known = layered(), SplitCache()
    split, rows = split_graph(graph, ALL_SETTINGS[0], PassLog(), known)
    loops = bodies(split)
    assert len(rows) >= DEPTH
    assert len(set(loops)) < len(loops)
    count = len(built)
    assert count
    split_graph(graph, ALL_SETTINGS[0], PassLog(), known)
    assert len(built) == count


def attention(x: Any, *weights: Any) -> Any:
    """Layers of attention that add to what they read: each is in a chain with those before."""
    for weight in weights:
        x = x + tnp.tanh(tracer.nn.softmax((x @ weight) @ x.T, axis=-1) @ x)
    return x


def attentive(depth: int) -> Graph:
    return traced(
        attention, ((N, WIDTH), np.float32), *[((WIDTH, WIDTH), np.float32) for _ in range(depth)]
    )


STREAMING = SplitSettings(1 << 12, 1 << 13, 1 << 13)


def test_layers_that_stream_are_looked_at_once(built: list[Any]) -> None:
    counts = []
    for depth in (6, 10):
        built.clear()
        _, rows = split_graph(attentive(depth), STREAMING, PassLog(), SplitCache())
        assert any("add, rescaled" in row.combiners for row in rows)
        counts.append(len(built))
    assert counts[0] == counts[1]


def test_layers_of_one_chain_are_written_at_once(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """A region of the second layer alone, beside that of the first, which is not yet written."""
    written = []
    write = driver.write_candidates

    def counted(search: Any, candidates: list[Any], *rest: Any) -> Any:
        written.append(len(candidates))
        return write(search, candidates, *rest)

    monkeypatch.setattr(driver, "write_candidates", counted)
    graph = attentive(10)
    split, rows = split_graph(graph, STREAMING, PassLog(), SplitCache())
    verify(split)
    assert len(rows) >= 10
    assert len(written) <= 3
    assert max(written) == 10
    x = rng.standard_normal((N, WIDTH)).astype(np.float32)
    weights = rng.standard_normal((10, WIDTH, WIDTH)).astype(np.float32) / 64
    wanted, found = (evaluated(each, x, *weights)[0] for each in (graph, split))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_what_another_loop_makes_its_mask_of_is_stored(rng: np.random.Generator) -> None:
    """The loop over heads makes the mask in each trip, of integers that another loop could cut."""

    def function(q: Any, k: Any, y: Any, z: Any) -> Any:
        places = y * 3
        costs = tnp.sort(tnp.exp(-(places[:, None] * z)), axis=1)[:, 7]
        mask = places[:, None] >= tnp.arange(700, dtype="int32")
        scores = tnp.tanh(tnp.where(mask, q @ tnp.swapaxes(k, -1, -2), 0.0))
        return tnp.sort(tnp.sort(scores, axis=-1), axis=-2)[:, 3, 5], costs

    shapes = ((6, 700, 4), np.float32), ((6, 700, 4), np.float32), ((700,), np.int32)
    graph = traced(function, *shapes, ((1500,), np.float32))
    split, rows = split_graph(graph, SplitSettings(1 << 11, 1 << 22, 1 << 22), PassLog())
    verify(split)
    assert len(rows) >= 2
    q, k = rng.standard_normal((2, 6, 700, 4)).astype(np.float32)
    given = q, k, rng.integers(0, 300, 700).astype(np.int32), rng.random(1500).astype(np.float32)
    for one, other in zip(evaluated(graph, *given), evaluated(split, *given), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


def test_layers_that_differ_in_a_number_share_nothing() -> None:
    """The constants stand in the bodies: a body of another layer would compute another thing."""

    def scaled(x: Any) -> Any:
        for number in (2.0, 3.0):
            scores = tnp.exp(tnp.tanh(x @ x.T) * np.float32(number))
            x = tnp.tanh((scores / scores.sum(1, keepdims=True)) @ x)
        return x

    graph = traced(scaled, ((N, WIDTH), np.float32))
    split, _ = split_graph(graph, ALL_SETTINGS[0], PassLog(), SplitCache())
    loops = bodies(split)
    assert len(set(loops)) == len(loops) >= 2
    x = np.random.default_rng(0).standard_normal((N, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(evaluated(split, x)[0], evaluated(graph, x)[0], rtol=1e-5, atol=1e-6)


def test_bodies_of_other_lines_are_kept_apart() -> None:
    """The plan names the user's line of what a loop holds."""

    def twice(x: Any) -> Any:
        first = tnp.tanh(tnp.exp(tnp.tanh(x @ x.T)) @ x)
        return tnp.tanh(tnp.exp(tnp.tanh(first @ first.T)) @ first)

    graph = traced(twice, ((N, WIDTH), np.float32))
    split, rows = split_graph(graph, ALL_SETTINGS[0], PassLog(), SplitCache())
    loops = bodies(split)
    assert len({loop.fingerprint for loop in loops}) == 1
    assert len(set(loops)) == len(loops) == 2
    lines = {source.line for row in rows for _, source in row.tensors if source is not None}
    assert len(lines) == 2


def test_a_pass_rewrites_a_shared_body_once_and_says_so_for_each_loop() -> None:
    graph, _ = split_graph(layered(), ALL_SETTINGS[0], PassLog())
    loops = bodies(graph)
    seen: list[Graph] = []

    def run(body: Graph, log: PassLog) -> Graph:
        seen.append(body)
        log.applied.append("seen")
        log.refuse("it", "left alone")
        return body

    manager = PassManager()
    result = manager.run(graph, [Pass("look", run), COMMON_SUBEXPRESSIONS])
    verify(result)
    assert sum(body is loops[0] for body in seen) == 1
    bodies_of_graph = [body for node in graph.nodes for body in node.body_graphs]
    row = manager.rows[0]
    assert len(row.applied) == len(row.refusals) >= 1 + len(bodies_of_graph)
