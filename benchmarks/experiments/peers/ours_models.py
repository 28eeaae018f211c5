"""The targets that run models with tracer: sparse Gaussian processes and the Transformer."""

from __future__ import annotations

from typing import Any

import tracer
import tracer.numpy as tnp
from benchmarks.experiments import inputs
from benchmarks.experiments import transformer_model as model
from benchmarks.experiments.peers.ours import device_bytes, place_on, prepared
from benchmarks.experiments.runs import Run
from benchmarks.experiments.sgpr import compared
from benchmarks.experiments.transformer import step_values, values
from examples import sgpr as example


def _first(problem: dict[str, Any]) -> dict[str, Any]:
    keys = ("lengthscales", "variance", "noise")
    return example.initial_parameters(problem["inducing"], **{key: problem[key] for key in keys})


def sgpr(
    source: str,
    n: int,
    m: int,
    limit: str | None,
    device: str,
    cap_bytes: int,
    data: str | None = None,
) -> Run:
    """Compute value and gradient of the example's loss."""
    place_on(device)
    problem = inputs.sparse_gp(source, n, m, data)

    return prepared(
        tracer.value_and_grad(example.loss),
        (_first(problem), problem["x"], problem["y"]),
        limit,
        lambda found: compared(found[0], found[1]["inducing"]),
        device,
    )


def training(
    source: str,
    n: int,
    m: int,
    steps: int,
    seconds: float,
    limit: str | None,
    device: str,
    cap_bytes: int,
    data: str | None = None,
) -> Run:
    """Train the example's model and score it, compilation included."""
    place_on(device)
    problem = inputs.sparse_gp(source, n, m, data)
    x, y = problem["x"], problem["y"]
    about: dict[str, Any] = {}

    def call() -> Any:
        told: list[str] = []
        trained = example.train(
            _first(problem), x, y, memory_limit=limit, steps=steps, seconds=seconds,
            said=told.append,
        )  # fmt: skip
        predict = tracer.compile(example.predict, memory_limit=limit)
        mean, variance = predict(trained, x, y, problem["x_test"])
        rmse, nlpd = example.scores(mean, variance, problem["y_test"])
        about.update(rmse=rmse, nlpd=nlpd, evaluations=len(told))
        return mean, variance

    return Run(
        call,
        lambda _: [],
        about=lambda: about,
        device_bytes=device_bytes if device != "cpu" else None,
    )


def transformer(
    training: bool, limit: str | None, device: str, cap_bytes: int, **sizes: int
) -> Run:
    """Run the Transformer forward, or take a step of gradient descent."""
    place_on(device)
    shape = model.Shape(**sizes)
    lib = model.Library(
        tnp,
        lambda x: tracer.nn.softmax(x, axis=-1),
        lambda x: tracer.scipy.special.logsumexp(x, axis=-1),
        lambda x, places: tnp.take_along_axis(x, places[..., None], axis=-1)[..., 0],
    )
    parameters, words = model.make_parameters(shape), model.make_words(shape)
    if not training:

        def forward(parameters: Any, inputs: Any, targets: Any) -> Any:
            return model.logits(lib, shape, parameters, inputs, targets)

        given = (parameters, *words[:2])
        return prepared(forward, given, limit, lambda found: values(shape, found), device)

    def step(parameters: Any, *words: Any) -> Any:
        value, gradient = tracer.value_and_grad(
            lambda parameters: model.loss(lib, shape, parameters, *words)
        )(parameters)
        moved = tracer.tree.map(lambda p, g: p - model.RATE * g, parameters, gradient)
        return value, moved, gradient["encoder"][0]["dense"]["hidden"]

    return prepared(
        step,
        (parameters, *words),
        limit,
        lambda found: step_values(shape, found[0], found[2]),
        device,
    )
