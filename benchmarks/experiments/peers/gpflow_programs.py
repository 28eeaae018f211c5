"""GPflow 2 on TensorFlow: the library's own code, as its users call it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.experiments.sgpr import compared
from benchmarks.unavailable import Unavailable

FEW = 50
"""Points of the first call, which traces: what TensorFlow keeps of a call would hide the next."""


def counter_on(device: str) -> Callable[[], tuple[int, int]] | None:
    """Have everything run on the device, and return the counter of its memory if it has one."""
    gpus = tf.config.list_physical_devices("GPU")
    if device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return None
    if not gpus:
        raise Unavailable(f"TensorFlow {tf.__version__} finds no GPU here")
    tf.config.experimental.set_memory_growth(gpus[0], True)
    return device_bytes


def device_bytes() -> tuple[int, int]:
    """Return the bytes in use on the GPU, and the highest so far."""
    found = tf.config.experimental.get_memory_info("GPU:0")
    return int(found["current"]), int(found["peak"])


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Compute `SquaredExponential()(x) @ v`, as in the paper."""
    counter = counter_on(device)
    x, v = (tf.constant(array) for array in inputs.kernel(n))
    covariance = gpflow.kernels.SquaredExponential()
    shapes = [tf.TensorSpec([None, x.shape[1]], x.dtype), tf.TensorSpec([None], x.dtype)]

    @tf.function(input_signature=shapes)  # type: ignore[untyped-decorator]
    def program(x: Any, v: Any) -> Any:
        return tf.linalg.matvec(covariance(x), v)

    program(x[:FEW], v[:FEW])
    return Run(
        lambda: _fitting(program, x, v).numpy(),
        lambda found: found[some(n, 64)],
        device_bytes=counter,
    )


def _fitting(program: Any, *arguments: Any) -> Any:
    try:
        return program(*arguments)
    except tf.errors.ResourceExhaustedError as error:
        raise MemoryError(str(error)) from error


def _model(problem: dict[str, Any], data: Any) -> Any:
    covariance = gpflow.kernels.SquaredExponential(
        variance=problem["variance"], lengthscales=problem["lengthscales"]
    )
    return gpflow.models.SGPR(
        data,
        covariance,
        inducing_variable=problem["inducing"],
        noise_variance=problem["noise"],
    )


def sgpr(source: str, n: int, m: int, device: str, cap_bytes: int, data: str | None = None) -> Run:
    """Compute value and gradient of `SGPR.training_loss`, for each data point."""
    counter = counter_on(device)
    problem = inputs.sparse_gp(source, n, m, data)
    x, y = problem["x"], problem["y"][:, None]
    held = tuple(tf.Variable(part[:FEW], shape=[None, part.shape[1]]) for part in (x, y))
    model = _model(problem, held)
    place = model.inducing_variable.Z.unconstrained_variable

    @tf.function  # type: ignore[untyped-decorator]
    def value_and_gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss() / tf.cast(tf.shape(held[1])[0], tf.float64)
        return loss, tape.gradient(loss, model.trainable_variables)

    value_and_gradient()
    for variable, part in zip(held, (x, y), strict=True):
        variable.assign(part)

    def values(found: Any) -> Any:
        value, gradient = found
        at = next(i for i, v in enumerate(model.trainable_variables) if v is place)
        return compared(value, gradient[at])

    def call() -> Any:
        value, gradient = _fitting(value_and_gradient)
        value.numpy()  # waits for the GPU
        return value, gradient

    return Run(call, values, device_bytes=counter)


def training(
    source: str,
    n: int,
    m: int,
    steps: int,
    seconds: float,
    device: str,
    cap_bytes: int,
    data: str | None = None,
) -> Run:
    """Train with `gpflow.optimizers.Scipy` and score, as many steps and seconds as ours."""
    counter = counter_on(device)
    problem = inputs.sparse_gp(source, n, m, data)
    about: dict[str, Any] = {}

    def call() -> Any:
        model = _model(problem, (problem["x"], problem["y"][:, None]))
        begun = time.perf_counter()

        def stop_in_time(intermediate_result: Any) -> None:
            if time.perf_counter() - begun > seconds:
                raise StopIteration

        found = gpflow.optimizers.Scipy().minimize(
            model.training_loss,
            model.trainable_variables,
            options={"maxiter": steps},
            callback=stop_in_time,
        )
        mean, variance = (part.numpy()[:, 0] for part in model.predict_y(problem["x_test"]))
        squares = (problem["y_test"] - mean) ** 2
        density = 0.5 * np.log(2 * np.pi * variance) + 0.5 * squares / variance
        about.update(
            rmse=float(np.sqrt(squares.mean())), nlpd=float(density.mean()), evaluations=found.nfev
        )
        return mean

    return Run(call, lambda _: [], about=lambda: about, device_bytes=counter)
