"""Write what packages export: the records of `tracer.ops`, and what NumPy and SciPy have too.

python docs/generate_exports.py            writes the imports and `__all__` of each package
python docs/generate_exports.py --check    exits with 1 when one of them is out of date

They stay lists in plain Python, which type checkers and readers can follow. In `ops` a record is
what is annotated as one, `name: Op = ...`; elsewhere a name is public that the library of the same
name has. What is imported from other packages is written by hand. `make generate` sorts what was
added.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy.linalg
import scipy.special
from table_page import write_or_check

ROOT = Path(__file__).parent.parent
OWN_NAMES = {"top_k"}
"""Functions of `tracer.numpy` that NumPy does not have."""
HELPERS = {"complex_limits", "ufunc"}
"""Files of `tracer.numpy` that serve the functions, with helpers of the same names."""


def records(path: Path) -> Iterator[str]:
    """Yield the op records of a file of `tracer.ops`."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Op":
            yield ast.unparse(node.target)


def functions(library: ModuleType, path: Path) -> Iterator[str]:
    """Yield what a file defines and a library has."""
    for node in [] if path.stem in HELPERS else ast.parse(path.read_text()).body:
        for name in _defined(node):
            if not name.startswith("_") and (name in OWN_NAMES or hasattr(library, name)):
                yield name


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets for part in ast.walk(target)]
        return [part.id for part in parts if isinstance(part, ast.Name)]
    return []


PACKAGES: dict[str, Callable[[Path], Iterator[str]]] = {
    "ops": records,
    "numpy": functools.partial(functions, np),
    "numpy.linalg": functools.partial(functions, np.linalg),
    "numpy.fft": functools.partial(functions, np.fft),
    "scipy.linalg": functools.partial(functions, scipy.linalg),
    "scipy.special": functools.partial(functions, scipy.special),
}


def written_file(package: str) -> Path:
    """Return the file that holds a package's exports: that of a module, which has its own."""
    place = ROOT.joinpath("tracer", *package.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def updated(package: str, text: str) -> str:
    """Return the text of a package's file with all exports and none that is gone."""
    file, public = written_file(package), PACKAGES[package]
    if file.stem != "__init__":
        return _with_list(text, set(public(file)))
    files = [path for path in file.parent.glob("*.py") if path != file]
    names = {f"tracer.{package}.{path.stem}": set(public(path)) for path in files}
    for module, wanted in sorted(names.items()):
        text = _with_import(text, module, wanted)
    return _with_list(text, set().union(*names.values()))


def _imports(text: str) -> list[ast.ImportFrom]:
    return [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]


def _with_import(text: str, module: str, names: set[str]) -> str:
    """Import these names of a module; what is imported as a private name stays."""
    for node in _imports(text):
        if node.module == module and not any(alias.asname for alias in node.names):
            present = {alias.name for alias in node.names}
            wanted = names | {name for name in present if name.startswith("_")}
            return text if wanted == present else _put(text, node, _import(module, wanted))
    if not names:
        return text
    last = _imports(text)[-1]
    return _put(text, last, [ast.unparse(last), *_import(module, names)])


def _import(module: str, names: set[str]) -> list[str]:
    return [f"from {module} import (", _rows(sorted(names)), ")"] if names else []


def _rows(names: list[str]) -> str:
    """Write a name a line; without a last comma ruff joins what fits on one."""
    return ",\n".join(names)


def _with_list(text: str, names: set[str]) -> str:
    """Let `__all__` hold these names, and what it has that is bound in another way."""
    body = ast.parse(text).body
    bound = {alias.asname or alias.name for node in _imports(text) for alias in node.names}
    bound |= {name for node in body for name in _defined(node)}
    node = next(node for node in body if _defined(node) == ["__all__"])
    assert isinstance(node, ast.Assign)
    present = ast.literal_eval(node.value)
    wanted = [name for name in present if name in bound] + sorted(names - set(present))
    if wanted == present:
        return text
    return _put(text, node, ["__all__ = [", _rows([f'"{name}"' for name in wanted]), "]"])


def _put(text: str, node: ast.stmt, lines: list[str]) -> str:
    """Write lines in place of a statement."""
    assert node.end_lineno is not None
    before = text.splitlines()
    return "\n".join([*before[: node.lineno - 1], *lines, *before[node.end_lineno :]]) + "\n"


def texts() -> dict[Path, str]:
    """Return each file that is written, and its text."""
    files = {package: written_file(package) for package in PACKAGES}
    return {file: updated(package, file.read_text()) for package, file in files.items()}


if __name__ == "__main__":
    sys.exit(write_or_check(texts(), __doc__))
