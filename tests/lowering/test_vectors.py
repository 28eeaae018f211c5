"""How wide the vectors are that programs compute with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.measure import measure
from tests.lowering import programs
from tracer import lowering, ops
from tracer.lowering import shims
from tracer.lowering.cpu import vectors
from tracer.lowering.run import compiler, xla_options
from tracer.target import said_of_processor


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """Pretend that the machine says it has some instruction sets."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def pretend(text: str | None) -> None:
        if text is not None:
            (tmp_path / "proc").mkdir()
            (tmp_path / "proc/cpuinfo").write_text(text, encoding="ascii")
        said = said_of_processor(tmp_path)
        monkeypatch.setattr(vectors, "said_of_processor", lambda: said)

    return pretend


@pytest.mark.xla
@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("processor\t: 0\nflags\t\t: sse avx512f avx512_vbmi2\n", 512),
        ("flags\t\t: sse avx2 avx512f avx512vl\n", None),
        ("Features\t: neon sve\n", None),
        (None, None),
    ],
    ids=["Ice Lake", "Skylake", "Arm", "no Linux"],
)
def test_full_vectors_where_they_do_not_slow_the_clock(
    machine: Callable[[str | None], None],
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    width: int | None,
) -> None:
    machine(text)
    monkeypatch.setattr(shims, "LONG_VECTORS_ARE_SAFE", True)
    assert vectors.vector_options("cpu").get("xla_cpu_prefer_vector_width") == width
    assert vectors.vector_options("gpu") == {}
    monkeypatch.setattr(shims, "LONG_VECTORS_ARE_SAFE", False)
    assert vectors.vector_options("cpu") == {}


@pytest.mark.process
def test_padding_is_not_read() -> None:
    """In a process of its own: with long vectors earlier versions of LLVM end it."""
    found = measure(
        f"{Path(programs.__file__)}:program",
        arguments={"name": "depthwise convolution"},
        repeats=0,
    )
    assert found.status == "ok", found.reason


@pytest.mark.xla
def test_the_width_is_the_callers_where_given(
    graph: Any, machine: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option reaches XLA under a caller's, and results are the same bits for any width."""
    machine("flags : avx512_vbmi2")
    monkeypatch.setattr(shims, "LONG_VECTORS_ARE_SAFE", True)
    vectors.vector_options("cpu")  # compiles the check of the machine
    seen: list[Any] = []
    plain = xla_options.compile_options

    def watched(overrides: dict[str, Any], *args: Any, **keywords: Any) -> Any:
        seen.append(overrides["xla_cpu_prefer_vector_width"])
        return plain(overrides, *args, **keywords)

    monkeypatch.setattr(xla_options, "compile_options", watched)
    made = graph(lambda x: [ops.exponential(ops.sine(x))], ((1003,), np.float64))
    x = np.linspace(-9, 9, 1003)
    found = []
    for chosen in (None, {"xla_cpu_prefer_vector_width": 128}):
        compiler.clear_cache()
        executable = lowering.compile_graph(made, options=chosen)
        found.append(lowering.to_host(executable(lowering.to_device(x))[0]))
    assert seen == [512, 128]
    np.testing.assert_array_equal(found[0], found[1])
