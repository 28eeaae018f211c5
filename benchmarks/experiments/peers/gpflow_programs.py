"""GPflow 2 on TensorFlow: the library's own code, as its users call it."""

from __future__ import annotations

import time
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.experiments.sgpr import direction
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


def _model(problem: dict[str, Any]) -> Any:
    covariance = gpflow.kernels.SquaredExponential(
        variance=problem["variance"], lengthscales=problem["lengthscales"]
    )
    return gpflow.models.SGPR(
        (problem["x"], problem["y"][:, None]),
        covariance,
        inducing_variable=problem["inducing"],
        noise_variance=problem["noise"],
    )


def sgpr(source: str, n: int, m: int, device: str, cap_bytes: int, data: str | None = None) -> Run:
    """Compute value and gradient of `SGPR.training_loss`, for each data point."""
    problem = inputs.sparse_gp(source, n, m, data)
    model = _model(problem)
    place = model.inducing_variable.Z.unconstrained_variable

    def value_and_gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss() / len(problem["y"])
        return loss, tape.gradient(loss, model.trainable_variables)

    program = _traced(value_and_gradient, cap_bytes)

    def values(found: Any) -> Any:
        value, gradient = found
        at = next(i for i, v in enumerate(model.trainable_variables) if v is place)
        slope = np.vdot(gradient[at].numpy(), direction(*problem["inducing"].shape))
        return [float(value), float(slope)]

    return Run(program, values)


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
    problem = inputs.sparse_gp(source, n, m, data)
    about: dict[str, Any] = {}

    def call() -> Any:
        model = _model(problem)
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

    return Run(call, lambda _: [], about=lambda: about)
