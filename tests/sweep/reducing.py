"""Reductions and cumulative functions: what the sweep of rows compiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special as scipy_special

import tracer.numpy as tnp
from tests.sweep.rows import BEYOND, Case, Function, Rows
from tracer.scipy import special

_LIMIT = "beside an infinity others have exp(x) / inf = 0; SciPy has NaN"
_FACTORS = "each factor adds an error of one unit; many that are not near one leave the range"


def _over(name: str, **keywords: Any) -> Function:
    """Return a reduction of `x` along the rows."""
    return lambda m, r: getattr(m, name)(r.x, axis=r.axis, **keywords)


def _whole(name: str) -> Function:
    return lambda m, r: getattr(m, name)(r.x)


def _of_both(name: str) -> Function:
    """Return a reduction of a product: what is fused with what makes its operand."""
    return lambda m, r: getattr(m, name)(r.x * r.y, axis=r.axis)


def _where(name: str, **keywords: Any) -> Function:
    """Return a reduction of some elements."""
    return lambda m, r: getattr(m, name)(r.x, axis=r.axis, where=r.y != 0, **keywords)


def _spread(m: Any, r: Rows) -> Any:
    """Errors of a variance are those of squares; the first operand has absolute values."""
    return m.max(r.x, axis=r.axis, initial=0) ** 2


def _spread_once(m: Any, r: Rows) -> Any:
    return m.max(r.x, axis=r.axis, initial=0)


_SUM = _over("sum")


def _sums() -> list[Case]:
    largest_ok = {"scale": _SUM}
    found = [
        Case("sum", _over("sum"), **largest_ok),
        Case("sum of all", _whole("sum"), scale=_whole("sum")),
        Case("sum, keepdims", _over("sum", keepdims=True), scale=_over("sum", keepdims=True)),
        Case("sum, where", _where("sum"), scale=_SUM),
        Case("sum, initial", _over("sum", initial=3), scale=_over("sum", initial=3)),
        Case("sum of a product", _of_both("sum"), kinds="iufc", scale=_of_both("sum")),
        Case("mean", _over("mean"), scale=_over("mean")),
        Case("mean of all", _whole("mean"), scale=_whole("mean")),
        Case("mean, where", _where("mean"), scale=lambda m, r: m.max(r.x, axis=r.axis, initial=0)),
        Case("average", lambda m, r: m.average(r.x, axis=r.axis), scale=_over("mean")),
        Case("nansum", _over("nansum"), scale=_SUM),
        Case("nanmean", _over("nanmean"), scale=_spread_once),
        Case("add.reduce", lambda m, r: m.add.reduce(r.x, axis=r.axis), scale=_SUM),
        Case(
            "trapezoid",
            lambda m, r: m.trapezoid(r.x, axis=r.axis),
            kinds="iufc",
            scale=_SUM,
            units=32,
        ),
        Case("count_nonzero", _over("count_nonzero")),
        Case("trace", lambda m, r: m.trace(r.x), scale=_whole("sum"), kinds="iufc"),
    ]
    for name in ("var", "std", "nanvar", "nanstd"):
        scale = _spread if "var" in name else _spread_once
        # With SSE a row is one chain of up to 2,048 sums, and those of alike terms round one way.
        found += [
            Case(f"{name}, ddof={ddof}", _over(name, ddof=ddof), scale=scale, units=64)
            for ddof in (0, 1)
        ]
    return found


def _products() -> list[Case]:
    """Of numbers near one: else a product leaves the range, and when depends on the order."""
    clipped = lambda m, r: m.clip(r.x, -1.25, 1.25) if r.x.dtype.kind not in "biu" else r.x
    product = lambda name, axis=True: (
        lambda m, r: getattr(m, name)(clipped(m, r), axis=r.axis if axis else None)
    )
    within: dict[str, Any] = {"kinds": "biuf", "without": ("inf", "largest"), "why": _FACTORS}
    found = []
    units = 4200.0
    for name in ("prod", "nanprod", "cumprod", "nancumprod"):
        found += [
            Case(name, product(name), units=units, **within),
            Case(f"{name} of all", product(name, False), units=3 * units, **within),
            Case(f"{name}, complex", _over(name), kinds="c", most=7, without=BEYOND),
        ]
    where = lambda m, r: m.prod(clipped(m, r), axis=r.axis, where=r.y != 0)
    return [*found, Case("prod, where", where, units=units, **within)]


def _extremes() -> list[Case]:
    found = []
    for name in ("max", "min"):
        start = 0
        found += [
            Case(name, _over(name)),
            Case(f"{name} of all", _whole(name)),
            Case(f"{name}, initial", _over(name, initial=start), kinds="iuf"),
            Case(f"{name}, where", _where(name, initial=start), kinds="iuf"),
            Case(f"{name} of a product", _of_both(name), kinds="iuf"),
            Case(f"nan{name}", _over(f"nan{name}"), kinds="biuf"),
            Case(f"arg{name}", _over(f"arg{name}")),
            Case(f"arg{name} of all", _whole(f"arg{name}")),
            Case(f"arg{name}, keepdims", _over(f"arg{name}", keepdims=True)),
            Case(
                f"nanarg{name}",
                lambda m, r, name=name: getattr(m, f"nanarg{name}")(r.matrix(r.x)[:2], axis=1),
                kinds="biuf",
                why="the last row may be NaN alone, which NumPy refuses",
            ),
        ]
    return [
        *found,
        Case("ptp", _over("ptp"), kinds="iuf"),
        Case("any", _over("any")),
        Case("all", _over("all")),
        Case("any, where", _where("any")),
        Case("all of all", _whole("all")),
    ]


def _running() -> list[Case]:
    """Functions of all elements up to each."""
    running = lambda name: lambda m, r: getattr(m, name).accumulate(r.x, axis=r.axis)
    total = lambda m, r: m.cumsum(r.x, axis=r.axis)
    with_zero = lambda m, r: m.cumulative_sum(r.x, axis=r.axis, include_initial=True)
    return [
        Case("cumsum", _over("cumsum"), scale=total),
        Case("cumsum of all", _whole("cumsum"), scale=_whole("cumsum")),
        Case("cumulative_sum", with_zero, scale=with_zero),
        Case("nancumsum", _over("nancumsum"), scale=total),
        Case("maximum.accumulate", running("maximum"), kinds="biuf"),
        Case("minimum.accumulate", running("minimum"), kinds="biuf"),
        Case("diff", lambda m, r: m.diff(r.x, axis=r.axis), kinds="biufc"),
        Case(
            "diff, twice",
            lambda m, r: m.diff(r.x, 2, axis=r.axis),
            kinds="iufc",
            scale=lambda m, r: 4 * m.max(r.x, initial=0),
        ),
        Case("ediff1d", lambda m, r: m.ediff1d(r.vector(r.x)), kinds="iufc"),
        Case(
            "gradient",
            lambda m, r: m.gradient(r.x, axis=r.axis),
            kinds="fc",
            least=2,
            scale=lambda m, r: 2 * m.max(r.x),
        ),
    ]


def _exponentials() -> list[Case]:
    def both(name: str, **more: Any) -> Case:
        def ours(m: Any, r: Rows) -> Any:
            return getattr(special if m is tnp else scipy_special, name)(r.x, axis=r.axis)

        return Case(name, ours, kinds="f", **more)

    one = lambda m, r: m.ones(())
    larger = lambda m, r: m.maximum(m.max(r.x, axis=r.axis, initial=0), 16)
    return [
        both("logsumexp", scale=larger),
        both("softmax", scale=one, units=64.0, without=("inf",), why=_LIMIT),
        both("log_softmax", scale=lambda m, r: m.maximum(m.max(r.x, initial=0), 16)),
    ]


def _norms() -> list[Case]:
    found = []
    for order in (None, 0, 1, 2, 3, np.inf, -np.inf, -1):
        ours = lambda m, r, order=order: m.linalg.norm(r.x, ord=order, axis=r.axis)
        most = (
            (lambda m, r: m.max(r.x, axis=r.axis, initial=0) * max(1, r.n**0.5))
            if (order in (None, 2, 3))
            else None
        )
        scale = most if order != 1 else _SUM
        found.append(
            Case(f"norm of order {order}", ours, kinds="iufc", scale=scale, units=16, least=1)
        )
    return found


def _within(cases: list[Case]) -> Iterator[Case]:
    """Yield cases of sums: with the largest numbers they overflow, in NumPy's order or another."""
    for case in cases:
        yield replace(case, without=(*case.without, "largest"))


CASES = (
    *_within(_sums()),
    *_products(),
    *_extremes(),
    *_within(_running()),
    *_exponentials(),
    *_within(_norms()),
)

__all__ = ["CASES"]
