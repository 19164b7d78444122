"""The tables of the reference are those of the code."""

from __future__ import annotations

from spark_eos.config.log import LOG
from spark_eos.config.reference import in_force, markdown
from spark_eos.config.sink import SINK
from tests.config.pages import PAGES, TABLES, kinds
from tests.generate import stale


def test_the_pages_are_current():
    assert stale("tests.config.pages") == [], "scripts/generate writes them"


def test_each_table_is_on_one_page():
    assert sorted(kind for page in PAGES for kind in kinds(page.read_text("utf-8"))) == sorted(TABLES)


def test_a_row_of_a_page():
    assert "| `linger.ms` | a whole number from 0 up | `5` |" in markdown(TABLES["producer"])
    assert "| streams | Spark | 0.1.0 |" in markdown(SINK)


def test_settings_in_force():
    rows = {row.name: row for row in in_force(LOG, {"offsets.retention.minutes": "5", "of.later": "x"})}
    assert list(rows) == sorted([*LOG, "of.later"])
    assert rows["offsets.retention.minutes"][1:3] == ("5", "10080")
    assert rows["producer.id.expiration.ms"].value == "86400000"
    assert rows["of.later"][1:] == ("x", "", "")
    of_one = {"health.lag.max.ms": "9", "health.lag.max.ms:nightly": "5"}
    rows = {row.name: row for row in in_force(LOG, of_one)}
    assert rows["health.lag.max.ms:nightly"][1:3] == ("5", "9"), "else the limit of all holds"
