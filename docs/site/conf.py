"""How `make docs` builds the site: the pages of docs/ and the reference from the docstrings."""

from __future__ import annotations

import re
from typing import Any

import tracer

project = "tracer"
author = "the founders of tracer"
version = release = tracer.__version__
copyright = "2026, the founders of tracer"  # noqa: A001 - Sphinx's name

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
root_doc = "docs/site/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "docs/recipes/*.md",
    "docs/site/**",
    "benchmarks/results/**.md",
]
exclude_patterns = ["docs/site/conf.py"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_typehints = "none"  # The docstrings have them, in words.
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
html_theme = "furo"
html_title = "tracer"
default_role = "code"


def setup(app: Any) -> None:
    """Read the docstrings as plain text: stars and bars in them are no markup."""
    app.connect("autodoc-process-docstring", _as_plain, priority=400)  # numpydoc's own is 500
    app.connect("autodoc-skip-member", _is_plain_field)


def _is_plain_field(_app: Any, _what: str, _name: str, found: Any, _skip: bool, _o: Any) -> Any:
    """Leave the fields of named tuples out: the docstring of the class has them."""
    return True if type(found).__name__ == "_tuplegetter" else None


def _as_plain(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: Any) -> None:
    is_code = [line.lstrip().startswith((">>>", "...")) for line in lines]
    lines[:] = [line if code else _escaped(line) for line, code in zip(lines, is_code, strict=True)]


def _escaped(line: str) -> str:
    """Escape bars, and stars before a word, outside of backticks; not those of `*args`.

    Labels are those of NumPy's own pages, where the docstring is NumPy's.
    """
    line = re.sub(r":ref:`([^`<]*)(<[^`]*)?`", r"\1", line)
    parts = line.split("`")
    parts[::2] = [re.sub(r"(\||(?<=[ (])\*(?=\w))", r"\\\1", part) for part in parts[::2]]
    return line if line.lstrip().startswith("*") else "`".join(parts)
