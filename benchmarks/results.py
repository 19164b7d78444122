"""What the workloads found, as JSON: a run of some of them replaces these and leaves the others."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ratio:
    """One comparison: a value for each pair of runs, and what it should be (None: nothing is asked of it)."""

    what: str
    against: str
    values: tuple[float, ...]
    target: float | None = None
    at_most: bool = False
    unit: str = "×"

    @property
    def median(self) -> float:
        """The value that counts."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.median <= self.target if self.at_most else self.median >= self.target

    @property
    def doubtful(self) -> bool:
        """Whether some pairs reach the target and others do not."""
        if self.target is None:
            return False
        return min(self.values) < self.target < max(self.values)


@dataclass(frozen=True)
class Figure:
    """What one contender did in one case, absolute: context for the ratios."""

    case: str
    contender: str
    values: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        """The value that is shown."""
        return statistics.median(self.values)


@dataclass
class Result:
    """All that one workload found.

    ``curves``: points by name, for plots over time. ``notes``: sentences for the page that depend on this run.
    ``run``: how it was measured (commit, day, command, machine, and how many cores others kept busy).
    """

    name: str
    ratios: list[Ratio] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    run: dict[str, Any] = field(default_factory=dict)


def load(path: Path) -> dict[str, Result]:
    """The results that were kept; none if there is no such file."""
    if not path.exists():
        return {}
    return {name: _result(found) for name, found in json.loads(path.read_text(encoding="utf-8")).items()}


def save(path: Path, results: dict[str, Result]) -> None:
    """Keep the results, with four digits each."""
    text = json.dumps({name: _rounded(asdict(result)) for name, result in results.items()}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def load_releases(path: Path) -> dict[str, dict[str, float]]:
    """The medians that each release had, by `name_of`; the oldest release first."""
    if not path.exists():
        return {}
    found: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def keep_release(path: Path, version: str, results: dict[str, Result]) -> None:
    """Keep the medians as those of a release."""
    medians = {name_of(result, ratio): ratio.median for result in results.values() for ratio in result.ratios}
    releases = {**load_releases(path), version: medians}
    path.write_text(json.dumps(_rounded(releases), indent=1) + "\n", encoding="utf-8")


def name_of(result: Result, ratio: Ratio) -> str:
    """The name of a ratio in all releases."""
    return f"{result.name}: {ratio.what}, against {ratio.against}"


def _result(found: dict[str, Any]) -> Result:
    return Result(
        name=found["name"],
        ratios=[Ratio(**{**ratio, "values": tuple(ratio["values"])}) for ratio in found["ratios"]],
        figures=[Figure(**{**figure, "values": tuple(figure["values"])}) for figure in found["figures"]],
        curves={name: [(x, y) for x, y in points] for name, points in found["curves"].items()},
        notes=found["notes"],
        run=found["run"],
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return value
