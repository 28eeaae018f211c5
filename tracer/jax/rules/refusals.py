"""What is refused, why, and what to write instead."""

from __future__ import annotations

from tracer.jax.table import refuse

_OUTSIDE = "call it outside of the limited function, on arguments or results"

refuse(
    "acts on the world outside, or calls a library, while the program runs",
    _OUTSIDE,
    "io_callback",
    "outside_call",
    "ffi_call",
    "pallas_call",
    "infeed",
    "outfeed",
)
refuse(
    "works on several devices; tracer.jax.limit runs on one",
    "limit the function that runs on one device, inside of the sharded one",
    "shard_map",
    "xla_pmap",
    "psum",
    "psum2",
    "psum_invariant",
    "pmax",
    "pmin",
    "ppermute",
    "pbroadcast",
    "all_gather",
    "all_gather_invariant",
    "all_to_all",
    "ragged_all_to_all",
    "reduce_scatter",
    "axis_index",
)
refuse(
    "has an effect on mutable references",
    "return the new values instead",
    "get",
    "swap",
    "addupdate",
    "new_ref",
    "ref",
    "core_map",
    "run_state",
    "for",
    "while_with_effects",
)
refuse(
    "makes numbers of XLA's own generator, which differ from device to device",
    'use the default keys: jax.random.key(0), impl="threefry2x32"',
    "rng_uniform",
)
