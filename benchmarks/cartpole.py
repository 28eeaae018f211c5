"""Cartpole: 2,048 environments for 10,000 steps, in the strategies of the seed paper.

Snider & Liang, "Operator Fusion in XLA: Analysis and Evaluation" (2023), write the simulator in
JAX and make it 10.56 times faster by hand: random numbers drawn before the loop, no concatenate in
the state, the loop unrolled by 10. Here the compiler gets the naive code, and its passes are
switched on one after the other; beside them the same code, and the same strategies by hand, in JAX
and PyTorch::

    python -m benchmarks.cartpole --torch /opt/venvs/arrayapi/bin/python
    python -m benchmarks.cartpole --size small

Every row has a process of its own, and they take turns (`benchmarks.turns`); ratios are medians
over turns. Each compares its values with NumPy's in float64 first, over 40 steps.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.cartpole_programs import PASSES
from benchmarks.turns import ratio, take_turns
from examples.display import print_table

SIZES = {
    "small": {"environments": 256, "steps": 400, "turns": 3},
    "full": {"environments": 2048, "steps": 10_000, "turns": 7},
}
BASE = ("jax.jit", "naive")
BY_HAND = ("naive", "without concatenate, by hand", "by hand, unrolled by 10")
STRATEGIES = {
    "ours": tuple(PASSES),
    "jax.jit": (*BY_HAND, "random numbers in the loop"),
    "torch, eager": BY_HAND[:2],
    "torch.compile": BY_HAND[:2],
}
TOLERANCE = 1e-4
HEADER = ("strategy", "system", "million steps/s", "times jax.jit, naive", "")


@dataclass(frozen=True)
class Row:
    """One strategy in one system: environment steps a second, and the ratio to `jax.jit`'s naive.

    `reason` says why there is no figure.
    """

    strategy: str
    system: str
    steps_per_second: float | None
    ratio: float | None
    reason: str = ""


def interpreters(jax: str | None = None, torch: str | None = None) -> dict[str, str]:
    """Return the systems that can run with the interpreters that have them."""
    found = {"ours": sys.executable}
    here = {name: sys.executable for name in ("jax", "torch") if importlib.util.find_spec(name)}
    for names, python in (
        (("jax.jit",), jax or here.get("jax")),
        (("torch, eager", "torch.compile"), torch or here.get("torch")),
    ):
        if python is None:
            print(f"cartpole: no {' and '.join(names)}: name an interpreter that has it")
        else:
            found.update(dict.fromkeys(names, python))
    return found


def table(size_name: str = "full", pythons: Mapping[str, str] | None = None) -> list[Row]:
    """Run all strategies in all systems; returns a row for each."""
    size = dict(SIZES[size_name])
    turns = size.pop("turns")
    systems = {"ours": sys.executable} if pythons is None else pythons
    keys = [(system, strategy) for system in systems for strategy in STRATEGIES[system]]
    found = take_turns(
        {
            f"{system}: {strategy}": (
                "benchmarks.cartpole_programs:contender",
                {"system": system, "strategy": strategy, "checked": TOLERANCE, **size},
            )
            for system, strategy in keys
        },
        turns=turns,
        enough_seconds=240,
        cap_bytes=16 << 30,
        timeout=300,
        pythons={f"{system}: {strategy}": systems[system] for system, strategy in keys},
    )
    base = found.get(": ".join(BASE))
    count = size["environments"] * size["steps"]
    rows = []
    for system, strategy in keys:
        mine = found[f"{system}: {strategy}"]
        speed = None if mine.median is None else count / mine.median
        times = None if base is None else ratio(base, mine)
        rows.append(Row(strategy, system, speed, times, mine.reason))
    return rows


def print_rows(rows: list[Row], title: str) -> None:
    """Print the table, strategy by strategy."""
    order = {strategy: i for i, strategy in enumerate(PASSES)}
    cells = [
        (
            row.strategy,
            row.system,
            "" if row.steps_per_second is None else f"{row.steps_per_second / 1e6:.1f}",
            "" if row.ratio is None else f"{row.ratio:.2f}",
            row.reason[:60],
        )
        for row in sorted(rows, key=lambda row: order[row.strategy])
    ]
    print_table(title, HEADER, cells)


def main(size: str = "full", *, jax: str | None = None, torch: str | None = None) -> list[Row]:
    """Print the table."""
    rows = table(size, interpreters(jax, torch))
    given = SIZES[size]
    title = f"Cartpole: {given['environments']:,} environments, {given['steps']:,} steps"
    print_rows(rows, title)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--jax", metavar="PYTHON", help="an interpreter that has JAX")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    main(options.size, jax=options.jax, torch=options.torch)
