"""The VGG19 benchmark: one network in all libraries, and instructions that are counted."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.vgg19 import SIZES, counts, error, instructions
from benchmarks.vgg19_programs import make_images, make_parameters, network, numpy_library

SIZE = {key: value for key, value in SIZES["small"].items() if key != "turns"}


def test_nineteen_layers() -> None:
    assert len(make_parameters(**SIZE)) == 19


@pytest.mark.xla
def test_the_forward_pass_is_numpys() -> None:
    found = error("forward", 2, SIZE)
    assert found is not None
    assert found < 1e-5


def test_gradients_are_jaxs() -> None:
    pytest.importorskip("jax")
    found = error("backward", 2, SIZE)
    assert found is not None
    assert found < 1e-4


def test_a_wrong_value_is_seen() -> None:
    parameters = make_parameters(**SIZE)
    images = make_images(1, SIZE["side"])
    right = network(numpy_library(), parameters, images)
    kernel, bias = parameters[3]
    parameters[3] = (kernel[::-1], bias)
    assert np.abs(network(numpy_library(), parameters, images) - right).max() > 1e-3


def test_instructions_of_a_small_text() -> None:
    text = (
        "HloModule m\n\n%f (p: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n"
        "  ROOT %n = f32[] negate(%p)\n}\n\nENTRY %main (a: f32[]) -> f32[] {\n"
        "  %a = f32[] parameter(0)\n  ROOT %c = f32[] call(%a), to_apply=%f\n}\n"
    )
    assert instructions(text) == (2, 4)


@pytest.mark.xla
def test_fusion_leaves_fewer_instructions_in_the_entry() -> None:
    found = counts("forward", 1, SIZE)
    assert found["optimised"][0] < found["optimised, no fusion"][0]
