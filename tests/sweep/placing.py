"""Gathers, scatters and what moves elements: what the sweep of rows compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.sweep.rows import NOT_FINITE, Case, Rows

_INFINITE = (*NOT_FINITE, "largest")


def _at(r: Rows, i: Any) -> Any:
    return (slice(None), i) if r.axis else i


def _update(name: str, change: Callable[..., Any], **more: Any) -> Case:
    """Return the update of elements by several values; one place is written twice."""

    def updates(m: Any, r: Rows) -> Any:
        return m.take(r.y, m.abs(r.i) % r.n, axis=r.axis)

    def ours(m: Any, r: Rows) -> Any:
        return getattr(r.x.at[_at(r, r.i)], name)(updates(m, r))

    def oracle(m: Any, r: Rows) -> Any:
        result = r.x.copy()
        change(result, _at(r, r.i), updates(m, r))
        return result

    return Case(f"at.{name}", ours, oracle, least=1, **more)


def _set_apart(r: Rows, m: Any) -> tuple[Any, Any]:
    """Places that differ, and what is written there: of equal places either is right."""
    places = np.arange(0, r.n, 3)
    return _at(r, places), m.take(r.y, places, axis=r.axis)


def _set(m: Any, r: Rows) -> Any:
    places, values = _set_apart(r, m)
    if m is not np:
        return r.x.at[places].set(values)
    result = r.x.copy()
    result[places] = values
    return result


def _traced_set(m: Any, r: Rows) -> Any:
    """Write a number at places that only the program knows, of which some are equal."""
    if m is not np:
        return r.x.at[_at(r, r.i)].set(1)
    result = r.x.copy()
    result[_at(r, r.i)] = 1
    return result


def _wide(m: Any, r: Rows) -> Any:
    """A sum of absolute values: the scale of sums in another order."""
    return m.max(r.x, initial=0) + 5 * m.max(r.y, initial=0)


def _some(r: Rows) -> Any:
    return (np.arange(3 * r.n) % 2 == 0).reshape(r.x.shape)


def _scatters() -> list[Case]:
    numbers: dict[str, Any] = {"kinds": "iufc", "without": ("largest",)}
    return [
        Case("at.set", _set, least=1, moves=True),
        Case("at.set of traced places", _traced_set, least=1, moves=True),
        _update("add", np.add.at, scale=_wide, **numbers),
        _update("subtract", np.subtract.at, scale=_wide, **numbers),
        _update("multiply", np.multiply.at, **numbers),
        _update("max", np.maximum.at, kinds="biuf"),
        _update("min", np.minimum.at, kinds="biuf"),
        Case("put_along_axis", *_put_along(), least=1, moves=True),
    ]


def _put_along() -> tuple[Any, Any]:
    def ours(m: Any, r: Rows) -> Any:
        x = r.x.copy()
        places = m.argsort(r.y, axis=r.axis, kind="stable")
        m.put_along_axis(x, places, r.y, axis=r.axis)
        return x

    return ours, None


def _gathers() -> list[Case]:
    by_rank = lambda m, r: m.take_along_axis(
        r.x, m.argsort(r.y, axis=r.axis, kind="stable"), axis=r.axis
    )
    some = np.array([2, 0, -1, 0])
    named = {
        "take": (lambda m, r: m.take(r.x, r.i, axis=r.axis), 1),
        "take, clip": (lambda m, r: m.take(r.x, r.i * 2, axis=r.axis, mode="clip"), 1),
        "take, wrap": (lambda m, r: m.take(r.x, r.i * 2, axis=r.axis, mode="wrap"), 1),
        "take of all": (lambda m, r: m.take(r.x, m.abs(r.i)), 1),
        "take_along_axis": (by_rank, 0),
        "x[:, i]": (lambda m, r: r.x[_at(r, r.i)], 1),
        "x[j, i]": (lambda m, r: r.matrix(r.x)[some[:, None], r.i], 1),
        "x[j]": (lambda m, r: r.matrix(r.x)[some], 0),
        "x[0, i]": (lambda m, r: r.matrix(r.x)[0, r.i], 1),
        "x[..., None, ::-2]": (lambda m, r: r.matrix(r.x)[..., None, ::-2], 0),
        "x[1:, -3:]": (lambda m, r: r.matrix(r.x)[1:, -3:], 0),
        "choose": (lambda m, r: m.choose(np.arange(r.n) % 3, r.matrix(r.x)), 1),
        "select": (lambda m, r: m.select([m.isnan(r.x), _some(r)], [r.x, r.y], 0), 1),
        "where": (lambda m, r: m.where(_some(r), r.x, r.y), 0),
        "compress": (
            lambda m, r: m.compress(np.array([True, False, True]), r.matrix(r.x), axis=0),
            0,
        ),
        "diagonal": (lambda m, r: m.diagonal(r.x), 0),
    }
    return [Case(name, of, least=least, moves=True) for name, (of, least) in named.items()]


def _moves() -> list[Case]:
    named = {
        "roll": lambda m, r: m.roll(r.x, 5, axis=r.axis),
        "roll of all": lambda m, r: m.roll(r.x, -2),
        "flip": lambda m, r: m.flip(r.x, axis=r.axis),
        "rot90": lambda m, r: m.rot90(r.x),
        "repeat": lambda m, r: m.repeat(r.x, 3, axis=r.axis),
        "repeat by counts": lambda m, r: m.repeat(r.matrix(r.x), [2, 0, 3], axis=0),
        "tile": lambda m, r: m.tile(r.x, (2, 2)),
        "concatenate": lambda m, r: m.concatenate([r.x, r.y, r.x], axis=r.axis),
        "stack": lambda m, r: m.stack([r.x, r.y], axis=1),
        "block": lambda m, r: m.block([[r.x, r.y], [r.y, r.x]]),
        "tril": lambda m, r: m.tril(r.x),
        "triu": lambda m, r: m.triu(r.x, 1),
        "diag": lambda m, r: m.diag(r.matrix(r.x)[:, :3].ravel()),
        "transpose": lambda m, r: m.transpose(r.x).copy(),
        "reshape": lambda m, r: m.reshape(r.x.T, (-1,)),
        "delete": lambda m, r: m.delete(r.matrix(r.x), 1, axis=0),
        "insert": lambda m, r: m.insert(r.matrix(r.x), 1, r.vector(r.y), axis=0),
        "resize": lambda m, r: m.resize(r.x, (5, 2)),
        "column_stack": lambda m, r: m.column_stack([r.vector(r.x), r.vector(r.y)]),
        "split": lambda m, r: m.array_split(r.x, 4, axis=r.axis),
    }
    found = [Case(name, of, moves=True) for name, of in named.items()]
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "linear_ramp"):
        ours = lambda m, r, mode=mode: m.pad(r.x, ((1, 2), (2, 1)), mode=mode)
        numbers = mode == "linear_ramp"
        found.append(
            Case(f"pad, {mode}", ours, least=1, moves=not numbers and mode != "maximum",
                 without=_INFINITE if numbers else (),
                 why="the step of a ramp from an infinity is NaN" if numbers else "",
                 kinds="fc" if numbers else "biuf" if mode == "maximum" else "biufc")
        )  # fmt: skip
    return found


def _bits() -> list[Case]:
    return [
        Case("packbits", lambda m, r: m.packbits(r.x, axis=r.axis), kinds="bu"),
        Case("unpackbits", lambda m, r: m.unpackbits(r.x, axis=r.axis), kinds="u"),
        Case("view of bits", lambda m, r: m.signbit(r.x), kinds="f"),
    ]


CASES = (*_scatters(), *_gathers(), *_moves(), *_bits())

__all__ = ["CASES"]
