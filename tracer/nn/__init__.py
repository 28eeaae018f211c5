"""Functions of neural networks: activations, convolution, pooling, normalisation, attention."""

from tracer.nn.activations import (
    elu,
    gelu,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
)
from tracer.nn.attention import dot_product_attention
from tracer.nn.convolution import conv, conv_general_dilated
from tracer.nn.dropout import dropout
from tracer.nn.normalization import batch_norm, layer_norm
from tracer.nn.pooling import avg_pool, max_pool
from tracer.numpy.codes import one_hot

__all__ = [
    "avg_pool",
    "batch_norm",
    "conv",
    "conv_general_dilated",
    "dot_product_attention",
    "dropout",
    "elu",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "max_pool",
    "one_hot",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
]
