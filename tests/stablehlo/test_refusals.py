"""What is refused: everything at once, by name and line, before anything runs."""

from __future__ import annotations

import subprocess
from unittest import mock

import numpy as np
import pytest

import tracer
from tracer import errors

MODULE = """module @program {{
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
{body}
    return %x : tensor<4xf32>
  }}
}}"""


def refusal(body: str) -> tracer.UnsupportedError:
    with pytest.raises(tracer.UnsupportedError) as caught:
        tracer.from_stablehlo(MODULE.format(body=body), name="model.mlir")
    return caught.value


COMPARATOR = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
  {op}
  stablehlo.return %c : tensor<i1>"""
SORT = '%0 = "stablehlo.sort"(%x) ({{\n{body}\n}}) : (tensor<4xf32>) -> tensor<4xf32>'
CASES = {
    "callbacks": (
        "%0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) : "
        "(tensor<4xf32>) -> tensor<4xf32>",
        "@xla_ffi_python_cpu_callback calls Python",
    ),
    "an unknown call": (
        "%0 = stablehlo.custom_call @magic(%x) : (tensor<4xf32>) -> tensor<4xf32>",
        "stablehlo.custom_call @magic has no rule",
    ),
    "another dialect": (
        '%0 = "other.thing"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
        "other.thing has no rule",
    ),
    "sizes that are not known": (
        "%0 = stablehlo.custom_call @Sharding(%x) : (tensor<4xf32>) -> tensor<?xf32>",
        "a value tensor<?xf32> is no array with fixed sizes",
    ),
    "sizes that are computed": (
        "%s = stablehlo.constant dense<4> : tensor<1xi32>\n"
        "%0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<4xf32>",
        "stablehlo.dynamic_iota has sizes that are computed",
    ),
    "several devices": (
        "%0 = stablehlo.replica_id : tensor<ui32>",
        "stablehlo.replica_id works on several devices",
    ),
    "a dtype that is not there": (
        "%0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi4>",
        "a value tensor<4xi4> is no array with fixed sizes and a dtype",
    ),
    "random bits with signs": (
        "%s = stablehlo.constant dense<0> : tensor<2xui64>\n"
        "%0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : "
        "(tensor<2xui64>) -> (tensor<2xui64>, tensor<4xi32>)",
        "stablehlo.rng_bit_generator with dtype int32",
    ),
    "a comparator of sums": (
        SORT.format(
            body=COMPARATOR.format(
                op="%s = stablehlo.add %a, %a : tensor<f32>\n"
                "%c = stablehlo.compare LT, %s, %b : "
                "(tensor<f32>, tensor<f32>) -> tensor<i1>"
            )
        ),
        "stablehlo.sort with a comparator that is no order",
    ),
    "a comparator that is no order": (
        SORT.format(
            body=COMPARATOR.format(
                op="%c = stablehlo.compare NE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>"
            )
        ),
        "stablehlo.sort with a comparator that is no order",
    ),
    "fewer digits": (
        """%0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], algorithm =
<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32,
lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
allow_imprecise_accumulation = false> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>""",
        "stablehlo.dot_general with #stablehlo.dot_algorithm",
    ),
    "integers rounded as floats": (
        "%0 = stablehlo.reduce_precision %x, format = e11m52 : tensor<4xf32>",
        "stablehlo.reduce_precision of float32 to 11 and 52 bits",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_by_name_and_line(name: str) -> None:
    body, wanted = CASES[name]
    error = refusal(body)
    assert wanted in str(error)
    assert error.where is not None
    assert error.where.file == "model.mlir"
    assert error.where.line >= 3
    assert error.mend


def test_all_names_at_once() -> None:
    body = "\n".join(CASES[name][0].replace("%0", f"%r{i}") for i, name in enumerate(
        ["callbacks", "another dialect", "several devices"]
    ))  # fmt: skip
    text = str(refusal(body))
    for name in ("xla_ffi_python_cpu_callback", "other.thing", "stablehlo.replica_id"):
        assert name in text
    assert text.count("model.mlir:") == 3


def test_what_is_not_called_is_not_asked_for() -> None:
    text = MODULE.format(body="").replace(
        "module @program {",
        "module @program {\nfunc.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '%0 = "other.thing"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "return %0 : tensor<4xf32>\n}",
    )
    assert tracer.from_stablehlo(text).output_types == (tracer.ShapeDtype((4,), "float32"),)


CALL = "%{0} = call @{1}(%x) : (tensor<4xf32>) -> tensor<4xf32>"


def test_functions_without_a_body_and_in_circles() -> None:
    text = MODULE.format(body=CALL.format(0, "outside") + "\n" + CALL.format(1, "again"))
    again = (
        "func.func private @outside(tensor<4xf32>) -> tensor<4xf32>\n"
        "func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        + CALL.format(0, "again")
        + "\nreturn %0 : tensor<4xf32>\n}"
    )
    text = text.replace("module @program {", "module @program {\n" + again)
    with pytest.raises(tracer.UnsupportedError) as caught:
        tracer.from_stablehlo(text)
    assert "func.call @outside has no body" in str(caught.value)
    assert "a function that calls itself (again -> again)" in str(caught.value)


def test_several_partitions() -> None:
    text = MODULE.format(body="").replace(
        "module @program", "module @program attributes {mhlo.num_partitions = 8 : i32}"
    )
    with pytest.raises(tracer.UnsupportedError, match="written for 8 devices"):
        tracer.from_stablehlo(text)


@pytest.mark.parametrize("program", ["hello", "", "module {}", b"\xff\xfe", "\ud800"])
def test_no_module(program: str | bytes) -> None:
    with pytest.raises(errors.ArgumentError):
        tracer.from_stablehlo(program)


def test_a_module_object() -> None:
    with pytest.raises(errors.DTypeError, match="text or bytes"):
        tracer.from_stablehlo(object())  # type: ignore[arg-type]


ADD = """func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %y : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


def test_arguments_of_other_types() -> None:
    f = tracer.from_stablehlo(ADD)
    x = np.ones(3, np.float32)
    assert "float32[3], float32[3]" in repr(f)
    with pytest.raises(errors.ArgumentError, match="takes 2 arrays, not 1"):
        f(x)
    with pytest.raises(errors.ShapeError, match=r"float32\[4\], not float32\[3\]"):
        f(x, np.ones(4, np.float32))
    with pytest.raises(errors.DTypeError, match=r"float64\[3\], not float32\[3\]"):
        f(x, np.ones(3))


BYTES_THAT_ARE_NO_TEXT = {
    "an operation": '%0 = "a.\\FF"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
    "an attribute": '%0 = stablehlo.abs %x {"\\FF" = 3} : tensor<4xf32>',
    "a target": '%0 = stablehlo.custom_call @"\\FF"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
}


@pytest.mark.parametrize("body", BYTES_THAT_ARE_NO_TEXT.values(), ids=BYTES_THAT_ARE_NO_TEXT)
def test_names_that_are_no_text(body: str) -> None:
    """The first of them ended the process."""
    with pytest.raises(tracer.ArgumentError, match="no UTF-8"):
        tracer.from_stablehlo(MODULE.format(body=body))


@pytest.mark.parametrize("bracket", ["(", "[", "tuple<", "{a = ["])
def test_what_is_nested_too_deeply(bracket: str) -> None:
    """MLIR's parser ended the process."""
    with pytest.raises(tracer.ArgumentError, match="nested too deeply"):
        tracer.from_stablehlo(MODULE.format(body=f"%0 = {bracket * 100_000}"))


@pytest.mark.process
def test_bytecode_is_read_by_another_process() -> None:
    """Its reader trusts what it reads: damaged bytecode ended this process, or kept it forever."""
    with pytest.raises(tracer.ArgumentError, match="no StableHLO module"):
        tracer.from_stablehlo(b"ML\xefRjunk")
    with mock.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("reader", 10)):
        with pytest.raises(tracer.ArgumentError, match="is not done after 5 s"):
            tracer.from_stablehlo(b"ML\xefRjunk")
    died = subprocess.CompletedProcess([], -11, b"", b"")
    with mock.patch("subprocess.run", return_value=died):
        with pytest.raises(tracer.ArgumentError, match="ended by signal 11"):
            tracer.from_stablehlo(b"ML\xefRjunk")
