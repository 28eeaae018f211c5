"""Random models of nnsmith within limits, forward and gradient, beside eager torch.

    python -m benchmarks.torch_random --models 1000 --seed 0 [--seconds S] [--write PAGE.md]
    python -m benchmarks.torch_random --only SEED     # one model, with its text
    python -m benchmarks.torch_random --outcomes FILE # keeps what it finds; goes on after a stop

The limit is 0.7 of what the program takes as written, or half of what it takes beside arguments and
results where these leave no room for more. Where it is refused, values are compared without one.
Each output, gradient and buffer is judged by itself (benchmarks/torch_rounding.py says how). Where
numbers become integers of a dtype that cannot hold them, docs/torch.md states the difference.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import tracer.torch
from benchmarks.torch_comparison import weighted_sum
from benchmarks.torch_random_models import RandomModel, random_model, wide
from benchmarks.torch_rounding import RIGHT, RUNS, WRONG, Decomposed, Judgement, Moving, judge
from tracer.compilation.task import read_task
from tracer.errors import MemoryLimitError, UnsupportedError
from tracer.optimizer.model.liveness import peak_bytes
from tracer.torch.arguments import read_call
from tracer.torch.program import Program

SHARE = 0.7
PARTS = ("forward", "gradient")
Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a model, forward or gradient."""

    seed: int
    part: str
    verdict: str
    limit: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        """Tell whether tracer is to blame until something else is shown."""
        return self.verdict in (WRONG, "FAILED")


@dataclass(frozen=True)
class Problem:
    """A computation: ours within a limit, eager torch's, and that with each number moved."""

    part: str
    model: RandomModel
    tensors: Tensors

    def limited(self, memory_limit: int | None) -> Any:
        """Return the program."""
        if self.part == "forward":
            return tracer.torch.limit(self.model, memory_limit=memory_limit)
        return tracer.torch.value_and_grad(
            _loss, argnums=(0, *self.floating), has_aux=True, memory_limit=memory_limit
        )

    @property
    def floating(self) -> list[int]:
        """The positions of arguments that have gradients."""
        return [i + 1 for i, x in enumerate(self.tensors) if x.is_floating_point()]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the program takes."""
        return self.tensors if self.part == "forward" else (self.model, *self.tensors)

    def found(self, program: Any) -> Any:
        """Run the program; returns what `eager` returns."""
        if self.part == "forward":
            with torch.no_grad():
                return program(*self.arguments)
        (_, outputs), (of_model, *rest) = program(*self.arguments)
        return outputs, of_model, tuple(rest), dict(self.model.named_buffers())

    def eager(self, model: RandomModel, tensors: Tensors, moving: Moving | None = None) -> Any:
        """Return the results of eager torch, which may write to the model."""
        if self.part == "forward":
            with torch.no_grad():
                values = model.run(tensors, moving)
            return tuple(values[name] for name in model.gives)
        leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in tensors]
        values = model.run(leaves, moving)
        outputs = tuple(values[name] for name in model.gives)
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        targets = [*named.values(), *(leaves[i - 1] for i in self.floating)]
        gradients = torch.autograd.grad(weighted_sum(outputs), targets, allow_unused=True)
        whole = [
            torch.zeros_like(x) if g is None else g for x, g in zip(targets, gradients, strict=True)
        ]
        of_model = dict(zip(named, whole, strict=False))
        outputs = tuple(x.detach() for x in outputs)
        return outputs, of_model, tuple(whole[len(named) :]), dict(model.named_buffers())

    def other_runs(self) -> list[Any]:
        """Return the results of eager torch with each number moved, and those in float64."""
        runs = []
        for seed in range(RUNS):
            runs.append(self._moved(seed))
            with Decomposed(seed):
                runs.append(self._moved(seed))
        widened = tuple(x.to(wide(x.dtype)) for x in self.tensors)
        runs.append(self.eager(self.model.widened(), widened))
        return runs

    def _moved(self, seed: int) -> Any:
        model, moving = copy.deepcopy(self.model), Moving(seed)
        for x in (*model.parameters(), *model.buffers()):
            x.data = moving.result(x.data)
        return self.eager(model, tuple(map(moving.result, self.tensors)), moving)

    def without_subnormal_numbers(self) -> Any:
        """Return the results of eager torch where numbers below the normal ones are zeros."""
        if not torch.set_flush_denormal(True):
            return self.eager(copy.deepcopy(self.model), self.tensors)
        try:
            return self.eager(copy.deepcopy(self.model), self.tensors)
        finally:
            torch.set_flush_denormal(False)


def _loss(model: RandomModel, *tensors: torch.Tensor) -> tuple[torch.Tensor, Any]:
    outputs = model(*tensors)
    return weighted_sum(outputs), outputs


def outcomes_of(seed: int) -> list[Outcome]:
    """Try one model, forward and gradient."""
    model, tensors = random_model(seed)
    found = [outcome_of(seed, Problem("forward", model.eval(), tensors))]
    for mode in (True, False):  # batch normalisation may need more than one element to train
        problem = Problem("gradient", copy.deepcopy(model).train(mode), tensors)
        try:
            problem.eager(copy.deepcopy(problem.model), tensors)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            continue
        return [*found, outcome_of(seed, problem)]
    return [*found, Outcome(seed, "gradient", "none", "", f"eager torch: {reason}")]


def outcome_of(seed: int, problem: Problem) -> Outcome:
    """Try one computation."""
    wanted = problem.eager(copy.deepcopy(problem.model), problem.tensors)
    limit = ""
    try:
        limit, program = within_limit(problem)
        before = copy.deepcopy(problem.model)
        found = problem.found(program)
    except UnsupportedError as error:
        return Outcome(seed, problem.part, "refused", limit, error.what.split(";")[0])
    except Exception as error:  # whatever it is, it is a fault and is shown
        text = (str(error) or "-").splitlines()[0]
        return Outcome(seed, problem.part, "FAILED", limit, f"{type(error).__name__}: {text}")
    unchanged = Problem(problem.part, before, problem.tensors)
    rows = judge(found, wanted, unchanged.other_runs)
    verdict, detail = verdict_of(rows, lambda: _documented(unchanged, found))
    return Outcome(seed, problem.part, verdict, limit, detail)


def within_limit(problem: Problem) -> tuple[str, Any]:
    """Return whether the limit is met, and the program: without a limit where it is not."""
    whole = problem.limited(None)
    with torch.set_grad_enabled(problem.part == "gradient"):
        return _planned(problem, whole)


def _planned(problem: Problem, whole: Any) -> tuple[str, Any]:
    captured = _captured(whole, problem)
    written, fixed = _bytes(captured)
    limit = int(max(SHARE * written, fixed + (written - fixed) / 2))
    if limit >= written:
        return "no room", whole
    program = problem.limited(limit)
    # Both are the same capture, which takes most of the time.
    (key,) = whole._programs._programs
    call = read_call(problem.arguments, {})
    same = Program(captured.captured, call.tensors, captured.name, program._programs.options)
    program._programs._programs[key] = [same]
    try:
        program.plan(*problem.arguments)
    except MemoryLimitError:
        return "refused", whole
    assert list(program._programs._programs) == [key]
    return "met", program


def _captured(program: Any, problem: Problem) -> Program:
    """Capture; nothing is compiled."""
    if problem.part == "forward":
        return program._program(read_call(problem.arguments, {}))
    return program._program(*program._read(problem.arguments, {}))


def _bytes(program: Program) -> tuple[int, int]:
    """Return what a program takes as written, and its arguments and results alone."""
    types = [item.memory_type for item in (*program.inputs, *program.drawn)]
    function = program.function
    task = read_task(function._read(tuple(types), {}), function._options, program.name)
    graph = task.traced.graph
    fixed = sum(type.nbytes for type in (*graph.input_types, *graph.output_types))
    return peak_bytes(graph, frozenset()), fixed


def _documented(problem: Problem, found: Any) -> str:
    """Return the documented difference that explains results, or nothing."""
    if problem.model.out_of_range(problem.tensors):
        return "numbers that an integer dtype cannot hold"
    rows = judge(found, problem.without_subnormal_numbers(), problem.other_runs)
    is_explained = all(row.verdict != WRONG for row in rows)
    return "subnormal numbers, which are zeros here" if is_explained else ""


def verdict_of(rows: Sequence[Judgement], documented: Callable[[], str]) -> tuple[str, str]:
    """Return one verdict for all tensors of a model."""
    wrong = [row for row in rows if row.verdict == WRONG]
    if wrong:
        reason = documented()
        detail = ", ".join(f"{row.path} {row.relative:.0e}" for row in wrong)
        return ("documented", reason) if reason else (WRONG, detail)
    near = [row for row in rows if row.verdict != RIGHT]
    if near:
        return "rounding", ", ".join(f"{row.path} {row.relative:.0e}" for row in near)
    return RIGHT, "" if all(row.is_finite for row in rows) else "NaN or infinity in torch, too"


def page_of(outcomes: Sequence[Outcome], command: str) -> str:
    """Return the page."""
    text = [
        "# Random models of PyTorch within limits, beside eager torch",
        "",
        f"`{command}`, torch {torch.__version__}, {platform.machine()}; models of nnsmith 0.1.0, "
        f"of 3 to 10 ops. {len({o.seed for o in outcomes})} models were tried.",
        "",
        "- right: to a few last digits of the usual element, integers exactly, NaN where torch has",
        "  NaN. Rounding: further off, but no further than eager torch moves where its inputs,",
        "  weights and intermediate results are moved by their last digits, or in float64.",
        "- documented: a difference that [docs/torch.md](../../docs/torch.md) states.",
        "- none: torch has no gradient: no floating results, or an op without a derivative.",
        f"- limit: {SHARE:g} of what the program takes as written, or arguments, results and half",
        "  of the rest where that is more, was met, or was refused (`MemoryLimitError`; values are",
        "  compared without a limit). No room: there is nothing but arguments and results.",
        "",
        *_counts(outcomes),
        *_reasons(outcomes),
        *_cases(outcomes),
    ]
    return "\n".join(text)


def _counts(outcomes: Sequence[Outcome]) -> list[str]:
    lines = []
    for title, read in (("verdict", lambda o: o.verdict), ("limit", lambda o: o.limit)):
        counts = {
            part: Counter(read(o) for o in outcomes if o.part == part and read(o)) for part in PARTS
        }
        lines += [f"| {title} | {' | '.join(PARTS)} |", "|---" * (1 + len(PARTS)) + "|"]
        for name in sorted(set().union(*counts.values())):
            cells = " | ".join(str(counts[part][name]) for part in PARTS)
            lines.append(f"| {name} | {cells} |")
        lines.append("")
    return lines


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    kinds = ("refused", "documented", "none")
    counts = Counter((o.verdict, o.detail) for o in outcomes if o.verdict in kinds)
    rows = [
        f"| {verdict} | {detail.replace('|', '/')} | {count} |"
        for (verdict, detail), count in sorted(counts.items())
    ]
    return ["| verdict | reason | times |", "|---|---|---|", *rows, ""]


def _cases(outcomes: Sequence[Outcome]) -> list[str]:
    kinds = ("FAILED", WRONG, "documented", "rounding")
    cases = [o for kind in kinds for o in outcomes if o.verdict == kind]
    rows = [f"| {o.seed} | {o.part} | {o.verdict} | {o.detail.replace('|', '/')} |" for o in cases]
    head = ["Again by `--only SEED`, which prints the model:", ""]
    return [*head, "| seed | part | verdict | tensors |", "|---|---|---|---|", *rows, ""]


def _tried(seed: int, file: Path | None) -> list[Outcome]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = outcomes_of(seed)
    for outcome in outcomes:
        print(*asdict(outcome).values(), flush=True)
        if file is not None:
            with file.open("a") as lines:
                lines.write(json.dumps(asdict(outcome)) + "\n")
    return outcomes


def _known(file: Path | None) -> dict[int, list[Outcome]]:
    """Return what an earlier run found, by seed."""
    found: dict[int, list[Outcome]] = {}
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    for outcome in (Outcome(**json.loads(line)) for line in lines):
        found.setdefault(outcome.seed, []).append(outcome)
    return {seed: outcomes for seed, outcomes in found.items() if len(outcomes) == len(PARTS)}


def main() -> int:
    """Try models; return 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first model")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--only", type=int, help="one seed; prints the model")
    parser.add_argument(
        "--outcomes", type=Path, help="a line of JSON for each; known ones are kept"
    )
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.models)
    if options.only is not None:
        seeds = range(options.only, options.only + 1)
        print(random_model(options.only)[0].text)
    known = _known(options.outcomes)
    started, outcomes = time.monotonic(), list[Outcome]()
    for seed in seeds:
        if seed not in known:
            if options.seconds is not None and time.monotonic() - started > options.seconds:
                break
            known[seed] = _tried(seed, options.outcomes)
        outcomes += known[seed]
    print("\n".join(_counts(outcomes)))
    if options.write is not None:
        command = f"python -m benchmarks.torch_random --models {len(seeds)} --seed {seeds.start}"
        options.write.write_text(page_of(outcomes, command))
    return int(any(outcome.is_fault for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
