"""What is computed again, by the planner and by hand, takes less memory of a fresh process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tracer
from tests.memory.within import runs_within
from tests.optimizer.remat.memory_programs import N, arrays, compiled
from tracer.optimizer.remat import REMATERIALISE_NAME

pytestmark = pytest.mark.xla

PROGRAM = f"{Path(__file__).parent / 'memory_programs.py'}:chain"
ARGUMENTS = 2 * 4 * N * N


def products(program: tracer.Compiled) -> int:
    """Count the products of two matrices in the compiled text."""
    text = program.hlo(*arrays())
    return text.count(" dot(") + text.count("__ynn_fusion")


@pytest.mark.process
def test_the_planner_keeps_a_limit_that_splitting_does_not() -> None:
    whole = compiled(None, split="never")
    unlimited = whole.plan(*arrays()).compiled_bytes
    limit = int(0.6 * unlimited)
    limited = compiled(limit)
    plan = limited.plan(*arrays())
    assert plan.compiled_bytes <= limit
    assert REMATERIALISE_NAME in {row.name for row in plan.passes if row.applied}
    np.testing.assert_allclose(limited(*arrays()), whole(*arrays()), rtol=1e-4, atol=1e-5)
    runs_within(PROGRAM, limit_bytes=limit, argument_bytes=ARGUMENTS, arguments={"limit": limit})


@pytest.mark.process
def test_the_compiler_does_not_merge_what_a_checkpoint_computes_again() -> None:
    kept, again = (compiled(None, checkpointed=flag, split="never") for flag in (False, True))
    x, a = arrays()
    assert products(again) > products(kept)
    limit = int(0.8 * kept.plan(x, a).compiled_bytes)
    by_hand = compiled(limit, checkpointed=True, split="never")
    assert by_hand.plan(x, a).compiled_bytes <= limit
    np.testing.assert_allclose(by_hand(x, a), kept(x, a), rtol=1e-4, atol=1e-5)
    runs_within(
        PROGRAM,
        limit_bytes=limit,
        argument_bytes=ARGUMENTS,
        arguments={"limit": limit, "checkpointed": True},
    )


def least_for(limit: int) -> int:
    """Return the smallest limit, by the error of one that is refused."""
    with pytest.raises(tracer.MemoryLimitError) as caught:
        compiled(limit).plan(*arrays())
    return caught.value.minimum_bytes


def test_the_smallest_limit_is_met_and_nine_tenths_are_refused() -> None:
    """The same in each trace: ties between equal layers hang on the order of no set."""
    least = least_for(ARGUMENTS + 1)
    assert compiled(least).plan(*arrays()).compiled_bytes <= least
    assert least_for(int(0.9 * least)) == least
    assert least_for(ARGUMENTS + 1) == least


def test_without_the_pass_there_is_no_row_of_it() -> None:
    off = tracer.compile(
        tracer.grad(lambda x, a: (x @ a).sum()), memory_limit="1GB", passes="-rematerialise"
    )
    assert REMATERIALISE_NAME not in {row.name for row in off.plan(*arrays()).passes}
