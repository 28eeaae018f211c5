"""What `tracer.ops` and `tracer.numpy` export is what their files hold."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("exports", ROOT / "docs" / "generate_exports.py")
assert _SPEC is not None
assert _SPEC.loader is not None
EXPORTS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(EXPORTS)


@pytest.mark.parametrize("package", EXPORTS.PACKAGES)
def test_exports_are_what_the_files_hold(package: str) -> None:
    text = EXPORTS.written_file(package).read_text()
    assert EXPORTS.updated(package, text) == text, "run `make generate`"


@pytest.mark.parametrize("package", EXPORTS.PACKAGES)
def test_what_is_missing_comes_and_what_is_gone_goes(package: str) -> None:
    text = EXPORTS.written_file(package).read_text()
    assert text.count("    cosh,\n") == 1
    other = text.replace("    cosh,\n", "    gone,\n").replace('"cosh"', '"gone"')
    mended = EXPORTS.updated(package, other)
    assert "gone" not in mended
    assert _names(mended) == _names(text)


def test_a_new_file_is_imported() -> None:
    text = EXPORTS.written_file("ops").read_text()
    import_of_svd = "from tracer.ops.svd import svd\n"
    assert import_of_svd in text
    mended = EXPORTS.updated("ops", text.replace(import_of_svd, ""))
    assert _names(mended) == _names(text)


def _names(text: str) -> list[str]:
    """Return every imported and every listed name with where it stands, sorted."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}: {alias.name}" for alias in node.names]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found += ast.literal_eval(node.value)
    return sorted(found)
