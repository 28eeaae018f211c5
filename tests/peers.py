"""Which tests need a package that the extra `test` does not install.

They ask for it with `pytest.importorskip`, and `make test-jax` is where it is installed, or
`make test-torch`. The markers `peer` and `torch` are put on them here, from their source, so that
no test has to be listed twice.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

PACKAGES = frozenset(
    {
        "array_api_compat",
        "array_api_extra",
        "einops",
        "gunicorn",
        "ipykernel",
        "jax",
        "matplotlib",
        "optax",
    }
)
"""What the extra `peers-test` installs, by the names under which they are imported."""
TORCH = frozenset({"torch"})
"""What only `make test-torch` installs."""


@functools.cache
def needing(path: Path, packages: frozenset[str] = PACKAGES) -> frozenset[str]:
    """Return the qualified names of the functions of a file that ask for such a package.

    The empty name stands for the whole module.
    """
    text = path.read_text()
    if "importorskip" not in text:
        return frozenset()
    found: set[str] = set()
    _visit(ast.parse(text), (), found, packages)
    return frozenset(found)


def _visit(
    node: ast.AST, inside: tuple[str, ...], found: set[str], packages: frozenset[str]
) -> None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = (*inside, node.name)
    if isinstance(node, ast.Call) and _asks(node, packages):
        found.add(".".join(inside))
    for child in ast.iter_child_nodes(node):
        _visit(child, inside, found, packages)


def _asks(call: ast.Call, packages: frozenset[str]) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name != "importorskip" or not call.args or not isinstance(call.args[0], ast.Constant):
        return False
    return str(call.args[0].value).split(".")[0] in packages


def is_needed(path: Path, qualified: str, packages: frozenset[str] = PACKAGES) -> bool:
    """Tell whether a test, by its qualified name, asks for such a package, or its class does."""
    return any(
        not name
        or name == qualified
        or name.startswith(f"{qualified}.")
        or qualified.startswith(f"{name}.")
        for name in needing(path, packages)
    )
