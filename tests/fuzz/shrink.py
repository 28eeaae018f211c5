"""Makes a failing program small: fewer lines, simpler expressions, smaller sizes.

As in delta debugging every candidate is tried, whatever it is: one that cannot run does not fail
in the same way and is left.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz import frameworks
from tests.fuzz.program import Input, Program, parse
from tracer import tree
from tracer.array.trace import trace
from tracer.errors import TracerError

Test = Callable[[Program], bool]
_SMALL = (1, 2, 3, 5, 8, 16, 32)


def shrink(program: Program, fails: Test, seconds: float = 120.0) -> Program:
    """Return the smallest program that is found and still fails.

    Parameters
    ----------
    program : Program
        A program that fails.
    fails : callable
        Tells whether a program fails in the same way.
    seconds : float
        When to stop looking.
    """
    stop = time.monotonic() + seconds
    tried: set[str] = set()
    changed = True
    while changed and time.monotonic() < stop:
        changed = False
        for way in (results, transforms, cuts, inlines, expressions, sizes, types):
            found = _first(program, way, fails, tried, stop)
            while found is not None:
                program, changed = found, True
                found = _first(program, way, fails, tried, stop)
    return program


def _first(
    program: Program,
    way: Callable[[Program], Iterator[Program]],
    fails: Test,
    tried: set[str],
    stop: float,
) -> Program | None:
    for candidate in way(program):
        candidate = cleaned(candidate)
        text = candidate.text()
        if text in tried or _cost(candidate) >= _cost(program):
            continue
        if time.monotonic() > stop:
            return None
        tried.add(text)
        if fails(candidate):
            return candidate
    return None


def _cost(program: Program) -> tuple[float, ...]:
    """Return what becomes less with every step, so that shrinking ends."""
    weight = {"value": 0, "grad": 1, "vmap_grad": 2, "second": 3}[program.transform]
    types = ("float64", "float32", "complex128", "complex64").index(program.dtype)
    text = "".join((*program.lines, program.result))
    names = 6 * len(program.inputs)
    return (len(text) + 20 * weight + names + sum(program.dims.values()) ** 0.25 + types,)


def results(program: Program) -> Iterator[Program]:
    """Return less: one of several results, one of several terms, a value on the way."""
    expression = ast.parse(program.result, mode="eval").body
    parts: list[ast.expr] = []
    if isinstance(expression, ast.Tuple):
        parts = list(expression.elts)
    elif isinstance(expression, ast.BinOp):
        parts = [expression.left, expression.right]
    for part in parts:
        yield replace(program, result=ast.unparse(part))
    for name in sorted(_shapes(program)):
        whole = name if program.transform == "value" else f"np.sum({name})"
        yield replace(program, result=whole)


def transforms(program: Program) -> Iterator[Program]:
    for simpler in ("value", "grad", "vmap_grad"):
        yield replace(program, transform=simpler)


def types(program: Program) -> Iterator[Program]:
    for dtype in ("float64", "float32", "complex128"):
        yield program.with_dtype(dtype)


def sizes(program: Program) -> Iterator[Program]:
    for name, size in program.dims.items():
        for smaller in (*_SMALL, size // 2, size - 1):
            if 0 < smaller < size:
                yield replace(program, dims={**program.dims, name: smaller})
    together = {name: min(size, 16) for name, size in program.dims.items()}
    yield replace(program, dims=together)


def cuts(program: Program) -> Iterator[Program]:
    """Make a value an argument, the last first: all that leads to it goes."""
    shapes = _shapes(program)
    named = {str(size): name for name, size in program.dims.items() if size > 1}
    for position in reversed(range(len(program.lines))):
        name = program.lines[position].partition(" =")[0]
        if name not in shapes:
            continue
        fresh = Input(name, tuple(named.get(size, size) for size in shapes[name]))
        lines = (*program.lines[:position], *program.lines[position + 1 :])
        yield replace(program, lines=lines, inputs=(*program.inputs, fresh))


def expressions(program: Program) -> Iterator[Program]:
    """Put an operand, or an argument, in the place of an expression."""
    count = sum(1 for _ in ast.walk(ast.parse(program.body())))
    for place in range(count):
        for choice in range(4):
            module = ast.parse(program.body())
            function = module.body[0]
            assert isinstance(function, ast.FunctionDef)
            swap = _Swap(place, choice)
            swap.visit(function)
            if not swap.done:
                break
            yield _with_body(program, function)


def inlines(program: Program) -> Iterator[Program]:
    """Write a value where it is read, if that is in one place."""
    rest = ("\n".join(program.lines[i + 1 :]) for i in range(len(program.lines)))
    for line, later in zip(program.lines, rest, strict=True):
        statement = ast.parse(line).body[0]
        name = _target(line)
        reads = [n for n in ast.walk(ast.parse(f"{later}\n{program.result}")) if _is_name(n, name)]
        if not isinstance(statement, ast.Assign) or len(reads) != 1:
            continue
        put = _Put(name, statement.value)
        lines = [
            ast.unparse(put.visit(ast.parse(other))) for other in program.lines if other != line
        ]
        result = ast.unparse(put.visit(ast.parse(program.result)))
        yield replace(program, lines=tuple(lines), result=result)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


class _Put(ast.NodeTransformer):
    """Puts an expression where a name is read."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.value if node.id == self.name else node


class _Swap(ast.NodeTransformer):
    """Replaces one node, the `place`-th that is seen, by its `choice`-th operand."""

    def __init__(self, place: int, choice: int) -> None:
        self.place, self.choice, self.done = place, choice, False

    def visit(self, node: ast.AST) -> ast.AST:
        self.place -= 1
        if self.place == -1 and isinstance(node, ast.expr):
            operands = _operands(node)
            if self.choice < len(operands):
                self.done = True
                return operands[self.choice]
        return super().generic_visit(node)


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Subscript):
        return [node.value]
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return [node.value]
    if isinstance(node, ast.Call):
        method = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        plain = [item for item in method if not isinstance(item, ast.Name) or item.id not in _ROOMS]
        return [*plain, *node.args]
    return []


_ROOMS = {"np", "nn", "lax", "sla", "special", "linalg"}


def _with_body(program: Program, function: ast.FunctionDef) -> Program:
    *lines, last = function.body
    assert isinstance(last, ast.Return)
    assert last.value is not None
    return replace(program, lines=tuple(map(ast.unparse, lines)), result=ast.unparse(last.value))


def cleaned(program: Program) -> Program:
    """Drop lines, arguments and sizes that nothing reads."""
    program = parse(program.text())
    while True:
        words = [_words(line) for line in program.lines]
        lines = []
        for i, line in enumerate(program.lines):
            later = _words(program.result).union(*words[i + 1 :])
            if _target(line) in later:
                lines.append(line)
        if len(lines) == len(program.lines):
            break
        program = replace(program, lines=tuple(lines))
    used = _words("\n".join((*program.lines, program.result)))
    inputs = tuple(item for item in program.inputs if item.name in used)
    shapes = _words(" ".join(" ".join((*item.shape, item.kind)) for item in inputs))
    dims = {name: size for name, size in program.dims.items() if name in used | shapes}
    return replace(program, inputs=inputs, dims=dims)


def _target(line: str) -> str:
    statement = ast.parse(line).body[0]
    if isinstance(statement, ast.FunctionDef):
        return statement.name
    assert isinstance(statement, ast.Assign)
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else ast.unparse(target)


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def _shapes(program: Program) -> dict[str, tuple[str, ...]]:
    """Return the shapes of the values that are arrays of the program's type."""
    found = {}
    for line in program.lines:
        name = line.partition(" =")[0]
        if not name.isidentifier():
            continue
        probe = replace(program, result=name, transform="value")
        try:
            function = frameworks.transformed(probe, frameworks.tracer_names())
            traced = trace(function, probe.arrays())
        except (TracerError, Exception):
            continue
        single = tree.is_leaf(traced.out_tree)
        if single and str(traced.output_types[0].dtype) == program.dtype:
            found[name] = tuple(map(str, traced.output_types[0].shape))
    return found
