"""Write docs/jax-names.md: the public names of JAX, and where they are here.

python docs/generate_names.py            writes the page; jax must be installed (.venv-jax)
python docs/generate_names.py --check    exits with 1 when the page is out of date
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from table_page import write_or_check

import tracer
from tracer.lax.refused import REFUSED

PAGE = Path(__file__).parent / "jax-names.md"
MODULES = [
    ("jax", "tracer"),
    ("jax.lax", "tracer.lax"),
    ("jax.lax.linalg", "tracer.lax.linalg"),
    ("jax.nn", "tracer.nn"),
    ("jax.nn.initializers", "tracer.nn.initializers"),
    ("jax.image", "tracer.image"),
    ("jax.debug", "tracer.debug"),
    ("jax.random", "tracer.random"),
    ("jax.numpy", "tracer.numpy"),
    ("jax.numpy.linalg", "tracer.numpy.linalg"),
    ("jax.numpy.fft", "tracer.numpy.fft"),
    ("jax.scipy.special", "tracer.scipy.special"),
    ("jax.scipy.linalg", "tracer.scipy.linalg"),
    ("jax.scipy.stats", "tracer.scipy.stats"),
    ("jax.scipy.sparse.linalg", "tracer.scipy.sparse.linalg"),
    ("jax.scipy.ndimage", "tracer.scipy.ndimage"),
    ("jax.scipy.signal", "tracer.scipy.signal"),
    ("jax.scipy.optimize", "tracer.scipy.optimize"),
    ("jax.ops", "tracer"),
    ("jax.tree", "tracer.tree"),
]
"""JAX's modules and ours; `jax.scipy.stats` has modules of its own, which are compared too."""
ELSEWHERE = {
    "jax.jit": "tracer.compile",
    "jax.make_jaxpr": "tracer.make_graph",
    "jax.ShapeDtypeStruct": "tracer.ShapeDtype",
    "jax.tree.flatten_with_path": "tracer.tree.flatten_with_path",
    "jax.typeof": "x.type",
    "jax.named_call": "no names in programs: the plan has the user's lines",
    "jax.named_scope": "no names in programs: the plan has the user's lines",
    **dict.fromkeys(("jax.host_count", "jax.host_id", "jax.host_ids"), "no: of JAX's processes"),
    "jax.pmap": "no: place arrays with tracer.sharding, and programs are partitioned by them",
    **dict.fromkeys(
        ("jax.Ref", "jax.new_ref", "jax.empty_ref", "jax.free_ref", "jax.freeze"),
        "no references: arrays are values",
    ),
    **dict.fromkeys(
        ("jax.random.clone", "jax.random.key_dtype", "jax.random.key_impl"),
        "no key types: keys are two words, and may be copied",
    ),
    **dict.fromkeys(
        ("jax.numpy.array_repr", "jax.numpy.array_str"), "write `repr(x)` and `str(x)`"
    ),
    **dict.fromkeys(
        ("jax.numpy.fromfile", "jax.numpy.fromstring", "jax.numpy.einsum_path"),
        "of NumPy: it makes no traced arrays",
    ),
    "jax.lax.linalg.qdwh": "write `tracer.scipy.linalg.polar`",
}
"""Names that have another name here, or none because they have no use."""
HEAD = """# JAX's names

For users who come from JAX: which of its public names are here, and where. Made from jax {version}
by `python docs/generate_names.py` (with jax installed, `.venv-jax`); NumPy's own names are in
[numpy-surface.md](numpy-surface.md). Programs of JAX run unchanged with [tracer.jax](jax.md).

Functions of `tracer.lax` have JAX's names, argument orders and defaults, and convert nothing:
operands have one dtype, Python numbers take it. Names without a meaning here raise
`MissingNameError`, which says why and what to write instead.

| module | here | of | lacking |
|---|---|---|---|
{rows}
"""


def public(module: ModuleType) -> list[str]:
    """Return the public functions and classes of a module, without submodules and primitives."""
    names = []
    for name in dir(module):
        value = getattr(module, name)
        is_primitive = name.endswith("_p") or type(value).__name__ == "Primitive"
        if not name.startswith("_") and not inspect.ismodule(value) and not is_primitive:
            if callable(value):
                names.append(name)
    return names


def pairs() -> list[tuple[str, str]]:
    """Return the names of modules to compare, with the distributions one by one."""
    found = []
    for theirs, ours in MODULES:
        found.append((theirs, ours))
        if theirs == "jax.scipy.stats":
            module = importlib.import_module(theirs)
            inner = [n for n in dir(module) if inspect.ismodule(getattr(module, n))]
            found += [(f"{theirs}.{n}", f"{ours}.{n}") for n in inner if not n.startswith("_")]
    return found


def our_module(name: str) -> Any:
    """Return a module of ours, or None."""
    value: Any = tracer
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def place(theirs: str, ours: str, name: str) -> str:
    """Say where a name is here, or why it is not."""
    known = ELSEWHERE.get(f"{theirs}.{name}")
    if known is not None:
        return f"`{known}`" if known.startswith(("tracer.", "x.")) else known
    if hasattr(our_module(ours), name):
        return f"`{ours}.{name}`"
    if theirs == "jax.lax" and name in REFUSED:
        return f"no: it {REFUSED[name][0]}"
    return ""


def page() -> str:
    """Return the text of the page."""
    import jax

    counts, tables = [], []
    for theirs, ours in pairs():
        rows = [(n, place(theirs, ours, n)) for n in public(importlib.import_module(theirs))]
        if not rows:
            continue
        present = sum(where.startswith("`") for _, where in rows)
        lacking = [name for name, where in rows if not where.startswith("`")]
        counts.append((theirs, present, len(rows), lacking))
        tables += [f"## {theirs}", "", f"| {theirs} | here |", "|---|---|"]
        tables += [f"| `{name}` | {where or 'no'} |" for name, where in rows]
        tables.append("")
    rows_of_counts = "\n".join(
        f"| {name} | {present} | {total} | {len(lacking)} |"
        for name, present, total, lacking in counts
    )
    return HEAD.format(version=jax.__version__, rows=rows_of_counts) + "\n" + "\n".join(tables)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}, __doc__))
