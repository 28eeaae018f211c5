"""A loop that begins in float32 and goes on in float64."""

import numpy as np

import tracer
import tracer.numpy as tnp


def step(mean, target):
    mean = mean + 0.1 * (target - mean) * np.sqrt(np.arange(8))
    return mean, (mean**2).sum()


targets = np.ones((100, 8), "float32")
means, errors = tracer.scan(step, tnp.zeros(8, "float32"), targets)
