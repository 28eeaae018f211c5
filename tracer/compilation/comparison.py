"""Compare results of one program computed in several ways: how far they differ, and may differ.

How far rounding may move a result is measured, not guessed. A sum that cancels has few right digits
however it is computed, and no pass is to blame. There are three measures, and the largest counts:

1. the distance between the program as written (by the interpreter, if it computed that) and the
   same program in more digits; for float64 the distance to half the digits, scaled down;
2. how far the result moves when the arguments move by their last digit;
3. a few units in the last place of the largest element.

Every element is judged by the largest measure of its output, since single elements are right by
chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracer.array.promotion import finfo
from tracer.ir import ShapeDtype
from tracer.ops.rules import dtype_kind

Host = np.ndarray[Any, Any]
_FACTOR = 8
"""How many times the measured rounding a result may be off: others may round less by chance."""
_UNITS = 8
"""Units in the last place of the largest element that every result may be off."""


@dataclass(frozen=True)
class OutputCheck:
    """One output of a program as planned, compared with that of the program as written.

    Attributes
    ----------
    path : str
        Which output: "result['w'][0]".
    type : ShapeDtype
    difference : float
        The largest absolute difference between the two programs; of integers and bools 1.0 for
        those that differ. Infinite where only one of them is finite.
    place : tuple of int or None
        Where that is; None where nothing differs.
    relative : float
        The largest difference relative to the element.
    relative_place : tuple of int or None
        Where that is.
    error : float
        How far the program as planned is from the reference, at most.
    error_as_written : float
        How far the program as written is from it.
    rounding : float
        How far rounding may take this output.
    within_rounding : bool
        Whether `error` is no more than that.
    """

    path: str
    type: ShapeDtype
    difference: float
    place: tuple[int, ...] | None
    relative: float
    relative_place: tuple[int, ...] | None
    error: float
    error_as_written: float
    rounding: float
    within_rounding: bool


@dataclass(frozen=True)
class Check:
    """What `f.check(*args)` found: true where all outputs are within rounding; print it.

    Attributes
    ----------
    function : str
    outputs : tuple of OutputCheck
    reference : str
        What both programs are compared with.
    cause : str or None
        The first pass that took an output beyond rounding, or another cause.
    notes : tuple of str
        What could not be compared.
    """

    function: str
    outputs: tuple[OutputCheck, ...]
    reference: str
    cause: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all outputs are within rounding."""
        return all(output.within_rounding for output in self.outputs)

    def __bool__(self) -> bool:
        """Whether all outputs are within rounding."""
        return self.ok

    def __str__(self) -> str:
        """Return a table with a line for each output, and the verdict."""
        rows = [_HEAD, *(_cells(output) for output in self.outputs)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        wrong = sum(not output.within_rounding for output in self.outputs)
        verdict = "all outputs are within rounding"
        if wrong:
            verdict = f"{wrong} of {len(self.outputs)} outputs above rounding: {self.cause}"
        head = f"{self.function}, as planned beside as written; errors against {self.reference}"
        return "\n".join([head, *lines, verdict, *(f"note: {note}" for note in self.notes)])


_HEAD = (
    "output", "type", "difference", "at", "relative", "at", "error", "as written", "rounding", "",
)  # fmt: skip


def _cells(output: OutputCheck) -> tuple[str, ...]:
    return (
        output.path,
        str(output.type),
        f"{output.difference:.3g}",
        _shown(output.place),
        f"{output.relative:.3g}",
        _shown(output.relative_place),
        f"{output.error:.3g}",
        f"{output.error_as_written:.3g}",
        f"{output.rounding:.3g}",
        "" if output.within_rounding else "above rounding",
    )


def _shown(place: tuple[int, ...] | None) -> str:
    return "-" if place is None else str(list(place))


@dataclass
class Evidence:
    """The program as written, computed in several ways, to compare results with.

    Attributes
    ----------
    written : list of array
        As it is.
    moved : list of list of array
        With arguments moved by their last digit.
    more, fewer : list of array or None
        In more and in fewer digits, where that was computed.
    interpreted : list of array or None
        As it is, by the interpreter, which shares nothing with XLA.
    """

    written: list[Host]
    moved: list[list[Host]] = field(default_factory=list)
    more: list[Host] | None = None
    fewer: list[Host] | None = None
    interpreted: list[Host] | None = None

    @property
    def reference(self) -> list[Host]:
        """The most accurate results available."""
        return self.more or self.interpreted or self.written

    def rounding(self, position: int) -> float:
        """Return how far rounding may take an output."""
        best = self.reference[position]
        same_digits = (self.interpreted or self.written)[position]
        known = [distance(each[position], self.written[position]) for each in self.moved]
        known.append(distance(same_digits, best))
        if self.fewer is not None:
            known.append(distance(self.fewer[position], best) * self._share(position))
        if dtype_kind(best.dtype) in "fc":
            known.append(_UNITS * _eps(same_digits) * _largest(best))
        return _FACTOR * max([size for size in known if np.isfinite(size)], default=0.0)

    def _share(self, position: int) -> float:
        """Return the rounding of an output as a share of that in fewer digits."""
        assert self.fewer is not None
        output, coarse = self.written[position], self.fewer[position]
        if dtype_kind(output.dtype) not in "fc" or output.dtype == coarse.dtype:
            return 1.0
        return _eps(output) / _eps(coarse)

    def is_within(self, results: Sequence[Host]) -> bool:
        """Tell whether results are within rounding."""
        return all(
            self.error(position, result) <= self.rounding(position)
            for position, result in enumerate(results)
        )

    def error(self, position: int, result: Host) -> float:
        """Return how far an output is from the best one, where the program as written is finite.

        Elements that are infinite or NaN as written, too, are no error: more digits, more range.
        """
        written, best = self.written[position], self.reference[position]
        if dtype_kind(written.dtype) in "fc":
            best = np.where(_alike(result, written) & ~np.isfinite(_wide(written)), result, best)
        return distance(result, best)

    def checked(self, path: str, position: int, result: Host) -> OutputCheck:
        """Return the table's line for an output."""
        written = self.written[position]
        apart = _apart(result, written)
        with np.errstate(all="ignore"):
            size = np.abs(_wide(written)) if dtype_kind(written.dtype) in "fc" else np.ones(())
            relative = np.where(apart == 0, 0.0, apart / size)
        error, rounding = self.error(position, result), self.rounding(position)
        return OutputCheck(
            path,
            ShapeDtype(written.shape, written.dtype),
            *_peak(apart),
            *_peak(relative),
            error,
            self.error(position, written),
            rounding,
            error <= rounding,
        )


def distance(result: Host, other: Host) -> float:
    """Return the largest difference; of integers and bools the share of those that differ."""
    apart = _apart(result, other)
    if not apart.size:
        return 0.0
    return float(apart.max() if dtype_kind(result.dtype) in "fc" else apart.mean())


def _apart(result: Host, other: Host) -> Host:
    """Return the difference of each element; infinite where only one is finite, or they differ."""
    if dtype_kind(result.dtype) not in "fc":
        return np.asarray(result != other, np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(_wide(result) - _wide(other))
    apart = np.where(np.isfinite(apart), apart, 0.0)
    return np.where(_alike(result, other), apart, np.inf).astype(np.float64)


def _alike(result: Host, other: Host) -> Host:
    """Tell which elements are both finite, both NaN or the same infinity."""
    x, y = _wide(result), _wide(other)
    finite = np.isfinite(x) & np.isfinite(y)
    return np.asarray(finite | (np.isnan(x) & np.isnan(y)) | (x == y))


def _wide(x: Host) -> Host:
    wide: Host = x.astype(np.complex128 if dtype_kind(x.dtype) == "c" else np.float64)
    return wide


def _eps(x: Host) -> float:
    return float(finfo(x.dtype).eps)


def _largest(x: Host) -> float:
    size = np.abs(_wide(x))
    return float(np.max(size, where=np.isfinite(size), initial=0.0))


def _peak(values: Host) -> tuple[float, tuple[int, ...] | None]:
    """Return the largest value and its position; no position for 0."""
    if not values.size or not values.any():
        return 0.0, None
    place = np.unravel_index(int(np.argmax(np.nan_to_num(values, nan=np.inf))), values.shape)
    return float(values[place]), tuple(int(i) for i in place)


__all__ = ["Check", "Evidence", "OutputCheck", "distance"]
