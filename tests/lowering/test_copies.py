"""Copies and aliases, read from optimised HLO."""

from __future__ import annotations

import pytest

from tracer.lowering.memory.copies import ArrayCopy, Place, aliases_of, copies_of

LOOPS = """\
HloModule tracer, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, \
may-alias) }, entry_computation_layout={(f32[4,8]{1,0})->f32[4,8]{1,0}}

%inner (t: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %t = (s32[], f32[4,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = f32[4,8]{1,0} get-tuple-element(%t), index=1
  %copy.1 = f32[4,8]{1,0} copy(%x)
  %f = f32[4,8]{1,0} fusion(%copy.1, %i), kind=kLoop, calls=%c, \
metadata={op_name="while.3/body/add.2"}
  ROOT %r = (s32[], f32[4,8]{1,0}) tuple(%i, %f)
}

%outer (t: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %t.1 = (s32[], f32[4,8]{1,0}) parameter(0)
  %w = (s32[], f32[4,8]{1,0}) while(%t.1), condition=%c, body=%inner, \
metadata={op_name="while.5/body/while.3"}, backend_config={"known_trip_count":{"n":"3"}}
  %y = f32[4,8]{1,0} get-tuple-element(%w), index=1
  ROOT %r.1 = (s32[], f32[4,8]{1,0}) tuple(%z, %y)
}

ENTRY %main (a: f32[4,8], b: f32[4,8]) -> (f32[4,8], f32[4,8]) {
  %a = f32[4,8]{1,0} parameter(0)
  %b = f32[4,8]{1,0} parameter(1)
  %zero = s32[] constant(0)
  %copy.2 = f32[4,8]{1,0} copy(%a)
  %copy.3 = s32[] copy(%zero)
  %init = (s32[], f32[4,8]{1,0}) tuple(%copy.3, %copy.2)
  %while.1 = (s32[], f32[4,8]{1,0}) while(%init), condition=%c, body=%outer, \
metadata={op_name="while.5"}, backend_config={"known_trip_count":{"n":"10"}}
  %g = f32[4,8]{1,0} get-tuple-element(%while.1), index=1
  %turned = f32[4,8]{0,1} copy(%b)
  %d = f32[4,8]{1,0} fusion(%turned), kind=kLoop, calls=%c, metadata={op_name="dot.7"}
  %copy.4 = f32[4,8]{1,0} copy(%d)
  %copy.5 = f32[4,8]{1,0} copy(%copy.4)
  ROOT %result = (f32[4,8]{1,0}, f32[4,8]{1,0}) tuple(%g, %copy.5)
}
"""


def test_copies_have_where_from_where_to_and_how_often() -> None:
    value = Place("value", 0, "dot.7")
    assert copies_of(LOOPS) == [
        ArrayCopy(128, 1, Place("argument", 0), Place("loop", 1, "while.5")),
        ArrayCopy(4, 1, Place("constant"), Place("loop", 0, "while.5")),
        ArrayCopy(
            128, 30, Place("carry", 1, "while.5/body/while.3"),
            Place("value", 0, "while.3/body/add.2"),
        ),
        ArrayCopy(128, 1, Place("argument", 1), value, is_transposed=True),
        ArrayCopy(128, 1, value, Place("result", 1)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (LOOPS, {1: 0, 0: 1}),
        ("HloModule m, input_output_alias={ {}: (2, {}, must-alias) }, x={}", {2: 0}),
        ("HloModule m, buffer_donor={ (0, {}) }", {}),
    ],
)
def test_aliases(header: str, expected: dict[int, int]) -> None:
    assert aliases_of(header) == expected
