"""Convolutions on CPUs keep the forms that XLA computes quickly and counts truly."""

import re
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(0)
LAYOUTS = (("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"))


def array(layout: str, **sizes: int) -> Any:
    return RNG.standard_normal([sizes[letter] for letter in layout], np.float32)


def windows(function: Any, *arrays: Any) -> list[str]:
    # Depthwise convolutions stay convolutions: those with the features in front would be sums.
    text = tracer.compile(function, passes="-sum-depthwise-windows").hlo(*arrays)
    return re.findall(r" convolution\(.*?window=\{([^}]*)\}", text)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mirror", [False, True])
def test_small_groups_are_mirrored_for_plain_loops(layout: Any, mirror: bool) -> None:
    x, w = array(layout[0], N=2, C=6, H=9, W=9), array(layout[1], O=6, I=1, H=3, W=3)

    def depthwise(x: Any, w: Any) -> Any:
        w = tnp.flip(w, (layout[1].index("H"), layout[1].index("W"))) if mirror else w
        return tracer.nn.conv_general_dilated(
            x, w, (1, 1), "SAME", feature_group_count=6, dimension_numbers=layout
        )

    # Padding is written out: test_plain_convolutions.py.
    assert windows(depthwise, x, w) == ["size=3x3 rhs_reversal=1x1"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dilated_operands_go_by_phases(layout: Any) -> None:
    x, w = array(layout[0], N=2, C=6, H=9, W=9), array(layout[1], O=5, I=6, H=3, W=3)

    def dilated(x: Any, w: Any) -> Any:
        padding = ((1, 1), (1, 1))
        return tracer.nn.conv_general_dilated(
            x, w, (1, 1), padding, lhs_dilation=(2, 2), dimension_numbers=layout
        )

    found = windows(dilated, x, w)
    assert sorted(window.split()[0] for window in found) == ["size=1x2", "size=2x1", "size=2x2"]
    assert not any("lhs_dilate" in window for window in found)
