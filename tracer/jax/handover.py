"""Hand arrays over between JAX and tracer: by DLPack, in the same memory.

Only dtypes that DLPack does not have, and arrays of a device that tracer does not use, are copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from jax.extend.core import primitives

from tracer.array.array import Array, get_evaluator
from tracer.array.dispatch import from_host
from tracer.errors import UnsupportedError
from tracer.jax.types import is_key


def words_of(value: Any) -> Any:
    """Return a jax.Array without typed keys: the words of these."""
    return jax.random.key_data(value) if is_key(value.dtype) else value


def device_of(leaves: Iterable[Any], name: str) -> Any:
    """Return JAX's device that `jax.jit` would run a function with these arguments on.

    Raises
    ------
    UnsupportedError
        They were put on several devices.
    """
    put = [x for x in leaves if isinstance(x, jax.Array) and x.committed]
    devices = {device for x in put for device in x.devices()}
    if len(devices) > 1:
        raise UnsupportedError(
            f"{name}, whose arguments are on several devices "
            f"({', '.join(sorted(map(str, devices)))})",
            mend="put them on one device: jax.device_put(x, jax.devices()[0])",
        )
    return devices.pop() if devices else _default_device()


def _default_device() -> Any:
    chosen = jax.config.jax_default_device
    if chosen is None or isinstance(chosen, str):
        return jax.local_devices(backend=chosen)[0]
    return chosen


def place_of(device: Any) -> Any:
    """Return tracer's device for one of JAX's.

    Raises
    ------
    DeviceError
        tracer does not use it.
    """
    with jax.ensure_compile_time_eval():
        there = jax.device_put(jax.numpy.zeros(()), device)
    return get_evaluator().place_of(there.__dlpack_device__())


def from_jax_array(value: Any, device: Any = None, *, private: bool = False) -> Array:
    """Return an array of tracer with the data of a jax.Array, or of anything like one.

    Parameters
    ----------
    value : jax.Array, ndarray or number
        What the caller has; it is never written to.
    device : jax.Device, optional
        Where it is wanted: it is copied there where it is elsewhere.
    private : bool
        Copy it, so that the memory can be given away.

    Raises
    ------
    UnsupportedError
        The array is spread over several devices.
    """
    if getattr(value, "dtype", None) == jax.dtypes.float0:
        return from_host(np.zeros(np.shape(value), bool))
    with jax.ensure_compile_time_eval():  # Also where JAX traces a function around this one.
        array = words_of(jax.numpy.asarray(value))
    if len(array.devices()) > 1:
        raise UnsupportedError(
            f"an array spread over {len(array.devices())} devices ({array.sharding})",
            mend="put it on one device: jax.device_put(x, jax.devices()[0])",
        )
    if device is not None and device not in array.devices():
        array = jax.device_put(array, device)
    if private:
        return from_host(np.asarray(array))
    # The program runs in a client of its own, which does not know what JAX still computes.
    return get_evaluator().share(array.block_until_ready())


def to_jax_array(array: Array, aval: Any) -> Any:
    """Return the jax.Array, as JAX would have typed it, with the data of an array of tracer."""
    dtype = aval.dtype
    if dtype == jax.dtypes.float0:
        return np.zeros(array.shape, dtype)
    result = jax.dlpack.from_dlpack(array)
    if is_key(dtype):
        return key_maker(dtype)(result)
    return as_weak(result) if is_weak(aval) else result


@functools.cache
def key_maker(dtype: Any) -> Callable[[Any], Any]:
    """Return what makes typed keys of a dtype from their words."""
    names: list[Any] = []

    def look(keys: Any) -> Any:
        names.append(jax.random.key_impl(keys))
        return keys

    jax.eval_shape(look, jax.ShapeDtypeStruct((), dtype))
    return functools.partial(jax.random.wrap_key_data, impl=names[0])


def is_weak(value: Any) -> bool:
    """Tell whether a value of JAX takes the dtype of what it meets: numbers' results do."""
    return bool(getattr(value, "weak_type", False))


def as_weak(array: Any) -> Any:
    """Return a copy that takes the dtype of what it meets."""
    return primitives.convert_element_type_p.bind(
        array, new_dtype=array.dtype, weak_type=True, sharding=None
    )
