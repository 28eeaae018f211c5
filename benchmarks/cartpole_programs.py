"""The Cartpole simulator of `benchmarks.cartpole`, in the ways that it can be written.

Equations and constants are those of Barto, Sutton & Anderson (1983) as in Gym's `cartpole.py`:
explicit Euler steps of 0.02 s, an episode ends at 2.4 m or 12 degrees. Actions and the states that
episodes begin with come from pools of random numbers drawn before, as in the seed paper's baseline.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FARTHEST, STEEPEST = 2.4, 12 * 2 * np.pi / 360
POOL = 64
"""Rows of the pools; step i uses row i modulo this."""
WITHOUT = "-scalar-replacement,-small-calls,-loop-interchange,-loop-unrolling"
PASSES = {
    "naive": WITHOUT,
    "naive, scalar replacement": "-small-calls,-loop-interchange,-loop-unrolling",
    "naive, small calls too": "-loop-interchange",
    "naive, all passes": None,
    "without concatenate, by hand": WITHOUT,
    "by hand, unrolled by 10": WITHOUT,
    "random numbers in the loop": WITHOUT,
    "random numbers in the loop, all passes": None,
}
"""What runs of ours, by strategy; None: the default."""


def forces(np_: Any, action: Any) -> Any:
    return np_.where(action > 0.5, np.float32(FORCE), np.float32(-FORCE))


def moved(np_: Any, x: Any, v: Any, angle: Any, turn: Any, force: Any) -> tuple[Any, ...]:
    """Return position, speed, angle and turning speed after a step."""
    cosine, sine = np_.cos(angle), np_.sin(angle)
    total = CART + POLE
    push = (force + POLE * HALF_LENGTH * turn * turn * sine) / total
    inertia = HALF_LENGTH * (4 / 3 - POLE * cosine * cosine / total)
    turned = (GRAVITY * sine - cosine * push) / inertia
    pushed = push - POLE * HALF_LENGTH * turned * cosine / total
    return x + STEP * v, v + STEP * pushed, angle + STEP * turn, turn + STEP * turned


def is_over(np_: Any, x: Any, angle: Any) -> Any:
    return (np_.abs(x) > FARTHEST) | (np_.abs(angle) > STEEPEST)


def naive_step(np_: Any, state: Any, action: Any, start: Any) -> Any:
    """Take a step of a stacked state, (environments, 4): the code as one writes it."""
    x, v, angle, turn = state[:, 0], state[:, 1], state[:, 2], state[:, 3]
    new = np_.stack(moved(np_, x, v, angle, turn, forces(np_, action)), axis=1)
    over = is_over(np_, new[:, 0], new[:, 2])
    return np_.where(over[:, None], start, new)


def parted_step(np_: Any, state: Sequence[Any], action: Any, start: Any) -> tuple[Any, ...]:
    """Take the same step of four arrays."""
    new = moved(np_, *state, forces(np_, action))
    over = is_over(np_, new[0], new[2])
    return tuple(np_.where(over, start[:, k], part) for k, part in enumerate(new))


def naive(np_: Any, fori_loop: Any, steps: int) -> Callable[[Any, Any, Any], Any]:
    def run(state: Any, actions: Any, starts: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            return naive_step(np_, carry, actions[i % POOL], starts[i % POOL])

        return fori_loop(0, steps, body, state)

    return run


def by_hand(np_: Any, fori_loop: Any, steps: int) -> Callable[[Any, Any, Any], Any]:
    def run(state: Any, actions: Any, starts: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            return parted_step(np_, carry, actions[i % POOL], starts[i % POOL])

        parts = fori_loop(0, steps, body, tuple(state[:, k] for k in range(4)))
        return np_.stack(parts, axis=1)

    return run


def drawing(
    np_: Any, fori_loop: Any, steps: int, draw: Callable[[Any, int], Any]
) -> Callable[[Any, Any, Any], Any]:
    """Return the naive program with actions that are drawn in the loop."""

    def run(state: Any, actions: Any, starts: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            action = draw(i, state.shape[0])
            return naive_step(np_, carry, action, starts[i % POOL])

        return fori_loop(0, steps, body, state)

    return run


def arrays(environments: int, dtype: str = "float32") -> tuple[Any, Any, Any]:
    """Return states, actions and starts, the same in every process."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-0.05, 0.05, (environments, 4))
    actions = rng.uniform(0, 1, (POOL, environments))
    starts = rng.uniform(-0.05, 0.05, (POOL, environments, 4))
    rounded = [array.astype(np.float32).astype(dtype) for array in (states, actions, starts)]
    return rounded[0], rounded[1], rounded[2]


def written(np_: Any, loop: Any, draw: Any, strategy: str, steps: int) -> Callable[..., Any]:
    """Return the program of a strategy in a framework."""
    if strategy.startswith("random"):
        return drawing(np_, loop, steps, draw)
    if strategy.endswith("unrolled by 10"):
        return by_hand(np_, functools.partial(loop, unroll=10), steps)
    return (by_hand if "by hand" in strategy else naive)(np_, loop, steps)


def in_tracer(strategy: str, environments: int, steps: int) -> Callable[[], Any]:
    import tracer
    import tracer.numpy as tnp

    key = tracer.random.key(0)

    def draw(i: Any, count: int) -> Any:
        return tracer.random.uniform(tracer.random.fold_in(key, i), (count,), dtype="float32")

    program = written(tnp, tracer.fori_loop, draw, strategy, steps)
    run = tracer.compile(program, passes=PASSES[strategy])
    given = [tnp.asarray(array) for array in arrays(environments)]
    return lambda: np.asarray(run(*given))


def in_jax(strategy: str, environments: int, steps: int) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)

    def draw(i: Any, count: int) -> Any:
        return jax.random.uniform(jax.random.fold_in(key, i), (count,))

    run = jax.jit(written(jnp, jax.lax.fori_loop, draw, strategy, steps))
    given = [jnp.asarray(array) for array in arrays(environments)]
    return lambda: np.asarray(run(*given))


def in_torch(strategy: str, environments: int, steps: int, compiled: bool) -> Callable[[], Any]:
    """Return a loop in Python over steps, each run op by op or compiled."""
    import torch

    def naive_torch(state: Any, action: Any, start: Any) -> Any:
        force = torch.where(action > 0.5, FORCE, -FORCE)
        new = torch.stack(moved(torch, *state.unbind(1), force), dim=1)
        over = is_over(torch, new[:, 0], new[:, 2])
        return torch.where(over[:, None], start, new)

    def parted_torch(state: Any, action: Any, start: Any) -> Any:
        force = torch.where(action > 0.5, FORCE, -FORCE)
        new = moved(torch, *state, force)
        over = is_over(torch, new[0], new[2])
        return tuple(torch.where(over, start[:, k], part) for k, part in enumerate(new))

    is_parted = "by hand" in strategy
    step: Any = parted_torch if is_parted else naive_torch
    step = torch.compile(step) if compiled else step
    states, actions, starts = (torch.from_numpy(array) for array in arrays(environments))

    def run() -> Any:
        with torch.no_grad():
            state = tuple(states.unbind(1)) if is_parted else states
            for i in range(steps):
                state = step(state, actions[i % POOL], starts[i % POOL])
            return (torch.stack(state, dim=1) if is_parted else state).numpy()

    return run


def made(system: str, strategy: str, environments: int, steps: int) -> Callable[[], Any]:
    """Return the call of a contender."""
    if system == "ours":
        return in_tracer(strategy, environments, steps)
    if system == "jax.jit":
        return in_jax(strategy, environments, steps)
    return in_torch(strategy, environments, steps, compiled=system == "torch.compile")


SHORT = 40
"""Steps after which values are compared: the dynamics are chaotic later."""


def error(system: str, strategy: str) -> float:
    """Return the largest difference from NumPy's float64 for a few environments."""
    found = made(system, strategy, 16, SHORT)()
    state, actions, starts = arrays(16, "float64")
    for i in range(SHORT):
        state = naive_step(np, state, actions[i], starts[i])
    return float(np.abs(found - state).max())


def contender(
    system: str, strategy: str, environments: int, steps: int, checked: float
) -> Callable[[], Any]:
    """Return the call for `benchmarks.turns`, after a check of its values."""
    if not strategy.startswith("random"):
        off = error(system, strategy)
        assert off < checked, f"{system}, {strategy}: {off} from NumPy's values"
    return made(system, strategy, environments, steps)
