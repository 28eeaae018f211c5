"""The language Transformer at growing length: section 5.4 and figure 4 of the paper.

Forward as there, and a training step, which is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.experiments.records import OURS, Case, Settings, System
from benchmarks.experiments.runs import Array, some
from benchmarks.experiments.transformer_model import (
    Shape,
    logits,
    loss,
    make_parameters,
    make_words,
    numpy_library,
)

FORWARD, TRAINING = "Transformer, forward", "Transformer, training step"
SHAPES = {
    "small": {"layers": 1, "width": 64, "heads": 4, "hidden": 128, "words": 500, "batch": 2},
    "full": {"layers": 6, "width": 512, "heads": 8, "hidden": 2048, "words": 8_000, "batch": 8},
}
LENGTHS = {
    FORWARD: {"small": (64, 512), "full": (128, 256, 512, 1_024, 2_048, 4_096, 7_000)},
    TRAINING: {"small": (64, 256), "full": (128, 256, 512, 1_024, 2_048)},
}
LIMITS = {
    FORWARD: {"small": "16MB", "full": "4GB"},
    TRAINING: {"small": "32MB", "full": "6GB"},
}
CHECKED_LENGTHS = {FORWARD: 2_048, TRAINING: 512}
"""NumPy's float64 stores the scores of one sentence."""
STEP = 1e-6
LOSS_DIGITS = 100
"""The loss must be so many times more exact than its derivative."""
PEERS: tuple[tuple[str, str, tuple[str, ...], dict[str, bool]], ...] = (
    ("jax.jit", "jax_models:transformer", ("jax",), {}),
    ("torch, eager", "torch_models:transformer", ("torch",), {"compiled": False, "fused": False}),
    ("torch.compile", "torch_models:transformer", ("torch",), {"compiled": True, "fused": False}),
    (
        "torch, its fused attention",
        "torch_models:transformer",
        ("torch",),
        {"compiled": False, "fused": True},
    ),
)


def forward_cases(settings: Settings) -> Iterator[Case]:
    """Yield the forward pass at each length."""
    yield from _cases(settings, FORWARD, _expected_logits, 1e-3)


def training_cases(settings: Settings) -> Iterator[Case]:
    """Yield a training step at each length."""
    yield from _cases(settings, TRAINING, _expected_step, 1e-2)


def _cases(
    settings: Settings, name: str, expected: Callable[[Shape], Any], tolerance: float
) -> Iterator[Case]:
    limit = LIMITS[name][settings.size]
    for length in LENGTHS[name][settings.size]:
        shape = Shape(**SHAPES[settings.size], length=length)
        checked = length <= CHECKED_LENGTHS[name]
        ours = (
            System(f"{OURS}, {said or 'no limit'}", "ours_models:transformer", (), {"limit": said})
            for said in (limit, None)
        )
        yield Case(
            name,
            f"length {length:,}",
            {**asdict(shape), "training": name == TRAINING},
            (*ours, *(System(*peer) for peer in PEERS)),
            (lambda shape=shape: expected(shape)) if checked else None,  # type: ignore[misc]
            tolerance,
        )


def values(shape: Shape, found: Any) -> Array:
    """Return some of the first sentence's logits."""
    few: Array = np.asarray(found)[0][some(shape.length, 8), :16]
    return few


def _expected_logits(shape: Shape) -> Array:
    words = (sentences[:1] for sentences in make_words(shape)[:2])
    return values(shape, logits(numpy_library(), shape, _in_float64(shape), *words))


def direction(shape: Shape) -> Array:
    """Return the direction of the first dense layer's weights in which gradients are compared."""
    return np.random.default_rng(5).standard_normal((shape.width, shape.hidden))


def step_values(shape: Shape, value: Any, gradient: Any) -> list[float]:
    """Return the loss and its derivative in that direction."""
    return [float(value), float(np.vdot(np.asarray(gradient, np.float64), direction(shape)))]


def _expected_step(shape: Shape) -> Callable[[Any], float]:
    middle, less, more = (_loss_at(shape, step) for step in (0, -STEP, STEP))
    slope = (more - less) / (2 * STEP)

    def error(found: Any) -> float:
        value, derivative = found
        of_slope = abs(derivative - slope) / (abs(slope) + 1e-3)
        worst = max(LOSS_DIGITS * abs(value / middle - 1), of_slope)
        return float("inf") if np.isnan(worst) else float(worst)

    return error


def _loss_at(shape: Shape, step: float) -> float:
    parameters = _in_float64(shape)
    parameters["encoder"][0]["dense"]["hidden"] += step * direction(shape)
    sentences = make_words(shape)
    each = [
        loss(numpy_library(), shape, parameters, *(part[i : i + 1] for part in sentences))
        for i in range(shape.batch)
    ]
    return float(np.mean(each))


def _in_float64(shape: Shape) -> Any:
    def deeply(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: deeply(part) for key, part in value.items()}
        if isinstance(value, list):
            return [deeply(part) for part in value]
        return value.astype(np.float64)

    return deeply(make_parameters(shape))
