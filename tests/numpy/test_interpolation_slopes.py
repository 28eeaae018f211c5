"""Derivatives of `interp` at its points."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla


def test_the_last_point_has_the_slope_of_the_piece_before() -> None:
    points, values = np.array([0.0, 1.0, 3.0]), np.array([2.0, 5.0, 4.0])

    def total(at, points, values):
        return tnp.interp(at, points, values).sum()

    at = np.array([3.0, 2.0, 3.5, -1.0])
    of_at, of_points, of_values = tracer.grad(total, argnums=(0, 1, 2))(at, points, values)
    np.testing.assert_allclose(of_at, [-0.5, -0.5, 0, 0])
    np.testing.assert_allclose(of_points, [0, 0.25, 0.75])
    np.testing.assert_allclose(of_values, [1, 0.5, 2.5])


def test_beside_infinities_the_last_value_is_exact() -> None:
    values = np.array([np.inf, 1.0, np.inf, 2.0])
    found = np.asarray(tnp.interp([3.0], [0.0, 1.0, 2.0, 3.0], values))
    np.testing.assert_array_equal(found, [2.0])


def test_an_array_at_hand_may_be_the_pattern_of_one_in_a_trace() -> None:
    at_hand = tnp.arange(4.0)

    def filled(x):
        return tnp.full_like(at_hand, 2) + tnp.zeros_like(at_hand) + tnp.ones_like(at_hand) * x

    for function in (filled, tracer.compile(filled)):
        np.testing.assert_array_equal(np.asarray(function(1.0)), [3.0] * 4)
    assert float(tracer.grad(lambda x: filled(x).sum())(1.0)) == 4
