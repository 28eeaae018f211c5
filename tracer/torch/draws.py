"""Random numbers: drawn by torch before the program runs, and inputs of it.

So they are those of eager torch, bit for bit, and its generator ends where eager torch leaves it.
While a function is traced the generator's seed counts the draws. A computation that is run again
(torch.utils.checkpoint) sets it back, so a seed that was there before is the same draw again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tracer.errors import Source, UnsupportedError
from tracer.torch.sources import current_source, source_of

_BY_SHAPE = frozenset(
    f"aten.{name}"
    for name in (
        "bernoulli.p bernoulli_.float cauchy cauchy_ exponential exponential_ geometric "
        "geometric_ log_normal log_normal_ normal.float_float normal_ normal_functional rand "
        "rand_like randint randint_like randn randn_like randperm random random_ uniform uniform_"
    ).split()
)
"""Ops that look at no element of their operands, only at shapes and dtypes."""
_FIRST_SEED = 0x7ACE5


def is_draw(target: Any) -> bool:
    """Tell whether an op draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def is_drawing(target: Any, args: Any, kwargs: Any) -> bool:
    """Tell whether a call draws: ops that know of training draw in it only."""
    if not is_draw(target):
        return False
    names = [argument.name for argument in target._schema.arguments]
    defaults = {argument.name: argument.default_value for argument in target._schema.arguments}
    given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
    return given.get("training") is not False


@dataclass
class Seeds:
    """The generator's seeds while a function is traced.

    Attributes
    ----------
    order : list of int
        For each draw, in order, which earlier draw it repeats: itself where it repeats none.
    """

    order: list[int] = field(default_factory=list)
    _count: int = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count draws, and leave the generator as it was."""
        self.order, self._count = [], 0
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(_FIRST_SEED)
        try:
            yield
        finally:
            torch.default_generator.set_state(before)

    def note(self, target: Any, kwargs: Any) -> None:
        """Count one draw.

        Raises
        ------
        UnsupportedError
            The function sets the seed, or uses a generator of its own.
        """
        if kwargs.get("generator") not in (None, torch.default_generator):
            raise UnsupportedError(
                f"torch's {target} with a generator of its own",
                mend="leave generator out, or draw outside and pass the numbers as an argument",
                where=current_source(),
            )
        number = torch.default_generator.initial_seed() - _FIRST_SEED
        if not 0 <= number <= self._count:
            raise UnsupportedError(
                "torch.manual_seed within the function: the numbers would be drawn once, when it "
                "is traced",
                mend="seed outside of the function",
                where=current_source(),
            )
        if number < self._count:
            self.order.append(number)
        else:
            self.order.append(self._count)
            self._count += 1
        torch.default_generator.manual_seed(_FIRST_SEED + number + 1)


@dataclass(frozen=True)
class Draw:
    """One draw: an op of torch whose operands give shapes only.

    Attributes
    ----------
    target : object
        The op.
    args, kwargs
        What it is called with; layouts stand for tensors.
    example : Tensor
        Without data: what it draws.
    """

    target: Any
    args: Any
    kwargs: Any
    example: torch.Tensor

    def __call__(self) -> torch.Tensor:
        """Draw, as eager torch does now."""
        args, kwargs = pytree.tree_map_only(_Layout, _Layout.empty, (self.args, self.kwargs))
        result = self.target(*args, **kwargs)
        assert isinstance(result, torch.Tensor)
        return result


@dataclass(frozen=True)
class _Layout:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def empty(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype)


def draw_of(node: Any) -> Draw:
    """Return the draw that a node of a graph makes.

    Raises
    ------
    UnsupportedError
        What is drawn depends on numbers that are computed.
    """
    name = str(node.target)
    if not {name, name.rsplit(".", 1)[0]} & _BY_SHAPE:
        raise refused(name, source_of(node))

    def layout(operand: Any) -> _Layout:
        tensor = operand.meta["val"]
        return _Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), layout)
    return Draw(node.target, args, kwargs, node.meta["val"])


def in_place(draw: Draw) -> Draw:
    """Return a draw into memory of the operand's order: what a functional graph made of it.

    Numbers are drawn in the order of memory. An op that returns new memory draws row by row.
    """
    own = {
        "aten.bernoulli.p": torch.ops.aten.bernoulli_.float,
        "aten.normal_functional.default": torch.ops.aten.normal_.default,
    }
    name = str(draw.target)
    packet = name.split(".")[1]
    target = own.get(name) or getattr(torch.ops.aten, f"{packet}_", None)
    if target is None or packet.startswith("rand"):
        return draw
    return replace(draw, target=target)


def refused(name: str, where: Source | None) -> UnsupportedError:
    """Return the error for draws that depend on what is computed."""
    return UnsupportedError(
        f"torch's {name} draws numbers that depend on computed values",
        mend="draw uniform or normal numbers (torch.rand, torch.randn) and transform them",
        where=where,
    )


def firsts(nodes: Sequence[Any], order: Sequence[int]) -> dict[Any, Any]:
    """Return for each node that draws the node whose numbers it has."""
    assert len(nodes) == len(order), "every draw of the trace is a node of the graph"
    by_number: dict[int, Any] = {}
    found = {}
    for node, number in zip(nodes, order, strict=True):
        found[node] = by_number.setdefault(number, node)
    return found
