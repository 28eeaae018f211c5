"""Pictures in the paper's layout: memory and seconds against the size, one line for each system."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.experiments.records import OURS, Row


@dataclass(frozen=True)
class Picture:
    """One picture of an experiment.

    Attributes
    ----------
    experiment : str
        Whose rows are drawn.
    axis, label : str
        The key of the horizontal axis, and its name.
    panels : tuple of (key, label)
        What is drawn against it, side by side.
    """

    experiment: str
    axis: str
    label: str
    panels: tuple[tuple[str, str], ...]
    logarithmic: bool = True


MEMORY = ("peak_bytes", "memory above the baseline, bytes")
SECONDS = ("seconds", "seconds")
PICTURES = (
    Picture("kernel product", "n", "points n", (MEMORY, SECONDS)),
    Picture("Transformer, forward", "length", "sequence length", (MEMORY, SECONDS)),
    Picture("Transformer, training step", "length", "sequence length", (MEMORY, SECONDS)),
    Picture("sparse GP, value and gradient", "m", "inducing points", (MEMORY, SECONDS)),
    Picture(
        "sparse GP, training",
        "m",
        "inducing points",
        (("rmse", "root mean squared error"), ("nlpd", "negative log predictive density")),
        logarithmic=False,
    ),
    Picture("scaling: kernel product", "n", "points n", (MEMORY, SECONDS)),
    Picture("scaling: nearest neighbours", "n", "points n", (MEMORY, SECONDS)),
    Picture("scaling: planning", "nodes", "nodes of the graph", (SECONDS, ("each", "us a node"))),
)


def draw(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Draw what there are rows for; returns the files. Says so where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        print("plots skipped: not installed: matplotlib")
        return []
    folder.mkdir(parents=True, exist_ok=True)
    ran = [row for row in rows if row["status"] == "ok"]
    drawn = []
    for picture in PICTURES:
        mine = [row for row in rows if row["experiment"] == picture.experiment]
        for source in dict.fromkeys(row.get("source", "") for row in mine):
            path = folder / (_file_name(f"{picture.experiment} {source}") + ".png")
            if _draw_lines(picture, [row for row in mine if row.get("source", "") == source], path):
                drawn.append(path)
    bars = [row for row in ran if row["experiment"] == "nearest neighbours"]
    if bars:
        drawn.append(_draw_bars(bars, folder / "nearest-neighbours.png"))
    return drawn


def _file_name(text: str) -> str:
    kept = "".join(c if c.isalnum() else " " for c in text.lower())
    return "-".join(kept.split())


def _draw_lines(picture: Picture, rows: Sequence[Row], path: Path) -> bool:
    ran = [row for row in rows if row["status"] == "ok"]
    if not ran:
        return False
    figure, panels = _figure(len(picture.panels))
    failed = [row[picture.axis] for row in rows if _is_lost(row)]
    for panel, (key, label) in zip(panels, picture.panels, strict=True):
        for system in dict.fromkeys(row["system"] for row in ran):
            _draw_line(panel, system, _points(ran, system, picture.axis, key))
        if failed:
            # As in the paper: from here on not every peer fits.
            panel.axvline(min(failed), color="grey", linestyle=":", label="first peer does not fit")
        panel.set(xlabel=picture.label, ylabel=label)
        if picture.logarithmic:
            panel.set(xscale="log", yscale="log")
            # The sizes that ran: within two decades matplotlib's own ticks overlap.
            sizes = sorted({row[picture.axis] for row in ran})
            panel.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30, fontsize=7)
            panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.suptitle(path.stem.replace("-", " "))
    _save(figure, path)
    return True


def _is_lost(row: Row) -> bool:
    return row["status"] == "does not fit" and not row["system"].startswith(OURS)


def _points(rows: Sequence[Row], system: str, axis: str, key: str) -> list[tuple[float, float]]:
    mine = (row for row in rows if row["system"] == system)
    return sorted((row[axis], row[key]) for row in mine if row.get(key) is not None)


def _draw_line(panel: Any, system: str, points: Sequence[tuple[float, float]]) -> None:
    ours = system.startswith(OURS)
    style = {"linewidth": 2} if ours else {"linewidth": 1, "linestyle": "--"}
    if points:
        panel.plot(*zip(*points, strict=True), marker="o", markersize=3, label=system, **style)


def _draw_bars(rows: Sequence[Row], path: Path) -> Path:
    cases = list(dict.fromkeys(row["case"] for row in rows))
    systems = list(dict.fromkeys(row["system"] for row in rows))
    figure, (panel,) = _figure(1)
    height = 0.8 / len(systems)
    for place, system in enumerate(systems):
        found = {
            row["case"]: row["work"] / row["seconds"] for row in rows if row["system"] == system
        }
        at = [cases.index(case) + place * height for case in found]
        panel.barh(at, list(found.values()), height, label=system)
    panel.set(xscale="log", xlabel="queries a second")
    panel.set_yticks([i + 0.4 for i in range(len(cases))], cases, fontsize=7)
    panel.invert_yaxis()
    panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.set_size_inches(9, 1 + 0.9 * len(cases))
    _save(figure, path)
    return path


def _figure(count: int) -> tuple[Any, Any]:
    from matplotlib import colormaps

    # Not pyplot: it would look for a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * count + 2, 4))
    figure.subplots_adjust(wspace=0.35)
    panels = figure.subplots(1, count, squeeze=False)[0]
    # There are more systems than matplotlib has colours by default: the dark ones, then the light.
    shades = colormaps["tab20"].colors
    for panel in panels:
        panel.set_prop_cycle(color=[*shades[::2], *shades[1::2]])
    return figure, panels


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=110, bbox_inches="tight")
