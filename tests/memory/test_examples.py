"""The example programs stay within limits that they would break unsplit."""

from __future__ import annotations

import pytest

from examples.problems import PROBLEMS, types_of
from tests.memory.within import runs_within
from tracer import tree

pytestmark = pytest.mark.process

MB = 1_000_000


@pytest.mark.parametrize(
    ("problem", "n", "limit_bytes", "largest_bytes"),
    [
        ("kernel", 10_000, 40 * MB, 4 * 10_000**2),
        ("neighbours", 20_000, 40 * MB, 4 * 2_000 * 20_000),
        pytest.param("sparse-gp", 40_000, 40 * MB, 8 * 200 * 40_000, marks=pytest.mark.slow),
    ],
)
def test_stays_within_the_limit(problem: str, n: int, limit_bytes: int, largest_bytes: int) -> None:
    types = tree.leaves(types_of(PROBLEMS[problem].inputs(n)))
    runs_within(
        "examples.problems:prepare",
        arguments={"problem": problem, "n": n, "limit": limit_bytes},
        limit_bytes=limit_bytes,
        argument_bytes=sum(type.nbytes for type in types),
        must_be_split_bytes=largest_bytes,
        repeats=2,
    )
