"""The picture of a plan: bytes alive over the schedule. Needs matplotlib (`tracer[plot]`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracer.errors import ArgumentError
from tracer.units import format_bytes

if TYPE_CHECKING:
    from tracer.optimizer.plan import Plan


def draw_timeline(plan: Plan, path: str) -> None:
    """Draw the predicted timeline of a plan to `path`."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ArgumentError(
            "plan.plot needs matplotlib, which is not installed",
            mend="pip install 'tracer[plot]'",
        ) from error
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    formats = canvas.get_supported_filetypes()
    ending = Path(path).suffix[1:].lower()
    if ending and ending not in formats:
        raise ArgumentError(
            f"plan.plot cannot write {ending!r} files",
            mend=f"end the name of the file in one of {', '.join(sorted(formats))}",
        )
    axes = figure.subplots()
    live = [entry.live_bytes / 1e6 for entry in plan.timeline]
    axes.fill_between(range(len(live)), live, step="mid", alpha=0.4, label="predicted, alive")
    axes.step(range(len(live)), live, where="mid")
    if plan.limit_bytes is not None:
        label = f"limit {format_bytes(plan.limit_bytes)}"
        axes.axhline(plan.limit_bytes / 1e6, color="tab:red", label=label)
    label = f"compiled {format_bytes(plan.compiled_bytes)}"
    axes.axhline(plan.compiled_bytes / 1e6, color="tab:green", linestyle="--", label=label)
    names = [entry.name for entry in plan.timeline]
    step = max(1, len(names) // 24)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=60, ha="right", fontsize=8)
    axes.set_ylabel("MB alive")
    axes.set_ylim(bottom=0)
    axes.set_title(
        f"peak {format_bytes(plan.peak_bytes)}, as written {format_bytes(plan.baseline_peak_bytes)}"
    )
    figure.legend(loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=120)
