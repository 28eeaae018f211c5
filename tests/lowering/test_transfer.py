"""Data to and from devices: every dtype and layout, and never an alias by luck."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tracer import lowering, ops
from tracer.errors import DeviceError, DonatedArrayError, DTypeError
from tracer.ir import SUPPORTED_DTYPES


def example(dtype: Any, *shape: int) -> Any:
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES, ids=SUPPORTED_DTYPES.values())
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (5,)])
def test_round_trip_keeps_every_bit(dtype: Any, shape: tuple[int, ...]) -> None:
    array = example(dtype, *shape)
    back = lowering.to_host(lowering.to_device(array))
    assert back.dtype == dtype
    assert back.shape == shape
    assert bits(back) == bits(array)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(example("f4", 3, 4)),
        example("f4", 3, 4).T,
        example("f8", 10)[::2],
        example("i4", 10)[::-1],
        np.broadcast_to(np.float32(3), (4, 5)),
        example(">f4", 7),
        example(">c16", 3),
        example(">i2", 2, 3),
    ],
    ids=["fortran", "transposed", "strided", "reversed", "broadcast", ">f4", ">c16", ">i2"],
)
def test_every_layout_arrives_as_it_reads(array: Any) -> None:
    back = lowering.to_host(lowering.to_device(array))
    assert back.dtype.isnative
    np.testing.assert_array_equal(back, array)


def test_read_only_arrays_are_taken() -> None:
    array = example("f4", 4)
    array.flags.writeable = False
    np.testing.assert_array_equal(lowering.to_host(lowering.to_device(array)), array)


def aligned(size: int) -> Any:
    """An array that XLA would take over without a copy."""
    raw = np.zeros(size * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * 4].view(np.float32)


@pytest.mark.parametrize("size", [1, 16, 1 << 22])
def test_changing_the_array_at_once_does_not_change_the_buffer(size: int) -> None:
    for array in (aligned(size), np.zeros(size + 1, np.float32)[1:]):
        buffer = lowering.to_device(array)
        array[:] = 7
        assert not lowering.to_host(buffer).any()


def test_host_view_cannot_be_written_and_outlives_the_buffer() -> None:
    buffer = lowering.to_device(np.full(1000, 3, np.float32))
    view = lowering.to_host(buffer)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    del buffer
    gc.collect()
    others = [lowering.to_device(np.zeros(1000, np.float32)) for _ in range(50)]
    assert (view == 3).all()
    assert len(others) == 50


@pytest.mark.parametrize("dtype", ["O", "U3", "M8[s]", "S2", "longdouble"])
def test_unsupported_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(DTypeError, match="not supported"):
        lowering.to_device(np.zeros(2, dtype))


def test_unsupported_structured_dtype_is_refused() -> None:
    with pytest.raises(DTypeError, match="not supported"):
        lowering.to_device(np.zeros(2, [("a", "f4")]))


class Foreign:
    """An array of another library."""

    def __init__(self, capsule: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.capsule = capsule
        self.device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def test_dlpack_out_shares_memory() -> None:
    buffer = lowering.to_device(example("f4", 2, 3))
    shared = np.from_dlpack(Foreign(lowering.to_dlpack(buffer)))
    assert shared.ctypes.data == buffer.unsafe_buffer_pointer()
    np.testing.assert_array_equal(shared, example("f4", 2, 3))


@pytest.mark.parametrize("dtype", ["f4", "bool", "c8", "i8", ml_dtypes.bfloat16])
def test_dlpack_there_and_back(dtype: Any) -> None:
    array = example(dtype, 2, 3)
    foreign = Foreign(lowering.to_dlpack(lowering.to_device(array)))
    back = lowering.to_host(lowering.from_dlpack(foreign))
    assert bits(back) == bits(array)


def test_dlpack_in_is_a_copy_of_any_strides() -> None:
    array = example("f8", 4, 6)[::2, ::-1]
    for source in (array, Foreign(array.__dlpack__())):
        buffer = lowering.from_dlpack(source)
        wanted = array.copy()
        array[:] = -1
        np.testing.assert_array_equal(lowering.to_host(buffer), wanted)
        array[:] = wanted


def test_dlpack_refusals_say_what_to_do() -> None:
    with pytest.raises(DTypeError, match="no __dlpack__"):
        lowering.from_dlpack(3)
    with pytest.raises(DeviceError, match="not on the host"):
        lowering.from_dlpack(Foreign(None, device=(2, 0)))


@pytest.mark.xla
def test_donated_buffers_cannot_be_read(graph: Any) -> None:
    made = graph(lambda x: [ops.negate(x)], ((3,), "f4"))
    buffer = lowering.to_device(np.ones(3, np.float32))
    lowering.compile_graph(made, donate=(0,))(buffer)
    for read in (lowering.to_host, lowering.to_dlpack):
        with pytest.raises(DonatedArrayError, match="given away"):
            read(buffer)
