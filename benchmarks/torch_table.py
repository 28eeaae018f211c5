"""Models of PyTorch, limited by tracer, beside eager torch: every output's and gradient's errors.

    python -m benchmarks.torch_table [--only TEXT] [--write PAGE.md]
    python -m benchmarks.torch_table --lines FILE   # keeps what it finds; goes on after a stop

In float64, with dropout and running statistics. `tracer.torch.value_and_grad` computes the loss,
the other outputs and the gradients of all parameters, under 0.7 of the bytes that the program takes
as written; where that is refused, without a limit. A model is right when
each output, gradient and buffer by itself is within 1e-10 (`precision` of its case: 1e-5 where the
package computes parts in float32), absolute or relative to the tensor's largest element.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import tracer.torch
from benchmarks.output_rows import Row
from benchmarks.torch_comparison import compare
from benchmarks.torch_library_models import library_cases
from benchmarks.torch_loss_models import CASES
from benchmarks.torch_models import Case
from tracer.errors import MemoryLimitError, TracingError, UnsupportedError

SHARE = 0.7
HEAD = ("package", "model", "limit", "values", "gradients", "verdict (tensors)")


@dataclass(frozen=True)
class Line:
    """One model: the share of its bytes, largest errors, and the verdict."""

    package: str
    name: str
    limit: str
    values: str
    gradients: str
    verdict: str

    @property
    def kind(self) -> str:
        """The verdict's first word."""
        return self.verdict.split(" ")[0].rstrip(":")

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the table."""
        cells = (self.package, self.name, self.limit, self.values, self.gradients, self.verdict)
        return tuple(cell.replace("|", "/") for cell in cells)


def line_of(case: Case) -> Line:
    """Try one model."""
    try:
        torch.manual_seed(1)
        model, args = case.make()
        model.train()
        wanted = eager(case, copy.deepcopy(model), args)
        limit, found = limited(case, model, args)
    except (TracingError, UnsupportedError) as error:
        return Line(case.package, case.name, "", "", "", f"refused: {error.what}")
    except Exception as error:  # whatever it is, the table shows it
        text = f"FAILED: {type(error).__name__}: {(str(error) or '-').splitlines()[0]}"
        return Line(case.package, case.name, "", "", "", text)
    rows = [compare(x, y) for x, y in zip(found, wanted, strict=True)]
    values, gradients = rows[0] + rows[2], rows[1]
    wrong = [row.path for row in (*values, *gradients) if not row.is_right(case.precision)]
    verdict = f"WRONG: {', '.join(wrong)}" if wrong else "right"
    verdict += f" ({len(values) + len(gradients)})"
    return Line(case.package, case.name, limit, errors(values), errors(gradients), verdict)


def eager(case: Case, model: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return loss and outputs, gradients and buffers of eager torch."""
    torch.manual_seed(5)
    loss, outputs = case.loss(model, *args)
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    pairs = zip(named.items(), gradients, strict=True)
    found = {name: torch.zeros_like(p) if g is None else g for (name, p), g in pairs}
    return (loss, outputs), found, dict(model.named_buffers())


def limited(
    case: Case, model: torch.nn.Module, args: tuple[Any, ...]
) -> tuple[str, tuple[Any, Any, Any]]:
    """Return the share of the limit that is met, and what `eager` returns, within it."""
    whole = tracer.torch.value_and_grad(case.loss, has_aux=True).plan(model, *args)
    size = f"{whole.baseline_peak_bytes / 1e6:.1f} MB"
    limit = int(SHARE * whole.baseline_peak_bytes)
    step = tracer.torch.value_and_grad(case.loss, has_aux=True, memory_limit=limit)
    share = f"{SHARE:g} of {size}"
    try:
        if whole.argument_bytes + whole.output_bytes < limit:
            step.plan(model, *args)
        else:
            share, step = f"no room, {size}", tracer.torch.value_and_grad(case.loss, has_aux=True)
    except MemoryLimitError:
        share, step = f"refused, {size}", tracer.torch.value_and_grad(case.loss, has_aux=True)
    torch.manual_seed(5)
    value, gradients = step(model, *args)
    return share, (value, gradients, dict(model.named_buffers()))


def errors(rows: Sequence[Row]) -> str:
    """Return the largest absolute and relative errors; some gradients are zero but for rounding."""
    absolute = max((row.absolute for row in rows), default=0.0)
    relative = max((row.relative for row in rows if row.absolute > 1e-15), default=0.0)
    return f"{absolute:.0e}, {relative:.0e}"


def page_of(lines: Sequence[Line], skipped: Sequence[str]) -> str:
    """Return the page."""
    command = "python -m benchmarks.torch_table --write benchmarks/results/torch-programs.md"
    text = [
        "# Models of PyTorch within a limit, beside eager torch",
        "",
        f"`{command}`: loss, outputs, buffers and gradients of all parameters in float64, torch "
        f"{torch.__version__}, {platform.machine()}.",
        "Errors are the largest over the tensors: absolute, and relative to the tensor's largest "
        "element; each tensor is judged by itself. The limit is a share of the bytes that the "
        "program takes as written, by prediction; where it is refused, or no more than arguments "
        "and results take (no room), there is none. transformers computes parts in float32 in any "
        "case: there the two differ by that rounding.",
        summary(lines, skipped),
        "",
        f"| {' | '.join(HEAD)} |",
        "|---" * len(HEAD) + "|",
        *(f"| {' | '.join(line.cells)} |" for line in lines),
        "",
    ]
    return "\n".join(text)


def summary(lines: Sequence[Line], skipped: Sequence[str]) -> str:
    """Count verdicts, and say what is not installed."""
    counts = Counter(line.kind for line in lines)
    text = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    missing = f" Not installed: {'; '.join(skipped)}." if skipped else ""
    return f"{len(lines)} models: {text}.{missing}"


def all_lines(
    cases: Sequence[Case], only: str = "", file: Path | None = None, seconds: float = math.inf
) -> list[Line]:
    """Try models, in float64, but those that a file knows; begin none after so many seconds."""
    started = time.monotonic()
    kept = file.read_text().splitlines() if file is not None and file.exists() else []
    known = {(line.package, line.name): line for line in (Line(**json.loads(x)) for x in kept)}
    chosen = [case for case in cases if only in f"{case.package} {case.name}"]
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the packages
            for case in chosen:
                name = (case.package, case.name)
                if name not in known and time.monotonic() - started < seconds:
                    known[name] = _tried(case, file)
    finally:
        torch.set_default_dtype(before)
    return [known[name] for case in chosen if (name := (case.package, case.name)) in known]


def _tried(case: Case, file: Path | None) -> Line:
    line = line_of(case)
    print(*line.cells, sep="  ", flush=True)
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps(asdict(line)) + "\n")
    return line


def main() -> int:
    """Make the table; return 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose package or name has this text")
    parser.add_argument("--lines", type=Path, help="a line of JSON for each; known ones are kept")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no model after")
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    cases, skipped = library_cases()
    lines = all_lines((*CASES, *cases), options.only, options.lines, options.seconds)
    print(summary(lines, skipped))
    if options.write is not None:
        options.write.write_text(page_of(lines, skipped))
    return int(any(line.kind in ("WRONG", "FAILED") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
