"""What is refused, why, and what to write instead."""

from __future__ import annotations

from tracer.torch.table import refuse

refuse(
    "makes a tensor whose shape depends on values",
    "use torch.where with the whole tensor, or do this outside of the function",
    "nonzero",
    "masked_select",
    "unique_consecutive",
    "unique_dim",
    "_unique2",
    "bincount",
    "repeat_interleave",
)
refuse(
    "needs the value of a tensor while it is traced",
    "use torch.where for what depends on values",
    "_local_scalar_dense",
    "item",
)
