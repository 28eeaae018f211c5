"""Under a limit a first call loads no library: compilation has used them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.measure import measure
from tests.lowering.first_calls import LIMIT, PROGRAMS
from tracer import lowering
from tracer.lowering.run import compiler, first_use
from tracer.lowering.shims import VERSION

CALLS = Path(__file__).parent / "first_calls.py"
ONEDNN = 5_000_000
"""What Eigen's first product of float32 loads, at least: 7.5 to 8.3 MB were measured."""


def first_call(name: str, *, is_limited: bool) -> int:
    found = measure(f"{CALLS}:prepared", arguments={"name": name, "is_limited": is_limited})
    assert found.status == "ok", found.reason
    assert found.first_peak_bytes is not None
    return found.first_peak_bytes


@pytest.mark.xla
@pytest.mark.process
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_first_call_keeps_its_limit(name: str) -> None:
    assert first_call(name, is_limited=True) < LIMIT


@pytest.mark.xla
@pytest.mark.process
def test_without_a_limit_the_first_call_loads() -> None:
    assert first_call("product", is_limited=False) > ONEDNN


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the libraries that are used from here on, as in a new process."""
    found: list[tuple[str, str]] = []
    names = {id(call): name for name, call in first_use._CALLS.items()}
    monkeypatch.setattr(first_use, "_used", set())
    monkeypatch.setattr(
        first_use, "_run", lambda call, dtype, *_: found.append((names[id(call)], dtype))
    )
    return found


@pytest.mark.xla
def test_a_library_is_used_once_and_under_a_limit_only(runs: list[tuple[str, str]]) -> None:
    x = tnp.asarray(np.eye(5, dtype=np.float32))

    def program(x: Any) -> Any:
        return tnp.sort(x, axis=0)

    tracer.compile(program)(x)
    assert runs == []
    for limit in (LIMIT, LIMIT + 1):
        tracer.compile(program, memory_limit=limit)(x)
    assert runs == [("", "float32"), ("sort", "float32")]


def tiny_programs() -> Iterator[tuple[str, str]]:
    """Yield the libraries that this jaxlib has, with the dtypes that they compute in."""
    for library in first_use._CALLS:
        if library == "" or (library == "__ynn_fusion" and VERSION < (0, 10)):
            continue
        kinds = {"syevd": "f", "sort": "f", "convolution": "f", "heevd": "c"}.get(library, "fc")
        one = library in ("__ynn_fusion", "convolution")
        dtypes = ["float32"] if one else ["float32", "float64", "complex64", "complex128"]
        yield from ((library, dtype) for dtype in dtypes if dtype[0] in kinds)


@pytest.mark.xla
@pytest.mark.parametrize(("library", "dtype"), list(tiny_programs()))
def test_each_tiny_program_calls_its_library(
    library: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def compile_graph(graph: Any, **options: Any) -> lowering.Executable:
        compiled.append(compiler.compile_graph(graph, **options))
        return compiled[-1]

    monkeypatch.setattr(first_use, "compile_graph", compile_graph)
    first_use._run(first_use._CALLS[library], dtype, lowering.default_device())
    (program,) = compiled
    assert (library, dtype) in first_use.libraries_of(program.hlo())


HLO = """
%fused (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  ROOT %inside = f32[8,8]{1,0} dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (x: f32[8,8], v: f32[8,1]) -> f64[8,8] {
  %x = f32[8,8]{1,0} parameter(0)
  %v = f32[8,1]{1,0} parameter(1)
  %whole = f32[8,8]{1,0} fusion(%x), calls=%fused, backend_config={"kind":"__ynn_fusion"}
  %vector = f32[8,1]{1,0} dot(%x, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %factor = c64[8,8]{1,0} custom-call(%x), custom_call_target="lapack_cpotrf_ffi"
  %other = c64[8,8]{1,0} custom-call(%x), custom_call_target="TopK"
  %wide = f64[8,8]{1,0} parameter(2)
  ROOT %dot = f64[8,8]{1,0} dot(%wide, %wide), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""


def test_libraries_are_read_from_the_program() -> None:
    found = {("__ynn_fusion", "float32"), ("potrf", "complex64"), ("dot", "float64")}
    assert first_use.libraries_of(HLO) == found
