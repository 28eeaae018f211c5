"""Arguments that NumPy refuses, and one that it takes: no value is made of a misunderstanding."""

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

FLOATS = np.array([0.72, 0.18, 0.43])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tnp.take_along_axis(np.ones(3), FLOATS), tracer.ArrayIndexError),
        (lambda: tnp.put_along_axis(tnp.ones(3), FLOATS, 1.0, 0), tracer.ArrayIndexError),
        (lambda: tnp.choose(FLOATS, [1.0, 2.0]), tracer.ArrayIndexError),
        (lambda: tnp.matvec(np.ones(3), np.ones(3)), tracer.ShapeError),
        (lambda: tnp.vecmat(np.ones(3), np.ones(3)), tracer.ShapeError),
        (lambda: tnp.ravel(np.ones((2, 2)), np.ones(2)), tracer.ArgumentError),
        (lambda: tnp.histogramdd(np.ones((2, 2, 2))), tracer.ShapeError),
    ],
)
def test_refused(call, error):
    with pytest.raises(error) as caught:
        call()
    assert "mend" in str(caught.value)


def test_a_vector_is_points_on_a_line():
    counts, edges = tnp.histogramdd(FLOATS, 4)
    expected, expected_edges = np.histogramdd(FLOATS, 4)
    np.testing.assert_array_equal(np.asarray(counts), expected)
    np.testing.assert_allclose(np.asarray(edges[0]), expected_edges[0])


def test_truth_values_choose():
    flags = np.array([True, False])
    found = tnp.choose(flags, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(np.asarray(found), np.choose(flags, [[1.0, 2.0], [3.0, 4.0]]))
