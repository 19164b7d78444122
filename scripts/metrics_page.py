"""The table of all metrics in docs/reference/metrics.md; scripts/generate writes it.

It comes from `spark_eos.extensions.metrics.table`. What stands outside of the two marks of the page is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spark_eos.extensions.metrics.metric import LABELS, Metric, Source
from spark_eos.extensions.metrics.table import METRICS

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/metrics.md"
BEGIN = "<!-- Written by scripts/metrics_page.py from spark_eos/extensions/metrics/table.py. Do not edit. -->"
END = "<!-- End of what is written by scripts/metrics_page.py. -->"

TITLES = {
    Source.LOG: "Of logs, by `eoslog metrics`",
    Source.STORE: "Of stores, by `eoslog metrics` and `MeasuredStore`",
    Source.CLIENT: "Of producers, consumers and open logs, by `register`",
    Source.QUERY: "Of Spark queries, by `register` with a `ProgressListener`",
}


def page(text: str) -> str:
    """The page with the part between the marks as it should be."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([before + BEGIN, *_tables(), END + after])


def _tables() -> Iterator[str]:
    for source, title in TITLES.items():
        yield from (
            "",
            f"## {title}",
            "| Prometheus | OpenTelemetry | kind, unit | labels | meaning |",
            "|---|---|---|---|---|",
        )
        yield from (_row(metric) for metric in METRICS.values() if metric.source is source)
    yield from ("", "## Labels", "| Prometheus | OpenTelemetry | meaning |", "|---|---|---|")
    yield from (f"| `{short}` | `{name}` | {meaning} |" for name, (short, meaning) in LABELS.items())
    yield ""


def _row(metric: Metric) -> str:
    unit = f", {metric.unit.strip('{}')}" if metric.unit else ""
    labels = ", ".join(f"`{label}`" for label in metric.prometheus_labels)
    meaning = f"{metric.meaning}. Also: {metric.like}." if metric.like else f"{metric.meaning}."
    return (
        f"| `{metric.prometheus_name}` | `{metric.name}` | {metric.kind.value}{unit} | {labels} | {meaning} |"
    )
