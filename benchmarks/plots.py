"""Pictures of the results: a small chart for each case, with all contenders; lines for what goes on over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.results import Figure, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

_OURS, _LIMIT, _OTHERS = "#1a6faf", "#b8b8b8", ("#d98032", "#4e9a51", "#9067a7", "#b8544f", "#7a6a5a")
_COLUMNS = 3


def draw(result: Result, title: str, path: Path) -> bool:
    """Write the picture; False if there is nothing to be seen."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys((figure.case, figure.unit) for figure in result.figures if figure.unit != ""))
    count = len(panels) + bool(result.curves)
    if not count:
        return False
    columns = min(_COLUMNS, count)
    lines = -(-count // columns)
    most = max(
        (sum(f.case == case and f.unit == unit for f in result.figures) for case, unit in panels), default=5
    )
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(4.4 * columns, (0.34 * most + 0.9) * lines),
        squeeze=False,
        layout="constrained",
    )
    axes = [one for line in grid for one in line]
    colours = _colours(result.figures)
    for at, (case, unit) in zip(axes, panels, strict=False):
        _bars(at, [f for f in result.figures if (f.case, f.unit) == (case, unit)], case, unit, colours)
    if result.curves:
        _lines(axes[len(panels)], result)
    for unused in axes[count:]:
        unused.set_visible(False)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the time of drawing: the same results give the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return True


def _colours(figures: list[Figure]) -> dict[str, str]:
    others = iter(_OTHERS * 4)
    colours = {}
    for name in dict.fromkeys(figure.contender for figure in figures):
        if name.startswith("eoslog"):
            colours[name] = _OURS
        elif name.startswith(("no-op", "bare")):
            colours[name] = _LIMIT
        else:
            colours[name] = next(others)
    return colours


def _bars(at: Axes, figures: list[Figure], case: str, unit: str, colours: dict[str, str]) -> None:
    names = [figure.contender for figure in figures]
    middles = [figure.median for figure in figures]
    spread: Any = [
        [figure.median - min(figure.values) for figure in figures],
        [max(figure.values) - figure.median for figure in figures],
    ]
    bars = at.barh(names, middles, xerr=spread, color=[colours[name] for name in names], error_kw={"lw": 1})
    at.bar_label(
        bars, [f" {middle:,.3g}" if middle < 1000 else f" {middle:,.0f}" for middle in middles], fontsize=7
    )
    at.set_title(case, fontsize=9)
    at.set_xlabel(unit, fontsize=8)
    at.tick_params(labelsize=8)
    at.invert_yaxis()
    at.margins(x=0.18)
    at.set_xlim(left=0)
    at.spines[["top", "right"]].set_visible(False)


def _lines(at: Axes, result: Result) -> None:
    for name, points in result.curves.items():
        at.plot(*zip(*points, strict=True), label=name, lw=1.2)
    at.set_ylim(bottom=0)
    at.legend(fontsize=8, frameon=False)
    at.tick_params(labelsize=8)
    at.spines[["top", "right"]].set_visible(False)
