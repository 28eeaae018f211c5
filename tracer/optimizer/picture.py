"""The picture of a plan: bytes alive over the schedule. Needs matplotlib (`tracer[plot]`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracer.errors import ArgumentError, Source
from tracer.units import format_bytes

_MUCH_LARGER = 8
"""Times as large as the other curve: on one linear axis that one would be a line at the bottom."""
_LONGEST_LINE = 56
"""Characters of the user's line that are shown."""


@dataclass(frozen=True)
class Curve:
    """Bytes alive at each step of a schedule, and the op and line of each step."""

    label: str
    live_bytes: Sequence[int]
    steps: Sequence[tuple[str, Source | None]]

    @property
    def peak(self) -> int:
        """The step at which most is alive."""
        return int(np.argmax(self.live_bytes))

    def __bool__(self) -> bool:
        """Tell whether there are steps."""
        return bool(self.live_bytes)


def draw_timeline(
    path: str, title: str, curves: Sequence[Curve], *, limit: int | None, compiled: int
) -> None:
    """Draw the bytes alive as planned and as written, with the lines of the peaks and the limit.

    The schedules differ in length: both are drawn over the whole width.
    """
    figure, axes = _figure(path)
    shown = [curve for curve in curves if curve]
    for curve, color in zip(shown, ("tab:blue", "tab:gray"), strict=False):
        _draw(axes, curve, color)
    levels = [(compiled, "compiled", "tab:green", "--")]
    if limit is not None:
        levels.append((limit, "limit", "tab:red", "-"))
    for nbytes, word, color, style in levels:
        label = f"{word} {format_bytes(nbytes)}"
        axes.axhline(nbytes / 1e6, color=color, linestyle=style, label=label)
    peaks = sorted([*(max(curve.live_bytes) for curve in shown), compiled, limit or compiled])
    if peaks[0] and peaks[-1] > _MUCH_LARGER * peaks[0]:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_ylim(bottom=peaks[0] / 2e7, top=peaks[-1] / 2.5e5)
    else:
        axes.set_ylim(bottom=0, top=max(1e-6, 1.25 * peaks[-1] / 1e6))
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["begin", "schedule", "end"])
    axes.set_ylabel("MB alive")
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=120)


def _figure(path: str) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ArgumentError(
            "plan.plot needs matplotlib, which is not installed",
            mend="pip install 'tracer[plot]'",
        ) from error
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    formats = FigureCanvasAgg(figure).get_supported_filetypes()
    ending = Path(path).suffix[1:].lower()
    if ending and ending not in formats:
        raise ArgumentError(
            f"plan.plot cannot write {ending!r} files",
            mend=f"end the name of the file in one of {', '.join(sorted(formats))}",
        )
    return figure, figure.subplots()


def _draw(axes: Any, curve: Curve, color: str) -> None:
    """Draw a curve, and say at its peak which op of which line is computed there."""
    edges = np.linspace(0, 1, len(curve.live_bytes) + 1)
    live = np.asarray(curve.live_bytes) / 1e6
    axes.stairs(live, edges, fill=True, alpha=0.25, color=color)
    axes.stairs(live, edges, color=color, label=curve.label)
    place = float(edges[curve.peak : curve.peak + 2].mean())
    name, source = curve.steps[curve.peak]
    text = name if source is None else f"{name}, {_place(source)}"
    axes.annotate(
        text,
        (place, live[curve.peak]),
        xytext=(0, 4),
        textcoords="offset points",
        ha="left" if place < 0.5 else "right",
        va="bottom",
        fontsize=8,
        color=color,
    )


def _place(source: Source) -> str:
    """Return file, line and what is written there, without the function."""
    text = f"{source.place}: {source.text}" if source.text else source.place
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + "..."


__all__ = ["Curve", "draw_timeline"]
