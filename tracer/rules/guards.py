"""Conditions of rules. A guard returns the reason for a refusal, or None."""

from __future__ import annotations

from tracer.ops.rules import dtype_kind
from tracer.optimizer.match.rule import Bound


def real_floating(bound: Bound) -> str | None:
    """Refuse dtypes for which only the exact form of an identity holds, or another one."""
    for leaf in bound.leaves:
        if dtype_kind(leaf.dtype) != "f":
            return f"{leaf.dtype} is not a real floating type"
    return None


def inexact(bound: Bound) -> str | None:
    """Refuse integers and truth values."""
    for leaf in bound.leaves:
        if dtype_kind(leaf.dtype) not in "fc":
            return f"{leaf.dtype} is neither a floating nor a complex type"
    return None
