"""The picture of a plan: bytes alive over the schedule. Needs matplotlib (`tracer[plot]`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracer.errors import ArgumentError
from tracer.units import format_bytes


def draw_timeline(
    path: str, title: str, timeline: Sequence[tuple[str, int]], *, limit: int | None, compiled: int
) -> None:
    """Draw the bytes alive at each stored value, by name, with the limit and XLA's count."""
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
    live = [live_bytes / 1e6 for _, live_bytes in timeline]
    axes.fill_between(range(len(live)), live, step="mid", alpha=0.4, label="predicted, alive")
    axes.step(range(len(live)), live, where="mid")
    if limit is not None:
        label = f"limit {format_bytes(limit)}"
        axes.axhline(limit / 1e6, color="tab:red", label=label)
    label = f"compiled {format_bytes(compiled)}"
    axes.axhline(compiled / 1e6, color="tab:green", linestyle="--", label=label)
    names = [name for name, _ in timeline]
    step = max(1, len(names) // 24)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=60, ha="right", fontsize=8)
    axes.set_ylabel("MB alive")
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=120)
