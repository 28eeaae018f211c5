"""Functions of neural networks: activations, softmax, one-hot codes, attention."""

from tracer.nn.activations import (
    elu,
    gelu,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    one_hot,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
)
from tracer.nn.attention import dot_product_attention

__all__ = [
    "dot_product_attention",
    "elu",
    "gelu",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "one_hot",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
]
