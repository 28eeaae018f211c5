"""Philox and Threefry with a state: known answers, carries, parts."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import errors, lax
from tracer.numpy.bit_generators import philox

pytestmark = pytest.mark.xla

ONES = 2**64 - 1
KNOWN = [
    # Random123's known answers of Philox4x32 with 10 rounds: key, counter, four words.
    ((0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("state", "expected"), KNOWN)
def test_known_answers_of_philox(state, expected):
    _, bits = philox(tnp.asarray(state, dtype="uint64"), shape=(4,), width=32)
    assert tuple(np.asarray(bits).tolist()) == expected


def test_the_counter_carries_and_goes_on():
    state = tnp.asarray([5, ONES, 7], dtype="uint64")
    after, whole = philox(state, shape=(12,), width=32)
    assert np.asarray(after).tolist() == [5, 2, 8]
    middle, first = philox(state, shape=(4,), width=32)
    _, rest = philox(middle, shape=(8,), width=32)
    np.testing.assert_array_equal(whole, np.concatenate([first, rest]))


@pytest.mark.parametrize("algorithm", lax.RandomAlgorithm)
def test_the_same_compiled_in_parts(algorithm):
    weights = tnp.eye(1000, 40, dtype="float32")

    def total(key):
        _, bits = lax.rng_bit_generator(key, (1000, 1000), "uint32", algorithm)
        return (bits >> 16).astype("float32") @ weights

    key = np.array([1, 2], np.uint64)
    limited = tracer.compile(total, memory_limit="3MB")
    assert limited.plan(key).loops
    np.testing.assert_array_equal(limited(key), total(key))


def test_other_keys_and_dtypes_are_refused():
    with pytest.raises(errors.ShapeError, match=r"uint32\[4\] or uint64\[2\], not uint32\[2\]"):
        lax.rng_bit_generator(tracer.random.key(0), (3,))
    with pytest.raises(errors.DTypeError, match="does not make dtype int32"):
        lax.rng_bit_generator(tnp.ones(4, "uint32"), (3,), "int32")
