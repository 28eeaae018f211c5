"""Checks of dtypes, shared by all derivatives."""

from __future__ import annotations

from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms.arguments import Traced
from tracer.errors import DTypeError
from tracer.ir import ShapeDtype
from tracer.ops.rules import dtype_kind


def check_input_dtypes(name: str, traced: Traced, holomorphic: bool, allow_int: bool) -> None:
    """Raise `DTypeError` where an argument has no derivative of the kind that is asked for."""
    types = traced.graph.input_types[: traced.leaves]
    for path, type in zip(traced.paths, types, strict=True):
        if holomorphic and dtype_kind(type.dtype) != "c":
            raise DTypeError(
                f"{name} with holomorphic=True: {path} is {type}, which is not complex",
                mend="convert it with astype(complex), or leave holomorphic out",
            )
        if not allow_int and not carries_gradient(type.dtype):
            raise DTypeError(
                f"{name}: {path} is {type}; only floating and complex arrays have gradients",
                mend="convert it with astype(float), leave it out of argnums, or pass "
                "allow_int=True to get zeros for it",
            )


def check_real_inputs(name: str, traced: Traced) -> None:
    """Raise `DTypeError` unless all arguments are real and floating."""
    types = traced.graph.input_types[: traced.leaves]
    for path, type in zip(traced.paths, types, strict=True):
        if dtype_kind(type.dtype) == "c":
            raise DTypeError(
                f"{name}: {path} is {type}, which is complex",
                mend="pass holomorphic=True for a holomorphic function; else differentiate with "
                "respect to real and imaginary part",
            )


def check_output_dtype(name: str, type: ShapeDtype, holomorphic: bool) -> None:
    """Raise `DTypeError` unless a result can be differentiated in reverse mode."""
    kind = dtype_kind(type.dtype)
    if holomorphic and kind != "c":
        raise DTypeError(
            f"{name} with holomorphic=True: the function returned {type}, which is not complex",
            mend="leave holomorphic out for a real result",
        )
    if not holomorphic and kind == "c":
        raise DTypeError(
            f"{name}: the function returned {type}, which is complex",
            mend="take its real part or absolute value; for a holomorphic function pass "
            "holomorphic=True",
        )
    if kind not in "fc":
        raise DTypeError(
            f"{name}: the function returned {type}; only floating results have gradients",
            mend="return floating arrays",
        )


__all__ = ["check_input_dtypes", "check_output_dtype", "check_real_inputs"]
