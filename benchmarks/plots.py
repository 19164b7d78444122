"""Pictures of the results: a small chart for each case, with all contenders; lines for what goes on over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.results import Figure, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["IN", "STACKED", "draw"]

_COLOURS = {
    "eoslog": "#1a6faf",
    "exactly once": "#1a6faf",
    "no-op": "#b8b8b8",
    "bare": "#b8b8b8",
    "Kafka": "#d98032",
    "Delta": "#9067a7",
    "Parquet": "#4e9a51",
}
"""By what a contender's name contains; the same everywhere."""

_PARTS = ("#1a6faf", "#d98032", "#4e9a51", "#9067a7", "#b8544f", "#7a6a5a")

_COLUMNS = 3

_TIME = "over time"

STACKED = "ms of one micro-batch"
"""The unit of figures whose cases are the parts of a whole: they are drawn one after the other."""

IN = " | "
"""Curves that are named *panel*, this and *line* are drawn over their sizes, in a panel each, in place of figures."""


def draw(result: Result, title: str, path: Path) -> bool:
    """Write the picture; False if there is nothing to be seen."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = _panels(result)
    if not panels:
        return False
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    most = max(len(figures) for figures in panels.values())
    height = max(0.32 * most + 0.9, 2.4 if result.curves else 0)
    size = (4.4 * columns, height * lines + 0.4)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
    axes = [one for line in grid for one in line]
    for at, (name, figures) in zip(axes, panels.items(), strict=False):
        at.set_title(name, fontsize=9)
        at.tick_params(labelsize=8)
        at.spines[["top", "right"]].set_visible(False)
        if not figures and name != _TIME:
            _by_size(at, result, name)
        elif not figures:
            _lines(at, result)
        elif figures[0].unit == STACKED:
            _stack(at, [one for one in result.figures if one.unit == STACKED])
        else:
            _bars(at, figures)
    for unused in axes[len(panels) :]:
        unused.set_visible(False)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the program's name and version: the same results give the same file.
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)
    return True


def _panels(result: Result) -> dict[str, list[Figure]]:
    """The figures of each small chart; none for the chart with the curves."""
    if any(IN in name for name in result.curves):
        return {name.partition(IN)[0]: [] for name in result.curves}
    panels: dict[str, list[Figure]] = {}
    for one in result.figures:
        if one.unit == STACKED:
            # One bar for each contender, whatever the number of parts.
            found = panels.setdefault(f"parts of it [{STACKED}]", [])
            if one.contender not in {other.contender for other in found}:
                found.append(one)
        else:
            panels.setdefault(f"{one.case} [{one.unit}]", []).append(one)
    if result.curves:
        panels[_TIME] = []
    return panels


def _colour(name: str) -> str:
    *_, last = name.split(" → ")
    return next((colour for part, colour in _COLOURS.items() if part in last), "#7a6a5a")


def _bars(at: Axes, figures: list[Figure]) -> None:
    names = [figure.contender for figure in figures]
    middles = [figure.median for figure in figures]
    spread: Any = [
        [figure.median - min(figure.values) for figure in figures],
        [max(figure.values) - figure.median for figure in figures],
    ]
    bars = at.barh(names, middles, xerr=spread, color=[_colour(name) for name in names], error_kw={"lw": 1})
    labels = [f" {middle:,.3g}" if middle < 1000 else f" {middle:,.0f}" for middle in middles]
    at.bar_label(bars, labels, fontsize=7)
    at.invert_yaxis()
    at.margins(x=0.18)
    at.set_xlim(left=0)


def _stack(at: Axes, figures: list[Figure]) -> None:
    names = list(dict.fromkeys(figure.contender for figure in figures))
    before = dict.fromkeys(names, 0.0)
    for part, colour in zip(dict.fromkeys(figure.case for figure in figures), _PARTS, strict=False):
        sizes = {figure.contender: figure.median for figure in figures if figure.case == part}
        wide = [sizes.get(name, 0.0) for name in names]
        at.barh(names, wide, left=list(before.values()), color=colour, label=part)
        before = {name: before[name] + sizes.get(name, 0.0) for name in names}
    at.invert_yaxis()
    at.legend(fontsize=6, frameon=False)


def _lines(at: Axes, result: Result) -> None:
    for name, points in result.curves.items():
        at.plot(*zip(*points, strict=True), label=name, lw=1.2)
    at.set_ylim(bottom=0)
    at.legend(fontsize=7, frameon=False)


def _by_size(at: Axes, result: Result, panel: str) -> None:
    """Both axes in powers of ten: what is proportional to the size rises by one for one."""
    for name, points in result.curves.items():
        of, _, line = name.partition(IN)
        if of == panel:
            at.plot(*zip(*points, strict=True), label=line, lw=1.2, marker=".")
    at.set_xscale("log")
    at.set_yscale("log")
    at.legend(fontsize=6, frameon=False)
