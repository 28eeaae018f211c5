"""Learning rates that change with the step, in optax's names and meanings."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tracer.numpy as tnp
from tracer.array.convert import array_or_number
from tracer.errors import ArgumentError, DTypeError, RangeError, shown

Schedule = Callable[[Any], Any]
"""From the number of steps before this one, a real number, to a factor."""


def at_step(schedule: Schedule, count: Any, dtype: Any) -> Any:
    """Return a schedule's value at an integer step, in floats of a dtype, float32 at least."""
    return tnp.asarray(schedule(count.astype(tnp.promote_types(dtype, "float32"))))


def _of_steps(schedule: Schedule) -> Schedule:
    """Refuse steps that are no real numbers."""

    @functools.wraps(schedule)
    def of_step(step: Any) -> Any:
        number = array_or_number(step)
        if not tnp.isrealobj(number) or tnp.result_type(number).names is not None:
            raise DTypeError(
                f"a schedule's step is {shown(step)}, not a real number",
                mend="give the number of steps before this one",
            )
        try:
            return schedule(number)
        except OverflowError as error:
            raise RangeError(
                f"a schedule's step is {shown(step)}, too large", mend="give a number of steps"
            ) from error

    return of_step


def constant_schedule(value: float) -> Schedule:
    """Return the same value at each step."""

    @_of_steps
    def schedule(step: Any) -> Any:
        return value + 0 * step

    return schedule


def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """Go from one value to another along a power of the steps left, then stay.

    With no steps to go the first value stays, as in optax.
    """
    if transition_steps <= 0:
        return constant_schedule(init_value)

    @_of_steps
    def schedule(step: Any) -> Any:
        done = tnp.clip(step - transition_begin, 0, transition_steps) / transition_steps
        return (init_value - end_value) * (1 - done) ** power + end_value

    return schedule


def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Go from one value to another in equal steps, then stay."""
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Multiply by `decay_rate` in each `transition_steps`, in small steps or (staircase) at once.

    With no steps to go, or a rate of zero, the first value stays, as in optax.
    """
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)

    @_of_steps
    def schedule(step: Any) -> Any:
        periods = (step - transition_begin) / transition_steps
        exponent = tnp.floor(periods) if staircase else periods
        value = tnp.where(step <= transition_begin, init_value, init_value * decay_rate**exponent)
        if end_value is None:
            return value
        bound = tnp.maximum if decay_rate < 1 else tnp.minimum
        return bound(value, end_value)

    return schedule


def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Go down along half a cosine to `alpha` times the first value, then stay."""
    if decay_steps <= 0:
        raise ArgumentError(
            f"a cosine takes a positive number of steps to go down, not {decay_steps}",
            mend="give more steps than those of the warm-up, if there is one",
        )

    @_of_steps
    def schedule(step: Any) -> Any:
        share = tnp.clip(step, 0, decay_steps) / decay_steps
        decayed = (0.5 * (1 + tnp.cos(math.pi * share))) ** exponent
        return init_value * ((1 - alpha) * decayed + alpha)

    return schedule


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Go up in equal steps to the peak, then down along half a cosine; `decay_steps` in all."""
    alpha = 0.0 if peak_value == 0 else end_value / peak_value
    return join_schedules(
        [
            linear_schedule(init_value, peak_value, warmup_steps),
            cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent),
        ],
        [warmup_steps],
    )


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """Multiply by a factor at each of some steps."""

    @_of_steps
    def schedule(step: Any) -> Any:
        value = init_value + 0 * step
        for boundary, factor in sorted((boundaries_and_scales or {}).items()):
            value = tnp.where(step >= boundary, value * factor, value)
        return value

    return schedule


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Use one schedule after the other; each begins to count at its boundary."""
    if len(boundaries) != len(schedules) - 1:
        raise ArgumentError(
            f"{len(schedules)} schedules have {len(schedules) - 1} boundaries between them, not "
            f"{len(boundaries)}",
            mend="give the step at which each schedule but the first begins",
        )

    @_of_steps
    def schedule(step: Any) -> Any:
        value = schedules[0](step)
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            value = tnp.where(step < boundary, value, later(step - boundary))
        return value

    return schedule


__all__ = [
    "Schedule",
    "at_step",
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "join_schedules",
    "linear_schedule",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "warmup_cosine_decay_schedule",
]
