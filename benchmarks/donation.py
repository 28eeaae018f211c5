"""What donation buys a training step in memory, and one program for many steps in time.

    python -m benchmarks.donation [--size small]

Two tables. Memory: the measured peak of a step above its baseline (state, batch, compiled program)
in a fresh process each, with the state donated and without; the difference should be the state.
Time: a number of training steps in one program, or one call for each step, ours and jax's, in turns
in one process.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from benchmarks.framework import jax_framework, tracer_framework
from benchmarks.measure import measure
from benchmarks.programs.adam import TRAINING, adam_step, make, many_steps
from benchmarks.race import has_jax, print_race, race
from examples.display import print_table
from tracer.units import format_bytes

STEPS = 50


@dataclasses.dataclass(frozen=True)
class Saved:
    """What one training step takes, with its state donated and without; in bytes."""

    name: str
    state: int
    donated: int
    kept: int
    copied: int
    copied_before: int

    @property
    def share(self) -> float:
        """What donation takes off the measured peak, as a share of the state."""
        return (self.kept - self.donated) / self.state


def prepare(name: str, size: str, donate: bool, passes: str | None = None) -> Callable[[], Any]:
    """Return what `measure` runs: a step that is given its own results."""
    import tracer

    state, inputs, targets = _on_device(make(name, size))
    step = tracer.compile(
        adam_step(tracer_framework(), TRAINING[name].loss),
        donate_argnums=0 if donate else (),
        passes=passes,
    )
    step.plan(state, inputs, targets)
    held = [state]
    del state

    def run() -> Any:
        held[0], value = step(held[0], inputs, targets)
        value.block_until_ready()
        return value

    return run


def savings(size: str = "full", repeats: int = 3) -> list[Saved]:
    """Measure every training step in fresh processes.

    Parameters
    ----------
    size : {"small", "full"}
    repeats : int
        Steps that are measured.
    """
    return [_saved(name, size, repeats) for name in TRAINING]


def _saved(name: str, size: str, repeats: int) -> Saved:
    import tracer

    peaks = []
    for donate in (True, False):
        arguments = {"name": name, "size": size, "donate": donate}
        found = measure("benchmarks.donation:prepare", arguments=arguments, repeats=repeats)
        if found.peak_bytes is None:
            raise RuntimeError(f"{name}: {found.status}: {found.reason}")
        peaks.append(found.peak_bytes)
    made = make(name, size)
    copied = []
    for passes in (None, "-keep-in-place"):
        function = adam_step(tracer_framework(), TRAINING[name].loss)
        step = tracer.compile(function, donate_argnums=0, passes=passes)
        copied.append(step.plan(*made).aliases.copied_bytes)
    state = sum(array.nbytes for array in tracer.tree.leaves(made[0]))
    return Saved(name, state, *peaks, *copied)


def print_savings(found: list[Saved]) -> None:
    """Print the table of memory."""
    header = (
        "training step", "state", "peak, kept", "peak, donated", "saved, of the state",
        "copied in a step", "without keep-in-place",
    )  # fmt: skip
    rows = [
        (
            row.name,
            *map(format_bytes, (row.state, row.kept, row.donated)),
            f"{row.share:.2f}",
            format_bytes(row.copied),
            format_bytes(row.copied_before),
        )
        for row in found
    ]
    print_table("Donated state: measured peak above the baseline, fresh processes", header, rows)
    print()


def loop_runs(name: str, size: str, steps: int) -> dict[str, Callable[[], Any]]:
    """Return runs of the same number of steps: in one program and call by call."""
    import tracer

    runs = {}
    f, loss = tracer_framework(), TRAINING[name].loss
    whole = tracer.compile(many_steps(f, loss, steps), donate_argnums=0)
    single = tracer.compile(adam_step(f, loss), donate_argnums=0)
    runs["tracer, one program"] = _whole(whole, _on_device(make(name, size, 4)))
    runs["tracer, a call each"] = _single(single, _on_device(make(name, size)), steps)
    if has_jax("training steps"):
        import jax

        f = jax_framework()
        whole = jax.jit(many_steps(f, loss, steps), donate_argnums=0)
        single = jax.jit(adam_step(f, loss), donate_argnums=0)
        runs["jax, one program"] = _whole(whole, jax.device_put(make(name, size, 4)))
        runs["jax, a call each"] = _single(single, jax.device_put(make(name, size)), steps)
    return runs


def _whole(train: Any, arrays: Any) -> Callable[[], Any]:
    held, (_, inputs, targets) = [arrays[0]], arrays

    def run() -> Any:
        held[0], value = train(held[0], inputs, targets)
        return value.block_until_ready()

    return run


def _single(step: Any, arrays: Any, steps: int) -> Callable[[], Any]:
    held, (_, inputs, targets) = [arrays[0]], arrays

    def run() -> Any:
        value: Any = None
        for _ in range(steps):
            held[0], value = step(held[0], inputs, targets)
        return value.block_until_ready()

    return run


def dispatch_runs(donate: bool) -> dict[str, Callable[[], Any]]:
    """Return a call with small arrays whose time is that of the call, for both ways."""
    import tracer
    import tracer.numpy as tnp

    step = tracer.compile(
        lambda state, x: [s + x for s in state], donate_argnums=0 if donate else ()
    )
    held, x = [[tnp.ones(8) for _ in range(10)]], tnp.ones(8)

    def run() -> Any:
        held[0] = step(held[0], x)
        return held[0]

    return {"donated" if donate else "kept": run}


def _on_device(arrays: Any) -> Any:
    import tracer
    import tracer.numpy as tnp

    return tracer.tree.map(tnp.asarray, arrays)


def main(size: str = "full", rounds: int = 5, repeats: int = 3) -> None:
    """Print the tables."""
    print_savings(savings(size, repeats))
    for name in TRAINING:
        times = race(loop_runs(name, "small", STEPS), rounds=rounds)
        print_race(f"{STEPS} training steps, {name}, small", times, ours="tracer, one program")
    runs = {**dispatch_runs(True), **dispatch_runs(False)}
    times = race(runs, rounds=4 * rounds, calls=200)
    print_race("a call with ten small arrays as its state", times, ours="donated")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("small", "full"), default="full")
    main(parser.parse_args().size)
