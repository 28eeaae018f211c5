"""What packages export is what their files hold."""

from __future__ import annotations

import ast
import re

import generate_exports as exports
import pytest

A_NAME = {"ops": "cosh", "numpy": "cosh", "numpy.linalg": "slogdet", "numpy.fft": "rfft2"}
A_NAME |= {"scipy.linalg": "toeplitz", "scipy.special": "rel_entr"}


@pytest.mark.parametrize("package", exports.PACKAGES)
def test_exports_are_what_the_files_hold(package: str) -> None:
    text = exports.written_file(package).read_text()
    assert exports.updated(package, text) == text, "run `make generate`"


@pytest.mark.parametrize("package", exports.PACKAGES)
def test_what_is_missing_comes_and_what_is_gone_goes(package: str) -> None:
    text, name = exports.written_file(package).read_text(), A_NAME[package]
    assert text.count(f'    "{name}",\n') == 1
    other = re.sub(rf"(?<=[ ,\(]){name}(?=,\n|\n|, )", "gone", text)
    other = other.replace(f'    "{name}",\n', '    "gone",\n')
    mended = exports.updated(package, other)
    assert "gone" not in mended
    assert _names(mended) == _names(text)


def test_a_new_file_is_imported() -> None:
    text = exports.written_file("ops").read_text()
    import_of_svd = "from tracer.ops.svd import svd\n"
    assert import_of_svd in text
    mended = exports.updated("ops", text.replace(import_of_svd, ""))
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
