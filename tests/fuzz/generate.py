"""Draws a program: sizes, a type, a theme, its blocks and what is returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.fuzz import (
    blocks_algebra,
    blocks_elementwise,
    blocks_indexing,
    blocks_kernels,
    blocks_loops,
    blocks_networks,
    templates,
)
from tests.fuzz.program import TRANSFORMS, Program
from tests.fuzz.rare import form
from tests.fuzz.writer import TooLarge, Var, Writer

Block = Callable[[Writer], None]
Weighted = Sequence[tuple[Block, int]]

REAL: dict[str, Weighted] = {
    "networks": blocks_networks.BLOCKS,
    "kernels": blocks_kernels.BLOCKS,
    "algebra": blocks_algebra.BLOCKS,
    "loops": blocks_loops.BLOCKS,
    "indexing": (*blocks_indexing.BLOCKS, *blocks_indexing.REAL_BLOCKS),
    "elementwise": blocks_elementwise.BLOCKS,
    "templates": templates.BLOCKS,
}
COMPLEX: dict[str, Weighted] = {
    "algebra": blocks_algebra.BLOCKS,
    "indexing": blocks_indexing.BLOCKS,
    "elementwise": blocks_elementwise.BLOCKS,
    "loops": blocks_loops.BLOCKS,
}
DTYPES = ("float64", "float32", "complex128", "complex64")
SIZES: dict[str, tuple[int, ...]] = {
    "edge": (0, 1, 1, 2, 3),
    "small": (1, 2, 3, 5, 7, 11, 13, 16),
    "medium": (3, 16, 23, 32, 64, 97, 100, 128),
    "large": (4, 64, 127, 256, 300, 509, 640, 1000),
}
_RARE = 0.62
"""The share of real programs with the form of a rule or pass, and of these with another one."""
_OWN_THEME = 0.7
"""The share of a program's blocks that are of its theme; the others are of all."""


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(DTYPES, p=(0.42, 0.42, 0.1, 0.06)))
    scale = str(rng.choice(list(SIZES), p=(0.1, 0.32, 0.43, 0.15)))
    dims = {name: int(rng.choice(SIZES[scale])) for name in "nmkd"}
    themes = REAL if dtype.startswith("float") else COMPLEX
    theme = str(rng.choice(list(themes)))
    writer = Writer(rng, dims, dtype)
    _write(writer, themes, theme, int(rng.integers(1, 7)))
    while themes is REAL and rng.random() < _RARE:
        _written(writer, form)
    chances = (0.1, 0.8, 0.05, 0.05) if writer.wants_gradient else (0.47, 0.31, 0.1, 0.12)
    transform = "value" if writer.is_plain else str(rng.choice(TRANSFORMS, p=chances))
    result = _returned(writer, transform)
    if transform != "value" and all(item.is_index for item in writer.inputs):
        transform = "value"
    program = Program(
        dims,
        tuple(writer.inputs),
        tuple(writer.lines),
        result,
        dtype,
        transform,
        seed % 1000,
        theme,
    )
    return _without_dead_code(program)


def _write(writer: Writer, themes: dict[str, Weighted], theme: str, count: int) -> None:
    """Write blocks until there are as many, or none fits any more."""
    attempts = 0
    while count and attempts < 60:
        attempts += 1
        name = theme if writer.chance(_OWN_THEME) else writer.choose(list(themes))
        blocks = themes[name]
        weights = np.array([weight for _, weight in blocks], float)
        block = blocks[int(writer.rng.choice(len(blocks), p=weights / weights.sum()))][0]
        before = len(writer.lines)
        _written(writer, block)
        count -= len(writer.lines) > before
    if not writer.lines:
        x = writer.input(("2", "3"))
        writer.emit(f"2 * {x}", x.shape)


def _written(writer: Writer, block: Block) -> None:
    """Write a block; nothing of it where it would be too large."""
    kept = (list(writer.inputs), list(writer.lines), list(writer.vars), dict(writer.defined))
    try:
        block(writer)
    except TooLarge:
        writer.inputs, writer.lines, writer.vars, writer.defined = kept


def _returned(writer: Writer, transform: str) -> str:
    """Return what the program returns: arrays, or for gradients one number of them."""
    sinks = writer.sinks() or writer.vars[-1:]
    chosen = [sinks[int(i)] for i in writer.rng.permutation(len(sinks))[:3]]
    chosen += [v for v in writer.must if v in sinks and v not in chosen]
    if transform == "value":
        return ", ".join(v.name for v in chosen) if len(chosen) > 1 else chosen[0].name
    return " + ".join(_number(writer, v) for v in chosen)


def _number(writer: Writer, v: Var) -> str:
    if not writer.is_real:
        return f"np.sum(np.abs({v}) ** 2)"
    mean = "np.sum" if not writer.elements(*v.shape) else "np.mean"
    forms = [f"{mean}({v} ** 2)", f"{mean}(np.sin({v}))", f"{mean}({v} * {v})", f"{mean}({v})"]
    return writer.choose(forms)


def _without_dead_code(program: Program) -> Program:
    """Drop arguments that nothing reads; lines that nothing reads are dropped in tracing."""
    from dataclasses import replace

    text = "\n".join((*program.lines, program.result))
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
    inputs = tuple(item for item in program.inputs if item.name in words)
    first = [item for item in inputs if not item.is_index]
    transform = program.transform if first else "value"
    return replace(program, inputs=inputs, transform=transform)
