"""The walls between the rooms of docs/architecture.md, read from the import statements.

Imports inside functions and under TYPE_CHECKING count too: knowing another room's names is what
the walls forbid, not the moment at which they are loaded.
"""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import tracer
from tests.source_trees import nodes_of

ROOT = Path(__file__).parents[2]
PACKAGE = Path(tracer.__file__).parent

SHARED = {"arguments", "errors", "tree"}
"""May be imported by every room above ir/."""
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "arguments": {"errors"},
    "terminal": set(),
    "units": {"errors"},
    "tree": {"errors"},
    "ir": {"errors"},
    "ops": SHARED | {"ir"},
    "target": SHARED | {"ir"},
    "lowering": SHARED | {"target", "ir", "units"},
    "array": SHARED | {"ops", "ir"},
    "numpy": SHARED | {"array", "ops", "ir"},
    "autodiff": SHARED | {"array", "ops", "ir"},
    "scipy": SHARED | {"autodiff", "numpy", "array", "ops", "ir"},
    "control": SHARED | {"autodiff", "numpy", "array", "ops", "ir"},
    "debug": SHARED | {"terminal", "control", "autodiff", "numpy", "array", "ops", "ir"},
    "lax": SHARED | {"autodiff", "control", "numpy", "array", "scipy", "ops", "ir"},
    "random": SHARED | {"numpy", "array", "scipy", "control", "ops", "ir"},
    "optimizers": SHARED | {"control", "autodiff", "numpy", "array", "ops", "ir"},
    "image": SHARED | {"numpy", "array", "lax", "ops", "ir"},
    "nn": SHARED | {"numpy", "array", "scipy", "lax", "random", "ops", "ir"},
    "optimizer": SHARED | {"units", "target", "autodiff", "scipy", "numpy", "array", "ops", "ir"},
    "sharding": SHARED | {"array", "lowering", "ir", "storage"},
    "distributed": {"lowering"},
    "stablehlo": SHARED
    | {"lowering", "lax", "control", "autodiff", "scipy", "numpy", "array", "ops", "ir"},
    "storage": {"errors", "terminal", "units", "ir", "target"},
    "compilation": SHARED
    | {
        "storage",
        "terminal",
        "units",
        "sharding",
        "lowering",
        "target",
        "optimizer",
        "control",
        "autodiff",
        "numpy",
        "array",
        "ops",
        "ir",
    },
    "command": SHARED | {"units", "target", "lowering", "compilation", "autodiff", "numpy", "ir"},
    "jax": SHARED
    | {
        "stablehlo",
        "compilation",
        "optimizer",
        "random",
        "lax",
        "control",
        "autodiff",
        "scipy",
        "numpy",
        "array",
        "ops",
        "ir",
    },
    "torch": SHARED
    | {
        "compilation",
        "optimizer",
        "autodiff",
        "scipy",
        "numpy",
        "array",
        "ops",
        "ir",
    },
}
"""What each room may import, besides itself."""
ENTRANCE = "__init__"
"""tracer/__init__.py: it gathers the public names and no room may import it."""
ENTRANCES = {ENTRANCE, "__main__"}
"""Also the command line, tracer/__main__.py, which uses the public names."""
OUTSIDE: dict[str, str] = {
    "jaxlib": "lowering/",
    "networkx": "ir/graph.py",
    "jax": "jax/",
    "torch": "torch/",
}
"""The one place that may import a library."""


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of everything that a module imports."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def room_of(path: Path) -> str:
    """Return the room of a file, given relative to the package."""
    return path.parts[0].removesuffix(".py")


def crossings(package: Path) -> list[str]:
    """Return a line for each import that crosses a wall."""
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        for line, name in imported_names(nodes_of(path)):
            reason = _refusal(inside, name)
            if reason:
                found.append(f"{inside}:{line}: {reason}")
    return found


def _refusal(inside: Path, name: str) -> str | None:
    top, *rest = name.split(".")
    if name.startswith("."):
        return f"relative import {name}"
    if top in OUTSIDE and not inside.as_posix().startswith(OUTSIDE[top]):
        return f"{top} may be imported in {OUTSIDE[top]} only"
    here = room_of(inside)
    if top != "tracer" or here in ENTRANCES:
        return None
    there = room_of(Path(rest[0])) if rest else ENTRANCE
    if here not in ROOMS:
        return f"{here} is no room of docs/architecture.md"
    if there != here and there not in ROOMS[here]:
        return f"{here} may not import {there} ({name})"
    return None


def test_no_wall_is_crossed() -> None:
    assert crossings(PACKAGE) == []


def test_rooms_are_what_the_package_has() -> None:
    present = {room_of(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    assert present - ENTRANCES == set(ROOMS)


def test_rooms_are_what_the_architecture_names() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split("## Rooms and imports")[1].split("\n## ")[0]
    words = set(re.findall(r"[a-z_]+", section))
    assert {room for room in ROOMS if room not in words} == set()


def test_rooms_have_no_circle() -> None:
    assert set(graphlib.TopologicalSorter(ROOMS).static_order()) == set(ROOMS)


def test_composition_is_nobodys_foundation() -> None:
    found = [room for room, allowed in ROOMS.items() if "compilation" in allowed]
    assert found == ["command", "jax", "torch"]
    assert not any({"jax", "torch"} & allowed for allowed in ROOMS.values())
    assert not any("nn" in allowed for allowed in ROOMS.values())


def test_the_house_has_ten_floors() -> None:
    """A room stands on the floor above all that it may import; the entrance is on top."""
    floors: dict[str, int] = {}
    for room in graphlib.TopologicalSorter(ROOMS).static_order():
        floors[room] = 1 + max((floors[below] for below in ROOMS[room]), default=0)
    assert 1 + max(floors.values()) <= 10


def test_libraries_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [
        *project["dependencies"],
        *extras["jax"],
        *extras["torch"],
        *extras["plot"],
        *extras["progress"],
    ]
    known = {re.split(r"[<>=]", requirement)[0] for requirement in declared}
    used = {
        name.split(".")[0]
        for path in PACKAGE.rglob("*.py")
        for _, name in imported_names(nodes_of(path))
    }
    assert used - known - set(sys.stdlib_module_names) - {"tracer"} == set()


@pytest.mark.parametrize(
    ("file", "code", "wanted"),
    [
        ("ir/types.py", "from tracer import ops", "ir may not import ops"),
        ("ir/types.py", "import tracer.ops.shape", "ir may not import ops"),
        (
            "ops/shape.py",
            "def f():\n    from tracer.numpy import sorting",
            "ops may not import numpy",
        ),
        (
            "array/array.py",
            "from tracer.numpy.sorting import sort",
            "array may not import numpy",
        ),
        (
            "numpy/sorting.py",
            "from tracer.lowering import x",
            "numpy may not import lowering",
        ),
        ("autodiff/x.py", "from tracer import lowering", "autodiff may not import lowering"),
        ("ir/op.py", "from tracer import ShapeDtype", "ir may not import ShapeDtype"),
        ("ir/op.py", "import tracer", "ir may not import __init__"),
        ("ir/op.py", "from . import graph", "relative import"),
        ("ir/text.py", "import networkx as nx", "networkx may be imported in ir/graph.py only"),
        (
            "array/trace.py",
            "from jaxlib import xla_client",
            "jaxlib may be imported in lowering/ only",
        ),
        ("lowering/emit/module.py", "import jax.numpy", "jax may be imported in jax/ only"),
        (
            "ops/sort.py",
            "from tracer.compilation.options import x",
            "ops may not import compilation",
        ),
        ("errors.py", "from tracer.units import parse_bytes", "errors may not import units"),
        ("lounge/sofa.py", "from tracer import ir", "lounge is no room"),
    ],
)
def test_checker_sees_a_crossing(tmp_path: Path, file: str, code: str, wanted: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code + "\n")
    (found,) = crossings(tmp_path)
    assert found.startswith(f"{file}:")
    assert wanted in found


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("ir/graph.py", "import networkx as nx"),
        ("lowering/devices/clients.py", "from jaxlib import xla_client\nfrom tracer import ir"),
        (
            "ops/shape.py",
            "import numpy as np\nfrom tracer.ops import f\nfrom tracer import ir",
        ),
        (
            "__init__.py",
            "from tracer.compilation.function import compile\nfrom tracer import tree",
        ),
    ],
)
def test_checker_lets_allowed_imports_pass(tmp_path: Path, file: str, code: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code + "\n")
    assert crossings(tmp_path) == []
