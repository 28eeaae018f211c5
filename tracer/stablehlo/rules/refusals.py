"""What is refused, why, and what to write instead."""

from __future__ import annotations

from tracer.stablehlo.table import refuse

refuse(
    "works on several devices",
    "lower the function that runs on one device",
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.cross-replica-sum",
    "stablehlo.partition_id",
    "stablehlo.recv",
    "stablehlo.reduce_scatter",
    "stablehlo.replica_id",
    "stablehlo.send",
    "sdy.manual_computation",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
)
refuse(
    "has sizes that are computed",
    "lower the function for fixed sizes",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_conv",
    "stablehlo.dynamic_gather",
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_reshape",
    "stablehlo.real_dynamic_slice",
    "stablehlo.set_dimension_size",
)
refuse(
    "calls Python or other programs while the program runs, which a planned program cannot do",
    "call it outside of the module, on arguments or results",
    "stablehlo.infeed",
    "stablehlo.outfeed",
    "xla_ffi_python_cpu_callback",
    "xla_ffi_partitioned_python_cpu_callback",
    "xla_python_cpu_callback",
)
refuse(
    "makes numbers of XLA's own generator, which differ from device to device",
    'use a generator that is written out, as the keys of jax.random.key(0, impl="threefry2x32")',
    "stablehlo.rng",
)
refuse(
    "works on quantised numbers",
    "lower the function for floats",
    "stablehlo.uniform_dequantize",
    "stablehlo.uniform_quantize",
)
