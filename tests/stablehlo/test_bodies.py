"""What bodies and comparators are told to mean, and that what differs is told apart."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
from tracer.lowering import Module, Region, read_module
from tracer.stablehlo import bodies, comparators


def region_of(text: str) -> tuple[Region, Module]:
    """Return the body of a function of scalars."""
    module = read_module(text, "test")
    return module.functions[module.entry], module


def extreme(lines: str, result: str = "%v, %p") -> str | None:
    region, module = region_of(f"""
func.func @main(%x: tensor<f32>, %i: tensor<i32>, %y: tensor<f32>, %j: tensor<i32>)
    -> (tensor<f32>, tensor<i32>) {{
  {lines}
  return {result} : tensor<f32>, tensor<i32>
}}""")
    return bodies.extreme(region, module, is_float=True)


def compare(name: str, direction: str, x: str, y: str, type: str = "f32", kind: str = "") -> str:
    suffix = f", {kind}" if kind else ""
    return (
        f"%{name} = stablehlo.compare {direction}, {x}, {y}{suffix} : "
        f"(tensor<{type}>, tensor<{type}>) -> tensor<i1>\n"
    )


def logic(name: str, op: str, x: str, y: str) -> str:
    return f"%{name} = stablehlo.{op} {x}, {y} : tensor<i1>\n"


CHOICE = (
    "%v = stablehlo.select %wins, %x, %y : tensor<i1>, tensor<f32>\n"
    "%p = stablehlo.select %first, %i, %j : tensor<i1>, tensor<i32>\n"
)


def of_jax(direction: str, ties: str = "LT", nan: str = "NE", kind: str = "") -> str:
    return (
        compare("beats", direction, "%x", "%y", kind=kind)
        + compare("nan", nan, "%x", "%x")
        + logic("wins", "or", "%beats", "%nan")
        + compare("same", "EQ", "%x", "%y")
        + compare("before", ties, "%i", "%j", "i32")
        + logic("tie", "and", "%same", "%before")
        + logic("first", "or", "%wins", "%tie")
        + CHOICE
    )


def careful(direction: str, ties: str = "LT", kind: str = "") -> str:
    """As ours: of two NaN the smallest place."""
    return (
        compare("beats", direction, "%x", "%y", kind=kind)
        + compare("xnan", "NE", "%x", "%x")
        + compare("ynan", "NE", "%y", "%y")
        + compare("ynum", "EQ", "%y", "%y")
        + logic("only", "and", "%xnan", "%ynum")
        + logic("both", "and", "%xnan", "%ynan")
        + logic("wins", "or", "%beats", "%only")
        + compare("same", "EQ", "%x", "%y")
        + logic("ties", "or", "%same", "%both")
        + compare("before", ties, "%i", "%j", "i32")
        + logic("tie", "and", "%ties", "%before")
        + logic("first", "or", "%wins", "%tie")
        + CHOICE
    )


def test_first_extremes() -> None:
    assert extreme(careful("GT")) == "GT"
    assert extreme(careful("LT")) == "LT"
    assert extreme(of_jax("GT")) == "GT"
    assert extreme(of_jax("LT")) == "LT"


@pytest.mark.parametrize(
    "lines",
    [
        careful("GT", ties="GT"),
        careful("GE"),
        careful("GT", kind="TOTALORDER"),
        of_jax("GT", nan="EQ"),
    ],
)
def test_other_bodies_are_told_apart(lines: str) -> None:
    assert extreme(lines) is None


def keys(type: str, lines: str, operands: int = 1) -> tuple[comparators.Key, ...] | None:
    arguments = ", ".join(
        f"%{side}{k}: tensor<{type}>" for k in range(operands) for side in ("x", "y")
    )
    region, module = region_of(
        f"func.func @main({arguments}) -> tensor<i1> {{\n{lines}\nreturn %c : tensor<i1>\n}}"
    )
    dtype = {"f32": "float32", "i32": "int32", "i1": "bool"}[type]
    return comparators.keys_of(region, module, (tracer.ShapeDtype((3,), dtype),) * operands)


def key(operand: int = 0, order: str = "numbers", *, descending: bool = False) -> comparators.Key:
    return comparators.Key(operand, "", order, descending)


def test_comparators_of_one_key() -> None:
    assert keys("f32", compare("c", "LT", "%x0", "%y0")) == (key(),)
    assert keys("f32", compare("c", "GT", "%x0", "%y0")) == (key(descending=True),)
    assert keys("f32", compare("c", "GT", "%y0", "%x0")) == (key(),)
    total = compare("c", "LT", "%x0", "%y0", kind="TOTALORDER")
    assert keys("f32", total) == (key(order="total"),)
    assert keys("i32", compare("c", "GT", "%x0", "%y0", "i32")) == (key(descending=True),)
    assert keys("i1", compare("c", "LT", "%x0", "%y0", "i1")) == (key(),)


def test_comparators_of_several_keys() -> None:
    lines = (
        compare("a", "LT", "%x1", "%y1", "i32")
        + compare("e", "EQ", "%x1", "%y1", "i32")
        + compare("b", "GT", "%x0", "%y0", "i32")
        + logic("t", "and", "%e", "%b")
        + logic("c", "or", "%a", "%t")
    )
    assert keys("i32", lines, 2) == (key(1), key(0, descending=True))


def test_comparators_that_are_no_orders() -> None:
    assert keys("f32", compare("c", "NE", "%x0", "%y0")) is None
    assert keys("f32", compare("c", "LE", "%x0", "%y0")) is None
    both = compare("a", "LT", "%x0", "%y0") + compare("b", "LT", "%x1", "%y1")
    assert keys("f32", both + logic("c", "or", "%a", "%b"), 2) is None
    one = "%one = stablehlo.constant dense<1.0> : tensor<f32>\n"
    assert keys("f32", one + compare("c", "LT", "%x0", "%one")) is None


REDUCE = """func.func @main(%x: tensor<3x5xf32>, %p: tensor<3x5xi32>)
    -> (tensor<3xf32>, tensor<3xi32>) {{
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<{start}> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %least), (%p init: %zero) across dimensions = [1] :
    (tensor<3x5xf32>, tensor<3x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
    reducer(%x_: tensor<f32>, %y: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {{
{body}
    stablehlo.return %v, %q : tensor<f32>, tensor<i32>
  }}
  return %r#0, %r#1 : tensor<3xf32>, tensor<3xi32>
}}"""


@pytest.mark.xla
@pytest.mark.parametrize("kind", ["first extreme", "function"])
def test_extremes_with_given_places(kind: str) -> None:
    body = careful("GT", kind="" if kind == "first extreme" else "TOTALORDER")
    body = body.replace("%x,", "%x_,").replace("%x ", "%x_ ").replace("%p =", "%q =")
    f = tracer.from_stablehlo(REDUCE.format(body=body, start=-7))
    x = np.array([[1, 5, 5, 2, 0], [np.nan, 1, 2, np.nan, 3], [-np.inf] * 5], np.float32)
    places = np.array([[9, 8, 3, 1, 2], [4, 0, 0, 2, 1], [5, 4, 3, 2, 1]], np.int32)
    values, found = tracer.compile(f)(x, places)
    np.testing.assert_array_equal(values, [5, np.nan, -np.inf])
    # Of the row of -infinity the start is one as well, with its place.
    np.testing.assert_array_equal(found, [3, 2, -7])
