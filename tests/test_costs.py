"""The sums of docs/guide/costs.md are what comes of the table of measurements and the prices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs/guide/costs.md").read_text(encoding="utf-8")
PUT, GET = 5.00 / 1e6, 0.40 / 1e6


def cells(line):
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def lines(after, before):
    part = PAGE.split(after, 1)[1].split(before, 1)[0]
    return [cells(line) for line in part.splitlines() if re.match(r"\| \d+ ", line)]


MEASURED = {row[0]: row for row in lines("<!-- measured: begin -->", "<!-- measured: end -->")}
BILLED = {row[0]: row for row in lines("## Money", "The same GB elsewhere")}


def number(text):
    return float(text.replace(",", ""))


@pytest.mark.parametrize("name", BILLED)
def test_a_million_records_cost_what_their_requests_cost(name):
    _, put, get, _, price = BILLED[name]
    assert number(price) == pytest.approx(number(put) * PUT + number(get) * GET, abs=0.0005)


@pytest.mark.parametrize("name", BILLED)
def test_the_requests_are_those_that_were_measured_and_one_to_retire_each_entry(name):
    _, put, get, *_ = BILLED[name]
    measured = [float(cell) for cell in MEASURED[name][4:6]]
    entries = measured[0] - 1  # A transaction is one file, and its share of an entry.
    assert number(put) == pytest.approx(1000 * (measured[0] + entries), abs=1)
    assert number(get) == pytest.approx(1000 * measured[1], abs=1)


def test_all_are_there():
    assert (
        {*BILLED} == {"1 process", "4 processes", "16 processes", "16 threads of one process"} < {*MEASURED}
    )
