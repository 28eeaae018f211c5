"""Judge results beside eager torch: what is right, what rounding explains, and what is wrong.

A tensor is right when it is within a few last digits of eager torch. Where it is not, the model is
run by eager torch with every input, weight, intermediate result and cotangent moved by a digit or
two at random, again and again; with its kernels, and with torch's own decompositions of them, whose
parts are moved too (its batch normalisation computes in float64, its parts do not); and once in
float64. An element is explained by rounding when it is among what these runs gave, or as near to
them as they are to each other. (A floor, an argmax or a comparison that falls the other way is
found so, too.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.torch_comparison import differences, sizes

DIGITS = {torch.float16: 8, torch.bfloat16: 4}
"""How many times the unit of rounding a result may be off; 64 for wider dtypes."""
RUNS = 24

RIGHT, ROUNDING, WRONG = "right", "rounding", "WRONG"


@dataclass(frozen=True)
class Judgement:
    """One tensor: the verdict, and its largest difference relative to the largest element."""

    path: str
    verdict: str
    relative: float
    is_finite: bool


def judge(found: Any, wanted: Any, other_runs: Callable[[], Sequence[Any]]) -> list[Judgement]:
    """Judge each tensor of a result.

    Parameters
    ----------
    found, wanted
        Containers of tensors, ours and eager torch's.
    other_runs : callable
        Returns what eager torch gives where each number is moved; called only if need be.
    """
    ours, theirs = (pytree.tree_leaves_with_path(tree) for tree in (found, wanted))
    runs: list[list[Any]] = []
    rows = []
    for i, ((path, x), (_, y)) in enumerate(zip(ours, theirs, strict=True)):
        name = pytree.keystr(path)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            rows.append(Judgement(f"{name} is {x.dtype}{list(x.shape)}", WRONG, torch.inf, True))
            continue
        if is_close(x, y):
            verdict = RIGHT
        else:
            runs = runs or [pytree.tree_leaves(tree) for tree in other_runs()]
            verdict = ROUNDING if is_among(x, [y, *(run[i] for run in runs)]) else WRONG
        rows.append(Judgement(name, verdict, _relative(x, y), bool(y.isfinite().all())))
    return rows


def _relative(x: torch.Tensor, y: torch.Tensor) -> float:
    if not y.numel():
        return 0.0
    apart, size = differences(x, y).max().item(), sizes(y).max().item()
    return apart / size if size else apart


def tolerance_of(dtype: torch.dtype) -> float:
    """Return how far off a result may be, relative to its size."""
    return DIGITS.get(dtype, 64) * torch.finfo(dtype).eps


def is_close(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Tell whether all elements agree: to last digits of the usual size, integers exactly.

    The largest size counts with two digits only: sums over it leave no less.
    """
    if not (y.is_floating_point() or y.is_complex()):
        return torch.equal(x, y)
    apart, size = differences(x, y), sizes(y)
    least = 4 * torch.finfo(y.dtype).eps * (size.max() if size.numel() else 0)
    return bool((apart <= tolerance_of(y.dtype) * (size + _usual(size)) + least).all())


def _usual(size: torch.Tensor) -> float:
    """Return the largest size of elements, unless most are far smaller."""
    some = size[size > 0]
    return min(size.max().item(), 1e3 * some.median().item()) if some.numel() else 0.0


def is_among(x: torch.Tensor, runs: Sequence[torch.Tensor]) -> bool:
    """Tell whether each element is within what some runs gave, or as far off as they are wide."""
    if x.is_complex():
        parts = [torch.view_as_real(run.resolve_conj()) for run in runs]
        return is_among(torch.view_as_real(x.resolve_conj()), parts)
    stack = torch.stack([run.to(torch.float64) for run in runs])
    wide, is_nan = x.to(torch.float64), stack.isnan()
    low = torch.where(is_nan, torch.inf, stack).amin(0)
    high = torch.where(is_nan, -torch.inf, stack).amax(0)
    room = torch.zeros_like(low)
    if x.is_floating_point():
        usual = _usual(sizes(runs[0]))
        room = (high - low).nan_to_num(0, 0, 0) + tolerance_of(x.dtype) * usual
    inside = (wide >= low - room) & (wide <= high + room)
    return bool(torch.where(wide.isnan(), is_nan.any(0), inside).all())


def moved(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a tensor with each element moved by up to two units of rounding."""
    if not (x.is_floating_point() or x.is_complex()):
        return x
    steps = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 4 - 2
    return x * (1 + steps * torch.finfo(x.dtype).eps).to(x.dtype)


class Decomposed(TorchDispatchMode):
    """Runs what torch knows to take apart by the parts, whose results it moves."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.is_part = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an op, or its parts if there are such."""
        known, outer = _decompositions().get(func), self.is_part
        if known is not None:
            self.is_part = True
            try:
                with self:
                    found = known(*args, **(kwargs or {}))
            finally:
                self.is_part = outer
            if found is not NotImplemented:
                return found
        found = func(*args, **(kwargs or {}))
        if not self.is_part or func._schema.is_mutable or not isinstance(found, torch.Tensor):
            return found
        return moved(found, self.generator)


@functools.cache
def _decompositions() -> Mapping[Any, Callable[..., Any]]:
    return dict(core_aten_decompositions().items())


class Moving:
    """Moves what a model computes, and its cotangents: each use of a tensor gives one by itself."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def result(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor, moved."""
        return moved(x, self.generator)

    def use(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor as it is, whose cotangent is moved."""
        return _Use.apply(x, self.generator)  # type: ignore[no-any-return]


class _Use(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        ctx.generator = generator
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
        return moved(cotangent, ctx.generator), None
