"""The pages of the reference that have tables of options: ``scripts/generate`` writes the tables.

A table stands between two comments, ``<!-- options: KIND -->`` and ``<!-- end -->``; all else is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from spark_eos.config.consumer import CONSUMER
from spark_eos.config.log import LOG
from spark_eos.config.producer import PRODUCER
from spark_eos.config.reference import markdown
from spark_eos.config.sink import SINK
from spark_eos.config.source import SOURCE
from spark_eos.config.store import STORE
from spark_eos.config.topic import TOPIC

TABLES = {
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "topic": TOPIC,
    "log": LOG,
    "source": SOURCE,
    "sink": SINK,
    "store": STORE,
}
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = (REFERENCE / "options.md", REFERENCE / "topic-settings.md")

_TABLE = re.compile(r"<!-- options: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def kinds(text: str) -> list[str]:
    """The tables that a page has."""
    return [found[1] for found in _TABLE.finditer(text)]


def page(text: str) -> str:
    """The page with its tables as they are now."""
    return _TABLE.sub(lambda at: f"<!-- options: {at[1]} -->\n{markdown(TABLES[at[1]])}\n<!-- end -->", text)
