"""What Python files hold, parsed once for all tests of a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree, as `ast.walk` gives them."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
