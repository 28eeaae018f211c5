"""What `tracer.numpy` installs into Array is what `installed.pyi` promises type checkers."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array import array
from tracer.array.array import Array, install
from tracer.numpy.methods import Methods
from tracer.numpy.operators import OPERATORS

PROMISED = {
    item.name: item
    for cls in ast.parse(Path(array.__file__).with_name("installed.pyi").read_text()).body
    if isinstance(cls, ast.ClassDef) and cls.name == "Installed"
    for item in cls.body
    if isinstance(item, ast.FunctionDef)
}
METHODS = {
    name: member
    for name, member in vars(Methods).items()
    if inspect.isfunction(member) and not name.startswith("__")
}
PROPERTIES = {name for name, member in vars(Methods).items() if isinstance(member, property)}
INDEXING = {"__getitem__", "__setitem__"}


def test_names_are_those_that_are_installed() -> None:
    assert set(PROMISED) == set(METHODS) | PROPERTIES | set(OPERATORS) | INDEXING


@pytest.mark.parametrize("name", sorted(METHODS))
def test_signature_is_the_one_of_the_method(name: str) -> None:
    promised = PROMISED[name].args
    given = inspect.signature(METHODS[name]).parameters.values()
    kinds = inspect.Parameter
    assert [arg.arg for arg in promised.args] == [
        p.name for p in given if p.kind is kinds.POSITIONAL_OR_KEYWORD
    ]
    assert [arg.arg for arg in promised.kwonlyargs] == [
        p.name for p in given if p.kind is kinds.KEYWORD_ONLY
    ]
    defaults = [*promised.defaults, *(d for d in promised.kw_defaults if d is not None)]
    assert [ast.literal_eval(default) for default in defaults] == [
        p.default for p in given if p.default is not kinds.empty
    ]


def test_array_has_the_methods_under_its_own_name() -> None:
    assert Array is tracer.Array is tnp.Array
    assert Array.__bases__ == (object,)
    assert Array.sum.__qualname__ == "Array.sum"
    assert Array.sum.__doc__ == "Sum over axes."


@pytest.mark.xla
def test_install_passes_over_what_is_no_member() -> None:
    class Own(Array):
        __slots__ = ()

    def double(self: Array) -> Any:
        """Twice."""
        return self + self

    install(Own, {"double": double, "__module__": "elsewhere", "__slots__": ("a",)})
    x = tnp.ones(2)
    own: Any = Own(x._buffer, x.type, x.device)
    np.testing.assert_array_equal(own.double(), [2.0, 2.0])
    assert Own.__module__ == __name__
    assert Own.__slots__ == ()


def test_directory_of_the_namespace_shows_its_names_and_no_files() -> None:
    assert dir(tnp) == sorted(tnp.__all__)
    assert [name for name in dir(tnp) if inspect.ismodule(getattr(tnp, name))] == ["fft", "linalg"]
