"""Calls of LAPACK beside LAPACK itself: the same module, compiled as it is by XLA."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tracer
from tests.sampling import one_in
from tests.stablehlo.test_reference import NAMES, module_of, type_of
from tracer.lowering import find_device, shims
from tracer.lowering.run import transfer, xla_options
from tracer.lowering.shims import ir

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(4)
A = RNG.normal(size=(5, 5))
C = A + 1j * RNG.normal(size=(5, 5))
TALL, WIDE = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 5))
FAILED = np.where(np.eye(5), -1.0, 0.0)
INT = np.zeros((), np.int32)
VECTORS = np.zeros((5, 5), complex)


def by_xla(text: str, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Compile and run a module as it is."""
    shims.require_lapack()
    device = find_device("cpu:0")
    options = xla_options.compile_options({}, {}, [device.raw], is_partitioned=False)
    with shims.make_context():
        module = ir.Module.parse(text)
        loaded = device.client.compile_and_load(module, shims.device_list(device.raw), options)
    results = loaded.execute_sharded([transfer.to_device(x, device) for x in arrays])
    return [np.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()]


def call(
    target: str,
    flags: str,
    arrays: list[np.ndarray[Any, Any]],
    results: list[np.ndarray[Any, Any]],
    *,
    by_columns: bool = True,
) -> str:
    """Return a module that calls a routine; `results` have the types of what it makes."""
    rank = max(x.ndim for x in arrays)

    def layout(ndim: int) -> str:
        order = list(range(ndim - 1, -1, -1))
        if ndim == rank and by_columns:
            order[:2] = order[1::-1]
        return f"dense<{order}> : tensor<{ndim}xindex>"

    given = ", ".join(layout(x.ndim) for x in arrays)
    made = ", ".join(layout(x.ndim) for x in results)
    operands = ", ".join(f"%{i}" for i in range(len(arrays)))
    names = f"%r:{len(results)}"
    types = ", ".join(map(type_of, arrays)), ", ".join(map(type_of, results))
    kind = {"f64": "d", "f32": "s", "complex<f64>": "z"}[NAMES[arrays[0].dtype]]
    lines = f"""{names} = stablehlo.custom_call @lapack_{kind}{target}_ffi({operands}) {{
  api_version = 4 : i32, backend_config = {{{flags}}},
  operand_layouts = [{given}], result_layouts = [{made}]}} : ({types[0]}) -> ({types[1]})"""
    for i, x in enumerate(results):
        lines += f"\n%r{i} = stablehlo.optimization_barrier %r#{i} : {type_of(x)}"
    return module_of(arrays, lines, list(map(type_of, results)))


def assert_as_lapack(
    text: str, arrays: list[np.ndarray[Any, Any]], leave_out: tuple[int, ...] = ()
) -> None:
    wanted = by_xla(text, arrays)
    found = tracer.compile(tracer.from_stablehlo(text))(*arrays)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(wanted)
    for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if k not in leave_out:
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12, err_msg=f"result {k}")


def require(routine: str) -> None:
    """Skip a test that compares with what this jaxlib lacks."""
    if f"lapack_{routine}_ffi" not in {name for name, *_ in shims.lapack.registrations()["cpu"]}:
        pytest.skip(f"{routine} came later")


def letter(name: str, value: str) -> str:
    return f"{name} = {ord(value)} : ui8"


def letters(**flags: str) -> str:
    return ", ".join(letter(name, value) for name, value in flags.items())


LOPSIDED = A @ A.T + np.eye(5) + np.triu(A, 1)


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("by_columns", [True, False])
def test_potrf_leaves_the_other_triangle(uplo: str, by_columns: bool) -> None:
    symmetric = A @ A.T + np.eye(5)
    # What is not read differs.
    reads_lower = (uplo == "L") == by_columns
    other = np.triu(A, 1) if reads_lower else np.tril(A, -1)
    for x in (symmetric + other, C @ C.conj().T + np.eye(5) + other):
        types = [x, INT]
        text = call("potrf", letters(uplo=uplo), [x], types, by_columns=by_columns)
        assert_as_lapack(text, [x])


def test_potrf_that_fails_says_so() -> None:
    text = call("potrf", letters(uplo="L"), [FAILED], [FAILED, INT])
    factor, info = tracer.compile(tracer.from_stablehlo(text))(FAILED)
    assert int(info) == 1
    assert np.isnan(np.asarray(factor)[0, 0])


@pytest.mark.parametrize("side", ["L", "R"])
@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("trans", ["N", "T", "C"])
@pytest.mark.parametrize("diag", ["N", "U"])
def test_trsm(side: str, uplo: str, trans: str, diag: str) -> None:
    flags = letters(side=side, uplo=uplo, trans_x=trans, diag=diag)
    a = (A if trans == "N" else C) + 4 * np.eye(5)
    b = RNG.normal(size=(5, 3) if side == "L" else (3, 5)).astype(a.dtype)
    for by_columns in (True, False):
        text = call("trsm", flags, [a, b], [b], by_columns=by_columns)
        assert_as_lapack(text, [a, b])


@pytest.mark.parametrize("a", [A, TALL, WIDE, C])
def test_getrf(a: np.ndarray[Any, Any]) -> None:
    pivots = np.zeros(min(a.shape), np.int32)
    assert_as_lapack(call("getrf", "", [a], [a, pivots, INT]), [a])


def test_getrf_of_a_singular_matrix() -> None:
    a = np.ones((3, 3))
    text = call("getrf", "", [a], [a, np.zeros(3, np.int32), INT])
    assert int(tracer.compile(tracer.from_stablehlo(text))(a)[2]) == 1


@pytest.mark.parametrize("a", [A, TALL, WIDE, C, np.triu(A), np.zeros((4, 3)), np.stack([A, A.T])])
def test_geqrf_gives_the_reflectors(a: np.ndarray[Any, Any]) -> None:
    scales = np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    assert_as_lapack(call("geqrf", "", [a], [a, scales]), [a])


@pytest.mark.parametrize("a", [A, TALL, C, C[:, :2]])
def test_orgqr_of_given_reflectors(a: np.ndarray[Any, Any]) -> None:
    scales = RNG.normal(size=a.shape[1]).astype(a.dtype)
    target = "ungqr" if a.dtype.kind == "c" else "orgqr"
    # Reflections have one length of vectors only; others are no unitary matrices, but defined.
    assert_as_lapack(call(target, "", [a, scales], [a]), [a, scales])


def boolean(name: str, *, value: bool) -> str:
    return f"{name} = {str(value).lower()}"


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("a", [A, TALL, C, C[:, :2]])
def test_ormqr_of_given_reflectors(a: np.ndarray[Any, Any], left: bool, transpose: bool) -> None:
    require("dormqr")
    # As geqrf makes them: of other scales LAPACK's product depends on how it is blocked.
    packed, scales = scipy.linalg.lapack.get_lapack_funcs(("geqrf",), (a,))[0](a)[:2]
    m = a.shape[0]
    c = RNG.normal(size=(m, 3) if left else (3, m)).astype(a.dtype)
    flags = f"{boolean('left', value=left)}, {boolean('transpose', value=transpose)}"
    target = "unmqr" if a.dtype.kind == "c" else "ormqr"
    text = call(target, flags, [packed, scales, c], [c])
    assert_as_lapack(text, [packed, scales, c])
    q = scipy.linalg.qr(a)[0]
    q = q.conj().T if transpose else q
    np.testing.assert_allclose(by_xla(text, [packed, scales, c])[0], q @ c if left else c @ q)


@pytest.mark.parametrize(
    "a", [A, C, A[:1, :1], C[:1, :1], C[:2, :2], np.triu(C), np.stack([A, A.T]), np.stack([C, C.T])]
)
def test_gehrd(a: np.ndarray[Any, Any]) -> None:
    n = a.shape[-1]
    scales, info = a[..., : n - 1, 0], np.zeros(a.shape[:-2], np.int32)
    flags = f"low = 1 : i32, high = {n} : i32"
    text = call("gehrd", flags, [a], [a, scales, info])
    assert_as_lapack(text, [a])
    if n > 1:
        part = call("gehrd", f"low = 2 : i32, high = {n} : i32", [a], [a, scales, info])
        with pytest.raises(tracer.UnsupportedError, match="of a part of the matrix"):
            tracer.from_stablehlo(part)


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("a", [A, C, A[:1, :1], C[:2, :2], np.stack([A, A.T]), np.stack([C, C.T])])
def test_sytrd(a: np.ndarray[Any, Any], uplo: str) -> None:
    d, info = a[..., 0].real, np.zeros(a.shape[:-2], np.int32)
    target = "hetrd" if a.dtype.kind == "c" else "sytrd"
    results = [a, d, d[..., 1:], a[..., 1:, 0], info]
    assert_as_lapack(call(target, letters(uplo=uplo), [a], results), [a])


@pytest.mark.parametrize("first", [(0, 0, 0, 0), (0, 0, 7, 0), (1, 0, 1, 0), (0, 1, 0, 1)])
@pytest.mark.parametrize("a", [TALL, WIDE[:, :4], A[:4, :4], C[:, :4], np.stack([TALL, TALL + 1])])
def test_geqp3(a: np.ndarray[Any, Any], first: tuple[int, ...]) -> None:
    comes_first = np.broadcast_to(np.array(first, np.int32), (*a.shape[:-2], 4)).copy()
    scales = np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    text = call("geqp3", "", [a, comes_first], [a, comes_first, scales])
    assert_as_lapack(text, [a, comes_first])


BLOCKS = scipy.linalg.block_diag([[1.0, 5], [-2, 1]], 3, [[0, 1], [-1, 0]])


@pytest.mark.parametrize("mode", ["N", "V"])
@pytest.mark.parametrize("a", [A, C, BLOCKS, A[:1, :1], np.stack([A, A.T]), np.stack([C, C.T])])
def test_gees(mode: str, a: np.ndarray[Any, Any]) -> None:
    values, info = a[..., 0], np.zeros(a.shape[:-2], np.int32)
    parts = [values] if a.dtype.kind == "c" else [values, values]
    text = call("gees", letters(mode=mode, sort="N"), [a], [a, a, *parts, info, info])
    assert_as_lapack(text, [a], () if mode == "V" else (1,))


def test_gees_that_fails_says_so() -> None:
    a = np.full((3, 3), np.nan)
    values, flags = a[0], letters(mode="V", sort="N")
    text = call("gees", flags, [a], [a, a, values, values, INT, INT])
    form, *_, info = tracer.compile(tracer.from_stablehlo(text))(a)
    assert int(info) == 1
    assert np.isnan(np.asarray(form)).all()


@pytest.mark.parametrize("mode", ["N", "S", "A"])
@pytest.mark.parametrize("a", [A, TALL, WIDE])
def test_gesvd(mode: str, a: np.ndarray[Any, Any]) -> None:
    (m, n), small = a.shape, min(a.shape)
    u, vh = {"N": ((1, 1), (1, 1)), "S": ((m, small), (small, n)), "A": ((m, m), (n, n))}[mode]
    types = [a, np.zeros(small), np.zeros(u), np.zeros(vh), INT]
    text = call("gesvd", letters(mode=mode), [a], types)
    # Singular vectors have no sign of their own: compared by what they mean.
    assert_as_lapack(text, [a], (0, 2, 3))
    _, s, left, right, _ = map(np.asarray, tracer.compile(tracer.from_stablehlo(text))(a))
    if mode != "N":
        np.testing.assert_allclose((left[:, :small] * s) @ right[:small], a, atol=1e-12)
        np.testing.assert_allclose(left.T @ left, np.eye(left.shape[1]), atol=1e-12)
        np.testing.assert_allclose(right @ right.T, np.eye(right.shape[0]), atol=1e-12)


@pytest.mark.parametrize("mode", ["N", "S", "A"])
@pytest.mark.parametrize("a", [A, TALL, WIDE])
def test_gesdd(mode: str, a: np.ndarray[Any, Any]) -> None:
    (m, n), small = a.shape, min(a.shape)
    u, vh = {"N": ((1, 1), (1, 1)), "S": ((m, small), (small, n)), "A": ((m, m), (n, n))}[mode]
    types = [a, np.zeros(small), np.zeros(u), np.zeros(vh), INT]
    left_out = (0, 2, 3) if mode == "N" else (0,)
    assert_as_lapack(call("gesdd", letters(mode=mode), [a], types), [a], left_out)


@pytest.mark.parametrize("mode", ["N", "V"])
@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("a", [LOPSIDED, C + C.conj().T + np.triu(A, 1)])
def test_syevd(mode: str, uplo: str, a: np.ndarray[Any, Any]) -> None:
    target = "heevd" if a.dtype.kind == "c" else "syevd"
    types = [a, np.zeros(5), INT]
    text = call(target, letters(mode=mode, uplo=uplo), [a], types)
    if mode == "N" or a.dtype.kind == "c" or uplo == "U":
        # Eigenvectors have no sign of their own: compared by what they mean.
        vectors, values, info = (
            np.asarray(x) for x in tracer.compile(tracer.from_stablehlo(text))(a)
        )
        np.testing.assert_allclose(values, by_xla(text, [a])[1], rtol=1e-10)
        whole = np.tril(a) if uplo == "L" else np.triu(a)
        whole = whole + (np.tril(whole, -1) + np.triu(whole, 1)).conj().T
        whole -= 1j * np.diag(np.diag(whole).imag) if a.dtype.kind == "c" else 0
        if mode == "V":
            np.testing.assert_allclose(whole @ vectors, vectors * values, atol=1e-10)
        assert int(info) == 0
        return
    assert_as_lapack(text, [a])


@pytest.mark.parametrize("right", ["N", "V"])
@pytest.mark.parametrize("a", [A, C])
def test_geev(right: str, a: np.ndarray[Any, Any]) -> None:
    values = [VECTORS[0]] if a.dtype.kind == "c" else [np.zeros(5)] * 2
    types = [*values, VECTORS, VECTORS, INT]
    text = call("geev", letters(compute_left="N", compute_right=right), [a], types)
    left = len(values)
    assert_as_lapack(text, [a], (left,) if right == "V" else (left, left + 1))


def masked(
    text: str, x: np.ndarray[Any, Any], direction: str, *, on_true: bool, offset: int
) -> str:
    """Return a module with the first result of another cut off by a mask."""
    indices = type_of(x.astype(np.int32))
    pair = "%r#0, %other" if on_true else "%other, %r#0"
    lines = f"""%rows = stablehlo.iota dim = 0 : {indices}
%columns = stablehlo.iota dim = 1 : {indices}
%c = stablehlo.constant dense<{offset}> : {indices}
%moved = stablehlo.add %rows, %c : {indices}
%mask = stablehlo.compare {direction}, %moved, %columns : ({indices}, {indices}) ->
  {type_of(x > 0)}
%other = stablehlo.constant dense<7.0> : {type_of(x)}
%cut = stablehlo.select %mask, {pair} : {type_of(x > 0)}, {type_of(x)}
return %cut"""
    head, _, results = text.partition("return %r0")
    return head + lines + results


@pytest.mark.parametrize(
    ("direction", "on_true", "offset"),
    one_in(5, product(["LE", "LT", "GE", "GT", "EQ", "NE"], [True, False], [-1, 0, 1])),
)
def test_what_masks_read_of_a_factor(direction: str, on_true: bool, offset: int) -> None:
    """Only within R, or the triangle that was factored, the rest need not be computed."""
    symmetric = A @ A.T + np.eye(5) + np.triu(A, 1)
    for text, x in (
        (call("geqrf", "", [A], [A, A[0]]), A),
        (call("potrf", letters(uplo="L"), [symmetric], [symmetric, INT]), symmetric),
    ):
        cut = masked(text, x, direction, on_true=on_true, offset=offset)
        assert_as_lapack(cut, [x])


def test_q_and_r_are_those_of_qr() -> None:
    """The usual way of writing QR needs no loop over reflectors."""
    text = tracer.compile(tracer.numpy.linalg.qr).stablehlo(TALL)
    assert "geqrf" in text
    f = tracer.from_stablehlo(text)
    graph = tracer.compile(f).graph(TALL)
    names = {node.op.name for node in graph.nodes}
    assert "qr" in names
    assert not names & {"scan", "while"}
    tracer.check_grads(lambda x: sum(part.sum() for part in f(x)), (TALL,), order=1)


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        ("gees", letters(mode="V", sort="S")),
        ("gtsv", ""),
        ("geev", letters(compute_left="V", compute_right="V")),
    ],
)
def test_what_is_refused(target: str, flags: str) -> None:
    types = [np.zeros(5), np.zeros(5), VECTORS, VECTORS, INT]
    with pytest.raises(tracer.UnsupportedError, match=f"@lapack_d{target}_ffi"):
        tracer.from_stablehlo(call(target, flags, [A], types))
