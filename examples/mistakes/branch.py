"""An `if` on a value that a compiled function does not have yet."""

import numpy as np

import tracer
import tracer.numpy as tnp


@tracer.compile(memory_limit="1GB")
def shares(x):
    total = tnp.sum(x)
    if total > 0:
        return x / total
    return x


shares(np.ones(1000))
