"""Which result takes over the memory of a donated input, and what the compiled program keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracer.numpy as tnp
from tests.optimizer.graphs import traced
from tests.optimizer.random_programs import programs
from tracer import lowering
from tracer.ir import Graph
from tracer.optimizer.alias.donations import Donations, match_donations

MATRIX, VECTOR = ((40, 30), "float32"), ((40,), "float32")


def matched(function: Callable[..., Any], *types: Any, donated: Sequence[int]) -> Donations:
    return match_donations(traced(function, *types), donated)


def pairs(function: Callable[..., Any], *types: Any, donated: Sequence[int]) -> dict[int, int]:
    return dict(matched(function, *types, donated=donated).pairs)


def copies(graph: Graph, pairs: Any, donated: Sequence[int]) -> int:
    """Count the arrays of the program's size that XLA copies."""
    hlo = lowering.compile_graph(graph, donate=donated, aliases=pairs).hlo()
    return len(re.findall(r"\[40,30\]\S* copy\(|\[30,40\]\S* copy\(", hlo))


def test_results_that_are_written_over_an_argument_come_first() -> None:
    swapped = lambda x, y: (y * 2, x + 1)
    assert pairs(swapped, MATRIX, MATRIX, donated=(0, 1)) == {0: 1, 1: 0}


@pytest.mark.xla
def test_the_order_in_which_they_stand_would_be_four_copies() -> None:
    graph = traced(lambda x, y: (y * 2, x + 1), MATRIX, MATRIX)
    assert copies(graph, match_donations(graph, (0, 1)).pairs, (0, 1)) == 0
    assert copies(graph, {0: 0, 1: 1}, (0, 1)) == 4


def test_a_result_that_waits_for_all_readers_is_preferred() -> None:
    def program(x: Any, y: Any) -> Any:
        early = tnp.sort(y, axis=0)
        total = (x @ x.T).sum()
        return early, tnp.sort(y * total, axis=1)

    assert pairs(program, MATRIX, MATRIX, donated=(0,)) == {0: 1}


def test_the_largest_take_first() -> None:
    types = (VECTOR, MATRIX, VECTOR, MATRIX)
    found = pairs(lambda a, b, c, d: (a + c, b + d), *types, donated=(0, 1, 2, 3))
    assert found == {0: 0, 1: 1}


def test_an_argument_that_is_a_result_under_another_shape() -> None:
    assert pairs(lambda x: (x.sum(), x.reshape(-1)), MATRIX, donated=(0,)) == {0: 1}


def test_an_argument_that_is_returned_keeps_its_memory() -> None:
    assert pairs(lambda x: (x + 1, x), MATRIX, donated=(0,)) == {0: 1}


def test_another_type_of_as_many_bytes_only_when_the_memory_is_free() -> None:
    def waits(x: Any) -> Any:
        return tnp.full((30, 40), x.sum(), dtype="int32")

    def overlaps(x: Any) -> Any:
        return x.reshape(30, 40) * 2

    assert pairs(waits, MATRIX, donated=(0,)) == {0: 0}
    found = matched(overlaps, MATRIX, donated=(0,))
    assert not found.aliases
    assert "does not wait for all that reads the argument" in found.unmatched[0].reason


@pytest.mark.xla
def test_a_pair_of_another_type_that_overlaps_would_be_copied() -> None:
    graph = traced(lambda x: x.reshape(30, 40) * 2, MATRIX)
    assert copies(graph, {0: 0}, (0,)) > copies(graph, {}, (0,)) == 0
    waits = traced(lambda x: tnp.full((30, 40), x.sum(), dtype="int32"), MATRIX)
    assert copies(waits, match_donations(waits, (0,)).pairs, (0,)) == 0


@pytest.mark.parametrize(
    ("function", "types", "reason"),
    [
        (lambda x: x.sum(), [MATRIX], "no result has 4,800 bytes"),
        (lambda x, y: x + y, [MATRIX, MATRIX], "has taken over another argument"),
        (lambda x: x + 1, [((0, 3), "float32")], "it has no elements"),
    ],
)
def test_reasons(function: Any, types: Any, reason: str) -> None:
    found = matched(function, *types, donated=range(len(types)))
    assert reason in found.unmatched[-1].reason


def test_nothing_is_donated() -> None:
    assert matched(lambda x: x + 1, MATRIX, donated=()) == Donations()


@given(programs("integer"), st.data())
def test_every_donation_is_answered_and_no_result_given_twice(program: Any, data: Any) -> None:
    graph = program.graph
    donated = [i for i in range(len(graph.inputs)) if data.draw(st.booleans())]
    found = match_donations(graph, donated)
    answered = [a.argument for a in found.aliases] + [u.argument for u in found.unmatched]
    assert sorted(answered) == donated
    results = [alias.result for alias in found.aliases]
    assert len(set(results)) == len(results)
    for alias in found.aliases:
        assert graph.inputs[alias.argument].type.nbytes == graph.outputs[alias.result].type.nbytes
        assert alias.nbytes > 0


@pytest.mark.xla
@pytest.mark.parametrize("kind", ["integer", "float"])
def test_donation_changes_no_bit(kind: str) -> None:
    @given(programs(kind, maximum_steps=8), st.data())
    def check(program: Any, data: Any) -> None:
        graph = program.graph
        donated = [i for i in range(len(graph.inputs)) if data.draw(st.booleans())]
        aliases = match_donations(graph, donated).pairs
        plain = lowering.compile_graph(graph)
        given_away = lowering.compile_graph(graph, donate=donated, aliases=aliases)
        assert given_away.aliases == aliases
        results = [
            [lowering.to_host(b) for b in run(*map(lowering.to_device, program.arrays))]
            for run in (plain, given_away)
        ]
        for expected, found in zip(*results, strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)

    hypothesis.settings(max_examples=15)(check)()
