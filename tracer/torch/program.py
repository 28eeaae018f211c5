"""One captured graph as a program within a limit: what it is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tracer.array.array import Array
from tracer.compilation.function import CompiledFunction
from tracer.compilation.importing import compile_imported
from tracer.errors import UnsupportedError
from tracer.ir import ShapeDtype
from tracer.optimizer.plan import Plan
from tracer.torch.capture import Captured
from tracer.torch.draws import Draw
from tracer.torch.evaluate import check_supported, evaluate
from tracer.torch.handover import (
    Layout,
    from_torch_tensor,
    layout_of,
    place_of,
    to_torch_tensor,
)
from tracer.torch.types import type_of


@dataclass(frozen=True)
class Input:
    """One input of a program: its type, how it is in memory, and where."""

    type: ShapeDtype
    layout: Layout
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Input:
        """Return what a program is made for that takes this tensor."""
        return cls(type_of(tensor), layout_of(tensor), tensor.device)

    @property
    def memory_type(self) -> ShapeDtype:
        """The type of the array that is handed over."""
        sizes = list(self.type.shape)
        for axis in self.layout.repeated:
            sizes[axis] = 1
        return self.type.with_shape(tuple(sizes[axis] for axis in self.layout.order))


class Program:
    """A captured function, compiled within a limit.

    Parameters
    ----------
    captured : Captured
    tensors : sequence of Tensor
        Those that it was captured with.
    name : str
        The function's, for plans.
    options : dict
        Those of `tracer.compile`.

    Raises
    ------
    UnsupportedError
        tracer lacks ops of the graph; all are named.
    """

    def __init__(
        self,
        captured: Captured,
        tensors: Sequence[torch.Tensor],
        name: str,
        options: dict[str, Any],
    ) -> None:
        check_supported(captured.module.graph)
        self.captured = captured
        self.name = name
        given = (*captured.closed_over, *tensors)
        self.inputs = [Input.of(x) for x in given]
        self.draws: list[tuple[Any, Draw]] = list(captured.draws.items())
        self.drawn = [Input.of(draw.example) for _, draw in self.draws]
        self._require_results_here()
        self.names = [
            *(f"tensor {i} that {name} closes over" for i in range(len(captured.closed_over))),
            *(f"argument {i} of {name}" for i in range(len(tensors))),
        ]
        # Tensors are read where torch has them: none is donated.
        self.function: CompiledFunction = compile_imported(
            _named(self._run, name), (), **{**options, "device": place_of(given, name)}
        )

    def _run(self, *arrays: Array) -> tuple[Array, ...]:
        count = len(self.inputs)
        items = [*self.inputs, *self.drawn]
        given = [item.layout.restored(x) for item, x in zip(items, arrays, strict=True)]
        first = {node: x for (node, _), x in zip(self.draws, given[count:], strict=True)}
        drawn = {node: first[same] for node, same in self.captured.same_draws.items()}
        found = evaluate(self.captured.module, given[:count], drawn)
        return tuple(x for x in found if x is not None)

    def is_current(self) -> bool:
        """Tell whether the modules and tensors that the function closes over are as they were."""
        tensors = self.captured.closed_over
        return all(state.is_unchanged for state in self.captured.modules) and all(
            Input.of(x) == item for x, item in zip(tensors, self.inputs, strict=False)
        )

    def plan(self) -> Plan:
        """Return the plan."""
        return self.function.plan(*(item.memory_type for item in (*self.inputs, *self.drawn)))

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Run; returns the function's result."""
        given = (*self.captured.closed_over, *tensors)
        self._require_no_overlap(given)
        arrays = [
            from_torch_tensor(x, item.layout, name)
            for x, item, name in zip(given, self.inputs, self.names, strict=True)
        ]
        arrays += [
            from_torch_tensor(draw(), item.layout, "random numbers")
            for (_, draw), item in zip(self.draws, self.drawn, strict=True)
        ]
        results = list(map(to_torch_tensor, self.function(*arrays)))
        with torch.no_grad():
            for position, place in self.captured.written.items():
                given[position].copy_(results[place])
        own = iter(results)
        fixed, structure = self.captured.fixed, self.captured.structure
        count = structure.num_leaves
        leaves = [fixed[i] if i in fixed else next(own) for i in range(count)]
        return pytree.tree_unflatten(leaves, structure)

    def _require_results_here(self) -> None:
        """Refuse to move results to another device than that of the tensors."""
        (results,) = self.captured.module.graph.output_node().args
        there = {x.meta["val"].device for x in results if isinstance(x, torch.fx.Node)}
        here = {item.device for item in self.inputs} or there
        if not there <= here:
            raise UnsupportedError(
                f"{self.name}, whose results are on {', '.join(sorted(map(str, there - here)))}, "
                f"and its tensors on {', '.join(sorted(map(str, here)))}",
                mend="move them outside of the limited function",
            )

    def _require_no_overlap(self, tensors: Sequence[torch.Tensor]) -> None:
        """Refuse to write to memory that two inputs share: their order would matter."""
        if not self.captured.written:
            return
        memory = [x.untyped_storage().data_ptr() for x in tensors]
        for position in self.captured.written:
            if memory.count(memory[position]) > 1:
                raise UnsupportedError(
                    f"{self.names[position]} is written to, and shares its memory with another",
                    mend="pass a clone, or return the new value instead of writing it",
                )


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def run(*arrays: Array) -> Any:
        return function(*arrays)

    run.__name__ = run.__qualname__ = name
    return run
