"""Values of more elements than XLA:CPU's kernels count: they must not end the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracer import lowering, ops
from tracer.lowering.run import xla_options

SIDE = 1 << 19
"""A square of this has 2^38 elements: a number of tiles that is 0 in 32 bits."""


@pytest.mark.xla
def test_arguments_and_bodies_may_be_large(graph: Any) -> None:
    large = ((SIDE, SIDE), np.float32)
    negated = graph(lambda x: [ops.negate(x)], large)
    other = graph(lambda x: [ops.exponential(x)], large)
    made = graph(lambda i, x: ops.case(i, x, branches=(negated, other)), ((), np.int32), large)
    stored = lowering.compile_graph(made).memory
    assert stored.argument_bytes >= 4 * SIDE * SIDE


def test_options_of_the_backend_leave_the_others() -> None:
    overrides = {"xla_cpu_prefer_vector_width": 128}
    raw = lowering.devices()[-1].raw
    backend = {"xla_cpu_disable_tiled_emitter": "", "xla_cpu_small_while_loop_byte_threshold": "9"}
    plain, changed = (
        xla_options.compile_options(overrides, given, [raw], is_partitioned=False)
        for given in ({}, backend)
    )
    assert all(name.encode() in changed.SerializeAsString() for name in backend)
    assert changed.env_option_overrides == plain.env_option_overrides
    assert changed.device_assignment.serialize() == plain.device_assignment.serialize()
