"""VGG19, forward and backward: instructions before and after XLA's optimisation, and seconds.

The network and the loss are those of Fischer & Saba, "Automatic Full Compilation of Julia Programs
and ML Models to Cloud TPUs" (2018): 16 convolutions, 3 dense layers, softmax; backward is the
derivative of the sum of the outputs with respect to the model (here of the logits: the sum of a
softmax is a constant)::

    python -m benchmarks.vgg19 --torch /opt/venvs/arrayapi/bin/python
    python -m benchmarks.vgg19 --size small

Counts stand beside the paper's table: "optimised" there is "without HLO fusion", so XLA's pass is
switched off for it and counted again with it. Seconds are taken in turns by processes of their own
(`benchmarks.turns`): ours, `jax.jit` of the same text, and eager PyTorch. Values of the forward
pass are compared with NumPy's in float64, gradients with JAX's.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.race import short_time
from benchmarks.turns import ratio, take_turns
from benchmarks.vgg19_programs import (
    make_images,
    make_parameters,
    network,
    numpy_library,
    our_program,
    run_jax,
    run_ours,
    softmax,
)
from examples.display import print_table

SIZES = {
    "small": {"width": 8, "side": 32, "hidden": 128, "classes": 100, "turns": 5},
    "full": {"width": 64, "side": 224, "hidden": 4096, "classes": 1000, "turns": 5},
}
PAPER = {
    "forward": {"as written": (183, 361), "optimised, no fusion": (130, 242)},
    "backward": {"as written": (577, 2775), "optimised, no fusion": (362, 925)},
}
"""Instructions in the entry computation and in all of them (the paper's first table)."""


def instructions(text: str) -> tuple[int, int]:
    """Count the instructions of an HLO text: in the entry computation, and in all."""
    entry = text[text.index("\nENTRY ") :]
    entry = entry[: entry.index("\n}")]
    pattern = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", re.MULTILINE)
    return len(pattern.findall(entry)), len(pattern.findall(text))


def counts(direction: str, batch: int, size: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Count our program's instructions at three stages, as the paper does."""
    from jaxlib import _jax

    from tracer import lowering, tree
    from tracer.array.trace import trace
    from tracer.ir import ShapeDtype
    from tracer.optimizer.pipeline import PlannerOptions
    from tracer.optimizer.planner import Planner

    given = (make_parameters(**size), make_images(batch, size["side"]))
    types = tree.map(lambda array: ShapeDtype(array.shape, array.dtype), given)
    traced = trace(our_program(direction), types).graph
    hlo = _jax.mlir.mlir_module_to_xla_computation(
        lowering.stablehlo(traced), use_tuple_args=False, return_tuple=False
    ).as_hlo_text()
    planned = Planner(traced, PlannerOptions(split=False)).graph
    unfused = lowering.compile_graph(planned, options={"xla_disable_hlo_passes": "fusion"})
    return {
        "as written": instructions(hlo),
        "optimised, no fusion": instructions(unfused.hlo()),
        "optimised": instructions(lowering.compile_graph(planned).hlo()),
    }


def error(direction: str, batch: int, size: dict[str, Any]) -> float | None:
    """Return our relative error: against NumPy's float64, of gradients against JAX's."""
    found = run_ours(direction, batch, size)()
    if direction == "forward":
        parameters = make_parameters(**size, dtype="float64")
        images = make_images(batch, size["side"]).astype(np.float64)
        want = [softmax(np, network(numpy_library(), parameters, images))]
        got = [np.asarray(found)]
    elif importlib.util.find_spec("jax") is None:
        return None
    else:
        want = [np.asarray(v) for pair in run_jax(direction, batch, size)() for v in pair]
        got = [np.asarray(v) for pair in found for v in pair]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, want, strict=True))


@dataclass(frozen=True)
class Row:
    """One direction and batch: our instructions, seconds of all, ratios to ours, our error."""

    direction: str
    batch: int
    counts: dict[str, tuple[int, int]]
    seconds: dict[str, float | None]
    ratios: dict[str, float | None]
    error: float | None


def table(
    size_name: str = "full", batches: Sequence[int] = (1, 10), torch_python: str | None = None
) -> list[Row]:
    """Count and time both directions and all batches."""
    size: dict[str, Any] = dict(SIZES[size_name])
    turns = size.pop("turns")
    names = ["ours"]
    if importlib.util.find_spec("jax") is not None:
        names.append("jax.jit")
    if torch_python is not None:
        names.append("torch, eager")
    pythons = {} if torch_python is None else {"torch, eager": torch_python}
    rows = []
    for direction in PAPER:
        for batch in batches:
            order = {"direction": direction, "batch": batch, "size": size}
            found = take_turns(
                {n: ("benchmarks.vgg19_programs:contender", {"name": n, **order}) for n in names},
                turns=turns,
                enough_seconds=60,
                cap_bytes=16 << 30,
                timeout=300,
                pythons=pythons,
            )
            rows.append(
                Row(
                    direction,
                    batch,
                    counts(direction, batch, size),
                    {name: found[name].median for name in names},
                    {name: ratio(found[name], found["ours"]) for name in names},
                    error(direction, batch, size) if batch == min(batches) else None,
                )
            )
    return rows


def print_rows(rows: Sequence[Row]) -> None:
    """Print the counts beside the paper's, and the seconds."""
    first = {row.direction: row for row in reversed(rows)}
    print_table(
        "VGG19: instructions in the entry computation / in all",
        ("direction", "stage", "ours", "Julia's (paper)"),
        [
            (direction, stage, "/".join(map(str, count)), _paper(direction, stage))
            for direction, row in first.items()
            for stage, count in row.counts.items()
        ],
    )
    print()
    print_table(
        "VGG19: seconds",
        ("direction", "batch", "contender", "seconds", "times ours", "our error"),
        [
            (
                row.direction,
                str(row.batch),
                name,
                "failed" if seconds is None else short_time(seconds),
                "" if row.ratios[name] is None else f"{row.ratios[name]:.2f}",
                "" if row.error is None or name != "ours" else f"{row.error:.1e}",
            )
            for row in rows
            for name, seconds in row.seconds.items()
        ],
    )


def _paper(direction: str, stage: str) -> str:
    found = PAPER[direction].get(stage)
    return "" if found is None else "/".join(map(str, found))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    print_rows(table(options.size, options.batch, options.torch))


if __name__ == "__main__":
    main()
