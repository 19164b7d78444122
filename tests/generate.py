"""What is written from the code: ``scripts/generate`` writes it again, and says what has changed.

What a machine, a server or all tests have to be asked for has a command of its own: ``scripts/conformance``,
``scripts/mutants``, ``scripts/test-matrix``, ``scripts/kafka_options.py``.
"""

# ruff: noqa: T201  (a program that prints)

from __future__ import annotations

from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (
    "tests.protocol.index",
    "scripts.cli_page",
    "scripts.kafka_commands",
    "scripts.metrics_page",
    "scripts.sizing_page",
    "tests.kafka.clients_table",
    "tests.config.pages",
    "tests.spark.changed",
    "tests.spark.coming_from_kafka",
    "tests.spark.test_spark_types",
    "tests.spark_facts.page",
)
"""Modules with ``PAGES``, or ``PAGE``, and ``page(text)``, which makes of the text of one what it has to be.

The first is code, which the others load.
"""


def stale(module: str, *, write: bool = False) -> list[Path]:
    """The pages of a module of `PAGES` that are not what they have to be."""
    assert module in PAGES
    made = import_module(module)
    found = []
    for path in getattr(made, "PAGES", None) or [made.PAGE]:
        text = path.read_text("utf-8")
        if (wanted := made.page(text)) != text:
            found.append(path.relative_to(ROOT))
            if write:
                path.write_text(wanted, "utf-8")
    return found


if __name__ == "__main__":
    written = [str(path) for module in PAGES for path in stale(module, write=True)]
    written += import_module("tests.golden.make").main()
    print(f"written: {', '.join(written) or 'nothing, all is as it was'}")
