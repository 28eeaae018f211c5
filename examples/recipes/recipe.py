"""What the recipes share: they are planned, run, checked against NumPy and measured in one way.

A recipe is a script beside this file. What is above its `RECIPE` stands on its page in
docs/recipes, with what the full size prints (docs/generate_recipes.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracer
from tracer.units import format_bytes

STATUS = Path("/proc/self/status")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A program, its data, its limits, and what its results are compared with.

    Attributes
    ----------
    program, data : callable
        What is compiled, and `data(*sizes)`: its arguments, NumPy arrays in tuples and dicts.
    small, full : tuple
        The `memory_limit`, and the sizes that `data` takes.
    check : callable
        `(inputs, results) -> (what was compared, relative error)`, with NumPy in float64.
    tolerance : float
        The largest error that is no fault.
    picture : callable, optional
        `(figure, inputs, results)`: draws results with matplotlib; without it the plan is drawn.
    """

    program: Callable[..., Any]
    data: Callable[..., tuple[Any, ...]]
    small: tuple[Any, ...]
    full: tuple[Any, ...]
    check: Callable[[Any, Any], tuple[str, float]]
    tolerance: float = 1e-4
    picture: Callable[[Any, Any, Any], None] | None = None

    def main(self) -> None:
        """Run the recipe as the command line says, and print what came of it."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", choices=("small", "full"), default="full")
        parser.add_argument("--as-written", action="store_true", help="no limit, nothing split")
        parser.add_argument("--picture", metavar="PATH", help="draw the results, or the plan")
        options = parser.parse_args()
        limit, *sizes = getattr(self, options.size)
        given = {"split": "never"} if options.as_written else {"memory_limit": limit}
        compiled, inputs = tracer.compile(self.program, **given), self.data(*sizes)
        plan = compiled.plan(*inputs)
        print(f"plan:     {said(plan)}")
        results = run(compiled, inputs)
        what, error = self.check(inputs, tracer.tree.map(np.asarray, results))
        print(f"check:    {error:.0e} of the largest value off NumPy in float64 ({what})")
        if options.picture:
            self.draw(options.picture, plan, inputs, results)
        if not error <= self.tolerance:  # NaN is wrong, too
            raise SystemExit(f"more than {self.tolerance:.0e}: the result is wrong")

    def draw(self, path: str, plan: tracer.Plan, inputs: Any, results: Any) -> None:
        """Write the picture of the page."""
        import matplotlib.pyplot as plt
        from PIL import Image

        if self.picture is None:
            plan.plot(path)
        else:
            figure = plt.figure(figsize=(6, 3), layout="constrained")
            self.picture(figure, inputs, tracer.tree.map(np.asarray, results))
            figure.savefig(path, dpi=90)
        # A page needs no more colours, and the file is a third as large.
        Image.open(path).convert("RGB").quantize(32).save(path, optimize=True)


def said(plan: tracer.Plan) -> str:
    """Return what a plan promises, in a line."""
    written = f"{format_bytes(plan.baseline_peak_bytes)} as written"
    if plan.limit_bytes is None:
        return f"{written}, no limit"
    planned, limit = format_bytes(plan.peak_bytes), format_bytes(plan.limit_bytes)
    return f"{written}, {planned} planned, limit {limit}"


def run(compiled: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """Call a compiled function, print what it took, and return its results."""
    arrays = tracer.tree.map(tracer.numpy.asarray, inputs)
    tracer.compile(lambda x: x @ x)(np.ones((64, 64), "float32")).block_until_ready()  # libraries
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the compilation
    before, start = resident("VmRSS"), time.perf_counter()
    results = tracer.block_until_ready(compiled(*arrays))
    seconds, peak = time.perf_counter() - start, resident("VmHWM")
    given = sum(leaf.nbytes for leaf in tracer.tree.leaves(arrays))
    print(
        f"measured: {format_bytes(peak - before)} resident for the call beside "
        f"{format_bytes(given)} of arguments, {seconds:.2g} s\n"
        f"          ({format_bytes(before)} before it: Python, libraries, data)"
    )
    return results


def resident(field: str) -> int:
    """Return resident bytes of this process: now (VmRSS), or the most there were (VmHWM)."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


def relative_error(found: Any, exact: Any) -> float:
    """Return the largest difference, as a part of the largest exact value."""
    return float(np.abs(np.asarray(found) - exact).max() / np.abs(exact).max())
