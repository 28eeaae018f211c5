"""A limit below what the program can be brought to: a library needs the matrix as a whole."""

import numpy as np

import tracer
import tracer.numpy as tnp


@tracer.compile(memory_limit="50MB")
def smooth(x, v):
    kernel = tnp.exp(-((x[:, None] - x) ** 2).sum(-1))
    kernel = kernel / tnp.linalg.norm(kernel, 2)  # the largest singular value
    return kernel @ v


rng = np.random.default_rng(0)
smooth(rng.normal(size=(3000, 3)), rng.normal(size=3000))
