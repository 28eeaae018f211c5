"""A program of the fuzzer: a few lines of NumPy-style text, and what its arguments are.

Text is what people write, what a report has to show, and what a shrinker can cut; so text is what
the generator makes, and every framework runs the same. Sizes are names in it (`n`, `m`), which
makes one size smaller everywhere at once.
"""

from __future__ import annotations

import ast
import math
import textwrap
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TRANSFORMS = ("value", "grad", "second", "vmap_grad")
"""What is compiled of a function: itself, its value and gradients, a product with its second
derivatives, the gradients for each of a batch."""
BATCH = 3


@dataclass(frozen=True)
class Input:
    """An argument: its shape in names of sizes, and what is drawn for it.

    `kind` is "normal", "positive" (from 0.5 to 2), "weight" (normal, divided by the root of the
    first size), "few" (one of three numbers) or "index:n", integers below n.
    """

    name: str
    shape: tuple[str, ...]
    kind: str = "normal"

    @property
    def is_index(self) -> bool:
        return self.kind.startswith("index")


@dataclass(frozen=True)
class Program:
    """A function of arrays as text.

    Attributes
    ----------
    dims : dict
        The sizes that shapes and lines name.
    inputs : tuple of Input
    lines : tuple of str
        The assignments of the body.
    result : str
        The expression that is returned.
    dtype : str
        Of all arguments that are no indices.
    transform : str
        One of `TRANSFORMS`.
    seed : int
        Of the arguments' values.
    """

    dims: dict[str, int]
    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    result: str
    dtype: str = "float64"
    transform: str = "value"
    seed: int = 0
    theme: str = field(default="", compare=False)

    def shape(self, spelled: tuple[str, ...]) -> tuple[int, ...]:
        """Return a shape in numbers."""
        return tuple(size_of(item, self.dims) for item in spelled)

    def arrays(self) -> list[Array]:
        """Return the arguments, the same for the same seed."""
        return [self._array(item) for item in self.inputs]

    def _array(self, item: Input) -> Array:
        # One stream for each, so that an argument which goes leaves the others as they are.
        rng = np.random.default_rng([self.seed, *item.name.encode()])
        shape = self.shape(item.shape)
        if item.is_index:
            bound = max(1, size_of(item.kind.partition(":")[2], self.dims))
            return rng.integers(0, bound, shape, dtype=np.int32)
        if item.kind == "few":  # Alike terms: the roundings of their sum all go one way.
            return rng.choice((0.1, 0.3, 0.7), shape).astype(self.dtype)
        if item.kind == "positive":
            return rng.uniform(0.5, 2, shape).astype(self.dtype)
        array = rng.standard_normal(shape)
        if np.dtype(self.dtype).kind == "c":
            array = array + 1j * rng.standard_normal(shape)
        if item.kind == "weight":
            array = array / math.sqrt(max(1, shape[0] if shape else 1))
        return np.asarray(array).astype(self.dtype)

    @property
    def inexact(self) -> tuple[int, ...]:
        """The positions of the arguments that a gradient is taken of, three at most."""
        return tuple(i for i, item in enumerate(self.inputs) if not item.is_index)[:3]

    def with_dtype(self, dtype: str) -> Program:
        """Return the same program of arguments of another dtype."""
        return replace(self, dtype=dtype)

    @property
    def is_numpy(self) -> bool:
        """Whether NumPy can run the text: it has no gradients, loops or `nn`."""
        words = ("nn.", "lax.", "sla.", ".at[", "np.top_k", "special.")
        body = "\n".join((*self.lines, self.result))
        return self.transform == "value" and not any(word in body for word in words)

    def body(self, indent: str = "    ") -> str:
        """Return the function's text."""
        names = ", ".join(item.name for item in self.inputs)
        lines = [f"def f({names}):", *(textwrap.indent(line, indent) for line in self.lines)]
        return "\n".join([*lines, f"{indent}return {self.result}"])

    def text(self, note: str = "") -> str:
        """Return the program as a Python text that `parse` reads."""
        inputs = {item.name: (*item.shape, item.kind) for item in self.inputs}
        head = [f'"""{note}"""'] if note else []
        settings = [
            f"dtype, transform, seed = {self.dtype!r}, {self.transform!r}, {self.seed}",
            f"dims = {self.dims!r}",
            f"inputs = {inputs!r}",
        ]
        return "\n".join([*head, *settings, "", "", self.body(), ""])


def parse(text: str) -> Program:
    """Read what `Program.text` wrote."""
    found: dict[str, Any] = {}
    body: list[ast.stmt] = []
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.FunctionDef):
            body = statement.body
        elif isinstance(statement, ast.Assign):
            target, value = statement.targets[0], ast.literal_eval(statement.value)
            names = [t.id for t in getattr(target, "elts", [target]) if isinstance(t, ast.Name)]
            found.update(zip(names, value if len(names) > 1 else [value], strict=True))
    *lines, last = body
    assert isinstance(last, ast.Return)
    assert last.value is not None
    return Program(
        dims=found["dims"],
        inputs=tuple(Input(k, tuple(v[:-1]), v[-1]) for k, v in found["inputs"].items()),
        lines=tuple(ast.unparse(line) for line in lines),
        result=ast.unparse(last.value),
        dtype=found["dtype"],
        transform=found["transform"],
        seed=found["seed"],
    )


def size_of(spelled: str, dims: dict[str, int]) -> int:
    """Return a size that is written as a number, a name or a sum, product, quotient of them."""
    return int(eval(spelled, {"__builtins__": {}}, dict(dims)))
