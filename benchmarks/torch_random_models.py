"""Random models of nnsmith (a pip package) as modules of torch."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from benchmarks.torch_rounding import Moving

ELEMENTS = 1 << 14
"""At most so many elements in a tensor."""
ATTEMPTS = 30
"""Models that eager torch does not run (dtypes that it lacks) are made again, so often."""
NARROW = ("float32", "float64", "int32", "int64")
"""The dtypes of inputs of every second model: others have all that nnsmith knows."""


@dataclass(frozen=True)
class Step:
    """One op of a model: what computes it, the names of what it takes and gives, and its text."""

    function: Callable[..., Any]
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    text: str
    cast: torch.dtype | None = None

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Compute."""
        found = self.function(*tensors)
        return list(found) if isinstance(found, list | tuple) else [found]

    def is_out_of_range(self, x: torch.Tensor) -> bool:
        """Tell whether it converts numbers to an integer dtype that cannot hold them."""
        integer = self.cast not in (None, torch.bool) and not (
            self.cast.is_floating_point or self.cast.is_complex
        )
        if not integer or not (x.is_floating_point() or x.is_complex()):
            return False
        limits = torch.iinfo(self.cast)
        real = (x.real if x.is_complex() else x).to(torch.float64).trunc()
        return not bool(((real >= limits.min) & (real < limits.max + 1)).all())


class RandomModel(nn.Module):
    """The steps of a model, in order; what it takes has shapes and dtypes."""

    def __init__(
        self,
        steps: tuple[Step, ...],
        takes: dict[str, tuple[tuple[int, ...], torch.dtype]],
        gives: tuple[str, ...],
    ) -> None:
        super().__init__()
        self.steps, self.takes, self.gives = steps, takes, gives
        functions = [step.function for step in steps]
        self.parts = nn.ModuleList(f for f in functions if isinstance(f, nn.Module))

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the tensors that no step takes."""
        values = self.run(tensors)
        return tuple(values[name] for name in self.gives)

    def run(self, tensors: Any, moving: Moving | None = None) -> dict[str, torch.Tensor]:
        """Return the tensors of all names; `moving` is told of each use and each result."""
        values = dict(zip(self.takes, tensors, strict=True))
        for step in self.steps:
            given = [values[name] for name in step.takes]
            if moving is None:
                results = step(*given)
            else:
                results = [moving.result(x) for x in step(*map(moving.use, given))]
            values.update(zip(step.gives, results, strict=True))
        return values

    def out_of_range(self, tensors: Any) -> set[str]:
        """Return the names that depend on numbers which an integer dtype cannot hold."""
        values = self.run(tensors)
        found: set[str] = set()
        for step in self.steps:
            is_out = any(step.is_out_of_range(values[name]) for name in step.takes)
            if is_out or found & set(step.takes):
                found |= set(step.gives)
        return found

    def widened(self) -> RandomModel:
        """Return a model of float64 throughout, with the same weights."""
        model = copy.deepcopy(self)
        model.steps = tuple(map(_widened, model.steps))
        for part in model.parts:
            for x in (*part.parameters(), *part.buffers()):
                x.data = x.data.to(wide(x.dtype))
        return model

    @property
    def text(self) -> str:
        """The steps, one a line."""
        return "\n".join(step.text for step in self.steps)


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the widest dtype of a kind."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def _widened(step: Step) -> Step:
    if step.cast is None:
        return step
    target = wide(step.cast)
    return replace(step, function=lambda x: x.to(target), cast=target)


def random_model(seed: int) -> tuple[RandomModel, tuple[torch.Tensor, ...]]:
    """Return a model and inputs, always the same ones for a seed.

    Raises
    ------
    RuntimeError
        nnsmith made nothing that eager torch runs.
    """
    for attempt in range(ATTEMPTS):
        try:
            model = _made(seed, seed + 1_000_003 * attempt)
            return model, _inputs(model, seed)
        except _Unusable:
            continue
    raise RuntimeError(f"nnsmith made no model for seed {seed} that eager torch runs")


class _Unusable(Exception):
    """Eager torch does not run a model."""


def _made(seed: int, nnsmith_seed: int) -> RandomModel:
    with _nnsmith() as (gen, torch_net, ops, error):
        nodes = random.Random(seed).randint(3, 10)
        try:
            graph = gen.model_gen(
                ops,
                method="symbolic-cinit",
                seed=nnsmith_seed,
                max_nodes=nodes,
                timeout_ms=10_000,
                max_elem_per_tensor=ELEMENTS,
                dtype_choices=NARROW if seed % 2 else None,
            )
            ir = graph.make_concrete()
        except error as reason:
            raise _Unusable from reason
        torch.manual_seed(seed)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)  # its layers have no dtype of their own
        try:
            net = torch_net(ir)
        finally:
            torch.set_default_dtype(default)
    steps = tuple(_step(*row) for row in net.instructions)
    takes = {name: (tuple(x.shape), x.dtype.torch()) for name, x in net.input_like.items()}
    return RandomModel(steps, takes, tuple(net.output_map))


def _step(function: Any, takes: Any, gives: Any, op: Any) -> Step:
    target = op.extra_attrs.get("to")
    cast = target.torch() if type(op).__name__.startswith("Cast") else None
    shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in op.output_like)
    text = f"{', '.join(gives)} = {op}({', '.join(takes)}) : {shapes}"
    return Step(function, tuple(takes), tuple(gives), text, cast)


@contextmanager
def _nnsmith() -> Iterator[Any]:
    """Import nnsmith, with a new context of z3: what was solved before must not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for a package that draws graphs
        import z3
        from nnsmith import graph_gen
        from nnsmith.error import ConstraintError, InternalError
        from nnsmith.materialize.torch import TorchModelCPU
        from nnsmith.materialize.torch.symbolnet import SymbolNet

        z3.z3._main_ctx = None
        yield graph_gen, SymbolNet, TorchModelCPU.operators(), (ConstraintError, InternalError)


def _inputs(model: RandomModel, seed: int) -> tuple[torch.Tensor, ...]:
    """Return inputs, of three kinds the first for which all results are finite."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for center, width in ((0.0, 2.0), (5.0, 4.0), (0.5, 0.8)):
        types = model.takes.values()
        tensors = tuple(_random(*type, center, width, generator) for type in types)
        found.append(tensors)
        if _are_finite(_eager(model, tensors)):
            return tensors
    return found[0]


def _random(
    shape: tuple[int, ...], dtype: torch.dtype, center: float, width: float, generator: Any
) -> torch.Tensor:
    numbers = center + (torch.rand(shape, generator=generator, dtype=torch.float64) - 0.5) * width
    if dtype.is_floating_point or dtype.is_complex:
        return numbers.to(dtype)
    return (numbers * 2).round().to(dtype)


def _eager(model: RandomModel, tensors: Any) -> Any:
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.eval()(*tensors)
    except Exception as reason:  # any: dtypes that torch lacks, division of integers by zero
        raise _Unusable from reason


def _are_finite(tensors: Any) -> bool:
    return all(bool(x.isfinite().all()) for x in tensors)
