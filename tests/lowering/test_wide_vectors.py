"""Vectors wider than XLA's default: every op has the values that it has with XLA's own width."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.lowering import fused_pairs
from tests.lowering.conftest import make_graph
from tracer import lowering, ops
from tracer.errors import TracerError, WideVectorsWarning
from tracer.ir import Op, ShapeDtype, Value, registry
from tracer.lowering import shims
from tracer.lowering.cpu import vector_check, vectors
from tracer.lowering.emit.builder import StableHloBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import chlo

pytestmark = pytest.mark.skipif(
    not shims.LONG_VECTORS_ARE_SAFE, reason="XLA before jaxlib 0.9.2 is not asked for wide vectors"
)

needs_wide_vectors = pytest.mark.skipif(
    "avx512_vbmi2" not in vectors.cpu_features(),
    reason="this machine has no vectors of 512 bits: both widths are one",
)
SIZE = 1003
WIDE = {"xla_cpu_prefer_vector_width": 512}
SINGLE, DOUBLE, HALF = (np.dtype(name) for name in ("float32", "float64", "float16"))
UNITS = 2
"""The reciprocal root begins with an instruction of the processor that another width has not."""
AMPLIFIED = "rsqrt(x)"
"""Functions of it, which differ by more units the steeper they are."""


def full(x: Value, value: float) -> Value:
    return ops.constant(value=np.full(x.shape, value, x.dtype))


def parts(z: Value) -> list[Value]:
    return [ops.real(z), ops.imag(z)]


ANGLES: dict[str, tuple[Callable[[Value], list[Value]], Callable[[Any], Any]]] = {
    "atan": (lambda x: [ops.atan(x)], np.arctan),
    "atan2 of one": (lambda x: [ops.atan2(x, full(x, 1))], np.arctan),
    "atan2 of a one to be folded": (
        lambda x: [ops.atan2(x, ops.exponential(full(x, 0)))],
        np.arctan,
    ),
    "log": (lambda x: parts(ops.log(ops.complex(full(x, 1), x))), lambda x: np.log(1 + 1j * x)),
    "log_plus_one": (
        lambda x: parts(ops.log_plus_one(ops.complex(full(x, 0), x))),
        lambda x: np.log1p(1j * x),
    ),
    "power": (
        lambda x: parts(ops.power(ops.complex(full(x, 1), x), ops.complex(x, full(x, 1)))),
        lambda x: (1 + 1j * x) ** (x + 1j),
    ),
    "rsqrt": (
        lambda x: parts(ops.rsqrt(ops.complex(full(x, 1), x))),
        lambda x: 1 / np.sqrt(1 + 1j * x),
    ),
    "acos": (
        lambda x: parts(ops.acos(ops.complex(full(x, 1), x))),
        lambda x: np.arccos(1 + 1j * x),
    ),
    "acosh": (
        lambda x: parts(ops.acosh(ops.complex(full(x, 1), x))),
        lambda x: np.arccosh(1 + 1j * x),
    ),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", ANGLES)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_no_angle_comes_of_the_function_that_misreads_wide_vectors(
    name: str, dtype: np.dtype[Any], tmp_path: Path
) -> None:
    """The text says it on every machine; the values say it where vectors have 512 bits."""
    build, oracle = ANGLES[name]
    x = np.linspace(-3, 3, SIZE).astype(dtype)
    graph = make_graph(build, (x.shape, dtype))
    executable = lowering.compile_graph(graph, options={**WIDE, "xla_dump_to": str(tmp_path)})
    texts = [file.read_text() for file in tmp_path.glob("*no-opt.ll")]
    assert texts or shims.VERSION >= (0, 11)  # which writes no such text
    assert not [text for text in texts if "xla.atan" in text]
    found = [lowering.to_host(part) for part in executable(lowering.to_device(x))]
    wanted = oracle(x.astype(np.float64))
    wanted = [wanted.real, wanted.imag] if wanted.dtype.kind == "c" else [wanted]
    epsilon = float(np.finfo(dtype).eps)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=100 * epsilon, atol=100 * epsilon)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_atan_is_within_three_units_everywhere(dtype: np.dtype[Any]) -> None:
    info = np.finfo(dtype)
    edges = [0.0, 0.41421356237309503, 2.414213562373095, 1.0, info.max, info.tiny, np.inf, np.nan]
    x = np.concatenate([np.geomspace(1e-9, 1e9, 20001), edges]).astype(dtype)
    x = np.concatenate([x, -x])
    graph = make_graph(lambda v: [ops.atan(v)], (x.shape, dtype))
    found = lowering.to_host(lowering.compile_graph(graph)(lowering.to_device(x))[0])
    wanted = np.arctan(x.astype(np.longdouble)).astype(dtype)
    assert fused_pairs.units_apart(found, wanted).max() <= 3
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))


LARGE = tuple(size for size in fused_pairs.SIZES if size >= 64)
"""With fewer elements loops are not made of vectors of 512 bits."""


def differing(
    cases: list[fused_pairs.Case], dtype: np.dtype[Any], sizes: Sequence[int]
) -> list[str]:
    """Return the cases that differ; each 200th part of them at a size of its own."""
    told = []
    for i, first in enumerate(range(0, len(cases), 200)):
        size = sizes[i % len(sizes)]
        told += fused_pairs.differing(cases[first : first + 200], size, dtype, UNITS)
    return told


def pairs(kind: Any, dtype: np.dtype[Any]) -> list[fused_pairs.Case]:
    return [case for case in kind(dtype) if AMPLIFIED not in case.name]


@pytest.mark.xla
def test_ops_have_the_same_values_at_both_widths() -> None:
    """Every op of one operand, and some of what the slow tests have all of."""
    some = random.Random(0)
    cases = [case for case in fused_pairs.single(SINGLE) if case.name.endswith("(x)")]
    cases += some.sample(list(fused_pairs.single(SINGLE)), 40)
    cases += some.sample(pairs(fused_pairs.pairs, SINGLE), 40)
    assert len(cases) > 100
    assert differing(cases, SINGLE, LARGE) == []


@pytest.mark.xla
@pytest.mark.slow
@pytest.mark.sweep
@needs_wide_vectors
@pytest.mark.parametrize("size", fused_pairs.SIZES)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_all_ops_have_the_same_values_at_both_widths(dtype: np.dtype[Any], size: int) -> None:
    halves = fused_pairs.converted(fused_pairs.single(HALF), HALF)
    assert differing([*fused_pairs.single(dtype), *halves], dtype, (size,)) == []


@pytest.mark.xla
@pytest.mark.slow
@pytest.mark.sweep
@needs_wide_vectors
@pytest.mark.parametrize("kind", [fused_pairs.pairs, fused_pairs.complex_forms])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_all_pairs_have_the_same_values_at_both_widths(kind: Any, dtype: np.dtype[Any]) -> None:
    assert differing(pairs(kind, dtype), dtype, LARGE) == []


# The check of a machine.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder of the test's own, on a machine that has wide vectors."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vector_check, "_KNOWN", {})
    monkeypatch.setattr(shims, "LONG_VECTORS_ARE_SAFE", True)
    monkeypatch.setattr(vectors, "cpu_features", lambda: frozenset({"avx512_vbmi2"}))
    return tmp_path / "tracer"


def wrong_sine(b: StableHloBuilder, x: Operand) -> Operand:
    return b.multiply(x, x)


NOT_IN_VECTORS = {"cbrt"}
"""Functions of StableHLO that C's library computes, element by element, in both dtypes."""


def is_a_function(op: Op) -> bool:
    """Whether an op is a function of StableHLO, or CHLO's erf, that is more than an instruction."""
    if not hasattr(shims.hlo, op.name) and op.name != "erf":
        return False
    types = (ShapeDtype((8,), "float32"),) * len(op.reuses)
    if op.fusion != "loop" or not types:
        return False
    try:
        result = op.infer(*types)
    except (TracerError, TypeError):  # other operands, or parameters
        return False
    return bool(result == types[0] and op.cost(types, (result,)).flops >= 4 * 8)


def test_the_check_knows_all_functions_with_vectors() -> None:
    found = {op.name for op in vector_check.functions()}
    assert found == {op.name for op in registry().values() if is_a_function(op)} - NOT_IN_VECTORS


@pytest.mark.xla
def test_a_machine_is_checked_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vectors.vector_options("cpu") == WIDE
    (file,) = folder.iterdir()
    assert file.read_text() == "right"
    monkeypatch.setattr(vector_check, "_find_out", lambda *_: pytest.fail("checked again"))
    assert vectors.vector_options("cpu") == WIDE
    vector_check._KNOWN.clear()  # as in another process
    assert vectors.vector_options("cpu") == WIDE
    assert vectors.vector_options("gpu") == {}


@pytest.mark.xla
def test_wrong_values_switch_wide_vectors_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StableHloBuilder, "sine", wrong_sine, raising=False)
    monkeypatch.setattr(vector_check, "functions", lambda: [ops.cosine, ops.sine, ops.tanh])
    with pytest.warns(WideVectorsWarning, match=r"\(sine of float32.*\n.*mend"):
        assert vectors.vector_options("cpu") == {}
    (note,) = tracer.compile(tnp.cos).plan(np.ones(1234)).notes
    assert "wrong values" in note
    (file,) = folder.iterdir()
    assert file.read_text() == "wrong"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vectors.vector_options("cpu") == {}
        vector_check._KNOWN.clear()
        assert vectors.vector_options("cpu") == {}


@pytest.mark.xla
def test_what_is_kept_is_of_this_machine_and_these_flags(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vectors.vector_options("cpu") == WIDE
    monkeypatch.setattr(vector_check, "_find_out", lambda *_: False)
    monkeypatch.setattr(vectors, "cpu_model", lambda: "another")
    assert vectors.vector_options("cpu") == {}
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX")
    monkeypatch.setattr(vector_check, "_find_out", lambda *_: True)
    assert vectors.vector_options("cpu") == WIDE
    assert len(list(folder.iterdir())) == 3


@pytest.mark.xla
@pytest.mark.parametrize("text", ["", "neither", "\xff"])
def test_a_file_that_says_nothing_is_written_again(folder: Path, text: str) -> None:
    assert vectors.vector_options("cpu") == WIDE
    (file,) = folder.iterdir()
    file.write_text(text, encoding="latin-1")
    vector_check._KNOWN.clear()
    assert vectors.vector_options("cpu") == WIDE
    assert file.read_text() == "right"


@pytest.mark.xla
def test_a_folder_that_cannot_be_is_no_failure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert vectors.vector_options("cpu") == WIDE
    assert not folder.exists()


@pytest.mark.xla
@pytest.mark.skipif(
    "avx512_vbmi2" not in vectors.cpu_features()
    or shims.VERSION[:2] != (0, 10)
    or "max_isa" in os.environ.get("XLA_FLAGS", ""),
    reason="the fault is in jaxlib 0.10, on machines with AVX-512",
)
def test_the_check_finds_the_fault_that_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Zen 4 a loop with another function beside it has narrower vectors, and is right."""
    monkeypatch.setattr(StableHloBuilder, "atan", lambda b, x: Operand(chlo.atan(x.raw)))
    in_vectors = vector_check._in_vectors
    monkeypatch.setattr(
        vector_check,
        "_in_vectors",
        lambda chosen, dtype: in_vectors(chosen, dtype) + [op for op in chosen if op is ops.atan],
    )
    both = {f"{kind} of {dtype}" for kind in ("atan", "sum") for dtype in ("float32", "float64")}
    device = lowering.devices("cpu")[0]
    for others in ([], vector_check.functions()):
        wrong = vector_check.wrong_values([ops.atan, *others], WIDE, device)
        assert {"atan of float32", "atan of float64"} <= set(wrong)
        assert set(wrong) <= both
        assert vector_check.wrong_values([ops.atan, *others], {}, device) == []
