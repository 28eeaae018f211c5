"""JAX's test suites as a list of behaviours: our values are JAX's, or NumPy's.

Some programs of each behaviour are run here, evenly chosen; JAX_BEHAVIOURS=all runs all of them.
"""

from __future__ import annotations

import os

import pytest

from tests.jax_behaviours.catalogue import BEHAVIOURS
from tests.jax_behaviours.comparing import Behaviour, verdict

pytest.importorskip("jax")
pytestmark = pytest.mark.xla
SOME = 6
"""Programs of each behaviour; a program takes about 50 ms, most of it to compile."""


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda b: f"{b.suite}: {b.text}")
def test_values(behaviour: Behaviour) -> None:
    cases = list(behaviour.programs())
    if os.environ.get("JAX_BEHAVIOURS") != "all":
        cases = cases[:: -(-len(cases) // SOME)]
    unlike = []
    for label, program in cases:
        found, wanted = verdict(program), behaviour.expected(label)
        if (found in ("wrong", "refused")) if wanted is None else found != wanted:
            unlike.append(f"{label}: {found}" + (f", listed as {wanted}" if wanted else ""))
    assert not unlike, "\n".join(unlike)
