"""Products are handed to XLA in the form that its library takes, and mean the same."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from benchmarks.products import LAYOUTS, Case, legal, multiply
from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype, Value
from tracer.ir.library_calls import ProductCall
from tracer.lowering import shims
from tracer.optimizer.model.costs import counted_scratch, packing_bytes
from tracer.target import DEFAULT_TARGET

ynnpack = pytest.mark.skipif(
    not shims.PRODUCTS_BY_YNNPACK, reason="this jaxlib multiplies everything with Eigen"
)
SIZES = [(0, 256, 96, 64), (0, 3, 256, 512), (0, 512, 256, 3), (4, 128, 256, 64)]


def graph_of(case: Case, *, transposed: bool = False) -> Graph:
    """Build one product; `transposed` writes both operands and the result through transposes."""
    types = [ShapeDtype(case.shape(letters), case.dtype) for letters in case.operands]

    def turned(x: Value) -> Value:
        last = len(x.shape) - 1
        order = (*range(last - 1), last, last - 1)
        return ops.transpose(x, permutation=order)  # type: ignore[no-any-return]

    with Builder() as builder:
        x, y = (builder.input(type) for type in types)
        if not transposed:
            return builder.finish([multiply(case, x, y)])
        left, right = (letters[::-1] for letters in case.operands)
        flipped = Case(f"{left},{right}->mn", case.batch, case.m, case.k, case.n, case.dtype)
        return builder.finish([turned(multiply(flipped, turned(x), turned(y)))])


def arrays_of(case: Case) -> list[Any]:
    generator = np.random.default_rng(1)
    return [
        generator.standard_normal(case.shape(part)).astype(case.dtype) for part in case.operands
    ]


def compiled(graph: Graph) -> Any:
    return lowering.compile_graph(legal(graph))


def expected(case: Case, x: Any, y: Any) -> Any:
    subscripts = re.sub(r"(\w+)", r"...\1", case.layout)
    return np.einsum(subscripts, x.astype(np.float64), y.astype(np.float64), optimize=True)


def dots_outside_of_the_library(hlo: str) -> list[str]:
    """Return the dots of optimised HLO that are in no computation of a library's fusion."""
    library = re.findall(r'calls=%([\w.\-]+).*"kind":"__ynn_fusion"', hlo)
    blocks = re.split(r"\n(?=(?:ENTRY )?%[\w.\-]+ \()", hlo)
    outside = [b for b in blocks if not any(b.startswith(f"%{name} (") for name in library)]
    return re.findall(r"= .* dot\(.*", "\n".join(outside))


@pytest.mark.xla
@pytest.mark.parametrize("transposed", [False, True], ids=["", "through transposes"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_layout_goes_to_the_library_and_is_right(
    sizes: tuple[int, ...], layout: str, transposed: bool
) -> None:
    batch, m, k, n = sizes
    case = Case(layout, batch, m, k, n, "float32")
    executable = compiled(graph_of(case, transposed=transposed))
    x, y = arrays_of(case)
    (found,) = (lowering.to_host(b) for b in executable(*map(lowering.to_device, (x, y))))
    wanted = expected(case, x, y)
    np.testing.assert_allclose(
        found, np.swapaxes(wanted, -1, -2) if transposed else wanted, rtol=1e-4, atol=1e-3
    )
    if shims.PRODUCTS_BY_YNNPACK:
        assert dots_outside_of_the_library(executable.hlo()) == []


@pytest.mark.xla
@ynnpack
def test_as_written_the_library_refuses_contracted_axes_in_front() -> None:
    """What all this is for: when this fails, XLA has learnt it and the forms may go."""
    case = Case("km,kn->mn", 0, 256, 96, 64, "float32")
    executable = lowering.compile_graph(graph_of(case))
    assert len(dots_outside_of_the_library(executable.hlo())) == 1


@ynnpack
def test_small_operand_and_small_result_are_transposed_rather_than_the_large_operand() -> None:
    text = lowering.stablehlo(legal(graph_of(Case("km,kn->mn", 0, 2048, 256, 3, "float32"))))
    assert "(tensor<256x3xf32>) -> tensor<3x256xf32>" in text
    assert "(tensor<3x2048xf32>) -> tensor<2048x3xf32>" in text
    assert "tensor<2048x256xf32>" not in text
    assert text.count("optimization_barrier") == 2


def test_large_canonical_products_are_left_as_they_are() -> None:
    for shape in itertools.product((1, 8), (64, 1000, 5000), (64, 1000), (64, 1000, 5000)):
        form = DEFAULT_TARGET.form_of(ProductCall(*shape, itemsize=4))
        assert not form.transposes_left
        assert not form.transposes_right


def test_vectors_and_small_products_are_plain() -> None:
    for rows, inner, columns in ((1, 5000, 500), (500, 5000, 1), (500, 1, 500), (16, 16, 16)):
        call = ProductCall(1, rows, inner, columns, 4, left_inner_last=False)
        assert DEFAULT_TARGET.form_of(call).is_plain


def test_packing_that_needs_new_pages_is_avoided() -> None:
    """The smaller operand stands on the right, when YNNPACK would pack the other in one block."""
    form = DEFAULT_TARGET.form_of(ProductCall(1, 3, 2048, 256, 8, right_inner_last=True))
    assert form.is_swapped
    assert not form.transposes_right


@pytest.mark.xla
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "int32", "complex64"])
def test_other_dtypes(layout: str, dtype: str) -> None:
    case = Case(layout, 0, 70, 90, 80, dtype)
    executable = compiled(graph_of(case))
    x, y = (
        (np.round(a) for a in arrays_of(case))
        if dtype != "int32"
        else (
            np.arange(70 * 90, dtype="i4").reshape(case.shape(case.operands[0])) % 7,
            np.arange(80 * 90, dtype="i4").reshape(case.shape(case.operands[1])) % 5,
        )
    )
    (found,) = (lowering.to_host(b) for b in executable(*map(lowering.to_device, (x, y))))
    wide = np.complex128 if dtype == "complex64" else np.float64
    wanted = np.einsum(layout, x.astype(wide), y.astype(wide))
    np.testing.assert_allclose(found.astype(wide), wanted, rtol=2e-3, atol=1e-2)


@pytest.mark.xla
@ynnpack
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_scratch_bounds_what_xla_counts_and_the_library_packs(
    sizes: tuple[int, ...], layout: str
) -> None:
    batch, m, k, n = sizes
    case = Case(layout, batch, m, k, n, "float32")
    graph = graph_of(case)
    memory = compiled(graph).memory
    (node,) = graph.nodes
    assert memory.temporary_bytes <= counted_scratch(node) + 4096
    assert memory.scratch_bytes <= packing_bytes(node)


@pytest.mark.xla
def test_axes_out_of_order_and_several_contracted_axes() -> None:
    generator = np.random.default_rng(2)
    x = generator.standard_normal((4, 32, 5, 24)).astype("f4")
    y = generator.standard_normal((4, 32, 5, 40)).astype("f4")
    with Builder() as builder:
        a, b = (builder.input(ShapeDtype(v.shape, v.dtype)) for v in (x, y))
        by_rows = ops.dot_general(
            a, b, lhs_batch=(2,), rhs_batch=(2,), lhs_contracting=(1, 0), rhs_contracting=(1, 0)
        )
        by_all = ops.dot_general(
            a,
            b,
            lhs_batch=(),
            rhs_batch=(),
            lhs_contracting=(0, 1, 2),
            rhs_contracting=(0, 1, 2),
        )
        graph = builder.finish([by_rows, by_all])
    executable = compiled(graph)
    found = [lowering.to_host(r) for r in executable(*map(lowering.to_device, (x, y)))]
    np.testing.assert_allclose(found[0], np.einsum("asbm,asbn->bmn", x, y), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found[1], np.einsum("asbm,asbn->mn", x, y), rtol=1e-4, atol=1e-3)
