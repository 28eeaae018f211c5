"""Optimizers of parameters, in the init/update form that optax made known.

An optimizer is a pair of functions of trees of arrays: `init(params)` returns a state, and
`update(grads, state, params)` returns updates, which `apply_updates` adds, and the next state. Both
are ordinary functions: a step that is compiled is planned as a whole, under one limit, and with
`donate_argnums` parameters and state are written over.
"""

from tracer.optimizers.lbfgs import LbfgsState, lbfgs, value_and_grad_from_state
from tracer.optimizers.named import adam, adamw, lion, sgd
from tracer.optimizers.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)
from tracer.optimizers.transformations import (
    Transformation,
    add_decayed_weights,
    apply_updates,
    chain,
    clip,
    clip_by_global_norm,
    global_norm,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    trace,
)

__all__ = [
    "LbfgsState",
    "Transformation",
    "adam",
    "adamw",
    "add_decayed_weights",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "global_norm",
    "join_schedules",
    "lbfgs",
    "linear_schedule",
    "lion",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "sgd",
    "trace",
    "value_and_grad_from_state",
    "warmup_cosine_decay_schedule",
]
