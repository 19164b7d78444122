"""``docs/quality/benchmarks.md``: the results as tables and plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.results import Figure, Ratio, Result, name_of

_INTRO = """
# Benchmarks

Written by `scripts/bench`, which installs and starts the peers itself: a Kafka broker with Spark's own connector,
Delta, Spark's Parquet. All run on one machine, in one Spark; contenders take turns, and **every ratio is of runs that
follow each other in one round**. The median over the rounds is what counts, and the lowest and the highest
round stand beside it. Absolute figures are context: they say more about the machine than about the contenders.

`scripts/bench --quick` measures a slice, `scripts/bench --only NAME` some workloads (`--list` names them), which
replaces their part of this page alone. Nothing is kept that was measured while others kept more than a fifth of a
core busy. In the tables "2 ×" of a speed is twice as fast as the other, in those of times twice as long.
"""

_GATE = """
## Before a release
`scripts/bench-gate BASE` measures this tree against a commit or tag: both do the same small pieces of work (batch sink
and source, micro-batches, transactions, producers, a consumer, opening a log), called as Spark calls them but without
Spark, with the same packages, in processes that follow each other. It prints how many times as long this tree takes,
by the clock and of the processor, and ends with 1 if by one of them something takes more than 15 % longer
(`--tolerance 0.15`) in the median of seven rounds (`--repeat`) and longer in three rounds of four. It works in memory,
where there is `/dev/shm`, so that the disk's moods are not measured. Run it on a quiet machine; run what it reports
again with `--only`.
"""


def page(
    results: Mapping[str, Result],
    workloads: Mapping[str, ModuleType],
    plots: Iterable[str],
    releases: Mapping[str, Mapping[str, float]],
) -> str:
    """The page. ``plots`` has the names of workloads that have a picture; ``releases`` the medians of each release."""
    drawn = set(plots)
    shown = [(name, module, results[name]) for name, module in workloads.items() if name in results]
    parts = [_INTRO.strip(), _commits(shown), _summary(shown, releases)]
    parts += [_section(result, module, drawn=name in drawn) for name, module, result in shown]
    missing = [f"`{name}`" for name in workloads if name not in results]
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.")
    parts.append(_GATE.strip())
    return "\n\n".join(parts) + "\n"


def _commits(shown: list[tuple[str, ModuleType, Result]]) -> str:
    """Whether all figures are of one commit; else which are of which."""
    names: dict[str, list[str]] = {}
    for name, _, result in shown:
        names.setdefault(result.run["commit"], []).append(f"`{name}`")
    if len(names) == 1:
        return f"All was measured at commit {next(iter(names))}."
    commits = "; ".join(f"at {commit} {', '.join(names[commit])}" for commit in names)
    return f"The workloads were not measured at one commit: {commits}."


def _summary(shown: list[tuple[str, ModuleType, Result]], releases: Mapping[str, Mapping[str, float]]) -> str:
    """The ratios of which something is asked, and what they were in each release."""
    rows = [
        f"| {module.TITLE}: {ratio.what} | {_cells(ratio)} |{_history(name_of(result, ratio), ratio, releases)}"
        for _, module, result in shown
        for ratio in result.ratios
        if ratio.target is not None
    ]
    head = f"{_RATIOS}{''.join(f' {version} |' for version in releases)}"
    return "\n".join(["## Targets", head, f"{_LINE}{'--:|' * len(releases)}", *rows])


def _history(name: str, ratio: Ratio, releases: Mapping[str, Mapping[str, float]]) -> str:
    medians = [releases[version].get(name) for version in releases]
    return "".join("  |" if median is None else f" {_number(median)} {ratio.unit} |" for median in medians)


_RATIOS = "| what | against | median | lowest – highest | target | met |"
_LINE = "|---|---|--:|--:|--:|---|"


def _cells(ratio: Ratio) -> str:
    low, high = min(ratio.values), max(ratio.values)
    spread = f"{_number(low)} – {_number(high)}"
    if ratio.target is None:
        target, met = "", ""
    else:
        target = f"{'≤' if ratio.at_most else '≥'} {_number(ratio.target)} {ratio.unit}"
        met = ("yes" if ratio.met else "**no**") + (", within the spread" if ratio.doubtful else "")
    return f"{ratio.against} | {_number(ratio.median)} {ratio.unit} | {spread} | {target} | {met}"


def _section(result: Result, module: ModuleType, *, drawn: bool) -> str:
    lines = [f"## {module.TITLE}", module.TEXT.strip(), ""]
    run = result.run
    lines.append(
        f"*Measured {run['when']} at {run['commit']} by `{run['command']}`; {_others(run)}. "
        f"{run['machine']}.*"
    )
    lines += [f"*{note}*" for note in result.notes]
    if drawn:
        lines += ["", f"![{module.TITLE}](benchmarks/{result.name}.png)"]
    if result.ratios:
        lines += ["", _RATIOS, _LINE, *(f"| {ratio.what} | {_cells(ratio)} |" for ratio in result.ratios)]
    for unit in dict.fromkeys(figure.unit for figure in result.figures):
        lines += ["", *_figures([figure for figure in result.figures if figure.unit == unit], unit)]
    return "\n".join(lines)


def _others(run: Mapping[str, Any]) -> str:
    cores = run["others"]
    return f"others kept {_number(cores) or 'an unknown number of'} cores busy"


def _figures(figures: list[Figure], unit: str) -> list[str]:
    """Cases down, contenders across."""
    across = list(dict.fromkeys(figure.contender for figure in figures))
    cells = {(figure.case, figure.contender): _number(figure.median) for figure in figures}
    return [
        f"| {unit} | {' | '.join(across)} |",
        f"|---|{'--:|' * len(across)}",
        *(
            f"| {case} | {' | '.join(cells.get((case, one), '') for one in across)} |"
            for case in dict.fromkeys(figure.case for figure in figures)
        ),
    ]


def _number(value: float) -> str:
    """Three digits that matter, without an exponent."""
    if value != value:  # noqa: PLR0124  (NaN)
        return ""
    digits = next((digits for digits, low in ((0, 99.95), (1, 9.995), (2, 0.0995)) if abs(value) >= low), 3)
    return f"{value:,.{digits}f}"


def write(path: Path, text: str) -> None:
    """Replace the page."""
    path.write_text(text, encoding="utf-8")
