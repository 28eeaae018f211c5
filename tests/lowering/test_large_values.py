"""Values of more elements than XLA:CPU's kernels count: they must not end the process."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import lowering, ops
from tracer.lowering import shims

SIDE = 1 << 19
"""A square of this has 2^38 elements: a number of tiles that is 0 in 32 bits."""


def test_arguments_and_bodies_may_be_large(graph: Any) -> None:
    large = ((SIDE, SIDE), np.float32)
    negated = graph(lambda x: [ops.negate(x)], large)
    other = graph(lambda x: [ops.exponential(x)], large)
    made = graph(lambda i, x: ops.case(i, x, branches=(negated, other)), ((), np.int32), large)
    stored = lowering.compile_graph(made).memory
    assert stored.argument_bytes >= 4 * SIDE * SIDE


def test_a_switch_of_the_backend_leaves_the_other_options() -> None:
    device = lowering.devices()[-1].raw
    options = shims.compile_options(
        {"xla_cpu_prefer_vector_width": 128}, [device], is_partitioned=False
    )
    changed = shims.with_backend_option(options, "xla_cpu_disable_tiled_emitter")
    assert b"xla_cpu_disable_tiled_emitter" in changed.SerializeAsString()
    assert changed.env_option_overrides == options.env_option_overrides
    assert changed.device_assignment.serialize() == options.device_assignment.serialize()
