"""GPflow 2 on TensorFlow: the library's own code, as its users call it."""

from __future__ import annotations

from typing import Any

import gpflow
import tensorflow as tf

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.measure import address_space


def _traced(program: Any, cap_bytes: int) -> Any:
    """Trace now, at the first call, under the cap."""
    compiled = tf.function(program)
    with address_space(cap_bytes):
        try:
            compiled()
        except tf.errors.ResourceExhaustedError as error:
            raise MemoryError(str(error)) from error
    return compiled


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Compute `SquaredExponential()(x) @ v`, as in the paper."""
    x, v = (tf.constant(array) for array in inputs.kernel(n))
    covariance = gpflow.kernels.SquaredExponential()
    program = _traced(lambda: tf.linalg.matvec(covariance(x), v), cap_bytes)
    return Run(lambda: program().numpy(), lambda found: found[some(n, 64)])
