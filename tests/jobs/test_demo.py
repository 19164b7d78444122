"""The demo's comparing finds whatever is wrong, and its exit status says so."""

from __future__ import annotations

import tempfile

import demo_flights
import duckdb
import pyarrow as pa
import pytest
from demo_check import Check, check_topic, expect, partition_of_key
from demo_process import JobFailedError

from spark_eos.log.data.murmur import murmur2

PARTITIONS = 4
TOPICS = ("flights", "departures", "cancelled")


@pytest.fixture(scope="module")
def database(flights):
    with duckdb.connect() as connection:
        expect(connection, flights.flights, flights.airlines, flights.rows, PARTITIONS)
        yield connection


def exact(database, topic):
    """What a faultless job would have written: with gaps in the offsets, as markers make them."""
    query = f'SELECT partition, position * 2 AS "offset", key, value FROM expected_{topic} ORDER BY ALL'
    return database.sql(query).to_arrow_table()


def changed(table, column, row, value):
    values = table.column(column).to_pylist()
    values[row] = value
    array = pa.array(values, table.schema.field(column).type)
    return table.set_column(table.schema.get_field_index(column), column, array)


def swapped(table):
    """Two neighbours in a partition change places."""
    partitions = table.column("partition").to_pylist()
    at = next(row for row in range(len(partitions)) if partitions[row] == partitions[row + 1])
    for column in ("key", "value"):
        first, second = table.column(column)[at : at + 2].to_pylist()
        table = changed(changed(table, column, at, second), column, at + 1, first)
    return table


TAMPERINGS = {
    "lost": lambda table: table.slice(1),
    "doubled": lambda table: pa.concat_tables([table, table.slice(7, 1)]),
    "one doubled for one lost": lambda table: pa.concat_tables([table.slice(1), table.slice(7, 1)]),
    "another value": lambda table: changed(table, "value", 5, table.column("value")[5].as_py() + " "),
    "another key": lambda table: changed(table, "key", 5, "XX"),
    "no key": lambda table: changed(table, "key", 5, None),
    "another partition": lambda table: changed(
        table, "partition", 5, 3 - table.column("partition")[5].as_py()
    ),
    "another order": swapped,
    "nothing": lambda table: table.slice(0, 0),
}


def test_all_flights_are_expected_once(database, flights):
    counts = [exact(database, topic).num_rows for topic in TOPICS]
    assert counts[0] == flights.rows == counts[1] + counts[2]
    assert counts[2] > 0


@pytest.mark.parametrize("topic", TOPICS)
def test_the_exact_output_passes(database, topic, capsys):
    checks = check_topic(database, topic, exact(database, topic))
    assert demo_flights.report(checks)
    assert "NO" not in capsys.readouterr().out


@pytest.mark.parametrize("tampering", TAMPERINGS)
@pytest.mark.parametrize("topic", TOPICS)
def test_a_tampered_output_does_not(database, topic, tampering, capsys):
    table = TAMPERINGS[tampering](exact(database, topic))
    checks = check_topic(database, topic, table)
    assert not demo_flights.report(checks)
    assert "NO" in capsys.readouterr().out


def test_lost_and_doubled_do_not_cancel_out(database):
    found = TAMPERINGS["one doubled for one lost"](exact(database, "flights"))
    _, missing, surplus, _ = check_topic(database, "flights", found)
    assert (missing.found, surplus.found) == (1, 1)


@pytest.mark.parametrize("length", range(9))
def test_keys_are_where_kafka_puts_them(length):
    key = bytes(range(200, 200 + length))
    assert partition_of_key(key, 2**31) == int(murmur2(pa.array([key]))[0]) & 0x7FFFFFFF


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """The demo's folders are made here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_exit_status_is_zero_only_if_all_is_exact(monkeypatch, capsys, elsewhere):
    good, bad = Check("rows", 3, 3), Check("rows", 3, 4)
    for checks, status in (([good], 0), ([good, bad], 1)):
        monkeypatch.setattr(demo_flights.Demo, "run", lambda _, checks=checks: checks)
        assert demo_flights.main([]) == status
        assert len(list(elsewhere.iterdir())) == status  # what went wrong can be looked at
    assert "everything is exact" in capsys.readouterr().out


@pytest.mark.usefixtures("elsewhere")
def test_a_job_that_fails_is_a_failure(monkeypatch, capsys):
    def fail(_):
        raise JobFailedError("ingest ended with status 1")

    monkeypatch.setattr(demo_flights.Demo, "run", fail)
    assert demo_flights.main([]) == 1
    assert "ingest ended with status 1" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--rows", "999"), ("--log", "{folder}")])
def test_what_the_demo_cannot_do_it_refuses(option, value, capsys, elsewhere):
    (elsewhere / "something").touch()
    with pytest.raises(SystemExit) as ended:
        demo_flights.main([option, value.format(folder=elsewhere)])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err
