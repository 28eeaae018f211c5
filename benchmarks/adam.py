"""Adam over many small parameter arrays: horizontal fusion beside none, and beside `jax.jit`.

The optimiser's step is written as a user writes it, array by array, on a quadratic bowl, so that
it is all there is. Once as a training loop in one executable, which is where an optimiser runs
(`fori_loop`), and once as a single call, where most of the time goes into handing over 800
arguments and 600 results::

    python -m benchmarks.adam                 # 200 arrays, 1,000 steps
    python -m benchmarks.adam --size small

Each contender has a process of its own, and they take turns (`benchmarks.turns`); ratios are
medians over turns. Values are compared with NumPy's in float64.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.race import has_jax, short_time
from benchmarks.turns import ratio, take_turns
from examples.display import print_table

SIZES = {
    "small": {"arrays": 40, "steps": 200, "turns": 5},
    "full": {"arrays": 200, "steps": 1_000, "turns": 15},
}
SHAPES = ((8,), (16,), (8, 8), (32,))
"""Biases, scales of norms, small matrices."""
WITHOUT = "-horizontal-fusion"
HEADER = ("program", "contender", "kernels a trip", "seconds", "times ours", "error")


@dataclass(frozen=True)
class Row:
    """One contender: `kernels` in the compiled text of one step, `seconds` of one call."""

    program: str
    contender: str
    kernels: int | None
    seconds: float | None
    times_ours: float | None
    error: float | None


def adam(np_: Any, state: Any, targets: Any) -> Any:
    """Take one step of Adam (Kingma & Ba 2015) towards the targets; returns the new state."""
    step, parameters, means, squares = state
    new: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for p, m, v, target in zip(parameters, means, squares, targets, strict=True):
        gradient = p - target
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient * gradient
        scale = np_.sqrt(v / (1 - 0.999**step)) + 1e-8
        for kind, value in zip(new, (p - 1e-3 * (m / (1 - 0.9**step)) / scale, m, v), strict=True):
            kind.append(value)
    return (step + 1, *new)


def arrays_of(arrays: int, dtype: str = "float32") -> tuple[Any, Any]:
    """Return the first state and the targets, the same in every process."""
    rng = np.random.default_rng(0)
    shapes = [SHAPES[i % len(SHAPES)] for i in range(arrays)]
    parameters, targets = (
        [rng.standard_normal(shape).astype(dtype) for shape in shapes] for _ in range(2)
    )
    zeros = [np.zeros(shape, dtype) for shape in shapes]
    return (np.asarray(1, dtype), parameters, zeros, list(zeros)), targets


def written(np_: Any, fori_loop: Any, steps: int) -> Callable[[Any, Any], Any]:
    """Return the program: one step, or a loop of several."""
    if steps == 1:
        return lambda state, targets: adam(np_, state, targets)
    return lambda state, targets: fori_loop(
        0, steps, lambda _, state: adam(np_, state, targets), state
    )


def compiled(contender: str, arrays: int, steps: int) -> tuple[Callable[[], Any], str]:
    """Return a contender's call and its compiled text."""
    state, targets = arrays_of(arrays)
    if contender == "jax.jit":
        import jax

        program = jax.jit(written(jax.numpy, jax.lax.fori_loop, steps))
        given = jax.tree.map(jax.numpy.asarray, (state, targets))
        text = program.lower(*given).compile().as_text()
        return lambda: jax.block_until_ready(program(*given)), text
    import tracer
    import tracer.numpy as tnp

    passes = None if contender == "ours" else WITHOUT
    ours = tracer.compile(written(tnp, tracer.fori_loop, steps), passes=passes)
    leaves, structure = tracer.tree.flatten((state, targets))
    given = tracer.tree.unflatten(structure, [tnp.asarray(leaf) for leaf in leaves])
    # The client computes before it returns, so a call is over when it is back.
    return lambda: ours(*given), ours.hlo(*given)


def contender(**arguments: Any) -> Callable[[], Any]:
    """Return a call, as `benchmarks.turns` wants it."""
    return compiled(**arguments)[0]


def kernels_of(text: str) -> int:
    """Count the kernels of a step: of the loop's body, or of the whole when there is no loop."""
    found = re.search(r" while\(.*body=%?([\w.\-]+)", text)
    name = re.escape(found[1]) if found else r"\S+"
    start = re.search(rf"^{'' if found else 'ENTRY '}%?{name} .*\{{$", text, re.MULTILINE)
    assert start is not None, "XLA's text has another form"
    body = text[start.end() : text.index("\n}", start.end())]
    return len(re.findall(r" (?:fusion|copy|concatenate|slice)\(", body))


def error_of(values: Any, arrays: int, steps: int) -> float:
    """Return the largest difference of the parameters from NumPy's in float64."""
    state, targets = arrays_of(arrays, "float64")
    for _ in range(steps):
        state = adam(np, state, targets)
    pairs = zip(values[1], state[1], strict=True)
    return max(float(np.abs(np.asarray(got) - want).max()) for got, want in pairs)


def table(*, arrays: int, steps: int, turns: int) -> list[Row]:
    """Run all contenders on both programs and return a row for each."""
    names = ["ours", "ours, pass off", *(["jax.jit"] if has_jax("adam") else [])]
    rows = []
    for program, count in ((f"loop of {steps:,} steps", steps), ("one step a call", 1)):
        size = {"arrays": arrays, "steps": count}
        found = take_turns(
            {n: ("benchmarks.adam:contender", {"contender": n, **size}) for n in names},
            turns=turns,
            enough_seconds=60,
            cap_bytes=8 << 30,
            timeout=300,
        )
        for name in names:
            run, text = compiled(name, arrays, count)
            times = ratio(found[name], found["ours"])
            seconds, kernels = found[name].median, kernels_of(text)
            error = error_of(run(), arrays, count)
            rows.append(Row(program, name, kernels, seconds, times, error))
    return rows


def main(size: str = "full") -> list[Row]:
    """Print the table."""
    rows = table(**SIZES[size])
    cells = [
        (
            row.program,
            row.contender,
            str(row.kernels),
            "failed" if row.seconds is None else short_time(row.seconds),
            "" if row.times_ours is None else f"{row.times_ours:.2f}",
            f"{row.error:.1e}",
        )
        for row in rows
    ]
    print_table(f"Adam over {SIZES[size]['arrays']} arrays", HEADER, cells)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    main(parser.parse_args().size)
