"""Transformations of functions: trace, make a new graph from the trace, apply it.

A transformed function only applies a graph, so it can be called inside another transformation, a
compiled function or a loop body, where the graph is inlined. Called on its own, the graph is
compiled and cached by its fingerprint.
"""

from tracer.autodiff.transforms.checking import check_grads
from tracer.autodiff.transforms.checkpoint import checkpoint, checkpoint_name, stop_gradient
from tracer.autodiff.transforms.custom import custom_vjp
from tracer.autodiff.transforms.custom_forward import custom_jvp
from tracer.autodiff.transforms.gradient import grad, value_and_grad
from tracer.autodiff.transforms.jacobian import hessian, jacfwd, jacobian, jacrev
from tracer.autodiff.transforms.linear import jvp, linearize, vjp
from tracer.autodiff.transforms.policies import checkpoint_policies
from tracer.autodiff.transforms.solving import custom_linear_solve, custom_root
from tracer.autodiff.transforms.transpose import linear_transpose
from tracer.autodiff.transforms.vectorized import vmap

__all__ = [
    "check_grads",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linear_transpose",
    "linearize",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
]
