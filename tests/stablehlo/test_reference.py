"""Each op beside StableHLO's own reference interpreter, which jaxlib brings along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
from tracer.lowering import shims
from tracer.lowering.emit.values import tensor_type
from tracer.lowering.shims import hlo, ir

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(11)
F = np.array([[1.5, -2.0, 0.0, -0.0], [np.inf, -np.inf, np.nan, 2.5], [-0.5, 0.5, 3.0, 1e-3]])
G = RNG.normal(size=(3, 4))
I = np.array([[5, -3, 0, 7], [-8, 2, 1, -1], [100, 3, -2, 6]], np.int32)  # noqa: E741
U = np.abs(I).astype(np.uint8)
B = I > 0
C = G + 1j * G[::-1]
KINDS = {
    "f64": np.float64,
    "f32": np.float32,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui32": np.uint32,
    "i1": np.bool_,
    "complex<f64>": np.complex128,
}
NAMES = {np.dtype(dtype): name for name, dtype in KINDS.items()}


def type_of(x: np.ndarray[Any, Any]) -> str:
    return f"tensor<{''.join(f'{n}x' for n in x.shape)}{NAMES[x.dtype]}>"


def module_of(arrays: list[np.ndarray[Any, Any]], lines: str, results: list[str]) -> str:
    """Return a module whose operands are %0, %1, ... and whose results are %r0, %r1, ..."""
    arguments = ", ".join(f"%{i}: {type_of(x)}" for i, x in enumerate(arrays))
    names = ", ".join(f"%r{i}" for i in range(len(results)))
    types = ", ".join(results)
    return f"func.func @main({arguments}) -> ({types}) {{\n{lines}\nreturn {names} : {types}\n}}"


def reference(text: str, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Evaluate a module with the interpreter. It knows no total order."""
    with shims.make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        given = [constant(x) for x in arrays]
        return [array_of(value) for value in hlo.eval_module(module, given)]


def array_of(attribute: Any) -> np.ndarray[Any, Any]:
    # jaxlib before 0.9.1 hands bools that are all equal over as bits, and reads one for each.
    elements = np.array(attribute)
    first = (0,) * elements.ndim
    return np.full_like(elements, elements[first]) if attribute.is_splat else elements


def constant(x: np.ndarray[Any, Any]) -> Any:
    type = tensor_type(tracer.ShapeDtype(x.shape, x.dtype))
    if x.dtype.kind == "b":
        return shims.bool_constant(x, type)
    return ir.DenseElementsAttr.get(x, type=type.element_type, shape=x.shape)


def assert_as_reference(
    arrays: list[np.ndarray[Any, Any]], lines: str, results: list[str], rtol: float = 1e-13
) -> None:
    text = module_of(arrays, lines, results)
    wanted = reference(text, arrays)
    found = tracer.compile(tracer.from_stablehlo(text))(*arrays)
    found = found if isinstance(found, tuple) else (found,)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        if x.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-13)
            np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


UNARY = {
    "abs": [F, I], "cbrt": [F], "ceil": [F], "cosine": [G], "count_leading_zeros": [I, U],
    "exponential": [G], "exponential_minus_one": [G], "floor": [F], "log": [np.abs(G)],
    "log_plus_one": [np.abs(G)], "logistic": [G], "negate": [F, I], "not": [B, I], "popcnt": [I, U],
    "round_nearest_afz": [F], "round_nearest_even": [F], "rsqrt": [np.abs(G)], "sign": [G, I],
    "sine": [G], "sqrt": [np.abs(G)], "tan": [G], "tanh": [G],
}  # fmt: skip
BINARY = {
    "add": [F, I, B], "and": [I, B], "atan2": [G], "divide": [G, I], "maximum": [F, I, B],
    "minimum": [F, I, B], "multiply": [F, I, B], "or": [I, B], "power": [np.abs(G), np.abs(I) % 4],
    "remainder": [G, I], "shift_left": [I], "shift_right_arithmetic": [I],
    "shift_right_logical": [I], "subtract": [G, I], "xor": [I, B],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "x"), [(name, x) for name, arrays in UNARY.items() for x in arrays]
)
def test_functions_of_one(name: str, x: np.ndarray[Any, Any]) -> None:
    assert_as_reference([x], f"%r0 = stablehlo.{name} %0 : {type_of(x)}", [type_of(x)], 1e-12)


@pytest.mark.parametrize(
    ("name", "x"), [(name, x) for name, arrays in BINARY.items() for x in arrays]
)
def test_functions_of_two(name: str, x: np.ndarray[Any, Any]) -> None:
    y = x[::-1].copy()
    if name == "divide" and x.dtype.kind == "i":
        y[y == 0] = 3
    if name == "remainder" and x.dtype.kind == "i":
        y[y == 0] = 3
    if name.startswith("shift"):
        y = np.abs(y) % 5
    assert_as_reference(
        [x, y], f"%r0 = stablehlo.{name} %0, %1 : {type_of(x)}", [type_of(x)], 1e-12
    )


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("kind", ["FLOAT", "SIGNED"])
def test_compare(direction: str, kind: str) -> None:
    x = I if kind == "SIGNED" else np.concatenate([F, -F])
    x, y = np.repeat(x.ravel(), x.size), np.tile(x.ravel(), x.size)
    types = f"({type_of(x)}, {type_of(y)}) -> {type_of(x == y)}"
    line = f"%r0 = stablehlo.compare {direction}, %0, %1, {kind} : {types}"
    assert_as_reference([x, y], line, [type_of(x == y)])


TOTAL = np.array([-np.nan, -np.inf, -1.5, -0.0, 0.0, 1e-300, 1.5, np.inf, np.nan])


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_compare_in_the_total_order(direction: str) -> None:
    x, y = (part.ravel() for part in np.meshgrid(TOTAL, TOTAL))
    i, j = (part.ravel() for part in np.meshgrid(range(9), range(9)))
    wanted = {"EQ": i == j, "NE": i != j, "LT": i < j, "LE": i <= j, "GT": i > j, "GE": i >= j}
    types = f"({type_of(x)}, {type_of(y)}) -> {type_of(x == y)}"
    line = f"%r0 = stablehlo.compare {direction}, %0, %1, TOTALORDER : {types}"
    f = tracer.from_stablehlo(module_of([x, y], line, [type_of(x == y)]))
    np.testing.assert_array_equal(tracer.compile(f)(x, y), wanted[direction])


def function(op: str, type: str) -> str:
    return (
        f"^bb0(%a: tensor<{type}>, %b: tensor<{type}>):\n"
        f"%s = stablehlo.{op} %a, %b : tensor<{type}>\nstablehlo.return %s : tensor<{type}>"
    )


REDUCTIONS = [
    ("add", G, "0.0"), ("add", G, "-0.0"), ("add", G, "2.5"), ("add", -0.0 * np.abs(G), "-0.0"),
    ("multiply", G, "1.0"), ("multiply", G, "-3.0"), ("maximum", F, "0xFFF0000000000000"),
    ("maximum", F, "1.0"), ("minimum", G, "0.1"), ("add", I, "0"), ("maximum", I, "4"),
    ("and", I, "-1"), ("or", I, "0"), ("xor", I, "0"), ("xor", I, "6"), ("and", B, "true"),
    ("or", B, "false"), ("xor", B, "false"), ("xor", B, "true"), ("add", B, "false"),
    ("multiply", B, "true"), ("minimum", B, "true"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "x", "start"), REDUCTIONS)
@pytest.mark.parametrize("axes", [(), (1,), (0, 1)])
def test_reduce(op: str, x: np.ndarray[Any, Any], start: str, axes: tuple[int, ...]) -> None:
    kind = NAMES[x.dtype]
    made = type_of(np.zeros([n for i, n in enumerate(x.shape) if i not in axes], x.dtype))
    lines = f"""%init = stablehlo.constant dense<{start}> : tensor<{kind}>
%r0 = "stablehlo.reduce"(%0, %init) <{{dimensions = array<i64{": " if axes else ""}{", ".join(map(str, axes))}>}}> ({{
{function(op, kind)}
}}) : ({type_of(x)}, tensor<{kind}>) -> {made}"""  # noqa: E501
    assert_as_reference([x], lines, [made])


def test_reduce_with_a_start_that_is_given() -> None:
    lines = f"""%r0 = "stablehlo.reduce"(%0, %1) <{{dimensions = array<i64: 0>}}> ({{
{function("multiply", "f64")}
}}) : (tensor<3x4xf64>, tensor<f64>) -> tensor<4xf64>"""
    assert_as_reference([G, np.array(2.0)], lines, ["tensor<4xf64>"])


WINDOWS = [
    "window_dimensions = array<i64: 2, 2>",
    "window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1, 2>, "
    "padding = dense<[[1, 0], [2, 1]]> : tensor<2x2xi64>",
    "window_dimensions = array<i64: 1, 2>, base_dilations = array<i64: 2, 1>, "
    "window_dilations = array<i64: 1, 2>, padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>",
    "window_dimensions = array<i64: 1, 4>, padding = dense<[[0, 0], [3, 0]]> : tensor<2x2xi64>",
    "window_dimensions = array<i64: 3, 1>, padding = dense<[[0, 2], [0, 0]]> : tensor<2x2xi64>",
    "window_dimensions = array<i64: 1, 3>, padding = dense<[[0, 0], [-1, 1]]> : tensor<2x2xi64>",
]


def shape_of_windows(text: str, x: np.ndarray[Any, Any]) -> str:
    """Let StableHLO infer the type of the result."""
    for rows in range(1, 8):
        for columns in range(1, 8):
            made = f"tensor<{rows}x{columns}x{NAMES[x.dtype]}>"
            try:
                with shims.make_context(), ir.Location.unknown():
                    ir.Module.parse(module_of([x], text.format(made=made), [made]))
            except ir.MLIRError:
                continue
            return made
    raise AssertionError(text)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("op", "x", "start"),
    [("add", G, "0.0"), ("add", G, "1.5"), ("multiply", G, "1.0"), ("maximum", F, "-1.0"),
     ("maximum", F, "0xFFF0000000000000"), ("minimum", I, "2147483647"), ("xor", I, "0"),
     ("or", B, "false"), ("subtract", G, "0.5")],
)  # fmt: skip
def test_reduce_window(op: str, x: np.ndarray[Any, Any], start: str, window: str) -> None:
    kind = NAMES[x.dtype]
    text = f"""%init = stablehlo.constant dense<{start}> : tensor<{kind}>
%r0 = "stablehlo.reduce_window"(%0, %init) <{{{{{window}}}}}> ({{{{
{function(op, kind)}
}}}}) : ({type_of(x)}, tensor<{kind}>) -> {{made}}"""
    made = shape_of_windows(text, x)
    assert_as_reference([x], text.format(made=made), [made])


def select_and_scatter(direction: str, start: str) -> str:
    return f"""%init = stablehlo.constant dense<{start}> : tensor<f64>
%r0 = "stablehlo.select_and_scatter"(%0, %1, %init) <{{window_dimensions = array<i64: 2, 2>,
  window_strides = array<i64: 2, 2>}}> ({{
^bb0(%a: tensor<f64>, %b: tensor<f64>):
  %c = stablehlo.compare {direction}, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}}, {{
{function("add", "f64")}
}}) : (tensor<4x6xf64>, tensor<2x3xf64>, tensor<f64>) -> tensor<4x6xf64>"""


@pytest.mark.parametrize("direction", ["GE", "LE"])
def test_select_and_scatter(direction: str) -> None:
    arrays = [RNG.permutation(24.0 * np.arange(24)).reshape(4, 6), RNG.normal(size=(2, 3))]
    lines, made = select_and_scatter(direction, "0.0"), ["tensor<4x6xf64>"]
    assert_as_reference(arrays, lines, made)
    # The interpreter adds another start twice, unlike the specification.
    other = tracer.from_stablehlo(module_of(arrays, select_and_scatter(direction, "2.0"), made))
    plain = tracer.from_stablehlo(module_of(arrays, lines, made))
    np.testing.assert_allclose(other(*arrays), 2.0 + np.asarray(plain(*arrays)), rtol=1e-15)


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 3, 99])
def test_case_out_of_bounds(index: int) -> None:
    branches = ", ".join(
        f"{{ %b{k} = stablehlo.constant dense<{k}.5> : tensor<f64>\n"
        f"%c{k} = stablehlo.add %b{k}, %1 : tensor<f64>\nstablehlo.return %c{k} : tensor<f64> }}"
        for k in range(3)
    )
    lines = f'%r0 = "stablehlo.case"(%0) ({branches}) : (tensor<i32>) -> tensor<f64>'
    assert_as_reference([np.array(index, np.int32), np.array(1.0)], lines, ["tensor<f64>"])


@pytest.mark.parametrize("flag", [True, False])
def test_if(flag: bool) -> None:
    lines = """%r0 = "stablehlo.if"(%0) ({
  %a = stablehlo.sine %1 : tensor<3x4xf64>
  stablehlo.return %a : tensor<3x4xf64>
}, {
  stablehlo.return %1 : tensor<3x4xf64>
}) : (tensor<i1>) -> tensor<3x4xf64>"""
    assert_as_reference([np.array(flag), G], lines, [type_of(G)])


COMPARATORS = {
    "LT": "%c = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>",
    "GT": "%c = stablehlo.compare GT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>",
    "then": "%d = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "%e = stablehlo.compare EQ, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "%f = stablehlo.compare GT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>\n"
    "%g = stablehlo.and %e, %f : tensor<i1>\n%c = stablehlo.or %d, %g : tensor<i1>",
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARATORS)
@pytest.mark.parametrize("axis", [0, 1])
def test_sort(name: str, axis: int) -> None:
    x, y = np.concatenate([G, -G]).round(0) + 0.0, np.concatenate([I % 3, I % 2]).astype(np.int32)
    lines = f"""%r:2 = "stablehlo.sort"(%0, %1) <{{dimension = {axis} : i64, is_stable = true}}> ({{
^bb0(%a: tensor<f64>, %b: tensor<f64>, %i: tensor<i32>, %j: tensor<i32>):
{COMPARATORS[name]}
stablehlo.return %c : tensor<i1>
}}) : ({type_of(x)}, {type_of(y)}) -> ({type_of(x)}, {type_of(y)})
%r0 = stablehlo.add %r#0, %r#0 : {type_of(x)}
%r1 = stablehlo.add %r#1, %r#1 : {type_of(y)}"""
    assert_as_reference([x, y], lines, [type_of(x), type_of(y)])


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_sort_in_the_total_order(direction: str) -> None:
    x = np.random.default_rng(5).permutation(np.tile(TOTAL, 4))
    lines = f"""%r0 = "stablehlo.sort"(%0) <{{dimension = 0 : i64}}> ({{
^bb0(%a: tensor<f64>, %b: tensor<f64>):
%c = stablehlo.compare {direction}, %a, %b, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
stablehlo.return %c : tensor<i1>
}}) : ({type_of(x)}) -> {type_of(x)}"""
    f = tracer.from_stablehlo(module_of([x], lines, [type_of(x)]))
    found = np.asarray(tracer.compile(f)(x))
    wanted = np.repeat(TOTAL, 4)[:: 1 if direction == "LT" else -1]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


SCATTERS = ["add", "multiply", "maximum", "minimum", "replace"]


@pytest.mark.parametrize("op", SCATTERS)
@pytest.mark.parametrize("kind", ["f64", "i32", "i1"])
def test_scatter(op: str, kind: str) -> None:
    x = (G > 0) if kind == "i1" else (10 * G).astype(KINDS[kind])
    indices = np.array([[0], [7], [2], [-1], [1]], np.int32)
    updates = RNG.normal(size=(5, 4))
    updates = (updates > 0) if kind == "i1" else (7 * updates).astype(KINDS[kind])
    body = function(op, kind)
    if op == "replace":
        body = body.replace("%s = stablehlo.replace %a, %b : tensor<", "// tensor<")
        body = body.replace("return %s", "return %b")
    lines = f"""%r0 = "stablehlo.scatter"(%0, %1, %2) <{{scatter_dimension_numbers =
  #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
  scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}}> ({{
{body}
}}) : ({type_of(x)}, {type_of(indices)}, {type_of(updates)}) -> {type_of(x)}"""
    assert_as_reference([x, indices, updates], lines, [type_of(x)])


# Half of the element and the update: the order of updates counts.
HALVING = """^bb0(%a: tensor<f64>, %b: tensor<f64>):
  %h = stablehlo.constant dense<0.5> : tensor<f64>
  %p = stablehlo.multiply %a, %h : tensor<f64>
  %s = stablehlo.add %p, %b : tensor<f64>
  stablehlo.return %s : tensor<f64>"""
# Rows, some of which are met again or are out of bounds; windows that overlap; a batch.
FUNCTION_SCATTERS = {
    "rows": ([[0], [7], [2], [-1], [0], [2]], (6, 4),
             "update_window_dims = [1], inserted_window_dims = [0], "
             "scatter_dims_to_operand_dims = [0], index_vector_dim = 1"),
    "windows": ([[[0, 1], [1, 1]], [[0, 2], [0, 0]]], (2, 2, 2, 2),
                "update_window_dims = [2, 3], scatter_dims_to_operand_dims = [0, 1], "
                "index_vector_dim = 2"),
    "elements": ([1, 1, 5, 0, 1], (5, 3),
                 "update_window_dims = [1], inserted_window_dims = [1], "
                 "scatter_dims_to_operand_dims = [1], index_vector_dim = 1"),
    "a batch": ([[[2], [0], [2]], [[1], [1], [9]], [[3], [3], [3]]], (3, 3),
                "inserted_window_dims = [1], input_batching_dims = [0], "
                "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], "
                "index_vector_dim = 2"),
    "none": (np.zeros((0, 1)), (0, 4),
             "update_window_dims = [1], inserted_window_dims = [0], "
             "scatter_dims_to_operand_dims = [0], index_vector_dim = 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTION_SCATTERS)
def test_scatter_with_a_function(name: str) -> None:
    places, shape, numbers = FUNCTION_SCATTERS[name]
    indices, updates = np.array(places, np.int32), RNG.normal(size=shape)
    lines = f"""%r0 = "stablehlo.scatter"(%0, %1, %2) <{{scatter_dimension_numbers =
  #stablehlo.scatter<{numbers}>}}> ({{
{HALVING}
}}) : ({type_of(G)}, {type_of(indices)}, {type_of(updates)}) -> {type_of(G)}"""
    assert_as_reference([G, indices, updates], lines, [type_of(G)])


@pytest.mark.parametrize("unique", ["true", "false"])
def test_scatter_of_pairs_with_a_function(unique: str) -> None:
    indices = np.array([[2], [0]] if unique == "true" else [[2], [2], [0]], np.int32)
    updates = RNG.normal(size=(len(indices), 4))
    made = [type_of(G), type_of(G)]
    lines = f"""%r0, %r1 = "stablehlo.scatter"(%0, %1, %2, %3, %4) <{{scatter_dimension_numbers =
  #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
  scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = {unique}}}> ({{
^bb0(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>, %d: tensor<f64>):
  %p = stablehlo.multiply %a, %d : tensor<f64>
  %s = stablehlo.subtract %c, %b : tensor<f64>
  stablehlo.return %p, %s : tensor<f64>, tensor<f64>
}}) : ({type_of(G)}, {type_of(G)}, {type_of(indices)}, {type_of(updates)},
       {type_of(updates)}) -> ({", ".join(made)})"""
    assert_as_reference([G, G[::-1].copy(), indices, updates, updates + 1], lines, made)


@pytest.mark.parametrize("dim", [0, 1])
def test_gather(dim: int) -> None:
    indices = np.array([[0, 7, 2], [1, -1, 3]], np.int64)
    indices = indices if dim == 0 else np.ascontiguousarray(indices.T)
    lines = f"""%r0 = "stablehlo.gather"(%0, %1) <{{dimension_numbers = #stablehlo.gather<
  offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1],
  index_vector_dim = {dim}>, slice_sizes = array<i64: 1, 2>}}> :
  (tensor<3x4xf64>, {type_of(indices)}) -> tensor<3x2xf64>"""
    assert_as_reference([G, indices], lines, ["tensor<3x2xf64>"])


MOVED = {
    "broadcast_in_dim %0, dims = [0, 2]": "tensor<3x2x4xf64>",
    "reshape %0": "tensor<2x6xf64>",
    "transpose %0, dims = [1, 0]": "tensor<4x3xf64>",
    "reverse %0, dims = [1]": "tensor<3x4xf64>",
    "slice %0 [1:3, 0:4:2]": "tensor<2x2xf64>",
}


@pytest.mark.parametrize("text", MOVED)
def test_moves(text: str) -> None:
    types = "" if "reverse" in text else f"(tensor<3x4xf64>) -> {MOVED[text]}"
    line = f"%r0 = stablehlo.{text} : {types or MOVED[text]}"
    assert_as_reference([G], line, [MOVED[text]])


def test_pad_between_and_cut() -> None:
    lines = """%v = stablehlo.constant dense<9.0> : tensor<f64>
%r0 = stablehlo.pad %0, %v, low = [1, -1], high = [0, 2], interior = [2, 1] :
  (tensor<3x4xf64>, tensor<f64>) -> tensor<8x8xf64>"""
    assert_as_reference([G], lines, ["tensor<8x8xf64>"])


def test_convolution_with_everything() -> None:
    x, y = RNG.normal(size=(2, 6, 7, 4)), RNG.normal(size=(3, 2, 2, 6))
    text = """%r0 = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
  window = {{stride = [2, 1], pad = [[1, 0], [2, 1]], lhs_dilate = [1, 2], rhs_dilate = [1, 2],
  reverse = [{flags}]}} {{batch_group_count = 1 : i64, feature_group_count = 2 : i64}} :
  (tensor<2x6x7x4xf64>, tensor<3x2x2x6xf64>) -> tensor<2x3x14x6xf64>"""  # noqa: E501
    for flags in ("false, false", "true, false", "true, true"):
        assert_as_reference([x, y], text.format(flags=flags), ["tensor<2x3x14x6xf64>"], 1e-11)


def test_dot_general_with_batches() -> None:
    x, y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5, 2))
    lines = """%r0 = stablehlo.dot_general %0, %1, batching_dims = [0] x [2],
  contracting_dims = [2] x [0] : (tensor<2x3x4xf64>, tensor<4x5x2xf64>) -> tensor<2x3x5xf64>"""
    assert_as_reference([x, y], lines, ["tensor<2x3x5xf64>"], 1e-12)


def test_map() -> None:
    lines = f"""%r0 = "stablehlo.map"(%0, %1) <{{dimensions = array<i64: 0, 1>}}> ({{
{function("subtract", "f64")}
}}) : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>"""
    assert_as_reference([G, F[::-1].copy()], lines, [type_of(G)])


def test_reduce_precision() -> None:
    line = "%r0 = stablehlo.reduce_precision %0, format = e5m4 : tensor<3x4xf64>"
    for x in (F, G, 1e5 * G, 1e-6 * G):
        assert_as_reference([x], line, [type_of(x)])


@pytest.mark.parametrize(("given", "made"), [(I, "3x4x4xui8"), (U, "3xui32"), (F, "3x4x2xi32")])
def test_bitcasts_of_other_widths(given: np.ndarray[Any, Any], made: str) -> None:
    line = f"%r0 = stablehlo.bitcast_convert %0 : ({type_of(given)}) -> tensor<{made}>"
    assert_as_reference([given], line, [f"tensor<{made}>"])


@pytest.mark.parametrize("start", [(0, 0), (-3, 9), (2, 1)])
def test_dynamic_slices(start: tuple[int, int]) -> None:
    arrays = [G, np.array(start[0], np.int32), np.array(start[1], np.int32), G[:2, :3] * 9]
    lines = """%r0 = stablehlo.dynamic_slice %0, %1, %2, sizes = [2, 3] :
  (tensor<3x4xf64>, tensor<i32>, tensor<i32>) -> tensor<2x3xf64>
%r1 = stablehlo.dynamic_update_slice %0, %3, %1, %2 :
  (tensor<3x4xf64>, tensor<2x3xf64>, tensor<i32>, tensor<i32>) -> tensor<3x4xf64>"""
    assert_as_reference(arrays, lines, ["tensor<2x3xf64>", "tensor<3x4xf64>"])


def test_clamp_and_select_of_scalars() -> None:
    arrays = [np.array(-1.0), G, np.array(0.5), np.array(True)]
    lines = """%r0 = stablehlo.clamp %0, %1, %2 :
  (tensor<f64>, tensor<3x4xf64>, tensor<f64>) -> tensor<3x4xf64>
%r1 = stablehlo.select %3, %1, %r0 : tensor<i1>, tensor<3x4xf64>"""
    assert_as_reference(arrays, lines, [type_of(G), type_of(G)])


CONVERSIONS = [(F, "i32"), (F, "i1"), (F, "f32"), (I, "f64"), (I, "ui8"), (I, "i1"), (B, "f32"), (U, "i32")]  # noqa: E501  # fmt: skip


@pytest.mark.parametrize(("x", "kind"), CONVERSIONS)
def test_convert(x: np.ndarray[Any, Any], kind: str) -> None:
    x = x if x.dtype.kind != "f" or kind != "i32" else G * 9
    made = type_of(x.astype(KINDS[kind])) if x is not F else type_of(np.zeros((3, 4), KINDS[kind]))
    line = f"%r0 = stablehlo.convert %0 : ({type_of(x)}) -> {made}"
    assert_as_reference([x], line, [made])


FEATURES = RNG.normal(size=(3, 3, 4))
BATCH_NORM = "{epsilon = 0.001 : f32, feature_index = 1 : i64}"


def test_batch_normalisation() -> None:
    x = RNG.normal(size=(2, 3, 5))
    scale, offset, mean = (
        FEATURES[0, :, 0].copy(),
        FEATURES[1, :, 0].copy(),
        FEATURES[2, :, 0].copy(),
    )
    variance, one = np.abs(FEATURES[0, :, 1]), type_of(FEATURES[0, :, 0])
    arrays, types = [x, scale, offset, mean, variance], ", ".join([type_of(x), *[one] * 4])
    inference = f"""%r0 = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) {BATCH_NORM} :
  ({types}) -> {type_of(x)}"""
    f = tracer.from_stablehlo(module_of(arrays, inference, [type_of(x)]))
    column = (slice(None), None)
    wanted = (x - mean[column]) / np.sqrt(variance[column] + 0.001) * scale[column] + offset[column]
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-6)
    lines = f"""%t:3 = "stablehlo.batch_norm_training"(%0, %1, %2) {BATCH_NORM} :
  ({type_of(x)}, {one}, {one}) -> ({type_of(x)}, {one}, {one})
%g:3 = "stablehlo.batch_norm_grad"(%0, %1, %t#1, %t#2, %3) {BATCH_NORM} :
  ({type_of(x)}, {one}, {one}, {one}, {type_of(x)}) -> ({type_of(x)}, {one}, {one})
%r0 = stablehlo.add %t#0, %t#0 : {type_of(x)}
%r1 = stablehlo.add %g#0, %g#0 : {type_of(x)}
%r2 = stablehlo.add %g#1, %g#1 : {one}
%r3 = stablehlo.add %g#2, %g#2 : {one}"""
    g = RNG.normal(size=x.shape)
    arrays = [x, scale, offset, g]
    f = tracer.from_stablehlo(module_of(arrays, lines, [type_of(x), type_of(x), one, one]))
    axes = (0, 2)
    centred = x - x.mean(axes)[column]
    wanted = centred / np.sqrt(x.var(axes)[column] + 0.001) * scale[column] + offset[column]
    results = [np.asarray(part) / 2 for part in f(*arrays)]
    np.testing.assert_allclose(results[0], wanted, rtol=1e-6, atol=1e-6)
    gradient = tracer.grad(lambda *given: (f(*given, g)[0] / 2 * g).sum(), argnums=(0, 1, 2))
    for x_found, x_wanted in zip(results[1:], gradient(*arrays[:3]), strict=True):
        np.testing.assert_allclose(x_found, x_wanted, rtol=1e-6, atol=1e-9)
