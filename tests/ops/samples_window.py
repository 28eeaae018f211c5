"""Samples of convolution and of the windowed reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Array, Sample, comp, positive, real, sample, whole

NAN, INF = np.nan, np.inf
CHANNELS_FIRST = {"lhs_axes": (0, 1, 2), "rhs_axes": (0, 1, 2), "result_axes": (0, 1, 2)}
CHANNELS_LAST = {
    "lhs_axes": (0, 3, 1, 2),
    "rhs_axes": (3, 2, 0, 1),
    "result_axes": (0, 3, 1, 2),
}
MIXED = {"lhs_axes": (2, 0, 1), "rhs_axes": (1, 2, 0), "result_axes": (1, 2, 0)}


def convolved(lhs: Array, rhs: Array, **changed: Any) -> Sample:
    """Return a sample; what is not stated slides by one element, without padding."""
    ones = (1,) * (lhs.ndim - 2)
    params = {
        "window_strides": ones,
        "padding": ((0, 0),) * len(ones),
        "lhs_dilation": ones,
        "rhs_dilation": ones,
        "feature_group_count": 1,
        "batch_group_count": 1,
    }
    return sample(lhs, rhs, **params | changed)


def _convolutions() -> list[Sample]:
    x, kernel = real(2, 3, 7), real(4, 3, 3)
    return [
        convolved(x, kernel, **CHANNELS_FIRST, padding=((1, 2),), window_strides=(2,)),
        convolved(
            real(2, 5, 4, 3),
            real(2, 3, 3, 2),
            **CHANNELS_LAST,
            padding=((1, 0), (-1, 2)),
            window_strides=(2, 1),
            rhs_dilation=(2, 1),
        ),
        convolved(x, kernel, **CHANNELS_FIRST, lhs_dilation=(2,), padding=((0, 3),)),
        convolved(real(3, 6, 2), real(2, 4, 3), **MIXED, rhs_dilation=(2,), padding=((2, 2),)),
        convolved(real(2, 6, 5), real(9, 2, 2), **CHANNELS_FIRST, feature_group_count=3),
        convolved(
            real(2, 4, 4, 6),
            real(2, 2, 1, 6),
            **CHANNELS_LAST,
            feature_group_count=6,
            padding=((1, 1), (0, 1)),
            window_strides=(2, 2),
        ),
        convolved(real(6, 2, 5), real(4, 2, 3), **CHANNELS_FIRST, batch_group_count=2),
        convolved(comp(2, 3, 4), comp(2, 3, 2), **CHANNELS_FIRST),
        convolved(real(2, 3, 4), real(5, 3, 1), **CHANNELS_FIRST),
        convolved(real(2, 3), real(4, 3), lhs_axes=(0, 1), rhs_axes=(0, 1), result_axes=(1, 0)),
        convolved(real(2, 3, 2), kernel, **CHANNELS_FIRST),
        convolved(
            real(2, 4, 5),
            real(6, 2, 3),
            **CHANNELS_FIRST,
            feature_group_count=2,
            window_reversal=True,
        ),
        convolved(real(0, 3, 5), kernel, **CHANNELS_FIRST),
        convolved(whole(2, 3, 7), whole(4, 3, 3), **CHANNELS_FIRST),
    ]


def slid(x: Any, *window: int, smooth: bool = True, **changed: Any) -> Sample:
    """Return a sample; what is not stated slides by one element, without padding."""
    ones = (1,) * len(window)
    params = {
        "window_dimensions": window,
        "window_strides": ones,
        "base_dilation": ones,
        "window_dilation": ones,
        "padding": ((0, 0),) * len(ones),
    }
    return sample(x, smooth=smooth, **params | changed)


def _windows(x: Array, *, smooth: bool = True) -> list[Sample]:
    """Return windows over one and several axes of an array of shape (2, 5, 6).

    In two samples some windows see padding only; an extremum of those is infinite.
    """
    return [
        slid(x, 1, 2, 3),
        slid(x, 1, 3, 2, window_strides=(1, 2, 2), padding=((0, 0), (1, 1), (1, 0))),
        slid(x, 2, 1, 3, base_dilation=(1, 1, 2)),
        slid(x, 1, 1, 3, window_dilation=(1, 1, 2)),
        slid(x, 2, 1, 3, base_dilation=(1, 1, 2), window_dilation=(1, 1, 2), smooth=smooth),
        slid(
            x,
            *(1, 2, 1),
            window_strides=(1, 3, 1),
            padding=((0, 0), (2, 3), (-1, 0)),
            smooth=smooth,
        ),
        slid(x, 1, 1, 1),
        slid(x[:, :1], 1, 2, 2),
        slid(x[:0], 1, 2, 2),
    ]


def window_samples() -> dict[str, list[Sample]]:
    """Return the samples by op."""
    x, small = real(2, 5, 6), positive(2, 5, 6)
    zeros = np.array([0.0, 2.0, 0.0, 3.0, 0.0, 0.0])
    ties = np.array([[3.0, 3.0, NAN, 1.0, 1.0], [-0.0, 0.0, -INF, -INF, INF]])
    integers = whole(2, 5, 6)
    tied = [
        slid(ties, 1, 2, smooth=False),
        slid(ties, 1, 3, padding=((0, 0), (3, 1)), smooth=False),
    ]
    bools = slid(integers > 0, 1, 2, 2)
    found = [*_windows(x, smooth=False), *tied, slid(integers, 1, 2, 2), bools]
    return {
        "convolution": _convolutions(),
        "reduce_window_add": [*_windows(x), slid(comp(4), 2), slid(integers, 1, 2, 2)],
        "reduce_window_multiply": [*_windows(small), slid(zeros, 2), slid(comp(4), 2)],
        "reduce_window_maximum": found,
        "reduce_window_minimum": found,
        "reduce_window_argmax": found,
        "reduce_window_argmin": found,
    }
