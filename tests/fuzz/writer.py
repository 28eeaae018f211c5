"""Writes a program's lines: a pool of named values whose shapes are known as they are written.

Programs are valid by construction (as NNSmith's are): a block picks values whose shapes it can
take, or adds arguments of those that it needs, and says the shape of what it writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tests.fuzz.program import Input, size_of

Shape = tuple[str, ...]
T = TypeVar("T")
_MOST_ELEMENTS = 200_000
"""Of one value; blocks whose results would be larger are left out."""


@dataclass(frozen=True)
class Var:
    """A value by its name, or by an expression in parentheses."""

    name: str
    shape: Shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return self.name


class TooLarge(Exception):
    """A block would write a value that is larger than programs may have."""


class Writer:
    """The program as far as it is written."""

    def __init__(self, rng: np.random.Generator, dims: dict[str, int], dtype: str) -> None:
        self.rng, self.dims, self.dtype = rng, dims, dtype
        self.inputs: list[Input] = []
        self.lines: list[str] = []
        self.vars: list[Var] = []
        self.defined: dict[str, str] = {}
        self.wants_gradient = self.is_plain = False
        self.must: list[Var] = []
        """Values that the program has to return."""

    # Chance

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choose(self, items: Sequence[T]) -> T:
        return items[int(self.rng.integers(len(items)))]

    def number(self, low: float, high: float) -> str:
        return f"{self.rng.uniform(low, high):.3g}"

    def dim(self) -> str:
        return self.choose(list(self.dims))

    # Sizes

    @property
    def is_real(self) -> bool:
        return np.dtype(self.dtype).kind == "f"

    def size(self, spelled: str) -> int:
        return size_of(spelled, self.dims)

    def elements(self, *spelled: str) -> int:
        return math.prod(map(self.size, spelled))

    def fits(self, *spelled: str) -> None:
        """Refuse shapes of too many elements."""
        if self.elements(*spelled) > _MOST_ELEMENTS:
            raise TooLarge

    # Values

    def input(self, shape: Shape, kind: str = "normal", prefix: str = "x") -> Var:
        """Add an argument."""
        self.fits(*shape)
        name = f"{prefix}{len(self.inputs)}"
        self.inputs.append(Input(name, shape, kind))
        var = Var(name, shape)
        if not kind.startswith("index"):
            self.vars.append(var)
        return var

    def weight(self, *shape: str) -> Var:
        return self.input(shape, "weight", "w")

    def index(self, shape: Shape, below: str) -> Var:
        return self.input(shape, f"index:{below}", "i")

    def emit(self, expression: str, shape: Shape) -> Var:
        """Write a line and return its value."""
        self.fits(*shape)
        name = f"a{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        self.defined[name] = expression
        var = Var(name, shape)
        self.vars.append(var)
        return var

    def value(self, ndim: int | None = None, accepts: Callable[[Var], bool] | None = None) -> Var:
        """Return a value, rather one that was made late, or a new argument."""
        found = [v for v in self.vars if ndim in (None, v.ndim) and (not accepts or accepts(v))]
        if found and not self.chance(0.15):
            late = int(self.rng.geometric(0.35))
            return found[-min(late, len(found))]
        if accepts is not None and ndim is None:
            ndim = 2
        shape = tuple(self.dim() for _ in range(2 if ndim is None else ndim))
        fresh = Var("", shape)
        if accepts is not None and not accepts(fresh):
            raise TooLarge
        return self.input(shape)

    def alike(self, shape: Shape) -> Var:
        """Return a value of a shape: one of the pool, often the same again, or a new argument."""
        found = [v for v in self.vars if v.shape == shape]
        if found and not self.chance(0.3):
            return self.choose(found)
        return self.input(shape)

    def use(self, x: Var) -> str:
        """Return an expression for a value: its name, or written around in a way that is nothing.

        Unit axes, transposes there and back, reshapes and a value written out twice are what
        stands between the ops of a pattern in programs of people.
        """
        if not self.chance(0.2):
            return x.name
        shape = f"({', '.join(x.shape)},)" if x.ndim else "()"
        ways = [f"({x} + 0)", f"(1.0 * {x})", f"{x}[None][0]", f"np.reshape({x}, {shape})"]
        if x.ndim >= 2:
            ways += [f"np.swapaxes(np.swapaxes({x}, -1, -2), -1, -2)"]
        if x.ndim == 2:
            ways += [f"{x}.T.T", f"np.transpose({x}[:, None, :], (1, 0, 2))[0]"]
        if x.ndim:
            ways += [f"{x}[..., None][..., 0]", f"{x}[::-1][::-1]"]
        if x.name in self.defined and len(self.defined[x.name]) < 60:
            ways += [f"({self.defined[x.name]})"] * 3
        return self.choose(ways)

    def sinks(self) -> list[Var]:
        """Return the values that no line reads."""
        text = " ".join(self.lines_after_targets())
        words = set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
        return [v for v in self.vars if v.name in self.defined and v.name not in words]

    def lines_after_targets(self) -> list[str]:
        """Return what lines read, without the names that they define."""
        return [line if line.startswith("def") else line.partition(" = ")[2] for line in self.lines]
