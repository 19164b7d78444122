"""``eoslog tables``, and the step of ``eoslog maintain`` that publishes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("deltalake", reason="the extra 'tables' is not installed")

from deltalake import DeltaTable

from spark_eos.cli.command import main
from spark_eos.errors import StoreUnavailableError
from spark_eos.extensions.tables.publisher import Publisher
from tests.extensions.tables.world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "log")


def run(capsys, *arguments, code=0):
    assert main(arguments) == code
    return capsys.readouterr()


def json_lines(capsys, *arguments):
    return [json.loads(line) for line in run(capsys, *arguments, "--json").out.splitlines()]


def test_a_table_that_another_program_has_changed_is_not_made_again_in_silence(world, capsys, caplog):
    """Its earlier versions are gone by that. What is asked for is no surprise."""
    run(capsys, "tables", "create", world.url, "--name", "p", "--topic", "events")
    world.write(2)
    run(capsys, "tables", "publish", world.url, "--name", "p")
    run(capsys, "tables", "publish", world.url, "--name", "p", "--rebuild")
    assert caplog.messages == []
    (table,) = json_lines(capsys, "tables", "list", world.url)
    DeltaTable(table["location"]).delete()
    run(capsys, "tables", "publish", world.url, "--name", "p")
    (said,) = caplog.messages
    assert "another program" in said
    assert said.endswith("it is published again as a whole, and its earlier versions are gone")
    assert DeltaTable(table["location"]).to_pyarrow_table().num_rows == 4


def test_from_a_topic_to_a_version_and_back(world, capsys):
    made = run(
        capsys,
        "tables",
        "create",
        world.url,
        "--name",
        "p",
        "--topic",
        "events,orders",
        "--retention-ms",
        "5",
    )
    assert made.out.startswith("publication p of events, orders")
    world.write(2)
    said = run(capsys, "tables", "publish", world.url, "--name", "p").out
    assert said.startswith("published: version 1 of p, entry ")
    assert "(events 0, orders 0)" in said
    assert run(capsys, "tables", "publish", world.url, "--name", "p").out.startswith("up to date: version 1")
    first, second = json_lines(capsys, "tables", "list", world.url)
    assert (first["topic"], second["topic"], first["retention_ms"]) == ("events", "orders", 5)
    assert DeltaTable(first["location"]).to_pyarrow_table().num_rows == 4
    (version,) = json_lines(capsys, "tables", "versions", world.url, "--name", "p", "--topic", "events")
    assert (version["version"], version["entry"], version["offsets"]) == (
        0,
        first["entry"],
        {"0": [0, 2], "1": [0, 2]},
    )
    entry = str(first["entry"] + 5)
    table = run(
        capsys, "tables", "versions", world.url, "--name", "p", "--topic", "events", "--entry", entry
    ).out
    assert table.splitlines()[1].split()[:4] == ["events", "0", "1", str(first["entry"])]
    assert run(capsys, "tables", "list", world.url).out.splitlines()[0].split()[0] == "PUBLICATION"
    rebuilt = run(capsys, "tables", "publish", world.url, "--name", "p", "--rebuild", "--json").out
    assert json.loads(rebuilt)["sequence"] == 2
    assert run(capsys, "tables", "drop", world.url, "--name", "p").out == "publication p is dropped\n"
    assert json_lines(capsys, "tables", "list", world.url) == []


def test_refusals_are_one_line(world, capsys):
    assert "no publication 'p'" in run(capsys, "tables", "publish", world.url, "--name", "p", code=1).err
    create = ("tables", "create", world.url, "--name", "p", "--topic", "orders")
    assert "location" in run(capsys, *create, "--mode", "copied", code=1).err
    with pytest.raises(SystemExit):
        main((*create, "--config", "x"))
    assert "is not NAME=VALUE" in capsys.readouterr().err
    run(capsys, *create)
    assert (
        "--topic" in run(capsys, "tables", "versions", world.url, "--name", "p", "--entry", "3", code=1).err
    )


def test_maintenance_publishes(world, capsys):
    world.tables.create("p", ["orders"])
    world.write(2)
    maintain = ("maintain", world.url, "--only", "publish")
    assert run(capsys, *maintain, "--dry-run").out.split(maxsplit=1)[1] == "would publish p\n"
    assert run(capsys, *maintain).out.split(maxsplit=1)[1].startswith("published p (entry ")
    assert run(capsys, *maintain).out.split(maxsplit=1)[1] == "nothing to do\n"
    assert world.check(topics=["orders"]) == 1


def test_every_few_seconds_until_it_is_stopped(world):
    world.tables.create("p", ["orders"])
    command = [
        sys.executable,
        "-m",
        "spark_eos",
        "tables",
        "publish",
        world.url,
        "--name",
        "p",
        "--every",
        "0.1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        for _ in range(2):
            world.write(1)
            assert program.stdout.readline().startswith("published: version ")
        os.kill(program.pid, signal.SIGTERM)
        _, said = program.communicate(timeout=300)
    assert program.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM; nothing is left half done" in said
    assert world.check(topics=["orders"]) >= 2


def test_a_publisher_that_stays_outlasts_an_error_that_may_pass(world, capsys, monkeypatch):
    run(capsys, "tables", "create", world.url, "--name", "p", "--topic", "events")
    publish, tries = Publisher.publish, []

    def published(self, **options):
        tries.append(self)
        if len(tries) == 1:
            raise StoreUnavailableError("the store does not answer")
        return publish(self, **options)

    def sleep(*_arguments):
        if len(tries) == 2:
            raise SystemExit(0)

    monkeypatch.setattr(Publisher, "publish", published)
    monkeypatch.setattr("spark_eos.extensions.tables.cli.sleep", sleep)
    shown = run(capsys, "tables", "publish", world.url, "--name", "p", "--every", "60")
    assert shown.err == "eoslog: the store does not answer [STORE_UNAVAILABLE]\n"
    assert shown.out.startswith("published: version 1 of p, entry ")
    tries.clear()
    assert "does not answer" in run(capsys, "tables", "publish", world.url, "--name", "p", code=1).err
